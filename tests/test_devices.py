"""Every experiment on a GPU that is none: what would break on a real one breaks here."""

import inspect
import json
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from book.evidence import plans, replay, runs
from dplib import annealing, clipping, devices, dpsgd, logistic_grid, models, sgd
from dplib.dpsgd import DPSGD
from papers.common import networks
from papers.labels import soft_labels, stage_training_runs
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
    with stand_in_gpu.present() as gpu:
        yield gpu


@pytest.mark.parametrize(("name", "changes"), JOBS)
def test_an_experiment_runs_on_a_gpu(name, changes, tmp_path, tried_once, monkeypatch):
    """All of its products are made there, and the numbers are those of the processor."""
    function = EXPERIMENTS[name]
    job = {**function.experiment.probe, **changes}
    monkeypatch.setattr(stage_training_runs, "PRETRAINED", tmp_path)
    due = function(**job) if changes else replay.stored_probes()[name]["result"]
    with stand_in_gpu.present() as gpu:
        result = function(**job, device="cuda")
    assert list(replay.differences(_plain(due), _plain(result), replay.TOLERANCE)) == []
    assert gpu.products["cuda"] > 20
    assert gpu.products["cpu"] == 0
    assert gpu.faults() == []
    assert not gpu.lowered, "a verdict rests on these numbers"


def _plain(result):
    return json.loads(json.dumps(result))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ON_GPU)
def test_an_experiment_runs_on_this_gpu(name):
    function = EXPERIMENTS[name]
    result = function(**runs.as_called(function.experiment.probe), device="cuda")
    assert set(result) == set(replay.stored_probes()[name]["result"])


def test_pretrained_weights_are_made_once(tmp_path, monkeypatch):
    monkeypatch.setattr(stage_training_runs, "PRETRAINED", tmp_path)
    settings = {"epochs": 1, "batch_size": 200, "learning_rate": 0.1}
    job = "digits", "small-cnn", 3, settings, torch.device("cpu")
    first = stage_training_runs._pretrained(*job)
    monkeypatch.setattr(stage_training_runs.soft_labels, "fit", lambda *_, **__: pytest.fail("trained again"))
    assert all(torch.equal(first[name], value) for name, value in stage_training_runs._pretrained(*job).items())
    with pytest.raises(pytest.fail.Exception, match="trained again"):
        stage_training_runs._pretrained(*job[:2], 4, *job[3:])


def test_chapter_3_of_old(stand_in):
    """Training on a GPU leaves the network there, and a look at its weights ends in a TypeError."""
    net = networks.network([], (4,), 3, "relu", 0.0, 1)
    np.column_stack([p.detach().numpy().reshape(3, -1) for p in net.parameters()])
    data = dpsgd.Data((np.ones((8, 4), np.float32), np.zeros(8, np.int64)))
    settings = dpsgd.DPSGD(1, 1.0, 0.7, 3.0, 0.5)
    dpsgd.train(net, data, settings, np.random.default_rng(9), progress=False, device="cuda")
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        np.column_stack([p.detach().numpy().reshape(3, -1) for p in net.parameters()])
    dpsgd.train(net, data, settings, np.random.default_rng(9), progress=False)
    np.column_stack([p.detach().numpy().reshape(3, -1) for p in net.parameters()])


def _images(n=60):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, n)


def _cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 8, 3, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(32, 10)
    )


def _wide():
    """Of its second and third convolution a norm is by pairs of positions."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, stride=2), nn.Tanh(), nn.Conv2d(32, 64, 2), nn.Tanh(), nn.Conv2d(64, 64, 2), nn.Flatten(),
        nn.Linear(64, 10),
    )  # fmt: skip


def _private(steps, net=_cnn, device="cuda", **settings):
    settings = DPSGD(steps, 0.2, 0.1, **{"noise_multiplier": 1.0, "max_grad_norm": 1.0} | settings)
    data = dpsgd.Data(_images(), test=_images())
    dpsgd.train(net(), data, settings, np.random.default_rng(0), device=device, progress=False)


def test_a_training_on_the_processor_lets_a_gpu_alone(stand_in):
    """torch.manual_seed would seed its generator, too."""
    _private(1, device="cpu")
    assert stand_in.faults() == []


def _grid(steps):
    settings, data = [DPSGD(steps, 0.2, 0.1, 1.0, 1.0)] * 3, dpsgd.Data(_images())
    logistic_grid.train_grid(data, settings, np.random.default_rng(0), classes=10, device="cuda", progress=False)


def _annealed(steps, energy):
    settings, annealing_ = DPSGD(steps, 0.2, 0.1, 1.0, 1.0), annealing.Annealing()
    rng = np.random.default_rng(0)
    annealing.train(_cnn(), _images(), settings, rng, annealing=annealing_, energy=energy, device="cuda")


def _labels(steps, **settings):
    x, y = _images()
    x, settings = torch.as_tensor(x).cuda(), {"batch_size": len(y), "learning_rate": 0.1, "seed": 0, **settings}
    soft_labels.fit(_cnn().cuda(), x, y, epochs=steps, **settings)


def _plain_sgd(steps, **settings):
    sgd.train(_cnn(), *_images(), sgd.Sgd(steps, 60, **settings), 0, torch.device("cuda"))


LOOPS = {  # name: (a training of so many steps, the most waits for each of them)
    "private": (_private, 0),
    "private, many channels": (partial(_private, net=_wide), 1),  # a look at what its layers lost
    "with momentum": (partial(_private, momentum=0.5), 0),
    "without clipping": (partial(_private, noise_multiplier=0.0, max_grad_norm=None), 0),
    "grid": (_grid, 0),
    "annealed": (partial(_annealed, energy=_images()), 1),
    "annealed by its batch": (partial(_annealed, energy="batch"), 1),
    "labels": (_labels, 0),  # an epoch has one step
    "labels, augmented": (partial(_labels, mixup=1.0, shift=1, flip=True, cutout=2), 0),
    "SGD": (_plain_sgd, 0),
    "SGD, augmented": (partial(_plain_sgd, augment=True), 0),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_step_waits_for_little(name, monkeypatch):
    """The host may not stop at each operation: a small step on a GPU is as long as what the host does."""
    monkeypatch.setattr(clipping, "check", lambda *_: None)  # trials wait as often as they like, but not in each step
    monkeypatch.setattr(clipping, "check_again", lambda *_: None)
    train, most = LOOPS[name]
    waits = []
    for steps in (3, 8):
        with stand_in_gpu.present() as gpu:
            train(steps)
        assert gpu.faults() == []
        waits.append(gpu.waits)
    more = waits[1] - waits[0]
    assert more.total() <= 5 * most, more


def test_sums_take_float32_as_it_is_on_a_gpu_and_leave_its_switches_alone_on_the_processor():
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
        with devices.whole_float32():
            assert [kind.allow_tf32 for kind in kinds] == [False, False]
        sums.add(torch.ones(4, 3), torch.zeros(4, dtype=torch.long), loss, torch.ones_like)
        assert [kind.allow_tf32 for kind in kinds] == [True, True]
    finally:
        for kind, allowed in zip(kinds, before, strict=True):
            kind.allow_tf32 = allowed
    assert seen == [[True, True]]


def test_without_a_gpu_one_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    net = models.rwt_cnn()
    with pytest.raises(dpsgd.ParameterError, match="device = 'cuda' is not allowed: PyTorch sees no GPU here"):
        dpsgd.train(net, dpsgd.Data((np.zeros((1, 1)), [0])), dpsgd.DPSGD(1, 1.0, 1.0), None, device="cuda")
