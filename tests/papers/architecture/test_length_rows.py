"""The accuracy gap against the length of training: what its rows say with all runs, with some, and with none."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from book.evidence import claims, plans, rules
from dplib.stats import Measured
from papers.architecture import length_rows as rows
from papers.architecture.crossover_runs import COMPLEX, SIMPLE
from papers.common.diverged import accuracies
from tests.toys import Asked

REGISTERED = {100 + i for i in range(20)}
FIRST = {100, 105, 200}  # of the registered seeds, and of those that extend them
# Complete parts are in plan "published", the others in "wanted"; and the one that was trained in larger batches.
PARTS = {
    name: part
    for plan in ("published", "wanted")
    for name, part in plans.load("04", plan).parts.items()
    if part.inputs.get("first") in FIRST or name == "longer"
}


def made_up(job):
    """The small network leads in short trainings, the large one in long ones; both are best after 60 epochs."""
    epochs, small = job["steps"] / 240, job["model"] in ("fcn-mnist-paw", "fcn-fashion-mnist-paw")
    score = 0.9 - 0.01 * abs(math.log(epochs / 60)) - 0.01 * abs(math.log(job["learning_rate"] / 0.5))
    lead = 0.02 - 0.01 * math.log10(epochs)
    return {"validation": score, "test": score + lead * small + 1e-4 * (job["seed"] % 7) * small}


# What chapter 4 records beside the values that are computed there, of the runs of chapter 3.
ELSEWHERE = {"B.takeaway-vi": {"loss_of_the_largest_input": Measured(1.5, 1.2, 1.8, 20)}}


def on(*parts):
    """The plan's parts of these names, with made-up runs."""
    chosen = {name: PARTS[name] for name in parts}
    return SimpleNamespace(parts=chosen, read=lambda part: chosen[part].function(Asked(made_up), **chosen[part].inputs))


def test_every_part_is_read_and_every_rule_has_its_values():
    values = rows.rows(on(*PARTS))
    for row, own in values.items():
        own = ELSEWHERE.get(row, {}) | own
        assert set(rules.names(claims.get(row).rule)) <= set(own), row
        for name in rules.names(claims.get(row).rule):
            assert not math.isnan(getattr(own[name], "value", own[name])), f"{row}: {name} reads no part"
    assert values["B.pitfall"]["lead_mnist_1"].value > 0
    assert values["B.pitfall"]["lead_mnist_200"].value == pytest.approx(-0.3, abs=0.05)
    assert values["B.pitfall"]["lead_mnist_200"].n == 20
    own = values["B.intro-mnist-tiny"]
    assert (own["fcn_less_stw_20"].n, own["fcn_less_stw_60"].n) == (5, 10)
    fresh, first = (np.mean([seed % 7 for seed in seeds]) / 100 for seeds in (range(105, 115), range(100, 105)))
    of_seeds = own["fcn_less_stw_60"].value - own["fcn_less_stw_60_five"].value
    assert of_seeds == pytest.approx(fresh - first)  # the small network's, paired with those of the CNN


def verdicts(*parts):
    return {
        row: rules.verdict(vars(claims.get(row)), ELSEWHERE.get(row, {}) | own, claims.get(row).published)
        for row, own in rows.rows(on(*parts)).items()
    }


def test_rows_wait_for_runs_that_are_missing():
    assert set(verdicts().values()) == {"undecided"}
    some = verdicts("mnist_200", "mnist_1")
    # "all" does not come out by one pair that is the other way round, nor two accuracies by the one with privacy, as
    # far from print as these.
    assert some.pop("B.paw-wins-everywhere") == "not reproducible as stated"
    for kind in ("paw", "stw"):
        assert some.pop(f"B.table1.fcn-mnist-{kind}") == "not reproducible as stated"
    assert set(some.values()) == {"undecided"}
    values = rows.rows(on("mnist_200", "mnist_1"))["B.pitfall"]
    assert values["lead_mnist_200"].n == 20
    assert all(math.isnan(values[name].value) for name in ("lead_mnist_own", "lead_mnist_5", "lead_fashion_200"))


def test_the_registered_seeds_are_reported_and_no_others():
    get = Asked(made_up)
    PARTS["mnist_5"].function(get, **PARTS["mnist_5"].inputs)
    assert {job["seed"] for job in get.reported()} == REGISTERED
    assert {job["seed"] for job in get.tuning()} == {1000, 1001, 1002}


def test_an_extension_decides_by_its_new_seeds_alone():
    """Where the small network leads on the first twenty seeds, and is behind on the eighty new ones."""

    def turned(job):
        new, small = job["seed"] in range(200, 280), job["model"] == "fcn-fashion-mnist-paw"
        return {"validation": 0.9, "test": 0.85 + small * (-0.001 if new else 0.01) + 1e-4 * (job["seed"] % 7) * small}

    chosen = {name: PARTS[name] for name in ("fashion_200", "fashion_200_more")}
    study = SimpleNamespace(parts=chosen, read=lambda part: chosen[part].function(Asked(turned), **chosen[part].inputs))
    values = rows.rows(study)
    both = values["B.paw-wins-everywhere"]
    assert both["lead_fashion_200"].value > 0.5
    assert both["lead_fashion_200_more"].value < 0
    assert both["lead_fashion_200_more"].n == 80
    row = claims.get("B.paw-wins-everywhere")
    assert rules.verdict(vars(row), both, row.published) == "not reproducible as stated"
    assert values["B.table1.fcn-fashion-mnist-stw"]["acc_dpsgd_more"].n == 80


@pytest.mark.parametrize(("sgd_prefers_small", "sign"), [(True, 1), (False, -1)])
def test_the_batch_that_suits_sgd_is_held_against_the_other(sgd_prefers_small, sign):
    """Larger batches gain half a point with DP-SGD, and SGD's scores prefer either."""

    def trained(job):
        small, private = job["batch"] == 250, job["epsilon"] is not None
        score = 0.9 if private else 0.9 + 0.01 * (small == sgd_prefers_small)
        return {"validation": score, "test": 0.95 - 0.005 * (small and private) + 1e-4 * (job["seed"] % 7)}

    chosen = {name: PARTS[name] for name in ("mnist_20", "mnist_20_sgd", "longer")}
    read = {name: part.function(Asked(trained), **part.inputs) for name, part in chosen.items()}
    values = rows.batch_sizes(SimpleNamespace(parts=chosen, read=read.get))
    for network in ("simple", "complex"):
        assert values[f"batch_250_less_1024_{network}"].value == pytest.approx(-0.5, abs=0.05)
        assert values[f"batch_250_less_1024_{network}"].n == 5
        assert values[f"loss_at_sgd_batch_{network}"].value == pytest.approx(sign * 0.5, abs=0.05)


def test_the_best_length_is_chosen_by_tuning_and_not_by_what_is_reported():
    runs = {
        epochs: {SIMPLE: [{"test": test, "tuning_score": score}], COMPLEX: [{"test": 0.5, "tuning_score": score}]}
        for epochs, test, score in zip(rows.EPOCHS, (0.9, 0.8, 0.7, 0.6, 0.5), (1, 2, 5, 4, 3), strict=True)
    }
    assert rows.at_best_length(runs, SIMPLE).tolist() == accuracies([{"test": 0.7}], "test").tolist()
    del runs[1]
    assert rows.at_best_length(runs, SIMPLE) is None


def test_best_of_three_is_above_the_mean_and_has_an_interval():
    values = np.random.default_rng(0).normal(95.0, 0.2, size=20)
    best = rows.best_of_three(values)
    assert best.low < best.value < best.high
    assert best.value == pytest.approx(values.mean() + 0.846 * values.std(ddof=1), abs=0.05)  # E max of three normals


def test_a_table_has_a_row_for_each_length_run_or_not():
    leads = rows.table(on("mnist_1", "mnist_200", "fashion_5_sgd"))
    assert len(leads) == 2 * 2 * len(rows.EPOCHS)
    run = leads[leads["seeds"] > 0]
    assert run[["pair", "training", "epochs"]].values.tolist() == [
        ["fcn-mnist", "DP-SGD", 1], ["fcn-mnist", "DP-SGD", 200], ["fcn-fashion-mnist", "SGD", 5]
    ]  # fmt: skip
    assert run["lead"].iloc[0] > 0 > run["lead"].iloc[1]
    assert leads[leads["seeds"] == 0]["lead"].isna().all()
