"""A law of the prior: what a second stage gains, by the log-loss of the first one's prior on labels it has not seen.

    gain = (a - b H) gap

H: log-loss in nats of the prior on the true labels of stage 2, at its best temperature; gap: what one stage on true
labels is ahead of one stage on answers, in points; gain: LP-2ST less LP-1ST. So a - b H is the share of the gap that a
second stage closes, and above a / b nats it loses. The form was chosen with the gains of chapters 9 and 9b known and no
log-loss seen. a and b are fitted on small heads and have to predict networks, which nothing is fitted on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats as sps

from book.evidence import claims, rules
from book.evidence.runs import Result
from dplib import stats
from dplib.stats import Measured
from papers.common.diverged import accuracies
from papers.labels.stage_rows import point

Cell = tuple[Any, ...]  # the last is epsilon
Arms = Mapping[str, Sequence[Result]]
RIVALS = {  # what else could say how much of the gap a second stage closes
    "constant": lambda of: np.zeros_like(of.loss),
    "budget": lambda of: np.log(of.epsilon),
    "accuracy": lambda of: of.top,
}
# The law holds if a second stage closes less of the gap where the prior's log-loss is larger, on the networks alone,
# and if what was fitted on heads is nearer to the networks' gains than a constant share, and than a law of the budget.
RULE = {
    "all_of": [
        {"behind": {"value": "slope_on_networks"}},
        {"ahead": {"value": "nearer_than_constant"}},
        {"ahead": {"value": "nearer_than_budget"}},
    ],
    "needs": {"runs": 5},
}
PRINTED = {  # the paper's tables with a value on true labels
    "CIFAR-10": "C.table1.lp",
    "MNIST": "C.table4.mnist-lp",
    "Fashion-MNIST": "C.table4.fashion-mnist-lp",
    "KMNIST": "C.table5.lp",
}
NEAR = 0.3  # nats: as far as a log-loss may be from the one that a printed gain implies


@dataclass(frozen=True, eq=False)
class Points:
    """Cells by seed, (cells, seeds) each but ``epsilon`` (cells, 1); accuracies in points."""

    cells: tuple[Cell, ...]
    epsilon: np.ndarray
    loss: np.ndarray  # H, nats
    gap: np.ndarray
    gain: np.ndarray
    prior: np.ndarray  # LP-2ST less the same two stages without a prior
    top: np.ndarray  # accuracy of stage 1

    def mean(self) -> "Points":
        """The same with one column, the mean over the seeds."""
        parts = (getattr(self, name).mean(axis=1, keepdims=True) for name in ("loss", "gap", "gain", "prior", "top"))
        return Points(self.cells, self.epsilon, *parts)


def points(by_cell: Mapping[Cell, Arms]) -> Points:
    """What :func:`papers.labels.stage_runs.law` found, as numbers."""
    every = list(by_cell.values())

    def of(arm: str) -> np.ndarray:
        return np.array([accuracies(arms[arm]) for arms in every])

    return Points(
        tuple(by_cell),
        np.array([[cell[-1]] for cell in by_cell], dtype=float),
        np.array([[min(run["losses"][0]) for run in arms["two"]] for arms in every]),
        of("true labels") - of("one"),
        of("two") - of("one"),
        of("two") - of("no prior") if all("no prior" in arms for arms in every) else np.full_like(of("two"), np.nan),
        np.array([[100 * run["stages"][0]["top"][0] for run in arms["two"]] for arms in every]),
    )


def of_compared(name: str, cells: Mapping[tuple[float, Any], Sequence[Result]]) -> dict[Cell, Arms]:
    """Cells of :func:`papers.labels.stage_runs.compared`, with log-losses, as those of the law."""
    budgets = [e for e, kind in cells if kind == 2 and (e, 1) in cells]
    return {(name, e): {"two": cells[e, 2], "one": cells[e, 1], "true labels": cells[np.inf, 1]} for e in budgets}


def fitted(of: Points, by: np.ndarray, column: int = 0) -> np.ndarray:
    """(a, b) of gain = (a + b by) gap by least squares over the cells; b is 0 where ``by`` is the same in all."""
    gap, gain, by = of.gap[:, column], of.gain[:, column], np.broadcast_to(by, of.gap.shape)[:, column]
    return np.linalg.lstsq(np.stack([gap, gap * by], axis=1), gain, rcond=None)[0]


def predicted(of: Points, by: np.ndarray, line: np.ndarray) -> np.ndarray:
    """Gains in points, (cells, seeds), by a fitted line."""
    return (line[0] + line[1] * by) * of.gap


def law(heads: Points, networks: Points) -> dict[str, Any]:
    """Values of :data:`RULE`, fitted on heads and judged on networks, by seed.

    "nearer_than_X": root mean square error of a rival's predictions, less that of the law's, in points. "rank":
    Spearman's correlation of log-loss and share closed. "signs": cells whose gain is told apart from 0 and has the
    predicted sign, and "told_apart", of how many. "a", "b": of the law; "loses_above": in nats.
    """
    line = fitted(heads.mean(), heads.mean().loss)
    seeds = range(networks.gain.shape[1])

    def error(by, line_: np.ndarray) -> np.ndarray:
        return np.sqrt(((predicted(networks, by, line_) - networks.gain) ** 2).mean(axis=0))

    ours = error(networks.loss, line)
    rivals = {name: error(by(networks), fitted(heads.mean(), by(heads.mean()))) for name, by in RIVALS.items()}
    agreeing = signs(networks, line[0], -line[1])
    shares = networks.gain / networks.gap
    return {
        "a": float(line[0]),
        "b": float(-line[1]),
        "loses_above": float(-line[0] / line[1]) if line[1] else float("inf"),
        "slope_on_heads": _by_seed([fitted(heads, heads.loss, i)[1] for i in range(heads.gain.shape[1])]),
        "slope_on_networks": _by_seed([fitted(networks, networks.loss, i)[1] for i in seeds]),
        **{f"nearer_than_{name}": _by_seed(rival - ours) for name, rival in rivals.items()},
        "error_of_the_law": _by_seed(ours),
        "rank": _by_seed([sps.spearmanr(networks.loss[:, i], shares[:, i]).statistic for i in seeds]),
        "signs": agreeing["agree"],
        "told_apart": agreeing["told_apart"],
    }


def table(values: Mapping[str, Any]) -> pd.DataFrame:
    """What came of :func:`law`, beside what its rule asks for and what was expected before the runs."""
    slope = values["slope_on_networks"]
    less = Measured(-slope.value, -slope.high, -slope.low, slope.n)
    rows = {
        "slope fitted on the heads, share per nat": (f"{values['b']:.2f}", "0.2 to 0.4"),
        "slope on the networks, share per nat": (f"{less:.1f}", "above 0"),
        "nearer than a constant share, points": (f"{values['nearer_than_constant']:.2f}", "above 0"),
        "nearer than a line in ln ε, points": (f"{values['nearer_than_budget']:.2f}", "above 0"),
        "error of its predictions, points": (f"{values['error_of_the_law']:.0f}", ""),
    }
    return pd.DataFrame(rows, ["found", "asked for, or expected"]).T


def signs(of: Points, a: float, b: float) -> dict[str, int]:
    """Of cells whose gain is told apart from 0 by its 95% interval, "told_apart", how many have the sign of the law."""
    gains = [stats.mean_interval(row) for row in of.gain]
    apart = [i for i, gain in enumerate(gains) if (gain.low or 0) > 0 or (gain.high or 0) < 0]
    expected = predicted(of, of.loss, np.array([a, -b])).mean(axis=1)
    return {"agree": sum(gains[i].value * expected[i] > 0 for i in apart), "told_apart": len(apart)}


def _by_seed(values: Sequence[float] | np.ndarray) -> Measured:
    return stats.mean_interval(np.asarray(values, dtype=float))


def verdict(values: Mapping[str, Any]) -> str:
    """What is said of the law: "holds", "fails" or "open"."""
    return {True: "holds", False: "fails", None: "open"}[rules.decide(RULE, values, {})]


def implied(a: float, b: float, least_gap: float = 1.0) -> dict[tuple[str, float], float]:
    """Log-losses that the paper's networks must have for their printed gains: {(table, epsilon): nats}.

    Of cells with a gap of at least so many points. A run of such a network bears the law out where its own log-loss is
    within :data:`NEAR` of this.
    """
    losses = {}
    for table, stem in PRINTED.items():
        one, two = (claims.get(f"{stem}-{count}st").published for count in (1, 2))
        for column, value in two.items():
            at = point(column, value)
            if at and column in one and "eps_inf" in one and (gap := one["eps_inf"] - one[column]) >= least_gap:
                losses[table, at[0]] = (a - (value - one[column]) / gap) / b
    return losses


def borne_out(wanted: Mapping[Any, float], found: Mapping[Any, float]) -> str:
    """The prediction for a GPU: "holds" if two thirds of cells are within :data:`NEAR`, "fails" if a third or fewer."""
    near = [abs(wanted[cell] - found[cell]) <= NEAR for cell in wanted if cell in found]
    share = float(np.mean(near)) if near else 0.5
    return "holds" if share >= 2 / 3 else "fails" if share <= 1 / 3 else "open"
