"""What leads from chapter 2's runs to values: shapes of curves, exact leaks, and what the experiments return."""

import numpy as np
import pytest
from scipy import stats as sps

from papers.larger_models import dfs_errors as tools
from papers.larger_models import dfs_readings
from papers.larger_models import dfs_rows as rows
from papers.larger_models import dfs_runs as study

READING = tools.Reading("sensitivity one")
SIZES = np.array(study.SIZES)


def results(dfs, t, none, clean_dfs=0.0, clean_none=0.2, seeds=4):
    """Runs with the same curves, up to a little chance, at both budgets; each a function of the size."""
    values = []
    for seed in range(seeds):
        chance = 1e-4 * seed
        by = {"DFS": dfs, "t-statistic": t, "signed t": t, "no selection": none}
        curves = {c: [one(m) + chance * (c == "DFS") for m in study.SIZES] for c, one in by.items()}
        none_ = {"DFS": [clean_dfs] * len(SIZES), "no selection": [clean_none] * len(SIZES)}
        values.append({"curves": {tools.NO_NOISE: none_, READING.at(5.0): curves, READING.at(10.0): curves}})
    return values


def test_the_printed_figures_are_recognised_and_others_are_not():
    flat, falling = (lambda m: 0.0), (lambda m: 0.5 if m < 1000 else 0.2)
    printed = rows.shape(results(flat, lambda m: 0.1, falling), READING, 5.0)
    for _, items in [rows.ASKED[name] for name in ("A.fig3", "A.fig3-20features", "A.fig3-500features")]:
        assert all(printed[item] for item in items)
    assert not printed["climbs to 100"]
    climbing = rows.shape(
        results(lambda m: 0.1 + 0.2 * (m > 30), lambda m: 0.15 + 0.003 * min(m, 100), falling), READING, 5.0
    )
    assert all(climbing[item] for item in rows.ASKED["A.fig4a"][1])
    guessing = rows.shape(results(lambda m: 0.5, lambda m: 0.6, lambda m: 0.5), READING, 5.0)
    assert not any(guessing[item] for item in ("best with 20", "best to 500", "below t", "no selection is worse"))


def test_the_table_of_readings_counts_what_each_shows(monkeypatch):
    monkeypatch.setattr(tools, "READINGS", (READING,))
    flat, falling = (lambda m: 0.0), (lambda m: 0.5 if m < 1000 else 0.2)
    drawn = {(0.1, 0.88): results(flat, lambda m: 0.1, falling), (10.0, 0.88): results(*[lambda m: 0.5] * 3)}
    for value in drawn.values():
        for run in value:
            run["sweep"] = {str(READING): dict.fromkeys(("DFS", "t-statistic"), [0.0] * len(study.BUDGETS))}
    table = dfs_readings.table(drawn)
    shown = table[[*dfs_readings.SENTENCES, dfs_readings.BY_BUDGET]]
    assert table["variance"].tolist() == [0.1, 10.0]
    assert shown.loc[0, "20 features are the best"]
    assert not shown.loc[1, "20 features are the best"]
    assert not shown[dfs_readings.BY_BUDGET].any(), "an error that never falls does not fall with the budget"
    assert dfs_readings.most(table) == shown.sum(axis=1).max() == shown.loc[0].sum() < shown.shape[1]
    counted = dfs_readings.by_reading(table)
    assert list(counted.index) == ["sensitivity one; clean; noisy"]
    assert counted["20 features are the best"].tolist() == [1]


def test_leaks_are_those_of_explicit_pairs():
    leaks_ = rows.leaks()
    assert leaks_["delta_kept_features"] == leaks_["delta_scale_all_zero"] == 1
    assert leaks_["epsilon_public_bound_sd"] == pytest.approx(1.866, abs=1e-3)
    mu = np.sqrt(30) * 5 / np.log(1e4)  # a' : a shift of 2 N sqrt(n) under noise 2 N ln(1/delta) / epsilon
    exact = sps.norm.cdf(mu / 2 - 5 / mu) - np.exp(5) * sps.norm.cdf(-mu / 2 - 5 / mu)
    assert leaks_["delta_kept_features_secret"] == pytest.approx(exact)


def test_the_tail_of_student_agrees_with_scipy_where_that_does_not_underflow():
    assert rows.log_tail(3.0, 50) == pytest.approx(sps.t.logsf(3.0, 50), rel=1e-8)


def test_an_experiment_is_repeatable_and_its_noiseless_curves_do_not_depend_on_budgets():
    job = {"variance": 0.1, "weight": 0.88, "seed": 1, "p": 60, "n_per_class": 6}
    one, again = study.synthetic(**job), study.synthetic(**job)
    assert one == again
    other = study.synthetic(**job, epsilons=[1.0, 2.0])
    assert other["curves"][tools.NO_NOISE] == one["curves"][tools.NO_NOISE]
    assert study.synthetic(**{**job, "seed": 2}) != one


def test_a_release_at_one_budget_is_that_of_the_sweep():
    alone = study.release(dataset="digits", seed=1, epsilons=[5.0])
    both = study.release(dataset="digits", seed=1, epsilons=[2.0, 5.0])
    assert alone["5"] == both["5"]
    assert study.release(dataset="digits", seed=1, epsilons=[0.03])["0.03"]["no privacy"] == alone["5"]["no privacy"]


def draw(shows):
    """A draw of a design in which DFS is at its best with 20 features, and no selection as good or not."""
    dfs = [0.3 if size < 20 else 0.0 for size in SIZES]
    none = [0.4 if shows else 0.0] * len(SIZES)
    curve = {"DFS": dfs, "no selection": none, "t-statistic": dfs}
    keys = [tools.NO_NOISE, *(reading.at(e) for reading in tools.READINGS for e in (5.0, 10.0))]
    return {"curves": dict.fromkeys(keys, curve)}


def test_a_figure_is_counted_in_single_draws_where_the_mean_hides_it():
    first, fresh = [draw(True), draw(True)], [draw(True), draw(False), draw(True)]
    counts = rows.single_draws({(0.1, 0.5): first}, {(0.1, 0.5): fresh}, "A.fig3")
    assert (counts["single_draws_that_show_it"], counts["single_draws"]) == (2, 3)
    assert "weight 0.5" in counts["their_reading"]


def test_the_reading_is_picked_on_the_first_draws_and_counted_on_fresh_ones():
    drawn = {(0.1, 0.5): [draw(True)], (10.0, 0.5): [draw(False)]}
    fresh = {(0.1, 0.5): [draw(False)], (10.0, 0.5): [draw(True)]}
    assert rows.single_draws(drawn, fresh, "A.fig3")["single_draws_that_show_it"] == 0


def test_what_unsettles_the_t_statistic_is_told_by_where_the_noise_goes():
    """Noise of no mean in any class leaves the means as they are, and noise without spread the variances."""
    problem = tools.synthetic(300, 10, 1.0, 0.4, np.random.default_rng(0))
    centred = problem.noise - problem.noise.mean(1, keepdims=True)
    of_variances = tools.lost_by_part(tools.replace(problem, noise=centred), 20, 3.0)
    assert of_variances["means"] == 0 < of_variances["variances"]
    shifted = np.broadcast_to(problem.noise[:, :1], problem.noise.shape)
    of_means = tools.lost_by_part(tools.replace(problem, noise=shifted), 20, 3.0)
    assert of_means["variances"] == 0 < of_means["means"]
    assert tools.lost_by_part(problem, 20, 0.0) == {"means": 0, "variances": 0}


def test_theorem_8_without_noise_and_with_that_of_definition_3():
    """With noise that grows with the features not even the first unimportant distance stays below the threshold."""
    assert rows.separation(1e6, 0.25, 4.0) > 0.99
    assert rows.separation(1e6, 0.25, 4.0, tau=1.8) < 1e-6
    assert rows.separation(1e6, 0.25, 4.0, tau=1e-12) == pytest.approx(rows.separation(1e6, 0.25, 4.0), abs=1e-6)
    assert rows.with_definition3() < 1e-6
