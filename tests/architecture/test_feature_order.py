"""The order of CFS-Greedy: symmetrical uncertainty and merit against independent computations."""

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

from dplib.architecture import feature_cfs, feature_data, feature_order, feature_scores, feature_search


def merit(chosen, to_label, among):
    """Equation (7) as printed."""
    k = len(chosen)
    between = np.mean([among[a, b] for a in chosen for b in chosen if a != b]) if k > 1 else 0.0
    return k * np.mean(to_label[chosen]) / np.sqrt(k + k * (k - 1) * between)


@pytest.fixture(scope="module")
def found():
    table = feature_data.load("synthetic-recurrence")
    return table, feature_order.uncertainties(table.x_train, table.y_train)


def test_uncertainty_is_normalised_mutual_information(found):
    table, (to_label, among) = found
    for j in (0, 7, 20, 35):
        assert to_label[j] == pytest.approx(normalized_mutual_info_score(table.x_train[:, j], table.y_train))
        other = table.x_train[:, 30]
        assert among[j, 30] == pytest.approx(normalized_mutual_info_score(table.x_train[:, j], other))


def test_uncertainty_of_the_same_the_opposite_the_independent_and_the_constant():
    half = np.tile([0.0, 0.0, 1.0, 1.0], 5)
    other = np.tile([0.0, 1.0], 10)
    to_label, among = feature_order.uncertainties(np.column_stack([half, 1 - half, other, 0 * half]), half)
    assert to_label == pytest.approx([1, 1, 0, 0])
    assert among[0, 1] == pytest.approx(1)
    assert among[3] == pytest.approx(np.zeros(4))


def test_numbers_count_by_their_bin():
    x = np.array([[0.001], [0.009], [0.501], [0.999]])
    to_label, _ = feature_order.uncertainties(x, np.array([0, 0, 1, 1]))
    assert to_label[0] == pytest.approx(2 * np.log(2) / (1.5 * np.log(2) + np.log(2)))  # three bins, of 2, 1, 1


def test_every_step_is_the_best_single_addition(found):
    _, scores = found
    order = feature_order.greedy_merit(*scores, 12)
    for k in range(len(order)):
        merits = [merit([*order[:k], j], *scores) for j in range(43) if j not in order[:k]]
        assert merit(order[: k + 1], *scores) == pytest.approx(max(merits), abs=1e-9)


def test_the_other_implementation_reaches_the_same_merits(found):
    table, scores = found
    theirs = feature_search.cfs_greedy(
        *feature_scores.relevance_and_redundancy(feature_scores.count(*feature_cfs.coded(table, "columns"))), k=43
    )
    ours = feature_order.greedy_merit(*scores, 43)
    assert sorted(ours) == list(range(43))
    for k in (1, 2, 5, 11, 43):  # beyond ties, which each breaks in its own way
        assert merit(ours[:k], *scores) == pytest.approx(merit(theirs[:k], *scores), rel=0.02)
    assert ours[:3] == theirs[:3]


def test_ties_go_to_the_first():
    among = np.full((4, 4), 0.2)
    assert feature_order.greedy_merit(np.array([0.1, 0.3, 0.3 + 1e-14, 0.3]), among, 4) == [1, 2, 3, 0]


def test_orders_by_seed():
    orders = feature_order.merit_orders("synthetic-recurrence", [0, 1], largest=5)
    assert [len(order) for order in orders] == [5, 5]
    assert orders == feature_order.merit_orders("synthetic-recurrence", [0, 1], largest=5)
