"""Chapter 11's verdicts: how runs bear on what paper D says of its method.

The charitable reading comes first: budgets by the paper's own count (accepted updates, Lemma 2), J on test records as
printed. Where a claim holds so, but not once every noisy gradient is counted, it "holds with change".
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dplib.annealing_tables import COUNTS, TITLES, above, below
from dplib.stats import Comparison, Measured

LEVEL = 0.05
FIVE = 5  # runs, as the captions of the tables have them
POINTS = 1.0  # accuracies that close agree: data order, initial weights and the library are not the paper's
SHARE = 0.1  # a printed epsilon that close agrees
MATTERS = 0.1  # points; less is no difference between schemes
ALMOST = 0.9  # "almost everywhere"


def beyond(differences: Sequence[Comparison], sign: int = -1) -> bool:
    """One of the differences, over five seeds or more, is on that side of 0 beyond chance, one-sided, by Bonferroni."""
    return any(
        sign * d.difference.value > 0 and d.p_value / 2 * len(differences) < LEVEL
        for d in differences
        if enough([d]) and not math.isnan(d.p_value)
    )


def enough(differences: Sequence[Comparison]) -> bool:
    """Each rests on five seeds or more."""
    return all((d.difference.n or 0) >= FIVE for d in differences)


def gain_verdict(paper: Sequence[Comparison], honest: Sequence[Comparison], stand_in: bool) -> str:
    """For "better than the others": holds where every interval is above 0 by both counts.

    "holds with change": so by the paper's count only. "fails": worse somewhere by the paper's own count, beyond
    chance. A stand-in decides nothing, nor do runs without intervals.

    Args:
        paper: gains over each other scheme on each data set at equal accepted updates. honest: at equal queries.
    """
    if stand_in or not paper:
        return "undecided"
    if beyond(paper):
        return "fails"
    if not enough(paper) or not all(above(d.difference) for d in paper):
        return "undecided"
    return "holds" if honest and all(above(d.difference) for d in honest) else "holds with change"


def everywhere_verdict(
    paper: Sequence[Comparison], honest: Sequence[Comparison], stand_in: bool, larger: bool = True
) -> str:
    """For "almost everywhere better": counted over budgets, each against the scheme that is nearest.

    Holds where the mean difference has the claimed sign at nine budgets of ten, by both counts, and by the paper's
    beyond chance at half of them (budgets of a run go together: equal methods would pass by luck); with change where by
    the paper's only; fails where it has the other sign beyond chance at more than one budget of ten.
    """
    if stand_in or not paper or not enough(paper):
        return "undecided"
    sign = 1 if larger else -1

    def share(some: Sequence[Comparison]) -> float:
        return float(np.mean([sign * d.difference.value > 0 for d in some])) if some else 0.0

    wrong = np.mean([(below if larger else above)(d.difference) for d in paper])
    if wrong > 1 - ALMOST:
        return "fails"
    sure = np.mean([(above if larger else below)(d.difference) for d in paper])
    if share(paper) < ALMOST or sure < 0.5:
        return "undecided"
    return "holds" if share(honest) >= ALMOST else "holds with change"


def slope(budgets: Sequence[float], gains: np.ndarray) -> np.ndarray:
    """Least-squares slope over the budgets for each run, (runs,), of gains (budgets, runs)."""
    x = np.asarray(budgets, float) - np.mean(budgets)
    return x @ np.asarray(gains, float) / (x @ x)


def rising_verdict(paper: Measured | None, honest: Measured | None, stand_in: bool) -> str:
    """For "the larger the budget, the larger the advantage", from slopes by the paper's count and by queries."""
    if stand_in or paper is None or (paper.n or 0) < FIVE:
        return "undecided"
    if below(paper):
        return "fails"
    if not above(paper):
        return "undecided"
    return "holds" if honest is not None and above(honest) else "holds with change"


def accuracy_agrees(cell: Measured, published: float) -> str:
    """ "agrees", "higher" or "lower": the printed accuracy against our interval, a point wider on either side."""
    low, high = (cell.value if v is None else v for v in (cell.low, cell.high))
    if low - POINTS <= published <= high + POINTS:
        return "agrees"
    return "higher" if cell.value > published else "lower"


def table_row(
    cells: Mapping[str, Measured], published: Mapping[str, float], leads: Sequence[Comparison], spent: float,
    epsilon: float,
) -> tuple[str, str]:  # fmt: skip
    """Verdict of a row of Table 1, and a sentence.

    The printed order is part of it: the annealed method leads beyond chance at equal accepted updates. It can hold as
    printed only where its runs spend the printed budget with all queries counted; otherwise with that change.

    Args:
        leads: of the annealed method over each other one, at equal accepted updates.
        spent: epsilon of all queries of the annealed runs. epsilon: the printed one.
    """
    says = {column: accuracy_agrees(cell, published[column]) for column, cell in cells.items() if column in published}
    agree = sum(kind == "agrees" for kind in says.values())
    why = f"The printed value lies within our interval, widened by a point, in {agree} of {len(says)} cells."
    for kind in ("lower", "higher"):
        off = [TITLES[column] for column, said in says.items() if said == kind]
        why += f" Ours is {kind}: {', '.join(off)}." if off else ""
    few = [name for name, cell in cells.items() if (cell.n or 0) < FIVE]
    if few:
        why += f" Fewer than five runs: {', '.join(few)}."
    missing = [name for name in published if name not in cells]
    if missing:
        why += f" Not run: {', '.join(missing)}."
    if beyond(leads):
        return "fails", why + " The annealed method is behind by the paper's own count."
    if missing or few or not says or set(says.values()) != {"agrees"}:
        return "undecided", why
    if not leads or not all(above(d.difference) for d in leads):
        least = min((d.difference for d in leads), key=lambda d: d.value, default=None)
        seen = "" if least is None else f": over the nearest by {least} points"
        return "undecided", f"{why} That the annealed method leads is not seen{seen}."
    if spent > epsilon:
        return "holds with change", why + " The change: the annealed cells cost more than the printed ε."
    return "holds", why


def budget_row(
    found: Mapping[str, Measured | str], published: Mapping[str, float | str], savings: Sequence[Comparison],
    honest: Sequence[Comparison],
) -> tuple[str, str]:  # fmt: skip
    """Verdict of a row of Table 3, and a sentence.

    Holds where every cell is within a tenth of the printed one and the annealed method needs least, however its
    updates are counted. With change: it needs least beyond chance by the paper's count, while cells differ, or not by
    all queries. Fails: it needs more than another scheme by the paper's own count, beyond chance.

    Args:
        found: cells by the paper's count, text where a target was not reached. savings: epsilon of each other scheme
            of the row less that of the annealed method; honest: the same with all queries counted.
    """
    near = {
        name: not isinstance(printed, str) and abs(found[name].value / printed - 1) <= SHARE
        for name, printed in published.items()
        if isinstance(found.get(name), Measured)
    }
    numbers = {name for name, printed in published.items() if not isinstance(printed, str)}
    why = f"{sum(near.values())} of {len(near)} cells with a number here are within {SHARE:.0%} of the printed ones."
    missing = [TITLES[name.removeprefix("eps_")] for name in published if name not in found]
    why += f" Not run: {', '.join(missing)}." if missing else ""
    if beyond(savings):
        return "fails", why + " By the paper's own count the annealed method needs more than another scheme."
    others = sum(name != "eps_ours" for name in found)
    least, least_all = (
        0 < others == len(some) and all(above(d.difference) for d in some) for some in (savings, honest)
    )
    if least:
        also = "and" if least_all else "but not"
        why += f" It needs less than the others run by the paper's count, {also} by all queries."
        if not enough(savings):
            return "undecided", why + " A saving rests on fewer than five runs."
        if all(near.values()) and numbers <= set(near) and least_all:
            return "holds", why
        return "holds with change", why
    ahead = sum(above(d.difference) for d in savings)
    why += f" Of {others} other schemes {len(savings)} can be compared; than {ahead} of these it needs less"
    return "undecided", why + ", and than none more, beyond chance."


def free_verdict(found: Mapping[str, Mapping[str, Any]], published: Mapping[str, float]) -> str:
    """For "with free settings it reaches ...": undecided where ours stay below, since our search is small.

    With change where they are reached, but some plain scheme, tuned alike, is not behind beyond chance by both counts.

    Args:
        found: ledger's name of a data set to :func:`dplib.annealing_tables.free_choice`.
    """
    cells = {name: one for name, one in found.items() if name in published}
    if not cells or any(
        one["accuracy"].low is None or one["accuracy"].value < published[n] for n, one in cells.items()
    ):
        return "undecided"
    leads = [list(one[c].values()) for one in cells.values() for c in COUNTS]
    alone = all(some and enough(some) and all(above(d.difference) for d in some) for some in leads)
    return "holds" if alone and len(cells) == len(published) else "holds with change"


def longer_verdict(queries: Measured, rise: Measured | None) -> str:
    """For "it takes more time, and the more the higher the limit"; a run that rejects nothing is too short to tell.

    "holds with change": that a higher limit takes longer was not seen, or not run.

    Args:
        queries: noisy gradients for each accepted update. rise: that at the highest limit less that at the lowest, or
            None where limits were not compared.
    """
    if not above(Measured(queries.value - 1, *(None if e is None else e - 1 for e in (queries.low, queries.high)))):
        return "undecided"
    return "holds" if rise is not None and above(rise) else "holds with change"


def limit_verdict(kept: bool, lead: Comparison | None) -> str:
    """For "without a limit on rejections training could stop in a local optimum; with it, an update is forced".

    Args:
        kept: no run of rejections is longer than the limit.
        lead: accuracy with the limit less that without, or None where it was not run.
    """
    found = chance_verdict(lead) if kept else "fails"
    return "holds with change" if found == "holds" else found


def chance_verdict(lead: Comparison | None) -> str:
    """For "rejecting every rise may end in a local optimum": accuracy of the printed rule less that of such a one."""
    if lead is None or not enough([lead]):
        return "undecided"
    return "holds" if above(lead.difference) else "fails" if below(lead.difference) else "undecided"


def rarer_verdict(fall: Measured | None) -> str:
    """For "acceptance of a given rise becomes rarer": chance acceptance in the last tenth less that in the first."""
    if fall is None or fall.low is None:
        return "undecided"
    if above(fall):
        return "fails"
    return "holds with change" if below(fall) else "undecided"


def rule_verdict(exact: bool, expected: float, observed: int, spread: float) -> str:
    """For the rule of acceptance: right on three values, and as often as it says in training, within 4 deviations."""
    return "holds" if exact and abs(observed - expected) <= 4 * spread + 0.5 else "fails"


def baselines_verdict(over_relu: Sequence[Comparison], over_tanh: Sequence[Comparison], stand_in: bool) -> str:
    """For "AUTO-S with tanh is the best of the plain schemes", from its gains over DPSGD and DPSGD (tanh).

    A loss of less than :data:`MATTERS`, such as four images of ten thousand, is no reason to call another one better.
    """
    if stand_in or not over_relu or not over_tanh:
        return "undecided"
    every = [*over_relu, *over_tanh]
    if any(d.difference.value < -MATTERS and d.p_value / 2 * len(every) < LEVEL for d in every if enough([d])):
        return "fails"
    return "holds" if enough(every) and all(above(d.difference) for d in every) else "undecided"


def wandering_verdict(accepted: Comparison, queries: Comparison) -> str:
    """Figure 1, from the distance to the optimum of the annealed path less that of DP-SGD, by either count."""
    if above(accepted.difference):
        return "fails"
    if not below(accepted.difference):
        return "undecided"
    return "holds" if below(queries.difference) else "holds with change"


def worsen_verdict(shares: Sequence[Measured], rise: Measured) -> str:
    """For "some noisy updates worsen the objective, most often near convergence; taking them wastes budget".

    The change is the second half, which is the question of Table 1 at equal noisy gradients.

    Args:
        shares: of updates that raise the loss, by tenth of the run. rise: last tenth less first, paired.
    """
    if not any(share.value > 0 for share in shares) or below(rise):
        return "fails"
    return "holds with change" if above(rise) else "undecided"
