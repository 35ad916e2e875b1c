"""Chapter 9's verdicts: how runs of LP-MST bear on what paper C says of them."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats
from torch import nn

from dplib import claims
from dplib.architecture.workflow_verdicts import agreement
from dplib.architectures import Concat
from dplib.labels.references import point
from dplib.stats import Comparison, Measured, holm, mean_interval


def gains_verdict(gains: Sequence[Comparison], stand_in: bool) -> str:
    """For "better at every budget": holds where each paired interval is above 0; fails where one is below 0.

    Below 0 must be beyond chance among so many cells: one-sided p-values by Bonferroni. A stand-in decides nothing.
    """
    if stand_in or not gains:
        return "undecided"
    if any(g.difference.value < 0 and g.p_value / 2 * len(gains) < 0.05 for g in gains):
        return "fails"
    return "holds" if all(g.difference.low > 0 for g in gains) else "undecided"


def unpaired(a: np.ndarray, b: np.ndarray) -> Comparison:
    """Welch's test of the means of a and b, shapes (n,) and (m,): for runs whose seeds have nothing in common."""
    test = stats.ttest_ind(a, b, equal_var=False)
    interval = test.confidence_interval()
    difference = Measured(float(np.mean(a) - np.mean(b)), float(interval.low), float(interval.high), len(a))
    return Comparison(difference, float(test.pvalue))


def meets(gain: Measured, low: float, high: float) -> bool:
    """Whether a gain is above 0 beyond chance and its interval meets that of low to high."""
    return gain.low > 0 and gain.low <= high and gain.high >= low


def points_verdict(gains: Sequence[Measured], low: float, high: float, own: bool) -> str:
    """For "a gain of low to high points in all cases": holds where every gain meets that range.

    Args:
        own: whether the data and the network are the paper's: then it fails where no gain does. Other networks decide
            nothing about the cases that the paper tried.
    """
    hits = [meets(g, low, high) for g in gains]
    if hits and all(hits):
        return "holds"
    return "fails" if own and hits and not any(hits) else "undecided"


def diminishing(over_stages: Mapping[int, np.ndarray]) -> Measured | None:
    """Gain a stage from four stages to the most, less that from two to four; None where a count was not run.

    Args:
        over_stages: number of stages to accuracies, shape (seeds,), in the order of the seeds.
    """
    most = max(over_stages, default=0)
    if most <= 4 or not {2, 4} <= set(over_stages):
        return None
    two, four, last = (np.asarray(over_stages[t]) for t in (2, 4, most))
    return mean_interval((last - four) / (most - 4) - (four - two) / 2)


def diminishing_verdict(change: Measured | None, printed: bool) -> str:
    """For "diminishing returns on some data sets": holds where a stage beyond the fourth brings less, beyond chance.

    One data set can show it, and none can refute it for "some". Only data of the paper (``printed``) count.
    """
    return "holds" if printed and change is not None and change.high < 0 else "undecided"


def beaten(
    rivals: Mapping[tuple[str, float], np.ndarray], printed: Mapping[tuple[str, int], Mapping]
) -> list[tuple[str, float, int, float]]:
    """Printed cells that a rival's runs exceed beyond chance: one-sided t-tests, Holm over all cells.

    Args:
        rivals: (data set, epsilon) to accuracies in percent. printed: (data set, stages) to a row of Table 4.

    Returns:
        Data set, epsilon, stages and printed value of each.
    """
    cells = []
    for (name, epsilon), values in rivals.items():
        for stages in (1, 2):
            value = printed.get((name, stages), {}).get(f"eps{epsilon:g}")
            if isinstance(value, int | float) and np.ptp(values) > 0:
                p = stats.ttest_1samp(values, value, alternative="greater").pvalue
                cells.append(((name, epsilon, stages, float(value)), p))
    adjusted = holm(np.array([p for _, p in cells])) if cells else []
    return [cell for (cell, _), p in zip(cells, adjusted, strict=True) if p < 0.05]


def halved(free: np.ndarray, private: np.ndarray, rival: np.ndarray | float) -> Measured:
    """How far the gap of ``private`` to ``free`` exceeds half of the rival's, in points; below 0: it is smaller.

    Args:
        free, private: accuracies, shape (n,), paired. rival: other runs, shape (m,), or a printed accuracy.
    """
    if isinstance(rival, int | float):
        return mean_interval(0.5 * free - private + 0.5 * rival)
    return unpaired(0.5 * free - private, -0.5 * rival).difference


def halved_verdict(cells: Sequence[Measured], own: bool) -> str:
    """For "greatly shrinks the gap on all data sets": holds where it is halved in every cell, beyond chance.

    It fails where one cell says the opposite beyond chance, if network and data are the paper's (``own``).
    """
    if cells and all(c.high <= 0 for c in cells):
        return "holds"
    return "fails" if own and any(c.low > 0 for c in cells) else "undecided"


def row_verdict(cells: Mapping[str, Measured], published: Mapping[str, float]) -> tuple[str, str]:
    """Verdict of a table row, and a sentence: cells within a point agree; lower ones may be our small network."""
    says = {column: agreement(cell, published[column]) for column, cell in cells.items() if column in published}
    if not says:
        return "undecided", "No printed cell was run."
    if set(says.values()) == {"agrees"}:
        verdict = "holds" if set(says) == set(published) else "undecided"
    else:
        verdict = "undecided" if {"lower", "unclear"} & set(says.values()) else "holds with change"
    kinds = {"agrees": "agree within a point", "lower": "lower", "higher": "higher", "unclear": "too spread to say"}
    counted = [
        f"{sum(s == kind for s in says.values())} {text}" for kind, text in kinds.items() if kind in says.values()
    ]
    return verdict, f"Of {len(says)} cells, ours against the printed ones: {', '.join(counted)}."


def columns(frame: pd.DataFrame, dataset: str, stages: int) -> dict[str, Measured]:
    """Accuracies of one method on one data set under the names of Table 4's columns: eps1, eps2, ..., eps_inf."""
    rows = frame[(frame["dataset"] == dataset) & (frame["stages"] == stages)]
    return {
        "eps_inf" if math.isinf(epsilon) else f"eps{epsilon:g}": mean_interval(cell["accuracy"].to_numpy())
        for epsilon, cell in rows.groupby("epsilon")
    }


def printed_margins() -> dict[float, float]:
    """Table 1: LP-2ST less the best earlier method whose own budget is no larger, in points, by budget."""
    rows = [claims.get(f"C.table1.{name}").published for name in _EARLIER]
    earlier = [cell for row in rows for column, value in row.items() if (cell := point(column, value))]
    ours = claims.get("C.table1.lp-2st").published
    found = {}
    for epsilon in (1.0, 2.0, 3.0, 4.0, 6.0, 8.0):
        known = [accuracy for own, accuracy in earlier if own <= epsilon]
        if known:
            found[epsilon] = round(ours[f"eps{epsilon:g}"] - max(known), 2)
    return found


def earlier_ahead(cited: Mapping[str, Sequence[tuple[float, float]]], printed: Mapping[str, float]) -> list[str]:
    """Cited methods that beat LP-MST's printed accuracy at the nearest column although their own budget is no larger.

    Args:
        cited: method to (epsilon, accuracy), as :func:`dplib.labels.references.cited`. printed: column to accuracy.
    """
    at = {float(column[3:]): value for column, value in printed.items() if column != "eps_inf"}
    ahead = []
    for name, points in cited.items():
        for epsilon, accuracy in points:
            larger = [e for e in at if e >= epsilon]
            if larger and accuracy > at[min(larger)]:
                ahead.append(f"{name} ({accuracy:g}% at ε = {epsilon:g}; {at[min(larger)]:g}% at {min(larger):g})")
    return ahead


def inception_definition(net: nn.Sequential) -> dict[str, str]:
    """The rows of the unnumbered table of Appendix B, read off the modules of a network."""
    parts = list(net)
    strided = [
        i for i, part in enumerate(parts) if not isinstance(part, Concat) and _conv(part) and _conv(part).stride[0] > 1
    ]
    s1, s2 = parts[1 : strided[0] + 1], parts[strided[0] + 1 : strided[1] + 1]
    end = next(i for i, part in enumerate(parts) if isinstance(part, nn.AdaptiveMaxPool2d))
    s3 = parts[strided[1] + 1 : end]
    pooled, head = parts[end].output_size, parts[-1]
    tail = "GlobalMaxPool, Linear" if pooled == 1 and isinstance(head, nn.Linear) else "?"
    first = [_conv(branch) for branch in s1[0].branches]
    kernels = ", ".join(f"Conv({c.kernel_size[0]}×{c.kernel_size[1]}, C{i})" for i, c in enumerate(first, 1))
    words = {"Conv2d": "Convolution", "BatchNorm2d": "BatchNormalization", "ReLU": "ReLU"}
    return {
        "inception": f"{_words(parts[:1])}, S1, S2, S3, {tail}",
        "s1": _words(s1),
        "s2": _words(s2),
        "s3": _words(s3),
        "block": f"Concat({kernels})",
        "conv": ", ".join(words.get(type(m).__name__, type(m).__name__) for m in parts[0]),
    }


_EARLIER = (
    "dpsgd-pretrain", "dpsgd", "tempered-sigmoid", "yu-et-al", "nasr-et-al", "chen-lee", "scatternet-cnn",
)  # fmt: skip


def _conv(part: nn.Module) -> nn.Conv2d | None:
    return next((m for m in part.modules() if isinstance(m, nn.Conv2d)), None)


def _words(parts: Sequence[nn.Module]) -> str:
    found = []
    for part in parts:
        if isinstance(part, Concat):
            found.append(f"Block({', '.join(str(_conv(branch).out_channels) for branch in part.branches)})")
        else:
            conv = _conv(part)
            stride = f", stride {conv.stride[0]}" if conv.stride[0] > 1 else ""
            found.append(f"Conv({conv.kernel_size[0]}×{conv.kernel_size[1]}, {conv.out_channels}{stride})")
    return ", ".join(found)
