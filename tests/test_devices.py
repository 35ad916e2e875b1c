"""Every experiment on a GPU that is none: what would break on a real one breaks here."""

import inspect
import json

import numpy as np
import pytest
import torch

from dplib import clipping, dpsgd, models, plans, replay, runs, trainings
from dplib.architecture.objpert import fit
from dplib.labels import staged
from tests import stand_in_gpu

EXPERIMENTS = plans.experiments()
ON_GPU = [name for name, one in EXPERIMENTS.items() if "device" in inspect.signature(one).parameters]
# Objective perturbation of small tables, a line with two parameters, linear classifiers that are mostly in NumPy:
# nothing that a GPU would make much faster.
SMALL = {"feature_budget", "feature_checks", "feature_table", "feature_pafs", "annealed_line", "label_later"}
SHORTER = {"annealed": {"queries": 60}, "dfs_network": {"settings": [["variance", 5.0]]}}  # than the probe
JOBS = [  # (experiment, changes to its probe)
    *((name, SHORTER.get(name, {})) for name in ON_GPU),
    ("annealed", {"energy": "batch", "held": 0, "queries": 20, "witness_every": 10}),
    ("screening_canaries", {"judged": "training", "accepted": 6}),
    (
        "label_stages",
        {"network": "small-cnn", "start": "digits", "flip": True, "cutout": 2, "epochs": 1, "n_train": 900},
    ),
    ("network", {"frozen": [0], "model": "cnn", "features": "image", "steps": 4, "evaluate_every": 2, "dropout": 0.0}),
    ("network", {"dataset": "synthetic-messages", "model": "lstm-4-8", "steps": 6, "batch": 60}),
]


@pytest.fixture
def stand_in():
    with stand_in_gpu.present() as memory:
        yield memory


@pytest.mark.parametrize(("name", "changes"), JOBS)
def test_an_experiment_runs_on_a_gpu(name, changes, tmp_path, monkeypatch):
    """All of its products are made there, and the numbers are those of the processor."""
    function = EXPERIMENTS[name]
    job = {**function.experiment.probe, **changes}
    monkeypatch.setattr(staged, "PRETRAINED", tmp_path)
    due = function(**job) if changes else replay.stored_probes()[name]["result"]
    with stand_in_gpu.present() as gpu:
        found = function(**job, device="cuda")
    assert list(replay.differences(_plain(due), _plain(found), replay.TOLERANCE)) == []
    assert gpu.products["cuda"] > 20
    assert gpu.products["cpu"] == 0


def _plain(result):
    return json.loads(json.dumps(result))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ON_GPU)
def test_an_experiment_runs_on_this_gpu(name):
    function = EXPERIMENTS[name]
    found = function(**runs.as_called(function.experiment.probe), device="cuda")
    assert set(found) == set(replay.stored_probes()[name]["result"])


def test_pretrained_weights_are_made_once(tmp_path, monkeypatch):
    monkeypatch.setattr(staged, "PRETRAINED", tmp_path)
    settings = {"epochs": 1, "batch_size": 200, "learning_rate": 0.1}
    job = "digits", "small-cnn", 3, settings, torch.device("cpu")
    first = staged._pretrained(*job)
    monkeypatch.setattr(staged.training, "fit", lambda *_, **__: pytest.fail("trained again"))
    assert all(torch.equal(first[name], value) for name, value in staged._pretrained(*job).items())
    with pytest.raises(pytest.fail.Exception, match="trained again"):
        staged._pretrained(*job[:2], 4, *job[3:])


def test_chapter_3_of_old(stand_in):
    """Training on a GPU leaves the network there, and a look at its weights ends in a TypeError."""
    net = trainings.network([], (4,), 3, "relu", 0.0, 1)
    np.column_stack([p.detach().numpy().reshape(3, -1) for p in net.parameters()])
    data = dpsgd.Data((np.ones((8, 4), np.float32), np.zeros(8, np.int64)))
    settings = dpsgd.DPSGD(1, 1.0, 0.7, 3.0, 0.5)
    dpsgd.train(net, data, settings, np.random.default_rng(9), progress=False, device="cuda")
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        np.column_stack([p.detach().numpy().reshape(3, -1) for p in net.parameters()])
    dpsgd.train(net, data, settings, np.random.default_rng(9), progress=False)
    np.column_stack([p.detach().numpy().reshape(3, -1) for p in net.parameters()])


def test_private_sums_take_float32_as_it_is():
    kinds, seen = (torch.backends.cudnn, torch.backends.cuda.matmul), []

    def loss(outputs, y):
        seen.append([kind.allow_tf32 for kind in kinds])
        return dpsgd.cross_entropy(outputs, y)

    before = [kind.allow_tf32 for kind in kinds]
    net = torch.nn.Sequential(torch.nn.Linear(3, 2))
    sums = clipping.ClippedSums(net, {p: torch.zeros_like(p) for p in net.parameters()})
    try:
        for kind in kinds:
            kind.allow_tf32 = True
        sums.add(torch.ones(4, 3), torch.zeros(4, dtype=torch.long), loss, torch.ones_like)
        assert [kind.allow_tf32 for kind in kinds] == [True, True]
    finally:
        for kind, allowed in zip(kinds, before, strict=True):
            kind.allow_tf32 = allowed
    assert seen == [[False, False]]


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
    assert fit(np.eye(3), [0, 1, 1], epsilon=1.0, norm_bound=1.0, rng=np.random.default_rng(0)).converged.all()


def test_without_a_gpu_one_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    net = models.rwt_cnn()
    with pytest.raises(dpsgd.ParameterError, match="device = 'cuda' is not allowed: PyTorch sees no GPU here"):
        dpsgd.train(net, dpsgd.Data((np.zeros((1, 1)), [0])), dpsgd.DPSGD(1, 1.0, 1.0), None, device="cuda")
