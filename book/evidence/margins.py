"""The smallest differences that a reader would act on, by metric and data set: ``book/claims/margins.yml``.

A rule (:mod:`book.evidence.rules`) names one where it could have a number, ``by: {margin: [accuracy_points, mnist]}``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, Field

from book.evidence import places
from dplib import checks, files
from dplib.checks import ParameterError

PATH = places.ROOT / "book" / "claims" / "margins.yml"
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Text = Annotated[str, Field(pattern=r"\S")]


@dataclass(frozen=True)
class Margin:
    """A margin of a metric on a data set, in the metric's ``unit``; of a ``ratio``, the factor, above 1."""

    metric: str
    data: str
    value: float
    reason: str
    unit: str
    ratio: bool = False

    def around(self, centre: float) -> tuple[float, float]:
        """What is the same as a value, up to this margin: the least and the most."""
        return (centre / self.value, centre * self.value) if self.ratio else (centre - self.value, centre + self.value)

    @property
    def name(self) -> str:
        return f"margin {self.metric}, {self.data}"

    @property
    def neutral(self) -> float:
        """What "no difference" is: 1 of a ratio, else 0."""
        return 1.0 if self.ratio else 0.0

    def __str__(self) -> str:
        return f"{self.value:g} ({self.name})"


class _Entry(BaseModel, extra="forbid"):
    margin: Positive
    reason: Text


class _Metric(BaseModel, extra="forbid"):
    unit: Text
    ratio: bool = False
    of: str = ""
    times: Positive = 1.0
    data: dict[str, _Entry] = {}


@cache
def load() -> Mapping[str, Mapping[str, Margin]]:
    """All margins by metric, then data set; ParameterError for a malformed file."""
    metrics = files.checked(PATH, dict[str, _Metric])
    table = {}
    for name, metric in metrics.items():
        origin = metrics.get(metric.of) if metric.of else metric
        if not (origin and origin.data) or (metric.of and (metric.data or metric.ratio or origin.ratio)):
            raise ParameterError(f"{PATH}: {name} must have data, or else be of a metric that has, neither a ratio.")
        table[name] = {
            data: Margin(name, data, round(entry.margin * metric.times, 12), entry.reason, metric.unit, metric.ratio)
            for data, entry in origin.data.items()
        }
        if metric.ratio and any(margin.value <= 1 for margin in table[name].values()):
            raise ParameterError(f"{PATH}: the margins of {name}, a ratio, must be above 1.")
    return table


def get(metric: str, data: str) -> Margin:
    """The margin of a metric on a data set; ParameterError, which says what there is, for an unknown one."""
    table = load()
    for kind, name, known in (("metric", metric, table), ("data set", data, table.get(metric, ()))):
        if name not in known:
            raise ParameterError(
                f"margin [{metric}, {data}]: the {kind} {checks.shown(name)} is not in {PATH.name}: "
                f"it must be one of {', '.join(known)}."
            )
    return table[metric][data]


def named(reference: Mapping[str, Any]) -> Margin:
    """The margin that a rule names, ``{margin: [METRIC, DATA SET]}``, with or without ``side: lower``.

    Raises:
        ParameterError: for anything else, or an unknown margin.
    """
    checks.check_names(reference, ["margin", "side"], "a margin in a rule")
    pair = reference.get("margin")
    if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(name, str) for name in pair)):
        raise ParameterError(f"margin = {checks.shown(pair)} is not allowed: it must be [METRIC, DATA SET].")
    if reference.get("side", "upper") not in ("upper", "lower"):
        raise ParameterError(f"side = {checks.shown(reference['side'])} is not allowed: it must be upper or lower.")
    return get(*pair)


def bound(reference: Mapping[str, Any]) -> float:
    """The number that a rule's reference to a margin stands for: the upper end of "no difference", or the lower."""
    margin = named(reference)
    lower, upper = margin.around(margin.neutral)
    return lower if reference.get("side") == "lower" else upper
