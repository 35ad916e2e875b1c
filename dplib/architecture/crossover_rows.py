"""From chapter 4's runs to values for its tables, figures and rows of the ledger.

Measured values are those of an earlier, frozen run until its single runs are made again (notebooks/plans/04.yml).
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dplib import claims, stats
from dplib.architecture.crossover_study import COMPLEX, SIMPLE, accuracies
from dplib.checks import ParameterError
from dplib.runs import Result
from dplib.stats import Measured

Curves = dict[str, pd.DataFrame]  # label to columns epsilon, mean, low, high
FROZEN_SETS = {"mnist": "mnist", "fashion-mnist": "fashion_mnist", "cifar10-jpeg": "cifar10_jpeg"}


def frozen(claim_id: str) -> dict[str, Measured]:
    """The measured values of a row's frozen run, by name; nothing where there is none."""
    row = claims.frozen(claim_id)
    return {k: Measured(**v) for k, v in row["values"].items() if isinstance(v, dict)} if row else {}


def pair_curves(place: str) -> Curves:
    """Figure 7: both networks' test accuracy in percent over the budget, from the frozen run.

    Args:
        place: "mnist", "mnist, 3× steps", "fashion-mnist", "cifar10-jpeg" or "location".
    """
    data = claims.frozen("B.fig7")["data"]
    at = data[f"{place}: epsilon"]
    return {
        name: pd.DataFrame(
            {"epsilon": at, **{part: data[f"{place}: {short} {part}"] for part in ("mean", "low", "high")}}
        )
        for name, short in ((SIMPLE, "simple"), (COMPLEX, "complex"))
    }


def three_models() -> Curves:
    """Figure 8: each model's test accuracy in percent over the budget, from the frozen run."""
    data = claims.frozen("B.fig8")["data"]
    names = list(dict.fromkeys(key.partition(":")[0] for key in data))
    return {n: pd.DataFrame({p: data[f"{n}: {p}"] for p in ("epsilon", "mean", "low", "high")}) for n in names}


def sizes() -> pd.DataFrame:
    """Figure 1: mean test accuracy in percent by size, columns parameters, SGD, DP-SGD, from the frozen run."""
    return pd.DataFrame(claims.frozen("B.fig1")["data"])


def at(curves: Curves, name: str, epsilon: float) -> Measured:
    """A curve's mean and 95% interval at one of its budgets, five seeds."""
    row = curves[name].set_index("epsilon").loc[epsilon]
    return Measured(float(row["mean"]), float(row["low"]), float(row["high"]), n=5)


def rates() -> dict[str, Measured]:
    """Figure 9: the gap simple less complex, in points, by shared rate and at each network's own, frozen run."""
    return {k.removeprefix("gap at "): v for k, v in frozen("B.fig9").items()}


def gaps() -> dict[str, dict[str, Measured]]:
    """Simple less complex at the printed budget ("dp") and without privacy ("sgd") by data set, frozen run."""
    found = frozen("B.paw-wins-everywhere")
    return {name: {"dp": found[f"DP-SGD gap, {name}"], "sgd": found[f"SGD gap, {name}"]} for name in FROZEN_SETS}


def table(table_id: str, rows: Sequence[str]) -> pd.DataFrame:
    """A table of accuracies beside print: a row for each row of the ledger that was run."""
    lines = []
    for row in rows:
        claim, ours = claims.get(f"{table_id}.{row}"), frozen(f"{table_id}.{row}")
        cells = [claim.where.partition(": ")[2], claim.published["epsilon"]]
        for part in ("acc_dpsgd", "acc_sgd"):
            cells += [claim.published[part], ours.get(part, "–")]
        lines.append(cells)
    columns = ["network", "ε", "DP-SGD, printed", "DP-SGD, measured", "SGD, printed", "SGD, measured"]
    return pd.DataFrame(lines, columns=columns)


def definition(crossover: float, epsilons: Sequence[float], simple: np.ndarray, complex_: np.ndarray) -> float:
    """The largest loss, in points, of "simple up to the crossover" where accuracies (k,) are known exactly."""
    chosen = np.where(np.asarray(epsilons) <= crossover, simple, complex_)
    return float(100 * (np.maximum(simple, complex_) - chosen).max())


def yours(found: Mapping[str, Sequence[Result]]) -> dict[str, Measured | str]:
    """What a reader's own runs say: both accuracies, the gap in points, and which network to use."""
    one, two = (accuracies(found[name]) for name in (SIMPLE, COMPLEX))
    gap = stats.paired(one, two).difference
    if gap.low is None or gap.low <= 0 <= gap.high:
        use = "the simple one: no difference beyond chance, and it costs less"
    else:
        use = "the simple one" if gap.low > 0 else "the complex one"
    means = {"accuracy_simple": stats.mean_interval(one), "accuracy_complex": stats.mean_interval(two)}
    return {**means, "simple_less_complex": gap, "use": use}


def best_of(values: np.ndarray, k: int = 3) -> float:
    """Expected maximum of ``k`` runs drawn without replacement from ``values`` (n,): what best-of-k reports.

    Raises:
        ParameterError: for fewer than k values.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    if len(ordered) < k:
        raise ParameterError(f"{len(ordered)} runs are too few for the best of {k}.")
    # The i-th smallest (from 0) is the maximum of the k drawn with probability C(i, k-1) / C(n, k).
    weights = np.array([math.comb(i, k - 1) for i in range(len(ordered))]) / math.comb(len(ordered), k)
    return float(weights @ ordered)
