"""Logistic regression on a table by noisy gradients, with the preprocessing as a part of the method.

A table comes with what is public of it: a range of each column, and which columns are the levels of one category
(:class:`Columns`). The training is, in this order, for n rows z of a columns in [-1, 1] and k classes:

1. *Middle out*: numbers go from their public range to [-1, 1]; the 0s and 1s of a category have 1/levels taken off.
2. *Moments*, where they can be had: sums of z and z^2 with Gaussian noise, for a part of the budget. Columns are then
   centred, and numbers divided by their deviation. Public ranges are wide, and most columns sit in a corner of theirs.
3. *Length*: rows are scaled to a length of about :data:`LENGTH`, whatever a is; none is forced to it.
4. *Gradient descent* on all rows at once: each row's gradient is clipped, Gaussian noise is added to the sum, an
   intercept is among the weights. The mean over the second half of the iterates is the model.

The budget is exact, for one row added or removed, with n public: the moments and T gradients are Gaussian releases of
distances mu_0 and sqrt(T) / noise_multiplier, so all together are one Gaussian release of distance mu, where
mu^2 = mu_0^2 + T / noise_multiplier^2 (Dong, Roth and Su 2022, Corollary 3.3), calibrated by
:func:`dplib.mechanisms.analytic_sigma`. With n private a noisy count of the rows takes a further part of mu^2, and so
do ranges that nobody published (:func:`find_ranges`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import stats

from dplib import checks, examples, mechanisms
from dplib.checks import ParameterError
from dplib.dpsgd import LARGEST, keep_digits

LENGTH = 4.0  # of a row, about: what rate and clipping norm were chosen for
UNIFORM = math.sqrt(3.0)  # one over the deviation of a number that is spread evenly over [-1, 1]
FAR = 3.0  # deviations: numbers farther from the middle are moved there
READABLE = 0.15  # moments with more noise than this in a mean say too little of columns in [-1, 1] to be paid for
COUNTED = 0.02  # part of the squared distance that a noisy count of the rows takes, where n is private
RANGED = 0.1  # part of the squared distance that private ranges take
LEAST_POWER, MOST_POWER = -10, 20  # of four: smaller numbers count as 0, larger ones as the largest
FALSE_ALARM = 0.01  # chance that any empty bin of any column counts as filled, at most

_EPSILON, _DELTA = checks.single(checks.numbers(1e-9, 1e6, infinite=True)), checks.fraction()


@dataclass(frozen=True)
class Columns:
    """What is public of a table: ranges, and which columns are the levels of a category.

    Args:
        low: shape (d,), the least that a column can hold, known without the rows.
        high: shape (d,), the most. Columns of 0 and 1 have 0 and 1.
        categories: for each category the positions of its columns of 0 and 1, at most one of which is 1 in a row.
        middle: shape (d,), what goes to 0; made from the others.
        numeric: bool, shape (d,), which columns are numbers; made from the others.

    Raises:
        ParameterError: for ranges that are empty or not finite, a position that is none, or one that stands twice.
    """

    low: ArrayLike
    high: ArrayLike
    categories: Sequence[Sequence[int]] = ()
    middle: np.ndarray = field(init=False, repr=False)
    numeric: np.ndarray = field(init=False, repr=False)

    def __post_init__(self):
        low, high = (np.atleast_1d(checks.reals(name, getattr(self, name))) for name in ("low", "high"))
        if low.shape != high.shape or low.ndim != 1 or not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
            raise ParameterError("low and high must be finite, one of each for a column, and low < high everywhere.")
        _check_categories(self.categories, len(low))
        numeric, middle = np.ones(len(low), bool), (low + high) / 2
        for columns in self.categories:
            numeric[list(columns)], middle[list(columns)] = False, 1 / len(columns)
        for name, value in (("low", low), ("high", high), ("numeric", numeric), ("middle", middle)):
            object.__setattr__(self, name, value)

    @property
    def attributes(self) -> int:
        """Numbers and categories: the square of the most that a row can be long."""
        return int(self.numeric.sum()) + len(self.categories)

    def __call__(self, x: ArrayLike) -> np.ndarray:
        """Rows (n, d) as they are to rows (n, d) in [-1, 1], middle out; what is missing (NaN) goes to the middle.

        Raises:
            ParameterError: for rows that are not as wide as the ranges.
        """
        x = checks.reals("x", x, 2)
        if x.shape[1] != len(self.low):
            raise ParameterError(f"x has shape {x.shape}: it must have rows of {len(self.low)} columns.")
        half = np.where(self.numeric, (self.high - self.low) / 2, 1.0)
        return np.nan_to_num((x.clip(self.low, self.high) - self.middle) / half, nan=0.0)


def _check_categories(categories: Sequence[Sequence[int]], columns: int) -> None:
    place, lists = checks.integer(0, columns - 1), np.iterable(categories) and all(map(np.iterable, categories))
    at = [place for of_category in categories for place in of_category] if lists else []
    if not lists or not all(map(len, categories)) or len(set(at)) < len(at) or not all(map(place.accepts, at)):
        raise ParameterError(
            f"categories = {checks.shown(categories)} is not allowed: a list of lists of columns from 0 to "
            f"{columns - 1}, none of them empty, each column once."
        )


@dataclass(frozen=True)
class Settings:
    """How to train; the defaults are what ``notebooks/13_choose_a_model.md`` chose, for all tables.

    Args:
        moments: part of the squared distance that goes to the moments of the columns, in [0, 0.99].
        max_grad_norm: clipping norm of a row's gradient, in [1e-12, 1e12].
        learning_rate: of a step along the mean of clipped gradients, in [1e-30, 1e30].
        steps: at least 2.

    Raises:
        ParameterError: for values outside these.
    """

    moments: float = 0.1
    max_grad_norm: float = 1.5
    learning_rate: float = 1.6
    steps: int = 40

    def __post_init__(self):
        checks.number(0, 0.99).check("moments", self.moments)
        checks.number(1e-12, 1e12).check("max_grad_norm", self.max_grad_norm)
        checks.number(1 / LARGEST, LARGEST).check("learning_rate", self.learning_rate)
        checks.integer(2).check("steps", self.steps)
        keep_digits(self, ("moments", "max_grad_norm", "learning_rate"), counts=("steps",))


_HOW = {
    "settings": checks.Rule("Settings", lambda v: isinstance(v, Settings)),
    "public_n": checks.boolean(),
    "public_ranges": checks.boolean(),
}


@dataclass(frozen=True)
class Noise:
    """Standard deviations, in the unit of the most that one row changes.

    Args:
        gradient: the noise multiplier of a step.
        moments: that of the moments of the columns; infinite where they are not looked at.
    """

    gradient: float
    moments: float


@dataclass(frozen=True)
class Model:
    """A linear classifier with the scaling that was learned with it, for rows z that :class:`Columns` made: scores are
    ``x @ weights + bias`` of scaled rows x.

    Args:
        mean: shape (d,): scaled rows are ``(z - mean) * scale``.
        scale: shape (d,).
        most: scaled numbers are moved to within so much of 0.
        weights: shape (d, classes).
        bias: shape (classes,).
    """

    mean: np.ndarray
    scale: np.ndarray
    most: float
    weights: np.ndarray
    bias: np.ndarray

    def predict(self, z: ArrayLike) -> np.ndarray:
        """The class with the highest score, shape (n,).

        Args:
            z: rows that :class:`Columns` made, shape (n, d), in [-1, 1].
        """
        return (scaled(np.asarray(z, float), self.mean, self.scale, self.most) @ self.weights + self.bias).argmax(1)


@checks.bounded(n=checks.number(1, 1e18), attributes=checks.integer(1, 10**9), epsilon=_EPSILON, delta=_DELTA, **_HOW)
def noise_for(
    n: float,
    attributes: int,
    epsilon: float,
    delta: float,
    settings: Settings = Settings(),
    public_n: bool = True,
    public_ranges: bool = True,
) -> Noise:
    """The least noise for a budget at these settings; no row decides it.

    Args:
        n: number of rows, or a noisy count of them.
        attributes: of :class:`Columns`.
        epsilon: for one row added or removed, in [1e-9, 1e6]; inf for no noise.
        delta: in (0, 1).
        settings: how to train.
        public_n: whether the number of rows may be known; else a part of the budget pays for its noisy count.
        public_ranges: whether the ranges may be known; else :func:`find_ranges` has spent a part of the budget.

    Raises:
        ParameterError: for a value outside its range, a budget of which the steps would have nothing left, or settings
            whose noise, or a step along it, is more than float32 holds.
    """
    if math.isinf(epsilon):
        _check_step(settings, 0.0)
        return Noise(0.0, 0.0 if settings.moments else math.inf)
    whole = float(mechanisms.analytic_sigma(epsilon, delta))  # one over the distance mu
    part, counted, ranged = settings.moments, 0.0 if public_n else COUNTED, 0.0 if public_ranges else RANGED
    if part + counted + ranged >= 1:
        raise ParameterError(
            f"moments = {part:g} is not allowed beside a noisy count ({counted:g}) and ranges ({ranged:g}): together "
            "they must leave something of the budget to the steps."
        )
    _check_step(settings, whole * math.sqrt(settings.steps / (1 - part - counted - ranged)))  # whatever n is
    if part and whole / math.sqrt(part) * most_moments(attributes) / n > READABLE:
        part = 0.0
    left = 1 - part - counted - ranged
    return Noise(whole * math.sqrt(settings.steps / left), whole / math.sqrt(part) if part else math.inf)


def _check_step(settings: Settings, noise_multiplier: float) -> None:
    """A step is within float32 even where it is that of one row: else one could be the first that is not."""
    moved = settings.max_grad_norm * max(1.0, noise_multiplier) * max(1.0, settings.learning_rate)
    if not moved <= LARGEST:
        raise ParameterError(
            f"learning_rate = {settings.learning_rate:g} is not allowed with max_grad_norm = {settings.max_grad_norm:g}"
            f" and a noise multiplier of {noise_multiplier:g}: noise, and steps along it, must be at most {LARGEST:g}."
        )


@checks.bounded(epsilon=checks.single(checks.numbers(1e-9, 1e6)), delta=_DELTA)
def count_noise(epsilon: float, delta: float) -> float:
    """Standard deviation of a noisy count of the rows, where their number is private.

    Args:
        epsilon: of the whole training, in [1e-9, 1e6].
        delta: in (0, 1).

    Raises:
        ParameterError: for a value outside its range.
    """
    return float(mechanisms.analytic_sigma(epsilon, delta)) / math.sqrt(COUNTED)


@checks.bounded(epsilon=_EPSILON, delta=_DELTA, rng=checks.generator())
def find_ranges(
    x: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    categories: Sequence[Sequence[int]] = (),
    *,
    epsilon: float,
    delta: float,
    rng: np.random.Generator | None,
) -> Columns:
    """Ranges of columns where nobody published them, from a noisy count of each column's magnitudes.

    Each number falls into one bin of its column: 0, or a power of four with a sign. All counts together are one
    Gaussian release, for the part RANGED of the squared distance of (epsilon, delta); :func:`fit` with
    ``public_ranges=False`` spends the rest. A range holds 0, the fullest bin, and all bins whose counts stand out of
    the noise. Rare larger numbers are then moved to its end.

    Args:
        x: rows as they are, shape (n, d); NaN counts nowhere.
        low: shape (d,), as in :class:`Columns`, and NaN where nobody knows it.
        high: shape (d,), as in :class:`Columns`, and NaN where ``low`` is.
        categories: as in :class:`Columns`.
        epsilon: of the whole training, for one row added or removed, in [1e-9, 1e6]; infinite: no noise.
        delta: of the whole training, in (0, 1).
        rng: of the noise; None for :mod:`dplib.secure`, which a release needs.

    Raises:
        ParameterError: for rows that are not as wide as the ranges, or ranges that :class:`Columns` refuses.
    """
    x = checks.reals("x", x, 2)
    low, high = checks.reals("low", low, 1).copy(), checks.reals("high", high, 1).copy()
    unknown = np.isnan(low)
    if low.shape != high.shape or (unknown != np.isnan(high)).any():
        raise ParameterError("low and high must be known, or NaN, together: one end of a column is not found alone.")
    known = Columns(np.where(unknown, 0.0, low), np.where(unknown, 1.0, high), categories)
    if x.shape[1] != len(unknown):
        raise ParameterError(f"x has shape {x.shape}: it must have rows of {len(unknown)} columns.")
    if not unknown.any():
        return known
    counts, noise = magnitudes(x[:, unknown]), 0.0
    if not math.isinf(epsilon):  # a row is in one bin of each column
        noise = float(mechanisms.analytic_sigma(epsilon, delta)) / math.sqrt(RANGED) * math.sqrt(unknown.sum())
    generator = None if rng is None else torch.Generator().manual_seed(int(rng.integers(2**63)))
    counts = counts + noise * normal(counts.shape, generator)
    filled = counts > max(0.5, noise * float(stats.norm.isf(FALSE_ALARM / counts.size)))
    filled |= counts == counts.max(axis=1, keepdims=True)
    powers = 4.0 ** np.arange(LEAST_POWER, MOST_POWER + 1)
    ends = np.where(filled, np.concatenate([-powers[::-1], [0.0], powers]), 0.0)
    least, most = ends.min(axis=1), ends.max(axis=1)
    zeros = least == most  # nothing else
    low[unknown], high[unknown] = np.where(zeros, -1.0, least), np.where(zeros, 1.0, most)
    return Columns(low, high, categories)


def magnitudes(x: np.ndarray) -> np.ndarray:
    """How many numbers of each column are in each bin, (d, bins).

    The bins are, from the left, minus the powers of four from the largest down, 0, and the powers from the least up; a
    number is in the bin of the next power that is not smaller.

    Args:
        x: rows, shape (n, d); NaN counts nowhere.
    """
    middle = MOST_POWER - LEAST_POWER + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.ceil(np.log2(np.abs(x)) / 2)
    place = np.where(power < LEAST_POWER, 0, np.minimum(power, MOST_POWER) - LEAST_POWER + 1)
    place = np.where(np.isnan(x), np.nan, middle + np.sign(x) * place)
    edges = np.arange(2 * middle + 2) - 0.5
    return np.array([np.histogram(column[~np.isnan(column)], edges)[0] for column in place.T], float)


def most_moments(attributes: int) -> float:
    """The most that one row changes the sums of z and z^2 - 1/2 by: 1 + 1/4 for each attribute, squared.

    Args:
        attributes: of :class:`Columns`.
    """
    return math.sqrt(1.25 * attributes)


@checks.bounded(classes=checks.integer(2, 10**6), epsilon=_EPSILON, delta=_DELTA, rng=checks.generator(), **_HOW)
def fit(
    z: ArrayLike,
    y: ArrayLike,
    columns: Columns,
    *,
    classes: int,
    epsilon: float,
    delta: float,
    rng: np.random.Generator | None,
    settings: Settings = Settings(),
    public_n: bool = True,
    public_ranges: bool = True,
) -> Model:
    """Train logistic regression on a table with (epsilon, delta)-differential privacy for one row added or removed.

    Args:
        z: rows that :class:`Columns` made, shape (n, d), in [-1, 1].
        y: labels, shape (n,): whole numbers from 0 to ``classes`` - 1, whose number is public.
        columns: what is public of the columns.
        classes: how many, at least 2.
        epsilon: for one row added or removed, in [1e-9, 1e6]; infinite for a training that clips and adds no noise.
        delta: in (0, 1), well below 1/n.
        rng: of the noise; None for :mod:`dplib.secure`, which a release needs.
        settings: how to train.
        public_n: whether the number of rows may be known; else a noisy count takes its place.
        public_ranges: False where ``columns`` are those of :func:`find_ranges` at the same budget, which spent a part.

    Raises:
        ParameterError: for arguments that are not allowed, before anything is released.
    """
    z, y = checks.reals("z", z, 2), checks.indices("y", y, classes)
    _check(z, y, columns)
    generator = None if rng is None else torch.Generator().manual_seed(int(rng.integers(2**63)))
    n = float(len(z))
    if not public_n and not math.isinf(epsilon):
        n = max(1.0, n + count_noise(epsilon, delta) * float(normal((1,), generator)[0]))
    noise = noise_for(n, columns.attributes, epsilon, delta, settings, public_n, public_ranges)
    mean, scale = moments(z, columns, n, noise.moments, generator)
    x = scaled(z, mean, scale, most(columns))
    return Model(mean, scale, most(columns), *descend(x, y, classes, settings, n, noise.gradient, generator))


def moments(
    z: np.ndarray, columns: Columns, n: float, noise: float, generator: torch.Generator | None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale (d,) of the columns, from noisy sums, or from the public ranges alone.

    Args:
        z: rows that :class:`Columns` made, shape (n, d), in [-1, 1].
        columns: what is public of the columns.
        n: number of rows, or a noisy count of them.
        noise: in the unit of :func:`most_moments`; infinite: no row is looked at.
        generator: of the noise; None for :mod:`dplib.secure`.
    """
    d, length = z.shape[1], LENGTH / math.sqrt(columns.attributes)
    if math.isinf(noise):
        return np.zeros(d), length * np.where(columns.numeric, UNIFORM, 1.0)
    most = most_moments(columns.attributes)
    rows = np.hstack([z, z[:, columns.numeric] ** 2 - 0.5])
    total = mechanisms.clip_rows(rows, most).sum(0) + noise * most * normal((rows.shape[1],), generator)
    mean, spread = (total[:d] / n).clip(-1, 1), noise * most / n
    variance = total[d:] / n + 0.5 - mean[columns.numeric] ** 2
    least = min(max(4 * spread, 1e-3), 1 / 3)  # a smaller variance is within the noise
    scale = np.ones(d)
    scale[columns.numeric] = 1 / np.sqrt(variance.clip(least, 1.0))
    return mean, length * scale


def most(columns: Columns) -> float:
    """FAR deviations of a scaled number.

    Args:
        columns: what is public of the columns.
    """
    return FAR * LENGTH / math.sqrt(columns.attributes)


def scaled(z: np.ndarray, mean: np.ndarray, scale: np.ndarray, most: float) -> np.ndarray:
    """Rows (n, d) as :func:`descend` takes them.

    Args:
        z: rows that :class:`Columns` made, shape (n, d), in [-1, 1].
        mean: shape (d,), what goes to 0.
        scale: shape (d,), what a distance from there is multiplied by.
        most: numbers farther from the middle are moved there.
    """
    return ((z - mean) * scale).clip(-most, most)


def descend(
    x: np.ndarray,
    y: np.ndarray,
    classes: int,
    settings: Settings,
    n: float,
    noise_multiplier: float,
    generator: torch.Generator | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (d, classes) and bias (classes,): the mean of the second half of the iterates. A row whose gradient is
    not finite adds nothing to a step.

    Args:
        x: scaled rows, shape (n, d).
        y: labels, shape (n,), whole numbers from 0.
        classes: how many.
        settings: how to train.
        n: what sums are divided by: the number of rows, or a noisy count.
        noise_multiplier: standard deviation of the noise on a sum over the clipping norm, >= 0.
        generator: of the noise; None for :mod:`dplib.secure`.
    """
    x, target = np.float32(np.hstack([x, np.ones((len(x), 1))])), np.eye(classes, dtype=np.float32)[y]
    lengths = np.linalg.norm(x, axis=1)
    weights = np.zeros((x.shape[1], classes), np.float32)
    total = np.zeros(weights.shape)
    for step in range(settings.steps):
        scores = x @ weights
        scores = np.exp(scores - scores.max(1, keepdims=True))
        errors = scores / scores.sum(1, keepdims=True) - target
        norms = np.maximum(np.linalg.norm(errors, axis=1) * lengths, 1e-12)  # of each row's gradient
        errors *= np.minimum(1, settings.max_grad_norm / norms)[:, None]
        errors[~np.isfinite(norms)] = 0  # of a row whose scores overflow: nan would escape the clipping
        noise = noise_multiplier * settings.max_grad_norm * normal(weights.shape, generator)
        weights = weights - np.float32(settings.learning_rate / n) * np.float32(x.T @ errors + noise)
        if step >= settings.steps // 2:
            total += weights
    total /= settings.steps - settings.steps // 2
    return total[:-1], total[-1]


def normal(shape: tuple[int, ...], generator: torch.Generator | None) -> np.ndarray:
    """Independent standard normals; without a generator from :mod:`dplib.secure`.

    Args:
        shape: of the array.
        generator: of the noise; None for :mod:`dplib.secure`.
    """
    return examples.fill_normal(torch.empty(shape, dtype=torch.float64), 1.0, generator).numpy()


def _check(z: np.ndarray, y: np.ndarray, columns: Columns) -> None:
    if not isinstance(columns, Columns):
        raise ParameterError(f"columns = {checks.described(columns)} is not allowed: it must be Columns.")
    if z.shape[1] != len(columns.numeric) or not len(z) or not (np.abs(z) <= 1 + 1e-9).all():
        raise ParameterError(
            f"z must be rows of {len(columns.numeric)} numbers from -1 to 1, as columns(x) makes them; here is an "
            f"array of shape {z.shape}."
        )
    if len(y) != len(z):
        raise ParameterError(f"y has {len(y)} labels, and z {len(z)} rows: there must be a label for each row.")
