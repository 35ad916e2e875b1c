"""From the runs of feature selection to the values of the rows on what a selection spends, budget and time, and on
selections that are paid for.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from book.evidence import runs
from dplib import search_budgets
from dplib.stats import Measured, mean_interval
from papers.architecture import feature_scores
from papers.architecture.feature_rows import BLIND, DATA, Values, gap, largest


def costs(full: Sequence[runs.Result], seconds: Mapping[str, float]) -> Values:
    """What searches spend; ``full``: of the paper's size; ``seconds``: processor seconds of one run, by experiment."""
    grid = [(e, c, 1e-6) for e in (0.01, 0.1, 0.5, 1.0, 2.0) for c in (1, 10, 60, 600, 2314, 6000)]
    exact, printed, corrected = (
        np.array([search_budgets.composed_epsilon(*setting, rule) for setting in grid])
        for rule in ("optimal", "printed", "corrected")
    )
    entropies = feature_scores.entropies_needed(44)
    hours = 100 * seconds["feature_pafs"] / 3600
    return {
        "B.eq8": {
            "settings_tried": len(grid),
            "printed_below_exact": int((printed < exact).sum()),
            "corrected_below_exact": int((corrected < exact - 1e-9).sum()),
        },
        "B.pafs-budget": {
            f"{rule}_{count}": float(search_budgets.composed_epsilon(0.1, count, 1e-6, rule))
            for count, rule in ((6000, "optimal"), (6000, "printed"), (2314, "corrected"))
        },
        "B.cfs-budget": {
            "entropies_of_43_columns_and_the_label": entropies,
            "noise_in_bits_of_each_at_2.31": entropies * feature_scores.entropy_sensitivity(191) / 2.31,
        },
        "B.composition-distinct": {
            "distinct_of_kl": mean_interval([search["distinct"] / 6000 for search in full]),
            "epsilon": 0.1,
        },
        "B.pafs-time": {
            "pafs_subsets": mean_interval([search["distinct"] for search in full]),
            "pafs_hours_at_1000_trainings": hours,
            "pafs_seconds_at_1000_trainings": 3600 * hours,
            "ga_seconds_at_most": seconds["feature_table"],
        },
    }


def dp_cfs(by_setting: Mapping[tuple, Sequence[runs.Result]]) -> Values:
    """B.dp-cfs: the least budget at which private CFS has nine tenths of the merit of CFS; inf where none has."""
    least: dict[tuple, float] = {}
    for (*variant, e), results in by_setting.items():
        useful = np.mean([result["merit"] for result in results]) >= 0.9
        least[tuple(variant)] = min(least.get(tuple(variant), np.inf), e if useful else np.inf)
    return {
        "B.dp-cfs": {
            **{f"epsilon_for_90_percent_of_the_merit_{d}": least[d, "columns", "entropies"] for d in DATA},
            **{f"the_same_best_variant_{d}": min(e for of, e in least.items() if of[0] == d) for d in DATA},
        }
    }


def totals(accuracy: Mapping[tuple[str, float], np.ndarray]) -> Values:
    """One total for selection and model, Breast Cancer; means over the totals."""
    budgets = sorted({e for _, e in accuracy})
    mean = {m: np.mean([accuracy[m, e] for e in budgets], axis=0) for m, _ in accuracy}
    awareness = {f"search_minus_{m.replace(' ', '_')}": gap(mean["search"], mean[m]) for m in BLIND}
    cfs = {f"cfs_minus_{m.replace(' ', '_')}": gap(mean["cfs columns"], mean[m]) for m in ("pafs", *BLIND)}
    at = {"totals": ", ".join(f"{e:g}" for e in budgets)}
    return {"B.awareness-versus-dp": awareness | at, "B.cfs-private-choice": cfs | at}


LOOKS = ("cfs columns", "cfs attributes", "tables attributes", "label tables", "pafs", "search")  # selections that look
PAPERS_OWN = ("cfs columns", "cfs attributes", "pafs")  # of these those of the paper


def same_guarantee(by_table: Mapping[str, Mapping[tuple[str, float], np.ndarray]]) -> Values:
    """The rows on selections that are paid for; means over the totals of each table, on new splits.

    Args:
        by_table: "bc", "adult" to accuracies (splits,) by (method, total).
    """
    paid_less: dict[str, Measured] = {}
    pafs: dict[str, Measured] = {}
    for name, accuracy in by_table.items():
        budgets = sorted({e for _, e in accuracy})
        mean = {m: np.mean([accuracy[m, e] for e in budgets], axis=0) for m, _ in accuracy}
        paid = np.array([mean[m] for m in LOOKS if m in mean])
        papers = np.array([mean[m] for m in PAPERS_OWN if m in mean])
        for other in (*BLIND, "one named", "constant"):
            label = other.replace(" ", "_")
            paid_less[f"best_paid_less_{label}_{name}"] = largest(paid - mean[other])
            paid_less[f"best_of_the_papers_less_{label}_{name}"] = largest(papers - mean[other])
            pafs[f"pafs_less_{label}_{name}"] = gap(mean["pafs"], mean[other])
        pafs[f"pafs_less_cfs_{name}"] = gap(mean["pafs"], mean["cfs columns"])
    return {"B.selection-same-guarantee": paid_less, "B.pafs-same-guarantee": pafs}


def amenable(best: Values, paid: Values) -> Values:
    """PAFS against CFS, at one ε for the model and at one total.

    Args:
        best: of :func:`papers.architecture.feature_rows.pafs_best`.
        paid: of :func:`totals`.
    """
    values = best["B.pafs-best"] | paid["B.cfs-private-choice"]
    names = ("validation_minus_CFS-Greedy", "validation_minus_CFS-GA", "cfs_minus_pafs")
    return {"B.pafs-amenable": {name: values[name] for name in names}}
