"""Each reading of Section 4.1 against each sentence about Figures 3 and 4."""

import pandas as pd

from papers.larger_models import dfs_errors as tools
from papers.larger_models import dfs_rows as rows
from papers.larger_models.dfs_rows import Designs

BUDGETS = (5.0, 10.0)
# A sentence, what of `rows.shape` shows it, and whether at both budgets, as Figure 3 draws them, or at either.
SENTENCES = {
    "20 features: no error, no noise": ("0 without noise", all),
    "20 features: no error, with noise": ("0 under noise", all),
    "20 features are the best": ("best with 20", all),
    "as good up to 500": ("best to 500", all),
    "no selection never gets there": ("no selection is worse", all),
    "no selection needs over 1,000": ("over 1000", all),
    "DFS below the t-statistic": ("below t", any),
    "DFS stable below 30": ("stable below 30", any),
    "DFS worse with more features": ("climbs to 100", any),
    "the t-statistic climbs": ("t climbs", any),
}
BY_BUDGET = "error falls with ε, DFS lower"


def table(drawn: Designs) -> pd.DataFrame:
    """Which sentences each reading shows, on means over draws.

    Args:
        drawn: {(mean of the variances, weight of the means): draws} of :func:`papers.larger_models.dfs_runs.synthetic`.

    Returns:
        A row for each design and reading: variance, weight, noise, selection, test, and a truth value for each
        sentence of :data:`SENTENCES` and for :data:`BY_BUDGET`.
    """
    lines = []
    for (variance, weight), results in drawn.items():
        for reading in tools.READINGS:
            shapes = [rows.shape(results, reading, epsilon) for epsilon in BUDGETS]
            shown = {name: how(shape[item] for shape in shapes) for name, (item, how) in SENTENCES.items()}
            place = {"noise": reading.noise, "selection": reading.select_on, "test": reading.test}
            by_budget = {BY_BUDGET: rows.over_budgets(results, reading)}
            lines.append({"variance": variance, "weight": weight, **place, **shown, **by_budget})
    return pd.DataFrame(lines)


def by_reading(table: pd.DataFrame) -> pd.DataFrame:
    """In how many designs each reading shows each sentence: a row for each reading (noise, selection, test)."""
    names = [*SENTENCES, BY_BUDGET]
    counted = table.groupby(["noise", "selection", "test"], sort=False)[names].sum()
    return counted.set_axis([f"{noise}; {chosen}; {test}" for noise, chosen, test in counted.index])


def most(table: pd.DataFrame) -> int:
    """How many of the sentences the best single reading shows at once."""
    return int(table[[*SENTENCES, BY_BUDGET]].sum(axis=1).max())
