"""The rules by which the chapter on what drives the cost reaches its verdicts, where one comparison does not decide.

Several comparisons behind one verdict are corrected by Holm's method where a single one of them would decide it.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dplib import stats
from dplib.architecture.cost_tables import explained, sign, signs_verdict, slopes
from dplib.stats import Comparison, Measured, holm

_WORST = ("fails", "not reproducible as stated", "undecided", "holds with change")


def all_of(verdicts: Iterable[str]) -> str:
    """Of a claim that says several things at once: it holds where all do; else the gravest of its parts' verdicts."""
    found = set(verdicts)
    return next((one for one in _WORST if one in found), "holds")


def holm_signs(comparisons: Iterable[Comparison]) -> list[int]:
    """1 or -1 for each difference that has that sign at 5% after Holm's correction over all of them, else 0."""
    some = list(comparisons)
    if not some:
        return []
    clear = holm(np.array([one.p_value for one in some])) < 0.05
    return [sign(one) if yes else 0 for one, yes in zip(some, clear, strict=True)]


def holm_verdict(comparisons: Iterable[Comparison], expected: int = 1) -> str:
    """:func:`dplib.architecture.cost_tables.order_verdict` of signs that are corrected by Holm's method."""
    return signs_verdict([expected * s for s in holm_signs(comparisons)])


def split(comparisons: Mapping[str, Comparison]) -> tuple[list[str], list[str]]:
    """Names of the differences above 0, and of those below it, both after Holm's correction."""
    signs = dict(zip(comparisons, holm_signs(comparisons.values()), strict=True))
    return [name for name, s in signs.items() if s > 0], [name for name, s in signs.items() if s < 0]


def universal(comparisons: Mapping[str, Comparison]) -> str:
    """Of a claim that every difference is above 0: a single one below it refutes it, one that is open leaves it so."""
    won, lost = split(comparisons)
    return "fails" if lost else "holds" if len(won) == len(comparisons) else "undecided"


def factors(interactions: Mapping[str, Comparison]) -> str:
    """Of "it can appear in every step of a workflow". Each difference is the effect of a choice under DP-SGD minus the
    same choice's effect without privacy: where some are above 0 the claim is true of these steps."""
    won, lost = split(interactions)
    if won:
        return "holds" if len(won) == len(interactions) else "holds with change"
    return "fails" if lost else "undecided"


def unequal_costs(drops: Mapping[str, Comparison], usable: Iterable[str]) -> tuple[str, list[str]]:
    """Of "the number of parameters is not the only factor": the verdict, and the pairs with equal numbers of parameters
    whose costs of privacy differ. Only ``usable`` pairs count: where SGD itself is behind DP-SGD, the cost of privacy
    is one of short training."""
    more, less = split({name: drops[name] for name in usable})
    found = [*more, *less]
    return "holds" if found else "undecided", found


def trained_count(
    costs: np.ndarray, total: Sequence[int], trained: Sequence[int], rng: np.random.Generator, resamples: int = 2000
) -> tuple[str, Measured | None]:
    """Of "the number of trained parameters explains the cost better than that of all": the verdict, and by how much
    more of the variance it explains (None where hardly a network has two different counts: no data could tell).

    Args:
        costs: cost of privacy, (seeds, networks). total, trained: parameters of each network.
        rng: of the bootstrap over the seeds.
    """
    if len(total) < 5 or sum(a != b for a, b in zip(total, trained, strict=True)) < 2:
        return "undecided", None

    def gap(rows: np.ndarray) -> float:
        mean = costs[rows].mean(axis=0)
        return explained(mean, trained) - explained(mean, total)

    drawn = rng.integers(len(costs), size=(resamples, len(costs)))
    low, high = np.quantile([gap(rows) for rows in drawn], [0.025, 0.975])
    found = Measured(gap(np.arange(len(costs))), float(low), float(high), len(costs))
    rises = stats.mean_interval(slopes(trained, costs)).low > 0
    return "holds" if low > 0 and rises else "fails" if high < 0 else "undecided", found


def extractor(ratios: Iterable[Measured], gain: Comparison) -> str:
    """Of "frozen layers win since each trained weight has more signal to its noise": the reason (the ratios above 1),
    and what it is the reason of. Where frozen layers do not win there is nothing to explain."""
    some = list(ratios)
    if max(one.high for one in some) < 1:
        return "fails"
    return "holds" if min(one.low for one in some) > 1 and sign(gain) > 0 else "undecided"


def beats_sgd(lead: Comparison, noise: Comparison, printed: float) -> str:
    """Of "at a huge ε DP-SGD beats SGD, by clipping", from its lead over tuned SGD and over clipped SGD. It fails where
    the lead is less than half of the printed one beyond chance."""
    if sign(lead) > 0:
        return "holds" if sign(noise) == 0 else "holds with change"
    return "fails" if lead.difference.high < printed / 2 else "undecided"


def clipping_rates(plain: float, clipped: float, private: float, low: float, high: float) -> str:
    """Of "at large ε DP-SGD needs rates from ``low`` to ``high``, because of clipping", from the best rates of plain,
    clipped and private SGD: clipping is the reason where clipped SGD needs a rate as large."""
    if private <= plain:
        return "fails"
    return "holds" if low <= private <= high and 0.5 <= clipped / private <= 2 else "holds with change"


def crossover_range(inside: bool, small: Iterable[Comparison]) -> str:
    """Of "A is better for small ε, with a crossover in this range", from whether the crossover lies inside and from the
    differences A minus B at the small ε."""
    order = holm_verdict(small)
    return order if not order.startswith("holds") else "holds" if inside else "holds with change"


def slow_by_keeping(keeping: Sequence[float], without: Sequence[float], factor: float = 10) -> str:
    """Of "DP-SGD is ``factor`` times slower or more", from the slowdowns of an implementation that keeps the gradient
    of every example and of one that does not: with a change where only some are. It never fails: the paper's own
    implementation is neither."""
    if min(*keeping, *without) >= factor:
        return "holds"
    return "holds with change" if max(*keeping, *without) >= factor else "undecided"
