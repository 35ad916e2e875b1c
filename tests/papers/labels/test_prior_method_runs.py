from dataclasses import replace

import numpy as np
import pytest

from book.evidence import plans, rules
from dplib import accounting, priors, randomised_response
from dplib import releases as label_releases
from dplib.checks import ParameterError
from dplib.data import Dataset
from papers.labels import cluster_rr, prior_check_runs, prior_method_runs, prior_rows, prior_runs
from tests.toys import Asked, in_memory

SETTINGS = {
    "dataset": "toy",
    "maps": 2,
    "dimensions": 6,
    "group_count": 12,
    "group_dimensions": 6,
    "epsilon_p": 0.5,
    "share": 0.6,
    "temperature": 0.5,
    "epochs": 3,
}


pytestmark = pytest.mark.usefixtures("one_thread")


def blobs(n, rng, classes=4):
    y = rng.integers(classes, size=n)
    corners = 3 * np.random.default_rng(9).standard_normal((classes, 6))
    return (corners[y] + rng.standard_normal((n, 6))).astype(np.float32), y


@pytest.fixture
def toy(monkeypatch):
    rng = np.random.default_rng(0)
    train, valid, test = (blobs(n, rng) for n in (2000, 300, 300))
    problem = Dataset("toy", *train, *test, *valid, classes=tuple("abcd"))
    for module in (prior_method_runs, prior_check_runs):
        monkeypatch.setattr(module, "task", lambda *args: problem)
    return problem


def test_digits_need_no_file():
    for kind in prior_method_runs.KINDS:
        task_ = prior_method_runs.task("digits", kind, 0, 0, 1)
        assert task_.x_train.shape[1] == 64
        assert task_.x_train.dtype == np.float32
        assert len(task_.x_valid) > 100
        assert len(task_.x_test) > 100
    np.testing.assert_allclose(np.linalg.norm(task_.x_train, axis=1), prior_method_runs.LENGTH, rtol=1e-5)
    with pytest.raises(ParameterError, match="kind"):
        prior_method_runs.task("digits", "other", 0, 0, 1)


def test_every_method_learns_at_a_large_budget(toy):
    comparison = prior_method_runs.compare(
        **SETTINGS, epsilons=[0.5, 8.0], methods=list(prior_method_runs.METHODS), rates=0.05, seed=1
    )
    for method in prior_method_runs.METHODS:
        assert comparison["test"][method][1] > 0.9, method
    assert comparison["facts"]["rr right"][0] == pytest.approx(np.exp(0.5) / (np.exp(0.5) + 3), abs=0.04)
    assert comparison["facts"]["smoothed lost"][1] == 0
    with pytest.raises(ParameterError, match="magic"):
        prior_method_runs.compare(**SETTINGS, epsilons=[1.0], methods=["magic"], rates=0.1, seed=1)


@pytest.mark.parametrize("method", ["stages", "stages-likelihood", "stages-subset"])
def test_two_stages_ask_each_label_once(toy, method):
    """What stage 2 learns depends on the labels of stage 2 through its new answers alone, and on no other label."""
    stage_one = np.arange(2000) < 1200
    scores = np.log(np.random.default_rng(3).dirichlet(np.ones(4), size=2000))

    def evidence(labels):
        problem = replace(toy, y_train=labels)
        releases = prior_method_runs._Releases(problem, 0, 5, 6, 0.1)
        return releases.second_stage(method, 1.0, scores, stage_one, 1.0).values

    before = evidence(toy.y_train)
    labels = toy.y_train.copy()
    labels[1500] = (labels[1500] + 1) % 4  # one label of stage 2
    changed = np.flatnonzero((evidence(labels) != before).any(axis=1))
    assert set(changed) <= {1500}
    if method == "stages-likelihood":
        members = randomised_response.kept(np.exp(scores[1500]), 1.0)
        possible = label_releases.answer_likelihood(np.flatnonzero(members), members, 1.0).values
        assert any(np.allclose(before[1500], row) for row in possible)
    if method == "stages":
        assert (before.sum(axis=1)[1200:] == 1).all()  # only answers of stage 1 are filtered
        assert (before.sum(axis=1)[:1200] < 1).any()


def test_right_is_how_often_the_sampler_is_right():
    rng = np.random.default_rng(0)
    counts = np.array([[4000, 1000, 0], [500, 2000, 3000]])
    made = priors.normalised(counts + 50)
    labels = np.concatenate([np.repeat(np.arange(3), row) for row in counts])
    prior = np.repeat(made, counts.sum(axis=1), axis=0)
    answers = randomised_response.rr_with_prior(labels, prior, 1.0, rng)
    exact = prior_check_runs._right(counts, made, 1.0)
    assert (answers.labels == labels).mean() == pytest.approx(exact, abs=4 * np.sqrt(0.25 / len(labels)))


def test_membership_of_inputs_is_told_while_labels_are_protected(toy, monkeypatch):
    rng = np.random.default_rng(1)
    wide = rng.standard_normal((2000, 40)).astype(np.float32)  # no classes in it: there is nothing but records to learn
    few = {"x_valid": wide[:10], "y_valid": toy.y_train[:10], "x_test": wide[:10], "y_test": toy.y_train[:10]}
    problem = replace(toy, x_train=wide, **few)
    monkeypatch.setattr(prior_check_runs, "task", lambda *args: problem)
    sizes = {"maps": 2, "dimensions": 40, "records": 100, "hidden": 64, "epochs": 60, "dpsgd_steps": 5}
    attack_ = prior_check_runs.membership(dataset="toy", epsilons=[1.0], delta=1e-5, seed=0, **sizes)
    assert attack_["stored"] == 1.0
    assert attack_["memory"] == [1.0]
    assert attack_["label"][0] > 0.75
    assert abs(attack_["record"][0] - 0.5) < 0.15


def test_grids_grow_at_an_end_where_a_best_rate_lies(toy):
    settings = {k: v for k, v in SETTINGS.items() if k != "dataset"}
    by_method = prior_runs.methods(
        in_memory, datasets=["toy"], epsilons=[8.0], rates=[1e-4, 1e-3], seeds=2, tuning_seeds=1,
        methods=["rr", "clean"], **settings,
    )["toy"]  # fmt: skip
    assert 2 < len(by_method.tried) <= prior_runs.MOST
    assert prior_runs._grown([1.0, 5.0], {5.0}) == [1.0, 5.0, 25.0]
    assert by_method.mean("rr", 8.0).value > 90
    untuned = prior_runs.methods(
        in_memory, datasets=["toy"], epsilons=[8.0], rates=[0.05], seeds=2, tuning_seeds=0, methods=["rr"], **settings
    )["toy"]
    assert untuned.tried == (0.05,)


def test_the_enumeration_reaches_epsilon_and_no_more():
    values = prior_rows.enumerated()
    assert (values["loss"] <= values["ε"] + 1e-9).all()
    assert (values["delta"] < 1e-9).all()
    assert np.allclose(values["mixed"], 2 * values["ε_p"])
    assert np.isclose(values["loss"], values["ε"]).sum() >= 10


def test_noise_of_the_published_dpsgd_runs_by_a_second_accountant():
    read_ = plans.load("10").read("records")["cifar10-jpeg"]
    for epsilon, noise, rate in zip(
        read_.epsilons, *(read_.facts[n][0] for n in ("noise multiplier", "sample rate")), strict=True
    ):
        assert accounting.epsilon(noise, rate, 300, 1e-5, "pld") == pytest.approx(epsilon, rel=0.02)


def test_cluster_rr_spends_its_budget_and_no_more():
    """Given counts that are known, all answers by enumeration; and draws have these probabilities."""
    rng = np.random.default_rng(2)
    noisy = np.array([[500, 20, -3, 0], [0, 0, -1, -4]])
    q = cluster_rr.shares(noisy)
    assert q.min() >= cluster_rr.FLOOR / 4 / 1.5
    np.testing.assert_allclose(q[1], 0.25)
    for epsilon in (0.0, 0.5, 4.0):
        drawn = cluster_rr.redrawn(q, epsilon)[:, None, None]
        table = (1 - drawn) * np.eye(4) + drawn * q[:, None, :]  # (groups, label, answer)
        np.testing.assert_allclose(table.sum(axis=2), 1)
        loss = np.log(table[:, :, None] / table[:, None]).max(axis=(1, 2, 3))
        np.testing.assert_allclose(loss, epsilon, atol=1e-12)
    labels, group = np.tile(np.arange(4), 50_000), np.zeros(200_000, dtype=int)
    answers = cluster_rr.respond(labels, group, 1, 4, 2.0, 1.0, rng)
    drawn = 1 / (1 + 0.25 * np.expm1(1.0))
    expected = (1 - drawn) * np.eye(4) + drawn / 4
    found = np.array([np.bincount(answers[labels == k], minlength=4) / 50_000 for k in range(4)])
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_cluster_rr_is_a_method_beside_the_others(toy):
    comparison = prior_method_runs.compare(
        **SETTINGS, epsilons=[0.5, 8.0], methods=["cluster-rr", "clusters"], rates=0.05, seed=1
    )
    assert comparison["test"]["cluster-rr"][1] > 0.9
    assert comparison["facts"]["cluster-rr right"][0] < comparison["facts"]["cluster-rr right"][1]


def test_the_frontier_chooses_on_the_public_set_and_hides_a_label_by_epsilon():
    """Made-up scores: on the public set the middle rate is best, on the private one the first would be."""

    def result(job):
        rate = job.get("rates", 0.02)
        score = {0.02: 0.9, 2e-4: 0.9}.get(rate, 0.5) if job["dataset"] == "mnist" else 0.1
        if "pairs" in job:
            score = [0.9 if r == 2.5 else 0.5 for _, r in job["pairs"]]
            return {"validation": score, "test": score, "noise_multiplier": score, "sample_rate": 0.1}
        each = {name: [score] * len(job["epsilons"]) for name in job["methods"]}
        return {"validation": each, "test": each, "facts": {}}

    get = Asked(result)
    results = plans.load("10").call("frontier", get)
    reported = [job for job in get.jobs if job["dataset"] == "fashion-mnist"]
    assert {job["seed"] for job in reported} == set(range(100, 110))
    assert {job["seed"] for job in get.jobs if job["dataset"] == "mnist"} == {1000, 1001}
    assert set(results.rates["subset"]) == {0.02}
    assert set(results.rates["sums"]) == {2e-4}
    assert set(results.rates["dp-sgd"]) == {2.5}
    spent = {job["pairs"][0][0]: job["delta"] for job in reported if "pairs" in job}
    assert sorted(spent) == [0.05, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0]
    for epsilon, delta in spent.items():
        assert (1 + np.exp(epsilon)) * delta == pytest.approx(1e-5)


def test_what_is_said_of_the_frontier_can_come_out_either_way():
    def compared(sums, subset, sgd):
        rng = np.random.default_rng(3)
        level = {"rr": 60, "stages": 62, "subset": subset, "clusters": 50, "sums": sums, "dp-sgd": sgd}
        budgets = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
        test = {name: mean + 0.2 * rng.standard_normal((10, 7)) for name, mean in level.items()}
        return prior_rows.on_frontier(prior_runs.Compared(budgets, test, {}, {}, ()))

    def said(values):
        return {name: rules.decide(rule, values, {}) for name, rule in prior_rows.FRONTIER.items()}

    values, best = compared(70, 65, 50)
    assert set(said(values).values()) == {True}
    assert best[0.1] == ["sums"]
    values, best = compared(55, 55, 80)
    assert set(said(values).values()) == {False}
    assert best[8.0] == ["dp-sgd"]
    values, best = compared(65.3, 65, 65.3)
    assert None in said(values).values()
    assert set(best[1.0]) == {"subset", "sums", "dp-sgd"}


def test_cluster_priors_stand_beside_cluster_rr():
    budgets = (0.05, 0.1)
    test = {name: np.full((10, 2), level) for name, level in (("rr", 20.0), ("clusters", 45.0), ("cluster-rr", 44.0))}
    values = prior_rows.earlier(prior_runs.Compared(budgets, test, {}, {"cluster-rr right": np.full((10, 2), 0.4)}, ()))
    assert values["C.fig1b"]["gain_at_eps_0.05"].value == 25
    assert values["C.s-clusterrr"]["lead_over_clusterrr_at_eps_0.1"].value == 1
