"""Examples in memory: which networks stay in the plain order, and that channels-last would break these."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from dplib import examples, models
from dplib.checks import ParameterError
from dplib.examples import Examples
from papers.common import printed
from tests import stand_in_gpu
from tests.conftest import ROOT

IMAGES = np.zeros((5, 3, 8, 8), np.float32)
# Wherever a write past a buffer is found out at once: glibc's checks, and oneDNN as on a processor without AVX-512.
CHECKED = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3", "ONEDNN_MAX_CPU_ISA": "AVX2"}
TRAIN = """
import numpy as np, torch
from torch import nn
from dplib import annealing, dpsgd, models, sgd
from papers.labels.stage_training_runs import Learner

torch.set_num_threads(1)
rng = np.random.default_rng(0)
images, y = rng.standard_normal((48, 3, 8, 8)).astype(np.float32), np.arange(48) % 3
last = np.ascontiguousarray(images.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)  # channels-last in memory
for width in (2, 3, 4):
    for x in (images, last):
        for augment in (False, True):
            net = models.resnet18(3, 3, width)
            sgd.train(net, x, y, sgd.Sgd(epochs=1, batch_size=12, augment=augment), 0, torch.device("cpu"))
            sgd.outputs(net, x, torch.device("cpu"))
        for way in ({}, {"shift": 2, "flip": True, "cutout": 3, "mixup": 1.0}):
            settings = {"epochs": 1, "batch_size": 12, "learning_rate": 0.1} | way
            learner = Learner(
                lambda: models.preact_resnet18(3, width=width), torch.from_numpy(x), torch.from_numpy(x), y,
                [settings], seed=0,
            )
            learner.evaluate(learner.train(np.arange(48), y, 1, None))
for norm in (None, 1.0):
    for x in (images, last):
        net = nn.Sequential(nn.Conv2d(3, 4, 1, 2), nn.Tanh(), nn.Conv2d(4, 4, 1, 2), nn.Flatten(), nn.Linear(16, 3))
        settings = dpsgd.DPSGD(steps=5, sample_rate=0.5, learning_rate=0.1, max_grad_norm=norm)
        dpsgd.train(net, dpsgd.Data((x, y), test=(x, y)), settings, np.random.default_rng(0), progress=False)
        annealing.train(net, (x, y), settings, np.random.default_rng(0), energy=(x, y))
print("trained")
"""


@pytest.mark.parametrize(
    ("plain", "net"),
    [
        (True, nn.Conv2d(3, 8, 1, stride=2)),
        (True, nn.Conv2d(7, 64, 1, stride=(1, 2))),
        (True, nn.Conv2d(2, 4, 1, stride=3, padding=1)),
        (True, nn.ConvTranspose2d(16, 4, 1, stride=2)),
        (True, models.resnet18(3, 3, 2)),
        (True, models.preact_resnet18(3, width=4)),
        (False, nn.Conv2d(8, 16, 1, stride=2)),
        (False, nn.Conv2d(3, 8, 1)),
        (False, nn.Conv2d(3, 8, 2, stride=2)),
        (False, nn.Conv2d(3, 8, (1, 3), stride=2)),
        (False, nn.ConvTranspose2d(4, 16, 1, stride=2)),
        (False, models.resnet18(3, 3, 8)),
        (False, models.small_cnn(10, 1)),
        (False, models.mlp([192, 3])),
    ],
)
def test_networks_with_a_narrow_strided_1x1_convolution_stay_plain(plain, net):
    kept = examples.layout_of(net, IMAGES)
    assert kept == (torch.contiguous_format if plain else torch.channels_last)
    if plain:
        moved = nn.Sequential(net).to(memory_format=torch.channels_last).to(memory_format=kept)
        assert all(p.is_contiguous() for p in moved.parameters())


def test_no_printed_network_is_plain_and_what_is_no_image_leaves_it_as_it_is():
    for name, architecture in printed.ARCHITECTURES.items():
        assert examples.layout_of(architecture.make(), IMAGES) == torch.channels_last, name
    assert examples.layout_of(nn.Conv2d(3, 8, 1, stride=2), np.zeros((5, 192))) == torch.preserve_format


@pytest.mark.parametrize("kept", [torch.channels_last, torch.contiguous_format])
def test_examples_are_laid_out_as_asked_for(kept):
    x, y = torch.randn(6, 3, 4, 4), torch.zeros(6)
    for given in (x, x.to(memory_format=torch.channels_last)):
        examples = Examples((given, y), "train", torch.device("cpu"), torch.float32, kept)
        rows = torch.tensor([4, 1])
        for found, wanted in [(examples.batch(rows)[0], x[rows]), (examples.first(), x[:1])]:
            assert found.equal(wanted)
            assert found.is_contiguous(memory_format=kept)
        assert examples.tensors()[0].shape == (6, 48)


def test_narrow_resnets_train_where_channels_last_breaks_them():
    """On x86 with AVX2 and glibc this ends by SIGABRT once a layout is channels-last; elsewhere it just runs."""
    names = subprocess.run([shutil.which("ldconfig") or "true", "-p"], capture_output=True, text=True, check=False)
    if CHECKED["LD_PRELOAD"] not in names.stdout:
        pytest.skip("glibc's malloc checks are not on this machine")
    environment = {**os.environ, **CHECKED, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", TRAIN], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "trained\n", f"status {done.returncode}: {done.stderr[-2000:]}"


def test_instance_normalisation_stays_plain():
    """Channels-last, PyTorch's own are others where the batch has one image."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.InstanceNorm2d(6, affine=True), nn.Flatten(), nn.Linear(216, 4))
    x = torch.randn(1, 3, 8, 8)
    assert examples.layout_of(net, x) == torch.contiguous_format
    assert examples.layout_of(nn.Sequential(net[0], nn.Tanh()), x) == torch.channels_last


@pytest.mark.parametrize(("kind", "rate"), [("poisson", 0.1), ("poisson", 0.01), ("shuffled", 0.3)])
def test_a_gpu_gets_the_same_batches_in_few_copies(kind, rate):
    drawn = examples.Sampler(kind, 40, rate, np.random.default_rng(5))
    due = [drawn.draw() for _ in range(150)]
    with stand_in_gpu.present() as gpu:
        taken = examples.Sampler(kind, 40, rate, np.random.default_rng(5)).batches(torch.device("cuda"))
        values = [next(taken) for _ in due]
        assert all(rows.is_cuda for rows in values)
        assert gpu.waits.total() == 3
        assert all(rows.cpu().tolist() == expected.tolist() for rows, expected in zip(values, due, strict=True))
    here = examples.Sampler(kind, 40, rate, np.random.default_rng(5)).batches(torch.device("cpu"))
    assert all(next(here).tolist() == expected.tolist() for expected in due)


SCORES = torch.tensor([[0.2, 0.8], [0.9, 0.1], [0.3, 0.7]])


def test_labels_and_probabilities_are_right_or_wrong():
    assert examples.correct(SCORES, torch.tensor([1, 1, 1])).tolist() == [1, 0, 1]
    assert examples.correct(SCORES, torch.tensor([[0.1, 0.9], [0.2, 0.8], [0.4, 0.6]])).tolist() == [1, 0, 1]
    assert examples.correct(SCORES, torch.eye(2, dtype=torch.int64)[[1, 1, 1]]).tolist() == [1, 0, 1]


@pytest.mark.parametrize(("outputs", "y"), [
    (SCORES[:, :1], torch.zeros(3, 1)), (SCORES[:, :1], torch.zeros(3, dtype=torch.int64)),
    (SCORES[:, 0], SCORES[:, 0]),
    (SCORES, torch.ones(3)), (SCORES, torch.full((3, 2), -3.0)), (SCORES, torch.zeros(3, 1)),
])  # fmt: skip
def test_where_there_is_no_label_nothing_is_right(outputs, y):
    """One output, or real targets: the share of right ones was 1, or that of label 0."""
    assert examples.correct(outputs, y).isnan().tolist() == [True] * 3


@pytest.mark.parametrize("y", [SCORES - 3, SCORES * 2, torch.full((3, 2), -3.0), torch.full((3, 2), 0.49)])
def test_rows_that_are_no_probabilities_are_refused(y):
    with pytest.raises(ParameterError, match="train: rows of labels must be probabilities"):
        examples.check_labels(y, 2, "train")
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        examples.check_labels(torch.randn(50, 1000).softmax(1).to(dtype), 1000, "train")


def test_no_label_stands_in_a_message():
    with pytest.raises(ParameterError) as refused:
        examples.check_labels(torch.tensor([0, 77]), 3, "train")
    assert "77" not in str(refused.value)


def test_an_evaluation_leaves_each_layer_in_its_mode():
    """A dropout that somebody has switched off stays so, whatever the network around it does; after an error, too."""
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    net[1].eval()
    modes = [module.training for module in net.modules()]
    table = Examples((np.ones((5, 3)), np.zeros(5, int)), "test", torch.device("cpu"), torch.float32)
    examples.evaluate(net, table, examples.cross_entropy, examples.correct)
    assert [module.training for module in net.modules()] == modes
    wide = Examples((np.ones((5, 4)), np.zeros(5, int)), "test", torch.device("cpu"), torch.float32)
    with pytest.raises(RuntimeError, match="shapes"):
        examples.evaluate(net, wide, examples.cross_entropy, examples.correct)
    assert [module.training for module in net.modules()] == modes


def test_a_pair_is_no_examples():
    with pytest.raises(ParameterError, match=r"examples = a tuple of 2 is not allowed: .* dplib\.examples\.Examples"):
        examples.evaluate(
            nn.Linear(3, 2), (np.ones((5, 3)), np.zeros(5, int)), examples.cross_entropy, examples.correct
        )


class Tagged(torch.Tensor):
    """A tensor of somebody's own."""


def test_tensors_of_another_kind_are_refused():
    """A masked one shows what it hides, or fails in the words of PyTorch."""
    x, y, place = torch.randn(6, 3), torch.arange(6) % 2, torch.device("cpu")
    with pytest.warns(UserWarning, match="MaskedTensors"):
        masked = torch.masked.masked_tensor(x, x > 0)
    for pair, what in (((masked, y), "examples are a Masked"), ((x, y.as_subclass(Tagged)), "targets are a Tagged")):
        with pytest.raises(ParameterError, match=what):
            Examples(pair, "train", place, torch.float32)
    assert Examples((nn.Parameter(x), y), "train", place, torch.float32).n == 6


@pytest.mark.parametrize("rng", [0, None])
def test_rates_and_numbers_of_few_bits_are_taken_for_what_they_are(rng):
    """Of 8 bits, 200 records at a rate of 1 were 200 + 84, which is 28."""
    n, q = np.uint8(200), np.float16(1.0)
    rng = None if rng is None else np.random.default_rng(rng)
    assert examples.Sampler("poisson", n, q, rng).draw().tolist() == list(range(200))
    assert examples.poisson(n, q, rng).tolist() == list(range(200))
    if rng is not None:
        assert examples.poisson_table(n, q, rng, np.uint8(3))[1].tolist() == [200] * 3
