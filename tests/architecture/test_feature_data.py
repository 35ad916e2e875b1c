"""The tables of feature selection: their columns, splits, and a norm bound that no record decides."""

import numpy as np
import pytest

from dplib.architecture import feature_data
from dplib.checks import ParameterError

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
    with pytest.raises(ParameterError, match="masks"):
        table.norm_bound(np.ones(3, dtype=bool))


def test_breast_cancers_sizes_and_base_rate():
    table = feature_data.load("synthetic-recurrence", 3)
    assert (len(table.y_train), len(table.y_valid), len(table.y_test)) == (191, 0, 95)
    labels = np.concatenate([table.y_train, table.y_test])
    assert 0.25 < labels.mean() < 0.35
    assert table.source.stand_in_for == "breast-cancer"


@pytest.mark.parametrize("name", STAND_INS)
def test_validation_records_come_from_the_training_part(name):
    whole, held = feature_data.load(name, 1), feature_data.load(name, 1, 40)
    assert len(held.y_valid) == 40
    assert np.array_equal(whole.x_test, held.x_test)

    def rows(*parts):
        return sorted(map(bytes, np.concatenate(parts)))

    assert rows(whole.x_train) == rows(held.x_train, held.x_valid)


def test_seeds_split_the_same_records_anew():
    one, two = (feature_data.load("synthetic-recurrence", seed) for seed in (0, 1))
    assert not np.array_equal(one.x_train, two.x_train)
    together = [sorted(map(bytes, np.concatenate([t.x_train, t.x_test]))) for t in (one, two)]
    assert together[0] == together[1]


def test_shared_arrays_cannot_be_written():
    with pytest.raises(ValueError, match="read-only"):
        feature_data.load("synthetic-recurrence").x_train[0, 0] = 5


def test_columns_by_name_and_a_constant():
    table = feature_data.load("synthetic-recurrence")
    assert table.mask(["deg-malig=3"]).nonzero()[0].tolist() == [table.feature_names.index("deg-malig=3")]
    assert table.constant() == pytest.approx((table.y_test == 0).mean())


@pytest.mark.parametrize("arguments", [("iris",), ("synthetic-recurrence", -1), ("synthetic-recurrence", 0, 191)])
def test_refused(arguments):
    with pytest.raises(ParameterError):
        feature_data.load(*arguments)
