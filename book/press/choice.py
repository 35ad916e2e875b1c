"""Choose a model for a private training: the best method that was measured on the nearest data set, with its settings.

No number is foretold from a wide interval. What is promised is a share: of what ordinary training without privacy gains
over a constant prediction, so much is left under privacy. For images and labels it is the worst among the data sets
near the problem; tables have a rule of their own (:mod:`papers.architecture.advice_runs`), and one method for all.
"""

import functools
import math
import string
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from book.press.choice_evidence import (
    CURATOR,
    IMAGE,
    LABELS,
    LISTED,
    NOBODY,
    RECORDS,
    TABLE,
    TEXT,
    Data,
    Result,
    advice,
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
        delta: 0: pure DP; None: :func:`default_delta`.
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
        for name, rule in RANGES.items():
            rule.check(name, getattr(self, name))
        if self.delta is None:
            object.__setattr__(self, "delta", default_delta(self.n))
        least, half = 100 / self.classes, self.private == LABELS and self.epsilon < LEAST_LABELS
        published = "a mechanism that publishes a whole record now and then would count as private"
        share = f"of {self.classes} classes the most frequent one has at least {least:.3g}% (0: unknown)"
        for name, wrong, reason in (
            ("epsilon", half, f"for private labels it must be at least {LEAST_LABELS:g}, of which DP-SGD gets half"),
            ("delta", self.delta > 1 / self.n, f"it must be at most 1/n = {1 / self.n:.3g}, for else {published}"),
            ("frequent_class", 0 < self.frequent_class < least, share),
            ("ordinary", 0 < self.ordinary <= self.constant,
             f"it must be above the {self.constant:.3g}% of a constant prediction (0: unknown)"),
        ):  # fmt: skip
            if wrong:
                raise ParameterError(f"{name} = {getattr(self, name):g} is not allowed: {reason}.")

    @property
    def constant(self) -> float:
        """Accuracy (%) of a constant prediction, 100 / classes where the most frequent class is not known."""
        return self.frequent_class or 100 / self.classes

    @property
    def record_epsilon(self) -> float:
        """Epsilon for one record added or removed that covers what is asked for: half of it for a replaced label.

        Replacing a label is removing one record and adding another: (epsilon / 2, delta') for one of them gives
        (epsilon, (1 + e^(epsilon / 2)) delta') for both.
        """
        return self.epsilon / 2 if self.private == LABELS else self.epsilon

    @property
    def record_delta(self) -> float:
        """The delta that goes with :attr:`record_epsilon`."""
        return self.delta / (1 + math.exp(self.record_epsilon)) if self.private == LABELS else self.delta


def default_delta(n: int) -> float:
    """The largest power of ten below 1/n, and at most 1e-5, at which the book measured."""
    return min(1e-5, 10.0 ** -len(str(n)))


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
        if self.share is None or not self.problem.ordinary:
            return None
        return self.problem.constant + self.share * (self.problem.ordinary - self.problem.constant)


def choose(problem: Problem, leave_out: Collection[str] = ()) -> Answer:
    """The best method on the nearest data set, and the worst share that it kept near the problem.

    Args:
        leave_out: names of data sets whose results are not looked at.
    """
    alike = [one for one in table() if one.data.kind == problem.kind and one.data.source not in leave_out]
    alike = [one for one in alike if protects(one, problem) and one.share is not None]  # there was something to learn
    printed = [one for one in alike if has_program(one, problem)]
    if not printed:
        return Answer(problem)
    if problem.kind == TABLE:
        return _of_table(problem, printed, leave_out)
    name = min(_affordable(printed, problem) or printed, key=lambda one: distance(problem, one.data)).data.name
    own = [one for one in alike if one.data.name == name]
    # Of each method its largest budget, the most accurate first.
    within = sorted(_last(_affordable(own, problem), "method"), key=lambda one: -one.accuracy.value)
    best = [one for one in within if has_program(one, problem)]
    rest = [one for one in printed if one.data.name == name]
    nearest = best[0] if best else min(rest, key=lambda one: (one.epsilon, -one.accuracy.value))
    far, rivals = distance(problem, nearest.data), []
    if best and far <= REACH:
        near = [one for one in alike if one.method == nearest.method and distance(problem, one.data) <= REACH]
        rivals = _last(_affordable(near, problem), "data")
    worst = min(rivals, key=lambda one: one.share, default=None)
    share = worst.share if worst and worst.share >= LEAST_SHARE else None
    name, others = worst.data.name if worst else "", tuple(one for one in within if one is not nearest)
    reason = "" if share else "far" if far > REACH else "least" if best else "tight"
    settled = settings(problem, nearest)
    return Answer(problem, nearest, far, bool(best), share, name, len(rivals), reason, others, settled)


def _of_table(problem: Problem, printed: Sequence[Result], leave_out: Collection[str]) -> Answer:
    """The one method for tables; the measurement of the nearest strength, no stronger if there is one; the promise."""
    strength = strength_of(problem)
    within = [one for one in printed if one.more["strength"] <= strength * (1 + 1e-9)]
    nearest = min(within or printed, key=lambda one: abs(math.log10(one.more["strength"] / strength)))
    far = abs(math.log10(nearest.more["strength"] / strength))
    method = "pure" if nearest.method in PURE else advice().advised()
    points = [point for point in advice().lines[method] if point.table not in leave_out]
    said = advice_rows.promise(points, strength)
    return Answer(problem, nearest, far, bool(within), said.share, "", said.count, said.reason)


def strength_of(problem: Problem) -> float:
    """Records over the noise of one release in all columns and classes: what tables are compared by."""
    budget = problem.record_epsilon, problem.record_delta
    return advice_rows.strength(problem.n, problem.d, problem.classes, *budget)


def left_out() -> list[tuple[Result, Answer]]:
    """Each result on images, and what is said of its data set and budget when that data set is left out."""
    found = []
    for one in table():
        if one.data.kind == TABLE or one.share is None or not RANGES["epsilon"].accepts(one.epsilon):
            continue
        delta = 0.0 if one.private == LABELS and one.sigma is None else 1e-5
        data = one.data
        asked = Problem(data.n, data.d, data.classes, one.epsilon, delta, data.kind, one.private)
        answer = choose(asked, leave_out=[data.source])
        if answer.method == one.method:
            found.append((one, answer))
    return found


def protects(one: Result, problem: Problem) -> bool:
    """Whether a method protects what is asked for, with the delta asked for, from whoever may not see it."""
    if one.private == LABELS and one.sigma is None:  # each label is randomised by itself
        return problem.private == LABELS
    if problem.who == NOBODY:
        return False
    if one.private == LABELS:
        return problem.private == LABELS and problem.delta > 0
    return (one.method in PURE) == (problem.delta == 0)


def has_program(one: Result, problem: Problem) -> bool:
    """Whether a method has a program for such records: that of a network may be for one size of image only."""
    only = words()["method"][one.method].get("only", {})
    if one.data.kind == TABLE and one.share is None:
        return False
    return one.method not in LISTED and all(getattr(problem, name) == value for name, value in only.items())


def affordable(one: Result, problem: Problem) -> bool:
    """Whether a result's budget is at most the problem's: n times epsilon; of noise on labels epsilon, for about n.

    One record hides among n: chapter 3 finds that the epsilon needed for one accuracy falls about as 1/n. Of a
    curator's sum the noise is known, and its share of a mean must not be larger than measured.
    """
    if one.sigma is not None:
        return sum_noise(problem.epsilon, problem.delta) / problem.n <= one.sigma / one.data.n * (1 + 1e-9)
    if one.private == LABELS:
        return one.epsilon <= problem.epsilon * (1 + 1e-9) and one.data.n <= AS_MANY * problem.n
    epsilon = problem.epsilon if one.method in PURE else problem.record_epsilon
    return one.data.n * one.epsilon <= problem.n * epsilon * (1 + 1e-9)


def _affordable(results: Collection[Result], problem: Problem) -> list[Result]:
    return [one for one in results if affordable(one, problem)]


def _last(results: Collection[Result], what: str) -> Collection[Result]:
    """Of each method, or on each data set, the result at the largest budget."""
    return {getattr(one, what): one for one in sorted(results, key=lambda one: one.epsilon)}.values()


def distance(problem: Problem, other: Data) -> float:
    """Euclidean distance in decades: log10 of the ratios of n, d and classes, all weighing the same."""
    return math.hypot(*(math.log10(getattr(problem, name) / getattr(other, name)) for name in ("n", "d", "classes")))


def settings(problem: Problem, one: Result) -> Settings | None:
    """Of a result by DP-SGD its settings, with the noise for the problem's own budget.

    Where a budget left nothing, its learning rate says nothing: that of the least budget that left something is taken.
    """
    if one.steps is None:
        return None
    same = [other for other in table() if (other.data, other.method) == (one.data, one.method)]
    left = [other for other in same if other.epsilon >= one.epsilon and (other.share or 0) >= LEAST_SHARE]
    rate = min(left, key=lambda other: other.epsilon, default=one)
    noise = rounded_up(float(noise_for(problem.record_epsilon, problem.record_delta, one.sample_rate, one.steps)))
    spent = accounting.epsilon(noise, one.sample_rate, one.steps, problem.record_delta, "pld")
    batch, clip = max(1, round(one.sample_rate * problem.n)), one.more.get("clip", 1.0)
    return Settings(one.sample_rate, batch, one.steps, rate.learning_rate, rate.epsilon, noise, float(spent), clip)


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
        own = method.get("code", {})
        own |= {library: string.Template(text).safe_substitute(parts) for library, text in own.items()}
    known["advice"] = [dict(zip(("row", "says", "here"), one, strict=True)) for one in known["advice"]]
    return known


def code(answer: Answer) -> dict[str, str]:
    """Programs for the answer, by library: ten lines or so from arrays to a test accuracy."""
    problem, s, one = answer.problem, answer.settings, answer.nearest
    gaps = {"classes": problem.classes, "epsilon": f"{problem.epsilon:g}", "delta": f"{problem.delta:g}"}
    half = f"epsilon={problem.epsilon:g} / 2"
    budget = f"{half}, delta={problem.delta:g} / (1 + np.exp({problem.epsilon:g} / 2))"
    if problem.private == RECORDS:
        half, budget = f"epsilon={problem.epsilon:g}", f"epsilon={problem.epsilon:g}, delta={problem.delta:g}"
    gaps |= {"pure": half, "budget": budget, "counted": "" if problem.public_n else ", public_n=False"}
    if one:
        gaps |= {name: f"{value:g}" for name, value in one.more.items()}
        gaps["learning_rate"] = f"{(s or one).learning_rate or 0:g}"
    if s:
        gaps |= {"rate": f"{s.sample_rate:.5f}", "batch": s.batch, "steps": s.steps, "clip": f"{s.max_grad_norm:g}"}
        gaps["noise"] = f"{s.noise_multiplier:.3f}"
    own = words()["method"][answer.method].get("code", {})
    if not problem.public_n and answer.method == "rows":  # Opacus has no noisy count of the records
        own = {library: text for library, text in own.items() if library != "Opacus"}
    return {library: string.Template(text).substitute(gaps).strip() for library, text in own.items()}


def lines(answer: Answer) -> list[tuple[str, str]]:
    """The answer as (heading, text), caveats last; the interactive page writes the same lines."""
    problem, says = answer.problem, words()["says"]
    found = [("Advice", words()["method"][answer.method]["says"])]
    if s := answer.settings:
        found += [
            ("Clipping norm", f"{s.max_grad_norm:g}"),
            ("Learning rate", f"{s.learning_rate:g}, tuned on {answer.nearest.data.name} at ε = {s.tuned_at:g}"),
            ("Batch", f"{s.batch:,} records on average, each drawn with probability {s.sample_rate:.5f}"),
            ("Noise multiplier", f"{s.noise_multiplier:.3f} (Rényi DP; one record added or removed)"),
            ("Steps", f"{s.steps}"),
        ]
    elif text := words()["method"][answer.method].get("settings"):
        found.append(("Settings", text))
    if problem.private == LABELS and answer.nearest and answer.nearest.private == RECORDS:
        found.append(("Budget", says["half"]))
    found.append(("A constant prediction", f"{problem.constant:.1f}%{'' if problem.frequent_class else says['alike']}"))
    found += [("Nearest measurement", nearest(answer)), ("Promise", promise(answer))]
    found += [("Why", text) for text in why(answer)]
    found += [("Also measured there", described(one)) for one in answer.others]
    return found + [("Caveat", text) for text in caveats(answer)]


def nearest(answer: Answer) -> str:
    """The nearest measurement and how far its data set is."""
    if answer.nearest is None:
        return words()["says"]["nothing"]
    return f"{described(answer.nearest)}; {answer.distance:.2f} decades away"


def promise(answer: Answer) -> str:
    """What is promised, or that nothing is, and why."""
    says = words()["says"]
    if answer.share is None:
        return string.Template(says["none"][answer.reason]).substitute(worst=answer.worst, count=answer.count)
    least = "" if answer.promised is None else f", which is {answer.promised:.1f}%"
    of_tables = answer.problem.kind == TABLE
    return string.Template(says["of_tables" if of_tables else "share"]).substitute(
        share=math.floor(100 * answer.share), least=least, worst=answer.worst, count=answer.count
    )


def why(answer: Answer) -> list[str]:
    """Where nobody measured what is asked, three lines on why; else none."""
    problem, says = answer.problem, words()["says"]["why"]
    if answer.nearest is not None:
        return []
    return says[NOBODY if problem.who == NOBODY else "pure" if problem.delta == 0 else problem.kind]


def described(one: Result) -> str:
    """A result in words, with the constant and the accuracy without noise beside it."""
    data, accuracy = one.data, one.accuracy
    plain = "logistic regression without privacy" if data.kind == TABLE else "ordinary training"
    return (
        f"{accuracy.value:.1f}% [{accuracy.low:.1f}, {accuracy.high:.1f}] on {data.name} ({data.n:,} records) at "
        f"ε = {one.epsilon:g}, by {words()['method'][one.method]['name']}; a constant has {data.constant:.1f}%, "
        f"{plain} {one.ordinary:.1f}% (chapter {one.chapter})"
    )


def caveats(answer: Answer) -> list[str]:
    """What goes with a method, and with a budget that promises little."""
    problem, own = answer.problem, words()["says"]
    found = list(words()["method"][answer.method].get("caveats", []))
    if answer.nearest and not problem.public_n:
        found.append(own["counted" if problem.kind == TABLE and problem.delta else "secret_n"])
    if answer.nearest and problem.public_data:
        found.append(own["public_data"])
    exposed = -math.expm1(problem.n * math.log1p(-problem.delta))
    if exposed > 0.1:
        found.append(string.Template(own["exposed"]).substitute(percent=f"{100 * exposed:.0f}"))
    return found + ([own["large"]] if problem.epsilon > 10 else [])
