"""Paper D's comparisons at three accounts of the same runs, on records that J saw and on those that it did not.

At ε = 3 a run may have taken as many *kept* steps as Lemma 2 allows, which is the paper's count and bounds nothing
(chapter 12); or as many noisy gradients as Lemma 2 allows ("lemma2"), or as PLD allows ("pld"). For plain DP-SGD, which
keeps every step, the first two are the same. J of the annealed method is on 500 test records: "unseen" is its accuracy
on the others, beside the plain schemes' on all.
"""

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from book.evidence.plans import Plan
from book.evidence.rules import UNMEASURED as MISSING
from book.evidence.runs import Result
from dplib.stats import Measured
from papers.screening import accounts
from papers.screening.annealed_value_rows import DELTA, mean, read, spent, steps_to

ACCOUNTS = {"kept": "accepted", "lemma2": "queries", "pld": "queries"}  # what of the annealed method is charged
RECORDS = {"all": "accuracy", "unseen": "unseen"}  # columns of its curve
SETS = {"mnist": "honest_mnist", "fashion_mnist": "honest_fashion"}  # parts of the plan
RELU = {"mnist": "relu_mnist", "fashion_mnist": "relu_fashion_mnist"}
SCHEMES = {"tanh": "dpsgd_tanh", "auto_s": "dpsgd_auto_s"}
TARGETS = {"mnist": (94, 96, 98), "fashion_mnist": (82, 84, 86)}  # of Table 3, in percent
EPSILON = 3.0
GRID = tuple(EPSILON * np.arange(1, 11) / 10)  # budgets of Figure 3
RESAMPLES = 2000
Arms = Mapping[str, Sequence[Result]]


@functools.lru_cache(maxsize=512)
def steps_at(noise_multiplier: float, sample_rate: float, account: str, epsilon: float = EPSILON) -> int:
    """The steps, or noisy gradients, that ε pays for by an account of :data:`ACCOUNTS`."""
    by_lemma = accounts.steps_allowed(epsilon, noise_multiplier, sample_rate, DELTA)
    if account != "pld":
        return by_lemma
    return accounts.most_steps(lambda n: accounts.tight(noise_multiplier, sample_rate, n, DELTA), epsilon, by_lemma)


def at(run: Result, account: str, column: str, epsilon: float = EPSILON, *, annealed: bool = True) -> float:
    """A column of a run's curve where ε is spent by an account."""
    steps = steps_at(run["noise_multiplier"], run["sample_rate"], account, epsilon)
    return read(run, ACCOUNTS[account] if annealed else "queries", steps, column)


def gain(arms: Arms, account: str, records: str, scheme: str, epsilon: float = EPSILON) -> np.ndarray:
    """Accuracy of the annealed method less that of a plain scheme, in points, by seed; nan beyond a curve's end.

    Seeds are those that both schemes have.
    """
    pairs = zip(arms["ours"], arms[SCHEMES[scheme]], strict=False)
    return 100 * np.array([
        at(ours, account, RECORDS[records], epsilon) - at(plain, account, "accuracy", epsilon, annealed=False)
        for ours, plain in pairs
    ])  # fmt: skip


def leads(trained: Mapping[str, Arms], scheme: str) -> pd.DataFrame:
    """The annealed method less a plain scheme, a row for each data set, account, kind of records and budget.

    Columns dataset, account, records, epsilon, lead, low, high (points, 95% intervals), seeds; without rows for budgets
    that pay for less than the first evaluation of a curve, or for more than all of it.
    """
    rows = []
    for (dataset, arms), account, records, epsilon in product(trained.items(), ACCOUNTS, RECORDS, GRID):
        by_seed = gain(arms, account, records, scheme, float(epsilon))
        if np.isfinite(by_seed).all():
            lead = mean(by_seed)
            rows.append([dataset, account, records, float(epsilon), lead.value, lead.low, lead.high, lead.n])
    return pd.DataFrame(rows, columns=["dataset", "account", "records", "epsilon", "lead", "low", "high", "seeds"])


def loss_lead(arms: Arms, account: str, scheme: str, epsilon: float) -> np.ndarray:
    """Test loss of a plain scheme less that of the annealed method, by seed."""
    ours = [at(run, account, "loss", epsilon) for run in arms["ours"]]
    plain = [at(run, account, "loss", epsilon, annealed=False) for run in arms[SCHEMES[scheme]]]
    return np.array(plain) - np.array(ours)


def slope(arms: Arms, account: str, records: str, scheme: str) -> Measured:
    """By how many points the lead changes for each unit of ε: least squares over ε = 1, 2 and 3, by seed."""
    leads = np.array([gain(arms, account, records, scheme, epsilon) for epsilon in (1.0, 2.0, 3.0)])
    return mean(np.polyfit([1.0, 2.0, 3.0], leads, 1)[0])


def share_ahead(differences: np.ndarray) -> Measured:
    """Share of budgets at which the mean over seeds is above 0, from (budgets, seeds), with a bootstrap interval.

    Whole curves are drawn, since budgets along one run depend on each other.
    """
    kept = differences[~np.isnan(differences).any(axis=1)]
    draws = np.random.default_rng(0).integers(kept.shape[1], size=(RESAMPLES, kept.shape[1]))
    shares = (kept[:, draws].mean(axis=2) > 0).mean(axis=0)
    low, high = np.quantile(shares, [0.025, 0.975])
    return Measured(float((kept.mean(axis=1) > 0).mean()), float(low), float(high), kept.shape[1])


def epsilon_of(run: Result, steps: float, account: str) -> float:
    """ε after so many steps by an account, at most 3: a run that does not get there by then counts as getting there."""
    setting = run["noise_multiplier"], run["sample_rate"]
    if steps >= steps_at(*setting, account):
        return EPSILON
    if account == "pld":
        return float(accounts.tight(*setting, round(steps), DELTA))
    return float(accounts.paper_epsilon(*setting, round(steps), DELTA))


def saving(arms: Arms, scheme: str, account: str, target: float) -> np.ndarray:
    """ε of a plain scheme at a target less that of the annealed method, by seed, with both ends at 3 alike."""
    ours = [epsilon_of(run, steps_to(run, target, ACCOUNTS[account]), account) for run in arms["ours"]]
    plain = [epsilon_of(run, steps_to(run, target, "queries"), account) for run in arms[SCHEMES.get(scheme, scheme)]]
    n = min(len(ours), len(plain))  # DPSGD with relu has fewer seeds
    return np.array(plain[:n]) - np.array(ours[:n])


def work_ratio(arms: Arms, scheme: str, account: str, target: float) -> Measured:
    """Steps of a plain scheme to a target over those of the annealed method, geometric mean over seeds."""
    logs = []
    for ours, plain in zip(arms["ours"], arms[SCHEMES[scheme]], strict=True):
        ends = [steps_at(run["noise_multiplier"], run["sample_rate"], account) for run in (ours, plain)]
        logs.append(
            math.log(min(steps_to(plain, target, "queries"), ends[1]))
            - math.log(min(steps_to(ours, target, ACCOUNTS[account]), ends[0]))
        )
    log = mean(logs)
    return Measured(math.exp(log.value), math.exp(log.low), math.exp(log.high), log.n)


def farther_by_queries(arms: Arms) -> Measured:
    """How far the annealed method is from DPSGD (tanh) after as many noisy gradients, in points of accuracy, less how
    far after as many kept steps.
    """
    return mean(abs(gain(arms, "lemma2", "all", "tanh")) - abs(gain(arms, "kept", "all", "tanh")))


def late(plain: Sequence[Result], column: str, begins: float) -> Measured:
    """How much a column of plain runs rises from this share on of the steps that ε = 3 by Lemma 2 pays for."""
    rises = []
    for run in plain:
        steps = steps_at(run["noise_multiplier"], run["sample_rate"], "lemma2")
        rises.append(read(run, "queries", steps, column) - read(run, "queries", begins * steps, column))
    return mean(rises)


def compared(study: Plan) -> dict[str, Arms]:
    """The arms of each data set whose parts the plan has, {} of a plan without them."""
    arms = {name: study.read(part) for name, part in SETS.items() if part in study.parts}
    for name, part in RELU.items():
        if name in arms and part in study.parts:
            arms[name] = {**study.read(part), **arms[name]}
    return arms


def ended(arms: Arms) -> Arms:
    """The same runs, plain ones that go on beyond ε = 3 by Lemma 2 as they were there."""
    return {arm: results if arm == "ours" else [_ended(run) for run in results] for arm, results in arms.items()}


def _ended(run: Result) -> Result:
    steps = steps_at(run["noise_multiplier"], run["sample_rate"], "lemma2")
    if run["accepted"] <= steps:
        return run
    before = [i for i, queries in enumerate(run["curve"]["queries"]) if queries < steps]
    columns = {name: [column[i] for i in before] for name, column in run["curve"].items()}
    last = {name: read(run, "queries", steps, name) for name in ("accuracy", "loss")}
    last |= {"queries": steps, "accepted": steps}
    curve = {name: [*column, last.get(name)] for name, column in columns.items()}
    return {**run, **last, "curve": curve}


def rows(study: Plan) -> dict[str, dict[str, Any]]:
    """Values of the rows that these comparisons decide; :data:`MISSING` where the plan has not the part."""
    arms = compared(study)

    def over(kind: str, value: Callable[..., Measured], *axes: Iterable[str]) -> dict[str, Measured]:
        """{kind, a key of each axis, and a data set, joined: value(arms, *keys)}."""
        return {
            "_".join([kind, *keys, name]): value(arms[name], *keys) if name in arms else MISSING
            for keys in product(*axes)
            for name in SETS
        }

    def ahead(arms: Arms, *keys: str) -> Measured:
        return share_ahead(np.array([gain(arms, *keys, epsilon=budget) for budget in GRID]))

    def below(arms: Arms, *keys: str) -> Measured:
        return share_ahead(np.array([loss_lead(arms, *keys, epsilon=budget) for budget in GRID]))

    def late_over(kind: str, begins: float) -> dict[str, Measured]:
        def risen(arms: Arms, scheme: str) -> Measured:
            return MISSING if scheme not in arms else _scaled(late(arms[scheme], "accuracy", begins), 100)

        def fallen(arms: Arms, scheme: str) -> Measured:
            return MISSING if scheme not in arms else _scaled(late(arms[scheme], "loss", begins), -1)

        return over(f"{kind}_rise", risen, plain) | over(f"{kind}_fall_of_loss", fallen, plain)

    gains = over("gain", lambda arms, *keys: mean(gain(arms, *keys)), ACCOUNTS, RECORDS, SCHEMES)
    plain = ("dpsgd", *SCHEMES.values())
    savings, ratios = _savings(arms), _work_ratios(arms)
    return {
        "D.s-gain-same-hyperparameters": gains,
        "D.s-canonical-baseline": gains,
        "D.s-gap-to-nonprivate": gains,
        "D.s-advantage-grows-with-budget": over("slope", slope, ACCOUNTS, RECORDS, SCHEMES),
        "D.fig3-accuracy": over("share_ahead", ahead, ACCOUNTS, RECORDS, SCHEMES),
        "D.fig3-loss": over("share_ahead_loss", below, ACCOUNTS, SCHEMES),
        "D.s-lower-cost-always": savings,
        "D.s-gap-grows-with-cost": _rises(arms),
        "D.s-speeds-convergence": ratios,
        "D.s-efficient": {name: ratio for name, ratio in ratios.items() if "lemma2" in name}
        | {
            f"saving_{account}_{scheme}_{name}": savings[f"saving_{account}_{name}_{TARGETS[name][1]}_{scheme}"]
            for account, scheme, name in product(("lemma2", "pld"), SCHEMES, SETS)
        },
        "D.s-count-of-accepted": over("farther_by_queries_than_by_kept", farther_by_queries),
        "D.s-late-iterations": late_over("late", 2 / 3) | late_over("latest", 9 / 10),
        **{f"D.table1.{name.replace('_', '-')}": _cells(study, arms.get(name), name) for name in SETS},
    }


def _scaled(value: Measured, by: float) -> Measured:
    low, high = sorted(by * end for end in (value.low, value.high))
    return Measured(by * value.value, low, high, value.n)


def _work_ratios(arms: Mapping[str, Arms]) -> dict[str, Measured]:
    return {
        f"work_ratio_{account}_{scheme}_{name}": work_ratio(arms[name], scheme, account, TARGETS[name][1])
        if name in arms
        else MISSING
        for account in ("kept", "lemma2")
        for scheme in SCHEMES
        for name in SETS
    }


def _savings(arms: Mapping[str, Arms]) -> dict[str, Measured]:
    savings = {}
    for account in ACCOUNTS:
        for name, targets in TARGETS.items():
            for target in targets:
                for scheme in (*SCHEMES, "dpsgd"):
                    there = SCHEMES.get(scheme, scheme) in arms.get(name, {})
                    value = mean(saving(arms[name], scheme, account, target)) if there else MISSING
                    savings[f"saving_{account}_{name}_{target}_{scheme}"] = value
    return savings


def _rises(arms: Mapping[str, Arms]) -> dict[str, Measured]:
    """How much the saving over AUTO-S grows from each target of Table 3 to the next, and from the first to the last."""
    rises = {}
    for account in ACCOUNTS:
        for name, targets in TARGETS.items():
            ladder = [saving(arms[name], "auto_s", account, t) for t in targets] if name in arms else None
            for label, (low, high) in {"first_rise": (0, 1), "second_rise": (1, 2), "growth": (0, 2)}.items():
                rises[f"{label}_{account}_{name}"] = MISSING if ladder is None else mean(ladder[high] - ladder[low])
    return rises


def _cells(study: Plan, arms: Arms | None, name: str) -> dict[str, Measured]:
    """The cells of Table 1 at ε = 3 by Lemma 2, and that of the annealed method at the other accounts."""

    def cell(arm: str, account: str = "lemma2", *, annealed: bool = False) -> Measured:
        if arms is None or arm not in arms:
            return MISSING
        return mean(100 * at(run, account, "accuracy", annealed=annealed) for run in arms[arm])

    free = study.read("free")[name.replace("_", "-")]["results"] if "free" in study.parts else None
    return {
        "new_dpsgd": cell("dpsgd"),
        "new_dpsgd_tanh": cell("dpsgd_tanh"),
        "new_dpsgd_auto_s": cell("dpsgd_auto_s"),
        **{f"ours_{account}": cell("ours", account, annealed=True) for account in ACCOUNTS},
        "new_non_dp": MISSING if free is None else mean(100 * run["accuracy"] for run in free),
    }


# --- the parts of the method, and its settings, on MNIST --------------------------------------------------------------

PARTS = ("halves", "limits", "rates", "low_rate", "still", "batches", "temperatures", "witness")
CHARGED = ("kept", "lemma2")
Cell = tuple[str, str]  # a part of the plan and a name in it
# The printed setting, on a processor as every other cell: at ε = 1.5 with twenty seeds, and at 3 with five.
HALF: Cell = ("halves", "as printed")
ALIKE: Cell = ("limits", "10")
STILL: Cell = ("still", "0.5")  # as printed, and without momentum
NEWEST: Mapping[Cell, Cell] = {("rates", "0.1"): ("low_rate", "0.1")}  # where more seeds alone decide of an accuracy
# Figure 4's panels that are drawn: a part of the plan for each, and the value of Table 2, which other parts have.
GRIDS = {"rates": ((0.1, 0.5, 1.5, 2.0), 0.5), "batches": ((256, 512, 1024), 512)}


class Settings:
    """The runs of Figure 4 and of Section 3.1, each change paired by seed with the printed setting."""

    def __init__(self, study: Plan):
        """Args: study: a plan, of which parts may be missing."""
        self.by_part = {part: study.read(part) for part in PARTS if part in study.parts}

    def runs(self, cell: Cell) -> Sequence[Result] | None:
        part, name = cell
        return self.by_part[part][name] if part in self.by_part else None

    def newest(self, cell: Cell) -> Cell:
        """The cell of the seeds that decide of this one's accuracy; itself where there are no further ones."""
        further = NEWEST.get(cell, cell)
        return cell if self.runs(further) is None else further

    def level(self, cell: Cell, account: str, records: str = "all", epsilon: float = EPSILON) -> np.ndarray | None:
        """Accuracies in percent by seed, where ε is spent by an account; None where the runs are missing.

        A training that stopped before that counts with what it had when it stopped.
        """
        runs = self.runs(cell)
        if runs is None:
            return None
        column = RECORDS[records]
        accuracies = [at(run, account, column, epsilon) for run in runs]
        ends = [run["curve"][column][-1] for run in runs]
        return 100 * np.where(np.isnan(accuracies), ends, accuracies)

    def less(self, first: Cell, second: Cell, account: str, records: str = "all", epsilon: float = EPSILON) -> Measured:
        """Accuracy of one cell less another, in points, paired over the seeds that both have."""
        levels = [self.level(cell, account, records, epsilon) for cell in (first, second)]
        if any(level is None for level in levels):
            return MISSING
        n = min(map(len, levels))
        return mean(levels[0][:n] - levels[1][:n])

    def mean(self, cell: Cell, account: str) -> Measured:
        level = self.level(cell, account)
        return MISSING if level is None else mean(level)


def of_settings(study: Plan) -> dict[str, dict[str, Any]]:
    """Values of the rows on the rule's parts and on Figure 4; :data:`MISSING` where the plan has not the part."""
    at_setting = Settings(study)
    more = _more_work(at_setting)
    work = {
        f"new_queries_an_update_{name}": spent(study.read(part)["ours"])["queries_an_update"]
        if part in study.parts
        else MISSING
        for name, part in SETS.items()
    }
    return {
        "D.s-chance-acceptance": _at_half(at_setting, "printed_less_greedy", "greedy"),
        "D.s-rejection-limit": {
            **_at_half(at_setting, "limit_less_none", "no limit"),
            "share_stopped_without_limit": _stopped(at_setting.runs(("halves", "no limit"))),
        },
        **_figure_4(at_setting),
        "D.fig4d": {
            f"limit_{name}_less_5_{account}": at_setting.less(cell, ("limits", "5"), account)
            for name, cell in (("10", ALIKE), ("20", ("limits", "20")))
            for account in CHARGED
        }
        | {"queries_an_update_20_less_5": more},
        "D.s-time-consuming": {**work, "queries_an_update_20_less_5": more},
        **_watched(at_setting.runs(("witness", "watched"))),
        "D.s-rejects-nearly-all": {
            f"rises_passed_percent_last_tenth_{name}": _passed_last(study.read(part)["ours"])
            if part in study.parts
            else MISSING
            for name, part in SETS.items()
        },
    }


def _at_half(at_setting: Settings, name: str, change: str) -> dict[str, Measured]:
    return {
        f"{name}_{account}_{records}": at_setting.less(HALF, ("halves", change), account, records, 1.5)
        for account in CHARGED
        for records in RECORDS
    }


def _stopped(runs: Sequence[Result] | None) -> Measured:
    """Share of trainings that stop, at their cap on queries, before they have the kept steps of ε = 1.5."""
    if runs is None:
        return MISSING
    return mean(run["accepted"] < steps_at(run["noise_multiplier"], run["sample_rate"], "kept", 1.5) for run in runs)


def _watched(runs: Sequence[Result] | None) -> dict[str, dict[str, Measured]]:
    """What updates did to the loss on training records that J does not see."""
    heard = None if runs is None else [run["witness"] for run in runs]
    return {
        "D.s-tiny-probability": {
            "share_that_lower_j_and_raise_the_training_loss": MISSING
            if heard is None
            else mean(run["lower_j_alone"] / run["lower_j"] for run in heard)
        },
        "D.s-always-accept-better": {
            "accepted_that_lower_the_training_loss_percent": MISSING
            if heard is None
            else mean(100 * run["accepted_lower"] / run["accepted"] for run in heard)
        },
    }


def _passed_last(runs: Sequence[Result]) -> Measured:
    """Percent of the rises of J that pass by chance in the last tenth of a run, of those that chance decides there."""
    last = [{name: counts[-1] for name, counts in run["tenths"].items()} for run in runs]
    return mean(100 * tenth["by_chance"] / (tenth["by_chance"] + tenth["rejected"]) for tenth in last)


def _more_work(at_setting: Settings) -> Measured:
    """Noisy gradients for each kept step, with a limit of 20 less those with one of 5."""
    pair = [at_setting.runs(("limits", limit)) for limit in ("20", "5")]
    if None in pair:
        return MISSING
    return mean(a["queries"] / a["accepted"] - b["queries"] / b["accepted"] for a, b in zip(*pair, strict=True))


def figure_4(study: Plan) -> pd.DataFrame:
    """Accuracy where ε = 3 is spent, against the rate and the batch: a row for each value, account, and momentum.

    Columns part ("rates", "batches"), given, account, momentum ("momentum", "still"), accuracy, low, high (percent,
    95% intervals); without rows for parts that the plan has not.
    """
    at_setting, rows = Settings(study), []
    for part, account, how in product(GRIDS, CHARGED, ("momentum", "still")):
        for given in GRIDS[part][0]:
            level = at_setting.level(at_setting.newest(_cell(part, given, how)), account)
            if part in study.parts and level is not None:
                accuracy = mean(level)
                rows.append([part, given, account, how, accuracy.value, accuracy.low, accuracy.high])
    return pd.DataFrame(rows, columns=["part", "given", "account", "momentum", "accuracy", "low", "high"])


def _cell(part: str, given: float, how: str) -> Cell:
    """The cell of a rate or a batch, with the momentum of the earlier work or "still"."""
    if given == GRIDS[part][1]:
        return STILL if how == "still" else ALIKE
    return part, f"{given:g} still" if how == "still" else f"{given:g}"


def _figure_4(at_setting: Settings) -> dict[str, dict[str, Measured]]:
    rows: dict[str, dict[str, Measured]] = {"D.fig4a": {}, "D.fig4b": {}, "D.fig4c": {}}
    less = at_setting.less
    for account, how in product(CHARGED, ("momentum", "still")):
        low, base, best, high = (_cell("rates", rate, how) for rate in GRIDS["rates"][0])
        small, _, large = (_cell("batches", batch, how) for batch in GRIDS["batches"][0])
        key = f"{how}_{account}"
        rows["D.fig4a"] |= {
            f"rate_0_1_{key}": at_setting.mean(at_setting.newest(low), account),
            f"rate_2_{key}": at_setting.mean(high, account),
            f"rate_0_5_less_0_1_{key}": less(base, low, account),
            f"rate_1_5_less_0_5_{key}": less(best, base, account),
            f"rate_2_less_1_5_{key}": less(high, best, account),
        }
        rows["D.fig4b"] |= {
            f"batch_256_{key}": at_setting.mean(small, account),
            f"batch_256_less_512_{key}": less(small, base, account),
            f"batch_256_less_1024_{key}": less(small, large, account),
        }
    for account, q in product(CHARGED, ("3", "30", "100")):
        rows["D.fig4c"][f"q0_{q}_less_10_{account}"] = less(("temperatures", q), ALIKE, account)
    return rows
