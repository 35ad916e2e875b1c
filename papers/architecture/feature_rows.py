"""From the runs of feature selection to the values of its rows in the ledger, by claim, and to its tables.

Results are paired by split. Nothing is chosen by test records: where the best of several is compared, :func:`largest`
has an interval that covers all of them at once, so that it holds whichever is the best.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from book.evidence import claims, runs
from book.evidence.rules import UNMEASURED as MISSING
from dplib import stats
from dplib.data.levels import ADULT_LEVELS
from dplib.stats import Measured, mean_interval
from papers.architecture import crossover, feature_scores, feature_search
from papers.architecture.crossover import Crossover
from papers.architecture.feature_runs import Curves, Trained
from papers.architecture.feature_training_runs import PLAIN

Values = dict[str, dict[str, Any]]
Pairs = Mapping[str, tuple[Curves, Curves]]  # by how the few features were chosen: curves of few, and of all
COLUMNS = {"all": "All", "pafs": "PAFS (test)", "cfs_greedy": "CFS-Greedy", "cfs_ga": "CFS-GA", "random": "Random"}
RIVALS = ("All", "CFS-Greedy", "CFS-GA", "Random")
BLIND = ("all", "random", "one random")  # selections that look at nothing
SMALL = 2.0  # "small" budgets: the rows of Table X in which no method is printed above 57%
DATA = ("breast-cancer", "adult")
MATTERS = 0.5  # points: a smaller lead matters to nobody


def gap(a, b) -> Measured:
    """a - b by split, with its interval."""
    return stats.paired(np.asarray(a), np.asarray(b)).difference


def largest(leads, interval: Callable[..., Measured] = mean_interval) -> Measured:
    """Of leads (k, splits) the largest mean, and an interval for the largest true one: all k at once (Bonferroni).

    A test record of a random split is a training record of others, so that a choice by the other splits' test records
    would have seen it; here nothing is chosen.
    """
    cells = [interval(lead, level=1 - 0.05 / len(leads)) for lead in np.asarray(leads, dtype=float)]
    return Measured(*(max(getattr(cell, end) for cell in cells) for end in ("value", "low", "high")), cells[0].n)


def one_split(values) -> Measured:
    """The mean over n splits with the 95% prediction interval for one more split: what a printed value can be."""
    mean, n = float(np.mean(values)), len(values)
    half = float(scipy_stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) * np.sqrt(1 + 1 / n))
    return Measured(mean, mean - half, mean + half, n)


def tally(gains: Sequence) -> dict[str, int]:
    """Of differences (splits,), how many are ahead beyond chance (Holm), and how many are no lead that matters."""
    comparisons = [stats.paired(gain, np.zeros_like(gain)) for gain in gains]
    clear = stats.holm(np.array([comparison.p_value for comparison in comparisons])) < 0.05
    ahead = [bool(c and comparison.difference.value > 0) for c, comparison in zip(clear, comparisons, strict=True)]
    none = [comparison.difference.high < MATTERS and not a for a, comparison in zip(ahead, comparisons, strict=True)]
    return {"ahead": sum(ahead), "not_ahead": sum(none), "of": len(comparisons)}


def best_size(curves: Curves, epsilon: float) -> Measured:
    """The size of the best mean accuracy, with its bootstrap interval over splits."""
    values = curves.of(epsilon).T
    rng = np.random.default_rng(6)
    drawn = [values[rng.integers(len(values), size=len(values))].mean(axis=0).argmax() for _ in range(1000)]
    low, high = np.quantile(np.array(curves.sizes)[drawn], [0.025, 0.975], method="inverted_cdf")
    return Measured(float(curves.sizes[int(values.mean(axis=0).argmax())]), float(low), float(high), len(values))


def gain(curves: Curves, epsilon: float, size: int, interval: Callable[..., Measured] = mean_interval) -> Measured:
    """The best of the other sizes less one size."""
    return largest(others(curves, epsilon, size) - curves.at(size, epsilon), interval)


def others(curves: Curves, epsilon: float, size: int) -> np.ndarray:
    """Accuracies of all sizes but one, (sizes - 1, splits)."""
    return np.delete(curves.of(epsilon), curves.sizes.index(size), axis=0)


def like_these(curves: Curves, epsilon: float, size: int) -> Measured:
    """:func:`gain` on Breast Cancer with its interval for further records like these, and not for this table."""
    test, train = 95, 191
    return gain(curves, epsilon, size, lambda lead, level: stats.splits_interval(lead, test / train, level=level))


def ahead_of_others(curves: Curves, epsilon: float, size: int) -> Measured:
    """One size less the best of the *other* sizes."""
    lead = gain(curves, epsilon, size)
    return Measured(-lead.value, -lead.high, -lead.low, lead.n)


def of_figure(curves: Curves, epsilon: float, size: int) -> dict[str, Measured]:
    """What Figures 3 and 4 say: the printed best size at a budget, and all features without privacy."""
    every = curves.sizes[-1]
    return {
        "best_size": best_size(curves, epsilon),
        "best_size_without_privacy": best_size(curves, PLAIN),
        "best_minus_printed_size": gain(curves, epsilon, size),
        "best_minus_all_without_privacy": gain(curves, PLAIN, every),
        "printed_size_less_best_other": ahead_of_others(curves, epsilon, size),
        "all_less_best_other_without_privacy": ahead_of_others(curves, PLAIN, every),
    }


def slope(curves: Curves, epsilon: float, start: int = 0) -> Measured:
    """Change of accuracy for each further feature: the least-squares line over all sizes, or from one on, by split."""
    x, values = np.array(curves.sizes[start:], dtype=float), curves.of(epsilon)[start:].T
    return mean_interval((values - values.mean(axis=1, keepdims=True)) @ (x - x.mean()) / np.sum((x - x.mean()) ** 2))


def beyond_the_best(curves: Curves, epsilon: float) -> Measured:
    """:func:`slope` from the size of the best mean accuracy on; over the last two where that is the last."""
    return slope(curves, epsilon, min(int(curves.of(epsilon).mean(axis=1).argmax()), len(curves.sizes) - 2))


def won(curves: Curves, epsilon: float, size: int) -> int:
    """In how many splits no other size is more accurate: what a figure of one split could show."""
    return int((others(curves, epsilon, size).max(axis=0) <= curves.at(size, epsilon)).sum())


# --- rows, by section -------------------------------------------------------------------------------------------------


def tables(by_table: Mapping[str, Sequence[runs.Result]]) -> Values:
    """The data, and definitions on them; ``found`` of the part "tables"."""
    every = [result for results in by_table.values() for result in results]
    return {
        "B.data-adult": {
            **by_table["adult"][0]["sizes"],
            "one_hot_attributes": sum(known is not None for known in ADULT_LEVELS.values()),
        },
        "B.data-breast-cancer": by_table["breast-cancer"][0]["sizes"],
        "B.protocol-features": {
            "largest_gap_to_a_reference_optimum": max(result["optimum_gap"] for result in every),
            "max_iter": max(result["lbfgs_steps"] for result in every),
        },
        "B.suc": {"largest_gap_to_Hall_and_scikit_learn": max(result["uncertainty_gap"] for result in every)},
        "B.pca-method": {"largest_gap_to_scikit_learn": max(result["pca_gap"] for result in every)},
    }


def sizes(adult: Curves, recurrence: Curves, adult_tuned: Curves, recurrence_tuned: Curves) -> Values:
    """Accuracy against the number of features: of all sizes at C = 1, and of some with their own regularisation."""
    by_tuned = {"adult": adult_tuned, "bc": recurrence_tuned}
    by_penalty = {"adult": adult, "bc": recurrence}
    moderate, small = {"adult": 1.0, "bc": 5.0}, {"adult": [0.1, 0.5], "bc": [0.5, 1.0]}
    rows: Values = {}
    for row, curves, size, epsilon in (("B.fig3", adult, 5, 0.1), ("B.fig4", recurrence, 11, 5.0)):
        rows[row] = of_figure(curves, epsilon, size)
    rows["B.features-no-privacy"] = {
        "points_per_feature_adult_without_privacy": slope(adult, PLAIN),
        "best_minus_all_adult_without_privacy": gain(adult, PLAIN, adult.sizes[-1]),
        "best_minus_all_bc_without_privacy": gain(recurrence, PLAIN, recurrence.sizes[-1]),
        "points_per_feature_bc_without_privacy": slope(recurrence, PLAIN),
    }
    rows["B.fig4"] |= {
        "best_minus_printed_size_for_records_like_these": like_these(recurrence, 5.0, 11),
        "splits_where_the_printed_size_is_best": won(recurrence, 5.0, 11),
        "splits_where_all_are_best_without_privacy": won(recurrence, PLAIN, recurrence.sizes[-1]),
    }
    rows |= {"B.protocol-features-grid": {}, "B.features-small-eps": {}}
    rows["B.bc-single-feature"] = {
        "best_size": best_size(recurrence, 1.0),
        **{f"best_minus_one_at_{e:g}": gain(recurrence, e, 1) for e in small["bc"]},
        **{f"one_minus_constant_at_{e:g}": gap(recurrence.at(1, e), recurrence.constant) for e in small["bc"]},
        **{f"best_minus_one_own_regularisation_at_{e:g}": gain(recurrence_tuned, e, 1) for e in small["bc"]},
    }
    rows["B.features-moderate-eps"] = {}
    for name, curves in by_penalty.items():
        largest, e = curves.sizes[-1], moderate[name]
        rows["B.protocol-features-grid"] |= {
            f"{name}_max_features": largest,
            f"{name}_eps_min": curves.epsilons[0],
            f"{name}_eps_max": curves.epsilons[-2],
        }
        rows["B.features-moderate-eps"] |= {
            f"best_size_{name}": best_size(curves, e),
            f"best_minus_one_{name}": gain(curves, e, 1),
            f"best_minus_all_{name}": gain(curves, e, largest),
            f"best_minus_all_own_regularisation_{name}": gain(by_tuned[name], e, largest),
        }
        for i, e in enumerate(small[name]):
            rows["B.features-small-eps"] |= {
                f"points_per_feature_{name}_{i}": slope(curves, e),
                f"points_per_feature_beyond_the_best_{name}_{i}": beyond_the_best(curves, e),
                f"best_minus_one_{name}_{i}": gain(curves, e, 1),
                f"best_size_{name}_{i}": best_size(curves, e),
            }
    return rows


def quoted(by_variant: Mapping[str, Curves]) -> Values:
    """Adult at epsilon 0.1, as the library runs it."""
    ours, sound = by_variant["diffprivlib"], by_variant["sound"]
    few, d, e = ours.sizes[0], ours.sizes[-1], ours.epsilons[0]
    return {
        "B.adult-eps0.1": {
            "acc_all": one_split(ours.at(d, e)),
            "acc_best_five": one_split(ours.at(few, e)),
            "five_minus_all": gap(ours.at(few, e), ours.at(d, e)),
            "five_minus_all_sound": gap(sound.at(few, e), sound.at(d, e)),
            "five_minus_constant": gap(ours.at(few, e), ours.constant),
            "all_minus_constant": gap(ours.at(d, e), ours.constant),
        }
    }


def crossover_of(pair: tuple[Curves, Curves]) -> Crossover:
    """The crossover of few features and all, on its own bootstrap stream."""
    few, every = (curves.values[:, 0] for curves in pair)
    return crossover.estimate(pair[0].epsilons, few, every, rng=np.random.default_rng(6))


def measured(crossing: Crossover) -> Measured:
    """A crossover for a rule; where it leaves the range of budgets that were run, the end of the range."""
    ends = (
        float(np.clip(end, crossing.lowest, crossing.highest)) for end in (crossing.value, crossing.low, crossing.high)
    )
    return Measured(*ends, crossing.n)


def crossings(adult: Pairs, recurrence: Pairs, curves: Curves, tuned: Curves) -> Values:
    """Section VI-C: the pairs of both data sets; ``curves``, ``tuned`` of Breast Cancer for its epsilon of 50."""
    both = {
        f"{name}_{how.replace(' ', '_').replace(',', '')}": measured(crossover_of(pair))
        for name, pairs in (("adult", adult), ("bc", recurrence))
        for how, pair in pairs.items()
    }
    d = curves.sizes[-1]
    return {
        "B.crossover-features": both,
        "B.bc-eps50": {
            "best_subset_minus_all": gain(curves, 50.0, d),
            "the_same_for_records_like_these": like_these(curves, 50.0, d),
            "the_same_without_noise": gain(curves, PLAIN, d),
            "the_same_own_regularisation": gain(tuned, 50.0, d),
            "best_size": best_size(curves, 50.0),
            **{name: value for name, value in both.items() if name.startswith("bc_")},
        },
    }


def of_the_same_size(adult: Pairs, recurrence: Pairs, sound: Mapping[str, Any]) -> Values:
    """CFS-Greedy's subset against others of its size, the largest lead over the budgets; ``sound``: of Table X."""

    def searched(pairs: Pairs) -> Measured:
        ours, greedy = (pairs[how][0].values[:, 0].T for how in ("by private accuracy", "by CFS-Greedy"))
        return largest(ours - greedy)

    others = [sound["percent"][name] - sound["percent"]["CFS-Greedy"] for name in ("CFS-GA", "Random")]
    return {
        "B.greedy-best-subset": {
            "largest_lead_of_one_feature_bc": searched(recurrence),
            "largest_lead_of_cfs_ga_or_random_bc": largest(np.concatenate([lead.T for lead in others])),
            "largest_lead_of_six_features_adult": searched(adult),
        }
    }


def printed_cells(table: str, trained: Trained) -> Values:
    """Each printed row of a table: ours on one more split, and what DP-SGD has above a constant."""
    rows, d = claims.printed_rows(f"B.{table}"), trained.sizes[-1]
    values: Values = {}
    for id_, row in rows.items():
        size, e = d if row["n_features"] == "all" else row["n_features"], row["epsilon"]
        values[id_] = {
            "acc_sgd": one_split(trained.values[size, None]),
            "acc_dpsgd": one_split(trained.values[size, e]),
            "dpsgd_minus_constant": gap(trained.values[size, e], trained.constant),
            "learning_rate": trained.rates[size, e],
        }
    return values


def mechanism(table_2: Trained, table_18: Trained, objective: Curves) -> Values:
    """DP-SGD in place of objective perturbation; ``objective``: tuned, for records added or removed."""
    measured = {"table2": table_2, "table18": table_18}
    best = {
        f"best_subset_minus_all_{t}_{e:g}".replace(".", "_"): largest(
            [cells.values[k, e] - cells.values[cells.sizes[-1], e] for k in cells.sizes[:-1]]
        )
        for t, cells in measured.items()
        for e in cells.noise
        if e is not None
    }
    growth = {f"largest_growth_of_a_lead_{t}": largest(_growth(cells)) for t, cells in measured.items()}
    names = {"table2": "bc", "table18": "adult"}
    alone = {
        f"all_minus_{k}_{names[t]}": gap(cells.values[cells.sizes[-1], None], cells.values[k, None])
        for t, cells in measured.items()
        for k in cells.sizes[:-1]
    }
    n = len(objective.values)
    lead = {
        f"lead_at_5_times_the_epsilon_{size}": gap(table_18.values[size, 0.0196][:n], objective.at(size, 0.1))
        for size in (28, 108)
    }
    return {
        "B.mechanism-does-not-matter": {
            **best,
            "two_minus_all_table18": gap(table_18.values[2, 0.0196], table_18.values[108, 0.0196]),
        },
        "B.sgd-all-features": alone,
        "B.subset-small-eps": best | growth,
        "B.dpsgd-tighter": {**lead, "epsilon_of_DP_SGD": 0.0196, "epsilon_of_the_other": 0.1},
        "B.captions-swapped": _captions(),
    }


def _captions() -> dict[str, float]:
    """What the two tables print that tells their data sets: sizes of subsets, and accuracies on 95 test records."""
    sizes = {
        f"largest_subset_in_{table}": max(
            row["n_features"] for row in claims.printed_rows(f"B.{table}").values() if row["n_features"] != "all"
        )
        for table in ("table2", "table18")
    }
    sgd = [row["acc_sgd"] for row in claims.printed_rows("B.table2").values() if row["acc_sgd"] is not None]
    off = sum(abs(percent - round(100 * round(95 * percent / 100) / 95, 2)) > 0.005 for percent in sgd)
    return {**sizes, "sgd_cells_of_table2_off_ninetyfifths": off}


def _growth(cells: Trained) -> np.ndarray:
    """By how much more each size leads all features at the smaller budget than at the larger, (sizes, splits)."""
    small, large = sorted(e for e in cells.noise if e is not None)
    return np.array(
        [
            cells.values[k, small] - cells.values[cells.sizes[-1], small]
            - (cells.values[k, large] - cells.values[cells.sizes[-1], large])
            for k in cells.sizes[:-1]
        ]
    )  # fmt: skip


def definitions(small: Sequence[runs.Result]) -> Values:
    """Merit, the searches on small problems, the number of subsets."""
    rng = np.random.default_rng(7)
    relevance, among = rng.random(9), rng.random((9, 9))
    among = (among + among.T) / 2
    sets = [np.array(c) for k in range(1, 10) for c in combinations(range(9), k)]
    by_hand = [relevance[c].sum() / np.sqrt(len(c) + sum(among[i, j] for i in c for j in c if i != j)) for c in sets]
    ours = feature_scores.merit([feature_search.subset(c, 9) for c in sets], relevance, among)
    copy = feature_scores.merit([[True, True]], np.array([0.3, 0.3]), np.ones((2, 2)))[0] / 0.3
    moves = np.array([sum(case["moves"][name] for case in small) for name in ("crossover", "mutation", "copy")])
    n = len(small)
    return {
        "B.eq7": {
            "largest_gap_to_the_formula": max(1e-12, float(np.abs(ours - by_hand).max())),
            "merit_of_a_copy_over_one": round(float(copy), 12),
        },
        "B.alg3": {
            "steps": sum(case["steps"] for case in small),
            "wrong_steps": sum(case["wrong_steps"] for case in small),
            "optimum_found": stats.proportion_interval(sum(case["greedy"] > 1 - 1e-7 for case in small), n),
        },
        "B.alg4": {
            "optimum_found": stats.proportion_interval(sum(case["ga"] > 1 - 1e-7 for case in small), n),
            "p_branch_frequencies": float(
                scipy_stats.chisquare(moves, moves.sum() * np.array([0.5, 0.2, 0.3])).pvalue
            ),
        },
        "B.subsets-count": {
            "all_subsets_of_12": sum(1 for k in range(1, 13) for _ in combinations(range(12), k)),
            "subsets_of_4_of_12": len(list(combinations(range(12), 4))),
            "years_for_100_at_a_million_a_second": 2.0**100 / 1e6 / (365.25 * 86_400),
        },
    }  # fmt: skip


def printed_table(at_print: Mapping[str, Any]) -> Values:
    """Table X as the library runs it: each printed row beside what one split gives."""
    at = {float(row.removeprefix("B.table10.eps")): row for row in claims.printed_rows("B.table10")}
    return {
        at[e]: {key: one_split(at_print["percent"][name][:, j]) for key, name in COLUMNS.items()}
        for j, e in enumerate(at_print["epsilons"])
    }


def small_subset(curves: Curves) -> Values:
    """The gain of subsets of at most half the features over all of them; of several, intervals hold for all at once.

    At the budget where all features are nearest to the accuracy that the two printed gains imply, which is chosen
    without a look at any gain; of all cells; and where it is largest among the cells in which the subset is ahead of a
    constant prediction, too (where there is none, among all).
    """
    printed, every = claims.get("B.intro-bc-gain").published, max(curves.sizes)
    implied = 100 * printed["absolute_gain_points"] / printed["relative_gain_percent"]
    sizes, budgets = [k for k in curves.sizes if k <= every / 2], [e for e in curves.epsilons if e < PLAIN]
    at = min(budgets, key=lambda e: abs(curves.at(every, e).mean() - implied))
    few, all_ = np.array([curves.at(k, at) for k in sizes]), curves.at(every, at)
    best = int(few.mean(axis=1).argmax())

    cells = [(k, e) for k in sizes for e in budgets]
    level = 1 - 0.05 / (2 * len(cells))
    chosen = np.array([curves.at(*cell) for cell in cells])
    leads = chosen - np.array([curves.at(every, e) for _, e in cells])
    above = [mean_interval(values - curves.constant, level=level) for values in chosen]
    useful = max(
        [i for i, lead in enumerate(above) if lead.low > 0] or range(len(cells)), key=lambda i: leads[i].mean()
    )
    return {
        "B.intro-bc-gain": {
            "absolute_gain_points": largest(few - all_),
            "relative_gain_percent": largest(100 * (few / all_ - 1)),
            "features": sizes[best],
            "at_epsilon": at,
            "all_features_percent": mean_interval(all_),
            "implied_percent": implied,
            "subset_minus_constant": largest(few - curves.constant),
            "largest_gain_points": largest(leads),
            "gain_of_a_useful_subset": mean_interval(leads[useful], level=level),
            "useful_subset_minus_constant": above[useful],
            "useful_features": cells[useful][0],
            "useful_at_epsilon": cells[useful][1],
        }
    }


def selections(printed: Mapping[str, Any], sound: Mapping[str, Any]) -> Values:
    """What Section IX and the introduction say of Table X; budgets are compared by the sound variant."""
    budgets, ours, theirs = sound["epsilons"], sound["percent"], printed["percent"]
    lead = {name: ours[name] - ours["All"] for name in (*RIVALS[1:], "One feature")}
    small = [j for j, e in enumerate(budgets) if e <= SMALL]
    pafs = theirs["PAFS (validation)"] - theirs["All"]
    from_half = tally([lead[name][:, j] for name in RIVALS[1:] for j in small if budgets[j] >= 0.5])
    apart = [j for j, e in enumerate(budgets) if 0.5 <= e <= 20]
    mean = {name: values.mean(axis=1) for name, values in theirs.items()}
    # By split, over the budgets: what the winner's fitness was, and what it is with new noise.
    claimed, again = (
        np.array([[search[key] for search in row] for row in printed["searches"]["test"]]).mean(axis=1)
        for key in ("fitness", "fresh")
    )
    size = np.array([[search["size"] for search in row] for row in printed["searches"]["validation"]])
    grows = [scipy_stats.spearmanr(printed["epsilons"], row).statistic for row in size]

    def beyond_random(what: str, name: str) -> Measured:
        return gap(*([run[what][n] for run in sound["runs"]] for n in (name, "Random")))

    return {
        "B.intro-one-feature": tally(lead["One feature"].T[small])
        | {"largest_gain": largest(lead["One feature"].T)},
        "B.intro-random-subset": tally(lead["Random"].T),
        "B.fs-small-eps": {
            **tally([lead[name][:, j] for name in RIVALS[1:] for j in small]),
            **{f"{key}_from_0_5": count for key, count in from_half.items()},
            "pafs_minus_all": mean_interval(pafs[:, small].mean(axis=1)),
            "pafs_minus_all_from_0_5": mean_interval(pafs[:, [j for j in small if budgets[j] >= 0.5]].mean(axis=1)),
        },
        "B.pafs": {
            "test_minus_validation": gap(mean["PAFS (test)"], mean["PAFS (validation)"]),
            "validation_minus_all": gap(mean["PAFS (validation)"], mean["All"]),
            "fitness_lost_to_noise": gap(claimed, again),
        },
        "B.others-ignore-eps": {"rank_correlation_validation": mean_interval(np.nan_to_num(np.array(grows)))},
        "B.cfs-implicit": {
            "accuracy_CFS-Greedy_minus_random": mean_interval((ours["CFS-Greedy"] - ours["Random"]).mean(axis=1)),
            "accuracy_CFS-GA_minus_random": mean_interval((ours["CFS-GA"] - ours["Random"]).mean(axis=1)),
            "budgets_of_the_gain": "0.5 to 20",
            "gain_of_its_subset": mean_interval((ours["CFS-Greedy"] - ours["All"])[:, apart].mean(axis=1)),
            "of_which_by_its_norm": mean_interval((ours["CFS-Greedy"] - ours["norm of all"])[:, apart].mean(axis=1)),
            **{
                f"{what}_{name}_minus_random": beyond_random(what, name)
                for what in ("redundancy", "relevance")
                for name in RIVALS[1:3]
            },
        },
        "B.fs-protocol": {
            "methods": len(COLUMNS), "splits": len(mean["All"]),
        },
    }  # fmt: skip


def pafs_ahead(epsilons: Sequence[float], sound: Mapping[str, Any] | None) -> dict[str, Measured]:
    """PAFS, chosen on validation records, less all features at each small budget, by split; ``sound``: of
    :func:`papers.architecture.feature_runs.table_10` by that variant, :data:`MISSING` without.
    """
    named = {e: f"pafs_sound_minus_all_at_{e:g}" for e in epsilons if e <= SMALL}
    if sound is None:
        return dict.fromkeys(named.values(), MISSING)
    lead = sound["percent"]["PAFS (validation)"] - sound["percent"]["All"]
    return {name: mean_interval(lead[:, sound["epsilons"].index(e)]) for e, name in named.items()}


def beside_relevant(splits: Sequence[runs.Result]) -> dict[str, Measured]:
    """Redundancy of CFS's subsets less that of as many features, the most relevant each by itself, paired by split;
    :data:`MISSING` without splits.
    """
    by_split = [split["redundancy"] for split in splits]
    return {
        f"redundancy_{name}_minus_relevant": gap(*([split[n] for split in by_split] for n in (name, "relevant")))
        if by_split
        else MISSING
        for name in RIVALS[1:3]
    }


def pafs_best(
    printed: Mapping[str, Any], strong: Mapping[float, Sequence[runs.Result]], rivals: Mapping[str, Any]
) -> Values:
    """PAFS against the others: means over the budgets, and with many trainings behind each fitness value.

    Args:
        printed, rivals: of :func:`papers.architecture.feature_runs.table_10`, the latter on as many splits as strong.
    """
    mean = {name: values.mean(axis=1) for name, values in printed["percent"].items()}
    weak = {f"validation_minus_{name}": gap(mean["PAFS (validation)"], mean[name]) for name in RIVALS}
    searches = {"search": "60 subsets, 6 generations, 20 trainings a value; 120, 8 and 1,000"}
    return {"B.pafs-best": weak | strong_leads(strong, rivals, "strong") | searches, "B.pafs-significant": weak}


def strong_leads(strong: Mapping[float, Sequence[runs.Result]], rivals: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Leads of PAFS with many trainings behind each fitness value; arguments of :func:`pafs_best`."""
    values = {}
    for e, results in strong.items():
        ours, j = np.array([result["test"] for result in results]), rivals["epsilons"].index(e)
        others = {rival: rivals["percent"][rival][:, j] for rival in RIVALS} | {"constant": rivals["constant"]}
        values |= {
            f"{name}_{e:g}_minus_{other}".replace(".", "_"): gap(ours, theirs) for other, theirs in others.items()
        }
    return values


def single_feature(curves: Curves) -> Values:
    """The row on one feature by splits that no earlier run has."""
    return {"B.bc-single-feature": {f"best_minus_one_at_{e:g}": gain(curves, e, 1) for e in curves.epsilons}}


def adult_splits(curves: Curves) -> Values:
    """The rows on Figure 3 by splits of Adult that no earlier run has."""
    figure = of_figure(curves, 0.1, 5)
    return {
        "B.fig3": figure,
        "B.features-no-privacy": {
            "points_per_feature_adult_without_privacy": slope(curves, PLAIN),
            "best_minus_all_adult_without_privacy": figure["best_minus_all_without_privacy"],
        },
    }
