"""One learning rate for two networks, or one for each (paper B, Section VII-C, Figure 9)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dplib import stats
from dplib.architecture.workflow_verdicts import names
from dplib.architecture.workflows import COMPLEX, SIMPLE
from dplib.stats import Comparison, Measured

Record = tuple[str, dict[str, Any], str, str]
HALF = 0.5  # points: less is no reason to tune again


@dataclass(frozen=True)
class Rates:
    """Test accuracies in percent (seeds,), the same seeds everywhere.

    Attributes:
        own: of each network at the rate that validation chose for it. own_rate: that rate.
        shared: at given rates, by rate and network.
        sgd_rate: the rate that validation chose for each network without privacy, where known.
        place: data set and budget, for the text.
    """

    own: Mapping[str, np.ndarray]
    own_rate: Mapping[str, float]
    shared: Mapping[float, Mapping[str, np.ndarray]]
    sgd_rate: Mapping[str, float]
    place: str

    @property
    def gap(self) -> Comparison:
        """Simple minus complex, each at its own rate."""
        return stats.paired(self.own[SIMPLE], self.own[COMPLEX])

    @property
    def gaps(self) -> dict[float, Comparison]:
        """The same, both at a shared rate."""
        return {r: stats.paired(one[SIMPLE], one[COMPLEX]) for r, one in self.shared.items()}

    @property
    def moved(self) -> dict[float, int]:
        """-1 where a shared rate makes the gap smaller than own rates do, 1 larger; beyond chance, Bonferroni."""
        own = self.own[SIMPLE] - self.own[COMPLEX]
        found = {r: stats.paired(one[SIMPLE] - one[COMPLEX], own) for r, one in self.shared.items()}
        return {r: int(np.sign(c.difference.value)) if c.p_value * len(found) < 0.05 else 0 for r, c in found.items()}

    @property
    def hidden(self) -> list[float]:
        """Shared rates at which the simple network's lead does not show."""
        leads = self.gap.difference.low > 0
        return [r for r, sign in self.moved.items() if leads and sign == -1 and self.gaps[r].difference.low <= 0]

    def lost(self, model: str, rate: float) -> Measured:
        """What a network loses at a shared rate against its own."""
        return stats.paired(self.own[model], self.shared[rate][model]).difference

    @property
    def serving(self) -> list[float]:
        """Shared rates at which neither network loses half a point, by the upper ends of the intervals."""
        return [r for r in self.shared if all(self.lost(m, r).high < HALF for m in self.own)]

    @property
    def costly(self) -> bool:
        """At every shared rate that was run one of the networks loses beyond chance."""
        return all(any(self.lost(m, r).low > 0 for m in self.own) for r in self.shared)

    @property
    def reused(self) -> dict[str, Measured]:
        """What each network loses at its rate for plain SGD, where that rate was run."""
        return {m: self.lost(m, r) for m, r in self.sgd_rate.items() if r in self.shared}

    def values(self) -> dict[str, Measured]:
        """The gaps, as a ledger row takes them."""
        return {f"gap at {r:g}": g.difference for r, g in self.gaps.items()} | {"gap at own rates": self.gap.difference}

    def in_words(self) -> str:
        """What a shared rate does here, for the page."""
        larger = [f"{r:g}" for r, sign in self.moved.items() if sign == 1]
        return (
            f"Against own rates, a shared rate hides the simple network's lead at {_rates(self.hidden)}, and enlarges "
            f"the gap at {names(larger)}. Shared rates at which neither network loses half a point: "
            f"{_rates(self.serving)}."
        )


def learning_rate(found: Rates) -> Record:
    """Section VII-C in three parts: a shared rate can hide the gap; each network needs its own; SGD's do not serve."""
    reuse_fails = len(found.reused) == len(found.own) and all(m.low > 0 for m in found.reused.values())
    verdict = (
        "holds"
        if found.hidden and found.costly and reuse_fails
        else "holds with change"
        if found.hidden
        else "undecided"
    )
    values = found.values() | {
        "own_rate_simple": float(found.own_rate[SIMPLE]),
        "own_rate_complex": float(found.own_rate[COMPLEX]),
        "lead hidden at": _rates(found.hidden),
        "one rate serves both at": _rates(found.serving),
    }
    values |= {f"loss at the rate of SGD, {m}": loss for m, loss in found.reused.items()}
    reused = "; ".join(f"{m} loses {loss}" for m, loss in found.reused.items())
    because = (
        f"{found.place}. At own rates the gap is {found.gap}. That a shared rate can hide it: at "
        f"{_rates(found.hidden)} (paired, Bonferroni). That each network needs its own: "
        + (
            "every rate that was run costs one of them accuracy beyond chance"
            if found.costly
            else f"not shown; at {_rates(found.serving)} neither loses half a point"
        )
        + ". That rates for SGD cannot be reused: "
        + (f"{reused}." if reused else "not tested, their rates were not run under DP-SGD.")
    )
    return "B.learning-rate", values, verdict, because


def figure9(found: Rates) -> Record:
    """Figure 9 on another data set: only own rates show the best of each network."""
    worse = [f"{m} at {r:g}" for r in found.shared for m in found.own
             if r != found.own_rate[m] and found.lost(m, r).low > 0]  # fmt: skip
    asked = sum(r != found.own_rate[m] for r in found.shared for m in found.own)
    because = (
        f"SVHN is not here: FCNs instead ({found.place}), other rates (they scale with batch and clipping). Of the "
        f"{asked} pairs of a network and a shared rate other than its own, {len(worse)} lose accuracy beyond chance: "
        f"{names(worse)}. Neither network loses half a point at {_rates(found.serving)}."
    )
    verdict = "holds with change" if found.costly else "undecided"
    return "B.fig9", found.values(), verdict, because


def _rates(rates: list[float]) -> str:
    return names(f"{r:g}" for r in rates)
