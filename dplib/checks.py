"""Parameter checks: a senseless value ends a notebook at once, with one sentence that says what is allowed.

Every chapter's second cell calls :func:`parameters` with a rule for each parameter::

    checks.parameters(globals(), epsilon=checks.positive(), dataset=checks.one_of("digits", "mnist"))
"""

import ast
import difflib
import functools
import inspect
import math
import reprlib
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

HUGE = 1e100  # what can be squared and multiplied


class ParameterError(ValueError):
    """A parameter has a name or a value that is not allowed; the message is one readable sentence."""

    def _render_traceback_(self) -> list[str]:
        """IPython prints this instead of a stack: the reader needs the sentence, not our call chain."""
        return [f"ParameterError: {self}"]


@dataclass(frozen=True)
class Rule:
    """What a value must satisfy.

    Args:
        allowed: what is allowed, in words that go on after "it must be".
        accepts: decides about a value.
    """

    allowed: str
    accepts: Callable[[Any], bool]

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that the rule does not accept.

        Args:
            name: what the message calls the parameter.
            value: anything.

        Raises:
            ParameterError: otherwise, naming the parameter, its value and what is allowed.
        """
        if not self.accepts(value):
            raise ParameterError(f"{name} = {shown(value)} is not allowed: it must be {self.allowed}.")


def number(least: float = -math.inf, most: float = math.inf, *, open_ends: bool = False) -> Rule:
    """A finite real number in [least, most], or in (least, most) with ``open_ends``.

    Args:
        least: the smallest that is allowed; by default there is none.
        most: the largest that is allowed; by default there is none.
        open_ends: neither end itself is allowed.
    """
    left, right = ("(", ")") if open_ends else ("[", "]")
    bounded = math.isfinite(least) or math.isfinite(most)
    allowed = "a finite number" + (f" in {left}{least:g}, {most:g}{right}" if bounded else "")

    def accepts(value: Any) -> bool:
        if not _is_finite(value):
            return False
        value = float(value)  # a float32 would round the bounds
        return least < value < most if open_ends else least <= value <= most

    return Rule(allowed, accepts)


def numbers(
    least: float = -HUGE, most: float = HUGE, *, infinite: bool = False, zero: bool = False, whole: bool = False
) -> Rule:
    """A number or an array of numbers.

    Args:
        least: the smallest that is allowed.
        most: the largest that is allowed.
        infinite: inf is allowed as well.
        zero: 0 is allowed as well, where ``least`` is above it.
        whole: only whole numbers are allowed.
    """
    allowed = f"{'whole numbers' if whole else 'numbers'} in [{least:g}, {most:g}]"
    allowed += "".join(f", or {also}" for also, is_so in (("0", zero), ("inf", infinite)) if is_so)

    def accepts(value: Any) -> bool:
        try:
            given = array("value", value)
        except ParameterError:
            return False
        if given.dtype.kind not in "iuf":
            return False
        given = given.astype(float)
        inside = (given >= least) & (given <= most)
        inside |= (infinite & (given == math.inf)) | (zero & (given == 0))
        return bool((inside & ((given == np.floor(given)) | (not whole))).all())

    return Rule(allowed, accepts)


def single(rule: Rule) -> Rule:
    """One number, where ``rule`` is of :func:`numbers`.

    Args:
        rule: what it must satisfy.
    """
    return Rule(f"one of the {rule.allowed}", lambda v: np.ndim(v) == 0 and rule.accepts(v))


def generator() -> Rule:
    """NumPy's random generator; :func:`bounded` lets None pass where it is annotated."""
    return Rule("a numpy.random.Generator", lambda v: isinstance(v, np.random.Generator))


Function = TypeVar("Function", bound=Callable[..., Any])


def bounded(**rules: Rule) -> Callable[[Function], Function]:
    """Decorates a function: its arguments must satisfy the rules before it begins. None is let pass where it is the
    default, or is annotated.

    Args:
        rules: of arguments by their names.

    Raises:
        ParameterError: where the decorated function is called with a value that its rule does not accept.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        taken = {name: signature.parameters[name] for name in rules}
        optional = {name for name, p in taken.items() if p.default is None or "None" in str(p.annotation)}
        said = {name: Rule(f"{rules[name].allowed}, or None", rules[name].accepts) for name in optional}

        @functools.wraps(function)
        def checked(*args: Any, **named: Any) -> Any:
            for name, value in signature.bind(*args, **named).arguments.items():
                if name in rules and not (value is None and name in optional):
                    said.get(name, rules[name]).check(name, value)
            return function(*args, **named)

        return checked

    return decorate


def positive(least: float = 1 / HUGE, most: float = HUGE) -> Rule:
    """A number greater than 0, within what can be squared.

    Args:
        least: the smallest that is allowed, > 0.
        most: the largest that is allowed.
    """
    return Rule(f"a number greater than 0, in [{least:g}, {most:g}]", number(least, most).accepts)


def fraction() -> Rule:
    """A number strictly between 0 and 1, such as delta."""
    return number(0, 1, open_ends=True)


def integer(least: int, most: int | None = None) -> Rule:
    """A whole number.

    Args:
        least: the smallest that is allowed.
        most: the largest that is allowed; None for below 2^63.
    """
    allowed = f"a whole number of at least {least} and " + ("below 2^63" if most is None else f"at most {most}")
    end = 2**63 - 1 if most is None else most
    return Rule(allowed, lambda v: _is_integer(v) and least <= v <= end)


def boolean() -> Rule:
    """True or False."""
    return Rule("true or false", lambda v: isinstance(v, bool))


def one_of(*choices: Any) -> Rule:
    """One of the given values.

    Args:
        choices: the values that are allowed; a value must be of the same type as well, so that 1 is not True.
    """
    return Rule("one of " + ", ".join(map(str, choices)), lambda v: any(type(v) is type(c) and v == c for c in choices))


def list_of(rule: Rule, least: int = 1) -> Rule:
    """A list of at least ``least`` values, each of which satisfies ``rule``.

    Args:
        rule: what each value must satisfy.
        least: how many there must be.
    """
    return Rule(
        f"a list of at least {least} value(s), each {rule.allowed}",
        lambda v: isinstance(v, list | tuple) and len(v) >= least and all(map(rule.accepts, v)),
    )


def parameters(namespace: dict[str, Any], **rules: Rule) -> None:
    """Check a notebook's parameters (its ``globals()``): every rule has its value, every value its rule.

    Args:
        namespace: the notebook's ``globals()``.
        rules: of every parameter, by its name.

    Raises:
        ParameterError: for a name that papermill injected and no rule knows, a missing parameter, or a value that its
            rule does not accept.
    """
    check_names(_injected(namespace.get("In", ())), rules)
    for name, rule in rules.items():
        if name not in namespace:
            raise ParameterError(f"{name} is missing from the parameters cell: it must be {rule.allowed}.")
        rule.check(name, namespace[name])


def check_names(given: Iterable[str], known: Iterable[str], owner: str = "this notebook") -> None:
    """Refuse a name that is not known.

    Args:
        given: the names that somebody gave.
        known: the names that there are.
        owner: whose they are, as the message calls it.

    Raises:
        ParameterError: for the first given name that is not known, with the nearest known one.
    """
    known = sorted(known)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ParameterError(f"{name} is not a parameter of {owner}{hint}: it has {', '.join(known)}.")


def _injected(history: Iterable[str]) -> list[str]:
    """Names that papermill set, in a cell that begins with ``# Parameters``: so that the check may run again in a live
    notebook, which has many other variables by then.
    """
    names = []
    for source in history:
        if source.startswith("# Parameters\n"):
            for node in ast.parse(source).body:
                if isinstance(node, ast.Assign):
                    names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return names


def _is_finite(value: Any) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number that is larger than any float
        return False


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def indices(
    name: str, values: ArrayLike, count: int | None = None, *, said: Callable[[Any], str] | None = None
) -> np.ndarray:
    """Labels, groups or places as int64, shape (n,). A negative number is refused: NumPy takes -1 for the last one.

    Args:
        name: what the message calls them.
        values: shape (n,), whole numbers from 0, which may be stored as floats; there may be none.
        count: each must lie below it; by default there is no such bound.
        said: what the message says of the values: by default :func:`described`, as labels are private.

    Raises:
        ParameterError: for another shape, or a number that is not whole, negative, or not below ``count``.
    """
    given, end = array(name, values), 2**63 if count is None else count
    whole = not given.size or given.dtype.kind in "iu" or (given.dtype.kind == "f" and (given == np.floor(given)).all())
    if given.ndim != 1 or not whole or not ((given >= 0) & (given < end)).all():
        least = f"from 0 to {count - 1}" if count else "from 0"
        raise ParameterError(
            f"{name} = {(said or described)(values)} is not allowed: they must be whole numbers {least}, shape (n,)."
        )
    return given.astype(np.int64)


def array(name: str, values: ArrayLike) -> np.ndarray:
    """Values as an array, of whatever they are; a tensor's without its graph, from whatever device. What is none, such
    as rows of different lengths, comes as a text, which nobody takes for numbers.

    Args:
        name: what the message calls them.
        values: anything that is an array: numbers, lists, tables, tensors.

    Raises:
        ParameterError: for a masked array, whose hidden values would count.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    refuse_hidden(name, values)
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return np.array("")


def refuse_hidden(name: str, values: Any) -> None:
    """Refuse a masked array, or a list of them: as an array, it would show the values that it hides.

    Args:
        name: what the message calls it.
        values: anything.

    Raises:
        ParameterError: for what is masked.
    """
    among = values if isinstance(values, list | tuple) else [values]
    if any(isinstance(value, np.ma.MaskedArray) for value in among):
        raise ParameterError(f"{name}: a masked array is not allowed: fill in what is masked, or leave it out.")


def reals(name: str, values: ArrayLike, dimensions: int | None = None) -> np.ndarray:
    """Private numbers as floats, not necessarily finite ones.

    Args:
        name: what the message calls them.
        values: numbers of any type, true and false among them.
        dimensions: how many there must be; by default any.

    Raises:
        ParameterError: for texts, complex numbers, another number of dimensions, or as :func:`array`; it shows none of
            the values.
    """
    given, shapes = array(name, values), {1: "(n,)", 2: "(n, d)"}
    try:
        if values is not None and given.dtype.kind in "biufO" and dimensions in (None, given.ndim):
            return given.astype(float, copy=False)
    except (TypeError, ValueError, OverflowError):  # its words would show a value
        pass
    shape = "" if dimensions is None else f", shape {shapes[dimensions]}"
    raise ParameterError(f"{name} = {described(values)} is not allowed: it must be real numbers{shape}.") from None


def shaped(
    name: str, values: ArrayLike, shape: str, least: float = -HUGE, most: float = HUGE, *, sizes: tuple[int, ...] = ()
) -> np.ndarray:
    """Private numbers as floats, within bounds and so none of them nan, of a shape that is given in words.

    Args:
        name: what the message calls them.
        values: numbers of any type, true and false among them.
        shape: such as "(n, K)", or "(..., K, B)" for any sizes before the last two. Only n may be 0.
        least: the smallest that is allowed.
        most: the largest that is allowed.
        sizes: the last sizes, where they are known.

    Raises:
        ParameterError: otherwise, or as :func:`reals`; it shows none of the values.
    """
    given = reals(name, values)
    words = [word.strip() for word in shape.strip("()").split(",") if word.strip()]
    named = [word for word in words if word != "..."]
    last = given.shape[given.ndim - len(named) :] if given.ndim >= len(named) else ()
    fits = len(last) == len(named) and (given.ndim == len(named) or "..." in words)
    fits = fits and all(size or word == "n" for size, word in zip(last, named, strict=True))
    if not (fits and last[len(last) - len(sizes) :] == sizes and ((given >= least) & (given <= most)).all()):
        known = f" with {', '.join(map(str, sizes))} at its end" if sizes else ""
        raise ParameterError(
            f"{name} = {described(values)} is not allowed: it must be numbers in [{least:g}, {most:g}], "
            f"shape {shape}{known}."
        )
    return given


def truths(name: str, values: ArrayLike, shape: str, *, sizes: tuple[int, ...] = ()) -> np.ndarray:
    """Private truths as bool, of a shape as in :func:`shaped`.

    Args:
        name: what the message calls them.
        values: true and false, or 1 and 0.
        shape: such as "(n, d)".
        sizes: the last sizes, where they are known.

    Raises:
        ParameterError: for anything else; it shows none of the values.
    """
    given = shaped(name, values, shape, 0, 1, sizes=sizes)
    if not ((given == 0) | (given == 1)).all():
        raise ParameterError(f"{name} = {described(values)} is not allowed: it must be true or false.")
    return given.astype(bool)


def sets(name: str, values: ArrayLike, sizes: tuple[int, ...] = ()) -> np.ndarray:
    """Sets of labels as :func:`truths`, shape (..., K), each with at least one label.

    Args:
        name: what the message calls them.
        values: true and false, or 1 and 0.
        sizes: the last sizes, where they are known.

    Raises:
        ParameterError: for anything else.
    """
    given = truths(name, values, "(..., K)", sizes=sizes)
    if not given.any(axis=-1).all():
        raise ParameterError(f"{name} = {described(values)} is not allowed: each set must hold at least one label.")
    return given


def described(value: Any) -> str:
    """What a value is and how large, without what it holds: for messages about private data.

    Args:
        value: anything.
    """
    if value is None:
        return "None"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, Sized) else "")


def shown(value: Any) -> str:
    """A value in at most 60 characters; not for private data, see :func:`described`.

    Args:
        value: anything, also a number of thousands of digits.
    """
    short = reprlib.Repr()
    short.maxlevel, short.maxlist, short.maxdict, short.maxstring, short.maxother = 3, 20, 20, 100, 100
    try:
        text = short.repr(value)
    except ValueError:  # of thousands of digits
        text = "a number"
    return text if len(text) <= 60 else text[:57] + "..."
