"""Verdicts on priors from clusters and on the last figure, from made-up runs: each can come out every way."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dplib import stats
from dplib.labels import beyond_figures, beyond_jobs, beyond_study, prior_verdicts, summary_verdicts
from dplib.labels.beyond_study import Compared, Votes


def made_up(rr, clusters, smoothed, epsilons=(0.1, 8.0), seeds=6):
    noise = np.random.default_rng(0).normal(0, 0.3, (3, seeds, len(epsilons)))
    test = {"rr": rr + noise[0], "clusters": clusters + noise[1], "clusters-smoothed": smoothed + noise[2]}
    test |= {"stages": test["rr"] + 1, "clean": test["rr"] + 30, "clusters-soft": test["clusters"]}
    shares = {
        "clusters constant": 0.9,
        "clusters lost": 0.1,
        "smoothed lost": 0.0,
        "clusters right": 0.5,
        "rr right": 0.4,
    }
    facts = {name: np.full((seeds, 2), share) for name, share in shares.items()}
    return Compared(tuple(epsilons), test, {}, facts, 1.0)


def test_verdicts_follow_the_sign_of_paired_differences():
    good = made_up(np.array([20.0, 80.0]), np.array([50.0, 78.0]), np.array([50.0, 80.0]))
    bad = made_up(np.array([50.0, 78.0]), np.array([20.0, 80.0]), np.array([20.0, 80.0]))
    close = made_up(np.array([50.0, 80.0]), np.array([50.0, 80.0]), np.array([50.0, 80.0]))
    expected = {"holds with change": good, "fails": bad, "undecided": close}
    for verdict, runs in expected.items():
        assert prior_verdicts.small_budgets(runs, [0.1], 0.05)[1] == verdict
        assert prior_verdicts.large_budget(runs, 8.0)[1] == verdict
    because = prior_verdicts.large_budget(good, 8.0)[2]
    assert "more often right (50% against 40%)" in because
    assert "leave all labels in play" in because
    assert prior_verdicts.harm(close, []) == ""
    assert prior_verdicts.figure_1b(good, [0.1])[1] == "holds with change"
    assert prior_verdicts.figure_1b(close, [0.1])[1] == "undecided"
    assert isinstance(prior_verdicts.figure_1b(good, [0.1])[0]["gain_at_eps_0.1"], stats.Measured)


def test_answers_without_a_budget_ignore_the_label():
    runs = made_up(np.array([20.0, 80.0]), np.array([50.0, 78.0]), np.array([50.0, 80.0]))
    assert prior_verdicts.ignoring(runs, 0.1, 0.1) == 1.0
    assert prior_verdicts.ignoring(runs, 0.1, 0.05) == pytest.approx(0.9)
    assert prior_verdicts.small_budgets(runs, [0.1], 0.1)[0]["share_of_answers_that_ignore_the_label_at_eps_0.1"] == 1


def test_the_table_of_methods_names_those_ahead_of_the_papers_own():
    runs = made_up(np.array([20.0, 80.0]), np.array([50.0, 78.0]), np.array([50.0, 80.0]))
    seeds = len(runs.test["rr"])
    runs.test.update({m: runs.test.get(m, np.full((seeds, 2), 1.0)) for m in beyond_jobs.METHODS})
    runs.test["subset"] = runs.test["clusters"] + np.random.default_rng(0).normal([9.0, -20.0], 0.1, (seeds, 2))
    frozen = summary_verdicts.method_table({"a set": runs})
    assert frozen["a set: best"] == ["subset", "stages"]
    assert frozen["a set: best of the paper's"] == ["clusters", "stages"]
    said = summary_verdicts.best_methods(frozen)
    assert "on a set subset selection, likelihood (9.0 at ε = 0.1)." in said
    assert "kept no table" in summary_verdicts.best_methods({})


@pytest.mark.parametrize(("stages", "word"), [(10.0, "behind"), (-10.0, "ahead of")])
def test_the_head_says_where_record_privacy_is_ahead(stages, word):
    runs = made_up(np.array([60.0, 60.0]), np.array([60.0, 60.0]) + stages, np.array([60.0, 60.0]))
    runs.test["stages"] = runs.test["clusters"]
    sgd = Compared(runs.epsilons, {"dp-sgd": np.full((6, 2), 60.0) + np.arange(6)[:, None] / 10}, {}, {}, 1.0)
    values, verdict, because = summary_verdicts.last_figure(runs, sgd)
    assert verdict == ("holds with change" if stages > 0 else "undecided")
    assert "From ε = 0.1 on DP-SGD gains no more" in because
    plain = {key: vars(value) if isinstance(value, stats.Measured) else value for key, value in values.items()}
    assert f"is {word} stages and cluster priors at ε = 0.1, 8" in summary_verdicts.found_sgd(plain)
    assert summary_verdicts.found_sgd({}) == ""


def test_the_head_says_where_priors_help():
    gains = {
        f"gain_at_eps_{e:g}": {"value": v, "low": v - 1, "high": v + 1} for e, v in ((0.1, 9.0), (1, -5.0), (8, 0.5))
    }
    harm = {"right_answers_at_eps_1": 0.4, "right_answers_of_the_uniform_prior_at_eps_1": 0.2}
    said = summary_verdicts.found_priors(gains, harm)
    assert "help up to ε = 0.1" in said
    assert "harm at ε = 1, by 5.0 points at most, at ε = 1, where answers are more often right" in said
    assert "more often right" not in summary_verdicts.found_priors(gains, {})


def vote_table(best=1):
    rng = np.random.default_rng(0)
    exact = np.array([40.0, 60.0, 70.0])[:, None] + rng.normal(0, 0.2, (3, 5))
    short = np.array([[1.0, 0.0], [10.0, 1.0], [50.0, 20.0]])[:, None, :]
    right = np.full((3, 5, 1, 2), 50.0)
    return Votes((10, 100, 1000), (0.01, 0.05), (1.0,), exact[:, :, None] - short, exact, right, np.array([20.0]), 1.0)


def test_votes_have_a_best_number_of_clusters_for_each_budget():
    votes = vote_table()
    assert [votes.best(e) for e in votes.epsilons] == [100, 100]
    assert prior_verdicts.figure_2(votes)[1] == "holds with change"
    assert prior_verdicts.cluster_counts(votes, 0.05, 100)[1] == "holds with change"
    assert prior_verdicts.cluster_counts(votes, 0.05, 50)[1] == "undecided"
    gains = prior_verdicts.cluster_counts(votes, 0.05, 100)[0]
    assert gains["accuracy_with_100_less_10"].low > 0
    assert gains["accuracy_with_100_less_1000"].low > 0
    assert prior_verdicts.enough_budget(votes, 100) == 0.05
    assert prior_verdicts.histogram_share(votes, 100, 0.05)[1] == "holds with change"
    assert prior_verdicts.histogram_share(votes, 1000, 0.05)[1] == "undecided"
    values, verdict, _ = prior_verdicts.adaptive(votes, 100, 0.05)
    assert verdict == "undecided"
    assert values["right_answers_gained_at_eps_1"].value == 0
    assert prior_verdicts.enough_budget(votes, 1000) is None


def test_last_figure_compares_at_equal_budgets():
    runs = made_up(np.array([60.0, 80.0]), np.array([60.0, 80.0]), np.array([60.0, 80.0]))
    noise = np.random.default_rng(1).normal(0, 0.2, (6, 2))
    for level, verdict in (([40, 40], "holds with change"), ([90, 90], "undecided"), ([90, 40], "undecided")):
        sgd = Compared((0.1, 8.0), {"dp-sgd": np.array(level) + noise}, {}, {}, 1.0)
        values, found, _ = summary_verdicts.last_figure(runs, sgd)
        assert found == verdict
        assert sum("_less_dp_sgd_at_eps_" in key for key in values) == 4
        above, below = summary_verdicts.ahead(runs, sgd)
        assert above == [e for e, one in zip(sgd.epsilons, level, strict=True) if one == 40]
        assert below == [e for e, one in zip(sgd.epsilons, level, strict=True) if one == 90]
    shorter = Compared((8.0,), {"dp-sgd": 40 + noise[:, :1]}, {}, {}, 1.0)
    assert list(summary_verdicts.against_sgd(runs, shorter, "stages")) == [8.0]


def test_rates_at_the_ends_of_a_grid_are_counted():
    def chosen(rates):
        return Compared((0.1, 8.0), {}, rates, {}, 1.0)

    text = summary_verdicts.rates_at_ends(
        chosen({"clean": [9.0, 9.0], "rr": [1.0, 2.0], "stages": [3.0, 3.0]}),
        [1.0, 2.0, 3.0],
        chosen({"dp": [5.0]}),
        [5.0],
    )
    assert "best of 3 learning rates lay at an end of the grid in 3 of 4 cases" in text
    assert text.startswith("For the label-private")
    assert text.endswith("DP-SGD had one learning rate, untuned.")


def test_one_rate_needs_no_tuning(monkeypatch):
    asked = []

    def fake(function, jobs, **options):
        asked.append(len(jobs))
        one = {"validation": {"rr": [0.5]}, "test": {"rr": [0.5]}, "facts": {"rr right": [0.1]}, "cpu_seconds": 1.0}
        better = {**one, "validation": {"rr": [0.7]}}
        return [better if job["rates"] == 0.1 else one for job in jobs]

    monkeypatch.setattr(beyond_study.study, "run", fake)
    monkeypatch.setattr(beyond_study, "inputs", lambda name: {})
    settings = {"dataset": "toy"}
    one = beyond_study.compared(settings, [1.0], ["rr"], [0.02], range(2), 1)
    assert asked == [0, 2]
    assert one.rates == {"rr": [0.02]}
    asked.clear()
    tuned = beyond_study.compared(settings, [1.0], ["rr"], [0.02, 0.1], range(2), 3)
    assert asked == [6, 2]
    assert tuned.rates == {"rr": [0.1]}
    assert tuned.core_seconds == 8


def test_figures_show_every_line():
    figure, (left, middle, right) = plt.subplots(1, 3)
    votes = vote_table()
    beyond_figures.vote_curves(left, votes, "votes")
    beyond_figures.share_curves(middle, votes, 100)
    assert len(left.lines) == 3
    runs = made_up(np.array([20.0, 80.0]), np.array([50.0, 78.0]), np.array([50.0, 80.0]))
    sgd = Compared((8.0,), {"dp-sgd": np.random.default_rng(1).normal(40, 1, (6, 1))}, {}, {}, 1.0)
    beyond_figures.summary(right, runs, sgd, "all")
    assert len(right.lines) == 4 + 2
    plt.close(figure)
    gains = beyond_figures.gains({"toy": runs}, "clusters", "rr", [0.1])
    assert gains.loc["toy", "ε = 0.1"].startswith("29.76 [")
    shown = beyond_figures.table(runs, ["rr", "clusters", "clean"], [0.1]).to_html()
    assert shown.count("bold") == 1


def test_information_is_exact_for_equally_likely_labels():
    figure, axes = plt.subplots()
    means = beyond_figures.information_curves(axes, np.full(10, 0.1), [1.0], 200, np.random.default_rng(0), "")
    plt.close(figure)
    stay = np.e / (np.e + 9)
    exact = stay * np.log2(10 * stay) + (1 - stay) * np.log2(10 * (1 - stay) / 9)
    rr, prior, laplace, subset = means[:, 0]
    assert rr == pytest.approx(exact, rel=1e-5)
    assert prior == pytest.approx(exact, rel=1e-5)
    assert subset > rr
    assert laplace < subset * 1.2
