"""A census with and without its categories, for paper B's Table XVI and for feature selection.

It has a synthetic stand-in, which shows how the code works, and nothing about the set whose place it takes.
"""

import functools

import numpy as np

from dplib import data
from dplib.checks import ParameterError
from dplib.data import Dataset, preprocess, tasks
from dplib.data.levels import ADULT_LEVELS, ADULT_NUMERIC

CENSUSES = ("synthetic-census", "adult")
SYNTHETIC = (CENSUSES[0],)

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


@functools.lru_cache(maxsize=2)
def census(dataset: str, encoding: str, split_seed: int) -> Dataset:
    """Adult without its categorical attributes or with all of them one-hot, split as in paper B by the seed."""
    if dataset not in CENSUSES or encoding not in ENCODINGS:
        raise ParameterError(f"dataset = {dataset!r}, encoding = {encoding!r} is not allowed: {CENSUSES}, {ENCODINGS}.")
    if dataset in SYNTHETIC:
        return ENCODINGS[encoding](synthetic(dataset, split_seed))
    return ENCODINGS[encoding](preprocess.paper_b_split(data.load(dataset), split_seed))


def scaled(dataset: Dataset, scaling: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Training and test rows of a census, and a bound on their L2 norm.

    Args:
        scaling: "public": every column to [0, 1] by ranges known without the records, bound by the number of columns
            that can be 1 together: private. "range": by the training part's ranges. "standard": mean 0, deviation 1,
            bound by the largest training norm. "raw": as they are, bound likewise. The last three look at the records,
            which no epsilon covers. Test rows beyond the bound are clipped.
    """
    if scaling not in SCALINGS:
        raise ParameterError(f"scaling = {scaling!r} is not allowed: it must be one of {', '.join(SCALINGS)}.")
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
    return train, preprocess.clip_rows(test, bound), bound


def synthetic(dataset: str, seed: int = 0) -> Dataset:
    """A stand-in with the columns and about the imbalance of the real set, drawn by the seed."""
    rng = np.random.default_rng([seed, 5])
    return _census(rng)


def _census(rng: np.random.Generator) -> Dataset:
    """The columns and levels of Adult; a quarter earns more, by age, education, hours, and a little by category."""
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
        CENSUSES[0], np.column_stack(columns), label, 2000, feature_names=names, classes=("<=50K", ">50K")
    )
