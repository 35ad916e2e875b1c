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


@pytest.mark.parametrize("name", STAND_INS)
def test_validation_records_come_from_the_training_part(name):
    whole, held = feature_data.load(name, 1), feature_data.load(name, 1, 40)
    assert len(held.y_valid) == 40
    assert np.array_equal(whole.x_test, held.x_test)

    def rows(*parts):
        return sorted(map(bytes, np.concatenate(parts)))

    assert rows(whole.x_train) == rows(held.x_train, held.x_valid)
