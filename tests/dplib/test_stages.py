"""LP-MST: what it asks and what it learns from, step by step; and its exact loss, all answers enumerated."""

import numpy as np
import pytest
from scipy.stats import chisquare

from dplib import privacy, stages
from dplib import randomised_response as response
from dplib.checks import ParameterError

K = 4
PARTS = [[0, 1], [2, 3]]
FEATURES = [0, 1, 0, 1]


class Counts:
    """A learner without randomness: log shares of the labels it was trained on, the same for every example."""

    def __init__(self, classes=K):
        self.calls, self.classes = [], classes

    def train(self, rows, labels, stage, start):
        self.calls.append((rows, labels, stage, start))
        return np.log((np.bincount(labels, minlength=self.classes) + 1) / (len(labels) + self.classes))

    def logits(self, model, rows):
        return np.tile(model, (len(rows), 1))

    def evaluate(self, model):
        return {"first": float(model[0])}


def labels(n=300, seed=0):
    return np.random.default_rng(seed).choice(K, n, p=[0.6, 0.3, 0.05, 0.05])


def run(y, parts, epsilon=1.0, learner=None, seed=7, **settings):
    return stages.run(y, parts, learner or Counts(), epsilon, classes=K, rng=np.random.default_rng(seed), **settings)


def test_one_stage_is_plain_randomised_response():
    y = labels()
    outcome = run(y, [np.arange(len(y))])
    plain = response.rr(y, K, 1.0, np.random.default_rng(7))
    np.testing.assert_array_equal(outcome.released, plain.labels)
    assert outcome.stages[0]["mean_k"] == K
    assert outcome.stages[0]["covered"] == 1


def test_later_stages_ask_with_the_prior_of_the_model_before():
    y = labels()
    parts = [np.arange(0, 200), np.arange(200, 300)]
    learner = Counts()
    outcome = run(y, parts, 1.5, learner, temperature=0.5)
    rng = np.random.default_rng(7)
    first = response.rr(y[:200], K, 1.5, rng).labels
    counts = np.bincount(first, minlength=K) + 1.0
    prior = counts**2 / (counts**2).sum()  # temperature 0.5 squares the shares
    second = response.rr_with_prior(y[200:], prior, 1.5, rng)
    np.testing.assert_array_equal(outcome.released, np.concatenate([first, second.labels]))
    assert outcome.stages[1]["mean_k"] == second.k.mean() < K
    # What stage 2 is trained on: its own answers, and the earlier ones that are likely enough.
    k = round(second.k.mean())
    keep = np.isin(first, np.argsort(-counts, kind="stable")[:k])
    rows, given, stage, start = learner.calls[1]
    np.testing.assert_array_equal(rows, np.concatenate([parts[1], parts[0][keep]]))
    np.testing.assert_array_equal(given, outcome.released[rows])
    assert stage == 2
    np.testing.assert_array_equal(start, np.log(counts / counts.sum()))
    record = outcome.stages[1]
    assert (record["reused"], record["kept"], record["filter_k"]) == (200, keep.sum(), k)
    assert record["wrong_before"] == pytest.approx((first != y[:200]).mean())
    assert record["wrong_after"] == pytest.approx((first != y[:200])[keep].mean())
    assert record["wrong"] == pytest.approx((outcome.released != y)[rows].mean())


def test_the_enhancements_can_be_switched_off():
    y = labels()
    parts = np.split(np.arange(len(y)), 3)
    learner = Counts()
    run(y, parts, learner=learner, warm_start=False, reuse=False)
    assert [len(call[0]) for call in learner.calls] == [100, 100, 100]
    assert [call[3] for call in learner.calls] == [None] * 3
    learner = Counts()
    run(y, parts, learner=learner, filtered=False)
    assert [len(call[0]) for call in learner.calls] == [100, 200, 300]


def test_no_label_is_asked_twice():
    y = labels()
    with pytest.raises(ParameterError, match="once"):
        run(y, [np.arange(200), np.arange(199, 300)])
    private = stages.Labels(y, K, 1.0, np.random.default_rng(0))
    uniform = np.full(K, 1 / K)
    private.ask(np.arange(10), uniform)
    with pytest.raises(ParameterError, match="once"):
        private.ask(np.array([9]), uniform)
    with pytest.raises(ParameterError, match="once"):
        private.ask(np.array([20, 20]), uniform)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([np.arange(200), np.arange(199, 300)], "once"),
        ([np.arange(200), np.arange(200, 301)], "part 2 = .* from 0 to 299"),
        ([np.arange(200), np.array([], int), np.arange(200, 300)], "part 2 is empty"),
    ],
)
def test_parts_that_do_not_fit_are_refused_before_any_label_is_asked(parts, said):
    """A training may take hours, and an answer costs what it costs, whatever becomes of the next stage."""
    learner = Counts()
    with pytest.raises(ParameterError, match=said):
        run(labels(), parts, learner=learner)
    assert not learner.calls


def test_a_label_has_one_number_and_a_refused_question_asks_nothing():
    private = stages.Labels([0, 1, 2, 3], 4, 1.0, np.random.default_rng(0))
    uniform = np.full(4, 1 / 4)
    for rows in ([0, -1], [4], [0.5], [[0]], [True]):
        with pytest.raises(ParameterError, match=r"whole numbers from 0 to 3, shape \(n,\)"):
            private.ask(np.array(rows), uniform)
    for prior in (np.full((3, 4), 0.25), np.full(5, 0.2), np.full(4, 0.3)):
        with pytest.raises(ParameterError, match="prior"):
            private.ask(np.arange(4), prior)
    assert len(private.ask(np.arange(4), uniform).labels) == 4


def test_models_depend_on_the_labels_through_the_answers_alone():
    y = labels(20)
    other = y.copy()
    other[0] = (y[0] + 1) % K
    parts = np.split(np.arange(20), 2)
    agreed = 0
    for seed in range(40):
        learners = Counts(), Counts()
        one, two = (run(given, parts, learner=c, seed=seed) for given, c in zip((y, other), learners, strict=True))
        if (one.released == two.released).all():
            agreed += 1
            np.testing.assert_array_equal(one.model, two.model)
            assert [s["mean_k"] for s in one.stages] == [s["mean_k"] for s in two.stages]
            assert [len(c[0]) for c in learners[0].calls] == [len(c[0]) for c in learners[1].calls]
    assert agreed >= 3


def test_without_a_budget_the_true_labels_are_used():
    y = labels()
    outcome = run(y, np.split(np.arange(len(y)), 3), None)
    np.testing.assert_array_equal(outcome.released, y)
    assert [s["right"] for s in outcome.stages] == [1, 1, 1]
    assert [s["mean_k"] for s in outcome.stages] == [K] * 3


def test_temperature_limits():
    scores = np.array([[2.0, 1.0, 1.0], [0.5, 0.5, -3.0]])
    softmax = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(stages.tempered(scores, 1.0), softmax)
    np.testing.assert_allclose(stages.tempered(scores, 0.5), softmax**2 / (softmax**2).sum(1, keepdims=True))
    np.testing.assert_array_equal(stages.tempered(scores, 0), [[1, 0, 0], [0.5, 0.5, 0]])
    np.testing.assert_allclose(stages.tempered(scores, np.inf), np.full((2, 3), 1 / 3))
    # At temperature inf stage 2 is plain randomised response.
    y = labels()
    outcome = run(y, np.split(np.arange(len(y)), 2), temperature=np.inf)
    assert outcome.stages[1]["mean_k"] == K
    with pytest.raises(ParameterError, match="temperature"):
        stages.tempered(scores, -1)


def test_filter_and_coverage_agree_with_brute_force():
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 3, (200, K)).astype(float)  # with many ties
    y = rng.integers(0, K, 200)
    for k in range(1, K + 1):
        expected = [
            label in sorted(range(K), key=lambda j: (-row[j], j))[:k] for row, label in zip(scores, y, strict=True)
        ]
        np.testing.assert_array_equal(stages.likely(scores, y, k), expected)
    prior = stages.tempered(scores, 1.0)
    np.testing.assert_array_equal(stages.covered(prior, y, 1.0), response.kept(prior, 1.0)[np.arange(200), y])


# --- the exact loss


def joint(parts, classes=2, epsilon=1.0, n=4, weight=1.0):
    return privacy.joint(n, classes, parts, privacy.counting_prior(FEATURES, parts, classes, weight), epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_two_stages_cost_epsilon_in_all(classes, epsilon):
    n = 4 if classes == 2 else 3
    parts = PARTS if classes == 2 else [[0, 1], [2]]
    table = privacy.joint(n, classes, parts, privacy.counting_prior(FEATURES[:n], parts, classes), epsilon)
    assert privacy.loss(table, n, classes) == pytest.approx(epsilon, abs=1e-9)
    assert privacy.loss(table, n, classes, differ=2) <= 2 * epsilon + 1e-9


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_a_label_asked_twice_costs_more(epsilon):
    broken = [[0, 1], [1, 2, 3]]
    assert privacy.loss(joint(broken, epsilon=epsilon, weight=9.0), 4, 2) == pytest.approx(2 * epsilon, abs=1e-9)
    # With a strong prior the second answer may be a constant, which costs nothing.
    assert privacy.loss(joint(broken, epsilon=0.5, weight=1.0), 4, 2) == pytest.approx(0.5, abs=1e-9)


def test_the_program_follows_the_enumerated_table():
    parts, labels, draws, epsilon = [[0, 1, 3], [2]], np.array([1, 0, 1, 0]), 500, 1.2
    table = privacy.joint(4, 2, parts, privacy.counting_prior([0, 0, 0, 0], parts, 2), epsilon)
    rng = np.random.default_rng(5)
    seen = np.zeros(16)
    for _ in range(draws):
        outcome = stages.run(labels, [np.array(part) for part in parts], Counts(2), epsilon, classes=2, rng=rng)
        seen[outcome.released[[0, 1, 3, 2]] @ [8, 4, 2, 1]] += 1  # in the order of the questions
    expected = draws * np.exp(table[labels @ [8, 4, 2, 1]])
    possible = expected > 0
    assert possible.sum() == 14  # after three equal answers that of stage 2 is a constant
    assert seen[~possible].sum() == 0
    assert chisquare(seen[possible], expected[possible]).pvalue > 1e-4


def test_a_seed_is_no_generator_of_parts():
    with pytest.raises(ParameterError, match="rng = 0 is not allowed"):
        stages.split(10, [1, 1], 0)


@pytest.mark.parametrize("wrong", [
    {"epsilon": np.array([1.0, 2.0])}, {"epsilon": 1e101}, {"epsilon": -1.0}, {"temperature": np.ones((2, 1))},
    {"warm_start": "no"}, {"reuse": 1}, {"filtered": None}, {"rng": 0},
])  # fmt: skip
def test_values_that_are_not_allowed_are_refused_before_any_label_is_asked(wrong, monkeypatch):
    """Two budgets were taken by place in each part; others were refused when the labels had answered."""
    asked, (name,) = [], wrong
    monkeypatch.setattr(stages, "rr_with_prior", lambda *given: asked.append(given))
    given = {"epsilon": 1.0, "classes": K, "rng": np.random.default_rng(0)} | wrong
    with pytest.raises(ParameterError, match=f"^{name} = "):
        stages.run([0, 1, 2, 0], PARTS, Counts(), given.pop("epsilon"), **given)
    assert not asked


def test_every_budget_that_is_asked_with_is_judged():
    """At 1e7, above the 1e6 that shares of covered labels allowed, the labels answered and nothing was returned."""
    y = labels()
    outcome = run(y, np.split(np.arange(len(y)), 2), 1e7)
    np.testing.assert_array_equal(outcome.released, y)
    assert [stage["covered"] for stage in outcome.stages] == [1, 1]
    with pytest.raises(ParameterError, match="epsilon"):
        stages.covered(np.full((2, 2), 0.5), [0, 1], np.array([1.0, 2.0]))


def test_stages_are_numbered_from_one():
    learner = Counts()
    run(labels(), np.split(np.arange(300), 3), learner=learner)
    assert [stage for _, _, stage, _ in learner.calls] == [1, 2, 3]
