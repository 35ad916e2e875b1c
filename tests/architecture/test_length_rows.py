"""The accuracy gap against the length of training: what its rows say with all runs, with some, and with none."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from dplib import claims, plans, rules
from dplib.architecture import length_rows as rows
from dplib.architecture.crossover_study import COMPLEX, SIMPLE, accuracies
from tests.toys import Asked

REGISTERED = {100 + i for i in range(20)}


def made_up(job):
    """The small network leads in short trainings, the large one in long ones; both are best after 60 epochs."""
    epochs, small = job["steps"] / 240, job["model"] in ("fcn-mnist-paw", "fcn-fashion-mnist-paw")
    score = 0.9 - 0.01 * abs(math.log(epochs / 60)) - 0.01 * abs(math.log(job["learning_rate"] / 0.5))
    lead = 0.02 - 0.01 * math.log10(epochs)
    return {"validation": score, "test": score + lead * small + 1e-4 * (job["seed"] % 7) * small}


def on(*parts):
    """The plan's parts of these names, with made-up runs."""
    wanted = plans.load("04", "wanted").parts
    chosen = {name: wanted[name] for name in parts}
    return SimpleNamespace(parts=chosen, read=lambda part: chosen[part].function(Asked(made_up), **chosen[part].inputs))


EVERY = [name for name in plans.load("04", "wanted").parts if name != "cnns"]


def test_every_part_is_read_and_every_rule_has_its_values():
    values = rows.rows(on(*EVERY))
    for row, own in values.items():
        assert set(rules.names(claims.get(row).rule)) <= set(own), row
        for name in rules.names(claims.get(row).rule):
            assert not math.isnan(getattr(own[name], "value", own[name])), f"{row}: {name} reads no part"
    assert values["B.pitfall"]["lead_mnist_1"].value > 0
    assert values["B.pitfall"]["lead_mnist_200"].value == pytest.approx(-0.3, abs=0.05)
    assert values["B.pitfall"]["lead_mnist_200"].n == 20
    assert values["B.intro-mnist-tiny"]["fcn_less_stw_20"].n == 5


def verdicts(*parts):
    return {
        row: rules.verdict(vars(claims.get(row)), own, claims.get(row).published)
        for row, own in rows.rows(on(*parts)).items()
    }


def test_rows_wait_for_runs_that_are_missing():
    assert set(verdicts().values()) == {"undecided"}
    some = verdicts("mnist_200", "mnist_1")
    assert some.pop("B.paw-wins-everywhere") == "fails"  # "all": refuted by one pair that is the other way round
    for kind in ("paw", "stw"):  # and two accuracies by the one with privacy, as far from print as these
        assert some.pop(f"B.table1.fcn-mnist-{kind}") == "not reproducible as stated"
    assert set(some.values()) == {"undecided"}
    values = rows.rows(on("mnist_200", "mnist_1"))["B.pitfall"]
    assert values["lead_mnist_200"].n == 20
    assert all(math.isnan(values[name].value) for name in ("lead_mnist_own", "lead_mnist_5", "lead_fashion_200"))


def test_the_registered_seeds_are_reported_and_no_others():
    get = Asked(made_up)
    part = plans.load("04", "wanted").parts["mnist_5"]
    part.function(get, **part.inputs)
    assert {job["seed"] for job in get.reported()} == REGISTERED
    assert {job["seed"] for job in get.tuning()} == {1000, 1001, 1002}


def test_the_best_length_is_chosen_by_tuning_and_not_by_what_is_reported():
    runs = {
        epochs: {SIMPLE: [{"test": test, "tuning_score": score}], COMPLEX: [{"test": 0.5, "tuning_score": score}]}
        for epochs, test, score in zip(rows.EPOCHS, (0.9, 0.8, 0.7, 0.6, 0.5), (1, 2, 5, 4, 3), strict=True)
    }
    assert rows.at_best_length(runs, SIMPLE).tolist() == accuracies([{"test": 0.7}]).tolist()
    del runs[1]
    assert rows.at_best_length(runs, SIMPLE) is None


def test_best_of_three_is_above_the_mean_and_has_an_interval():
    values = np.random.default_rng(0).normal(95.0, 0.2, size=20)
    best = rows.best_of_three(values)
    assert best.low < best.value < best.high
    assert best.value == pytest.approx(values.mean() + 0.846 * values.std(ddof=1), abs=0.05)  # E max of three normals
