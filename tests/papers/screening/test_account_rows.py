"""Paper D's comparisons at three accounts: what rows ask for, with runs whose curves are known."""

import math
from fnmatch import fnmatch
from types import SimpleNamespace

import numpy as np
import pytest

from book.evidence import claims, plans, rules
from papers.screening import account_rows as rows
from tests.toys import Asked

SETTING = {"mnist": (1.23, 512 / 60_000), "fashion-mnist": (2.15, 2048 / 60_000)}
KNOWN = {**plans.load("11", "published").parts, **plans.load("11", "wanted").parts}
PARTS = [name for name, part in KNOWN.items() if part.inputs.get("first") == 100]


def made_up(job):
    """Accuracy rises by kept steps. The annealed method rejects every other candidate, is as good for each kept one,
    and two points better on records that J saw.
    """
    noise, rate = SETTING[job["dataset"]]
    annealed, top = job["scheme"] == "annealed", 0.95 if job["dataset"] == "mnist" else 0.83
    kept = np.unique(np.geomspace(10, 9000, 40).round())
    accuracy = top + 0.045 * np.log10(kept / 9000) / 2 + 1e-4 * (job["seed"] % 7) + 0.04 * (kept / 9000)
    columns = {"accepted": kept, "queries": kept * (1 + annealed), "accuracy": accuracy, "loss": 1 - accuracy}
    columns |= {"seen": accuracy + 0.02, "unseen": accuracy}
    if stopped := job.get("rejection_limit", 10) is None:  # without the limit trainings stop early
        columns = {name: column[:20] for name, column in columns.items()}
    return {
        "noise_multiplier": noise, "sample_rate": rate, "accuracy": float(accuracy[-1]),
        "accepted": 100 if stopped else 9000, "queries": (1 + annealed) * 9000,
        "tenths": {"by_chance": [9, 1], "rejected": [1, 4]},
        "witness": {"accepted": 10, "accepted_lower": 8, "lower_j": 6, "lower_j_alone": 3},
        "curve": {name: column.tolist() for name, column in columns.items()},
    }  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def allowed():
    """Steps by PLD without the accountant, which takes a second for each budget."""
    patch = pytest.MonkeyPatch()
    patch.setattr(rows.accounts, "tight", lambda noise, rate, n, delta: float(
        rows.accounts.paper_epsilon(noise, rate, max(1, round(n / 1.5)), delta)))  # fmt: skip
    rows.steps_at.cache_clear()
    yield
    patch.undo()
    rows.steps_at.cache_clear()


# What chapter 11 records beside the values that are computed there.
ELSEWHERE = ("queries_against_the_rule", "accepted_that_lower_j_*", "such_rises_*")


def elsewhere(name):
    return any(fnmatch(name, other) for other in ELSEWHERE)


def on(*parts):
    chosen = {name: KNOWN[name] for name in parts}
    return SimpleNamespace(parts=chosen, read=lambda part: chosen[part].function(Asked(made_up), **chosen[part].inputs))


def test_every_part_is_read_and_every_rule_has_its_values():
    study = on(*PARTS)
    values = rows.rows(study) | rows.of_settings(study)
    for row, own in values.items():
        claim = claims.get(row)
        for name in [*rules.names(claim.rule), *(rules.names(claim.corrected) if claim.corrected else [])]:
            if elsewhere(name):
                continue
            assert name in own, f"{row}: {name}"
            assert not math.isnan(own[name].value), f"{row}: {name} reads no part"
            assert own[name].n in (5, 20)
    gain = values["D.s-gain-same-hyperparameters"]
    assert gain["gain_kept_unseen_tanh_mnist"].value == pytest.approx(0, abs=1e-9)
    assert gain["gain_lemma2_unseen_tanh_mnist"].value < -0.5
    assert values["D.s-speeds-convergence"]["work_ratio_lemma2_tanh_mnist"].high < 1
    behind = values["D.s-count-of-accepted"]["farther_by_queries_than_by_kept_mnist"].value
    assert behind == pytest.approx(-gain["gain_lemma2_all_tanh_mnist"].value)  # as good for each kept step
    rise = 2.25 * math.log10(1.5) + 4 * 4698 / 3 / 9000  # of the curve's formula, over the last third
    assert values["D.s-late-iterations"]["late_rise_dpsgd_tanh_mnist"].value == pytest.approx(rise, rel=0.05)
    assert values["D.s-late-iterations"]["late_fall_of_loss_dpsgd_mnist"].value == pytest.approx(rise / 100, rel=0.05)
    assert values["D.fig3-accuracy"]["share_ahead_lemma2_all_tanh_mnist"].value == 0
    assert values["D.s-rejection-limit"]["share_stopped_without_limit"].value == 1
    assert values["D.s-rejects-nearly-all"]["rises_passed_percent_last_tenth_mnist"].value == 20
    assert values["D.s-tiny-probability"]["share_that_lower_j_and_raise_the_training_loss"].value == 0.5
    assert values["D.s-always-accept-better"]["accepted_that_lower_the_training_loss_percent"].value == 80


def test_rows_wait_for_runs_that_are_missing():
    for parts in ([], ["honest_mnist", "halves"]):
        study = on(*parts)
        for row, own in (rows.rows(study) | rows.of_settings(study)).items():
            claim = claims.get(row)
            if any(map(elsewhere, rules.names(claim.rule))):
                continue
            verdict = rules.verdict(vars(claim), own, claim.published)
            assert parts or verdict == "undecided", row
    assert rows.of_settings(study)["D.s-time-consuming"]["queries_an_update_20_less_5"].n == 1


def test_one_data_set_refutes_what_is_said_of_all():
    """Behind at equal noisy gradients, by every sound account, on one data set: no lead, and none at kept steps."""
    own = rows.rows(on("honest_mnist"))["D.s-gain-same-hyperparameters"]
    claim = vars(claims.get("D.s-gain-same-hyperparameters"))
    assert rules.verdict(claim, own, claim["published"]) == "not reproducible as stated"  # momentum and J's records
    assert rules.verdict(claim | {"unstated": ""}, own, claim["published"]) == "fails"


def test_a_run_that_does_not_get_there_counts_as_there_at_the_end_whichever_it_is():
    curves = ({"queries": [10, 5000], "accepted": [10, 5000], "accuracy": [0.1, top]} for top in (0.4, 0.9))
    low, high = ({"curve": curve} for curve in curves)
    for run in (low, high):
        run |= {"noise_multiplier": 1.23, "sample_rate": 512 / 60_000}
    arms = {"ours": [low, high], "dpsgd_tanh": [high, low]}
    savings = rows.saving(arms, "tanh", "lemma2", 50)
    assert savings[0] == pytest.approx(-savings[1])
    assert savings[0] < 0


def test_the_share_of_budgets_draws_whole_curves():
    ahead, level = np.full((10, 20), 1.0), np.zeros((10, 20))
    noise = np.random.default_rng(1).normal(size=(1, 20))  # the same at all budgets
    assert rows.share_ahead(ahead).low == 1
    wide = rows.share_ahead(level + noise)
    assert (wide.low, wide.high) == (0, 1)


def test_leads_have_rows_only_where_both_curves_reach():
    part = KNOWN["honest_mnist"]
    arms = part.function(Asked(made_up), **part.inputs)
    leads = rows.leads({"mnist": arms}, "tanh")
    assert set(leads["account"]) == set(rows.ACCOUNTS)
    assert np.isfinite(leads[["lead", "low", "high"]]).all(axis=None)
    assert leads["epsilon"].min() > min(rows.GRID)  # the smallest budget pays for no step by Lemma 2


def test_runs_that_go_beyond_the_budget_are_read_where_it_is_spent():
    study = on("honest_mnist", "relu_mnist")
    full = rows.compared(study)["mnist"]
    assert set(full) == {"ours", "dpsgd_tanh", "dpsgd_auto_s", "dpsgd"}
    cut, steps = rows.ended(full), rows.steps_at(*SETTING["mnist"], "lemma2")
    assert 10 < steps < 9000
    assert cut.pop("ours") == full["ours"]
    for arm, results in cut.items():
        for run, whole in zip(results, full[arm], strict=True):
            assert run["curve"]["queries"][-1] == run["queries"] == steps
            assert run["accuracy"] == run["curve"]["accuracy"][-1] == rows.read(whole, "queries", steps, "accuracy")
            assert run["curve"]["accuracy"][:-1] == whole["curve"]["accuracy"][: len(run["curve"]["accuracy"]) - 1]
    short = {"dpsgd": [{**full["dpsgd"][0], "accepted": steps}]}
    assert rows.ended(short) == short
    assert rows.compared(on("limits")) == {}


def test_figure_4_has_the_printed_setting_in_each_panel_and_only_panels_that_were_run():
    drawn = rows.figure_4(on("limits", "still", "batches"))
    assert set(drawn["part"]) == {"batches"}
    for _, line in drawn.groupby(["account", "momentum"]):
        assert line["given"].tolist() == [256, 512, 1024]
    both = rows.figure_4(on("limits", "rates", "batches"))  # without the printed setting without momentum
    assert both.groupby(["part", "momentum"])["given"].nunique().to_dict() == {
        ("batches", "momentum"): 3, ("batches", "still"): 2, ("rates", "momentum"): 4, ("rates", "still"): 3,
    }  # fmt: skip
    assert rows.figure_4(on("limits")).empty


def test_more_seeds_alone_decide_of_the_accuracy_at_a_low_rate():
    few = rows.of_settings(on("limits", "rates"))["D.fig4a"]
    more = rows.of_settings(on("limits", "rates", "low_rate"))["D.fig4a"]
    assert (few["rate_0_1_momentum_lemma2"].n, more["rate_0_1_momentum_lemma2"].n) == (5, 10)
    assert {name for name in few if few[name] != more[name]} == {"rate_0_1_momentum_lemma2", "rate_0_1_momentum_kept"}
