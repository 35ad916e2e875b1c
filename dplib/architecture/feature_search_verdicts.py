"""How the verdicts on the searches follow from runs: what they find, and what they are worth at one total budget.

Every function returns (values, verdict, because), as in :mod:`dplib.architecture.feature_verdicts`. ``accuracies`` are
those of one total budget for selection and model: total to method to test accuracies in per cent, one for each split.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from dplib import stats
from dplib.architecture.feature_pafs import per_split
from dplib.architecture.feature_verdicts import SMALL, Finding, differences, listed, percent
from dplib.stats import holm

Accuracies = Mapping[float, Mapping[str, np.ndarray]]

OTHERS = ("All", "CFS-Greedy", "CFS-GA", "Random")  # than PAFS


def strong_leads(runs: pd.DataFrame, accuracies: Mapping[float, np.ndarray]) -> pd.DataFrame:
    """Leads of a stronger search of PAFS over the other methods, paired over the first splits; signs as differences do.

    Args:
        accuracies: budget to test accuracies in per cent, one for each of the first splits.
    """
    lines = []
    for epsilon, ours in accuracies.items():
        for other in OTHERS:
            found = stats.paired(ours, percent(runs, other, epsilon)[: len(ours)])
            lines.append([epsilon, other, found.difference, found.p_value])
    table = pd.DataFrame(lines, columns=["epsilon", "b", "difference", "p"])
    signs = [np.sign(d.value) if p < 0.05 else 0 for d, p in zip(table["difference"], holm(table["p"]), strict=True)]
    return table.assign(sign=np.array(signs, dtype=int))


def pafs_best(runs: pd.DataFrame, epsilons: Sequence[float], strong: pd.DataFrame, how: str) -> Finding:
    """B.pafs-best: overall (the mean over the rows), and row by row, for both readings of the fitness.

    Args:
        strong: of :func:`strong_leads`, on validation records with many trainings behind each fitness value, as ``how``
            says. Where it leads all the others at some budget, the claim holds with change: the searches of the table
            were too weak there.
    """
    others = list(OTHERS)
    values, signs = {}, {}
    for name, method in (("as_printed", "PAFS (test)"), ("validation", "PAFS (validation)")):
        ours = np.mean([percent(runs, method, e) for e in epsilons], axis=0)
        found = [stats.paired(ours, np.mean([percent(runs, o, e) for e in epsilons], axis=0)) for o in others]
        clear = holm(np.array([f.p_value for f in found])) < 0.05
        signs[name] = [int(np.sign(f.difference.value)) if c else 0 for f, c in zip(found, clear, strict=True)]
        for other, f in zip(others, found, strict=True):
            values[f"{name}_minus_{other}"] = f.difference
        rows = differences(runs, [(method, o) for o in others], epsilons)
        least = rows.groupby("epsilon")["difference"].min()
        values[f"{name}_first_in_rows"] = int((least > 0).sum())
    honest, printed = signs["validation"], signs["as_printed"]
    values |= {f"PAFS minus {r.b}, {how}, ε = {r.epsilon:g}": r.difference for r in strong.itertuples()}
    ahead = [e for e, at in strong.groupby("epsilon") if (at["sign"] > 0).all()]
    if all(s > 0 for s in honest):
        verdict = "holds"
    elif ahead:
        verdict = "holds with change"
    elif any(s < 0 for s in honest):
        verdict = "fails"
    else:
        verdict = "undecided"
    because = (
        f"Mean over the {len(epsilons)} budgets, paired over splits. With the test part as fitness PAFS is clearly "
        f"ahead of {_names(others, printed, 1)}; with validation records, ahead of {_names(others, honest, 1)}"
        + (f" and behind {_names(others, honest, -1)}" if any(s < 0 for s in honest) else "")
        + f". With {how}, on validation records, PAFS is ahead of all four at {listed(ahead)} (Holm)."
    )
    return values, verdict, because


def adapts(runs: pd.DataFrame, epsilons: Sequence[float], strong: Mapping[str, stats.Measured]) -> Finding:
    """B.others-ignore-eps: the size of PAFS's subsets against epsilon, by rank correlations in each split.

    Over all budgets, and apart for small ones, where noise hides the fitness, and for larger ones. It holds
    where the size rises over all with both kinds of fitness, with change where it does over the larger budgets, and
    fails where it does not rise there with either and falls over all with both.

    Args:
        strong: sizes that PAFS chooses at small budgets with many trainings behind each fitness value.
    """
    values, clear = {}, {}
    parts = {
        "": list(epsilons),
        f"_up_to_{SMALL:g}": [e for e in epsilons if e <= SMALL],
        f"_above_{SMALL:g}": [e for e in epsilons if e > SMALL],
    }
    for name, method in (("as_printed", "PAFS (test)"), ("validation", "PAFS (validation)")):
        sizes = {e: per_split(runs, method, e, "size") for e in epsilons}
        for part, some in parts.items():
            if len(some) < 2:
                clear[name, part] = 0
                continue
            at = np.array([sizes[e] for e in some])  # (budgets, splits)
            rho = [scipy_stats.spearmanr(some, s).statistic if np.ptp(s) else 0.0 for s in at.T]
            interval = stats.mean_interval(np.array(rho))
            values[f"rank_correlation_{name}{part}"] = interval
            clear[name, part] = 1 if interval.low > 0 else -1 if interval.high < 0 else 0
        values |= {f"size_at_{e:g}_{name}": stats.mean_interval(sizes[e]) for e in _ends(parts)}
    words = {1: "rises with ε", 0: "shows no trend", -1: "falls as ε rises"}
    over_all, low, high = ([clear[name, part] for name in ("as_printed", "validation")] for part in parts)
    if min(over_all) > 0:
        verdict = "holds"
    elif min(high) > 0:
        verdict = "holds with change"
    else:
        verdict = "fails" if max(high) <= 0 and max(over_all) < 0 else "undecided"
    because = (
        "CFS and random subsets are chosen without ε: the same for every ε by construction. PAFS sees ε. Above ε = "
        f"{SMALL:g} the size of what it chooses {words[high[0]]} with the fitness as printed and {words[high[1]]} with "
        f"validation records; up to there it {words[low[0]]} and {words[low[1]]}."
    )
    if verdict == "holds with change":
        because += " So it adapts where the fitness carries signal"
        because += ", and comes down to there from the size of a random start." if max(low) < 0 else "."
    if strong:
        because += (
            " With many trainings a fitness value, " + "; ".join(f"{n}: {one}" for n, one in strong.items()) + "."
        )
    values |= dict(strong)
    return values, verdict, because


def _ends(parts: Mapping[str, Sequence[float]]) -> list[float]:
    """First and last budget of every part, each once."""
    return list(dict.fromkeys(e for some in parts.values() if some for e in (some[0], some[-1])))


def implicit(runs: pd.DataFrame, redundancy: pd.DataFrame, epsilons: Sequence[float]) -> Finding:
    """B.cfs-implicit: redundancy and accuracy of CFS subsets against random ones of equal size."""
    wide = {c: redundancy.pivot(index="split", columns="method", values=c) for c in ("redundancy", "relevance")}
    values, clear = {}, {}
    for method in ("CFS-Greedy", "CFS-GA"):
        for column, table in wide.items():
            found = stats.paired(table[method], table["Random"]).difference
            values[f"{column}_{method}_minus_random"] = found
            clear[method, column] = 1 if found.low > 0 else -1 if found.high < 0 else 0
    gaps = differences(runs, [(m, "Random") for m in ("CFS-Greedy", "CFS-GA")], epsilons)
    means = {m: np.mean([percent(runs, m, e) for e in epsilons], axis=0) for m in ("CFS-Greedy", "CFS-GA", "Random")}
    leads = [stats.paired(means[m], means["Random"]) for m in ("CFS-Greedy", "CFS-GA")]
    signs = np.sign([d.difference.value for d in leads]) * (holm(np.array([d.p_value for d in leads])) < 0.05)
    better, worse = int((gaps["sign"] > 0).sum()), int((gaps["sign"] < 0).sum())
    values |= {"more_accurate": better, "less_accurate": worse, "comparisons": len(gaps)}
    values |= {f"accuracy_{m}_minus_random": d.difference for m, d in zip(("CFS-Greedy", "CFS-GA"), leads, strict=True)}
    redundant = [clear[m, "redundancy"] for m in ("CFS-Greedy", "CFS-GA")]
    if min(signs) > 0 and not worse:
        verdict = "holds" if max(redundant) < 0 else "holds with change"
    else:
        verdict = "fails" if max(signs) < 0 else "undecided"
    word = {1: "higher than", 0: "not significantly other than", -1: "lower than"}[redundant[0]]
    relevant = clear["CFS-Greedy", "relevance"] > 0
    because = (
        f"Against random subsets of equal size, mean over the budgets: CFS-Greedy {leads[0].difference} points, CFS-GA "
        f"{leads[1].difference}; at single budgets more accurate in {better} and less in {worse} of {len(gaps)} "
        f"comparisons. The redundancy of what CFS-Greedy chooses is {word} that of random subsets, its relevance "
        f"{'higher' if relevant else 'not higher'}."
    )
    if verdict == "holds with change":
        because += f" So not by punishing redundancy{', but by relevance' if relevant else ''}."
    return values, verdict, because


def awareness(accuracies: Accuracies) -> Finding:
    """B.awareness-versus-dp: private and privacy-aware are two properties.

    A random search is private and feels the cost; all features, and one subset drawn blindly, are private and feel
    nothing. The search has to beat both at the same total. The claim holds where it does at every total, with change
    where it does at some; one search that is not better would not refute it, so it is else undecided.
    """
    table = _rivals(accuracies, ["search"], ["all", "random", "one random"])
    aware, values = [], {}
    for total, at in table.groupby("total"):
        values |= {f"search minus {r.b}, total {total:g}": r.difference for r in at.itertuples()}
        aware += [total] if (at[at["b"].isin(["all", "random"])]["sign"] > 0).all() else []
    blind, one = table[table["b"] == "random"], table[table["b"] == "one random"]
    worse = blind[blind["sign"] < 0]["total"]
    verdict = "holds" if len(aware) == len(accuracies) else "holds with change" if aware else "undecided"
    lowest = min(accuracies)
    first = table[(table["b"] == "all") & (table["total"] == lowest)]["difference"].iloc[0]
    chance = stats.paired(accuracies[lowest]["random"], accuracies[lowest]["all"]).difference
    values[f"random minus all, total {lowest:g}"] = chance
    because = (
        "Selecting all features is private and unaware of the cost. A search that is as private and feels it gives "
        f"{first} points more at a total of {lowest:g}, a subset drawn blindly {chance}. The search beats both at "
        f"{listed(aware)}, and is behind the blind one at {listed(worse)}. One random column is ahead of the search at "
        f"{listed(one[one['sign'] < 0]['total'])} (paired, Holm)."
    )
    if verdict == "holds with change":
        because += f" So being aware pays at {listed(aware)} only."
    return values, verdict, because


def private_choice(accuracies: Accuracies) -> Finding:
    """B.cfs-private-choice: if the selection has to be private too, CFS is a good choice.

    CFS on noisy entropies of the columns, at one total for selection and model. It holds where it is ahead of all
    features, of PAFS composed and of both blind selections at some total and behind none of them at any; with change
    where it is ahead of all features and of PAFS at some total; it fails where it is ahead of neither at any and behind
    one of them at some.
    """
    named, blind = ["all", "pafs"], ["random", "one random"]
    table = _rivals(accuracies, ["cfs columns"], [*named, *blind])
    values = {f"CFS minus {r.b}, total {r.total:g}": r.difference for r in table.itertuples()}
    ahead = {b: table[(table["b"] == b) & (table["sign"] > 0)]["total"].tolist() for b in [*named, *blind]}
    behind = {b: table[(table["b"] == b) & (table["sign"] < 0)]["total"].tolist() for b in [*named, *blind]}
    everywhere = [t for t in accuracies if all(t in ahead[b] for b in ahead)]
    if everywhere and not any(behind.values()):
        verdict = "holds"
    elif all(ahead[b] for b in named):
        verdict = "holds with change"
    else:
        nowhere = not any(ahead[b] for b in named)
        verdict = "fails" if nowhere and any(behind[b] for b in named) else "undecided"
    words = {"all": "all features", "pafs": "PAFS", "random": "a random subset", "one random": "one random column"}
    because = "CFS that pays for its look, noisy entropies of the columns, at one total for selection and model: "
    because += "; ".join(f"ahead of {words[b]} at {listed(ahead[b])}, behind at {listed(behind[b])}" for b in ahead)
    because += " (paired, Holm)."
    if verdict == "holds with change":
        because += " So it is a better choice than what the paper names beside it, PAFS and all features"
        because += ", and not than a blind one." if any(behind[b] for b in blind) else "."
    return values, verdict, because


def _rivals(accuracies: Accuracies, methods: Sequence[str], rivals: Sequence[str]) -> pd.DataFrame:
    """Paired differences of methods from rivals at every total; signs after Holm's correction over all of them."""
    lines = []
    for total, by_method in accuracies.items():
        for a in methods:
            for b in rivals:
                found = stats.paired(by_method[a], by_method[b])
                lines.append([total, a, b, found.difference, found.p_value])
    table = pd.DataFrame(lines, columns=["total", "a", "b", "difference", "p"])
    clear = holm(table["p"].to_numpy()) < 0.05
    signs = np.sign([d.value for d in table["difference"]])
    return table.assign(sign=np.where(clear, signs, 0).astype(int))


def _names(others, signs, wanted) -> str:
    found = [o for o, s in zip(others, signs, strict=True) if s == wanted]
    return ", ".join(found) if found else "none of the others"
