"""Where the library works when nobody says, and when "auto" takes a GPU."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
import torch

import dplib
from book.evidence import plans, runs
from dplib import annealing, devices, dpsgd, examples, logistic_grid, many, models, objpert
from dplib.checks import ParameterError
from dplib.devices import Work, find_device, worth_a_gpu
from papers.architecture import privacy_cost_theory
from tests import run_toys, stand_in_gpu

SMALL, LARGE = Work(1e7, 80), Work(1e11, 10_000)
TABLE = dpsgd.Data((np.ones((8, 4), np.float32), np.arange(8) % 2))


def settings(**changes):
    return dpsgd.DPSGD(**{"steps": 2, "sample_rate": 0.5, "learning_rate": 0.1, "max_grad_norm": 1.0} | changes)


def functions():
    """Every function of the library, with its name."""
    for info in pkgutil.walk_packages(dplib.__path__, "dplib."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == info.name:
                yield f"{info.name}.{name}", function


def test_the_library_works_on_the_processor_by_default():
    """A page that calls it without a device reads its network's weights on any machine."""
    given = {name: inspect.signature(function).parameters.get("device") for name, function in functions()}
    defaults = {name: p.default for name, p in given.items() if p is not None and p.default is not p.empty}
    assert {"dplib.dpsgd.train", "dplib.logistic_grid.train_grid", "dplib.objpert.fit"} <= set(defaults)
    assert {torch.device(place).type for place in defaults.values()} == {"cpu"}, defaults


def test_chapter_3_reads_its_weights_where_there_is_a_gpu():
    with stand_in_gpu.present() as gpu:
        assert privacy_cost_theory._one_step()["largest_gap"] < 1e-5
    assert gpu.products["cuda"] == 0


def test_auto_takes_a_gpu_for_large_work_alone(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [find_device("auto", work).type for work in (None, SMALL, LARGE)] == ["cpu", "cpu", "cuda"]
    assert [find_device(name, SMALL).type for name in ("cpu", "cuda")] == ["cpu", "cuda"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto", LARGE).type == "cpu"
    with pytest.raises(ParameterError, match="device = "):
        find_device("cuda", LARGE)
    with pytest.raises(ParameterError, match="device = "):
        find_device("gpu")


def test_what_a_gpu_gains():
    assert not worth_a_gpu([])
    assert not worth_a_gpu([Work(1e7, 10**9)]), "a step that a core does faster than a GPU launches it"
    work = Work(1e10, 40)
    assert not worth_a_gpu([work])
    assert worth_a_gpu([work] * 2), "runs of one page share the seconds in which CUDA begins"


def test_work_of_a_training():
    net = models.mlp([784, 128, 10])
    work = devices.training_work(net, np.zeros((7, 784), np.float32), 256, 20)
    assert work == (3 * 2 * (784 * 128 + 128 * 10) * 256, 20)
    assert net.training
    words = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Flatten(), torch.nn.Linear(12, 2)).double()
    assert devices.training_work(words, np.ones((2, 3), np.int32), 1, 1).operations == 3 * 2 * 12 * 2


@pytest.mark.parametrize(
    "train",
    [
        lambda: dpsgd.train(models.mlp([4, 2]), TABLE, settings(), np.random.default_rng(0), device="auto"),
        lambda: annealing.train(models.mlp([4, 2]), TABLE.train, settings(), np.random.default_rng(0), device="auto"),
        lambda: logistic_grid.train_grid(TABLE, [settings()], np.random.default_rng(0), classes=2, device="auto"),
        lambda: objpert.fit(np.eye(2), [0, 1], epsilon=1.0, rng=np.random.default_rng(0), device="auto"),
    ],
)
@pytest.mark.parametrize("least", [0.0, 1e9])
def test_auto_weighs_each_training(train, least, monkeypatch):
    monkeypatch.setattr(devices, "START", least)
    monkeypatch.setattr(devices, "STEP", 0.0)
    with stand_in_gpu.present() as gpu:
        train()
    kept = least or gpu.products["cuda"] == 0  # Newton's method never leaves the processor by itself
    assert (gpu.products["cuda"] == 0) == bool(kept)


def test_many_trainings_are_weighed_together():
    of_one = settings().work(models.mlp([4, 2]), TABLE.train[0])
    together = many.work([models.mlp([4, 2])] * 3, [TABLE] * 3, [settings()] * 3)
    assert together == (3 * of_one.operations, of_one.steps)


def test_experiments_that_pages_leave_to_auto_say_how_much_they_are():
    known = {name: one for name, one in plans.experiments().items() if one.experiment.work}
    assert {"network", "annealed", "label_stages"} <= set(known)
    for name, function in known.items():
        work = function.experiment.work(runs.as_called(runs.job_of(function, function.experiment.probe)))
        assert work.operations > 1e5, name
        assert work.steps >= 2, name


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_a_page_says_that_the_gpu_was_left_alone(device, monkeypatch, run_folder):
    monkeypatch.setattr(runs, "has", lambda device: True)
    get = runs.Maker(device, 1)
    get(run_toys.train, [{"size": 1, "seed": 0, "steps": 1}])
    assert ("GPU" in get.where()) == (device == "auto")


@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_a_gpu_takes_larger_pieces(place):
    """What is a cache full for a core is a launch for nothing on a GPU."""
    n, passes = 5000, []
    net = models.mlp([4, 2])
    net.register_forward_hook(lambda *_: passes.append(1))
    data = dpsgd.Data((np.ones((n, 4), np.float32), np.arange(n) % 2))
    with stand_in_gpu.present():
        examples_ = examples.Examples(data.train, "test", torch.device(place), torch.float32)
        examples.evaluate(net.to(place), examples_, examples.cross_entropy, examples.correct)
        assert len(passes) == {"cpu": 3, "cuda": 1}[place]
        engine = dpsgd.Engine(net, settings(steps=9, sample_rate=1.0), examples_, generator=torch.Generator(place))
        passes.clear()
        engine.step(torch.arange(n, device=place))
    assert len(passes) == {"cpu": 3, "cuda": 1}[place]
