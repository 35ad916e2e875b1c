"""The flowchart of "Choose a model" as data: questions, answers, and the frozen results that each branch rests on.

No threshold on epsilon or on n times epsilon is written here: each is read from a frozen result, so that the chart
changes when a chapter is measured anew. What the leaves say stands in ``choice.toml``. :mod:`press.choice` walks the
chart; the interactive page walks the same data.
"""

import functools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dplib.stats import Measured
from press import choice_evidence as evidence
from press.choice_evidence import CROSSING, FEATURES, IMAGE, LABELS, PRIORS, RECORDS, STAGES, TABLE, TEXT, Result

WORDS = Path(__file__).with_name("choice.toml")

OPERATIONS = {"<": lambda a, b: a < b, ">": lambda a, b: a > b, "=": lambda a, b: a == b, "!": lambda a, b: a != b}
WORTH = 1.0  # points above a constant prediction from which on a model counts as worth having
LEARNABLE = 3.5  # points that learning must gain without privacy for a data set to say what is worth having


@dataclass(frozen=True)
class Cite:
    """One frozen result: chapter, row of the ledger, what it says here."""

    chapter: str
    row: str
    says: str


@dataclass(frozen=True)
class Test:
    """A condition on one fact of a problem: ``fact operation value``, with an operation of OPERATIONS."""

    fact: str
    operation: str
    value: float | str

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Whether the facts meet the condition."""
        return OPERATIONS[self.operation](facts[self.fact], self.value)


@dataclass(frozen=True)
class Leaf:
    """Where the chart ends.

    Attributes:
        name: short and unique. family: a key of ``choice_evidence.FAMILIES``, None where nothing was measured.
        private: whose results count, those on whole records or on labels. says: the advice, one or two sentences.
        cites: what it rests on; empty for what was not measured.
    """

    name: str
    family: str | None
    private: str
    says: str
    cites: tuple[Cite, ...] = ()


@dataclass(frozen=True)
class Question:
    """A question of the chart, with what follows if its test holds and if not."""

    name: str
    asks: str
    test: Test
    yes: "Question | Leaf"
    no: "Question | Leaf"


def walk(facts: Mapping[str, Any], start: "Question | Leaf | None" = None) -> tuple[list[tuple[Question, bool]], Leaf]:
    """The questions on the way with their answers, and the leaf at its end."""
    node, path = start or tree(), []
    while isinstance(node, Question):
        answer = node.test.holds(facts)
        path.append((node, answer))
        node = node.yes if answer else node.no
    return path, node


def nodes(start: "Question | Leaf | None" = None) -> Iterator["Question | Leaf"]:
    """Every question and leaf once, each question before what follows it."""
    seen, waiting = set(), [start or tree()]
    while waiting:
        node = waiting.pop(0)
        if node.name not in seen:
            seen.add(node.name)
            yield node
            waiting += [node.yes, node.no] if isinstance(node, Question) else []


def leaves() -> list[Leaf]:
    """Every leaf once."""
    return [node for node in nodes() if isinstance(node, Leaf)]


def least_worth(family: str, kind: str) -> float:
    """The least n times epsilon at which a model of a family came WORTH points above a constant prediction.

    Only data sets count on which the family gains LEARNABLE points without privacy: where there is next to nothing to
    learn, no budget makes it worth the while, and that says nothing of other data.
    """
    same = [one for one in evidence.table() if (one.family, one.data.kind, one.private) == (family, kind, RECORDS)]
    sets = learnable(same)
    return min(one.data.n * one.epsilon for one in same if one.data in sets and one.accuracy >= one.data.floor + WORTH)


def learnable(results: list[Result]) -> set[evidence.Data]:
    """The data sets on which some model without privacy gains LEARNABLE points over a constant prediction."""
    return {one.data for one in results if one.without is not None and one.without - one.data.floor >= LEARNABLE}


def least_measured(kind: str) -> float:
    """The least n times epsilon at which anything was measured on records of this kind."""
    return min(one.data.n * one.epsilon for one in evidence.table() if (one.data.kind, one.private) == (kind, RECORDS))


def stages_from() -> float:
    """The least epsilon from which on LP-2ST beat DP-SGD that protects labels as well, wherever both were run."""
    leads = stages_lead()
    behind = max((epsilon for epsilon, low in leads if low <= 0), default=0.0)
    return min(epsilon for epsilon, _ in leads if epsilon > behind)


def stages_lead() -> list[tuple[float, float]]:
    """(epsilon, least lead in points) of LP-2ST over DP-SGD at half that epsilon, for each data set and epsilon.

    A replaced label is covered by twice the epsilon of a removed record. Where DP-SGD was not run at the half, its
    lead over DP-SGD at the whole epsilon stands: with more budget DP-SGD is the harder one to beat.
    """
    same = _values(STAGES, "C.s-mnist-all-eps")
    found = []
    for key, one in same.items():
        title, _, text = key.partition(", ε = ")
        epsilon, low = float(text), one["low"]
        if half := same.get(f"{title}, ε = {epsilon / 2:g}"):  # LP-2ST(ε) - LP-2ST(ε/2) + (LP-2ST - DP-SGD)(ε/2)
            own = _values(STAGES, f"C.table4.{title.lower()}-lp-2st")
            low = max(low, half["low"] + own[f"eps{epsilon:g}"]["low"] - own[f"eps{epsilon / 2:g}"]["high"])
        found.append((epsilon, low))
    values, whole = _values(PRIORS, "C.fig-summary"), "stages_less_dp_sgd_at_eps_"
    for key in values:
        if key.startswith(whole):
            text = key.removeprefix(whole)
            half = values.get(f"stages_less_dp_sgd_at_half_of_eps_{text}", values[key])
            found.append((float(text), max(values[key]["low"], half["low"])))
    return found


def clusters_up_to() -> float:
    """The largest epsilon at which priors from clusters helped label randomisation beyond chance."""
    gains = _values(PRIORS, "C.fig1b")
    return max(float(key.removeprefix("gain_at_eps_")) for key, one in gains.items() if one["low"] > 0)


@functools.cache
def words() -> dict[str, Any]:
    """What ``choice.toml`` says."""
    return tomllib.loads(WORDS.read_text(encoding="utf-8"))


@functools.cache
def leaf(name: str) -> Leaf:
    """A leaf of the chart, with the values of the rows that it cites in its sentences."""

    def cite(chapter: str, row: str, says: str, keys: tuple[str, ...] = ()) -> Cite:
        return Cite(chapter, row, filled(says, [(chapter, row, key) for key in keys]))

    own = words()["leaf"][name]
    cites = tuple(cite(**one) for one in own.get("cites", ()))
    return Leaf(name, own.get("family"), own.get("private", RECORDS), own["says"], cites)


def filled(sentence: str, places: list[tuple[str, str, str]], **others: str) -> str:
    """A sentence with frozen values, each (chapter, row, key), in its gaps."""
    values = (evidence.value(evidence.chapter(number), row, key) for number, row, key in places)
    return sentence.format(*(Measured(**one) if isinstance(one, Mapping) else one for one in values), **others)


@functools.cache
def tree() -> Question:
    """The chart. Facts: private, kind, n, d, classes, epsilon, delta, n_epsilon (n times epsilon)."""
    table = Question("kind-table", "Are they rows of a table?", Test("kind", "=", TABLE), _tables(), _texts())
    image = Question("kind-image", "Are the records images?", Test("kind", "=", IMAGE), _images(), table)
    return Question("labels", "Are only the labels private?", Test("private", "=", LABELS), _labels(), image)


def _images() -> Question:
    n = evidence.datasets()["mnist"].n
    first, second = (
        n * evidence.crossing(CROSSING, "B.crossover-three-models", f"crossover_{pair}")
        for pair in ("logistic_fcn", "fcn_cnn")
    )
    fully = _below("image-fcn", second, leaf("small-image"), leaf("cnn"))
    simple = _below("image-linear", first, leaf("linear-image"), fully)
    enough = _below("image-little", least_measured(IMAGE), leaf("image-little-data"), simple)
    return _pure("image-pure", leaf("image-pure-dp"), enough)


def _tables() -> Question:
    few = evidence.datasets()["adult"].n * evidence.crossing(
        FEATURES, "B.crossover-features", "adult_by_private_accuracy"
    )
    columns = _below("table-columns", few, leaf("objective-few"), leaf("objective-all"))
    pure = _below("table-pure-little", least_worth("objective", TABLE), leaf("constant-pure"), columns)
    classes = Question(
        "table-classes", "More than two classes?", Test("classes", ">", 2), leaf("small-table"), leaf("linear-table")
    )
    return _pure("table-pure", pure, _below("table-little", least_worth("linear", TABLE), leaf("constant"), classes))


def _texts() -> Question:
    enough = _below("text-little", least_measured(TEXT), leaf("text-little-data"), leaf("recurrent"))
    return _pure("text-pure", leaf("text-pure-dp"), enough)


def _labels() -> Question:
    few, enough = clusters_up_to(), stages_from()
    above = Test("epsilon", ">", few)
    pure = Question("labels-clusters", f"ε > {few:g}?", above, leaf("stages-pure"), leaf("clusters"))
    low = _pure("labels-pure", pure, _images())
    high = Question("labels-enough", f"ε < {enough:g}?", Test("epsilon", "<", enough), low, leaf("stages"))
    return Question("labels-image", "Images?", Test("kind", "=", IMAGE), high, leaf("labels-other"))


def _below(name: str, threshold: float, yes: Question | Leaf, no: Question | Leaf) -> Question:
    return Question(name, f"n·ε < {threshold:,.0f}?", Test("n_epsilon", "<", threshold), yes, no)


def _pure(name: str, yes: Question | Leaf, no: Question | Leaf) -> Question:
    return Question(name, "δ = 0?", Test("delta", "=", 0.0), yes, no)


def _values(chapter: str, row: str) -> Mapping[str, Any]:
    return evidence.run(chapter)["records"][row]["values"]
