"""Sweeps of two workflows: what is tuned, what is reported, and what is paired."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats as sps

from dplib import claims, models, stats, study, trainings
from dplib.architecture import workflow_records as rows_of
from dplib.architecture import workflow_verdicts as judge
from dplib.architecture import workflows
from dplib.checks import ParameterError
from dplib.stats import Measured

SETTINGS = workflows.Settings(rates=[1.0, 3.0], sgd_rates=[0.3, 1.0], seeds=3)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "FOLDER", tmp_path)


@pytest.fixture
def fake(monkeypatch):
    """A training that takes no time: accuracy from rate, budget and seed. It remembers its jobs."""
    jobs = []

    def train(**job):
        jobs.append(job)
        best = 9.0 if job["epsilon"] else 0.3
        score = 0.9 - 0.05 * abs(np.log(job["learning_rate"] / best)) + 0.001 * job["seed"] % 0.01
        if job["model"] == "fcn-mnist-stw":
            score -= 0.01
        gone = job["learning_rate"] > 20
        return {
            "validation": None if gone else score,
            "test": None if gone else score - 0.02,
            "noise_multiplier": 0.0 if job["epsilon"] is None else 1.0,
            "parameters": 10,
        }

    train.__module__ = "dplib.trainings"
    monkeypatch.setattr(trainings, "train", train)
    return jobs


def test_rates_are_chosen_by_validation_and_grow_at_the_edge(fake):
    found = workflows.sweep(workflows.pair_models("digits", 64, 5), [1.0, None], SETTINGS)
    chosen = found.tuning[found.tuning.chosen].set_index(["model", "epsilon"]).rate
    assert chosen[workflows.SIMPLE, 1.0] == 9.0  # beyond the grid: it grew from 1, 3
    assert chosen[workflows.SIMPLE, np.inf] == 0.3
    assert (found.runs.groupby("model").rate.nunique() == 2).all()
    tuning, reporting = ({job["seed"] for job in fake if (job["seed"] >= 1000) is high} for high in (True, False))
    assert tuning == {1000}
    assert reporting == {0, 1, 2}


def test_plain_sgd_has_no_clipping(fake):
    workflows.sweep(workflows.pair_models("digits", 64, 5), [1.0, None], SETTINGS)
    assert {(job["epsilon"], job["max_grad_norm"]) for job in fake} == {(1.0, 1.0), (None, None)}


def test_tables(fake):
    found = workflows.sweep(workflows.pair_models("digits", 64, 5), [3.0, 1.0, None, 1.0], SETTINGS)
    epsilons, accuracies = found.accuracies(workflows.SIMPLE)
    assert epsilons.tolist() == found.epsilons == [1.0, 3.0]
    assert accuracies.shape == (3, 2)
    assert accuracies[:, 0].tolist() == found.at(workflows.SIMPLE, 1.0).tolist()
    assert found.at(workflows.SIMPLE, None).shape == (3,)
    difference = found.compared(workflows.SIMPLE, workflows.COMPLEX, 1.0).difference
    assert difference.value == pytest.approx(1.0)
    assert difference.n == 3
    assert len(found.summary()) == 6
    assert found.cpu_seconds >= 0
    with pytest.raises(ParameterError, match="not in this sweep"):
        found.at(workflows.SIMPLE, 2.0)
    with pytest.raises(ParameterError, match="LeNet"):
        found.accuracies("LeNet-5")


def test_given_rates_and_divergence(fake):
    found = workflows.at_rates(workflows.pair_models("digits", 64, 5), 1.0, [1.0, 27.0], SETTINGS)
    gone = found.runs[found.runs.rate == 27.0]
    assert gone.diverged.all()
    assert (gone.test == 0).all()
    assert not found.runs[found.runs.rate == 1.0].diverged.any()
    assert len(found.runs) == 12


def test_a_second_sweep_runs_nothing(fake):
    models_ = workflows.pair_models("digits", 64, 5)
    first = workflows.sweep(models_, [1.0], SETTINGS)
    count = len(fake)
    assert workflows.sweep(models_, [1.0], SETTINGS).runs.equals(first.runs)
    assert len(fake) == count


def test_real_runs_are_paired_by_seed():
    """The same seeds give the same runs again, whatever else is in the sweep."""
    settings = workflows.Settings(rates=[2.0, 4.0], sgd_rates=[0.3, 1.0], seeds=2, extensions=0)
    pair = workflows.pair_models("digits", 128, 8)
    found = workflows.sweep(pair, [100.0], settings)
    alone = workflows.sweep({workflows.COMPLEX: pair[workflows.COMPLEX]}, [100.0], settings)
    assert found.at(workflows.COMPLEX, 100.0).tolist() == alone.at(workflows.COMPLEX, 100.0).tolist()
    assert found.runs.noise_multiplier.nunique() == 1
    assert found.runs.noise_multiplier[0] > 0
    assert set(found.runs.parameters) == {9610, 66762}


def test_networks_of_the_pairs_have_the_printed_sizes():
    for name in ("mnist", "fashion-mnist", "cifar10-jpeg"):
        pair = workflows.PAIRS[name]
        inputs = (int(pair.features.partition("-")[2]),)
        for model, suffix in ((pair.simple, "paw"), (pair.complex, "stw")):
            printed = claims.get(f"B.table1.{pair.row}-{suffix}").published
            net = trainings.network(model, inputs, 10, "relu", 0.0, 0)
            assert models.parameter_count(net) == printed["parameters"]
            assert pair.epsilon == printed["epsilon"]


def test_best_of_is_the_mean_over_all_choices():
    values = np.random.default_rng(0).normal(size=7)
    by_hand = np.mean([max(some) for some in itertools.combinations(values, 3)])
    assert judge.best_of(values) == pytest.approx(by_hand)
    assert judge.best_of([1.0, 2.0, 3.0]) == 3.0
    with pytest.raises(ParameterError, match="too few"):
        judge.best_of([1.0, 2.0])


def test_choice():
    runs = {"big": np.array([0.90, 0.92, 0.91]), "small": np.array([0.89, 0.91, 0.90]), "tiny": np.full(3, 0.5)}
    sizes = {"big": 100, "small": 10, "tiny": 1}
    clear = judge.choose(runs, runs, sizes)
    assert (clear.best, clear.second, clear.use) == ("big", "small", "big")
    assert clear.lead.difference.value == pytest.approx(1.0)
    assert clear.clear
    other = runs | {"small": np.array([0.92, 0.90, 0.905])}  # on test data as good, but for chance
    unclear = judge.choose(runs, other, sizes)
    assert unclear.best == "big"
    assert unclear.use == "small"
    assert not unclear.clear
    worse = judge.choose(runs, runs | {"small": runs["big"] + [0.01, 0.012, 0.011]}, sizes)
    assert worse.best == "big"  # the order is that of the validation data alone
    assert worse.use == "small"
    with pytest.raises(ParameterError, match="no choice"):
        judge.choose({"one": np.ones(3)}, {"one": np.ones(3)}, {"one": 1})


def test_what_is_not_allowed():
    with pytest.raises(ParameterError, match="dataset"):
        workflows.pair_models("kmnist", 64, 5)
    with pytest.raises(ParameterError, match="8 x 8"):
        workflows.other_models([workflows.CNN], "digits", 64, 5, 1e-5)
    with pytest.raises(ParameterError, match="model"):
        workflows.other_models(["a forest"], "mnist", 64, 5, 1e-5)
    assert workflows.widths_models([7], "mnist", 64, 5, 1e-5)["7 units"]["model"] == [7]


def test_agreement_and_verdicts_of_cells():
    measured = Measured(95.0, 94.8, 95.2, 5)
    assert [judge.agreement(measured, value) for value in (95.7, 93.0, 97.0)] == ["agrees", "higher", "lower"]
    assert judge.agreement(measured, 95.9) == "unclear"
    noisy = Measured(96.87, 94.0, 99.7, 5)
    assert judge.agreement(noisy, 97.97) == "unclear"  # more noise must not make it agree
    assert judge.cells_verdict(["agrees", "unclear"], [1, 1]) == "undecided"
    assert judge.cells_verdict(["agrees", "agrees"], [1, 1]) == "holds"
    assert judge.cells_verdict(["agrees", "lower"], [1, 1]) == "undecided"
    assert judge.cells_verdict(["agrees", "agrees"], [1, 0]) == "undecided"
    assert judge.cells_verdict(["higher", "lower"]) == "not reproducible as stated"
    assert judge.cells_verdict(["higher", "agrees"], [1, 1], settled=False) == "undecided"
    assert rows_of.settled("mnist", 250, 48_000)
    assert not rows_of.settled("mnist", 1024, 1200)
    assert not rows_of.settled("location", 250, 10**9)  # nothing is printed about it
    assert judge.cells_verdict(["agrees", "agrees"], [1, -1]) == "fails"
    assert judge.cells_verdict(["higher", "lower"], [1, 1], stand_in=True) == "holds with change"
    assert judge.cells_verdict(["agrees", "agrees"], [1, -1], stand_in=True) == "undecided"


def test_backed_gaps():
    gap = stats.paired(np.array([3.0, 4.0, 5.0]), np.array([1.0, 2.1, 3.2]))
    nothing = stats.paired(np.array([3.0, 4.0, 5.0]), np.array([4.0, 4.0, 4.0]))
    assert [judge.backed(gap, p) for p in (1.5, -1.5)] == [1, -1]
    assert judge.backed(nothing, 1.5) == judge.backed(nothing, -1.5) == 0


def test_rank_correlation_against_scipy():
    a, b = np.random.default_rng(1).normal(size=(2, 6))
    found, p_value = judge.rank_correlation(a, b)
    every = [sps.spearmanr(a, np.array(order)).statistic for order in itertools.permutations(b)]
    assert found == pytest.approx(sps.spearmanr(a, b).statistic)
    assert p_value == pytest.approx(np.mean(np.abs(every) >= abs(found) - 1e-9))


def table(simple, complex_, free):
    """A sweep with these accuracies (seeds, budgets) at 1, 10, ... and ``free`` (2, seeds) without privacy."""
    rows = []
    for model, private, plain in zip((workflows.SIMPLE, workflows.COMPLEX), (simple, complex_), free, strict=True):
        cells = {(seed, 10.0**k): v for (seed, k), v in np.ndenumerate(np.array(private))}
        cells |= {(seed, np.inf): v for seed, v in enumerate(plain)}
        for (seed, epsilon), accuracy in cells.items():
            rows.append({"model": model, "epsilon": epsilon, "seed": seed, "validation": accuracy, "test": accuracy})
    return workflows.Sweep(pd.DataFrame(rows), pd.DataFrame(), 0.0)


def test_decomposition_counts_by_hand():
    """Handicap 0.02 in both seeds; the costs are 0.1 and 0.15, then 0.04 and 0.05: cheaper twice, better once."""
    sweep = table([[0.80, 0.86]] * 2, [[0.77, 0.87]] * 2, [[0.90, 0.90], [0.92, 0.92]])
    counts = judge.decomposition(sweep)
    assert counts == {"comparisons": 4, "identity_broken": 0, "necessary_broken": 0, "cheaper_but_not_better": 2}


def test_records_of_a_run(fake):
    """Every record has a row in the ledger; a simple network that leads by a point in every run wins its claims."""
    sweeps = {"digits": workflows.sweep(workflows.pair_models("digits", 64, 5), [1.0, None], SETTINGS)}
    gaps = {
        "digits": {
            "dp": sweeps["digits"].compared(workflows.SIMPLE, workflows.COMPLEX, 1.0),
            "sgd": sweeps["digits"].compared(workflows.SIMPLE, workflows.COMPLEX, None),
        }
    }
    assert rows_of.pitfall(gaps)[2] == "holds"
    assert rows_of.pitfall(gaps, {"digits": [0.1, 10.0]})[3].endswith("leads beyond chance at ε = 0.1, 10.")
    assert not list(rows_of.summary(sweeps, gaps))  # digits is not in Table I
    assert rows_of.takeaway(sweeps, {"digits": 1.0}, {})[2] == "undecided"  # equal costs
    assert not list(rows_of.table1(sweeps, gaps))  # nothing is printed about digits
    assert [row[::2] for row in rows_of.data_sets(["digits"])] == [("B.data-purchase100", "undecided")]


def test_best_of_three_decides_nothing():
    """It is never below the mean: more of it cannot make the row true."""
    cells = {"mnist": [np.array([0.1, 0.2, 0.3])], "location": [np.array([0.5, 0.5, 0.5])]}
    _, values, verdict, _ = rows_of.best_of_three(cells)
    assert verdict == "undecided"
    assert values["best_of_three_minus_mean, mnist"] == pytest.approx(10.0)
    assert values["best_of_three_minus_mean, location"] == pytest.approx(0.0, abs=1e-9)
