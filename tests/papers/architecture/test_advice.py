"""The advice on tables: its methods' budgets, its rules on made-up runs, and what the kept runs say by them."""

import math

import numpy as np
import pytest

from book.evidence import plans, sources
from dplib import mechanisms, tables
from dplib.stats import Measured
from papers.architecture import advice_methods, advice_ranges, advice_rows, advice_tables
from papers.architecture.advice_rows import Point, promise


@pytest.fixture(scope="module")
def advice():
    return plans.load("13").read("advice")


def point(table, strength, share):
    return Point(table, 1.0, strength, Measured(share), Measured(80.0), 50.0, 90.0, 100, 5, 2)


def test_a_promise_is_what_all_but_one_of_four_keep_and_by_the_first_rule_of_ten():
    shares = np.linspace(0.95, 0.6, 19)  # falling: the k-th smallest is the k-th from the end
    for count, of, k in ((6, 4, 1), (7, 4, 2), (19, 4, 5), (18, 10, 1), (19, 10, 2)):
        points = [point(f"t{i}", 50.0, share) for i, share in enumerate(shares[:count])]
        said = promise(points, 100.0, of)
        assert (said.share, said.count) == (pytest.approx(shares[count - k]), count)


@pytest.mark.parametrize(
    ("shares", "strengths", "reason"),
    [
        ([0.9] * 4, [50.0] * 4, "unmeasured"),
        ([0.9] * 6, [101.0] * 6, "unmeasured"),  # stronger than the problem
        ([0.9] * 6, [9.0] * 6, "unmeasured"),  # weaker by more than a factor of ten
        ([0.05] * 6, [50.0] * 6, "nothing"),
        ([0.3, 0.3, *[0.9] * 5], [50.0] * 7, "disagree"),
    ],
)
def test_where_there_is_no_number_a_reason_stands(shares, strengths, reason):
    points = [point(f"t{i}", s, share) for i, (share, s) in enumerate(zip(shares, strengths, strict=True))]
    said = promise(points, 100.0)
    assert (said.share, said.reason) == (None, reason)


def test_of_a_table_the_budget_counts_that_is_nearest_below():
    points = [point(f"t{i}", s, share) for i in range(6) for s, share in ((20.0, 0.2), (90.0, 0.8), (110.0, 1.0))]
    assert promise(points, 100.0).share == 0.8


def runs_of(accuracies, constant=0.5):
    return [{"accuracy": [accuracies] * 4, "constant": constant}] * 2


def test_a_table_that_is_left_out_has_no_say_in_its_setting():
    plain = {name: [{"accuracy": 0.9, "constant": 0.5}] * 2 for name in "abc"}
    tried = {("m", "a"): runs_of([0.9, 0.5]), ("m", "b"): runs_of([0.6, 0.8]), ("m", "c"): runs_of([0.6, 0.7])}
    choices_ = advice_rows.choices(plain, tried, {"m": [[1.0], [2.0]]})
    assert choices_["m"] == {"": (1.0,), "a": (2.0,), "b": (1.0,), "c": (1.0,)}


def test_a_table_without_a_gain_has_no_share():
    plain = {"a": [{"accuracy": 0.9, "constant": 0.88}] * 2, "b": [{"accuracy": 0.9, "constant": 0.5}] * 2}
    assert advice_rows.gains(plain) == {"b": pytest.approx(0.4)}


def test_the_noise_of_objective_perturbation_is_just_enough():
    """Its bound on delta, at epsilon 0.5: twice the Gaussian's beyond what the determinant takes."""
    spread = advice_methods.objective_noise(0.5, 1e-5, 0.1, math.sqrt(2))
    delta = 2 * float(mechanisms.gaussian_delta(spread, math.sqrt(2), 0.4))
    assert delta == pytest.approx(1e-5, rel=1e-6)
    assert spread > float(mechanisms.analytic_sigma(0.5, 1e-5, math.sqrt(2)))


@pytest.mark.parametrize(("method", "setting"), [
    ("gradient", [0.2, 1.5, 1.6, 20]), ("fourier", [0.25, 0.8, 40]), ("means", [0.25, 1.0]), ("squares", [0.2, 0.3]),
    ("objective", [0.3, 0.1, 1.0]), ("pure", [3.0]),
])  # fmt: skip
def test_every_method_learns_where_there_is_next_to_no_noise(method, setting):
    """Nine tenths of what the best classifier gains on ten normal columns."""
    train, test = advice_tables.split("normal", 0, "report")
    fit, z = advice_methods.METHODS[method], train.columns(train.x)
    predict = fit(z, train.y, train.columns, 2, 100.0, 1e-5, np.random.default_rng(0), *setting)
    reached, best = (predict(test.columns(test.x)) == test.y).mean(), (test.best == test.y).mean()
    assert reached - 0.5 > 0.9 * (best - 0.5)


def test_tables_are_of_all_kinds_and_no_training_row_is_a_test_row():
    kinds = set()
    for name in (*advice_tables.SHIPPED, *advice_tables.DRAWN):
        table = advice_tables.load(name)
        kinds.add((table.classes > 2, bool(table.columns.numeric.any()), bool(table.columns.categories)))
        for part in ("report", "tune"):
            train, test = (rows.columns(rows.x) for rows in advice_tables.split(name, 3, part))
            assert np.abs(train).max() <= 1
            assert len(train) + len(test) <= len(table.y)
    assert len(kinds) == 5
    report, tune = (advice_tables.split("normal", 3, part) for part in ("report", "tune"))
    held = {row.tobytes() for row in report[1].x}
    assert not held & {row.tobytes() for part in (*tune, report[0]) for row in part.x}


def test_the_librarys_setting_is_the_one_that_was_chosen(advice):
    moments, clip, rate, steps = advice.chosen["gradient"][""]
    assert tables.Settings() == tables.Settings(moments, clip, rate, int(steps))
    assert advice.advised() == "gradient"


def test_promises_are_kept_about_as_often_as_they_say(advice):
    """Three in four, of tables that are left out, and not far from it on three of another source."""
    for said, least in (
        (advice_rows.left_out(advice, "gradient"), 0.75), (advice_rows.outside(advice, plans.load("13")), 0.6)
    ):  # fmt: skip
        kept = [one.share.value >= made.share for one, made in said if made.share is not None]
        assert len(kept) >= 7
        assert np.mean(kept) >= least


def test_what_had_to_be_shown_is_shown():
    """Made tables within two points of ordinary logistic regression, tumours at 92% or more."""
    values = {name: (private, plain) for name, _, private, plain in advice_rows.checked(plans.load("13"))}
    for name in advice_tables.MADE:
        private, plain = (
            [100 * r[key] for r in some] for some, key in zip(values[name], ("test", "logistic"), strict=True)
        )
        assert np.mean(private) > np.mean(plain) - 2, name
    assert np.mean([100 * r["test"] for r in values["tumours"][0]]) >= 92


def test_the_tumours_setting_is_the_one_that_other_tables_chose(advice):
    assert list(advice.chosen["gradient"]["tumours"]) == plans.load("13").parts["tumours"].inputs["settings"][0]


def test_what_ranges_cost_is_a_mean_over_tables_of_differences_of_shares():
    plain = {name: [{"logistic": 0.9, "constant": 0.5}] for name in "ab"} | {"c": [{"logistic": 0.51, "constant": 0.5}]}
    runs = {
        "a": [{"accuracy": [[0.8, 0.7, 0.76]] * 4}] * 2, "b": [{"accuracy": [[0.7, 0.7, 0.7]] * 4}] * 2,
        "c": [{"accuracy": [[0.5, 0.9, 0.9]] * 4}] * 2,  # no gain, no share
    }  # fmt: skip
    costs_ = advice_ranges.costs(runs, plain)
    assert costs_["public", 1.0].value == 0
    assert costs_["wide", 1.0].value == pytest.approx(-0.125)
    assert costs_["private", 0.1].value == pytest.approx(-0.05)
    assert not advice_ranges.little(costs_["private", 0.1])
    assert advice_ranges.little(Measured(-0.02, -0.04, 0.0))


def test_the_tables_of_numbers_are_those_whose_ranges_somebody_must_know():
    values = [
        name
        for name in (*advice_tables.SHIPPED, *advice_tables.DRAWN)
        if advice_tables.unknown(advice_tables.load(name).columns).any()
    ]
    assert [*advice_tables.NUMBERS] == ["adult", "medical-cost", *values]


def test_the_chapter_says_what_ranges_cost(advice):
    runs = advice_ranges.runs_by_table(plans.load("13"))
    cost = {at: (100 * c.value, 100 * c.low, 100 * c.high) for at, c in advice_ranges.costs(runs, advice.plain).items()}
    wine = [np.mean([r["accuracy"][2][way] for r in runs["wine"]]) for way in (0, 2)]
    lost = (wine[0] - wine[1]) / advice_rows.gains(advice.plain, "logistic")["wine"]
    mean, low, high = (f"{-end:.0f}".replace("-", "−") for end in cost["private", 1.0])
    tables, rows = set(runs) & set(advice_rows.gains(advice.plain, "logistic")), runs["wine"][0]["n"]
    for said in (
        f"costs {-cost['wide', 1.0][0]:.0f} points at ε = 1", f"cost {mean} points [{high}, {low}] there",
        f"and {-cost['private', 0.1][0]:.0f} at 0.1",
        f"{100 * lost:.0f} points on {rows} wines at ε = 1",
        f"on {len(tables)} tables the public ranges",
    ):  # fmt: skip
        assert said in sources.source("13_choose_a_model").read_text(encoding="utf-8")
    little = {
        e for e in advice_rows.EPSILONS if advice_ranges.little(advice_ranges.costs(runs, advice.plain)["private", e])
    }
    assert little == {3.0}  # "nothing to speak of"
