"""The stand-in GPU refuses what a GPU refuses, and reports what a GPU would do without a word."""

import inspect
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

import joblib
import numpy as np
import pytest
import torch
from torch import nn

from book.evidence import runs, workers
from dplib import clipping, dpsgd, layers, logistic_grid, sums
from dplib.dpsgd import DPSGD
from dplib.objpert import fit
from tests import run_toys, stand_in_gpu

LARGE = 2**20
STEPS = 6


@pytest.fixture
def stand_in():
    with stand_in_gpu.present() as memory:
        yield memory


@pytest.fixture
def matmul_precision():
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def here():
    return torch.ones(3, 3)


def there():
    return torch.ones(3, 3, device="cuda")


@pytest.mark.parametrize(
    "mixed",
    [
        lambda: here() @ there(),
        lambda: here() + there(),
        lambda: torch.cat([here(), there()]),
        lambda: there().index_select(0, torch.tensor([1])),
        lambda: here()[torch.tensor([1], device="cuda")],
        lambda: torch.zeros(()).add_(there().sum()),
        lambda: torch.nn.Linear(3, 3)(there()),
        lambda: torch.nn.functional.cross_entropy(there(), torch.zeros(3, dtype=torch.long)),
        lambda: torch.equal(torch.nn.Linear(3, 3).cuda().weight, torch.nn.Linear(3, 3).weight),
    ],
)
def test_two_devices_are_refused(stand_in, mixed):
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        mixed()
    with pytest.raises(TypeError, match="can't convert cuda:0"):
        np.asarray(there())


def test_a_generator_of_the_other_device_is_refused(stand_in):
    for draw in (
        lambda: there().normal_(generator=torch.Generator()),
        lambda: here().normal_(generator=torch.Generator("cuda")),
        lambda: torch.randn(3, device="cuda", generator=torch.Generator()),
    ):
        with pytest.raises(RuntimeError, match="device type for generator"):
            draw()


def test_what_a_gpu_allows(stand_in):
    given = np.zeros(3, np.float32)
    moved = torch.as_tensor(given, device="cuda").add_(1)
    assert given.sum() == 0, "a GPU's tensor shares no memory with the processor's"
    assert moved.is_cuda
    assert moved.cpu().numpy().sum() == 3
    assert (there() * torch.tensor(2.0)).device.type == "cuda"
    assert there()[torch.tensor([0, 2])].is_cuda
    assert here().copy_(there()).device.type == "cpu"
    weight = torch.ones(3, 3, device="cuda", requires_grad=True)
    (weight @ there()).sum().backward()
    assert weight.grad.is_cuda
    assert torch.nn.Linear(3, 3).to("cuda").weight.new_empty(2).is_cuda
    assert torch.nn.functional.one_hot(torch.arange(3, device="cuda"), 4).is_cuda
    assert fit(np.eye(3), [0, 1, 1], epsilon=1.0, norm_bound=1.0, rng=np.random.default_rng(0)).converged.all()


WAITS = {  # name: (what is done with a tensor of the GPU, how often the host waits)
    "float": (float, 1),
    "item": (torch.Tensor.item, 1),
    "if any": (lambda x: 1 if (x > 0).any() else 0, 1),
    "cpu": (torch.Tensor.cpu, 1),
    "list": (torch.Tensor.tolist, 1),
    "nonzero": (torch.nonzero, 1),
    "where": (lambda x: torch.where(x > 0), 1),
    "mask": (lambda x: x[x > 0], 1),
    "mask that is written to": (lambda x: x.index_put_((x > 0,), torch.ones(1, device="cuda")), 1),
    "the processor's index": (lambda x: x[torch.tensor([0])], 1),
    "unique": (torch.unique, 1),
    "equal": (lambda x: torch.equal(x, x), 1),
    "repeats": (lambda x: x.repeat_interleave(x.long()), 1),
    "copied back": (lambda x: torch.zeros(1).copy_(x), 1),
    "copied there": (lambda x: torch.zeros(1).to("cuda"), 1),
    "made of the processor's numbers": (lambda x: torch.tensor([1.0], device="cuda"), 1),
    "alike, of the processor's numbers": (lambda x: x.new_tensor([1.0]), 1),
    "not pinned": (lambda x: torch.zeros(1).to("cuda", non_blocking=True), 1),
    "pinned, but waited for": (lambda x: torch.zeros(1).pin_memory().to("cuda"), 1),
    "synchronize": (lambda x: torch.cuda.synchronize(), 1),
    "pinned": (lambda x: torch.zeros(1).pin_memory().to("cuda", non_blocking=True), 0),
    "pinned, copied": (lambda x: x.copy_(torch.zeros(1, pin_memory=True), non_blocking=True), 0),
    "not waited for": (lambda x: x.to("cpu", non_blocking=True), 0),
    "shapes and kinds": (lambda x: (x.shape, x.device, len(x), x.dtype), 0),
    "made there": (lambda x: torch.zeros(3, device="cuda"), 0),
    "the GPU's index": (lambda x: x[x.long() - 1], 0),
    "a chosen number": (lambda x: torch.where(x > 0, x, 0.0), 0),
    "one hot": (lambda x: torch.nn.functional.one_hot(x.long(), 3), 0),
    "a known number of repeats": (lambda x: x.repeat_interleave(x.long(), output_size=1), 0),
    "products": (lambda x: (x.view(1, 1) @ x.view(1, 1)).sum(), 0),
    "random": (lambda x: torch.nn.functional.dropout(x.normal_()), 0),
}


@pytest.mark.parametrize("name", WAITS)
def test_waits_of_the_host_are_counted(stand_in, name):
    work, due = WAITS[name]
    x = torch.ones(1, device="cuda")
    before = stand_in.waits.total()
    work(x)
    assert stand_in.waits.total() - before == due
    torch.cuda.set_sync_debug_mode("error")
    if due:
        with pytest.raises(RuntimeError):
            work(x)
    else:
        work(x)


def test_a_wait_names_its_line(stand_in):
    float(there().sum())
    (place,) = stand_in.waits
    assert place.startswith("test_stand_in_gpu.py:")
    assert place.endswith("test_a_wait_names_its_line")


@pytest.mark.parametrize(
    "asks",
    [
        lambda: torch.empty(2**38, device="cuda"),
        lambda: torch.ones(LARGE, 1, device="cuda") * torch.ones(1, LARGE, device="cuda"),
        lambda: torch.ones(256, 2**15, 1, device="cuda") @ torch.ones(256, 1, 2**15, device="cuda"),
        lambda: torch.ones(LARGE, device="cuda").repeat(LARGE),
        lambda: torch.ones(1, device="cuda").expand(2**38).clone(),
        lambda: torch.ones(1, device="cuda").new_zeros(2**38),
    ],
)
def test_more_memory_than_there_is(stand_in, asks):
    with pytest.raises(torch.OutOfMemoryError):
        asks()
    assert stand_in.bytes == 0


def test_memory_is_counted_while_it_is_held(stand_in):
    first = torch.zeros(1000, device="cuda")
    view, second = first[:10], first + 1
    assert torch.cuda.memory_allocated() == 8000
    del first, second
    assert torch.cuda.memory_allocated() == 4000, "a view holds all of it"
    assert torch.cuda.max_memory_allocated() == 8000
    del view
    assert torch.cuda.memory_allocated() == 0


def test_memory_that_fills_up():
    with stand_in_gpu.present(capacity=10_000):
        held = [torch.zeros(1000, device="cuda") for _ in range(2)]
        with pytest.raises(torch.OutOfMemoryError):
            torch.zeros(1000, device="cuda")
        held.pop()
        torch.zeros(1000, device="cuda")


def test_shapes_without_numbers():
    with stand_in_gpu.present(numbers=False) as gpu:
        x = torch.randn(2**30, 8, device="cuda")
        assert x.is_cuda
        assert not x.is_meta
        assert float(x.sum()) == 0
        assert x[:2].cpu().tolist() == [[0.0] * 8] * 2
        assert gpu.most_bytes >= 2**35
        y = x + 1
        with pytest.raises(torch.OutOfMemoryError):
            y.exp()


def test_cuda_in_a_forked_process(stand_in):
    os.waitpid(os.fork() or os._exit(0), 0)  # nothing has asked for the GPU yet
    there()
    for fork in (
        os.fork,
        lambda: multiprocessing.get_context("fork").Process(target=here).start(),
        lambda: multiprocessing.get_context("fork").Pool(1),
        lambda: ProcessPoolExecutor(1, multiprocessing.get_context("fork")).submit(here),
        lambda: joblib.Parallel(2, backend="multiprocessing")(joblib.delayed(abs)(i) for i in range(2)),
    ):
        with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
            fork()


def test_the_generators_of_the_gpu_are_its_own(stand_in):
    before = torch.get_rng_state()
    drawn = [torch.nn.functional.dropout(there()) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), before)
    assert stand_in.faults(), "the GPU's has moved"
    torch.cuda.manual_seed_all(0)
    assert torch.equal(torch.nn.functional.dropout(there()), drawn[0])


def test_the_names_of_cuda(stand_in):
    assert torch.cuda.get_device_name()
    assert torch.cuda.get_device_properties(0).total_memory == stand_in.capacity
    assert torch.cuda.device_count() == 1
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream := torch.cuda.Stream()):
        start.record()
        end.record()
    torch.cuda.current_stream().wait_stream(stream)
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    assert torch.Generator("cuda").device.type == "cuda"


class Step:
    """A step of some weights that a graph can hold."""

    def __init__(self):
        self.weight = torch.ones(2, 2, device="cuda", requires_grad=True)
        self.x, self.noise = torch.zeros(3, 2, device="cuda"), torch.Generator("cuda").manual_seed(0)

    def __call__(self):
        (gradient,) = torch.autograd.grad((self.x @ self.weight).square().sum(), self.weight)
        with torch.no_grad():
            noise = torch.empty_like(self.weight).normal_(generator=self.noise)
            self.weight.sub_(gradient + noise, alpha=0.01)
        return gradient.norm()


def test_a_graph_repeats_what_was_captured(stand_in):
    """On numbers that are put into its memory between replays, and with new noise each time."""
    plain, step, graph = Step(), Step(), torch.cuda.CUDAGraph()
    graph.register_generator_state(step.noise)
    with torch.cuda.graph(graph):
        norm = step()
    assert torch.equal(step.weight, plain.weight), "a capture computes nothing"
    for value in (1.0, 2.0):
        for one in (plain, step):
            one.x.fill_(value)
        graph.replay()
        assert torch.equal(plain(), norm)
        assert torch.equal(plain.weight, step.weight)


@pytest.mark.parametrize(
    "refused",
    [
        lambda: float(there().sum()),
        lambda: torch.tensor([1.0], device="cuda"),
        lambda: there().normal_(generator=torch.Generator("cuda")),
        lambda: torch.cuda.synchronize(),
    ],
)
def test_what_a_graph_cannot_hold(stand_in, refused):
    with pytest.raises(RuntimeError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        refused()
    refused()  # outside of a capture it may be


# Faults that are planted: each is a change to the product, and work under which the stand-in has to report it.


def images(n=60):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, n)


def private(steps=STEPS):
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(144, 10))
    settings = DPSGD(steps, 0.2, 0.1, 1.0, 1.0)
    dpsgd.train(net, dpsgd.Data(images()), settings, np.random.default_rng(0), device="cuda", progress=False)


def grid():
    settings = [DPSGD(STEPS, 0.2, 0.1, 1.0, 1.0)]
    logistic_grid.train_grid(
        dpsgd.Data(images()), settings, np.random.default_rng(0), classes=10, device="cuda", progress=False
    )


def at_size():
    """The clipped sum of 40,000 images in one piece, by shapes alone: 88 GiB of patches, were they made at once."""
    net = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.Flatten(), nn.Linear(65536, 10)).cuda()
    clipped = clipping.ClippedSums(net, {p: torch.zeros_like(p) for p in net.parameters()})
    x, y = torch.zeros(40_000, 64, 32, 32, device="cuda"), torch.zeros(40_000, dtype=torch.long, device="cuda")
    clipped.add(x, y, dpsgd.cross_entropy, torch.ones_like)


def pooled():
    there()
    runs.make(run_toys.train, [{"size": 1, "seed": seed} for seed in range(2)], workers=2, device="cuda")


def autocast_in_the_private_step(monkeypatch):
    monkeypatch.setattr(sums, "whole_float32", lambda *_, **__: torch.autocast("cuda", torch.bfloat16))


def tf32_in_the_grid(monkeypatch):
    for owner, name in ((logistic_grid.LogisticGrid, "step"), (logistic_grid, "train_grid")):
        monkeypatch.setattr(owner, name, inspect.unwrap(getattr(owner, name)))
    torch.set_float32_matmul_precision("high")


def a_number_in_each_step(monkeypatch):
    add = clipping.ClippedSums.add
    monkeypatch.setattr(clipping.ClippedSums, "add", lambda *given: torch.tensor(float(add(*given))).cuda())


def a_pool_that_forks(monkeypatch):
    monkeypatch.setattr(workers, "get_context", lambda kind: multiprocessing.get_context("fork"))


def randomness_of_the_processor_alone(monkeypatch):
    fork_rng = torch.random.fork_rng
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: fork_rng(devices=[]))


def chunks_of_256_gib(monkeypatch):
    monkeypatch.setattr(layers, "PRODUCTS", layers.PRODUCTS._replace(gpu=2**36))


@pytest.mark.parametrize(
    ("plant", "work", "reported"),
    [
        (autocast_in_the_private_step, private, "bfloat16"),
        (tf32_in_the_grid, grid, "TF32"),
        (randomness_of_the_processor_alone, private, "generator"),
    ],
)
def test_a_planted_fault_is_reported(stand_in, plant, work, reported, monkeypatch, matmul_precision):
    work()
    assert stand_in.faults() == []
    plant(monkeypatch)
    work()
    assert reported in " ".join(stand_in.faults())


def test_planted_chunks_do_not_fit(monkeypatch):
    with stand_in_gpu.present(numbers=False):
        at_size()
        chunks_of_256_gib(monkeypatch)
        with pytest.raises(torch.OutOfMemoryError):
            at_size()


def test_a_planted_fork_is_refused(stand_in, monkeypatch, run_folder):
    a_pool_that_forks(monkeypatch)
    with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
        pooled()


def test_a_planted_wait_is_counted(monkeypatch):
    monkeypatch.setattr(clipping, "check", lambda *_: None)
    monkeypatch.setattr(clipping, "check_again", lambda *_: None)

    def waits(steps):
        with stand_in_gpu.present() as gpu:
            private(steps)
        return gpu.waits.total()

    healthy = waits(2 * STEPS) - waits(STEPS)
    a_number_in_each_step(monkeypatch)
    assert waits(2 * STEPS) - waits(STEPS) >= healthy + STEPS
