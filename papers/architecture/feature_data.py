"""The two tables of paper B's feature selection (Section IV-A), encoded, split and scaled for logistic regression.

"breast-cancer": nine attributes, 43 columns of 0 and 1. "adult": fourteen attributes, 108 columns, the six numbers
scaled to [0, 1] by ranges known without the records. Each has a stand-in, drawn at random, that needs no file:
"synthetic-recurrence" and "synthetic-census". What a stand-in shows is how the code works, and nothing about the set
whose place it takes.

A record has one 1 among the columns of a categorical attribute, and at most 1 in a number, so its L2 norm is at most
the root of the number of attributes: :meth:`Features.norm_bound` knows it for any subset of columns without a look at
the records. No epsilon of the book covers the split, the list of levels that occur in Breast Cancer
(:func:`dplib.data.preprocess.breast_cancer_one_hot`), or a choice of columns that was made by looking at the records.
"""

import functools
from dataclasses import dataclass, replace

import numpy as np

from dplib import data, mechanisms
from dplib.checks import one_of
from dplib.data import Dataset, preprocess, tasks
from dplib.data.levels import ADULT_LEVELS, ADULT_NUMERIC, BREAST_CANCER_LEVELS

REAL = ("breast-cancer", "adult")
STAND_INS = {"synthetic-recurrence": "breast-cancer", "synthetic-census": "adult"}
NAMES = (*REAL, *STAND_INS)
RECORDS = 286  # of Breast Cancer, and of its stand-in: 191 to train on and 95 to test
CENSUSES = ("adult", "synthetic-census")
# Known without a look at the records: age in years, weight below 1.5 million, 16 grades, dollars, hours of a week.
PUBLIC_MOST = {
    "age": 100.0,
    "fnlwgt": 1.5e6,
    "education-num": 16.0,
    "capital-gain": 1e5,
    "capital-loss": 5e3,
    "hours-per-week": 100.0,
}
ENCODINGS = {"without": preprocess.adult_numeric, "one-hot": preprocess.adult_one_hot}
SCALINGS = ("public", "range", "standard", "raw")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Features(Dataset):
    """A table ready for a logistic regression.

    x: (n, d), float64 in [0, 1]; the validation part may have no rows. y: (n,), float64, 0 or 1. ``feature_names``: d
    names, "attribute=level" or "attribute"; ``attribute_of``: (d,), for each column the position of its attribute.
    """

    attributes: tuple[str, ...]
    attribute_of: np.ndarray

    @property
    def d(self) -> int:
        """Number of columns."""
        return len(self.feature_names)

    def norm_bound(self, masks=None):
        """The largest L2 norm that a record can have: the root of the number of attributes with a column in use.

        ``masks``: bool, (d,) or (problems, d), the columns in use; None: all. Public, as long as no record chose them.
        """
        masks = np.ones(self.d, dtype=bool) if masks is None else np.asarray(masks, dtype=bool)
        belongs = self.attribute_of[:, None] == np.arange(len(self.attributes))
        return np.sqrt(np.maximum((masks @ belongs > 0).sum(axis=-1), 1))

    def mask(self, columns) -> np.ndarray:
        """Columns, as positions, as a mask of shape (d,)."""
        return np.isin(np.arange(self.d), columns)

    def constant(self) -> float:
        """Test accuracy of always predicting the label that is more frequent in the training part."""
        return float((self.y_test == (self.y_train.mean() > 0.5)).mean())


@functools.lru_cache(maxsize=2)
def census(dataset: str, encoding: str, split_seed: int) -> Dataset:
    """Adult without its categorical attributes or with all of them one-hot, split as in paper B by the seed."""
    one_of(*CENSUSES).check("dataset", dataset)
    one_of(*ENCODINGS).check("encoding", encoding)
    if dataset in STAND_INS:
        return ENCODINGS[encoding](people(split_seed))
    return ENCODINGS[encoding](preprocess.paper_b_split(data.load(dataset), split_seed))


def scaled(dataset: Dataset, scaling: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Training and test rows of a census, and a bound on their L2 norm.

    Args:
        scaling: "public": every column to [0, 1] by ranges known without the records, bound by the number of columns
            that can be 1 together: private. "range": by the training part's ranges. "standard": mean 0, deviation 1,
            bound by the largest training norm. "raw": as they are, bound likewise. The last three look at the records,
            which no epsilon covers. Test rows beyond the bound are clipped.
    """
    one_of(*SCALINGS).check("scaling", scaling)
    train, test = dataset.x_train.astype(float), dataset.x_test.astype(float)
    if scaling in ("public", "range"):
        if scaling == "public":
            low, high = 0.0, np.array([PUBLIC_MOST.get(name, 1.0) for name in dataset.feature_names])
        else:
            low, high = train.min(axis=0), train.max(axis=0)
        width = np.where(high > low, high - low, 1.0)
        train, test = (((x - low) / width).clip(0, 1) for x in (train, test))
        numeric = sum(name in PUBLIC_MOST for name in dataset.feature_names)
        categorical = len({name.partition("=")[0] for name in dataset.feature_names}) - numeric
        return train, test, float(np.sqrt(numeric + categorical))
    if scaling == "standard":
        mean, deviation = train.mean(axis=0), train.std(axis=0)
        train, test = ((x - mean) / np.where(deviation > 0, deviation, 1) for x in (train, test))
    bound = float(np.linalg.norm(train, axis=1).max())
    return train, mechanisms.clip_rows(test, bound), bound


def people(seed: int = 0) -> Dataset:
    """6,000 people with the columns and levels of Adult, drawn by the seed, a third of them to test on; a quarter earns
    more, by age, education, hours, and a little by category."""
    rng = np.random.default_rng([seed, 5])
    n = 6000
    numbers = {
        "age": rng.integers(17, 90, n),
        "fnlwgt": rng.integers(20_000, 400_000, n),
        "education-num": rng.integers(1, 17, n),
        "capital-gain": np.where(rng.random(n) < 0.08, rng.integers(1_000, 30_000, n), 0),
        "capital-loss": np.where(rng.random(n) < 0.05, rng.integers(500, 3_000, n), 0),
        "hours-per-week": rng.normal(40, 12, n).clip(1, 99).round().astype(int),
    }
    assert set(numbers) == set(ADULT_NUMERIC)
    score = 0.03 * numbers["age"] + 0.25 * numbers["education-num"] + 0.03 * numbers["hours-per-week"]
    score += 2e-4 * numbers["capital-gain"]
    columns = []
    for name, levels in ADULT_LEVELS.items():
        if levels is None:
            columns.append(numbers[name].astype(str))
            continue
        which = rng.integers(len(levels), size=n)
        score = score + 1.2 * np.sin(1 + which) * (name in ("marital-status", "occupation"))
        columns.append(np.array(levels)[which])
    score += rng.logistic(0, 0.8, n)
    label = (score > np.quantile(score, 0.76)).astype(np.int64)
    names = tuple(ADULT_LEVELS)
    return tasks.drawn(
        "synthetic-census", np.column_stack(columns), label, 2000, feature_names=names, classes=("<=50K", ">50K")
    )


@functools.lru_cache(maxsize=4)
def load(name: str, seed: int = 0, validation: int = 0) -> Features:
    """A table, split at random by the seed into as many training and test records as paper B has (Section IV-A).

    The test part is the same whatever ``validation`` is, the number of training records that become the validation
    part. DataError for a file that is missing or is not the published one.
    """
    one_of(*NAMES).check("dataset", name)
    if name in CENSUSES:
        encoded = census(name, "one-hot", seed)
        train, test, _ = scaled(encoded, "public")
        encoded = replace(encoded, x_train=train, x_test=test, stand_in_for=STAND_INS.get(name))
    else:
        pool = _pool(name)
        split = _split(pool, seed) if name in STAND_INS else preprocess.paper_b_split(pool, seed)
        encoded = preprocess.breast_cancer_one_hot(split)
    if validation:
        encoded = preprocess.hold_out(encoded, validation, np.random.default_rng([seed, 6]))
    else:
        encoded = replace(encoded, x_valid=encoded.x_train[:0], y_valid=encoded.y_train[:0])
    owners = [name.partition("=")[0] for name in encoded.feature_names]
    attributes = tuple(dict.fromkeys(owners))
    parts = {part: np.asarray(getattr(encoded, part), dtype=float) for part in _PARTS}
    for array in parts.values():
        array.flags.writeable = False  # shared by all who ask for the same split
    fields = {"name": name, "attributes": attributes, "attribute_of": np.array([*map(attributes.index, owners)])}
    return Features(**vars(encoded) | parts | fields)


_PARTS = ("x_train", "y_train", "x_valid", "y_valid", "x_test", "y_test")


def recurrence(seed: int = 0) -> Dataset:
    """286 records with the columns and levels of Breast Cancer; about 30% recur, by malignancy, nodes and a little age.

    Three attributes inform, two of them say much the same (nodes and capsule), and the other six are noise.
    """
    rng = np.random.default_rng([seed, 43])
    columns = {}
    for name, levels in BREAST_CANCER_LEVELS.items():
        share = rng.dirichlet(np.full(len(levels), 2.0))
        columns[name] = rng.choice(len(levels), RECORDS, p=share)
    columns["deg-malig"] = rng.choice(3, RECORDS, p=[0.25, 0.45, 0.30])
    columns["inv-nodes"] = np.minimum(rng.geometric(0.7, RECORDS) - 1, len(BREAST_CANCER_LEVELS["inv-nodes"]) - 1)
    unknown = rng.random(RECORDS) < 0.03
    torn = (columns["inv-nodes"] > 0) ^ (rng.random(RECORDS) < 0.1)
    columns["node-caps"] = np.where(unknown, 2, np.where(torn, 0, 1))
    score = 1.4 * (columns["deg-malig"] == 2) + 1.2 * (columns["inv-nodes"] > 0) - 0.3 * (columns["age"] > 3)
    score = score + rng.logistic(0, 0.7, RECORDS)
    label = (score > np.quantile(score, 0.7)).astype(np.int64)
    x = np.column_stack([np.array(BREAST_CANCER_LEVELS[name])[which] for name, which in columns.items()])
    return Dataset(
        "synthetic-recurrence",
        x,
        label,
        x[:0],
        label[:0],
        feature_names=tuple(BREAST_CANCER_LEVELS),
        classes=("no-recurrence-events", "recurrence-events"),
        stand_in_for="breast-cancer",
        notes=("drawn at random",),
    )


@functools.lru_cache(maxsize=2)
def _pool(name: str) -> Dataset:
    """All records of Breast Cancer or its stand-in."""
    return recurrence() if name in STAND_INS else data.load(name)


def _split(pool: Dataset, seed: int) -> Dataset:
    """Training and test parts of the sizes of Breast Cancer's."""
    n_train = preprocess.PAPER_B["breast-cancer"][0]
    train, test = preprocess.disjoint(RECORDS, (n_train, RECORDS - n_train), np.random.default_rng(seed))
    x, y = pool.x_train, pool.y_train
    return replace(pool, x_train=x[train], y_train=y[train], x_test=x[test], y_test=y[test])
