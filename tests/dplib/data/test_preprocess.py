"""The papers' preprocessing: printed column counts, splits without overlap, and no look at the test part."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dplib import data
from dplib.checks import ParameterError
from dplib.data import Dataset, levels, loaders, preprocess

REAL = os.environ.get("DPLIB_DATA", "")


def table(name, x_train, x_test, y_train=None, y_test=None, **fields) -> Dataset:
    x_train, x_test = np.asarray(x_train), np.asarray(x_test)
    y_train = np.zeros(len(x_train), np.int64) if y_train is None else np.asarray(y_train)
    y_test = np.zeros(len(x_test), np.int64) if y_test is None else np.asarray(y_test)
    return Dataset(name=name, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test, **fields)


def numbered(name: str, n_train: int, n_test: int) -> Dataset:
    """Each record and its label are the record's number; test records follow the training records."""
    train, test = np.arange(n_train), np.arange(n_train, n_train + n_test)
    return table(name, train[:, None], test[:, None], train, test)


def real(name: str) -> Dataset:
    if not REAL or not (Path(REAL) / name).is_dir():
        pytest.skip(f"DPLIB_DATA is not set to a folder with {name}")
    return data.load(name, allow_download=False)


# Splits


@pytest.mark.parametrize(
    ("name", "n_train", "n_test"),
    [
        ("mnist", 60_000, 10_000),
        ("svhn", 73_257, 26_032),
        ("adult", 32_561, 16_281),
        ("breast-cancer", 191, 95),
        ("sms-spam", 4_738, 836),
        ("purchase-100", 192_324, 5_000),
    ],
)
def test_splits_have_the_printed_sizes_and_do_not_overlap(name, n_train, n_test):
    split = preprocess.paper_b_split(numbered(name, n_train, n_test), 1)
    parts = [set(y.tolist()) for y in (split.y_train, split.y_valid, split.y_test) if y is not None]
    assert [len(part) for part in parts] == [n for n in preprocess.PAPER_B[name] if n]
    assert len(set.union(*parts)) == sum(map(len, parts))
    assert np.array_equal(split.x_train[:, 0], split.y_train)
    if name in preprocess.TEST_HALVED:  # validation and test from the published test part
        assert max(parts[0]) < n_train <= min(parts[1] | parts[2])
    elif name == "adult":
        assert max(set.union(*parts)) < n_train  # nothing of adult.test
    elif name != "breast-cancer":
        assert max(parts[0]) >= n_train  # drawn from all records


def test_every_record_is_as_likely_to_be_tested():
    """95 of 286 records, 400 seeds: each count is binomial; five deviations, a false alarm in less than 1 of 5,000."""
    whole, seeds = numbered("breast-cancer", 191, 95), 400
    assert np.array_equal(
        preprocess.paper_b_split(whole, 1).y_test, preprocess.paper_b_split(whole, np.random.default_rng(1)).y_test
    )
    counts = np.zeros(286)
    for seed in range(seeds):
        counts[preprocess.paper_b_split(whole, seed).y_test] += 1
    share = 95 / 286
    assert np.abs(counts - seeds * share).max() < 5 * np.sqrt(seeds * share * (1 - share))


def test_splits_that_cannot_be_made():
    with pytest.raises(ParameterError, match="'iris' has no split in paper B"):
        preprocess.paper_b_split(numbered("iris", 100, 50), 0)
    with pytest.raises(ParameterError, match="191/0/95 needs more than the 100 all records"):
        preprocess.paper_b_split(numbered("breast-cancer", 80, 20), 0)
    with pytest.raises(ParameterError, match="n_valid = 100"):
        preprocess.hold_out(numbered("iris", 100, 50), 100, 0)


def test_hold_out_and_subsample_leave_the_test_part_alone():
    whole = numbered("mnist", 100, 50)
    held = preprocess.hold_out(whole, 30, 3)
    assert sorted([*held.y_train, *held.y_valid]) == list(range(100))
    assert len(held.y_valid) == 30
    assert held.x_test is whole.x_test
    few = preprocess.subsample(whole, 10, 3)
    assert len(set(few.y_train.tolist())) == 10
    assert few.x_test is whole.x_test


# One-hot codes and the printed counts


def every_level(known: dict) -> np.ndarray:
    """Rows in which every level of every attribute occurs."""
    n = max(len(values or ()) for values in known.values())
    return np.array([[values[i % len(values)] if values else str(i) for values in known.values()] for i in range(n)])


def test_adult_has_108_columns():
    rows = every_level(levels.ADULT_LEVELS)
    coded = preprocess.adult_one_hot(table("adult", rows, rows[:5], feature_names=loaders.ADULT))
    assert coded.x_train.shape == (42, 108)
    assert coded.x_train.dtype == np.float32
    numeric = [i for i, name in enumerate(coded.feature_names) if "=" not in name]
    assert len(numeric) == 6
    assert [coded.feature_names[i] for i in numeric] == list(levels.ADULT_NUMERIC)
    assert np.array_equal(coded.x_train[:, numeric[0]], np.arange(42))
    assert np.array_equal(np.delete(coded.x_train, numeric, axis=1).sum(axis=1), np.full(42, 8))
    assert (coded.x_train.max(axis=0) > 0).all()
    assert sum(name.endswith("=?") for name in coded.feature_names) == 3
    row = dict(zip(coded.feature_names, coded.x_train[2], strict=True))
    assert row["workclass=Self-emp-inc"] == 1
    assert row["workclass=Private"] == 0


def test_breast_cancer_has_43_columns():
    rows = every_level(levels.BREAST_CANCER_LEVELS)
    coded = preprocess.breast_cancer_one_hot(table("breast-cancer", rows, rows, feature_names=loaders.BREAST_CANCER))
    assert coded.x_train.shape == (11, 43)
    assert np.array_equal(coded.x_train.sum(axis=1), np.full(11, 9))


def test_an_unknown_level_is_refused():
    rows = every_level(levels.BREAST_CANCER_LEVELS)
    rows[3, 1] = "never"
    with pytest.raises(ParameterError, match="menopause = 'never' is not a level of breast-cancer: lt40"):
        preprocess.breast_cancer_one_hot(table("breast-cancer", rows, rows, feature_names=loaders.BREAST_CANCER))
    with pytest.raises(ParameterError, match="must have the columns age, menopause"):
        preprocess.breast_cancer_one_hot(table("iris", rows, rows))


def test_adult_without_categories_has_7_features():
    rows = every_level(levels.ADULT_LEVELS)
    coded = preprocess.adult_numeric(table("adult", rows, rows, feature_names=loaders.ADULT))
    assert coded.x_train.shape == (42, 7)
    assert coded.feature_names[-1] == "sex"
    assert coded.x_train[:2, -1].tolist() == [0, 1]


def test_medical_cost_has_the_6_features_of_the_papers_parameter_counts():
    rows = [["19", "female", "27.9", "0", "yes", "southwest"], ["18", "male", "33.77", "1", "no", "southeast"]]
    coded = preprocess.medical_cost_numeric(table("medical-cost", rows, rows))
    assert coded.x_train.tolist() == [[19, 0, np.float32(27.9), 0, 1, 3], [18, 1, np.float32(33.77), 1, 0, 2]]

    with pytest.raises(ParameterError, match="numeric column"):
        preprocess.medical_cost_numeric(table("medical-cost", [["19", "female", "27.9", "0", "yes", "north"]], rows))


@pytest.mark.parametrize(
    ("name", "encode", "known", "columns"),
    [
        ("adult", preprocess.adult_one_hot, levels.ADULT_LEVELS, 108),
        ("breast-cancer", preprocess.breast_cancer_one_hot, levels.BREAST_CANCER_LEVELS, 43),
    ],
)
def test_the_written_levels_are_those_of_the_real_records(name, encode, known, columns):
    raw = real(name)
    rows = np.concatenate([raw.x_train, raw.x_test])
    for column, values in zip(rows.T, known.values(), strict=True):
        assert values is None or set(column.tolist()) == set(values)
    coded = encode(preprocess.paper_b_split(raw, 0))
    assert coded.x_train.shape == (preprocess.PAPER_B[name][0], columns)


# Fitted on the training part only


FITTED = [preprocess.min_max, lambda d: preprocess.pca(d, 2), preprocess.min_max_target]


@pytest.mark.parametrize("fit", FITTED, ids=["min_max", "pca", "min_max_target"])
def test_nothing_is_learnt_from_the_test_part(fit):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 5)).astype(np.float32), rng.normal(size=60).astype(np.float32)
    table_ = table("t", x, rng.normal(size=(20, 5)).astype(np.float32), y[:40], y[40:])
    other = replace(table_, x_test=table_.x_test * 100 + 7, y_test=table_.y_test * 100)
    for name in ("x_train", "y_train"):
        assert np.array_equal(getattr(fit(table_), name), getattr(fit(other), name))
    assert not np.array_equal(fit(table_).x_test, table_.x_test) or not np.array_equal(
        fit(table_).y_test, table_.y_test
    )
    assert any("not private" in note for note in fit(table_).notes)


def test_min_max_spans_the_unit_interval_and_clips_the_rest_but_of_targets():
    table_ = table("t", [[0.0, 5], [10, 5], [5, 5]], [[20.0, 6], [-5, 4]], np.array([2.0, 4, 6]), np.array([8.0, 2]))
    scaled = preprocess.min_max_target(preprocess.min_max(table_))
    assert scaled.x_train.tolist() == [[0, 0], [1, 0], [0.5, 0]]
    assert scaled.x_test.tolist() == [[1, 1], [0, 0]]
    assert scaled.y_train.tolist() == [0, 0.5, 1]
    assert scaled.y_test.tolist() == [1.5, 0]
    assert "2.00 to 6.00" in scaled.notes[-1]


def test_pca_agrees_with_the_singular_vectors():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(60, 8)) * np.arange(1, 9)).astype(np.float32)
    done = preprocess.pca(table("t", x.reshape(60, 1, 2, 4), x[:9].reshape(9, 1, 2, 4)), 3)
    centred = x - x.mean(axis=0)
    left, scale, _ = np.linalg.svd(centred.astype(float), full_matrices=False)
    assert np.allclose(np.abs(done.x_train), np.abs(left[:, :3] * scale[:3]), atol=1e-3)
    assert np.allclose(done.x_test, done.x_train[:9], atol=1e-4)
    with pytest.raises(ParameterError, match="n_components = 9"):
        preprocess.pca(table("t", x, x), 9)


def test_grey():
    x = np.zeros((2, 3, 2, 2), np.float32)
    x[0, 1] = 1
    assert np.allclose(preprocess.grey(table("svhn", x, x[:1])).x_train, [[[[0.587] * 2] * 2], [[[0] * 2] * 2]])
    assert np.allclose(preprocess.GREY.sum(), 1)


# Messages


def test_words_are_lower_case_without_punctuation():
    words = preprocess.words("WIN £1000 now! It's *free*, call:0800")
    assert words == ["win", "£1000", "now", "it's", "free", "call", "0800"]


def messages(train, test) -> Dataset:
    return table("sms-spam", np.array(train, dtype=object), np.array(test, dtype=object))


def test_word_sequences_know_only_training_words():
    done = preprocess.tokens(messages(["b a a", "a b c", "d"], ["a new d", "nothing known"]), n_words=4, length=3)
    assert done.x_train.tolist() == [[2, 1, 1], [1, 2, 3], [0, 0, 0]]  # a, b, c by frequency, then by spelling
    assert done.x_test.tolist() == [[0, 0, 1], [0, 0, 0]]
    assert done.x_train.max() < 4
    assert preprocess.tokens(messages(["a b c d e"], ["e d"]), n_words=10, length=2).x_train.tolist() == [
        [4, 5]
    ]  # the end


def test_real_messages():
    split = preprocess.paper_b_split(real("sms-spam"), 0)
    done = preprocess.tokens(split)
    assert done.x_train.shape == (4_700, 150)
    assert done.x_train.max() == 999
