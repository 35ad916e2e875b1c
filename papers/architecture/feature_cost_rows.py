"""From the runs of feature selection to the values of the rows on what a selection spends: budget and time."""

from collections.abc import Mapping, Sequence

import numpy as np

from book.evidence import runs
from dplib import search_budgets
from dplib.stats import mean_interval
from papers.architecture import feature_scores
from papers.architecture.feature_rows import DATA, Values


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
