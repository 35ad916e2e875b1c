"""How the verdicts on Table X follow from runs: every function returns (values, verdict, because).

``runs`` are the lines of :func:`dplib.architecture.feature_pafs.table`. Comparisons are paired over splits; a sign
counts where it is significant at 5% after Holm's correction over all comparisons of the claim.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from dplib import stats
from dplib.architecture.feature_pafs import per_split
from dplib.architecture.feature_size_verdicts import elsewhere_index
from dplib.stats import holm

COLUMNS = {  # of Table X
    "all": "All",
    "pafs": "PAFS (test)",
    "cfs_greedy": "CFS-Greedy",
    "cfs_ga": "CFS-GA",
    "random": "Random",
}
SMALL = 2.0  # "small" budgets: the rows of Table X in which no method is printed above 57%

Finding = tuple[dict, str, str]


def percent(runs: pd.DataFrame, method: str, epsilon: float) -> np.ndarray:
    """Test accuracies in per cent, one for each split."""
    return 100 * per_split(runs, method, epsilon)


def differences(runs: pd.DataFrame, pairs: Sequence[tuple[str, str]], epsilons: Sequence[float]) -> pd.DataFrame:
    """Paired differences a - b in points for every pair of methods and every epsilon.

    Returns:
        Columns epsilon, a, b, difference, low, high, p, sign: 1 or -1 where significant after Holm's correction.
    """
    lines = []
    for epsilon in epsilons:
        for a, b in pairs:
            found = stats.paired(percent(runs, a, epsilon), percent(runs, b, epsilon))
            d = found.difference
            lines.append([epsilon, a, b, d.value, d.low, d.high, found.p_value])
    table = pd.DataFrame(lines, columns=["epsilon", "a", "b", "difference", "low", "high", "p"])
    return table.assign(sign=np.where(holm(table["p"].to_numpy()) < 0.05, np.sign(table["difference"]), 0).astype(int))


def printed_row(runs: pd.DataFrame, epsilon: float, published: Mapping[str, float]) -> Finding:
    """One row of Table X against the prediction interval of one split, as the paper shows one split (or does not say).

    "holds": all five printed values lie in the 99% prediction intervals (95% for the row, by Bonferroni), and no method
    is significantly on the other side of All than printed. "holds with change": the values do, but some method is.
    """
    values, outside, wrong, widths = {}, [], [], {}
    baseline = percent(runs, "All", epsilon)
    compared = []
    for key, method in COLUMNS.items():
        ours = percent(runs, method, epsilon)
        values[key] = stats.mean_interval(ours)
        n = len(ours)
        half = scipy_stats.t.ppf(0.995, n - 1) * ours.std(ddof=1) * np.sqrt(1 + 1 / n)
        widths[method] = half
        if abs(published[key] - ours.mean()) > half:
            outside.append(f"{method} ({published[key]:g} against {ours.mean():.2f} ± {half:.1f})")
        if key != "all":
            compared.append((key, method, stats.paired(ours, baseline)))
    significant = holm(np.array([c.p_value for *_, c in compared])) < 0.05
    for (key, method, found), clear in zip(compared, significant, strict=True):
        if clear and np.sign(found.difference.value) != np.sign(published[key] - published["all"]):
            wrong.append(f"{method} is {found.difference.value:+.1f} points from All")
    values["pafs_on_validation_part"] = stats.mean_interval(percent(runs, "PAFS (validation)", epsilon))
    values["one_feature"] = stats.mean_interval(percent(runs, "One feature", epsilon))
    values["a_single_split_within"] = ", ".join(f"{name} ± {half:.1f}" for name, half in widths.items())
    if outside:
        return values, "not reproducible as stated", f"Outside what a single split gives here: {'; '.join(outside)}."
    if wrong:
        because = f"All five values are such as one split gives, but on average over splits {'; '.join(wrong)}."
        return values, "holds with change", because
    because = (
        "All five values are such as one split gives, and no order against All is contradicted. One split is a weak "
        f"test: it may be off our means by {min(widths.values()):.1f} to {max(widths.values()):.1f} points (99% each)."
    )
    return values, "holds", because


def largest_gain(runs: pd.DataFrame, epsilons: Sequence[float], methods: Sequence[str], published) -> Finding:
    """The largest gap between a subset and all features: B.intro-bc-gain.

    Method and budget are chosen on the other splits each time, as the largest of many means is flattered. The claim
    holds where both printed figures, in points and relative, lie in the intervals of ours; with change where there is a
    gain beyond chance and one of them does not.
    """
    gaps = differences(runs, [(m, "All") for m in methods], epsilons)
    cells = [(percent(runs, r.a, r.epsilon), percent(runs, "All", r.epsilon)) for r in gaps.itertuples()]
    points = np.array([a - b for a, b in cells])
    taken = elsewhere_index(points), np.arange(points.shape[1])
    ours = {
        "absolute_gain_points": stats.mean_interval(points[taken]),
        "relative_gain_percent": stats.mean_interval(np.array([100 * (a / b - 1) for a, b in cells])[taken]),
    }
    best = gaps.loc[gaps["difference"].idxmax()]
    a, b = cells[int(gaps["difference"].idxmax())]
    flattered = stats.paired(a, b).difference
    values = ours | {
        "absolute_gain_of_the_best_cell": flattered,
        "epsilon": float(best["epsilon"]),
        "method": best["a"],
        "accuracy_all": stats.mean_interval(b),
        "accuracy_subset": stats.mean_interval(a),
    }
    outside = [name for name, one in ours.items() if not one.low <= published[name] <= one.high]
    gain = ours["absolute_gain_points"]
    target = published["absolute_gain_points"]
    implied = 100 * target / published["relative_gain_percent"]
    pairs = [(a.mean(), b.mean()) for a, b in cells]
    near = int(np.argmin([np.hypot(x - implied - target, whole - implied) for x, whole in pairs]))
    closest = gaps.iloc[near]
    verdict = "holds" if not outside else "holds with change" if gain.low > 0 else "undecided"
    verdict = "fails" if gain.high <= 0 else verdict
    because = (
        f"Where the other splits choose method and budget, the largest gap is {gain} points, "
        f"{ours['relative_gain_percent']}% relative. The largest mean of {len(gaps)}, {best['a']} at ε = "
        f"{best['epsilon']:g}, is {flattered} points. The two printed figures imply {implied + target:.2f}% against "
        f"{implied:.2f}%, no pair of the paper's table; the nearest here is {pairs[near][0]:.1f}% against "
        f"{pairs[near][1]:.1f}%, {closest['a']} at ε = {closest['epsilon']:g}."
    )
    if verdict == "holds with change":
        because += f" There is a gain, but another one than printed: outside is {', '.join(outside)}."
    return values, verdict, because


def better_somewhere(runs: pd.DataFrame, method: str, epsilons: Sequence[float], what: str) -> Finding:
    """Claims of the form "in some settings": at least one significant win over All, and where there are losses."""
    gaps = differences(runs, [(method, "All")], epsilons)
    wins, losses = gaps[gaps["sign"] > 0], gaps[gaps["sign"] < 0]
    best = gaps.loc[gaps["difference"].idxmax()]
    top = stats.paired(percent(runs, method, best["epsilon"]), percent(runs, "All", best["epsilon"])).difference
    values = {"wins": len(wins), "losses": len(losses), "budgets": len(gaps)}
    values |= {"largest_gain_points": top, "at_epsilon": float(best["epsilon"])}
    verdict = "holds" if len(wins) else "fails" if len(losses) == len(gaps) else "undecided"
    because = (
        f"{what} beats all features at {listed(wins['epsilon'])} and loses at {listed(losses['epsilon'])} "
        "(paired, Holm)."
    )
    return values, verdict, because


def small_budgets(runs: pd.DataFrame, epsilons: Sequence[float]) -> Finding:
    """B.fs-small-eps: for small epsilon every method beats All.

    It holds where all differences are above 0 beyond chance, and with change where that is so from some budget on, for
    half of the small ones at least, and none is below 0. PAFS is that with test records where the runs have it.
    """
    small, present = [e for e in epsilons if e <= SMALL], set(runs["method"])
    methods = [m if m in present else "PAFS (validation)" for m in COLUMNS.values() if m != "All"]
    gaps = differences(runs, [(m, "All") for m in methods], small)
    losses, unclear = gaps[gaps["sign"] < 0], gaps[gaps["sign"] == 0]
    values = {"comparisons": len(gaps), "better": int((gaps["sign"] > 0).sum()), "worse": len(losses)}
    values["better_random"] = int((gaps[gaps["a"] == "Random"]["sign"] > 0).sum())
    for e in small:
        values[f"least_gain_at_{e:g}"] = float(gaps[gaps["epsilon"] == e]["difference"].min())
    clear_from = [e for e in small if (gaps[gaps["epsilon"] >= e]["sign"] > 0).all()]
    enough = 2 * len(clear_from) >= len(small)
    if values["better"] == len(gaps):
        verdict = "holds"
    else:
        verdict = "fails" if len(losses) else "holds with change" if clear_from and enough else "undecided"
    names = ", ".join(f"{r.a} at {r.epsilon:g}" for r in unclear.itertuples())
    because = (
        f"With ε up to {SMALL:g}, {values['better']} of {len(gaps)} differences from All are significantly above 0 and "
        f"{len(losses)} below" + (f"; not clear: {names}." if names else ".")
    )
    if verdict == "holds with change":
        because += f" All are clear from ε = {clear_from[0]:g} on."
    return values, verdict, because


def listed(epsilons) -> str:
    """Budgets in words."""
    values = [f"{e:g}" for e in epsilons]
    return f"ε = {', '.join(values)}" if values else "no budget"
