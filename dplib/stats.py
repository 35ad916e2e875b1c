"""Intervals and paired tests: what stands beside every measured number."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy  # which loads its parts, that take two seconds, when one is asked

from dplib.checks import ParameterError, bounded, fraction, integer, number, numbers, reals, shaped, single

# A place (fill, alignment, width) for the whole text, and how numbers are written in it.
_FORMAT = re.compile(
    r"(?P<place>(?:.?[<>^])?)(?P<sign>[+\- ]?)z?(?P<width>(?:[1-9]\d*)?)(?P<number>,?(?:\.\d+)?[eEfFgG%]?)"
)


@dataclass(frozen=True)
class Measured:
    """A measured value with its 95% confidence interval and the number of independent runs behind it.

    Args:
        value: in the unit of what was measured.
        low: lower end of the interval; None where there is none.
        high: upper end of the interval; None where there is none.
        n: independent runs, or trials of a share; None for what has none.
        freedom: degrees of freedom of Student's t behind the interval; None for n - 1.
        share: whether it is a share of n trials, whose interval is exact at every level, and not Student's.
    """

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    freedom: float | None = None
    share: bool = False

    def __str__(self) -> str:
        if self.low is None or self.high is None or self.low == self.high:  # all runs alike: no width to show
            return f"{self.value:.4g}"
        digits = _digits(self.low, self.high)
        return f"{self.value:z.{digits}f} [{self.low:z.{digits}f}, {self.high:z.{digits}f}]"

    def within(self, least: float, most: float) -> "Measured":
        """The same, its interval cut to what can be: of two runs Student's interval for a share may reach beyond 1.

        Args:
            least: the smallest that the quantity can be.
            most: the largest that it can be.
        """
        if self.low is None or self.high is None:
            return self
        low, high = (min(max(end, least), most) for end in (self.low, self.high))
        return replace(self, low=low, high=high)

    def __format__(self, spec: str) -> str:
        """``f"{measured:.1f}"``: "95.1 ± 0.4", for a cell of a table; "–" where nothing was measured.

        What follows ± is the longer arm of the interval; an interval that has no width in ``spec`` is left out. A sign
        is the value's; fill, alignment and width place the whole text, to the right where nothing else is said.

        Args:
            spec: as of a float, without zeros in front and "="; empty for the interval itself.

        Raises:
            ParameterError: for another one.
        """
        if not spec:
            return str(self)
        given = _FORMAT.fullmatch(spec)
        if not given:
            raise ParameterError(
                f"format {spec!r} is not allowed: it must be as of a float, such as .1f, +.2% or >12.3g."
            )
        text = self._in_figures(given["sign"], given["number"])
        return format(text, (given["place"] or ">") + given["width"])

    def _in_figures(self, sign: str, number: str) -> str:
        if np.isnan(self.value):
            return "–"
        value = format(self.value, f"{sign}z{number}")
        if self.low is None or self.high is None:
            return value
        arm = format(max(self.high - self.value, self.value - self.low), number)
        return f"{value} ± {arm}" if float(arm.replace(",", "").rstrip("%")) else value


@bounded(level=fraction())
def mean_interval(values: np.ndarray, level: float = 0.95) -> Measured:
    """Mean of independent runs with Student's t interval.

    Args:
        values: a value of each independent run, shape (n,), n >= 2, finite.
        level: of the interval, in (0, 1).

    Raises:
        ParameterError: for fewer than two finite values, or a level outside its range.
    """
    values = _runs(values)
    return _around_mean(values, 1 / len(values), level)


@bounded(test_share=number(1e-9, 1e9), level=fraction())
def splits_interval(values: np.ndarray, test_share: float, level: float = 0.95) -> Measured:
    """Mean over random splits of one table, (splits,), with an interval for *records like these*.

    Splits of one table share records, so that their mean says less of further records than of the table itself, whose
    interval is :func:`mean_interval`: variance S^2 (1/J + test/train) for J splits (Nadeau and Bengio 2003, eq. (9)).

    Args:
        values: a value of each split, shape (n,), n >= 2.
        test_share: test records over training records of a split, in [1e-9, 1e9].
        level: of the interval, in (0, 1).

    Raises:
        ParameterError: for fewer than two finite values, or a value outside its range.
    """
    values = _runs(values)
    return _around_mean(values, 1 / len(values) + test_share, level)


def _around_mean(values: np.ndarray, share: float, level: float) -> Measured:
    """Student's t interval for the mean of values, (n,); its variance is this share of a value's."""
    n, mean = len(values), values.mean()
    half = scipy.stats.t.ppf((1 + level) / 2, n - 1) * values.std(ddof=1) * np.sqrt(share)
    return Measured(float(mean), float(mean - half), float(mean + half), n)


@bounded(successes=single(numbers(0, 1e15, whole=True)), trials=single(numbers(1, 1e15, whole=True)), level=fraction())
def proportion_interval(successes: int, trials: int, level: float = 0.95) -> Measured:
    """Share of successes with its exact (Clopper-Pearson) interval; n is the number of trials.

    Args:
        successes: how many of the trials, whole, at least 0.
        trials: how many there were, whole, in [1, 1e15].
        level: of the interval, in (0, 1).

    Raises:
        ParameterError: for a value outside its range, or more successes than trials.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise ParameterError(f"successes = {successes} of trials = {trials} is not a share: 0 <= successes <= trials.")
    interval = scipy.stats.binomtest(int(successes), int(trials)).proportion_ci(level, method="exact")
    return Measured(successes / trials, float(interval.low), float(interval.high), int(trials), share=True)


@dataclass(frozen=True)
class Comparison:
    """A paired comparison of two methods.

    Args:
        difference: the mean of a - b, with its 95% interval.
        p_value: two-sided, of no difference, in [0, 1].
    """

    difference: Measured
    p_value: float

    def __str__(self) -> str:
        p = "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.2g}"
        return f"{self.difference} ({p}, paired, n = {self.difference.n})"


def paired(a: np.ndarray, b: np.ndarray) -> Comparison:
    """Paired t-test of a - b, run i of both made with the same seed.

    When every difference is the same the p-value is 0 (or 1 where that difference is 0): nothing is left to chance.

    Args:
        a: a value of each run of one method, shape (n,), n >= 2, finite.
        b: of the other, shape (n,).

    Raises:
        ParameterError: for fewer than two finite values, or two numbers of runs.
    """
    a, b = _runs(a), _runs(b)
    if a.shape != b.shape:
        raise ParameterError(f"paired runs differ in number: {len(a)} and {len(b)}.")
    difference = a - b
    if np.ptp(difference) == 0:
        return Comparison(mean_interval(difference), 1.0 if difference[0] == 0 else 0.0)
    return Comparison(mean_interval(difference), float(scipy.stats.ttest_rel(a, b).pvalue))


def independent(a: np.ndarray, b: np.ndarray) -> Measured:
    """Mean of a less mean of b with Welch's 95% interval, for runs that share nothing; n is the smaller number of them,
    ``freedom`` Welch's.

    Args:
        a: a value of each run of one method, shape (n,), n >= 2, finite.
        b: of the other, shape (m,), m >= 2, finite.

    Raises:
        ParameterError: for fewer than two finite values of either.
    """
    a, b = _runs(a), _runs(b)
    difference, n = float(a.mean() - b.mean()), min(len(a), len(b))
    if np.ptp(a) == np.ptp(b) == 0:
        return Measured(difference, difference, difference, n)
    test = scipy.stats.ttest_ind(a, b, equal_var=False)
    low, high = test.confidence_interval()
    return Measured(difference, float(low), float(high), n, freedom=float(test.df))


def holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's adjusted p-values (n,): below 0.05 in all, they are wrong anywhere with probability at most 5%.

    Args:
        p_values: of several tests, shape (n,), each in [0, 1].

    Raises:
        ParameterError: for a value outside its range.
    """
    p_values = shaped("p_values", p_values, "(n)", 0, 1)
    order = np.argsort(p_values)
    adjusted = np.empty_like(p_values)
    steps = len(p_values) - np.arange(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps * p_values[order]))
    return adjusted


@bounded(n=integer(2, 10**9), power=number(0.05, 0.999999), level=number(0.01, 1 - 1e-9))
def visible_difference(n: int, power: float = 0.8, level: float = 0.95) -> float:
    """The least true difference, in standard deviations of the (normal) paired differences, that a paired t-test over n
    seeds finds with probability ``power``: the mean is more than t times its own standard error from 0.

    Args:
        n: seeds, whole, in [2, 1e9].
        power: chance of finding it, in [0.05, 0.999999].
        level: 1 less the two-sided error of the test, in [0.01, 1 - 1e-9].

    Returns:
        0 where ``power`` is at most the error of the test, which finds as much without any difference.

    Raises:
        ParameterError: for a value outside its range.
    """
    t, scale = scipy.stats.t.ppf((1 + level) / 2, n - 1), _scales(n)

    def chance(difference):
        shift = difference * n**0.5
        return 1 - (scipy.stats.norm.cdf(t * scale - shift) - scipy.stats.norm.cdf(-t * scale - shift)).mean()

    return _least(chance, power)


@bounded(n=integer(2, 10**9), power=number(0.01, 0.999999), level=number(0.01, 1 - 1e-9))
def provable_margin(n: int, power: float = 0.8, level: float = 0.95) -> float:
    """The least margin, in the same unit, within which n seeds show two equal methods to be equivalent with probability
    ``power``: two one-sided tests at 1 - level each, the mean within the margin by t standard errors.

    Args:
        n: seeds, whole, in [2, 1e9].
        power: chance of showing it, in [0.01, 0.999999].
        level: 1 less the error of each of the two tests, in [0.01, 1 - 1e-9].

    Returns:
        0 where tests of such an error show as much within no margin.

    Raises:
        ParameterError: for a value outside its range.
    """
    t, scale = scipy.stats.t.ppf(level, n - 1), _scales(n)

    def shown(margin):
        return np.clip(2 * scipy.stats.norm.cdf(margin * n**0.5 - t * scale) - 1, 0, None).mean()

    return _least(shown, power)


def _least(chance: Callable[[float], float], power: float) -> float:
    """Where a chance that rises from 0 on to 1 reaches a power; 0 where it starts there."""
    if chance(0.0) >= power:
        return 0.0
    low, high = 0.0, 100.0
    while chance(high) < power:
        low, high = high, 2 * high
    return float(scipy.optimize.brentq(lambda at: chance(at) - power, low, high))


def _scales(n, points=4000):
    """Midpoint quantiles of an estimated standard deviation over the true one, of n normal runs."""
    return np.sqrt(scipy.stats.chi2.ppf((np.arange(points) + 0.5) / points, n - 1) / (n - 1))


def _runs(values: np.ndarray) -> np.ndarray:
    values = reals("runs", values)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise ParameterError(f"runs of shape {values.shape} cannot be averaged: two or more finite numbers are needed.")
    return values


def _digits(low: float, high: float) -> int:
    """Decimals, 6 at most, that show two figures of an interval's width; two more where an end's sign needs them."""
    if high <= low:
        return 4
    digits = int(np.clip(1 - np.floor(np.log10(high - low)), 0, 6))
    signed = (more for more in range(digits, min(digits + 3, 7)) if all(round(end, more) for end in (low, high) if end))
    return next(signed, digits)
