"""Groups of runs of LP-2ST that differ in one setting, and how their differences are judged (chapter 9).

Every comparison is between groups of settings that were fixed before the runs, within a seed; best cells are only
quoted, or pay for having been chosen. One rule for all: a claim holds where our small head shows it beyond chance, and
is undecided otherwise. What is said of a large network, a small one cannot refute, even where it shows the opposite.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dplib.labels import maps as label_maps
from dplib.labels.cifar_study import ABLATIONS
from dplib.stats import Measured, mean_interval, paired

OPPOSITE = "Here it is the other way round beyond chance, which refutes nothing said of a large network. "


class Record(NamedTuple):
    """Arguments of ``claims.record``."""

    values: Mapping[str, Any]
    verdict: str
    because: str
    data: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Maps:
    """The runs.

    Attributes:
        epsilon: of all. temperature: chosen on validation data.
        shared, mixed, changed: of :mod:`dplib.labels.cifar_study`: ``share_map``, ``mixup_map``, ``ablations``.
        one_stage: accuracies of LP-1ST at the same budget, by seed. classes: how many there are.
        real: whether the data are CIFAR-10 or copies of it; a stand-in decides nothing.
        about: a sentence on data, network and seeds. tuning: one on mixup in the tuning of another network.
    """

    epsilon: float
    temperature: float
    shared: pd.DataFrame
    mixed: pd.DataFrame
    changed: pd.DataFrame
    one_stage: pd.Series
    classes: int
    real: bool
    about: str
    tuning: str = ""

    def sign(self, difference: Measured | None) -> int:
        """1 above 0 beyond chance, -1 below, else 0; 0 on a stand-in."""
        if difference is None or not self.real:
            return 0
        return 1 if difference.low > 0 else -1 if difference.high < 0 else 0


def verdict_of(*signs: int) -> str:
    """Holds where all are shown; nothing that a small head shows refutes."""
    return "holds" if signs and all(sign == 1 for sign in signs) else "undecided"


def effects(maps: Maps) -> dict[str, Any]:
    """Each change of the recipe less the paper's recipe, paired by seed."""
    usual = next(iter(ABLATIONS))
    return {
        name: label_maps.paired(maps.changed, "final", {"change": name}, {"change": usual})
        for name in ABLATIONS
        if name != usual
    }


def wrong_and_kept(maps: Maps) -> tuple[Measured, ...]:
    """Percent of stage 1's answers that are wrong before and after the filter, and that it keeps."""
    rows = maps.changed[maps.changed["change"] == next(iter(ABLATIONS))]
    return tuple(mean_interval(100 * rows[name].to_numpy()) for name in ("wrong_before", "wrong_after", "kept"))


def opposite(signs: Sequence[int]) -> str:
    """What to say where one of the differences has the other sign."""
    return OPPOSITE if -1 in signs else ""


def less(rows: pd.DataFrame, one_stage: pd.Series) -> Measured | None:
    """Final accuracy less that of one stage, over the seeds of both."""
    both = pd.concat([rows.set_index("seed")["final"], one_stage], axis=1, join="inner")
    return mean_interval((both.iloc[:, 0] - both.iloc[:, 1]).to_numpy()) if len(both) > 1 else None


def group(rows: pd.DataFrame, wanted) -> np.ndarray:
    """Mean final accuracy of the wanted rows, by seed."""
    return rows[wanted].groupby("seed")["final"].mean().sort_index().to_numpy()


def difference(a: Sequence[float], b: Sequence[float]) -> Measured | None:
    """a - b, paired; None where one of them has no rows."""
    return paired(a, b).difference if len(a) and len(b) else None


def complete(a: pd.Series | None, b: pd.Series | None) -> Measured | None:
    """a - b over the seeds that have both; None for fewer than two."""
    if a is None or b is None:
        return None
    both = a.notna() & b.notna()
    return paired(a[both].to_numpy(), b[both].to_numpy()).difference if both.sum() > 1 else None


def turned(m: Measured | None) -> Measured | None:
    """The difference the other way round."""
    return None if m is None else Measured(-m.value, -m.high, -m.low, m.n)


def known(values: Mapping[str, Measured | None]) -> dict[str, Measured]:
    """Those that were run."""
    return {name: value for name, value in values.items() if value is not None}
