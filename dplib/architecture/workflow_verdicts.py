"""How measured accuracies and gaps stand to printed ones, for chapters whose rows have no rules yet."""

from collections.abc import Sequence

from dplib.stats import Comparison, Measured

MARGIN = 1.0  # points around a printed accuracy in which our interval agrees: batch and epochs are not the paper's


def agreement(measured: Measured, published: float) -> str:
    """How a measured accuracy stands to a printed one: "agrees", "higher", "lower" or "unclear".

    It agrees where the whole interval lies within the margin of the printed value, and is higher or lower where all of
    it lies outside. Else the runs are too few to say: noise is no agreement.
    """
    if published - MARGIN <= measured.low and measured.high <= published + MARGIN:
        return "agrees"
    if measured.low > published + MARGIN:
        return "higher"
    return "lower" if measured.high < published - MARGIN else "unclear"


def backed(comparison: Comparison, published: float) -> int:
    """1 where the measured gap has the printed sign beyond chance, -1 where it has the other one, 0 otherwise."""
    sign = 1 if comparison.difference.low > 0 else -1 if comparison.difference.high < 0 else 0
    return sign if published > 0 else -sign


def cells_verdict(
    says: Sequence[str], gaps: Sequence[int] = (), stand_in: bool = False, *, settled: bool = True
) -> str:
    """Verdict of a table's row from :func:`agreement` of its accuracies and :func:`backed` of its gaps.

    Measured *higher* in the paper's own setting (``settled``) says that the printed value is not what the network can
    do there; with another batch and length it says nothing. *Lower* may be our short training. On a stand-in only the
    signs of gaps compare.
    """
    if stand_in:
        return "holds with change" if gaps and all(g == 1 for g in gaps) else "undecided"
    if -1 in gaps:
        return "fails"
    if "higher" in says and settled:
        return "not reproducible as stated"
    return "holds" if set(says) == {"agrees"} and all(g == 1 for g in gaps) else "undecided"
