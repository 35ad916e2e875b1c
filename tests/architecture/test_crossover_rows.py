"""Chapter 4's study and rows: what is tuned and paired, and what is said of it."""

import itertools

import numpy as np
import pytest

from dplib import claims, models, trainings
from dplib.architecture import crossover_rows as rows
from dplib.architecture import crossover_study as study_of
from dplib.architecture.crossover_study import COMPLEX, SIMPLE
from dplib.checks import ParameterError


class Fake:
    """Results without training: the best rate is 9 with privacy and 0.3 without; it remembers its jobs."""

    def __init__(self):
        self.jobs = []

    def __call__(self, function, jobs):
        self.jobs += jobs
        return [self.result(**job) for job in jobs]

    @staticmethod
    def result(*, learning_rate, epsilon, seed, **_):
        best = 0.3 if epsilon is None else 9.0
        score = 0.9 - 0.1 * abs(np.log(learning_rate / best)) + 0.001 * (seed % 1000)
        return {"validation": score, "test": score}


def test_rates_are_tuned_on_seeds_of_their_own_and_runs_are_paired():
    get = Fake()
    found = study_of.pair(get, dataset="digits", epsilons=[1.0, None], rates=[1.0, 3.0], seeds=2, batch=64, steps=5)
    assert {name: list(one) for name, one in found.items()} == {name: [1.0, np.inf] for name in (SIMPLE, COMPLEX)}
    tuning = [job for job in get.jobs if job.get("part") == "tune"]
    reported = [job for job in get.jobs if job.get("part") != "tune"]
    assert {job["seed"] for job in tuning} == {1000, 1001, 1002}
    assert {job["seed"] for job in reported} == {0, 1}
    assert {job["learning_rate"] for job in reported if job["epsilon"]} == {9.0}  # the grid grew
    assert {job["learning_rate"] for job in reported if not job["epsilon"]} == {0.3}
    assert all((job["epsilon"] is None) == ("max_grad_norm" in job) for job in reported)  # plain SGD does not clip
    assert len(found[SIMPLE][1.0]) == len(found[COMPLEX][np.inf]) == 2


def test_what_is_not_allowed():
    with pytest.raises(ParameterError, match="dataset = 'kmnist'"):
        study_of.pair(Fake(), dataset="kmnist", epsilons=[1.0], rates=[1.0, 3.0])
    with pytest.raises(ParameterError, match="there must be a run"):
        study_of.accuracies([])


def test_networks_of_the_pairs_have_the_printed_sizes():
    for name in ("mnist", "fashion-mnist", "cifar10-jpeg"):
        pair = study_of.PAIRS[name]
        inputs = (int(pair["features"].partition("-")[2]),)
        row = f"fcn-{name.removesuffix('-jpeg')}"
        for kind, suffix in (("simple", "paw"), ("complex", "stw")):
            net = trainings.network(pair[kind], inputs, 10, "relu", 0.0, 0)
            assert models.parameter_count(net) == claims.get(f"B.table1.{row}-{suffix}").published["parameters"]


def test_a_run_that_diverged_counts_as_nothing():
    assert study_of.accuracies([{"test": None}, {"test": 0.5}]).tolist() == [0.0, 50.0]


@pytest.mark.parametrize(
    ("shift", "use"), [(0.05, "the simple one"), (-0.05, "the complex one"), (0.0, "the simple one: no difference")]
)
def test_advice_comes_out_every_way(shift, use):
    noise = [0.001, -0.001, 0.002, -0.002, 0.0]
    runs = {SIMPLE: [{"test": 0.8 + shift + x} for x in noise], COMPLEX: [{"test": 0.8 - x} for x in noise]}
    assert rows.yours(runs)["use"].startswith(use)


def test_the_repaired_definition_loses_nothing_where_the_simple_model_never_wins():
    epsilons, simple, complex_ = np.array([0.1, 1.0]), np.array([0.5, 0.8]), np.array([0.6, 0.9])
    assert rows.definition(np.inf, epsilons, simple, complex_) == pytest.approx(10)
    assert rows.definition(0.0, epsilons, simple, complex_) == 0


def test_frozen_values_have_their_intervals():
    eight = rows.three_models()
    assert rows.at(eight, "PAW CNN", 0.1).low < rows.at(eight, "PAW CNN", 0.1).value
    assert set(rows.gaps()["mnist"]) == {"dp", "sgd"}
    assert rows.frozen("B.cifar-cnn-cost") == {}


def test_best_of_is_the_mean_over_all_choices():
    values = np.random.default_rng(0).normal(size=7)
    by_hand = np.mean([max(some) for some in itertools.combinations(values, 3)])
    assert rows.best_of(values) == pytest.approx(by_hand)
    assert rows.best_of([1.0, 2.0, 3.0]) == 3.0
    with pytest.raises(ParameterError, match="too few"):
        rows.best_of([1.0, 2.0])
