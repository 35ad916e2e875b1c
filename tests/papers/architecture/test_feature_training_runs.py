"""Tables and runs of feature selection: against scikit-learn, planted features, known budgets and known limits."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dplib import accounting, mechanisms, objpert
from dplib.checks import ParameterError
from papers.architecture import feature_data, feature_scores, feature_search, feature_search_runs
from papers.architecture import feature_training_runs as fr

NAME = "synthetic-recurrence"
CURVE = {"dataset": NAME, "seed": 0, "sizes": [4], "draws": 3}


STAND_INS = sorted(feature_data.STAND_INS)


@pytest.mark.parametrize(("name", "d", "attributes"), [("synthetic-recurrence", 43, 9), ("synthetic-census", 108, 14)])
def test_columns(name, d, attributes):
    table = feature_data.load(name)
    assert (table.d, len(table.attributes)) == (d, attributes)
    assert table.x_train.dtype == float
    assert table.x_train.min() >= 0
    assert table.x_train.max() <= 1
    assert set(np.unique(table.y_train)) == {0.0, 1.0}
    for owner in range(attributes):
        columns = table.x_train[:, table.attribute_of == owner]
        if columns.shape[1] > 1:  # one level of a categorical attribute, always
            assert (columns.sum(axis=1) == 1).all()


@pytest.mark.parametrize("name", STAND_INS)
def test_no_record_exceeds_the_norm_bound(name):
    table = feature_data.load(name)
    rng = np.random.default_rng(0)
    masks = np.vstack([rng.random((50, table.d)) < 0.2, np.ones((1, table.d), dtype=bool)])
    bounds = table.norm_bound(masks)
    for x in (table.x_train, table.x_test):
        assert (np.sqrt(x**2 @ masks.T) <= bounds + 1e-12).all()
    assert bounds[-1] == table.norm_bound() == np.sqrt(len(table.attributes))


def test_the_bound_counts_attributes_and_not_columns():
    table = feature_data.load("synthetic-recurrence")
    one_attribute = table.attribute_of == 2
    assert table.norm_bound(one_attribute) == 1
    assert table.norm_bound(table.mask([0, 6])) == pytest.approx(np.sqrt(2))  # of "age" and of "menopause"


@pytest.mark.parametrize("name", STAND_INS)
def test_validation_records_come_from_the_training_part(name):
    whole, held = feature_data.load(name, 1), feature_data.load(name, 1, 40)
    assert len(held.y_valid) == 40
    assert np.array_equal(whole.x_test, held.x_test)

    def rows(*parts):
        return sorted(map(bytes, np.concatenate(parts)))

    assert rows(whole.x_train) == rows(held.x_train, held.x_valid)


def test_without_noise_it_is_logistic_regression_on_the_first_columns():
    table = feature_data.load(NAME, 2)
    job = {**CURVE, "seed": 2, "variant": "diffprivlib"}
    curves_ = fr.curves(**job, epsilons=[fr.PLAIN])
    columns = curves_["columns"]
    assert columns == feature_search.order(table, 4)
    plain = LogisticRegression(C=1, tol=1e-10).fit(table.x_train[:, columns], table.y_train)
    assert curves_["percent"][0][0] == pytest.approx(100 * plain.score(table.x_test[:, columns], table.y_test))
    assert curves_["constant"] == pytest.approx(100 * table.constant())


@pytest.mark.parametrize("function", ["curves", "sgd"])
def test_validation_leaves_the_test_part_alone(function):
    more = {"sizes": [1], "epsilons": [fr.PLAIN]} if function == "curves" else {"size": 1, "models": [[None, 1.0]]}
    job = {"dataset": NAME, "seed": 0, "draws": 1, **more}
    for report, n in (("validation", 38), ("test", 95)):
        percent = np.ravel(getattr(fr, function)(**job, report=report)["percent"])[0]
        assert percent * n / 100 == pytest.approx(round(percent * n / 100), abs=1e-5)
    with pytest.raises(ParameterError, match="report"):
        getattr(fr, function)(**job, report="train")


def test_noise_keeps_the_budget():
    full = fr.noise_for(0.236, 191, 250, 40, 1e-5)
    assert mechanisms.gaussian_epsilon(full, np.sqrt(40), 1e-5) == pytest.approx(0.236, rel=1e-3)
    sampled = fr.noise_for(0.5, 2000, 250, 2, 1e-5)
    assert 0.49 < accounting.epsilon(sampled, 1 / 8, 16, 1e-5, "rdp") < 0.75  # Rényi DP is looser


def test_plain_sgd_converges_and_noise_hurts():
    table = feature_data.load(NAME, 0)
    columns = feature_search.order(table, 3)
    models = [[None, 2.0], [1e5, 2.0], [0.01, 2.0]]
    found = fr.sgd(dataset=NAME, seed=0, size=3, models=models, draws=30, epochs=600)
    plain, hardly, buried = found["percent"]
    optimum = LogisticRegression(C=1e6).fit(table.x_train[:, columns], table.y_train)
    assert plain == pytest.approx(100 * optimum.score(table.x_test[:, columns], table.y_test))
    assert abs(hardly - plain) < 3
    assert buried < 65
    assert found["noise"][2] > found["noise"][1] > found["noise"][0] == 0


def test_accuracies_are_means_on_their_part_and_a_small_subset_gets_less_noise():
    table = feature_data.load(NAME, 1, 60)
    S = np.arange(table.d) % 3 == 0
    exact = fr.accuracies(table, [S], np.inf, "sound", "validation", 2, 0)
    rng = np.random.default_rng(0)
    model = objpert.fit(table.x_train[:, S], table.y_train, epsilon=np.inf, norm_bound=3.0, rng=rng, device="cpu")
    assert exact[0] == pytest.approx(model.accuracy(table.x_valid[:, S], table.y_valid)[0])
    noisy = [fr.accuracies(table, [S], 2.0, "sound", "validation", 30, seed)[0] for seed in (0, 0, 1)]
    assert noisy[0] == noisy[1] != noisy[2]
    one = np.arange(table.d) == 0
    models = fr.fitted(table, np.array([one, np.ones(table.d, dtype=bool)]), 1.0, "sound", rng)
    assert models.noise_rate[0] > models.noise_rate[1]


def test_the_two_readings_of_fitness_use_different_records(monkeypatch):
    seen = []

    def recorded(table, subsets, epsilon, variant, part, repeats, seed):
        seen.append((part, len(table.y_train), seed))
        return np.zeros(len(subsets))

    monkeypatch.setattr(fr, "accuracies", recorded)
    job = {"dataset": NAME, "seed": 0, "epsilon": 1.0, "population": 4, "generations": 1}
    for part in fr.PARTS:
        fr.pafs(**job, part=part)
    fitness = {(part, n) for part, n, seed in seen if seed == 1}
    assert fitness == {("validation", 131), ("test", 191)}
    assert {n for part, n, seed in seen if seed == 2 and part == "test"} == {191}  # the winner trains on all
    with pytest.raises(ParameterError, match="part"):
        fr.pafs(**job, part="train")


def test_codes_of_columns_and_attributes_hold_the_same_records():
    table = feature_data.load("synthetic-census", 0)
    codes, _ = feature_search.coded(table, "columns")
    assert codes.shape == (len(table.y_train), table.d + 1)
    by_attribute, sizes = feature_search.coded(table, "attributes")
    assert len(sizes) == len(table.attributes) + 1
    for a, name in enumerate(table.attributes):
        own = np.flatnonzero(table.attribute_of == a)
        if len(own) > 1:
            np.testing.assert_array_equal(codes[:, own].argmax(axis=1), by_attribute[:, a])
            assert sizes[a] == len(own), name
        else:
            np.testing.assert_array_equal(by_attribute[:, a], np.minimum(table.x_train[:, own[0]] * 10, 9).astype(int))
    mask = feature_search.as_columns(table, "attributes", [0, 1])
    assert mask.sum() == (table.attribute_of < 2).sum()
    np.testing.assert_array_equal(by_attribute[:, -1], table.y_train)


def test_private_choice_with_no_noise_is_cfs_greedy():
    table = feature_data.load(NAME, 0)
    relevance, redundancy = feature_scores.relevance_and_redundancy(feature_search.counted(table, "columns"))
    expected = feature_search.subset(feature_search.cfs_greedy(relevance, redundancy), table.d)
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(feature_search.private_choice(table, "columns", "entropies", np.inf, rng), expected)
    job = {"dataset": NAME, "seed": 0, "unit": "columns", "how": "entropies"}
    alike = feature_search_runs.agreement(**job, epsilon=np.inf, repeats=2)
    assert (alike["first"], alike["jaccard"], alike["merit"], alike["error"]) == (1.0, 1.0, pytest.approx(1.0), 0.0)


def test_the_most_relevant_features_are_redundant_and_what_cfs_chooses_is_not(monkeypatch):
    """A column, its copy and a third that is independent of both and nearly as relevant: the answer is known."""
    a, b = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], 32, axis=0).T
    y = np.concatenate([np.arange(32) < ones for ones in (0, 15, 17, 32)])
    table = feature_data.load(NAME, 0)
    x = np.column_stack([a, a, b]).astype(float)
    parts = {"x_train": x, "y_train": y.astype(float), "feature_names": ("a", "a again", "b")}
    made = replace(table, **parts, attributes=("a", "a again", "b"), attribute_of=np.arange(3))
    monkeypatch.setattr(feature_data, "load", lambda dataset, seed: made)
    job = {"dataset": NAME, "seed": 0, "population": 50, "generations": 3}
    found = feature_search_runs.redundancy(**job)
    assert found["size"] == 2
    assert found["redundancy"] == {"CFS-Greedy": 0.0, "CFS-GA": 0.0, "relevant": pytest.approx(1.0)}
    assert feature_search_runs.redundancy(**job) == found
