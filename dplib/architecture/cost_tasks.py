"""The data of paper B's experiments on what drives the cost: images, messages, patients, a census.

Every set has a synthetic stand-in, so that the chapter runs without any file. What a stand-in shows is how the code
works, and nothing about the set whose place it takes.
"""

import functools

import numpy as np

from dplib import data, trainings
from dplib.checks import ParameterError
from dplib.data import Dataset, preprocess, text
from dplib.data.levels import ADULT_LEVELS, ADULT_NUMERIC

TEXTS = ("synthetic-messages", "sms-spam")
PATIENTS = ("synthetic-patients", "medical-cost")
CENSUSES = ("synthetic-census", "adult")
SYNTHETIC = (TEXTS[0], PATIENTS[0], CENSUSES[0])
HELD_OUT = 0.2  # share of the training part on which rates are chosen, where no part is published for that

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
def task(dataset: str, features: str = "flat", n_train: int | None = None, part: str = "report", length: int = 40):
    """A data set as a network takes it, always with the same split: seeds decide weights, batches and noise only.

    Args:
        dataset: of images (:func:`dplib.trainings.task`), or one of TEXTS or PATIENTS, in paper B's sizes.
        features, n_train: of :func:`dplib.trainings.task`; images only.
        part: "report"; "tuning": messages and patients give a fifth of their training part to validation, so that no
            choice looks at the test part. (Images have a validation part of their own.)
        length: words kept of a message.

    Raises:
        ParameterError, DataError: for what cannot be had.
    """
    if dataset not in TEXTS + PATIENTS:
        return trainings.task(dataset, features, n_train, 0)
    loaded = synthetic(dataset) if dataset in SYNTHETIC else preprocess.paper_b_split(data.load(dataset), 0)
    if part == "tuning":
        loaded = preprocess.hold_out(loaded, round(HELD_OUT * len(loaded.y_train)), 0)
    if dataset in TEXTS:
        return text.tokens(loaded, 1000 if dataset == "sms-spam" else 100, length)
    return preprocess.min_max_target(preprocess.min_max(preprocess.medical_cost_numeric(loaded)))


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


def checksums(*datasets: str) -> dict[str, str]:
    """Name to checksum, for ``study.run``; a synthetic set is decided by the code alone."""
    return {name: data.load(name).checksum for name in sorted(set(datasets)) if name not in SYNTHETIC}


def synthetic(dataset: str, seed: int = 0) -> Dataset:
    """A stand-in with the columns and about the imbalance of the real set, drawn by the seed."""
    rng = np.random.default_rng([seed, 5])
    return {TEXTS[0]: _messages, PATIENTS[0]: _patients, CENSUSES[0]: _census}[dataset](rng)


def _parts(name: str, x: np.ndarray, y: np.ndarray, n_test: int, **fields) -> Dataset:
    return Dataset(name, x[n_test:], y[n_test:], x[:n_test], y[:n_test], notes=("drawn at random",), **fields)


def _messages(rng: np.random.Generator) -> Dataset:
    """13.4% spam, which says one to three of ten words that others say seldom."""
    n = 1500
    spam = rng.random(n) < 0.134
    words = [f"w{i}" for i in range(90)]
    telling = [f"win{i}" for i in range(10)]
    rows = []
    for is_spam in spam:
        some = list(rng.choice(words, rng.integers(4, 12)))
        some += list(rng.choice(telling, rng.integers(1, 4))) if is_spam or rng.random() < 0.03 else []
        rows.append(" ".join(rng.permutation(some)))
    return _parts(TEXTS[0], np.array(rows, dtype=object), spam.astype(np.int64), 400, classes=("ham", "spam"))


def _patients(rng: np.random.Generator) -> Dataset:
    """Costs that rise with age, and for smokers with the body mass index too."""
    n = 1300
    age, bmi, children = rng.integers(18, 65, n), rng.normal(30.7, 6.1, n).clip(16, 53), rng.poisson(1.1, n).clip(0, 5)
    male, smokes = rng.random(n) < 0.5, rng.random(n) < 0.2
    region = rng.choice(["northeast", "northwest", "southeast", "southwest"], n)
    cost = 3.3 * age**2 + 500 * children + smokes * (14_000 + 15_000 * (bmi > 30)) + rng.gamma(1.0, 2500, n)
    columns = [age, np.where(male, "male", "female"), bmi.round(2), children, np.where(smokes, "yes", "no"), region]
    names = ("age", "sex", "bmi", "children", "smoker", "region")
    x = np.column_stack([np.asarray(c).astype(str) for c in columns])
    return _parts(PATIENTS[0], x, cost.astype(np.float32), 300, feature_names=names)


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
    return _parts(CENSUSES[0], np.column_stack(columns), label, 2000, feature_names=names, classes=("<=50K", ">50K"))
