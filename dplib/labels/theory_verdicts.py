"""Rules for verdicts on the theory of label privacy (paper C, Section 6 and Appendices F, G), from measured values."""

from collections.abc import Mapping, Sequence

import numpy as np

from dplib import stats
from dplib.labels import bounds
from dplib.stats import Measured

Verdict = tuple[dict, str]
FLAT = 0.1  # of a logarithm: growth over all dimensions within 10% of that of the same method without privacy


def steeper(slopes: Mapping[str, Measured], allowed: Mapping[str, float]) -> list[str]:
    """Names of the slopes that lie beyond chance above what a bound allows."""
    return [name for name, one in slopes.items() if one.low > allowed[name]]


def rate_gaps() -> dict[str, float]:
    """How Theorem 9's rate, without its logarithm, over two lower bounds moves: exact logarithmic slopes.

    The lower bounds: the non-private D L / sqrt(n), and that of Lemma 15 behind Proposition 12 (delta = 0, so without
    its logarithm). Budgets 1/2, 1/4, ... make the number of copies in Lemma 15 a whole one.
    """
    n, epsilons, classes = 2.0**30, 2.0 ** -np.arange(1, 9), 2.0 ** np.arange(1, 6)

    def slopes(lower):
        upper = np.array([[_rate(k, e, n) / lower(e) for e in epsilons] for k in classes])
        over_k = np.polyfit(np.log(classes), np.log(upper[:, 0]), 1)[0]
        over_e = np.polyfit(-np.log(epsilons), np.log(upper[0]), 1)[0]
        return float(over_k), float(over_e)

    plain, private = slopes(lambda e: 1 / np.sqrt(n)), slopes(lambda e: bounds.lemma15_bound(n, e))
    return {
        "slope_in_K_of_the_gap_to_the_non-private_bound": plain[0],
        "slope_in_1/epsilon_of_the_gap_to_the_non-private_bound": plain[1],
        "slope_in_K_of_the_gap_to_Proposition_12": private[0],
        "slope_in_1/epsilon_of_the_gap_to_Proposition_12": private[1],
    }


def _rate(k: float, epsilon: float, n: float) -> float:
    return float(bounds.theorem9_bound(k, epsilon, n) / (2 + np.log(n)))


def tight_up_to(gaps: Mapping[str, float]) -> str:
    """C.s-tight-up-to: at most K/epsilon off the non-private bound and K/sqrt(epsilon) off Proposition 12."""
    most = dict(zip(gaps, (1, 1, 1, 0.5), strict=True))
    return "holds" if all(gaps[name] <= most[name] + 1e-6 for name in gaps) else "fails"


def tight_but_for_labels(gaps: Mapping[str, float]) -> str:
    """C.s-tight-polylog: tight up to polylogarithmic factors and K; with a change if a root of 1/epsilon is left, too.

    That root is the paper's own, in Appendix F.1: the sentence holds for budgets of constant order.
    """
    left = gaps["slope_in_1/epsilon_of_the_gap_to_Proposition_12"]
    return "holds" if left <= 1e-6 else "holds with change" if left <= 0.5 + 1e-6 else "fails"


def dimension_free(extra: Sequence[Measured], baseline: Measured) -> str:
    """C.s-dimension-free.

    Args:
        extra: growth of label-private methods over the dimension less that of their like without privacy, logarithms,
            paired. baseline: slope of whole-example DP.
    """
    if any(one.low > FLAT for one in extra):
        return "fails"
    level = all(one.low >= -FLAT and one.high <= FLAT for one in extra)
    return "holds" if level and baseline.low > 0.15 else "undecided"


def easier(at_bottom: Measured, at_top: Measured) -> str:
    """C.s-provably-easier, from the risk of whole-example DP over that of label privacy, logarithms, at both ends."""
    if at_bottom.low > 0 and at_top.low > 0:
        return "holds"
    if at_top.low > 0:
        return "holds with change"
    return "fails" if at_bottom.high < 0 and at_top.high < 0 else "undecided"


def without_width(counts: Sequence[int], seeds: int, beta: float) -> tuple[list[Measured], bool]:
    """Shares above a last term of Theorem 17 without its width, one for each n, and whether one beats beta by more
    than chance (Bonferroni over the n)."""
    shares = [stats.proportion_interval(count, seeds) for count in counts]
    strict = [stats.proportion_interval(count, seeds, 1 - 0.05 / len(counts)) for count in counts]
    return shares, any(one.low > beta for one in strict)


def theorem_17(exceeded: Measured, regret: float, beta: float, needs_width: bool) -> str:
    """C.thm17 and C.eq18: the bound with the width holds; if it is violated without, the width is the change."""
    if exceeded.low > beta or regret > 2 + 1e-9:
        return "fails"
    return "holds with change" if needs_width else "holds"
