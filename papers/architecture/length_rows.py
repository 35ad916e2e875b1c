"""Paper B's pairs at its own batch of 250 against the length of training: rows of the ledger and the figure's numbers.

A pair is trained at the printed budget for 1, 5, 20, 60 and the printed 200 epochs, each network at a rate of its own
for each length, with and without privacy. The two readings of a claim on a pair: after the printed length, and each
network after the length that is best for it. Rates and lengths are chosen on records held out of the training part.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from book.evidence.plans import Plan
from book.evidence.rules import UNMEASURED as MISSING
from book.evidence.runs import Result
from dplib import models, stats
from dplib.stats import Measured
from papers.architecture.crossover_rows import best_of
from papers.architecture.crossover_runs import COMPLEX, SIMPLE, Swept
from papers.common import printed
from papers.common.diverged import accuracies

EPOCHS = (1, 5, 20, 60, 200)
PRINTED_EPOCHS = 200
PAIRS = ("fcn-mnist", "fcn-fashion-mnist")  # of Table I
SHORT = {"fcn-mnist": "mnist", "fcn-fashion-mnist": "fashion"}  # in the names of values
# Parts of the plan by length, of a pair with and without privacy, and of the CNNs against which the small one is held;
# spelt out, so that the history of a row finds what it reads.
PARTS: Mapping[tuple[str, bool], Mapping[int, str]] = {
    ("fcn-mnist", True): {1: "mnist_1", 5: "mnist_5", 20: "mnist_20", 60: "mnist_60", 200: "mnist_200"},
    ("fcn-mnist", False): {
        1: "mnist_1_sgd", 5: "mnist_5_sgd", 20: "mnist_20_sgd", 60: "mnist_60_sgd", 200: "mnist_200_sgd",
    },
    ("fcn-fashion-mnist", True): {
        1: "fashion_1", 5: "fashion_5", 20: "fashion_20", 60: "fashion_60", 200: "fashion_200",
    },
    ("fcn-fashion-mnist", False): {
        1: "fashion_1_sgd", 5: "fashion_5_sgd", 20: "fashion_20_sgd", 60: "fashion_60_sgd", 200: "fashion_200_sgd",
    },
}  # fmt: skip
# After the printed length with DP-SGD, further seeds, which alone decide what those of PARTS left open.
MORE = {"fcn-fashion-mnist": "fashion_200_more"}
CNNS = {  # differences to parts, and their first seeds
    "fcn_less_stw_20": ("stw_20", 100),
    "fcn_less_stw_60": ("stw_60_more", 105),
    "fcn_less_stw_60_five": ("stw_60", 100),
    "fcn_less_lenet_20": ("lenet_20", 100),
    "fcn_less_lenet_60": ("lenet_60", 100),
}
FIRST = 100  # seed of the small network
SMALLER = ("32", "64", "256")  # units of other networks than Table I's, smaller than its large one of 512
Lengths = dict[int, dict[str, Sequence[Result]]]  # epochs to network to results by seed


def lengths(study: Plan, pair: str, *, private: bool = True) -> Lengths:
    """The runs of a pair of :data:`PAIRS` by length, as far as the plan has them."""
    parts = PARTS[pair, private]
    return {epochs: _only_budget(study.read(part)) for epochs, part in parts.items() if part in study.parts}


def _only_budget(swept: Swept) -> dict[str, Sequence[Result]]:
    return {name: next(iter(by_budget.values())) for name, by_budget in swept.items()}


def at_best_length(by_length: Lengths, name: str) -> np.ndarray | None:
    """Accuracies in percent, (seeds,), of a network after its best length by scores of tuning; None if one misses."""
    if len(by_length) < len(EPOCHS):
        return None
    best = max(by_length, key=lambda epochs: by_length[epochs][name][0]["tuning_score"])
    return accuracies(by_length[best][name], "test")


def leads(lengths_: Lengths) -> dict[str, Measured]:
    """Simple less complex network in points, paired by seed, by length as a text, and "own": each after its own."""
    pairs = {epochs: [accuracies(lengths_[epochs][name], "test") for name in (SIMPLE, COMPLEX)] for epochs in lengths_}
    by_length = {str(epochs): mean(*pairs.get(epochs, (None, None))) for epochs in EPOCHS}
    return {**by_length, "own": mean(at_best_length(lengths_, SIMPLE), at_best_length(lengths_, COMPLEX))}


def table(study: Plan) -> pd.DataFrame:
    """The lead of the simple network in points, a row for each pair, kind of training and length.

    Columns pair (of :data:`PAIRS`), training ("DP-SGD" or "SGD"), epochs, lead, low, high (95% interval), seeds,
    rate_simple and rate_complex; a length that has not been run has a row without numbers.
    """
    rows = []
    for pair, (training, private) in itertools.product(PAIRS, (("DP-SGD", True), ("SGD", False))):
        by_length = lengths(study, pair, private=private)
        for epochs, lead in zip(EPOCHS, leads(by_length).values(), strict=False):
            rates = [
                by_length[epochs][name][0]["learning_rate"] if epochs in by_length else None
                for name in (SIMPLE, COMPLEX)
            ]
            seeds = lead.n if epochs in by_length else 0
            rows.append([pair, training, epochs, lead.value, lead.low, lead.high, seeds, *rates])
    columns = ["pair", "training", "epochs", "lead", "low", "high", "seeds", "rate_simple", "rate_complex"]
    return pd.DataFrame(rows, columns=columns)


def mean(values: np.ndarray | None, less: np.ndarray | None) -> Measured:
    """Mean difference of values paired by seed, :data:`MISSING` where one is None."""
    if values is None or less is None:
        return MISSING
    return stats.mean_interval(values - less)


def best_of_three(values: np.ndarray) -> Measured:
    """Expected best of three runs, which is what paper B prints, from (n,) runs, with a jackknife interval."""
    n, whole = len(values), best_of(values)
    pseudo = np.array([n * whole - (n - 1) * best_of(np.delete(values, i)) for i in range(n)])
    return stats.mean_interval(pseudo)


def rows(study: Plan) -> dict[str, dict[str, object]]:
    """The rows of the ledger that these trainings decide, each with all that its rule asks for."""
    private = {pair: lengths(study, pair) for pair in PAIRS}
    plain = {pair: lengths(study, pair, private=False) for pair in PAIRS}
    dp, sgd = ({pair: leads(by_length) for pair, by_length in kind.items()} for kind in (private, plain))
    cost = {pair: _costs(private[pair], plain[pair]) for pair in PAIRS}
    both = ("200", "own")

    def named(kind: str, by_pair: Mapping[str, Mapping[str, Measured]], which: Sequence[str]) -> dict[str, object]:
        return {f"{kind}_{SHORT[pair]}_{length}": by_pair[pair][length] for pair in PAIRS for length in which}

    all_lengths = [str(epochs) for epochs in EPOCHS] + ["own"]
    return {
        "B.pitfall": {**named("lead", dp, all_lengths), **(smaller := _smaller_leads(study, private))},
        "B.paw-wins-everywhere": {
            **named("lead", dp, ["200"]),
            **_more_leads(study),
            **named("sgd_lead", sgd, ["200"]),
        },
        "B.takeaway-v": {**named("lead", dp, both), **smaller, "largest_parameter_ratio": largest_ratio()},
        "B.takeaway-vi": named("cost", cost, both),
        **_cells(study, private, plain),
        "B.intro-mnist-tiny": _against_cnns(study, private["fcn-mnist"]),
        "B.batch-size": batch_sizes(study),
    }


def batch_sizes(study: Plan) -> dict[str, Measured]:
    """Table I's pair on MNIST after some 20 epochs in batches of 250 and of 1,024, each at its own rate, in points.

    With DP-SGD at ε = 2.11 the smaller batch less the larger, by network, and the batch that is worse with SGD less the
    one that is better, by scores on validation records; of the newest seeds, which alone decide. :data:`MISSING` where
    the plan has not the runs of all.
    """
    parts = ("mnist_20", "mnist_20_sgd", "longer")
    names = {"simple": SIMPLE, "complex": COMPLEX}
    kinds = ("batch_250_less_1024", "loss_at_sgd_batch", "sgd_batch_250_less_1024")
    if not set(parts) <= set(study.parts):
        return {f"{kind}_{short}": MISSING for kind in kinds for short in names}
    small_sgd, large = (study.read(part) for part in parts[1:])
    by_batch = {250: ("batch_250_more", "mnist_20"), 1024: ("batch_1024_more", "batch_1024", "longer")}  # newest first
    private = {
        batch: study.read(next(part for part in newest if part in study.parts)) for batch, newest in by_batch.items()
    }
    values = {}
    for short, name in names.items():
        with_250, with_1024 = (accuracies(private[batch][name][2.11], "test") for batch in (250, 1024))
        of_sgd = [runs[name][math.inf] for runs in (small_sgd, large)]
        scores = [runs[0]["tuning_score"] for runs in of_sgd]
        other, sgds = (with_1024, with_250) if scores[0] > scores[1] else (with_250, with_1024)
        values[f"batch_250_less_1024_{short}"] = stats.independent(with_250, with_1024)
        values[f"loss_at_sgd_batch_{short}"] = stats.independent(other, sgds)
        values[f"sgd_batch_250_less_1024_{short}"] = stats.independent(*(accuracies(runs, "test") for runs in of_sgd))
    return values


def largest_ratio() -> float:
    """Parameters of the STW network over those of the PAW one, the largest of Table I's pairs."""
    pairs = {name.removesuffix("-paw") for name in printed.ARCHITECTURES if name.startswith("fcn-") and "-paw" in name}
    return max(_parameters(f"{pair}-stw") / _parameters(f"{pair}-paw") for pair in pairs)


def _parameters(name: str) -> int:
    return models.parameter_count(printed.ARCHITECTURES[name].make())


def _costs(private: Lengths, plain: Lengths) -> dict[str, Measured]:
    """What privacy costs the complex network more than the simple one, in points, by seed."""

    def more(simple: np.ndarray | None, complex_: np.ndarray | None) -> np.ndarray | None:
        return None if simple is None or complex_ is None else simple - complex_

    def at(by_length: Lengths, epochs: int) -> np.ndarray | None:
        if epochs not in by_length:
            return None
        return more(*(accuracies(by_length[epochs][name], "test") for name in (SIMPLE, COMPLEX)))

    best = [more(*(at_best_length(by_length, name) for name in (SIMPLE, COMPLEX))) for by_length in (private, plain)]
    return {"200": mean(at(private, PRINTED_EPOCHS), at(plain, PRINTED_EPOCHS)), "own": mean(*best)}


def _cells(study: Plan, private: Mapping[str, Lengths], plain: Mapping[str, Lengths]) -> dict[str, dict[str, object]]:
    """Table I's accuracies after the printed length: the mean, and the expected best of three."""
    rows = {}
    for pair in PAIRS:
        kinds = {"acc_dpsgd": private[pair].get(PRINTED_EPOCHS), "acc_sgd": plain[pair].get(PRINTED_EPOCHS)}
        if pair in MORE:
            kinds["acc_dpsgd_more"] = _more(study, pair)
        for kind, name in (("paw", SIMPLE), ("stw", COMPLEX)):
            cells: dict[str, object] = {}
            for cell, runs in kinds.items():
                values = None if runs is None else accuracies(runs[name], "test")
                cells[cell] = MISSING if values is None else stats.mean_interval(values)
                cells[f"best_{cell}"] = MISSING if values is None else best_of_three(values)
            rows[f"B.table1.{pair}-{kind}"] = cells
    return rows


def _more(study: Plan, pair: str) -> dict[str, Sequence[Result]] | None:
    """The runs of :data:`MORE` of a pair by network, None where the plan has them not."""
    return _only_budget(study.read(MORE[pair])) if MORE[pair] in study.parts else None


def _more_leads(study: Plan) -> dict[str, Measured]:
    """Simple less complex network in points on the runs of :data:`MORE`, paired by seed."""
    leads_ = {}
    for pair in MORE:
        runs = _more(study, pair)
        both = (None, None) if runs is None else [accuracies(runs[name], "test") for name in (SIMPLE, COMPLEX)]
        leads_[f"lead_{SHORT[pair]}_{PRINTED_EPOCHS}_more"] = mean(*both)
    return leads_


def _smaller_leads(study: Plan, private: Mapping[str, Lengths]) -> dict[str, Measured]:
    """Networks of :data:`SMALLER` less the complex one in points, on Fashion-MNIST after the printed length."""
    large = private["fcn-fashion-mnist"].get(PRINTED_EPOCHS)
    there = large is not None and "fashion_smaller" in study.parts
    smaller = _only_budget(study.read("fashion_smaller")) if there else {}
    return {
        f"lead_fashion_{PRINTED_EPOCHS}_of_{units}": mean(
            *(accuracies(runs, "test") for runs in (smaller[units], large[COMPLEX]))
        )
        if smaller
        else MISSING
        for units in SMALLER
    }


def _against_cnns(study: Plan, private: Lengths) -> dict[str, object]:
    """The small network after its own best length less a CNN, in points, by :data:`CNNS`, paired by seed."""
    small = at_best_length(private, SIMPLE)
    values: dict[str, object] = {"parameters": _parameters("fcn-mnist-paw")}
    for difference, (part, first) in CNNS.items():
        values[difference] = MISSING
        if small is not None and part in study.parts:
            cnn = accuracies(next(iter(_only_budget(study.read(part)).values())), "test")
            values[difference] = mean(small[first - FIRST :][: len(cnn)], cnn)
    return values
