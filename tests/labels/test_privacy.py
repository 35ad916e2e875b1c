import numpy as np
import pytest
from scipy.stats import chisquare

from dplib.labels import privacy, stages

PARTS = [[0, 1], [2, 3]]
FEATURES = [0, 1, 0, 1]


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


class Counting:
    """A learner whose predictions are the shares of :func:`labels.privacy.counting_prior`, one feature for all."""

    def train(self, rows, labels, stage, start):
        return 1.0 + np.bincount(labels, minlength=2)

    def logits(self, model, rows):
        return np.log(np.tile(model, (len(rows), 1)))

    def evaluate(self, model):
        return {}


def test_the_program_follows_the_enumerated_table():
    parts, labels, draws, epsilon = [[0, 1, 3], [2]], np.array([1, 0, 1, 0]), 500, 1.2
    table = privacy.joint(4, 2, parts, privacy.counting_prior([0, 0, 0, 0], parts, 2), epsilon)
    rng = np.random.default_rng(5)
    seen = np.zeros(16)
    for _ in range(draws):
        outcome = stages.run(labels, [np.array(part) for part in parts], Counting(), epsilon, classes=2, rng=rng)
        seen[outcome.released[[0, 1, 3, 2]] @ [8, 4, 2, 1]] += 1  # in the order of the questions
    expected = draws * np.exp(table[labels @ [8, 4, 2, 1]])
    possible = expected > 0
    assert possible.sum() == 14  # after three equal answers that of stage 2 is a constant
    assert seen[~possible].sum() == 0
    assert chisquare(seen[possible], expected[possible]).pvalue > 1e-4
