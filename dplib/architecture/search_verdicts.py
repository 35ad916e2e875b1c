"""Verdicts of the chapter on architecture search: rules from measured searches and proven budgets to a verdict."""

from collections.abc import Mapping, Sequence

import numpy as np

from dplib.stats import Comparison, Measured

MARGIN = 1.0  # points within which accuracies count as almost the same: Table VIII's own spread is 0.6


def alike(differences: Sequence[Measured]) -> bool:
    """Whether every difference of accuracies, with its interval, lies within :data:`MARGIN` points."""
    return all(d.low >= -MARGIN and d.high <= MARGIN for d in differences)


def sign_verdict(comparison: Comparison) -> str:
    """For a claim that a difference is positive: holds or fails beyond chance, else undecided."""
    if comparison.difference.low > 0:
        return "holds"
    return "fails" if comparison.difference.high < 0 else "undecided"


def race_verdict(comparison: Comparison, room: Comparison) -> str:
    """For a claim that one search beats another on a table of trainings: :func:`sign_verdict`, given room to win.

    Args:
        room: the network of the table's best validation accuracy less what the other search finds, in test accuracy.
    """
    return sign_verdict(comparison) if room.difference.low > 0 else "undecided"


def accuracy_verdict(differences: Sequence[Measured]) -> str:
    """For "almost the same accuracy": undecided where intervals are too wide for it without contradicting it."""
    if any(d.low > MARGIN or d.high < -MARGIN for d in differences):
        return "fails"
    return "holds" if alike(differences) else "undecided"


def comparison_verdict(accuracy: str, hours: Mapping[str, float], budgets: Sequence[str]) -> str:
    """Table VIII's story: accuracies almost the same, PAAS cheaper than MGRS cheaper than RS, and three budgets.

    Args:
        accuracy: :func:`accuracy_verdict`. hours: of each search. budgets: verdicts of the printed budgets' own rows.
    """
    if accuracy == "fails" or not hours["paas"] < hours["mgrs"] < hours["rs"]:
        return "fails"
    if {"fails", "not reproducible as stated"} & set(budgets):
        return "not reproducible as stated"
    return accuracy


def when_verdict(accuracy: str, equal: Comparison, quiet: Comparison) -> str:
    """For "PAAS finds the best architecture fastest": it needs a lead at equal numbers of trainings.

    Args:
        accuracy: :func:`accuracy_verdict` of the searches as they are.
        equal: PAAS less random search with as many different networks. quiet: the same on a table, both without noise.
    """
    if equal.difference.high < 0 and quiet.difference.low <= 0:
        return "fails"
    if accuracy == "fails":
        return "fails"
    # RS and MGRS have small budgets with random numbers of candidates only.
    return "holds with change" if equal.difference.low > 0 and accuracy == "holds" else "undecided"


def tradeoff_verdict(accuracy: str, described: Mapping[str, float], drawn: Mapping[str, float]) -> str:
    """For "PAAS is dear in privacy, RS cheap, MGRS between", from proven budgets.

    Args:
        described: epsilon of the searches as described. drawn: of RS and MGRS with random numbers of candidates.
    """
    ordered = [one["rs"] < one["mgrs"] < one["paas"] for one in (described, drawn)]
    if accuracy == "fails" or not any(ordered):
        return "fails"
    return accuracy if accuracy == "undecided" else "holds" if ordered[0] else "holds with change"


def robust_verdict(accuracy: Comparison, spread: Comparison) -> str:
    """Noise makes the search more robust: a better winner, or winners that differ less.

    Args:
        accuracy: test accuracy with noise less that without. spread: standard deviation over searches, likewise.
    """
    if accuracy.difference.low > 0 or spread.difference.high < 0:
        return "holds"
    return "fails" if accuracy.difference.high < 0 and spread.difference.low > 0 else "undecided"


def better_verdict(gain: Comparison, shrinks: Comparison) -> str:
    """For "better under DP-SGD, and smaller": one of the two beyond chance the other way is enough to fail.

    Args:
        gain: accuracy, privacy-aware less standard. shrinks: logarithm of the number of parameters, likewise.
    """
    if gain.difference.high < 0 or shrinks.difference.low > 0:
        return "fails"
    return "holds" if gain.difference.low > 0 and shrinks.difference.high < 0 else "undecided"


def loss_verdict(loss: Measured, printed_loss: float, start: Measured, printed_start: float) -> str:
    """A network loses only so many points: holds up to :data:`MARGIN` points more, fails beyond them.

    Args:
        start: accuracy without privacy, from which it loses. Where that falls short of the printed one by more than
            the margin, a small loss says nothing, and a large one may be that of a rate that is not the paper's.
    """
    if start.high < printed_start - MARGIN:
        return "undecided"
    if loss.high <= printed_loss + MARGIN:
        return "holds"
    return "fails" if loss.low > printed_loss + MARGIN else "undecided"


def setting_verdict(verdicts: Sequence[str]) -> str:
    """Of one claim under each value of a setting that is not printed: where they disagree it is not reproducible."""
    if {"holds", "fails"} <= set(verdicts):
        return "not reproducible as stated"
    return verdicts[0] if len(set(verdicts)) == 1 else "undecided"


def rates_verdict(private: Sequence[float], plain: Sequence[float]) -> str:
    """For "DP-SGD's best rates are above SGD's, and depend on the architecture", kind of network by kind.

    Args:
        plain: of SGD, with its momentum counted.
    """
    never_below = all(a >= b for a, b in zip(private, plain, strict=True))
    larger = never_below and any(a > b for a, b in zip(private, plain, strict=True))
    depends = any(len(set(rates)) > 1 for rates in (private, plain))
    if larger and depends:
        return "holds with change"
    return "undecided" if larger or depends else "fails"


def percentile(value: float, others: np.ndarray) -> float:
    """Share in per cent of others that a value exceeds, ties by half."""
    others = np.asarray(others)
    return float(100 * ((others < value).mean() + 0.5 * (others == value).mean()))


def draws_needed(curve: np.ndarray, accuracy: float) -> int | str:
    """The least k at which the expected accuracy of the best of k draws reaches one; curve (n,) for k = 1, ..., n."""
    reached = np.flatnonzero(np.asarray(curve) >= accuracy)
    return int(reached[0]) + 1 if len(reached) else f"more than {len(curve)}"
