"""From the runs of chapter 1 to the values of its rows in the ledger, by claim, and to its tables."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from book.evidence.runs import Result
from dplib import gmm, mechanisms, stats
from dplib.stats import Measured
from dplib.stats import mean_interval as mean
from papers.larger_models import gmm_trials as tools
from papers.larger_models.gmm_runs import DEFINITION3, POWERS, curve

Results = Sequence[Result]
Curves = Mapping[tuple[str, str], Results]
Values = dict[str, dict[str, Any]]
CNNS = ("26k", "52k, wider", "26k, one block")
LEVEL = 0.4  # an error that a curve passes
LIMITS = {  # exponents of p in Psi by the formula, for p to infinity: exercise "Which norm?"
    ("dense", "unit"): 0.5,
    ("dense", "L2"): -0.5,
    ("dense", "L1"): -1.5,
    ("sparse", "unit"): -0.5,
    ("sparse", "L2"): -1.5,
    ("sparse", "L1"): -2.5,
}


def privacy(checked: Results, epsilon: float = 5.0, delta: float = 1e-4) -> Values:
    """Definitions 1 to 3, at the paper's budget: {claim: values}."""
    tau = float(mechanisms.paper_sigma(epsilon, delta))
    of_definition3 = mean([case["definition3_sd"] for case in checked])
    largest, share = where_definition2_is_private(delta)
    moves = [move for case in checked for move, _ in case["replaced"]]
    return {
        "A.def1": {
            "delta_between_two_neighbours": float(mechanisms.gaussian_delta(tau, 1.0, epsilon)),
            "noise_for_distance_one": tau,
            "noise_for_substitution": of_definition3.value,
        },
        "A.def2": {
            "epsilon_spent": float(mechanisms.gaussian_epsilon(tau, 1.0, delta)),
            "noise_over_least": float(tau / mechanisms.analytic_sigma(epsilon, delta)),
            "largest_private_epsilon": largest,
            "largest_private_epsilon_at_delta_0_01": where_definition2_is_private(0.01)[0],
            "share_of_map_not_private": share,
        },
        "A.def3": {
            "delta_smallest_pair": 1.0,
            "delta_longest_replaced": mean([np.mean([d for _, d in case["replaced"]]) for case in checked]),
            "move_of_the_norm_percent_median": float(100 * np.median([abs(move) for move in moves])),
            "epsilon_with_public_bound": float(mechanisms.gaussian_epsilon(tau, 1.0, delta)),
            "variance_over_theory": mean([case["variance_ratio"] for case in checked]),
        },
    }  # fmt: skip


def where_definition2_is_private(delta: float) -> tuple[float, float]:
    """The largest epsilon up to which Definition 2 is (epsilon, delta)-DP; and the share of a map where it is not.

    The map: epsilon from 0.01 to 1000, delta from 1e-10 to 0.5, both logarithmic.
    """

    def over(epsilon: float) -> float:
        return float(
            mechanisms.gaussian_log_delta(mechanisms.paper_sigma(epsilon, delta), 1.0, epsilon) - np.log(delta)
        )

    fine = np.logspace(-2, 5, 500)
    first = int(np.argmax([over(budget) > 0 for budget in fine]))
    largest = brentq(over, fine[first - 1], fine[first], xtol=1e-9)
    e, d = np.meshgrid(np.logspace(-2, 3, 160), np.logspace(-10, np.log10(0.5), 120), indexing="ij")
    beyond = mechanisms.gaussian_delta(mechanisms.paper_sigma(e, d), 1.0, e) > d
    return largest, float(beyond.mean())


def error(checked: Results, main: Results) -> Values:
    """Equations (5) to (8) and Definitions 4 and 5: {claim: values}."""
    bias = np.array([case["bias"] for case in checked])
    fresh = {kind: np.array([case["fresh"][kind] for case in checked]) for kind in ("wrong", "exact", "printed")}
    less = {kind: mean(fresh["wrong"] - fresh[kind]) for kind in ("exact", "printed")}
    noisy, clean, printed = (mean([result["error"][k] for result in main]) for k in ("noisy", "clean", "printed"))
    return {
        "A.eq5": {
            "bias_of_means_class_1": mean(bias[:, 0]),
            "bias_of_means_class_2": mean(bias[:, 1]),
            "bias_of_variances": mean(bias[:, 2]),
        },
        "A.def4": {
            "decisions": 1000 * len(checked),
            "equal_decisions": sum(case["same_decisions"] for case in checked),
        },
        "A.def5": {
            "error_noisy_test_points": noisy,
            "error_clean_test_points": clean,
            "noisy_less_clean": mean([result["error"]["noisy"] - result["error"]["clean"] for result in main]),
            "counted_less_formula": less["exact"],
        },
        "A.eq7": {"counted_less_exact_variance": less["exact"], "counted_less_printed": less["printed"]},
        "A.eq8": {
            "psi_printed_over_exact": mean([result["psi_ratio"] for result in main]),
            "mean_error_printed": printed,
            "mean_error_exact": noisy,
            "counted_less_exact_variance": less["exact"],
        },
        "A.eq10": {"distance_of_released_data_over_formula": mean([case["distance_ratio"] for case in checked])},
    }


def theorem6(main: Results, grown: Mapping[tuple, Results]) -> Values:
    """Theorem 6 and Remark 1: {claim: values}; ``grown`` of :func:`gmm_study.growing`."""
    powers = [power for power in POWERS if (power, POWERS[power][0]) in grown]
    first, last = POWERS[1.5][0], POWERS[1.5][-1]
    of_last = grown[DEFINITION3, last]
    sets = sum(sum(result["histogram"]["one"]) for result in of_last)
    return {
        "A.thm6": {
            "bound": main[0]["bound"],
            "mean_exact_error": mean([result["error"]["noisy"] for result in main]),
            "distance_of_average_where_n_gamma_grows": max(
                (far(grown[p, POWERS[p][-1]], "average") for p in powers), key=lambda interval: interval.value
            ),
            "n_gamma_definition3_first": mean([first * result["gamma"] for result in grown[DEFINITION3, first]]),
            "n_gamma_definition3_last": mean([last * result["gamma"] for result in of_last]),
            "distance_of_average_definition3_first": far(grown[DEFINITION3, first], "average"),
            "distance_of_average_definition3_last": far(of_last, "average"),
            "share_above_half_one_class_definition3": stats.proportion_interval(
                sum(result["misled"] for result in of_last), sets
            ),
        },
        "A.remark1": {"p": 3000, "n": 60, "n_over_p": 60 / 3000, "log_p_over_n": float(np.log(3000) / 60)},
    }


def far(results: Results, kind: str) -> Measured:
    """Root mean square of Psi / Psi(Theorem 6) - 1, over seeds."""
    return mean([result["far"][kind] for result in results])


def bound(chained: Mapping[str, Results], tau: float) -> Values:
    """Equation (11): {claim: values}; ``chained`` of :func:`gmm_study.chains`."""
    terms = {signal: np.array([result["terms"] for result in results]) for signal, results in chained.items()}
    links = np.concatenate([(np.diff(terms_, axis=2) >= 0).reshape(-1, 4) for terms_ in terms.values()])
    slack = {signal: terms_[:, :, 4] / terms_[:, :, 0] for signal, terms_ in terms.items()}
    p = next(iter(chained.values()))[0]["p"][-3:]
    grows = {
        signal: mean([np.polyfit(np.log(p), np.log(values), 1)[0] for values in s[:, -3:]])
        for signal, s in slack.items()
    }
    return {
        "A.eq11": {
            "data_sets": len(links),
            "data_sets_where_every_link_holds": int(links.all(axis=1).sum()),
            "order_of_slack_dense": grows["dense"],
            "order_of_slack_sparse": grows["sparse"],
        },
        "A.s-gamma-bound-free-of-p": {
            "largest_gamma_times_tau_squared": float(max(terms_[:, :, 0].max() for terms_ in terms.values()) * tau**2)
        },
    }  # fmt: skip


def rates(curves: Curves, at_budgets: Mapping[tuple[str, float], Results], spread: Mapping[float, Results]) -> Values:
    """Equations (12) to (14): {claim: values}.

    Args:
        found: of :func:`gmm_study.curves`. at_budgets, spread: of the parts "budgets" and "scattered".
    """
    joint = {norm_: joint_exponents(at_budgets, norm_) for norm_ in ("L1", "L2")}
    falls = [np.polyfit(*np.log([taus, psi]), 1)[0] for taus, psi in _over_tau(at_budgets, "L1")]
    loudest = min(spread)
    return {
        "A.eq12": {
            "exponent_dense_l1": exponent(curves["dense", "L1"]),
            "exponent_sparse_l1": exponent(curves["sparse", "L1"]),
            "exponent_dense_l2": exponent(curves["dense", "L2"]),
            "limit": error_at(curves["dense", "L1"], -1),
        },
        "A.eq13": {
            "exponent_of_tau": mean(falls),
            "limit": error_at(at_budgets["L1", min(e for _, e in at_budgets)], 0),
            "spread_of_psi_one_class": mean([result["spread"] for result in spread[loudest]]),
            "one_over_root_n": float(1 / np.sqrt(60)),
        },
        "A.eq14": {
            f"exponent_of_{what}_{norm_.lower()}": mean(column)
            for norm_, both in joint.items()
            for what, column in zip(("p", "tau"), both.T, strict=True)
        }
        | {"limit": error_at(at_budgets["L1", min(e for _, e in at_budgets)], -1)},
    }


def exponent(results: Results) -> Measured:
    """Exponent of p in Psi over the three largest dimensions, over seeds."""
    return mean([np.polyfit(np.log(result["p"][-3:]), np.log(result["psi"][-3:]), 1)[0] for result in results])


def joint_exponents(by_budget: Mapping[tuple[str, float], Results], norm_: str, delta: float = 1e-4) -> np.ndarray:
    """Exponents of p and tau in Psi, fitted together over the three largest dimensions, (seeds, 2).

    The largest budget is left out: its noise does not yet outweigh what the classes have of their own.
    """
    budgets = sorted(epsilon for kind, epsilon in by_budget if kind == norm_)[:-1]
    taus = mechanisms.paper_sigma(np.array(budgets), delta)
    p = by_budget[norm_, budgets[0]][0]["p"][-3:]
    design = np.array([[1, np.log(m), np.log(t)] for t in taus for m in p])
    per_seed = zip(*(by_budget[norm_, epsilon] for epsilon in budgets), strict=True)
    return np.array([
        np.linalg.lstsq(design, np.log([psi for run in runs for psi in run["psi"][-3:]]), rcond=None)[0][1:]
        for runs in per_seed
    ])  # fmt: skip


def _over_tau(by_budget: Mapping[tuple[str, float], Results], norm_: str, delta: float = 1e-4):
    """For each seed tau and Psi at the smallest dimension, the largest budget left out."""
    budgets = sorted(epsilon for kind, epsilon in by_budget if kind == norm_)[:-1]
    taus = mechanisms.paper_sigma(np.array(budgets), delta)
    for runs in zip(*(by_budget[norm_, epsilon] for epsilon in budgets), strict=True):
        yield taus, [run["psi"][0] for run in runs]


def cnns(networks: Mapping[tuple[str, float | None], Results]) -> Values:
    """Appendix A.1: what width and depth cost CNNs under DP-SGD, in points of test accuracy, paired by seed.

    Args:
        found: of :func:`gmm_study.networks` for "26k", "52k, wider" and "26k, one block".
    """
    (epsilon,) = {e for _, e in networks if e is not None}
    accuracy = {key: 100 * np.array([result["test"] for result in results]) for key, results in networks.items()}
    small, wide, shallow = ({e: accuracy[name, e] for e in (epsilon, None)} for name in CNNS)
    both = {
        "wider_loses": mean(small[epsilon] - wide[epsilon]),
        "wide_sgd_less_private": mean(wide[None] - wide[epsilon]),
    }
    return {
        "A.fig1app": {
            "epsilon": epsilon,
            "parameters_small": networks[CNNS[0], epsilon][0]["parameters"],
            "parameters_large": networks[CNNS[1], epsilon][0]["parameters"],
            "accuracy_small": mean(small[epsilon]),
            "accuracy_large": mean(wide[epsilon]),
            **both,
            "wider_loses_sgd": mean(small[None] - wide[None]),
        },
        "A.s-width-and-depth": {
            **both,
            "deeper_loses": mean(shallow[epsilon] - small[epsilon]),
            "deeper_loses_sgd": mean(shallow[None] - small[None]),
            "parameters_one_block": networks[CNNS[2], epsilon][0]["parameters"],
        },
    }


def dimension(curves: Curves, weaker: Mapping[tuple[str, float | None], Results], pictures: Results) -> Values:
    """What more features do under noise: {claim: values}.

    Args:
        found: of :func:`gmm_study.curves`. weaker: of :func:`gmm_study.weak`. pictures: of the part "pictures".
    """
    first, *_, last = curves["dense", "L1"][0]["p"]
    ends = {cell: (error_at(results, 0), error_at(results, -1)) for cell, results in curves.items()}
    named = {
        f"{signal}_{'no_noise' if epsilon is None else f'epsilon_{epsilon:g}'}": results
        for (signal, epsilon), results in weaker.items()
    }
    passes = {name: crossing(results) for name, results in named.items()}
    faster = {f"passes_{LEVEL:g}_at_p_{name}": at for name, at in passes.items() if name.startswith("sparse")}
    faster |= {f"rise_{name}": rise(results) for name, results in named.items() if name.startswith("sparse")}
    images = {noise: np.array([picture["error"]["images"][noise]["noisy"] for picture in pictures])
              for noise in ("unit", "public bound")}  # fmt: skip
    return {
        "A.remark2": {
            "error_dense_definition3_fewest": ends["dense", "L1"][0],
            "error_sparse_definition3_fewest": ends["sparse", "L1"][0],
            "limit": ends["dense", "L1"][1],
            "limit_sparse": ends["sparse", "L1"][1],
            "error_dense_fixed_noise": ends["dense", "unit"][1],
            "images_fewest_pixels": mean(images["unit"][:, 0]),
            "images_all_pixels": mean(images["unit"][:, -1]),
            "images_all_pixels_public_bound": mean(images["public bound"][:, -1]),
            "all_pixels": pictures[0]["pixels"][-1],
            "images_all_pixels_no_noise": mean(
                [picture["error"]["images"]["none"]["noisy"][-1] for picture in pictures]
            ),
            "shuffled_all_pixels_no_noise": mean(
                [picture["error"]["shuffled"]["none"]["noisy"][-1] for picture in pictures]
            ),
            "formula_all_pixels_no_noise": mean([picture["formula"]["none"]["noisy"][-1] for picture in pictures]),
            **faster,
        },
        "A.s-larger-noise-degrades-faster": {
            "level": LEVEL,
            "noise_at_epsilon": sorted({epsilon for _, epsilon in weaker if epsilon}),
            **faster,
            "dense_curves": sum(name.startswith("dense") for name in passes),
            "dense_curves_that_pass": sum(passed is not None for k, passed in passes.items() if k.startswith("dense")),
        },
        "A.s-random-guessing": {
            "error_sparse_no_noise": ends["sparse", "none"][1],
            "error_sparse_sensitivity_one_fewest_features": ends["sparse", "unit"][0],
            "error_sparse_sensitivity_one": ends["sparse", "unit"][1],
            "exponent_sparse_sensitivity_one": exponent(curves["sparse", "unit"]),
            "error_dense_sensitivity_one": ends["dense", "unit"][1],
            "error_definition3_fewest_features": ends["dense", "L1"][0],
            "error_weak_sensitivity_one_fewest_features": error_at(named["sparse_epsilon_5"], 0),
            "error_weak_sensitivity_one": error_at(named["sparse_epsilon_5"], -1),
            "error_weak_no_noise": error_at(named["sparse_no_noise"], -1),
            **small_noise(),
        },
        "A.s-larger-worse": {
            f"error_{signal}_{noise}_p{p}": errors
            for (signal, noise), both in ends.items()
            if noise != "none"
            for p, errors in zip((first, last), both, strict=True)
        }
        | strong_feature(),
    }


def small_noise(epsilon: float = 1000.0, seeds: int = 5) -> dict[str, Any]:
    """Definition 3's noise made small by a large epsilon, 20 informative features: errors with few and with many."""
    runs = [
        curve(noise="L1", seed=seed, informative=20, epsilon=epsilon, dimensions=[20, 5000]) for seed in range(seeds)
    ]
    return {
        "small_noise_epsilon": epsilon,
        "small_noise_sd_fewest_features": mean([run["noise_sd"][0] for run in runs]),
        "error_small_definition3_fewest_features": error_at(runs, 0),
        "error_small_definition3": error_at(runs, 1),
    }


def strong_feature(
    seeds: int = 20, epsilon: float = 5.0, delta: float = 1e-4, alpha: float = 20.0
) -> dict[str, Measured]:
    """Errors under Definition 3's noise of a feature that tells nothing, and of that one beside a strong one."""
    errors: dict[str, list[float]] = {"error_useless_feature_L1": [], "error_strong_feature_added_L1": []}
    for seed in range(seeds):
        rng = np.random.default_rng(np.random.SeedSequence([29, seed]))
        for name, means in zip(errors, ([0.0], [0.0, alpha / 2]), strict=True):
            clean = gmm.Mixture(np.array(means), -np.array(means), np.ones(len(means)), 30)
            scale = 2 * gmm.max_norms(clean, 1, 10, rng).mean()
            loud = replace(clean, noise_sd=float(mechanisms.paper_sigma(epsilon, delta, scale)))
            errors[name].append(float(gmm.draw(loud, 1000, rng).errors().mean()))
    return {name: mean(values) for name, values in errors.items()}


def rise(results: Results) -> Measured:
    """By how much the mean error rises from the fewest to the most features, over seeds."""
    return mean([result["advantage"][0] - result["advantage"][-1] for result in results])


def error_at(results: Results, place: int) -> Measured:
    """Mean error on noisy test points at one of the dimensions, over seeds."""
    return mean([0.5 - result["advantage"][place] for result in results])


def crossing(results: Results) -> Measured | None:
    """The number of features from which on the error stays above LEVEL, straight in log p, over seeds.

    None unless every seed's curve is below it somewhere and above it at the end.
    """
    sizes = []
    for result in results:
        p, errors = np.log(result["p"]), 0.5 - np.array(result["advantage"])
        below = np.flatnonzero(errors <= LEVEL)
        if not len(below) or below[-1] == len(errors) - 1:
            return None
        i = below[-1]
        sizes.append(np.exp(np.interp(LEVEL, errors[i : i + 2], p[i : i + 2])))
    return mean(sizes)


def example1(results: Results) -> Values:
    """Example 1 and Figure 2: {claim: values}; ``found`` of the part "examples"."""
    draws = sum(result["draws"] for result in results)
    by = {name: [result["readings"][name] for result in results] for name in results[0]["readings"]}
    clean, three, third = (by[name] for name in ("no noise", "standard deviation 3", DEFINITION3))

    def both(runs: Results, key: str, suffix: str = "") -> dict[str, Measured]:
        return {f"feature{j + 1}{suffix}": mean([run[key][j] for run in runs]) for j in (0, 1)}

    def picks(runs: Results, key: str) -> Measured:
        return stats.proportion_interval(sum(run["picks_2"][key] for run in runs), draws)

    rows: Values = {}
    for row, key in {"distance": "distance", "variance": "variance", "t-statistic": "t"}.items():
        rows[f"A.example1-clean.{row}"] = both(clean, key)
        rows[f"A.example1-noisy.{row}"] = both(three, key) | both(third, key, "_definition3")
    rows["A.example1.mean"] = (
        both(clean, "distance", "_clean")
        | both(three, "distance")
        | {"sd_of_one_data_set_definition3": mean([result["distance_sd"] for result in third])}
    )
    rows["A.example1.order"] = {
        "t_picks_2_clean": picks(clean, "t"),
        "t_picks_2_sd_3": picks(three, "t"),
        "t_picks_2_definition3": picks(third, "t"),
        "distance_picks_2_clean": picks(clean, "distance"),
        "distance_picks_2_sd_3": picks(three, "distance"),
        "distance_picks_2_definition3": picks(third, "distance"),
        **budget_of_sd_3(mean([result["c_p"] for result in results]).value),
    }
    rows["A.s-new-rank-harmful"] = new_rank()
    rows["A.fig2"] = overlaps(mean([result["sd"] for result in third]).value)
    return rows


def budget_of_sd_3(c_p: float, delta: float = 1e-4) -> dict[str, float]:
    """The epsilon for which eq. (4) asks for noise of standard deviation 3, and what that spends with a public C_p."""
    tau = 3 / (2 * c_p)
    return {
        "epsilon_of_sd_3": float(mechanisms.paper_sigma(1.0, delta) / tau),
        "epsilon_spent_by_sd_3": float(mechanisms.gaussian_epsilon(tau, 1.0, delta)),
    }


def new_rank() -> dict[str, float]:
    """What the rank that noise of standard deviation 3 makes costs, exactly: by feature the error of the best rule on
    it, and that of the feature which the t-statistic then has first less that of the one it had first."""
    gap, clean = np.abs(tools.EXAMPLE1.alpha), np.asarray(tools.EXAMPLE1.variances, dtype=float)
    noisy = clean + 9  # as the table prints it
    before, after = (int(np.argmax(gap / np.sqrt(variances))) for variances in (clean, noisy))
    # Where gap / sqrt(variance + s^2) is the same for both.
    least = np.sqrt((gap[1] ** 2 * clean[0] - gap[0] ** 2 * clean[1]) / (gap[0] ** 2 - gap[1] ** 2))
    values = {"least_noise_that_makes_it": float(least)}
    for points, variances in (("noisy", noisy), ("clean", clean)):
        errors = norm.cdf(-gap / (2 * np.sqrt(variances)))
        values |= {f"error_feature{j + 1}_{points}_points": float(errors[j]) for j in (0, 1)}
        values[f"more_error_{points}_points"] = float(errors[after] - errors[before])
    return values


def overlaps(definition3_sd: float) -> dict[str, float]:
    """Figure 2, exactly: the height at which two densities cross over their peak, and their common area."""
    areas = {}
    for j, (gap, variance) in enumerate(zip(-tools.EXAMPLE1.alpha, tools.EXAMPLE1.variances, strict=True), 1):
        printed = variance + 9  # as the table prints it
        areas[f"overlap_feature{j}"] = float(np.exp(-(gap**2) / (8 * printed)))
        areas[f"overlap_feature{j}_definition3"] = float(np.exp(-(gap**2) / (8 * (variance + definition3_sd**2))))
        areas[f"common_area_feature{j}"] = float(2 * norm.cdf(-gap / (2 * np.sqrt(printed))))
    return areas
