"""Figure 4 of paper D: accuracy over one parameter at a time, and what its four panels say.

The printed setting is a value of every panel; its runs are those of Table 1, read where they have spent the budget of
the figure. Values are compared by seed. What one comparison of several may decide is corrected by Bonferroni.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd

from dplib.annealing_experiments import Lab, Result
from dplib.annealing_tables import above, accuracies, at_budget, compare, measured
from dplib.annealing_verdicts import LEVEL, POINTS
from dplib.checks import ParameterError
from dplib.stats import Comparison, Measured

FEWEST = 3  # runs a value; fewer decide nothing
FLAT = 0.5  # points: "basically the same"
LABELS = {"learning_rate": "learning rate η", "batch": "batch size B", "initial_temperature": "Q₀",
          "rejection_limit": "μ₀"}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """The runs of one value: test accuracies in percent and queries for each accepted update, by seed, (runs,)."""

    accuracy: np.ndarray
    queries: np.ndarray


Panel = dict[float, Cell]


def base_cell(lab: Lab, results: Sequence[Result], epsilon: float) -> Cell:
    """The printed setting from runs that go on past a budget, or end there; ``epsilon`` by the paper's count.

    Raises:
        ParameterError: where a run ends before.
    """
    found = [at_budget(lab, results, "accepted", epsilon, column) for column in ("accuracy", "queries", "accepted")]
    if any(column is None for column in found):
        raise ParameterError(f"epsilon = {epsilon:g} is not allowed for Figure 4: a run of Table 1 ends before.")
    accuracy, queries, accepted = found
    return Cell(100 * accuracy, queries / accepted)


def cell_of(results: Sequence[Result]) -> Cell:
    """The runs of one value, by seed."""
    return Cell(accuracies(results), np.array([r["queries"] / r["accepted"] for r in results]))


def panels(
    study: Mapping[tuple[str, Any], Sequence[Result]], base: Cell, printed: Mapping[str, float]
) -> dict[str, Panel]:
    """{parameter: {value: its runs}}, values rising, the printed one among them; without parameters not varied.

    Args:
        study: of :func:`dplib.annealing_experiments.figure_4`. printed: parameter to its printed value.
    """
    found: dict[str, Panel] = {}
    for name, value in printed.items():
        cells = {v: cell_of(runs) for (n, v), runs in study.items() if n == name}
        if cells:
            cells = {**cells, value: base}
            found[name] = {v: cells[v] for v in sorted(cells)}
    return found


def undecided_because(panel: Panel, epsilon: float, stand_in: bool, printed: float = 3.0) -> str:
    """Why a panel can decide nothing, or nothing."""
    runs = min(len(cell.accuracy) for cell in panel.values())
    why = ["a stand-in for the data set"] if stand_in else []
    why += [f"{runs} run{'s' * (runs > 1)} a value, and {FEWEST} are the fewest that decide"] if runs < FEWEST else []
    why += [f"the budget is {epsilon:g} and not the printed {printed:g}"] if epsilon < printed else []
    return "; ".join(why)


def less(panel: Panel, a: float, b: float) -> Comparison:
    """Accuracy at one value less that at another, in points, over the seeds that both have."""
    return compare(panel[a].accuracy, panel[b].accuracy)


def some(comparisons: Collection[Comparison], sign: int) -> bool:
    """One of the differences has that sign beyond chance, one-sided, corrected for their number."""
    return any(sign * c.difference.value > 0 and c.p_value / 2 * len(comparisons) < LEVEL for c in comparisons)


def rate_verdict(panel: Panel, published: Mapping[str, float], printed_rate: float, still: Panel | None = None) -> str:
    """For "above the floor at all rates; rises up to the best rate, and falls after".

    "holds with change": above the floor from the printed rate on, and rising up to the best. "fails": below the floor
    at the printed rate or a higher one, or one step of the curve goes the other way, beyond chance; and that with
    momentum, which the paper does not print, and not without it either.

    Args:
        still: rates run without momentum; one below the floor beyond chance refutes that reading.
    """
    best, floor = published["best_lr"], published["accuracy_floor"]
    if best not in panel or min(panel) > published["lr_min"] or max(panel) < published["lr_max"]:
        return "undecided"
    steps = [(less(panel, b, a), b <= best) for a, b in pairwise(panel)]
    rises, falls = [d for d, up in steps if up], [d for d, up in steps if not up]
    over = {v: over_floor(cell, floor) for v, cell in panel.items()}
    from_printed = [d for v, d in over.items() if v >= printed_rate]
    if some(rises, -1) or some(falls, 1) or some(from_printed, -1):
        return "fails" if some([over_floor(cell, floor) for cell in (still or {}).values()], -1) else "undecided"
    if not all(above(d.difference) for d in [*rises, *from_printed]):
        return "undecided"
    near = abs(panel[best].accuracy.mean() - published["best_accuracy"]) <= POINTS
    fall = all(d.difference.high < 0 for d in falls)
    return "holds" if near and fall and all(above(d.difference) for d in over.values()) else "holds with change"


def over_floor(cell: Cell, floor: float) -> Comparison:
    """Accuracy less a constant: the interval of the mean, and its one-sided test."""
    return compare(cell.accuracy, np.full(len(cell.accuracy), floor))


def batch_verdict(panel: Panel, published: Mapping[str, float], still: Panel | None = None) -> str:
    """For "best at this batch size; larger and smaller ones are worse".

    "fails": another one is better beyond chance, with momentum, and without it too.
    """
    best = published["best_batch_size"]
    if best not in panel:
        return "undecided"
    leads = _leads(panel, best).values()
    if some(leads, -1):
        return "fails" if some(_leads(still or {}, best).values(), -1) else "undecided"
    inside = min(panel) < best < max(panel)
    return "holds" if inside and all(above(d.difference) for d in leads) else "undecided"


def _leads(panel: Panel, best: float) -> dict[float, Comparison]:
    """What one value has over each other one; nothing where it was not run."""
    return {v: less(panel, best, v) for v in panel if v != best} if best in panel else {}


def flat(panel: Panel) -> bool | None:
    """Whether all values are within half a point of each other: their intervals are, True; one pair is not, False."""
    pairs = list(combinations(panel, 2))
    if not pairs:
        return None
    if all(max(abs(d.low), abs(d.high)) <= FLAT for a, b in pairs for d in [less(panel, a, b).difference]):
        return True
    apart = [
        compare(panel[a].accuracy - sign * FLAT, panel[b].accuracy) for a, b in pairs for sign in (1, -1)
    ]  # alternately one-sided above FLAT and below -FLAT
    return False if some(apart[::2], 1) or some(apart[1::2], -1) else None


def temperature_verdict(panel: Panel, published: Mapping[str, float]) -> str:
    """For "above this Q0 the accuracy hardly changes"."""
    level = flat({v: cell for v, cell in panel.items() if v > published["q0_above"]})
    return {True: "holds", False: "fails", None: "undecided"}[level]


def limit_verdict(panel: Panel, published: Mapping[str, float]) -> str:
    """For "from this mu0 on the accuracy stays about the same; a larger one only costs time".

    "holds with change": about the same, but that a larger one takes longer was not seen.
    """
    since = {v: cell for v, cell in panel.items() if v >= published["mu0_from"]}
    level = flat(since)
    if not level:
        return "undecided" if level is None else "fails"
    more = dearer(since)
    return "holds" if more is not None and above(more) else "holds with change"


def dearer(panel: Panel) -> Measured | None:
    """Queries for each accepted update at the highest value less those at the lowest; None of too few runs."""
    first, last = panel[min(panel)].queries, panel[max(panel)].queries
    return compare(last, first).difference if min(len(first), len(last)) >= FEWEST else None


def verdict(name: str, panel: Panel, published: Mapping[str, float], printed: float, still: Panel | None = None) -> str:
    """A panel's verdict, by its parameter; ``printed`` is its printed value, ``still`` its runs without momentum."""
    if name == "learning_rate":
        return rate_verdict(panel, published, printed, still)
    if name == "batch":
        return batch_verdict(panel, published, still)
    rules = {"initial_temperature": temperature_verdict, "rejection_limit": limit_verdict}
    return rules[name](panel, published)


def grounds(name: str, panel: Panel, published: Mapping[str, float], still: Panel | None = None) -> str:
    """What a panel's verdict rests on, in words."""
    if name == "learning_rate":
        best, floor = published["best_lr"], published["accuracy_floor"]
        found = {v: measured(cell.accuracy) for v, cell in panel.items()}
        over = [f"{v:g}" for v, m in found.items() if m.low is not None and m.low > floor]
        text = f"Above {floor:g}% beyond chance at η = {', '.join(over) or 'none'} of {len(found)} values."
        if best in found:
            text += f" At {best:g} it is {found[best]}%, printed {published['best_accuracy']:g}."
        steps = [f"from {a:g} to {b:g} by {less(panel, b, a).difference}" for a, b in pairwise(panel)]
        text += f" It changes {', '.join(steps)} points."
        return f"{text} {_without(still)}"
    if name == "batch":
        best = published["best_batch_size"]
        with_and_without = [
            ", ".join(f"{lead.difference} over {v:g}" for v, lead in _leads(cells, best).items()) or "not run"
            for cells in (panel, still or {})
        ]
        return f"Batch {best:g}, in points: {'; without momentum '.join(with_and_without)}. {_without(still)}"
    since = [v for v in panel if v >= published.get("mu0_from", 0) and v > published.get("q0_above", 0)]
    apart = [f"{b:g} less {a:g}: {less(panel, b, a).difference}" for a, b in combinations(since, 2)]
    text = f"In points, {'; '.join(apart)}; within {FLAT:g} is called the same."
    more = dearer({v: panel[v] for v in since}) if name == "rejection_limit" and since else None
    if more is None:
        return text
    text += f" Queries an accepted update, {max(since):g} less {min(since):g}: {more}."
    return text if above(more) else f"{text} That a larger one takes longer was not seen."


def _without(still: Panel | None) -> str:
    runs = [f"{measured(cell.accuracy)}% at {v:g}" for v, cell in (still or {}).items()]
    return f"Without momentum, which the paper does not print: {', '.join(runs) or 'not run'}."


def values(name: str, panel: Panel, printed: float) -> dict[str, Measured]:
    """What the ledger keeps of a panel: accuracies, differences from the printed value, and queries of the limits."""
    found = {f"{name}_{v:g}": measured(cell.accuracy) for v, cell in panel.items()}
    found |= {f"{name}_{v:g}_less_printed": less(panel, v, printed).difference for v in panel if v != printed}
    if name == "rejection_limit":
        found |= {f"queries_an_accepted_update_mu0_{v:g}": measured(cell.queries) for v, cell in panel.items()}
    return found


def table(found: Mapping[str, Panel], printed: Mapping[str, float]) -> pd.DataFrame:
    """One row for each value of each panel."""
    rows = []
    for name, panel in found.items():
        for v, cell in panel.items():
            rows.append({
                "parameter": LABELS[name],
                "value": f"{v:g}" + (" (Table 1)" if v == printed[name] else ""),
                "test accuracy, %": str(measured(cell.accuracy)),
                "less that of Table 1": "" if v == printed[name] else str(less(panel, v, printed[name]).difference),
                "queries an accepted update": str(measured(cell.queries)),
            })  # fmt: skip
    return pd.DataFrame(rows)


def frozen(rows: Mapping[str, Mapping[str, Any] | None]) -> dict[str, list[tuple[float, Measured]]]:
    """{label: (value, accuracy in percent)} of the panels in a frozen run, values rising.

    Args:
        rows: parameter to its frozen record (:func:`dplib.claims.frozen`), or None.
    """
    found = {}
    for name, row in rows.items():
        kept = (
            (re.fullmatch(rf"{name}_([0-9.e+-]+)", key), value) for key, value in (row or {}).get("values", {}).items()
        )
        cells = sorted((float(key[1]), Measured(**value)) for key, value in kept if key)
        if cells:
            found[LABELS[name]] = cells
    return found


def words(found: Mapping[str, Panel], epsilon: float, long_run: Mapping[str, list] | None = None) -> str:
    """The figure's caption, or that it was not run; ``long_run``: of :func:`frozen`, drawn in its place."""
    if not found and long_run:
        runs = sorted({m.n for cells in long_run.values() for _, m in cells if m.n})
        each = " to ".join(map(str, sorted({runs[0], runs[-1]})))
        alone = "; a single run has none, and decides nothing" if 1 in runs else ""
        return (
            f"Not run in this profile: these are the frozen runs on MNIST, {each} a value; bands: 95% intervals"
            f"{alone}. Their verdicts stand in the ledger."
        )
    if not found:
        return "This was not run in this profile."
    runs = [min(len(cell.accuracy) for cell in panel.values()) for panel in found.values()]
    each = f"{runs[0]} run(s) a value" if len(set(runs)) == 1 else f"{', '.join(map(str, runs))} runs a value"
    interval = "bands: 95% intervals" if min(runs) > 1 else "one run a value has no interval, and decides nothing"
    return (
        f"Test accuracy at ε = {epsilon:g} by the paper's count; {each}, and at the printed values those of Table 1; "
        f"{interval}. The paper: ε = 3."
    )
