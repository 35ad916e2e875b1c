"""Rows of the ledger from measured workflows: (claim, values, verdict, reason), as ``claims.record`` takes them.

The rules are those of :mod:`dplib.architecture.workflow_verdicts`: a verdict follows from intervals, so that another
run may come out otherwise, and a run that is too short to tell says "undecided".
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dplib import claims, stats, trainings
from dplib.architecture import workflow_verdicts as judge
from dplib.architecture.crossover import Crossover
from dplib.architecture.workflow_verdicts import names, percent
from dplib.architecture.workflows import COMPLEX, PAIRS, SIMPLE, Sweep
from dplib.stats import Comparison, Measured

Record = tuple[str, dict[str, Any], str, str]
Gaps = Mapping[str, Mapping[str, Comparison]]  # data set to "dp" and "sgd": simple minus complex, in points

SETTLED = (250, 200)  # batch and epochs that fit all four printed budgets of the FCNs
DATA_ROWS = {
    "mnist": "B.data-mnist",
    "fashion-mnist": "B.data-fashion-mnist",
    "cifar10-jpeg": "B.data-cifar10",
    "cifar10": "B.data-cifar10",
}


def settled(name: str, batch: int, steps: int) -> bool:
    """Whether a training has at least the setting that fits the printed budget of the FCN on this data set."""
    n_train = claims.get(DATA_ROWS[name]).published["n_train"] if name in DATA_ROWS else np.inf
    return batch == SETTLED[0] and steps * batch >= SETTLED[1] * n_train


def table1(sweeps: Mapping[str, Sweep], gaps: Gaps, as_settled: Collection[str] = ()) -> Iterator[Record]:
    """Rows of Table I for every data set that has some; ``as_settled``: those trained as :func:`settled` asks."""
    for name, one in sweeps.items():
        stand_in = PAIRS[name].stands_for
        for model, paper in judge.printed_pair(name).items():
            size = one.parameters(model)
            found = {"acc_dpsgd": percent(one.at(model, PAIRS[name].epsilon)), "acc_sgd": percent(one.at(model, None))}
            says = {key: judge.agreement(value, paper[key]) for key, value in found.items()}
            values: dict[str, Any] = {"parameters": size, **found}
            signs, note = [], ""
            if model == SIMPLE:
                dp, sgd = gaps[name]["dp"], gaps[name]["sgd"]
                values |= {"gap_dpsgd": dp.difference, "gap_sgd": sgd.difference}
                values["parameter_ratio"] = round(one.parameters(COMPLEX) / size, 1)
                signs = [judge.backed(dp, paper["gap_dpsgd"]), judge.backed(sgd, paper["gap_sgd"])]
                note = f" Gaps: {dp} with DP-SGD, {sgd} with SGD."
            yield (
                f"B.table1.{PAIRS[name].row}-{'paw' if model == SIMPLE else 'stw'}",
                values | {"epsilon": PAIRS[name].epsilon},
                judge.cells_verdict(list(says.values()), signs, bool(stand_in), settled=name in as_settled),
                "Means of the last iterate over the seeds, rates tuned on validation data. "
                + _against(name, says, name in as_settled)
                + note,
            )


def _against(name: str, says: Mapping[str, str], as_settled: bool) -> str:
    """How the accuracies stand to the printed ones, in words."""
    if PAIRS[name].stands_for:
        return f"Measured on {name} in place of {PAIRS[name].stands_for}: only the signs of gaps compare."
    text = f"Against the printed value: DP-SGD {says['acc_dpsgd']}, SGD {says['acc_sgd']}."
    if "higher" in says.values() and not as_settled:
        batch, epochs = SETTLED
        text += f" Higher with another batch and length; batch {batch} with {epochs} epochs was not trained."
    return text


def pitfall(gaps: Gaps, elsewhere: Mapping[str, Sequence[float]] | None = None) -> Record:
    """Section I: is the large network the worse one at equal (ε, δ)?

    Args:
        gaps: one for each data set, at the printed budget. elsewhere: budgets at which the simple network leads beyond
            chance, for the text.
    """
    dp, won, lost = _dp_gaps(gaps)
    return (
        "B.pitfall",
        {f"gap, {n}": g for n, g in dp.items()},
        "holds"
        if len(won) == len(dp)
        else "fails"
        if len(lost) == len(dp)
        else "holds with change"
        if won
        else "undecided",
        "Simple minus complex at equal (ε, δ), points, paired. The large network is worse beyond chance in "
        f"{names(won)}, of {names(dp)}; better in {names(lost)}."
        + "".join(
            f" Over all budgets, {name}: the small network leads beyond chance at ε = {names(f'{e:g}' for e in at)}."
            for name, at in (elsewhere or {}).items()
        ),
    )


def summary(sweeps: Mapping[str, Sweep], gaps: Gaps) -> Iterator[Record]:
    """What the paper says of all its pairs together."""
    dp, won, lost = _dp_gaps(gaps)
    sgd = {name: g["sgd"].difference for name, g in gaps.items()}
    own = [n for n in sweeps if PAIRS[n].row]
    if not own:
        return
    real = [n for n in own if not PAIRS[n].stands_for]
    against = [n for n in real if n in lost or sgd[n].low > 0]
    yield (
        "B.paw-wins-everywhere",
        {f"DP-SGD gap, {n}": dp[n] for n in own} | {f"SGD gap, {n}": sgd[n] for n in own},
        "fails" if against else "undecided",
        f"{len(own)} of 8 pairs run ({names(own)}). PAW better under DP-SGD beyond chance: "
        f"{names(n for n in own if n in won)}; STW better under SGD: {names(n for n in own if sgd[n].high < 0)}; "
        f"against the claim: {names(against)}. One pair can refute it; only all of them could confirm it.",
    )
    ratios = judge.ratios()
    widest = max(own, key=lambda n: dp[n].value)
    yield (
        "B.largest-gap",
        {"largest_parameter_ratio": round(max(ratios), 1), f"largest_gap_measured ({widest})": dp[widest]},
        "undecided" if round(max(ratios)) == 32 else "fails",
        f"The ratio is right: {max(ratios):.2f}, rebuilt from the layers of all pairs "
        f"({judge.PAIR_ROWS[int(np.argmax(ratios))]}). The largest gap that we measured is on {widest}; Purchase-100 "
        "itself cannot be had.",
    )
    wins = sum(n in won for n in own)
    yield (
        "B.takeaway-v",
        {"pairs_run": len(own), "smaller_wins": wins, "median_parameter_ratio": float(np.median(ratios))},
        "holds"
        if wins == len(own) > 1
        else "fails"
        if any(n in lost for n in real)
        else "holds with change"
        if 2 * wins > len(own)
        else "undecided",
        f"The smaller network wins beyond chance at the printed budget on {wins} of {len(own)} pairs ({names(own)}); "
        f"the printed networks' parameter ratios are {min(ratios):.1f} to {max(ratios):.0f}.",
    )
    for name in ("cifar10", "cifar10-jpeg"):
        if name in sweeps:
            loss = Measured(-sgd[name].value, -sgd[name].high, -sgd[name].low, sgd[name].n)
            yield (
                "B.intro-cifar-fcn",
                {"parameter_ratio": round(max(ratios)), "dp_gain_points": dp[name], "sgd_loss_points": loss},
                "holds with change" if dp[name].low > 0 and loss.low > 0 else "undecided",
                f"Both printed FCNs on {name} at ε = {PAIRS[name].epsilon:g}, shorter training: the small one gains "
                f"{dp[name]} points under DP-SGD and loses {loss} without privacy.",
            )
            return


def takeaway(sweeps: Mapping[str, Sweep], reference: Mapping[str, float], crossings: Mapping[str, Crossover]) -> Record:
    """Section VI-E: does the cost of privacy grow with the network, and can a crossing be measured?"""
    extra = {}
    for n, one in sweeps.items():
        small, big = (100 * (one.at(m, None) - one.at(m, reference[n])) for m in (SIMPLE, COMPLEX))
        extra[n] = stats.paired(big, small)
    bounded = [n for n, c in crossings.items() if c.low > 0 and np.isfinite(c.high)]
    grows = all(c.difference.low > 0 for c in extra.values())
    return (
        "B.takeaway-vi",
        {f"cost: complex − simple, {n}": c.difference for n, c in extra.items()}
        | {f"crossover, {n}": str(c) for n, c in crossings.items()},
        "fails"
        if any(c.difference.high < 0 for n, c in extra.items() if not PAIRS[n].stands_for)
        else "holds"
        if grows and bounded
        else "holds with change"
        if grows
        else "undecided",
        "The cost of privacy of the larger network minus that of the smaller, points: "
        + "; ".join(f"{n}: {c}" for n, c in extra.items())
        + f". A crossing with both ends of its interval in range: {names(bounded)}. More data instead of a simpler "
        "model is the topic of another chapter.",
    )


def data_sets(used: Sequence[str]) -> Iterator[Record]:
    """Sizes of the data sets (Section IV-A)."""
    for name in used:
        if name in DATA_ROWS:
            parts = trainings.task(name, "image")
            found = {"n_train": len(parts.y_train), "n_val": len(parts.y_valid), "n_test": len(parts.y_test)}
            found |= {"n": sum(found.values()), "classes": len(parts.classes)}
            same = all(found[k] == v for k, v in claims.get(DATA_ROWS[name]).published.items() if k in found)
            copy = PAIRS[name].stands_for
            yield (
                DATA_ROWS[name],
                found,
                "fails" if not same else "holds with change" if copy else "holds",
                f"{name}: {'all' if same else 'not all'} sizes as printed; half of the published test part is the "
                "validation part, drawn anew by each seed." + (" JPEG copies of the images." if copy else ""),
            )
    paper = claims.get("B.data-purchase100").published
    in_parts = paper["n_train"] + paper["n_val"] + paper["n_test"]
    yield (
        "B.data-purchase100",
        {"sum_of_parts": in_parts, "records_unaccounted_for": paper["n"] - in_parts},
        "undecided",
        f"The set cannot be had, so no run can tell. The printed parts add to {in_parts:,} of {paper['n']:,} records; "
        "the rest is not used. Location (446 binary features, 30 classes) stands in for it where run.",
    )


def _dp_gaps(gaps: Gaps) -> tuple[dict[str, Measured], list[str], list[str]]:
    """Gaps under DP-SGD, and where the simple network wins or loses beyond chance."""
    dp = {name: g["dp"].difference for name, g in gaps.items()}
    return dp, [n for n in dp if dp[n].low > 0], [n for n in dp if dp[n].high < 0]


def best_of_three(cells: Mapping[str, Sequence[np.ndarray]]) -> Record:
    """Section V-A reports the best of three or more by test accuracy: what that adds to the mean, by data set.

    The best of several is never below their mean, so that no run can decide the row.
    """
    added = {n: float(np.mean([100 * (judge.best_of(v) - v.mean()) for v in some])) for n, some in cells.items()}
    return (
        "B.protocol-architecture",
        {f"best_of_three_minus_mean, {n}": value for n, value in added.items()}
        | {"cells": sum(map(len, cells.values()))},
        "undecided",
        "It tells how the paper worked; no run of ours can tell whether it did. What the best of three test accuracies "
        "adds to the mean, in points (expected maximum of three of our seeds, mean over the cells): "
        + "; ".join(f"{n}: {value:.2f}" for n, value in added.items())
        + ". It selects on the test set. Equal on both sides it leaves a gap alone on average, but adds its own noise.",
    )
