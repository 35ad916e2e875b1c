"""Six private methods for tables, each by settings of its own: what chapter 13 compares.

All are (epsilon, delta)-DP for one row added or removed, with n public. Rows z are in [-1, 1], the middle of their
public ranges out (:class:`dplib.tables.Columns`). ``settings``, in order:

- "gradient": :func:`dplib.tables.fit`: [part of the moments, clipping norm, learning rate, steps].
- "fourier": the same on the columns and 200 random cosines of them: [frequency, learning rate, steps].
- "objective": objective perturbation with Gaussian noise, two classes: [part of the moments, part of epsilon that the
  curvature may take, least price]. "pure": with Gamma noise, pure epsilon, two classes: [price].
- "squares": least squares on noisy sums of squares, after Wang's AdaSSP (2018): [part of the squares, ridge in units of
  their noise].
- "means": noisy sums of each class, and the nearest mean: [part of the moments, weight of the distance].

Two methods that spend on moments first compose: "gradient", "fourier", "means" exactly, as one Gaussian release;
"objective" by adding epsilons and deltas, which costs it a little.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from scipy import optimize

from dplib import mechanisms, newton, objpert, tables
from dplib.tables import Columns, Settings

FEATURES = 200  # random cosines
Predict = Callable[[np.ndarray], np.ndarray]
Fit = Callable[..., Predict]


def gradient(z, y, columns: Columns, classes: int, epsilon: float, delta: float, rng, *settings: float) -> Predict:
    """The method of :mod:`dplib.tables`."""
    chosen = Settings(*settings[:3], int(settings[3]))
    model = tables.fit(z, y, columns, classes=classes, epsilon=epsilon, delta=delta, rng=rng, settings=chosen)
    return model.predict


def fourier(z, y, columns, classes, epsilon, delta, rng, frequency, learning_rate, steps) -> Predict:
    """Random cosines of the scaled columns (Rahimi and Recht 2007) beside them, of about the length of the row."""
    settings = Settings(0.1, 1.5, learning_rate, int(steps))
    noise, generator = tables.noise_for(len(z), columns.attributes, epsilon, delta, settings), _generator(rng)
    mean, scale = tables.moments(z, columns, len(z), noise.moments, generator)
    angles = frequency * rng.normal(size=(z.shape[1], FEATURES))
    starts = rng.uniform(0, 2 * np.pi, FEATURES)

    def features(z):
        x = tables.scaled(z, mean, scale, tables.most(columns))
        return np.hstack([x, tables.LENGTH * math.sqrt(2 / FEATURES) * np.cos(x @ angles + starts)])

    weights, bias = tables.descend(features(z), y, classes, settings, len(z), noise.gradient, generator)
    return lambda z: (features(z) @ weights + bias).argmax(1)


def means(z, y, columns, classes, epsilon, delta, rng, part, weight) -> Predict:
    """One noisy sum and count for each class; the class with the nearest mean, weighed against its frequency."""
    noise, generator = _one_release(len(z), columns, epsilon, delta, part), _generator(rng)
    mean, scale = tables.moments(z, columns, len(z), noise.moments, generator)
    rows = _short(z, columns, mean, scale)
    one_hot = np.eye(classes)[y]
    spread = noise.gradient * math.sqrt(2)  # a row is at most 1 long, its 1 in the count beside it
    sums = one_hot.T @ rows + spread * tables.normal((classes, z.shape[1]), generator)
    counts = np.maximum(one_hot.sum(0) + spread * tables.normal((classes,), generator), 1.0)
    middles = sums / counts[:, None]
    lengths = (middles**2).sum(1) - z.shape[1] * (spread / counts) ** 2  # without what the noise adds
    priors = np.log(counts / counts.sum())
    scale_up = weight * columns.attributes  # each column has a variance of about 1 / attributes
    return lambda z: (
        scale_up * (_short(z, columns, mean, scale) @ middles.T - lengths / 2) + priors
    ).argmax(1)  # fmt: skip


def squares(z, y, columns, classes, epsilon, delta, rng, part, ridge) -> Predict:
    """Least squares for labels of 0 and 1, from noisy X'X and X'Y; the ridge is in units of the noise's eigenvalues."""
    whole, generator = float(mechanisms.analytic_sigma(epsilon, delta)), _generator(rng)
    rows = _with_one(_short(z, columns, *tables.moments(z, columns, len(z), math.inf, generator)))
    d, target = rows.shape[1], np.eye(classes)[y] - 1 / classes
    spread = 2 * whole / math.sqrt(part)  # a row with its 1 has squared length 2: so long is its square
    upper = np.triu(tables.normal((d, d), generator))
    square = rows.T @ rows + spread * (upper + np.triu(upper, 1).T)
    product = rows.T @ target + math.sqrt(2) * whole / math.sqrt(1 - part) * tables.normal((d, classes), generator)
    values, vectors = np.linalg.eigh(square)
    values = np.maximum(values, 0) + ridge * spread * math.sqrt(d)
    weights = vectors @ ((vectors.T @ product) / values[:, None])
    empty = tables.moments(z, columns, len(z), math.inf, generator)
    return lambda z: (_with_one(_short(z, columns, *empty)) @ weights).argmax(1)


def objective(z, y, columns, classes, epsilon, delta, rng, part, curved, price) -> Predict:
    """The minimiser of the logistic loss plus price/2 |w|^2 plus a random linear term; see :func:`objective_noise`."""
    generator, noise, left = _generator(rng), math.inf, (epsilon, delta)
    if part:
        noise, left = float(mechanisms.analytic_sigma(part * epsilon, delta / 2)), ((1 - part) * epsilon, delta / 2)
        if noise * tables.most_moments(columns.attributes) / len(z) > tables.READABLE:
            noise, left = math.inf, (epsilon, delta)
    mean, scale = tables.moments(z, columns, len(z), noise, generator)
    rows = _with_one(_short(z, columns, mean, scale))
    price = max(price, 2.0 / (4 * math.expm1(curved * left[0])))
    spread = objective_noise(*left, math.log1p(2.0 / price / 4), math.sqrt(2))
    linear = spread * tables.normal((1, rows.shape[1]), generator) - y @ rows
    weights = newton.minimise(rows, linear, np.full(linear.shape, price))[0][0]
    return lambda z: (_with_one(_short(z, columns, mean, scale)) @ weights > 0).astype(int)


def objective_noise(epsilon: float, delta: float, curvature: float, length: float) -> float:
    """The least deviation of the linear term for rows of at most this length.

    Redberg, Koskela and Wang (2023), Theorem 3.1, for generalised linear models: beside log(1 + k/4) =
    ``curvature`` for the determinant, the loss of one row is at most that of a Gaussian moved by ``length``, with the
    absolute value of its noise: so delta is at most twice the Gaussian's where epsilon exceeds the loss at noise 0.
    """

    def excess(log_spread: float) -> float:
        spread = math.exp(log_spread)
        left = epsilon - curvature
        if left <= length**2 / (2 * spread**2):
            return 1.0
        return 2 * float(mechanisms.gaussian_delta(spread, length, left)) - delta

    return math.exp(optimize.brentq(excess, math.log(1e-3), math.log(1e7)))


def pure(z, y, columns, classes, epsilon, delta, rng, price) -> Predict:
    """:mod:`dplib.objpert` on the public ranges alone: pure epsilon, one row added or removed."""
    empty = tables.moments(z, columns, len(z), math.inf, None)
    fitted = objpert.fit(
        _short(z, columns, *empty), y, epsilon=epsilon, regularisation=price, rng=rng, neighbours="add_remove"
    )
    return lambda z: (fitted.decision(_short(z, columns, *empty))[0] > 0).astype(int)


METHODS: dict[str, Fit] = {
    "gradient": gradient, "fourier": fourier, "objective": objective, "pure": pure, "squares": squares, "means": means,
}  # fmt: skip
TWO_CLASSES = ("objective", "pure")


def _short(z: np.ndarray, columns: Columns, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Scaled rows, clipped to length 1."""
    return mechanisms.clip_rows(tables.scaled(z, mean, scale, tables.most(columns)) / tables.LENGTH)


def _with_one(rows: np.ndarray) -> np.ndarray:
    return np.hstack([rows, np.ones((len(rows), 1))])


def _one_release(n: int, columns: Columns, epsilon: float, delta: float, part: float) -> tables.Noise:
    """Noise of one sum, and of the moments."""
    noise = tables.noise_for(n, columns.attributes, epsilon, delta, Settings(part, steps=2))
    return tables.Noise(noise.gradient / math.sqrt(2), noise.moments)


def _generator(rng: np.random.Generator) -> torch.Generator:
    return torch.Generator().manual_seed(int(rng.integers(2**63)))
