"""Paper A's private Gaussian mixture: the Fisher classifier, its exact error, fast draws of it, and bounds.

Two classes N(mu_k, Sigma) with diagonal Sigma, ``n_per_class`` training points each, and independent noise of
standard deviation ``noise_sd`` on every coordinate of every training point. The released features then have variances
``variances + noise_sd**2``. A test point is "clean" (no noise, Definition 5 as printed) or "noisy" (released like the
training points, as in the paper's experiments).
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.stats import norm

from dplib import rdp
from dplib.checks import (
    HUGE,
    ParameterError,
    bounded,
    described,
    generator,
    integer,
    number,
    numbers,
    one_of,
    shaped,
    single,
)

_TABLE = 1 << 16  # quantiles of the variance estimate: as many as a 16-bit random number can name
_CHUNK = 1 << 16  # numbers held at once: small enough to stay in the processor's cache
_N_PER_CLASS = integer(6, 10**9)


@dataclass(frozen=True)
class Mixture:
    """A private Gaussian mixture (Definition 3) with a given noise.

    Args:
        mu1: mean of class 1, shape (p,).
        mu2: mean of class 2, shape (p,).
        variances: diagonal of Sigma, shape (p,), without the noise, >= 0: 0 for what only the noise makes vary.
        n_per_class: training points of each class, whole, in [6, 1e9] (below 6, the error's moments hardly exist).
        noise_sd: standard deviation of the noise on each coordinate, in [0, 1e50].

    Raises:
        ParameterError: for a value outside its range, shapes that differ, or a feature that is constant when released.
    """

    mu1: np.ndarray
    mu2: np.ndarray
    variances: np.ndarray
    n_per_class: int
    noise_sd: float = 0.0

    def __post_init__(self):
        for name, least in (("mu1", -HUGE), ("mu2", -HUGE), ("variances", 0.0)):
            object.__setattr__(self, name, shaped(name, getattr(self, name), "(p)", least))
        shapes = {v.shape for v in (self.mu1, self.mu2, self.variances)}
        if len(shapes) != 1:
            raise ParameterError(f"mu1, mu2, variances have shapes {sorted(shapes)}: they must be one shape (p,).")
        _N_PER_CLASS.check("n_per_class", self.n_per_class)
        number(0, 1e50).check("noise_sd", self.noise_sd)
        if not np.all(self.released > 0):
            raise ParameterError("variances + noise_sd**2 has an entry that is not above 0: drop constant features.")

    @property
    def p(self) -> int:
        return len(self.mu1)

    @property
    def n(self) -> int:
        """Training points of both classes together: the theorem's n."""
        return 2 * self.n_per_class

    @cached_property
    def alpha(self) -> np.ndarray:
        return self.mu1 - self.mu2

    @cached_property
    def released(self) -> np.ndarray:
        """Variances of the released features, shape (p,): Sigma + noise_sd^2 I."""
        return self.variances + self.noise_sd**2

    def test_variances(self, test: str) -> np.ndarray:
        """Variances of a test point, shape (p,).

        Args:
            test: "clean" or "noisy".

        Raises:
            ParameterError: for another test.
        """
        one_of("clean", "noisy").check("test", test)
        return {"clean": self.variances, "noisy": self.released}[test]


@bounded(
    p=integer(1, 10**7),
    n_per_class=_N_PER_CLASS,
    distance=number(0, 1e50),
    noise_sd=number(0, 1e50),
)
def two_classes(
    p: int, n_per_class: int, distance: float, informative: int | None = None, noise_sd: float = 0.0
) -> Mixture:
    """Unit variances and means +-distance/2 in some features, 0 in the others.

    Args:
        p: features, whole, in [1, 1e7].
        n_per_class: training points of each class, whole, in [6, 1e9].
        distance: of the class means in each informative feature, in [0, 1e50].
        informative: how many features, the first ones, tell the classes apart, whole, in [1, p]; None for all.
        noise_sd: standard deviation of the noise on each coordinate, in [0, 1e50].

    Raises:
        ParameterError: for a value outside its range.
    """
    if informative is not None:
        integer(1, p).check("informative", informative)
    mean = np.zeros(p)
    mean[:informative] = distance / 2
    return Mixture(mean, -mean, np.ones(p), n_per_class, noise_sd)


# ------------------------------------------------------------------------------------------ samples and their norms


@bounded(rng=generator())
def draw_samples(setting: Mixture, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Released training points of class 1 and class 2, each of shape (n_per_class, p).

    Args:
        setting: the two classes, and the noise.
        rng: draws all that is random.

    Raises:
        ParameterError: for an ``rng`` that is no generator.
    """
    return tuple(
        mu + np.sqrt(setting.released) * rng.standard_normal((setting.n_per_class, setting.p))
        for mu in (setting.mu1, setting.mu2)
    )


@bounded(order=integer(1, 100), replicates=integer(1, 10**6), rng=generator())
def max_norms(setting: Mixture, order: int, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """C_p of Definition 3 in fresh data sets, the largest norm of the n clean points, shape (replicates,).

    Args:
        setting: the two classes, and the noise.
        order: of the norm: 1 for L1, 2 for L2.
        replicates: data sets, whole, in [1, 1e6].
        rng: draws all that is random.

    Raises:
        ParameterError: for a value outside its range.
    """
    clean = replace(setting, noise_sd=0.0)

    def largest():
        return max(np.linalg.norm(x, order, axis=1).max() for x in draw_samples(clean, rng))

    return np.array([largest() for _ in range(replicates)])


# --------------------------------------------------------------------------------------------- the Fisher classifier


@dataclass(frozen=True)
class Fisher:
    """Definition 4, eq. (6): class 1 where (x - midpoint)' weights > 0.

    Args:
        weights: Sigma_hat^-1 alpha_hat, shape (p,).
        midpoint: mu_hat, shape (p,).
        variances: diagonal of Sigma_hat, shape (p,).
    """

    weights: np.ndarray  # Sigma_hat^-1 alpha_hat
    midpoint: np.ndarray  # mu_hat
    variances: np.ndarray  # diagonal of Sigma_hat

    def is_class1(self, x: np.ndarray) -> np.ndarray:
        """Which points are called class 1, bool (n,).

        Args:
            x: points, shape (n, p), finite.

        Raises:
            ParameterError: for other points.
        """
        return (shaped("x", x, "(n, p)", sizes=self.midpoint.shape) - self.midpoint) @ self.weights > 0

    def errors(self, setting: Mixture, test: str = "noisy") -> np.ndarray:
        """Exact error on a new point of class 1 and of class 2, given the training data: shape (2,), eq. (7).

        Args:
            setting: the two classes, and the noise.
            test: whether the new point is "clean" or "noisy".
        """
        spread = np.sqrt(np.sum(self.weights**2 * setting.test_variances(test)))
        return norm.cdf(-self._margins(setting) / spread)

    def printed_psi(self, setting: Mixture) -> np.ndarray:
        """Psi of eq. (8) as printed, with alpha_hat' Sigma_hat^-1 alpha_hat below, for class 1 and class 2: (2,).

        Args:
            setting: the two classes, and the noise.
        """
        return self._margins(setting) / np.sqrt(np.sum(self.weights**2 * self.variances))

    def _margins(self, setting: Mixture) -> np.ndarray:
        return np.array([(setting.mu1 - self.midpoint) @ self.weights, (self.midpoint - setting.mu2) @ self.weights])


def fit(x1: np.ndarray, x2: np.ndarray) -> Fisher:
    """Eqs. (5) and (6) from training points.

    Args:
        x1: points of class 1, shape (n1, p), finite, n1 at least 2.
        x2: points of class 2, shape (n2, p), finite, n2 at least 2.

    Raises:
        ParameterError: for other points, or where a feature is constant in both classes.
    """
    x1 = shaped("x1", x1, "(points, p)")
    x2 = shaped("x2", x2, "(points, p)", sizes=x1.shape[1:])
    for name, x in (("x1", x1), ("x2", x2)):
        if len(x) < 2:
            raise ParameterError(f"{name} = {described(x)} is not allowed: a variance takes at least 2 points.")
    mean1, mean2 = x1.mean(axis=0), x2.mean(axis=0)
    variances = (x1.var(axis=0, ddof=1) + x2.var(axis=0, ddof=1)) / 2
    # By their range as well: of equal numbers, the mean may be rounded, and the variance a little above 0.
    vary = (variances > 0) & ((np.ptp(x1, axis=0) > 0) | (np.ptp(x2, axis=0) > 0))
    if not vary.all():
        raise ParameterError(f"feature {np.argmin(vary)} is constant in the training data: drop it or add noise.")
    return Fisher((mean1 - mean2) / variances, (mean1 + mean2) / 2, variances)


# ------------------------------------------------------------------------------------------------ draws of the error


@dataclass(frozen=True)
class Draws:
    """What decides the error of the classifier in each of R training sets.

    Args:
        signal: alpha' w / 2, with w = Sigma_hat^-1 alpha_hat, shape (R,).
        shift: (mu_hat - (mu1 + mu2)/2)' w, shape (R,).
        noisy: the variance of w'x for a noisy test point, shape (R,).
        clean: the same for a clean test point, shape (R,).
        printed: what eq. (8) has in its place, shape (R,).
    """

    signal: np.ndarray
    shift: np.ndarray
    noisy: np.ndarray
    clean: np.ndarray
    printed: np.ndarray

    def psi(self, below: str = "noisy") -> np.ndarray:
        """Psi of class 1 and class 2, shape (2, R).

        Args:
            below: under the root: "noisy", "clean" or "printed".
        """
        return np.stack([self.signal - self.shift, self.signal + self.shift]) / np.sqrt(getattr(self, below))

    def errors(self, below: str = "noisy") -> np.ndarray:
        """Error of class 1 and class 2 given the training data, shape (2, R): 1 - Phi(psi).

        Args:
            below: as in :meth:`psi`.
        """
        return norm.cdf(-self.psi(below))


@bounded(replicates=integer(1, 10**6), rng=generator())
def draw(setting: Mixture, replicates: int, rng: np.random.Generator) -> Draws:
    """Errors of many training sets without drawing the training sets.

    Per feature the error needs the difference of the class means (one normal) and the pooled variance (a gamma with
    shape n_per_class - 1, independent of it). Their midpoint is independent of both, and enters through its product
    with w alone, which given w is normal with variance w' V w / n: one normal for the whole training set. The gamma is
    read off a table of 65,536 quantiles: E(1/S^2) and E(1/S^4) are off by less than 1e-4 for n_per_class of 10 or more,
    by 1e-3 for 6.

    Args:
        setting: the two classes, and the noise.
        replicates: training sets, whole, in [1, 1e6].
        rng: draws all that is random.

    Raises:
        ParameterError: for a value outside its range.
    """
    distance = setting.alpha / np.sqrt(setting.released)
    share = setting.variances / setting.released
    uniform_share = np.ptp(share) == 0  # then the clean variance is a multiple of the noisy one
    signal, noisy, clean, printed = np.empty((4, replicates))
    for part, t, w in _blocks(setting, replicates, rng):
        t += distance  # now alpha_hat / sd
        w *= t  # now w * sd
        signal[part] = w @ distance / 2
        noisy[part] = np.einsum("ij,ij->i", w, w)
        printed[part] = np.einsum("ij,ij->i", w, t)
        clean[part] = share[0] * noisy[part] if uniform_share else np.einsum("ij,ij,j->i", w, w, share)
    shift = np.sqrt(noisy / setting.n) * rng.standard_normal(replicates)
    return Draws(signal, shift, noisy, clean, printed)


@bounded(replicates=integer(1, 10**6), rng=generator())
def draw_mirrored(setting: Mixture, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """Psi of a noisy test point without the shift, for alpha_hat and its mirror image about alpha: shape (2, R).

    Where the signal is weak, what is random in it cancels in the mean of the two: a mean of 1e-8 is measured beside a
    spread of 1e-3. The replicates, not the two of a pair, are independent.

    Args:
        setting: the two classes, and the noise.
        replicates: training sets, whole, in [1, 1e6].
        rng: draws all that is random.

    Raises:
        ParameterError: for a value outside its range.
    """
    distance = setting.alpha / np.sqrt(setting.released)
    psi = np.empty((2, replicates))
    for part, z, g in _blocks(setting, replicates, rng):
        for i, w in enumerate([g * (distance + z), g * (distance - z)]):
            psi[i, part] = w @ distance / 2 / np.sqrt(np.einsum("ij,ij->i", w, w))
    return psi


def _blocks(setting: Mixture, replicates: int, rng: np.random.Generator):
    """Training sets in blocks: their places, the error of alpha_hat over sigma, and sigma^2 / S^2, both (block, p)."""
    table, rows = _inverse_variances(setting.n_per_class), max(1, _CHUNK // setting.p)
    for start in range(0, replicates, rows):
        part = slice(start, min(start + rows, replicates))
        shape = (part.stop - start, setting.p)
        z = rng.standard_normal(shape)
        z *= np.sqrt(2 / setting.n_per_class)
        yield part, z, table[rng.integers(0, _TABLE, shape, dtype=np.uint16)]


@bounded(n=single(numbers(1, 1e18)))
def advantage(psi: np.ndarray, n: int) -> np.ndarray:
    """1/2 minus the error, averaged over both classes and over the shift.

    Psi of a class is the given psi -+ a normal of variance 1/n, whatever p is, and the mean of Phi(-psi -+ N(0, 1/n))
    is Phi(-psi / sqrt(1 + 1/n)).

    Args:
        psi: as :func:`draw_mirrored` gives it, any shape, which the result has.
        n: training points of both classes together, in [1, 1e18].

    Raises:
        ParameterError: for a value outside its range.
    """
    return special.erf(shaped("psi", psi, "(...)") / np.sqrt(2 * (1 + 1 / n))) / 2


@cache
def _inverse_variances(n_per_class: int) -> np.ndarray:
    """sigma^2 / S^2 at the mid-points of 65,536 equally likely bins; S^2 pools two samples of n_per_class."""
    shape = n_per_class - 1
    return shape / special.gammaincinv(shape, (np.arange(_TABLE) + 0.5) / _TABLE)


# ------------------------------------------------------------------------------------------------------------ bounds


def gamma(setting: Mixture) -> float:
    """Eq. (10): squared Mahalanobis distance of the class means in the released data.

    Args:
        setting: the two classes, and the noise.
    """
    return float(np.sum(setting.alpha**2 / setting.released))


@bounded(gamma=numbers(0), p=numbers(0, 1e18), n=numbers(1, 1e18))
def theorem6_psi(gamma: ArrayLike, p: ArrayLike, n: ArrayLike) -> float | np.ndarray:
    """Argument of Phi in Theorem 6, eq. (9), with both o_p(1) set to 0; 0 where gamma is 0. Arguments broadcast.

    Args:
        gamma: eq. (10): squared Mahalanobis distance of the class means, >= 0.
        p: features, >= 0.
        n: training points of both classes together, in [1, 1e18].

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    gamma, p, n = rdp.arrays(gamma=gamma, p=p, n=n)
    below = 2 * np.sqrt(4 * p / n + gamma)
    return np.divide(gamma, below, out=np.zeros(gamma.shape), where=below > 0)[()]


@bounded(gamma=numbers(0), p=numbers(0, 1e18), n=numbers(1, 1e18))
def theorem6(gamma: ArrayLike, p: ArrayLike, n: ArrayLike) -> float | np.ndarray:
    """The bound of Theorem 6 on the error, eq. (9), with both o_p(1) set to 0; arguments broadcast.

    Args:
        gamma: eq. (10): squared Mahalanobis distance of the class means, >= 0.
        p: features, >= 0.
        n: training points of both classes together, in [1, 1e18].

    Raises:
        ParameterError: for a value outside its range, or shapes that do not fit.
    """
    return norm.cdf(-theorem6_psi(gamma, p, n))


@bounded(n_per_class=_N_PER_CLASS)
def finite_n(n_per_class: int) -> float:
    """What an estimated Sigma costs: Psi is sqrt((nu - 4)/(nu - 2)) times that of Theorem 6, nu = 2 n_per_class - 2.

    From E(1/S^2) and E(1/S^4) of a pooled variance with nu degrees of freedom. For Psi as printed in eq. (8) the factor
    is sqrt(nu/(nu - 2)) instead, above 1.

    Args:
        n_per_class: training points of each class, whole, in [6, 1e9].

    Raises:
        ParameterError: for a value outside its range.
    """
    nu = 2 * n_per_class - 2
    return np.sqrt((nu - 4) / (nu - 2))


def predicted_error(setting: Mixture, test: str = "noisy") -> float:
    """Mean error over training sets and classes, to first order: Theorem 6 with Sigma_hat and mu_hat estimated.

    For a clean test point the variance of w'x is that of its own features.

    Args:
        setting: the two classes, and the noise.
        test: whether the test point is "clean" or "noisy".

    Raises:
        ParameterError: for another test.
    """
    g, v = gamma(setting), setting.released
    weights2 = setting.alpha**2 / v + 2 / setting.n_per_class  # mean of alpha_hat^2 / v, feature by feature
    variance = np.sum(weights2 * setting.test_variances(test) / v)
    pull = finite_n(setting.n_per_class) * g / 2
    if variance == 0:  # clean test points that do not vary: only the shift is random, the limit of what follows
        return float(norm.cdf(-pull / np.sqrt(np.sum(weights2) / setting.n)))
    psi = pull / np.sqrt(variance)
    shift = np.sum(weights2) / variance / setting.n  # variance of the shift in units of psi
    return float(norm.cdf(-psi / np.sqrt(1 + shift)))


@bounded(tau=number(1e-50, 1e50))
def gamma_chain(setting: Mixture, x1: np.ndarray, x2: np.ndarray, tau: float) -> np.ndarray:
    """The five terms of eq. (11) in one data set, from Gamma to 1/tau^2, shape (5,).

    Args:
        setting: its noise_sd is not used.
        x1: clean points of class 1, shape (n, p).
        x2: clean points of class 2, shape (n, p).
        tau: ln(1/delta)/epsilon, in [1e-50, 1e50].

    Raises:
        ParameterError: for a value outside its range.
    """
    x1, x2 = (shaped(name, x, "(points, p)", sizes=(setting.p,)) for name, x in (("x1", x1), ("x2", x2)))
    c_p = max(np.abs(x).sum(axis=1).max() for x in (x1, x2))
    farthest = max(np.abs(x2 - point).sum(axis=1).max() for point in x1)
    squares, l1 = np.sum(setting.alpha**2), np.sum(np.abs(setting.alpha))
    noise = (2 * c_p * tau) ** 2
    return np.array(
        [
            np.sum(setting.alpha**2 / (setting.variances + noise)),
            squares / noise,
            squares / (tau * farthest) ** 2,
            squares / (tau * l1) ** 2,
            1 / tau**2,
        ]
    )
