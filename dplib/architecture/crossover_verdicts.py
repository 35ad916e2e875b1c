"""What paper B says of pairs of accuracy curves (Sections III-C, VI-C, VI-D), as rules on measured sweeps.

Each rule returns (claim, values, verdict, reason), as ``claims.record`` takes them. They rest on intervals: two
networks are told apart where a paired interval says so, and "not beyond chance" never counts as "the same".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats as sps

from dplib import stats
from dplib.architecture import crossover
from dplib.architecture.crossover import Crossover
from dplib.architecture.workflow_verdicts import names, rank_correlation
from dplib.architecture.workflows import CNN, COMPLEX, LOGISTIC, SIMPLE, Sweep
from dplib.stats import Comparison, holm

Record = tuple[str, dict[str, Any], str, str]
WORDS = {1: "beyond chance", 0: "not beyond chance", -1: "not so, another model leads beyond chance"}
PRINTED_LEVEL = 0.999  # of the bands in Figures 7 and 8


@dataclass(frozen=True)
class Curves:
    """A pair of curves, as the rules on Figure 7 need it.

    Attributes:
        crossing: estimated, with its interval.
        leads: who leads beyond chance at each budget, Holm over the budgets (1: simple, -1: complex, 0: neither).
        apart: the same from 99.9% bands that do not overlap, as the figure shows them.
        premise: the complex network is better without privacy, beyond chance.
    """

    crossing: Crossover
    leads: Sequence[int]
    apart: Sequence[int]
    premise: bool

    @property
    def wrong_order(self) -> bool:
        return crossover.sign_changes(self.leads) > 0 and next(s for s in self.leads if s) == -1

    @property
    def inside(self) -> bool:
        """The crossing and both ends of its interval lie within the budgets that were run."""
        c = self.crossing
        return c.in_range and c.low > 0 and bool(np.isfinite(c.high))

    @property
    def both_lead(self) -> bool:
        return {1, -1} <= set(self.leads)


def curves(sweep: Sweep, crossing: Crossover) -> Curves:
    """Leads, bands and premise of a sweep that has both networks, with and without privacy."""
    simple, other = (sweep.accuracies(m)[1] for m in (SIMPLE, COMPLEX))
    bands = [[stats.mean_interval(column, PRINTED_LEVEL) for column in one.T] for one in (simple, other)]
    apart = [int(a.low > b.high) - int(b.low > a.high) for a, b in zip(*bands, strict=True)]
    leads = crossover.significant_signs(simple, other).tolist()
    return Curves(crossing, leads, apart, sweep.compared(COMPLEX, SIMPLE, None).difference.low > 0)


def figure7(found: Mapping[str, Curves], own: Sequence[str], real: bool) -> Record:
    """Figure 7: the simple network leads below a crossing, the complex one above it.

    Args:
        found: every pair of curves that was run. own: those of the figure, one for each data set; the others are shown
            only. real: data of the paper, not a stand-in from a package.
    """
    simple, other = ([n for n in own if sign in found[n].leads] for sign in (1, -1))
    verdict = (
        "fails"
        if any(found[n].wrong_order for n in own)
        else "holds"
        if real and len(own) > 1 and all(found[n].both_lead for n in own)
        else "holds with change"
        if any(found[n].both_lead for n in own)
        else "undecided"
    )
    because = (
        f"Of the figure's data sets: {names(own)}. The simple network leads beyond chance somewhere on "
        f"{len(simple)} of {len(own)} ({names(simple)}), the complex one on {len(other)} ({names(other)}). "
        "SVHN is not here; CIFAR-10, where run, is a JPEG copy with few budgets."
    )
    return "B.fig7", {f"crossover, {n}": str(one.crossing) for n, one in found.items()}, verdict, because


def around_1e4(found: Mapping[str, Curves], own: Sequence[str]) -> Record:
    """Section VI-C: the crossover is around 1e4, and away from it the bands do not overlap."""
    telling = [n for n in own if found[n].premise or np.isfinite(found[n].crossing.high)]
    meets = [n for n in telling if found[n].crossing.low <= 1e5 and found[n].crossing.high >= 1e3]
    near = [n for n in meets if found[n].crossing.low >= 100 and found[n].inside]
    bands = [n for n in telling if {1, -1} <= set(found[n].apart)]
    verdict = (
        "undecided"
        if not telling
        else "fails"
        if not meets
        else "holds"
        if len(near) == len(bands) == len(telling)
        else "undecided"
    )
    values = {f"eps_crossover, {n}": str(one.crossing) for n, one in found.items()} | {
        f"99.9% bands apart, {n}": f"simple ahead {_yes(1 in one.apart)}, complex ahead {_yes(-1 in one.apart)}"
        for n, one in found.items()
    }
    because = (
        "Judged on the figure's data sets where the complex network leads without privacy beyond chance, or the "
        f"interval ends within the range: {names(telling)}. The interval meets [1e3, 1e5] on {names(meets)}; it also "
        f"starts above 100, so that it says “around 1e4”, on {names(near)}. The 99.9% bands are apart on either side "
        f"on {names(bands)}. Networks and features as printed; budgets are few, batch, epochs and rates are ours."
    )
    return "B.crossover-1e4", values, verdict, because


def gap_not_monotone(sweeps: Mapping[str, Sweep], crossings: Mapping[str, float]) -> Record:
    """Section VI-C: below the crossing the relative gap is not always largest at the smallest budget.

    At each later budget the relative gap is compared with that at the smallest, paired by seed; Holm over all of them.
    """
    peaks, later = {}, {}
    for name, one in sweeps.items():
        at, simple = one.accuracies(SIMPLE)
        other = np.maximum(one.accuracies(COMPLEX)[1], 0.01)  # a run that diverged counts as 0
        keep = at < crossings[name]
        if keep.sum() < 2:
            continue
        gaps = 100 * (simple / other - 1)[:, keep]
        top = int(gaps.mean(0).argmax())
        peaks[name] = f"{at[keep][top]:g} ({gaps.mean(0)[top]:.2f}%)"
        later |= {(name, float(e)): stats.paired(gaps[:, k], gaps[:, 0]) for k, e in enumerate(at[keep]) if k}
    clear = holm([c.p_value for c in later.values()]) < 0.05 if later else []
    signs = {k: int(np.sign(c.difference.value)) * bool(s) for (k, c), s in zip(later.items(), clear, strict=True)}
    larger = [f"{name} at {e:g}" for (name, e), sign in signs.items() if sign == 1]
    sets = {name.split(",")[0] for name in peaks}
    verdict = "holds" if larger else "fails" if len(sets) > 2 and all(s == -1 for s in signs.values()) else "undecided"
    because = (
        "Relative gap at budgets below the estimated crossing, against that at the smallest budget (paired, Holm): "
        f"larger beyond chance at {names(larger)}. One such budget is enough; the paper's example, CIFAR-10, has few "
        "budgets here."
    )
    values = {f"peak of the mean at ε, {n}": text for n, text in peaks.items()} or {"peak": "no budgets to compare"}
    return "B.gap-not-monotone", values | {"later budgets with a larger gap": len(larger)}, verdict, because


@dataclass(frozen=True)
class Followed:
    """What a rule loses on test data.

    Attributes:
        crossing: on validation data, which the rule follows.
        losses: for "rule", "always simple", "always complex": the network not taken minus the one taken, by budget.
        gains: for the two fixed choices: mean accuracy over the budgets, minus the rule's.
    """

    crossing: Crossover
    losses: Mapping[str, Mapping[float, Comparison]]
    gains: Mapping[str, Comparison]

    def mean(self, rule: str) -> float:
        """Mean over the budgets of the regret of the means."""
        return float(np.mean([max(0.0, c.difference.value) for c in self.losses[rule].values()]))

    def most(self, rule: str) -> tuple[float, float]:
        """Largest regret at a budget: of the mean, and the upper end of its interval."""
        found = [c.difference for c in self.losses[rule].values()]
        return max(0.0, *(d.value for d in found)), max(0.0, *(d.high for d in found))


def followed(sweep: Sweep, rng: np.random.Generator) -> Followed:
    """Estimate the crossing on validation accuracies, and follow it on test data; in points."""
    at, simple = sweep.accuracies(SIMPLE)
    other = sweep.accuracies(COMPLEX)[1]
    valid = [sweep.accuracies(m, "validation")[1] for m in (SIMPLE, COMPLEX)]
    found = crossover.estimate(at, *valid, rng=rng, resamples=100)
    losses, means = {}, {}
    for rule, value in {"rule": found.value, "always simple": np.inf, "always complex": 0.0}.items():
        taken, left = np.where(at <= value, simple, other), np.where(at <= value, other, simple)
        losses[rule] = {float(e): stats.paired(100 * left[:, k], 100 * taken[:, k]) for k, e in enumerate(at)}
        means[rule] = 100 * taken.mean(1)
    gains = {rule: stats.paired(means[rule], means["rule"]) for rule in list(means)[1:]}
    return Followed(found, losses, gains)


def crossover_rule(runs: Mapping[str, Followed], both_lead: Sequence[str]) -> Record:
    """Section III-C: take the simple network up to the crossover, the complex one beyond.

    Args:
        runs: by data set. both_lead: those on which each network leads beyond chance somewhere; elsewhere a rule has
            nothing to choose.
    """
    half = 0.5  # points
    most, upper = (max(one.most("rule")[k] for one in runs.values()) for k in (0, 1))
    beaten = [f"{fixed} on {n}" for n, one in runs.items() for fixed, c in one.gains.items() if c.difference.low > half]
    places = [f"{n} at {e:g}" for n, one in runs.items() for e, c in one.losses["always simple"].items()
              if c.difference.value >= half]  # fmt: skip
    verdict = "fails" if beaten else "holds" if upper < half and both_lead else "undecided"
    values = {
        "mean_regret_rule": max(one.mean("rule") for one in runs.values()),
        "largest_regret_rule": most,
        "largest_regret_rule, upper end": upper,
        "mean_regret_always_simple": max(one.mean("always simple") for one in runs.values()),
        "mean_regret_always_complex": max(one.mean("always complex") for one in runs.values()),
        "always simple loses half a point": names(places),
    }
    because = (
        f"Crossing estimated on validation data of the same seeds and budgets, regret in points of test accuracy, on "
        f"{names(runs)}; largest over data sets. It holds where the upper end of the regret's 95% interval is below "
        f"half a point at every budget, here it is {upper:.2f}, and both networks lead beyond chance somewhere: "
        f"{names(both_lead)}. It fails where a fixed choice is better by half a point beyond chance: {names(beaten)}."
    )
    return "B.crossover-rule", values, verdict, because


def best(sweep: Sweep, name: str, keep: Callable[[float], bool], others: Sequence[str] = ()) -> int:
    """1 where it beats each other model at all these budgets, -1 where one beats it (Bonferroni), beyond chance."""
    rivals = [n for n in others or sweep.models if n != name]
    found = [sweep.compared(name, n, e) for e in sweep.epsilons if keep(e) for n in rivals]
    if any(c.difference.value < 0 and c.p_value * len(found) < 0.05 for c in found):
        return -1
    return int(bool(found) and all(c.difference.low > 0 for c in found))


def three_models(sweep: Sweep, crossings: Mapping[tuple[str, str], Crossover]) -> tuple[str, str]:
    """Section VI-D: logistic regression is best below 0.25, the CNN above 0.5. Returns verdict and reason.

    A CNN that was trained for a few epochs and does not lead refutes nothing.
    """
    low, high = best(sweep, LOGISTIC, lambda e: e < 0.25), best(sweep, CNN, lambda e: e > 0.5)
    alone = (
        best(sweep, LOGISTIC, lambda e: e < 0.25, [CNN]),
        best(sweep, CNN, lambda e: e > 0.5, [LOGISTIC]),
    )
    direct = crossings[LOGISTIC, CNN]
    between = direct.low <= 0.5 and direct.high >= 0.25 and direct.in_range
    overtaken = {b: c for (a, b), c in crossings.items() if a == LOGISTIC and c.high < 0.25}
    verdict = (
        "holds"
        if low == high == 1 and not overtaken and 0.25 <= direct.value <= 0.5
        else "holds with change"
        if alone == (1, 1) and between
        else "fails"
        if alone[0] == -1
        else "undecided"
    )
    below = names(f"{e:g}" for e in sweep.epsilons if e < 0.25)
    because = (
        f"Logistic regression best below 0.25 (run at {below}): {WORDS[low]}"
        + "".join(f"; but its crossover with {n} is {c}, below 0.25" for n, c in overtaken.items())
        + f". CNN best above 0.5: {WORDS[high]}; our training is short for it. Of these two alone, logistic regression "
        f"leads below 0.25 {WORDS[alone[0]]}, the CNN above 0.5 {WORDS[alone[1]]}; their crossover is {direct}."
    )
    return verdict, because


def parameter_ratio(ratios: Sequence[float], gaps: Sequence[float]) -> Record:
    """Section V-A: the ratio of parameters does not predict the gap. By Table I itself."""
    x, y = np.log(ratios), np.asarray(gaps, dtype=float)
    rho, p_value = rank_correlation(x, y)
    without = [rank_correlation(np.delete(x, i), np.delete(y, i)) for i in range(len(x))]
    worst = max(p for _, p in without)
    missed = np.zeros(2)  # squared errors for the pair left out: a line in log ratio, the mean alone
    for i in range(len(x)):
        rest_x, rest_y = np.delete(x, i), np.delete(y, i)
        line = sps.linregress(rest_x, rest_y)
        missed += (y[i] - line.intercept - line.slope * x[i]) ** 2, (y[i] - rest_y.mean()) ** 2
    by_line, by_mean = np.sqrt(missed / len(x))
    verdict = "fails" if p_value < 0.05 and worst < 0.05 else "holds" if p_value > 0.2 else "undecided"
    values = {"rank_correlation_in_print": rho, "p_value": p_value, "largest_p_without_one_pair": worst}
    values |= {"error_of_prediction_by_ratio": float(by_line), "error_of_prediction_by_mean": float(by_mean)}
    because = (
        f"The paper's own {len(x)} pairs: Spearman's correlation of parameter ratio and gap is {rho:.2f}, exact "
        f"two-sided p = {p_value:.3f} if pairs were exchangeable, and they share data sets; without one pair p is up "
        f"to {worst:.2f}. For a pair left out, a line in the log ratio misses the gap by {by_line:.1f} points, the "
        f"mean of the others by {by_mean:.1f}."
    )
    return "B.ratio-not-predictive", values, verdict, because


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"
