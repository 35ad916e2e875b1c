"""The tables and curves that chapter 1 shows: from its runs, and at a reader's budget."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import norm

from book.evidence import claims, plotting
from dplib import gmm, stats
from dplib.stats import Measured
from papers.larger_models import gmm_rows, gmm_runs
from papers.larger_models import gmm_trials as tools
from papers.larger_models.gmm_rows import Curves, Results, Values


def separation(results: Results, signal: str) -> pd.DataFrame:
    """Psi against the number of features: columns p, mean, low, high over seeds, and "formula"."""
    table = plotting.bands("p", results[0]["p"], plotting.means(np.transpose([result["psi"] for result in results])))
    noise = np.mean([result["noise_sd"] for result in results], axis=0)
    informative = gmm_runs.SIGNALS[signal]
    settings = [gmm.two_classes(p, 30, 2.0, informative, sd) for p, sd in zip(table["p"], noise, strict=True)]
    return table.assign(formula=[formula(setting) for setting in settings])


def formula(setting: gmm.Mixture) -> float:
    """Psi of Theorem 6, with both o(1) set to 0, corrected for finite n."""
    psi = gmm.theorem6_psi(gmm.gamma(setting), setting.p, setting.n)
    return float(gmm.finite_n(setting.n_per_class) * psi)


def errors(results: Results) -> pd.DataFrame:
    """Mean error on noisy test points against the number of features: columns p, mean, low, high over seeds."""
    wrong = 0.5 - np.transpose([result["advantage"] for result in results])
    return plotting.bands("p", results[0]["p"], plotting.means(wrong))


def distances(grown: Mapping[tuple, Results], power: float | str, kind: str) -> pd.DataFrame:
    """Distance of Psi from Theorem 6's against n, for class "one" or the "average": columns n, mean, low, high."""
    means = {n: gmm_rows.far(results, kind) for (exponent, n), results in grown.items() if exponent == power}
    return pd.DataFrame([(n, m.value, m.low, m.high) for n, m in means.items()], columns=["n", "mean", "low", "high"])


def rate_table(values: Values, curves: Curves) -> pd.DataFrame:
    """Exponents of Psi: printed, measured, by the formula for p to infinity; and the error at the largest p."""
    joint, rows = values["A.eq14"], []
    for (signal, noise), limit in gmm_rows.LIMITS.items():
        if (signal, noise) in curves:
            results = curves[signal, noise]
            name = f"p: {signal} signal, {tools.NOISES[noise]}"
            printed = "-0.5 (12)" if noise != "unit" else "–"
            last = gmm_rows.error_at(results, -1).value
            rows.append([name, printed, f"{gmm_rows.exponent(results):.3f}", f"{limit:g}", f"{last:.4f}"])
    for noise in ("L1", "L2"):
        name = f"τ: dense signal, {tools.NOISES[noise]}"
        rows.append([name, "-2 (13, 14)", f"{joint[f'exponent_of_tau_{noise.lower()}']:.3f}", "-2", "–"])
    columns = ["exponent of", "printed", "measured", "formula, p → ∞", "error at the largest p"]
    return pd.DataFrame(rows, columns=columns)


def example_table(results: Results) -> pd.DataFrame:
    """Example 1: what is printed, and what each reading of its noise leads to."""
    rows, draws = {}, sum(result["draws"] for result in results)
    for row in ("clean", "noisy"):
        pairs = [
            claims.get(f"A.example1-{row}.{criterion}").published.values() for criterion in ("variance", "t-statistic")
        ]
        rows[f"printed, {'no noise' if row == 'clean' else 'ε = 3'}"] = [
            "–",
            *(_pair(pair) for pair in pairs),
            "–",
            "–",
        ]
    for name in results[0]["readings"]:
        runs = [result["readings"][name] for result in results]
        pairs = [np.mean([run[key] for run in runs], axis=0).round(2) for key in ("variance", "t")]
        picks = [sum(run["picks_2"][key] for run in runs) / draws for key in ("t", "distance")]
        rows[name] = [f"{np.mean([run['sd'] for run in runs]):.4g}", *map(_pair, pairs), *(f"{x:.3f}" for x in picks)]
    columns = ["noise", "variances", "t-statistics", "t picks feature 2", "distance picks feature 2"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def of_images(results: Results, world: str, noise: str) -> pd.DataFrame:
    """Error on noisy test points by pixels, of a "world" or of the "formula": columns pixels, mean, low, high."""
    runs = [result["formula"][noise] if world == "formula" else result["error"][world][noise] for result in results]
    wrong = np.transpose([run["noisy"] for run in runs])
    return plotting.bands("pixels", results[0]["pixels"], plotting.means(wrong))


def few_and_all(results: Results, noise: str) -> dict[str, Measured]:
    """Error of images at the fewest and at all pixels, over seeds."""
    values = np.array([result["error"]["images"][noise]["noisy"] for result in results])
    return {f"{results[0]['pixels'][i]} pixels": stats.mean_interval(values[:, i]) for i in (0, -1)}


def at_budget(
    p: int, epsilon: float, delta: float, *, informative: int | None, n_per_class: int, seed: int
) -> pd.DataFrame:
    """The four noises at a budget, by the closed form: noise, error on noisy test points, and 1/2 less the error."""
    rows = {}
    for noise in tools.NOISES:
        setting = gmm_runs.noisy(p, noise, epsilon, delta, seed, 2.0, informative, n_per_class)
        # Not 1/2 less a rounded error: a gain of 1e-9 has its digits.
        gain = float(gmm.advantage(np.array(formula(setting)), setting.n))
        error = norm.cdf(-formula(setting) / np.sqrt(1 + 1 / setting.n))
        rows[noise] = {"noise": setting.noise_sd, "error": float(error), "gain": gain}
    return pd.DataFrame.from_dict(rows, orient="index")


def _pair(values: Sequence[float]) -> str:
    return ", ".join(f"{v:,.0f}" if v > 1000 else f"{v:.4g}" for v in values)
