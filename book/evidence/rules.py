"""The rules that turn measured values into a verdict: few, shared, and each can come out either way.

A row of the ledger (``book/claims/*.yml``) states its rule as data, one of

    exact: {value: NAME, equals: NUMBER or text}
    within: {value: NAME, of: PRINTED NAME or NUMBER, by: MARGIN}     the value is the printed one, up to a margin
    ahead: {value: NAME, by: 0}                                       the value is above ``by``
    behind: {value: NAME, by: 0}                                      the value is below ``by``
    equivalent: {value: NAME, margin: NUMBER}                         the value is 0, up to a margin that matters
    in_range: {value: NAME, least: NUMBER, most: NUMBER}
    ordered: {values: [NAMES]}                                        values rise strictly in this order
    bound: {claimed: NAME, at_least: NAME, at_most: NAME}             a claim of all cases: it holds if what is proved
                                                                      of all is no more, and is refuted if one case is
                                                                      more; a case below it shows nothing
    count: {value: NAME, of: NAME or NUMBER, least: NUMBER}           at least so many (``most``: at most) of all;
                                                                      with ``against: NAME``, undecided unless the rest
                                                                      of all is against it
    all_of: [RULES], any_of: [RULES]
    readings: [RULES]                                                 what the text allows a fair reader, one rule each
    by_hand: {holds: true or false, proof: what shows it}
    not_tested: WHY                                                   no rule can be applied by us

where a MARGIN, ``by``, ``least`` and ``most`` may name one of :mod:`book.evidence.margins` instead of a number, such as
``by: {margin: [accuracy_points, mnist]}``, or its other side, ``{margin: [loss, mnist], side: lower}``; a row also
says with ``needs`` what must be there before it may decide: ``{runs: 5}``, runs behind each value that has an interval,
and ``{ahead: [NAMES]}``, values that are above 0, such as SGD's lead where a cost of privacy is compared, or a model's
over a constant. Each comes out true, false or undecided (None). A row may also say that its runs are of a ``stand_in``,
which decides nothing, and name ``absent`` values, which nobody measured; :func:`points` says where the others point.

One convention throughout. A value with an interval is on one side of a bound if its 95% interval is; "the same" is two
one-sided tests at 5%, which is the 90% interval inside the margin. Of many comparisons: ``all_of`` holds if each does
at its own level, and is refuted by one of k only at a level of 5%/k; ``any_of`` the other way round. ``readings`` are
not many comparisons but one, read several ways: each at its own level, and nothing is said before all are decided.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import scipy  # its parts when one is asked, as in dplib.stats

from book.evidence import margins
from book.evidence.margins import Margin
from dplib import checks, stats
from dplib.checks import ParameterError
from dplib.stats import Measured

LEVEL = 0.05
BOUNDS = ("by", "margin", "least", "most")  # what may name a margin
Values = Mapping[str, Any]
Decision = bool | None

HOLDS, CORRECTED, FAILS, UNDECIDED = "holds", "holds with change", "fails", "undecided"
UNSTATED, NOT_TESTED = "not reproducible as stated", "not tested"
FOR, AGAINST, NEITHER = POINTS = ("points for", "points against", "points neither way")
LEANS = 0.32  # the level of points: the interval is about a standard error to either side
UNMEASURED = Measured(math.nan, n=1)  # decides nothing, and is shown as a dash


def verdict(row: Mapping[str, Any], values: Values, printed: Values) -> str:
    """A row's verdict from measured and printed values by name.

    ``row`` has "rule", of the claim as printed, and, where a correction makes it true, "corrected", of that; "unstated"
    names what a reader would have to know and the paper does not say. "holds with change" where the printed claim is
    refuted and the corrected one holds, "undecided" where that one is open: what fails is false under the most
    charitable reading, too. "not reproducible as stated" where it fails and something is unstated, or where some of its
    ``readings`` hold and others fail. "stand_in" says what was run in place of what the statement names: that is
    undecided, whatever came out. "absent" has values that nobody measured, by name.

    Raises:
        ParameterError: for a rule that does not exist, or names a value that is not there.
    """
    if kind_of(row["rule"])[0] == "not_tested":
        return NOT_TESTED
    values = _with_absent(row, values)
    if row.get("stand_in"):
        return UNDECIDED
    as_printed = decide(row["rule"], values, printed)
    if as_printed:
        return HOLDS
    if as_printed is None:
        return UNDECIDED
    if any(decide(reading, values, printed) for reading in readings(row["rule"])):
        return UNSTATED
    if row.get("corrected"):
        as_corrected = decide(row["corrected"], values, printed)
        if as_corrected is not False:
            return CORRECTED if as_corrected else UNDECIDED
    return UNSTATED if row.get("unstated") else FAILS


def points(row: Mapping[str, Any], values: Values, printed: Values) -> str:
    """Where the values of an undecided row point, one of :data:`POINTS`: what its rule says of them at the level
    :data:`LEANS`, however few runs they have, without what is absent; or its "points", a rule over other values.

    Raises:
        ParameterError: as :func:`verdict`.
    """
    values = _with_absent(row, values)
    rule = row.get("points") or _measured(row["rule"], row.get("absent") or {})
    outcome = decide(rule, values, printed, LEANS, LEANS) if rule else None
    return {True: FOR, False: AGAINST, None: NEITHER}[outcome]


def _with_absent(row: Mapping[str, Any], values: Values) -> Values:
    absent = row.get("absent") or {}
    if both := absent.keys() & values.keys():
        raise ParameterError(f"absent = {', '.join(both)} is not allowed: it must not be measured.")
    return {**dict.fromkeys(absent, UNMEASURED), **values}


def _measured(rule: Mapping[str, Any], absent: Mapping[str, str]) -> Mapping[str, Any] | None:
    """A rule without the parts that ask for absent values, and without needs of runs; None where nothing is left.

    A part without needs of its own has those around it, and so gets none here.
    """
    kind, about = kind_of(rule)
    needs = {name: value for name, value in rule.get("needs", {}).items() if name != "runs"}
    own = {"needs": needs} if "needs" in rule else {}
    if kind in COMBINED:
        parts = [part for inner in about if (part := _measured(inner, absent))]
        return {kind: parts, **own} if parts else None
    return None if set(names(rule)) & absent.keys() else {kind: about, **own}


def decide(
    rule: Mapping[str, Any], values: Values, printed: Values, support: float = LEVEL, refute: float = LEVEL
) -> Decision:
    """Whether a rule holds (True), is refuted (False), or neither (None).

    Args:
        support, refute: levels at which a comparison may support the rule, or refute it.
    """
    (kind, about), needs = kind_of(rule), rule.get("needs", {})
    if kind == "readings":
        inner = [decide(reading, values, printed, support, refute) for reading in readings(rule)]
        return None if None in inner else all(inner)
    if kind in ("all_of", "any_of"):
        levels = (support, refute / len(about)) if kind == "all_of" else (support / len(about), refute)
        inner = [decide({"needs": needs, **inner_rule}, values, printed, *levels) for inner_rule in about]
        return _all(inner) if kind == "all_of" else _not(_all([_not(inner_rule) for inner_rule in inner]))
    if kind in ("by_hand", "not_tested"):
        return about["holds"] if kind == "by_hand" else None
    if any(_runs(values, name) < needs.get("runs", 0) for name in names(rule)):
        return None
    if not all(_ahead({"value": name}, values, printed, LEVEL, LEVEL) for name in needs.get("ahead", ())):
        return None
    return KINDS[kind][3](about, values, printed, support, refute)


class Open(NamedTuple):
    """A comparison that its runs leave open.

    Attributes:
        name: the value.
        measured: it, with its 95% interval; of one run or none it has no width.
        away: how far its estimate is from the nearest bound: an interval that reaches less far to that side decides.
        reach: how far its interval reaches to that side now; NaN without one.
        asked: runs that the rule needs behind it; 0 for no number.
    """

    name: str
    measured: Measured
    away: float
    reach: float
    asked: int


def still_open(row: Mapping[str, Any], values: Values, printed: Values) -> list[Open]:
    """The comparisons with a bound that are open in the rule of a row, in its order; of several, the first bound.

    Where what is printed is refuted, they are those of the correction, which keeps the row open.

    Args:
        row: as :func:`verdict` takes it.
        values: measured, by name.
        printed: values of the paper, by name.
    """
    values = _with_absent(row, values)
    refuted = row.get("corrected") and decide(row["rule"], values, printed) is False
    comparisons = _still_open(row["corrected"] if refuted else row["rule"], values, printed)
    return list({comparison.name: comparison for comparison in reversed(list(comparisons))}.values())[::-1]


def _still_open(rule: Mapping[str, Any], values: Values, printed: Values) -> Iterator[Open]:
    kind, about = kind_of(rule)
    if kind in COMBINED:
        for inner in about:
            inner = {"needs": rule.get("needs", {}), **inner}
            if kind != "readings" or decide(inner, values, printed) is None:  # what a decided reading asks is settled
                yield from _still_open(inner, values, printed)
    elif kind in _ALLOWED and decide(rule, values, printed) is None:
        needs = rule.get("needs", {})
        asked, bounds = needs.get("runs", 0), _ALLOWED[kind](about, printed)
        if decide({kind: about}, values, printed) is None or _runs(values, about["value"]) < asked:
            yield from _open(about["value"], values, bounds, asked)
        else:  # what the rule needs first is open
            for name in needs.get("ahead", ()):
                if _ahead({"value": name}, values, printed, LEVEL, LEVEL) is not True:
                    yield from _open(name, values, (0.0, math.inf), asked)


def _open(name: str, values: Values, bounds: tuple[float, float], asked: int) -> Iterator[Open]:
    value = _value(values, name)
    value = Measured(**value) if isinstance(value, Mapping) else value
    if isinstance(value, Measured):
        number = float(value.value)  # a notebook keeps what is not a number as a text
        nearest = min(filter(math.isfinite, bounds), key=lambda bound: abs(number - bound))
        end = value.low if nearest <= number else value.high
        reach = math.nan if end is None else abs(number - end)
        yield Open(name, replace(value, value=number), abs(number - nearest), reach, asked)


def kind_of(rule: Mapping[str, Any]) -> tuple[str, Any]:
    """The name of a rule and what it is about; ParameterError unless there is exactly one, well formed."""
    kinds = [(key, value) for key, value in rule.items() if key != "needs"]
    if len(kinds) != 1 or kinds[0][0] not in KINDS:
        raise ParameterError(f"rule {dict(rule)} is not allowed: it must have one of {', '.join(KINDS)}.")
    kind, about = kinds[0]
    checks.check_names(rule.get("needs", {}), ["runs", "ahead"], f"needs of {kind}")
    if kind in COMBINED:
        checks.list_of(checks.Rule("a rule", lambda value: isinstance(value, Mapping))).check(kind, about)
        if any("readings" in inner_rule for inner_rule in about):
            raise ParameterError(f"rule {kind}: readings are not allowed inside another rule: a statement has them.")
        return kind, about
    if kind == "not_tested":
        checks.Rule("a reason", lambda why: isinstance(why, str) and bool(why.strip())).check(kind, about)
        return kind, about
    must, may, one_of, _ = KINDS[kind]
    checks.check_names(about, (*must, *may, *one_of), f"rule {kind}")
    if any(key not in about for key in must) or (one_of and not set(one_of) & set(about)):
        more = f", and {' or '.join(one_of)}" if one_of else ""
        raise ParameterError(f"rule {kind}: {about} is not allowed: it must have {', '.join(must)}{more}.")
    _check_margins(kind, about)
    if kind == "ordered":
        checks.list_of(checks.Rule("a name", lambda value: isinstance(value, str)), least=2).check(
            "values", about["values"]
        )
    return kind, about


def readings(rule: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rules of the readings of a statement, each with what all of them need; [] where it is read in one way."""
    kind, about = kind_of(rule)
    return [{"needs": rule.get("needs", {}), **reading} for reading in about] if kind == "readings" else []


def names(rule: Mapping[str, Any]) -> list[str]:
    """The measured values that a rule asks for."""
    kind, about = kind_of(rule)
    if kind in COMBINED:
        return [name for inner_rule in about for name in names(inner_rule)]
    if kind in ("by_hand", "not_tested"):
        return []
    if kind == "bound":
        return [about["at_least"], about["at_most"], about["claimed"]]
    of = [about["of"]] if kind == "count" and isinstance(about["of"], str) else []
    return [*about.get("values", ()), *(about[key] for key in ("value", "against") if key in about), *of]


def margins_of(rule: Mapping[str, Any]) -> list[Margin]:
    """The margins that a rule names; ParameterError for an unknown one."""
    kind, about = kind_of(rule)
    if kind in COMBINED:
        return [margin for inner in about for margin in margins_of(inner)]
    if kind == "not_tested":
        return []
    return [margins.named(about[key]) for key in BOUNDS if isinstance(about.get(key), Mapping)]


def asks(rule: Mapping[str, Any]) -> list[str]:
    """Which questions a rule asks, each once: direction, against 0 or of an order; relevance, against a margin; size as
    printed, against a printed number; size as stated, against a number of the statement; and count, equality, proof.
    """
    kind, about = kind_of(rule)
    if kind in COMBINED:
        return list(dict.fromkeys(question for inner in about for question in asks(inner)))
    bounds = [about[key] for key in ("of", "equals", *BOUNDS) if key in about] if isinstance(about, Mapping) else []
    if kind in ("exact", "within") or (kind in ("ahead", "behind", "in_range") and any(map(_is_text, bounds))):
        return [
            "size as printed" if any(map(_is_text, bounds)) else "equality" if kind == "exact" else "size as stated"
        ]
    if kind == "equivalent" or any(isinstance(bound, Mapping) for bound in bounds):
        return ["relevance"]
    if kind == "in_range":
        return ["size as stated"]
    if kind in ("ahead", "behind"):
        return ["size as stated" if about.get("by", 0) else "direction"]
    return {"ordered": ["direction"], "bound": ["direction"], "count": ["count"], "by_hand": ["proof"]}.get(kind, [])


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def words(rule: Mapping[str, Any]) -> str:
    """A rule for people, such as "gain mnist above 0; gain fashion mnist above 0 (5 runs or more)"."""
    kind, about = kind_of(rule)
    asked = rule.get("needs", {})
    needs = [f"{asked['runs']} runs or more"] if "runs" in asked else []
    needs += [f"if {name.replace('_', ' ')} is above 0" for name in asked.get("ahead", ())]
    needs = f" ({', '.join(needs)})" if needs else ""
    if kind in COMBINED:
        return COMBINED[kind].join(words(inner_rule) for inner_rule in about) + needs
    if kind == "by_hand":
        return f"by hand: {about['proof'].rstrip('.')}"
    if kind == "not_tested":
        return f"none, as {about.rstrip('.')}"
    value = str(about.get("value", "")).replace("_", " ")
    ends = [
        f"{name} {_in_words(about[key])}" for name, key in (("at least", "least"), ("at most", "most")) if key in about
    ]
    by = about.get("by", 0)
    side = _in_words(by) if isinstance(by, Mapping) else by
    of = about.get("of", "")
    if isinstance(of, str):
        of = "the printed one" if of == about.get("value") else "those" if of == "of" else of.replace("_", " ")
    equals = about.get("equals")
    if equals == about.get("value"):
        equals = "the printed one"
    says = {
        "exact": lambda: f"{value} is {equals if isinstance(equals, str) else f'{equals:.6g}'}",
        "within": lambda: f"{value} within {_in_words(by)} of {of}",
        "ahead": lambda: f"{value} above {side}",
        "behind": lambda: f"{value} below {side}",
        "equivalent": lambda: f"{value} is {_neutral(about['margin']):g}, up to {_in_words(about['margin'])}",
        "in_range": lambda: f"{value.removesuffix(' at most')} {' and '.join(ends)}",
        "ordered": lambda: " < ".join(about["values"]).replace("_", " "),
        "bound": lambda: "all cases, {at_most}, at most {claimed} (not: {at_least})".format(**about).replace("_", " "),
        "count": lambda: f"{value} {' and '.join(ends)}, of {of}",
    }
    return says[kind]() + needs


def by_hand(rule: Mapping[str, Any]) -> Iterator[str]:
    """The proofs that a rule rests on instead of values."""
    kind, about = kind_of(rule)
    if kind in COMBINED:
        for inner_rule in about:
            yield from by_hand(inner_rule)
    elif kind == "by_hand":
        yield about["proof"]


def interval(value: Any, level: float) -> tuple[float, float]:
    """The (1 - level) interval of a value: exact of a share, of another Measured one by Student's t, from its 95%
    interval; a number is exact, and a value of one run or none has no interval, and tells nothing.
    """
    if isinstance(value, Mapping):
        value = Measured(**value)
    if not isinstance(value, Measured):
        return float(value), float(value)
    if value.low is None or value.high is None:
        return (-math.inf, math.inf) if value.n in (0, 1) else (value.value, value.value)
    if value.share:
        share = stats.proportion_interval(round(value.value * value.n), value.n, 1 - level)
        return share.low, share.high
    freedom = value.freedom or (value.n - 1 if value.n and value.n > 1 else math.inf)  # of one run: not Student's
    scale = scipy.stats.t.ppf(1 - level / 2, freedom) / scipy.stats.t.ppf(0.975, freedom)
    return value.value - scale * (value.value - value.low), value.value + scale * (value.high - value.value)


def _exact(about: Mapping[str, Any], values: Values, printed: Values, support: float, refute: float) -> Decision:
    measured, wanted = _value(values, about["value"]), about["equals"]
    if isinstance(measured, Measured | Mapping):
        raise ParameterError(f"{about['value']} = {measured} is not allowed in an exact rule: it must be exact itself.")
    if isinstance(measured, Real) and math.isnan(measured):
        return None
    if isinstance(wanted, str) and (wanted in printed or isinstance(measured, Real)):  # else it is a text itself
        wanted = _number(wanted, printed)
    if all(isinstance(value, Real) for value in (measured, wanted)):
        return math.isclose(measured, wanted, rel_tol=1e-9)
    return measured == wanted


def _within(about: Mapping[str, Any], values: Values, printed: Values, support: float, refute: float) -> Decision:
    centre = _number(about["of"], printed)
    least, most = _ALLOWED["within"](about, printed)
    slack = 1e-9 * max(abs(centre), most - centre)  # 98.31 is within 0.1 of 98.21, whatever binary fractions make of it
    bounds = {"value": about["value"], "least": least - slack, "most": most + slack}
    return _in_range(bounds, values, printed, support, refute)


def _in_range(about: Mapping[str, Any], values: Values, printed: Values, support: float, refute: float) -> Decision:
    least, most = _ALLOWED["in_range"](about, printed)
    value = _value(values, about["value"])
    low, high = interval(value, support)
    if least <= low and high <= most:
        return True
    low, high = interval(value, refute)
    return False if high < least or low > most else None


def _ahead(
    about: Mapping[str, Any], values: Values, printed: Values, support: float, refute: float, side: int = 1
) -> Decision:
    """Whether a value lies above another; on side -1, below."""
    value, by = _value(values, about["value"]), side * _number(about.get("by", 0), printed)
    shown, not_refuted = ([side * end for end in interval(value, level)[::side]] for level in (support, refute))
    if shown[0] > by:
        return True
    low, high = not_refuted
    return False if high < by or low == high == by else None


def _equivalent(about: Mapping[str, Any], values: Values, printed: Values, support: float, refute: float) -> Decision:
    least, most = _ALLOWED["equivalent"](about, printed)
    bounds = {"value": about["value"], "least": least, "most": most}
    return _in_range(bounds, values, printed, 2 * support, refute)  # two one-sided tests, each at the level


def _ordered(about: Mapping[str, Any], values: Values, printed: Values, support: float, refute: float) -> Decision:
    measured = [_value(values, name) for name in about["values"]]
    pairs = list(itertools.pairwise(measured))
    refute /= len(pairs)  # as in all_of: it is refuted by one of them
    if all(interval(a, support)[1] < interval(b, support)[0] for a, b in pairs):
        return True
    return False if any(interval(a, refute)[0] >= interval(b, refute)[1] for a, b in pairs) else None


def _bound(about: Mapping[str, Any], values: Values, printed: Values, support: float, refute: float) -> Decision:
    claimed, shown, proved = (_value(values, about[name]) for name in ("claimed", "at_least", "at_most"))
    if interval(shown, refute)[0] > interval(proved, refute)[1]:
        raise ParameterError(f"{about['at_least']} = {shown} is not allowed: {about['at_most']} = {proved} bounds it.")
    if interval(proved, support)[1] <= interval(claimed, support)[0]:
        return True
    return False if interval(shown, refute)[0] > interval(claimed, refute)[1] else None


def _count(about: Mapping[str, Any], values: Values, printed: Values, support: float, refute: float) -> Decision:
    measured = _value(values, about["value"])
    total = _value(values, about["of"]) if isinstance(about["of"], str) else about["of"]
    against = _value(values, about["against"]) if "against" in about else 0
    for name, number in ((about["value"], measured), ("of", total), ("against", against)):
        checks.integer(0).check(name, number)
    if measured > total - against:
        raise ParameterError(f"{about['value']} = {measured} is not allowed: it must be at most {total - against}.")
    most = total - against if "against" in about else measured  # some may be open
    if about.get("least", 0) <= measured and most <= about.get("most", total):
        return True
    return False if most < about.get("least", 0) or measured > about.get("most", total) else None


# What a rule must have, what it may have, of what it must have at least one, lest it always hold, and who decides it.
KINDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], Callable[..., Decision] | None]] = {
    "exact": (("value", "equals"), (), (), _exact),
    "within": (("value", "of", "by"), (), (), _within),
    "ahead": (("value",), ("by",), (), _ahead),
    "behind": (("value",), ("by",), (), partial(_ahead, side=-1)),
    "equivalent": (("value", "margin"), (), (), _equivalent),
    "in_range": (("value",), (), ("least", "most"), _in_range),
    "ordered": (("values",), (), (), _ordered),
    "bound": (("claimed", "at_least", "at_most"), (), (), _bound),
    "count": (("value", "of"), ("against",), ("least", "most"), _count),
    "all_of": ((), (), (), None),
    "any_of": ((), (), (), None),
    "readings": ((), (), (), None),
    "by_hand": (("holds", "proof"), (), (), None),
    "not_tested": ((), (), (), None),
}
# Between which two numbers a value has to be.
_ALLOWED: Mapping[str, Callable[..., tuple[float, float]]] = {
    "within": lambda about, printed: _around(_number(about["of"], printed), about["by"]),
    "equivalent": lambda about, printed: _around(_neutral(about["margin"]), about["margin"]),
    "ahead": lambda about, printed: (_number(about.get("by", 0), printed), math.inf),
    "behind": lambda about, printed: (-math.inf, _number(about.get("by", 0), printed)),
    "in_range": lambda about, printed: (
        _number(about.get("least", -math.inf), printed),
        _number(about.get("most", math.inf), printed),
    ),
}
COMBINED = {"all_of": "; ", "any_of": " or ", "readings": "; and, read otherwise: "}  # rules of rules, and in words


def _all(outcomes: list[Decision]) -> Decision:
    if False in outcomes:
        return False
    return None if None in outcomes else True


def _not(outcome: Decision) -> Decision:
    return None if outcome is None else not outcome


def _value(values: Values, name: str) -> Any:
    if name not in values:
        raise ParameterError(f"{name} is not among the measured values: they are {', '.join(values)}.")
    return values[name]


def _number(value: Any, printed: Values) -> Any:
    """A number as it is, the end of a margin, or the printed value of that name."""
    if isinstance(value, Mapping):
        return margins.bound(value)
    if isinstance(value, str) and value not in printed:
        raise ParameterError(f"{value} is not among the printed values: they are {', '.join(map(str, printed))}.")
    return printed[value] if isinstance(value, str) else value


def _around(centre: float, margin: Any) -> tuple[float, float]:
    """What is the same as a number, up to a margin: a number, or the name of one."""
    return margins.named(margin).around(centre) if isinstance(margin, Mapping) else (centre - margin, centre + margin)


def _neutral(margin: Any) -> float:
    """What "no difference" is, in the unit of a margin."""
    return margins.named(margin).neutral if isinstance(margin, Mapping) else 0.0


def _in_words(bound: Any) -> str:
    if not isinstance(bound, Mapping):
        return f"{bound:g}"
    margin = margins.named(bound)
    return f"{margins.bound(bound):g} ({margin.name})" if "side" in bound else str(margin)


def _check_margins(kind: str, about: Mapping[str, Any]) -> None:
    """Refuse an unknown margin, and a side of one where both sides are asked for."""
    for key in (key for key in BOUNDS if isinstance(about.get(key), Mapping)):
        if kind == "count" or ("side" in about[key] and kind in ("within", "equivalent")):
            allowed, given = "a number" if kind == "count" else "a margin without a side", checks.shown(about[key])
            raise ParameterError(f"rule {kind}: {key} = {given} is not allowed: it must be {allowed}.")
        margins.named(about[key])


def _runs(values: Values, name: str) -> float:
    """Independent runs behind a value; an exact number needs none."""
    value = _value(values, name)
    if isinstance(value, Mapping):
        value = Measured(**value)
    return value.n if isinstance(value, Measured) and value.n is not None else math.inf
