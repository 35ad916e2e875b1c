"""Values of chapter 11, and rows of Tables 1 and 3, from runs with known curves."""

import math

import numpy as np
import pytest

from dplib.screening import values

SETTING = {"noise_multiplier": 1.23, "sample_rate": 512 / 60_000}


def run(accepted, queries, accuracy, **more):
    """A run evaluated after these counts, with these accuracies."""
    curve = {"accepted": accepted, "queries": queries, "accuracy": accuracy, "loss": [1 - a for a in accuracy]}
    last = {"accepted": accepted[-1], "queries": queries[-1], "accuracy": accuracy[-1]}
    return {**SETTING, **last, "curve": {**curve, "unseen": [a - 0.01 for a in accuracy]}, **more}


def plain(end, steps=(100, 1000, 4698)):
    return run(list(steps), list(steps), [end - 0.2, end - 0.1, end])


def ours(end):
    """Twice as many queries as accepted updates, and one evaluation right after a rejection."""
    return run([50, 100, 100, 1000, 2349, 4698], [100, 200, 201, 2000, 4698, 9396],
               [end - 0.25, end - 0.2, end - 0.2, end - 0.1, end - 0.05, end])  # fmt: skip


def test_a_curve_is_read_by_either_count():
    one = ours(0.9)
    assert values.read(one, "accepted", 100) == pytest.approx(0.7)
    assert values.read(one, "queries", 201) == pytest.approx(0.7)
    assert values.read(one, "accepted", 550) == pytest.approx(0.75)
    assert math.isnan(values.read(one, "accepted", 10))
    assert math.isnan(values.read(one, "queries", 10_000))


def test_a_gain_at_equal_queries_pays_for_the_rejected_ones():
    pairs = [0.9, 0.92, 0.91], [0.89, 0.90, 0.90]
    a, b = [ours(e) for e in pairs[0]], [plain(e) for e in pairs[1]]
    difference = 100 * np.subtract(*pairs)
    assert values.gain(a, b).value == pytest.approx(difference.mean())
    assert values.gain(a, b, "queries").value == pytest.approx(difference.mean() - 5)
    assert values.gain(a, b, ours_column="unseen").value == pytest.approx(difference.mean() - 1)
    assert values.gain(a, b, column="loss").value == pytest.approx(-difference.mean() / 100)
    assert values.gain(a[:2], b).n == 2


def test_the_nearest_scheme_is_the_one_that_the_gain_is_smallest_over():
    arms = {"ours": [ours(0.9), ours(0.91)], "dpsgd": [plain(0.8), plain(0.8)], "auto": [plain(0.895), plain(0.9)]}
    found = values.nearest({"fashion-mnist": arms})
    assert found["nearest_fashion_mnist"] == "auto"
    assert found["gain_fashion_mnist"].value == pytest.approx(0.75)


def test_a_target_is_reached_between_two_evaluations_and_counted_either_way():
    one = run([100, 300, 500], [200, 600, 1000], [0.80, 0.90, 0.94])
    assert values.reached(one, 85) == values.epsilon(one, 200)
    assert values.reached(one, 85, "queries") == values.epsilon(one, 400)
    assert values.reached(one, 70) == values.epsilon(one, 100)
    assert np.isnan(values.reached(one, 95))


def trained(shift=0.0):
    """MNIST: the annealed runs reach each target after half of the updates of the others; AUTO-S never reaches 98."""
    rng, steps = np.random.default_rng(0), [100, 1000, 2000, 4000]
    ours, others, auto = [], [], []
    for noise in rng.normal(0, 5e-4, 5):
        start = [0.93 + noise, 0.95 + noise, 0.97 + noise]
        half = [n // 2 for n in steps]
        ours.append(run(half, [3 * n for n in half], [*start, 0.985 + shift + noise]))
        others.append(run(steps, steps, [*start, 0.985 + noise]))
        auto.append(run(steps, steps, [*start, 0.975 + noise]))
    return {"mnist": {"ours": ours, "dpsgd": others, "dpsgd_tanh": others, "dpsgd_auto_s": auto}}


def test_the_smallest_saving_decides_and_pays_for_being_chosen():
    arms = trained()["mnist"]
    found = values.cheaper(trained())
    means = [values.savings(arms, other, t).mean() for other in values.OTHERS for t in values.TARGETS["mnist"]]
    assert found["least_saving"].value == pytest.approx(min(means))
    assert found["least_saving"].low > 0 > found["least_saving_queries"].high
    assert found["compared"] == 9
    assert values.cheaper(trained(shift=-0.01))["compared"] == 6


def test_a_saving_over_a_run_that_falls_short_is_at_least_what_it_spent():
    arms = trained()["mnist"]
    least = values.savings(arms, "dpsgd_auto_s", 98)
    ends = [values.epsilon(one, 4000) for one in arms["dpsgd_auto_s"]]
    assert least == pytest.approx(np.subtract(ends, [values.reached(one, 98) for one in arms["ours"]]))
    assert values.growth(trained())["growth_mnist"].low > 0
