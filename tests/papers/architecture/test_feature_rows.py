"""From runs to values of chapter 6: closed forms, brute force and made-up curves; and what its plans ask for."""

import numpy as np
import pytest

from book.evidence import claims, plans
from book.evidence import rules as judged
from papers.architecture import feature_cost_rows
from papers.architecture import feature_rows as rows
from papers.architecture import feature_runs as study
from papers.architecture.feature_runs import Curves
from tests.toys import Asked

rng = np.random.default_rng(0)


@pytest.mark.parametrize("lead", [0.0, 1.5])
def test_the_interval_of_a_gain_has_the_true_one_though_the_best_looks_better(lead):
    """Twenty sizes, equal or one ahead: the mean that is largest lies too high, its interval does not."""
    truth = np.zeros(20)
    truth[3] = lead
    rng, gains = np.random.default_rng(1), []
    for _ in range(400):
        curves = Curves(list(range(1, 21)), [1.0], truth[:, None] + rng.standard_normal((6, 20, 1)), np.zeros(6))
        gains.append(rows.gain(curves, 1.0, 20))
    if not lead:
        assert np.mean([gain.value for gain in gains]) > 0.5
    assert np.mean([gain.low <= lead <= gain.high for gain in gains]) > 0.95


def test_a_gain_by_hand():
    curves = Curves([1, 2, 3], [1.0], np.array([[[1.0], [5.0], [2.0]], [[3.0], [5.0], [3.0]]]), np.zeros(2))
    assert rows.gain(curves, 1.0, 2).value == -2.5  # not 0: a size is not compared with itself
    assert rows.ahead_of_others(curves, 1.0, 2).value == 2.5
    two = rows.gain(curves, 1.0, 3)
    assert (two.value, two.n) == (2.5, 2)
    assert two.high - two.low > rows.mean_interval([3.0, 2.0]).high - rows.mean_interval([3.0, 2.0]).low


def test_new_splits_of_adult_say_of_the_printed_sizes_what_they_are():
    """Five features two points ahead of the others at 0.1; without privacy 108 a point behind ten."""
    sizes, draw = [1, 5, 10, 108], np.random.default_rng(3)
    truth = np.array([[70.0, 83.0], [80.0, 83.0], [78.0, 85.0], [60.0, 84.0]])
    values = truth + 0.01 * draw.standard_normal((30, 4, 2))
    found = rows.adult_splits(Curves(sizes, [0.1, 1e9], values, np.zeros(30)))
    assert found["B.fig3"]["printed_size_less_best_other"].value == pytest.approx(2, abs=0.02)
    assert found["B.fig3"]["all_less_best_other_without_privacy"].value == pytest.approx(-1, abs=0.02)
    best_less_all = found["B.features-no-privacy"]["best_minus_all_adult_without_privacy"]
    assert best_less_all.value == pytest.approx(1, abs=0.02)


def test_the_gain_of_a_subset_is_at_the_budget_that_the_printed_numbers_imply():
    """All features have 57 at 1, near the implied 57.24; there two lead by 12, and a constant of 75 beats them."""
    truth = np.array([[66.0, 68.0, 70.0, 70.0], [65.0, 69.0, 78.0, 79.0], [55.0, 57.0, 64.0, 80.0]])  # 1, 2, 4 features
    values = truth + 0.01 * np.random.default_rng(4).standard_normal((40, 3, 4))
    found = rows.small_subset(Curves([1, 2, 4], [0.5, 1.0, 5.0, 1e9], values, np.full(40, 75.0)))["B.intro-bc-gain"]
    assert (found["features"], found["at_epsilon"]) == (2, 1.0)
    assert found["implied_percent"] == pytest.approx(57.24, abs=0.01)
    assert found["absolute_gain_points"].value == pytest.approx(12, abs=0.02)
    assert found["relative_gain_percent"].value == pytest.approx(100 * 12 / 57, abs=0.05)
    assert found["subset_minus_constant"].value == pytest.approx(-6, abs=0.02)
    assert (found["useful_features"], found["useful_at_epsilon"]) == (2, 5.0)
    assert found["gain_of_a_useful_subset"].value == pytest.approx(14, abs=0.02)
    assert found["largest_gain_points"].value == pytest.approx(14, abs=0.02)


def test_pafs_is_held_against_all_features_at_each_small_budget():
    open_ = rows.pafs_ahead([0.5, 2.0, 5.0], None)
    assert open_ == {"pafs_sound_minus_all_at_0.5": rows.MISSING, "pafs_sound_minus_all_at_2": rows.MISSING}
    percent = {"PAFS (validation)": np.array([[60.0, 70.0], [62.0, 71.0]]), "All": np.full((2, 2), 58.0)}
    found = rows.pafs_ahead([0.5, 2.0], {"epsilons": [0.5, 2.0], "percent": percent})
    assert [lead.value for lead in found.values()] == [3.0, 12.5]


def test_one_more_split_falls_into_its_interval():
    inside = 0
    for _ in range(2000):
        *known, new = rng.standard_normal(7)
        result = rows.one_split(known)
        inside += result.low <= new <= result.high
    assert inside / 2000 == pytest.approx(0.95, abs=0.02)


def test_a_tally_counts_leads_and_what_is_none():
    clear, none, open_ = 5 + 0.1 * rng.standard_normal(8), 0.01 * rng.standard_normal(8), 4 * rng.standard_normal(8)
    assert rows.tally([clear, none]) == {"ahead": 1, "not_ahead": 1, "of": 2}
    assert rows.tally([open_ - open_.mean()]) == {"ahead": 0, "not_ahead": 0, "of": 1}


def made(job):
    """Accuracy of a size at a budget is 10 size + epsilon, and most at regularisation 3 or rate 0.1."""
    if "sizes" in job:
        lost = abs(job.get("regularisation", 3.0) - 3.0)
        percent = [[10 * k + e - lost for e in job["epsilons"]] for k in job["sizes"]]
    else:
        percent = [10 * job["size"] + (e or 0) - abs(rate - 0.1) for e, rate in job["models"]]
    return {"percent": percent, "constant": 70.0, "noise": [1.0] * len(percent)}


def test_regularisation_is_chosen_on_validation_records_of_other_splits():
    get = Asked(made)
    settings = {"dataset": "adult", "sizes": [1, 12, 13], "epsilons": [1.0, 2.0], "draws": [40, 6]}
    found, chosen = study.tuned(get, **settings, regularisations=[1.0, 3.0, 9.0], seeds=4, tuning_seeds=3)
    assert (chosen == 3.0).all()
    assert found.at(13, 2.0).tolist() == [132.0] * 4
    assert found.of(1.0)[:, 0].tolist() == [11.0, 121.0, 131.0]
    blocks = [(job["sizes"], job["draws"]) for job in get.jobs[:2]]
    assert blocks == [([1, 12], 40), ([13], 6)]  # larger subsets get fewer draws
    assert {job["seed"] for job in get.jobs if job.get("report") == "validation"} == {1000, 1001, 1002}
    assert {job["seed"] for job in get.jobs if "report" not in job} == {0, 1, 2, 3}


def test_learning_rates_are_chosen_for_each_cell():
    settings = {"dataset": "breast-cancer", "sizes": [2], "epsilons": [0.5], "draws": 1}
    by_seed = study.by_sgd(Asked(made), **settings, rates=[0.01, 0.1, 1.0], seeds=2, tuning_seeds=3)
    assert set(by_seed.rates.values()) == {0.1}
    assert by_seed.values[2, 0.5].tolist() == [20.5, 20.5]
    assert by_seed.values[43, None].tolist() == [430.0, 430.0]


def test_the_registered_parts_give_what_the_rules_of_one_guarantee_ask_for():
    parts = {name: part for plan in ("published", "wanted") for name, part in plans.load("06", plan).parts.items()}
    by_table = {}
    for table in ("bc", "adult"):
        get = Asked(lambda job: {"percent": 60 + len(job["method"]) + job["seed"] % 7})
        part = parts[f"same_guarantee_{table}"]
        by_table[table] = part.function(get, **part.inputs)
        assert min(job["seed"] for job in get.jobs) == 100
    values = feature_cost_rows.same_guarantee(by_table)
    for row in ("B.selection-same-guarantee", "B.pafs-same-guarantee"):
        assert set(judged.names(claims.get(row).rule)) <= set(values[row])
    lead = values["B.pafs-same-guarantee"]["pafs_less_one_named_bc"]
    assert (lead.value, lead.n) == (pytest.approx(len("pafs") - len("one named")), 50)
    best = values["B.selection-same-guarantee"]["best_paid_less_constant_adult"]
    assert best.value == pytest.approx(len("tables attributes") - len("constant"))


def test_another_subset_of_the_same_size_that_leads_is_seen():
    """Six splits at two budgets: one searched feature leads at the second, and random subsets nowhere."""
    few = np.array([[[60.0, 70.0]]] * 6) + 0.1 * np.arange(6)[:, None, None]
    better = few + np.array([0.0, 3.0]) + 0.01 * np.arange(6)[:, None, None]

    def pair(searched):
        curves = [Curves([1], [0.5, 5.0], values, np.zeros(6)) for values in (searched, few)]
        return {"by private accuracy": (curves[0], None), "by CFS-Greedy": (curves[1], None)}

    behind = {"CFS-Greedy": few[:, 0], "CFS-GA": few[:, 0] - 1, "Random": few[:, 0] - 2 + 0.01 * few[:, 0]}
    found = rows.of_the_same_size(pair(few), pair(better), {"percent": behind})["B.greedy-best-subset"]
    assert found["largest_lead_of_one_feature_bc"].value == pytest.approx(3.025)
    assert found["largest_lead_of_one_feature_bc"].low > 2.5
    assert found["largest_lead_of_six_features_adult"].value == 0
    assert found["largest_lead_of_cfs_ga_or_random_bc"].high < 0


def test_what_cfs_chooses_is_held_against_the_most_relevant_split_by_split():
    """One of the two searches is less redundant on every split, the other on one and more so on another."""
    triples = ((0.1, 0.3, 0.2), (0.3, 0.4, 0.5), (0.6, 0.9, 0.9))
    found = rows.beside_relevant(
        [{"redundancy": dict(zip(("CFS-Greedy", "CFS-GA", "relevant"), values, strict=True))} for values in triples]
    )
    assert set(found) < set(judged.names(claims.get("B.cfs-implicit").rule))
    greedy, ga = (found[f"redundancy_{name}_minus_relevant"] for name in ("CFS-Greedy", "CFS-GA"))
    assert (greedy.value, greedy.n) == (pytest.approx(-0.2), 3)
    assert ga.low < 0 < ga.high
    assert all(np.isnan(value.value) for value in rows.beside_relevant([]).values())
