"""Choose a model for a private training: the best method that was measured on the nearest data set, with its settings.

No number is foretold from a wide interval. What is promised is a share: of what ordinary training without privacy gains
over a constant prediction, so much is left under privacy. For images and labels it is the worst among the data sets
near the problem; tables have a rule of their own (:mod:`papers.architecture.advice_runs`), and one method for all.

The rule itself stands in :mod:`book.press.choice_rule`, which the form on the site runs, too; here are problems and
answers with their types, the noise, and the words.
"""

import functools
import math
import string
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from book.press import choice_rule as rule
from book.press.choice_evidence import (
    CURATOR,
    IMAGE,
    LABELS,
    LISTED,
    NOBODY,
    RECORDS,
    TABLE,
    TEXT,
    Result,
    table,
)
from dplib import accounting, checks, files, mechanisms
from dplib.checks import ParameterError
from papers.architecture import advice_rows

WORDS = Path(__file__).with_name("choice.toml")
REACH = 1.0  # decades: beyond a factor of ten in one quantity alone, nothing is near
LEAST_SHARE = 0.1  # a smaller share of the gain is called none
AS_MANY = 1.25  # so many times the problem's records are still about as many
LEAST_LABELS = 0.02  # a smaller epsilon, halved, is below what the accountant's orders can certify
PURE = ("objective",)  # methods with delta = 0
_DELTA = checks.number(0, 0.99)
RANGES = {
    "n": checks.integer(10, 10**9),
    "d": checks.integer(1, 10**7),
    "classes": checks.integer(2, 1000),
    "epsilon": checks.number(0.005, 1000),
    "delta": checks.Rule("a number in [0, 0.99], or None: below 1/n", lambda v: v is None or _DELTA.accepts(v)),
    "kind": checks.one_of(IMAGE, TABLE, TEXT),
    "private": checks.one_of(RECORDS, LABELS),
    "who": checks.one_of(CURATOR, NOBODY),
    "public_n": checks.boolean(),
    "public_data": checks.boolean(),
    "ordinary": checks.number(0, 100),
    "frequent_class": checks.number(0, 99.9),
}


@dataclass(frozen=True)
class Problem:
    """What is to be learned, and what is to be protected; ParameterError for what cannot be.

    Args:
        n, d, classes: records, numbers in each (categories one-hot), and classes of the label.
        epsilon: of one training.
        delta: 0: pure DP; None: the largest power of ten below 1/n, at most 1e-5.
        kind: IMAGE, TABLE or TEXT.
        private: RECORDS, or LABELS where only they are private.
        who: CURATOR, who is trusted to see what is private; or NOBODY: each person's is randomised before it leaves.
        public_n: whether the number of records may be known.
        public_data: whether there are public data of the kind, on which anything may be tried for free.
        ordinary: test accuracy (%) of ordinary training without privacy, from public knowledge; 0: unknown.
        frequent_class: percentage of the most frequent class; 0: unknown.
    """

    n: int
    d: int
    classes: int
    epsilon: float
    delta: float | None
    kind: str
    private: str = RECORDS
    who: str = CURATOR
    public_n: bool = True
    public_data: bool = False
    ordinary: float = 0.0
    frequent_class: float = 0.0

    def __post_init__(self):
        for name, allowed in RANGES.items():
            allowed.check(name, getattr(self, name))
        if self.delta is None:
            object.__setattr__(self, "delta", rule.default_delta(self.n))
        if wrong := rule.refused(limits(), rule.derived(vars(self))):
            name, reason = wrong
            raise ParameterError(f"{name} = {getattr(self, name):g} is not allowed: {reason}.")

    @property
    def constant(self) -> float:
        """Accuracy (%) of a constant prediction, 100 / classes where the most frequent class is not known."""
        return rule.derived(vars(self))["constant"]

    @property
    def record_epsilon(self) -> float:
        """Epsilon for one record added or removed that covers what is asked for: half of it for a replaced label.

        Replacing a label is removing one record and adding another: (epsilon / 2, delta') for one of them gives
        (epsilon, (1 + e^(epsilon / 2)) delta') for both.
        """
        return rule.derived(vars(self))["record_epsilon"]

    @property
    def record_delta(self) -> float:
        """The delta that goes with :attr:`record_epsilon`."""
        return self.delta / (1 + math.exp(self.record_epsilon)) if self.private == LABELS else self.delta


@dataclass(frozen=True)
class Settings:
    """How to train by DP-SGD: one record added or removed, Poisson sampling, the sum of clipped gradients noised.

    Attributes:
        batch: records in a batch on average. learning_rate: best on validation records of the measured data set, at the
            budget ``tuned_at``. noise_multiplier: by Rényi DP, rounded up. spent: epsilon by a second computation.
    """

    sample_rate: float
    batch: int
    steps: int
    learning_rate: float
    tuned_at: float
    noise_multiplier: float
    spent: float
    max_grad_norm: float


@dataclass(frozen=True)
class Answer:
    """What the nearest results say of a problem.

    Attributes:
        nearest: the best method's result on the nearest data set, at the largest measured budget that does not exceed
            the problem's; None where nobody measured such data. distance: to that data set, in decades.
        affordable: whether the budget of ``nearest`` does not exceed the problem's.
        share: of ordinary training's gain over a constant, promised; None: no promise. worst: the data set that it
            comes from, of ``count`` near the problem. reason: why there is no promise, a key of "says".
        others: what else was measured on the nearest data set within the budget, the best first; a method without a
            program may be ahead of the one that is advised.
        settings: of DP-SGD; None for other methods.
    """

    problem: Problem
    nearest: Result | None = None
    distance: float = math.inf
    affordable: bool = False
    share: float | None = None
    worst: str = ""
    count: int = 0
    reason: str = "unmeasured"
    others: tuple[Result, ...] = ()
    settings: Settings | None = None

    @property
    def method(self) -> str:
        """A key of "method" in ``choice.toml``."""
        return self.nearest.method if self.nearest else "none"

    @property
    def promised(self) -> float | None:
        """The least accuracy (%) that is promised, where that of ordinary training is known."""
        return rule.accuracy(asked(self.problem), answered(self))


def choose(problem: Problem, leave_out: Collection[str] = ()) -> Answer:
    """The best method on the nearest data set, and the worst share that it kept near the problem.

    Args:
        leave_out: names of data sets whose results are not looked at.
    """
    chosen, results = rule.choose(data(leave_out), asked(problem)), table()
    if chosen["nearest"] is None:
        return Answer(problem)
    nearest, others = results[chosen["nearest"]["at"]], tuple(results[other["at"]] for other in chosen["others"])
    said = (chosen[name] for name in ("far", "affordable", "share", "worst", "count", "reason"))
    return Answer(problem, nearest, *said, others, settings(problem, nearest))


def limits() -> dict[str, Any]:
    """The numbers that the rule goes by, as :mod:`book.press.choice_rule` takes them."""
    return {
        "reach": REACH, "least": LEAST_SHARE, "as_many": AS_MANY, "least_labels": LEAST_LABELS, "pure": PURE,
        "listed": LISTED, "tables": advice_rows.numbers(),
    }  # fmt: skip


def data(leave_out: Collection[str] = ()) -> dict[str, Any]:
    """Results, words and numbers, as :mod:`book.press.choice_rule` takes them; ``leave_out``: as in :func:`choose`."""
    kept = [row for row, result in zip(_results(), table(), strict=True) if result.data.source not in leave_out]
    return {"results": kept, "methods": words()["method"], "says": words()["says"], **limits()}


@functools.cache
def _results() -> tuple[dict[str, Any], ...]:
    """Results as plain values; "at": their places in :func:`table`."""
    return tuple(
        {
            "at": at, "name": result.data.name, "kind": result.data.kind, "n": result.data.n, "d": result.data.d,
            "classes": result.data.classes, "method": result.method, "private": result.private,
            "epsilon": result.epsilon, "accuracy": result.accuracy.value, "share": result.share,
            "rate": result.sample_rate, "steps": result.steps, "learning_rate": result.learning_rate,
            "more": result.more, "sigma": result.sigma, "says": described(result),
            "kept": result.shares.value if result.shares else None,
        }
        for at, result in enumerate(table())
    )  # fmt: skip


def plain(item: Result) -> dict[str, Any]:
    """A result of :func:`table` as the rule takes it."""
    return next(known for known, result in zip(_results(), table(), strict=True) if result is item)


@functools.lru_cache(maxsize=4096)
def asked(problem: Problem) -> dict[str, Any]:
    """A problem as the rule takes it, with the noise of one release at its budget and at that for one record."""
    at = [(problem.epsilon, problem.delta), (problem.record_epsilon, problem.record_delta)]
    noise = (float(sum_noise(epsilon, delta or advice_rows.DELTA)) for epsilon, delta in at)
    return rule.derived(vars(problem)) | dict(zip(("sum", "record_sum"), noise, strict=True))


def answered(answer: Answer) -> dict[str, Any]:
    """An answer as the rule takes it."""
    return {
        "nearest": plain(answer.nearest) if answer.nearest else None, "method": answer.method, "far": answer.distance,
        "share": answer.share, "worst": answer.worst, "count": answer.count, "reason": answer.reason,
        "others": [plain(other) for other in answer.others],
    }  # fmt: skip


def _settled(s: Settings | None) -> dict[str, Any] | None:
    """Settings as the rule takes them."""
    if s is None:
        return None
    return {
        "rate": s.sample_rate, "batch": s.batch, "steps": s.steps, "learning_rate": s.learning_rate,
        "tuned_at": s.tuned_at, "noise": s.noise_multiplier, "clip": s.max_grad_norm,
    }  # fmt: skip


def left_out() -> list[tuple[Result, Answer]]:
    """Each result on images, and what is said of its data set and budget when that data set is left out."""
    answers = []
    for result in table():
        if result.data.kind == TABLE or result.share is None or not RANGES["epsilon"].accepts(result.epsilon):
            continue
        delta = 0.0 if result.private == LABELS and result.sigma is None else 1e-5
        data = result.data
        asked = Problem(data.n, data.d, data.classes, result.epsilon, delta, data.kind, result.private)
        answer = choose(asked, leave_out=[data.source])
        if answer.method == result.method:
            answers.append((result, answer))
    return answers


def settings(problem: Problem, result: Result) -> Settings | None:
    """Of a result by DP-SGD its settings, with the noise for the problem's own budget."""
    if result.steps is None:
        return None
    budget = problem.record_epsilon, problem.record_delta
    noise = rounded_up(float(noise_for(*budget, result.sample_rate, result.steps)))
    spent = accounting.epsilon(noise, result.sample_rate, result.steps, problem.record_delta, "pld")
    s = rule.settings(data(), asked(problem), plain(result), noise)
    known = (s[name] for name in ("batch", "steps", "learning_rate", "tuned_at", "noise"))
    return Settings(result.sample_rate, *known, float(spent), float(s["clip"]))


def noise_for(epsilon, delta, sample_rate: float, steps: int):
    """The noise multiplier by Rényi DP; arrays broadcast."""
    return accounting.noise_multiplier(epsilon, sample_rate, steps, delta, "rdp")


def sum_noise(epsilon, delta):
    """Standard deviation of a curator's noise, over what one label moves the sum by; arrays broadcast."""
    return mechanisms.analytic_sigma(epsilon, delta)


def rounded_up(value: float) -> float:
    """To three decimals, never down: what is printed must not spend more."""
    return math.ceil(1000 * value) / 1000


@functools.cache
def words() -> dict[str, Any]:
    """What ``choice.toml`` says: methods with their code, caveats, and paper B's advice."""
    known, parts = files.read(WORDS), {}
    for name, text in known["part"].items():
        parts[name] = string.Template(text).safe_substitute(parts)
    for method in known["method"].values():
        programs = method.get("code", {})
        programs |= {library: string.Template(text).safe_substitute(parts) for library, text in programs.items()}
    known["advice"] = [dict(zip(("row", "says", "here"), advice, strict=True)) for advice in known["advice"]]
    return known


def code(answer: Answer) -> dict[str, str]:
    """Programs for the answer, by library: ten lines or so from arrays to a test accuracy."""
    return dict(rule.programs(data(), asked(answer.problem), answered(answer), _settled(answer.settings)))


def lines(answer: Answer) -> list[tuple[str, str]]:
    """The answer as (heading, text), caveats last."""
    told = rule.lines(data(), asked(answer.problem), answered(answer), _settled(answer.settings))
    return [(heading, text) for heading, text in told]


def summary(answer: Answer) -> dict[str, Any]:
    """An answer in numbers and names, for a table of many: those that it has."""
    told = {"method": answer.method, "constant_prediction": answer.problem.constant}
    if answer.nearest:
        told |= {"measured_on": answer.nearest.data.name, "measured_accuracy": answer.nearest.accuracy}
        told |= {"measured_at_epsilon": answer.nearest.epsilon, "decades_away": answer.distance}
    if answer.share is not None:
        told["promised_percent_of_the_gain"] = 100 * answer.share
    if answer.settings:
        told |= {"noise_multiplier": answer.settings.noise_multiplier, "steps": answer.settings.steps}
    return told


def accounted(answer: Answer) -> str:
    """What the budget of an answer is of, and how the noise of its method is computed, in one sentence."""
    problem, result = answer.problem, answer.nearest
    budget = f"(ε, δ) = ({problem.epsilon:g}, {problem.delta:g})"
    if result is None:
        return f"no method is advised for {budget}."
    replaced = problem.private == LABELS
    if result.private == LABELS:
        each = "each label is randomised by itself" if result.sigma is None else "a curator's Gaussian noise, exact"
        pure = f"ε = {problem.epsilon:g}, δ = 0" if result.sigma is None else budget
        return f"noise for {pure}: one label replaced, {each}."
    if answer.method in PURE:
        half = ", as ε/2 for one record added or removed" if replaced else ""
        return f"noise for ε = {problem.epsilon:g}, δ = 0: {_neighbours(replaced)}{half}, objective perturbation."
    half = ", as (ε/2, δ/(1 + e^(ε/2))) for one record added or removed" if replaced else ""
    how = "one Gaussian release of all steps, exact"
    if answer.settings:
        how = "Poisson batches, one training, Rényi DP checked by privacy loss distributions"
    return f"noise for {budget}: {_neighbours(replaced)}{half}, {how}."


def _neighbours(replaced: bool) -> str:
    return "one label replaced" if replaced else "one record added or removed"


def nearest(answer: Answer) -> str:
    """The nearest measurement and how far its data set is."""
    return rule.nearest(data(), answered(answer))


def promise(answer: Answer) -> str:
    """What is promised, or that nothing is, and why."""
    return rule.promise(data(), asked(answer.problem), answered(answer))


def described(result: Result) -> str:
    """A result in words, with the constant and the accuracy without noise beside it."""
    data, accuracy = result.data, result.accuracy
    plain = "logistic regression without privacy" if data.kind == TABLE else "ordinary training"
    return (
        f"{accuracy.value:.1f}% [{accuracy.low:.1f}, {accuracy.high:.1f}] on {data.name} ({data.n:,} records) at "
        f"ε = {result.epsilon:g}, by {words()['method'][result.method]['name']}; a constant has {data.constant:.1f}%, "
        f"{plain} {result.ordinary:.1f}% (chapter {result.chapter})"
    )
