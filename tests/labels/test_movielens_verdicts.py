"""Sentences and verdicts on ratings, from tables that are made up."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dplib import claims
from dplib.labels import movielens, movielens_verdicts
from dplib.stats import paired

METHODS = ("LP-1ST", "LP-1ST, likeliest", "LP-1ST, unmixed", "LP-2ST", "LP-2ST, unmixed prior", "biases", "constant")


def table(means):
    """Five seeds for each (method, epsilon) of ``means``, around that mean."""
    rng = np.random.default_rng(0)
    shift = rng.normal(0, 0.01, 5)
    return pd.DataFrame(
        [
            {"epsilon": e, "method": m, "seed": s, "rmse": mean + shift[s] + rng.normal(0, 1e-3), "mean_k": 4.2}
            for (m, e), mean in means.items()
            for s in range(5)
        ]
    )


def as_printed():
    """Runs whose means are those of Table 3, with a constant between, and biases below both."""
    means = {}
    for method in ("LP-1ST", "LP-2ST"):
        published = claims.get(f"C.table3.{method.lower()}").published
        for key, value in published.items():
            means[method, np.inf if key == "eps_inf" else float(key[3:])] = value
    for (method, e), value in list(means.items()):
        if method == "LP-1ST":
            means["constant", e], means["biases", e] = 1.1, 0.85
            means["LP-1ST, likeliest", e] = value + (0.1 if e > 1 else -0.1)
            if np.isfinite(e):
                means["LP-1ST, unmixed", e] = value - 0.05
    return table(means)


@pytest.fixture(scope="module")
def ratings():
    return movielens.load("synthetic-ratings", 0)


def test_the_constant_of_movielens_1m_is_below_the_printed_lp_1st():
    counts, stars = np.array(movielens.STARS_OF_1M), np.arange(1, 6)
    mean = (counts * stars).sum() / counts.sum()
    expected = np.sqrt((counts * (stars - mean) ** 2).sum() / counts.sum())
    assert movielens_verdicts.constant_of_1m() == pytest.approx(expected)
    assert expected < claims.get("C.table3.lp-1st").published["eps1"]


def test_budgets_beyond_chance_are_named():
    seeds = np.arange(5.0)
    wobble = np.array([0, 1, -1, 1, -1]) / 100
    found = {
        1.0: paired(seeds + 1 + wobble, seeds),
        2.0: paired(seeds + wobble, seeds),
        np.inf: paired(seeds - 1, seeds),
    }
    assert movielens_verdicts.where(found, above=True) == "at ε = 1"
    assert movielens_verdicts.where(found, above=False) == "at ε = ∞"
    assert movielens_verdicts.where({2.0: found[2.0]}, above=True) == "nowhere"


def test_sentences_say_what_the_table_says(ratings):
    said = movielens_verdicts.sentences(as_printed(), ratings)
    assert "worse than that: LP-1ST at ε = 1, LP-2ST nowhere" in said["ratings_constant"]
    assert "lowers the RMSE of LP-1ST at ε = 1, 2, 3, 4, 8, and raises it nowhere" in said["ratings_unmixed"]
    # Table 3's gains are 0.088, 0.053, 0.011, 0.003, 0.002: only the first two exceed 0.05 beyond doubt.
    assert "LP-2ST is better at ε = 1, and worse at ε = 3, 4, 8" in said["ratings_unmixed"].replace(
        "1, 2, and", "1, and"
    )
    assert said["ratings_biases"] == (
        "Beyond chance it is better than LP-2ST at ε = 1, 2, 3, 4, 8, and worse nowhere; than LP-1ST it is better at "
        "ε = 1, 2, 3, 4, 8, ∞, and worse nowhere."
    )
    assert "4,000 ratings of 100 films by 120 users" in said["ratings_about"]
    assert said["ratings_stuck"].startswith("In every run")
    stuck = as_printed().assign(mean_k=3.0)
    said = movielens_verdicts.sentences(stuck, ratings)["ratings_stuck"]
    assert said.startswith("In some runs of LP-2ST (5 of 5 at ε = 1, ")


def test_runs_with_a_constant_first_stage_are_counted_by_budget():
    runs = as_printed()
    runs.loc[(runs["epsilon"] == 1) | ((runs["epsilon"] == 2) & (runs["seed"] < 2)), "mean_k"] = 3.0
    assert movielens_verdicts.collapsed(runs, 5) == {1.0: 5, 2.0: 2}
    assert movielens_verdicts.collapsed(runs, 3) == {}  # all classes: plain randomised response
    assert movielens_verdicts.collapses(runs, 5) == "5 of 5 at ε = 1, 2 of 5 at ε = 2"


def test_improvements_on_ratings():
    wobble = np.array([0, 1, -1, 1, -1]) / 1000
    better, worse, level = paired(wobble - 1, 0 * wobble), paired(wobble + 1, 0 * wobble), paired(wobble, 0 * wobble)
    improves = movielens_verdicts.improves_verdict
    assert improves([better, level], True) == "holds"
    assert improves([better, worse], True) == "holds with change"
    assert improves([worse, level], True) == "fails"
    assert improves([level], True) == improves([better], False) == "undecided"


def verdicts(runs, found):
    made = movielens_verdicts.records(runs, found, batch_size=128, learning_rate=0.4, epochs=[200])
    return {claim: record.verdict for claim, record in made.items()}


def test_only_the_paper_s_own_data_decide_its_table(ratings):
    runs = as_printed()
    synthetic = verdicts(runs, ratings)
    assert synthetic.pop("C.s-movielens-network") == "holds"  # it is built as said, whatever the ratings
    assert set(synthetic.values()) == {"undecided"}
    assert "C.table3.lp-1st" not in synthetic
    small = verdicts(runs, replace(ratings, name="movielens-latest-small"))
    assert small["C.table3.lp-1st"] == small["C.table3.lp-2st"] == "undecided"
    assert small["C.s-movielens-network"] == "holds"
    own = verdicts(runs, replace(ratings, name="movielens-1m"))
    assert set(own.values()) == {"holds"}
    other = runs.assign(rmse=runs["rmse"] + 0.1)
    assert verdicts(other, replace(ratings, name="movielens-1m"))["C.table3.lp-2st"] == "undecided"
