"""From the runs of chapter 10b to the values of its rows in the ledger, by claim, and to its figures."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.ticker import LogLocator
from scipy import optimize

from book.evidence import plotting
from dplib import debiased, mechanisms
from dplib.stats import Measured, mean_interval, paired, proportion_interval
from papers.labels import bounds, simplex
from papers.labels.theory_runs import LINE, slope

Values = dict[str, dict[str, Any]]
STATED = {"rr": (1.0, 1.0), "normal": (0.5, 1.0)}  # powers of K and 1/epsilon in Theorem 9 and Proposition 11
PALETTE = sns.color_palette("colorblind")
RISK = "excess risk / (D L)"
# Methods keep their colour and marker in every figure: blue protects labels, orange and red whole examples.
SHOWN = ("LP-RR-SGD", "RR, many passes", "DP, best of many", "SGD, no privacy")  # over dimension
LOOKS = {
    "SGD, no privacy": ("black", "s", ":"),
    "mean, no privacy": ("grey", "s", ":"),
    "LP-RR-SGD": (PALETTE[0], "o", "-"),
    "RR, many passes": (PALETTE[9], "o", "--"),
    "LP-Normal-SGD": (PALETTE[2], "^", "-"),
    "DP-SGD, one pass": (PALETTE[1], "v", "-"),
    "DP, best of many": (PALETTE[3], "D", "--"),
}
NO_PRIVACY = {"LP-RR-SGD": "SGD, no privacy", "RR, many passes": "mean, no privacy", "LP-Normal-SGD": "SGD, no privacy"}


def algorithms(check: Mapping[str, float], delta: float) -> Values:
    """Both algorithms and their noise, exactly: {claim: values}. check: of the part ``checks``."""
    k, epsilons = np.arange(2, 201)[:, None], np.linspace(1e-3, 1, 400)
    constant = float((bounds.rr_worst_second_moment(k, epsilons) * epsilons**2 / k**2).max())
    passed = {
        "epsilon_of_the_last_iterate_less_epsilon": check["pass_epsilon"] - check["epsilon"],
        "delta_of_the_last_iterate_at_epsilon": check["pass_delta"],
        "delta_at_0.99_epsilon": check["pass_delta_at_99"],
    }
    return {
        "C.assumption7": {"largest_excess_of_the_middle_over_the_chord": check["curved"]},
        "C.assumption8": {"largest_gradient_norm_over_L": check["steepest"]},
        "C.eq7": {"largest_bias_relative_to_the_norm": check["bias"]},
        "C.alg5": {**passed, "largest_bias": check["bias"]},
        "C.alg6": {
            "largest_delta_over_delta": check["step_delta"] / delta,
            "the_same_by_quadrature": check["step_quadrature"] / delta,
            "gradient_outside_the_span": check["off_span"],
        },
        "C.s-lp-rr-sgd-second-moment": {
            "constant_needed": constant,
            "largest_random_moment_over_the_bound": check["moment"],
        },
        "C.s-noise-sqrt-k": {
            "slope_over_p_in_the_span": check["slope_p"],
            "slope_over_K_in_the_span": check["slope_K"],
            "slope_over_p_everywhere": check["slope_p_everywhere"],
        },
    }


def noise_slopes(method: str, classes: Sequence[int], epsilons: Sequence[float], fixed: int, delta: float):
    """Logarithmic slopes of the exact G over K and 1/epsilon: near epsilon = 1 it moves faster than 1/epsilon."""

    def log_g(k, e):
        return 0.5 * np.log(simplex.second_moment(method, k, e, delta, 64))

    over_k = np.polyfit(np.log(classes), [log_g(k, epsilons[0]) for k in classes], 1)[0]
    return float(over_k), float(np.polyfit(-np.log(epsilons), [log_g(fixed, e) for e in epsilons], 1)[0])


def rates(part: tuple[np.ndarray, Mapping[tuple, np.ndarray]], check: Mapping[str, float], delta: float) -> Values:
    """Theorems 5 and 9 and Proposition 11 on the family: {claim: values}. part: ``rates`` of the study."""
    _, curves = part
    epsilons, _, classes = _grid(curves)
    rr = _against_bound(part, "rr", 0, bounds.theorem9_bound, delta)
    normal = _against_bound(part, "normal", 1, lambda k, e, n: bounds.proposition11_bound(k, e, delta, n), delta)
    passed = {"epsilon_of_the_last_iterate_less_epsilon": check["pass_epsilon"] - check["epsilon"]}
    # The paper's step size against D / G with the exact second moment, at the most examples.
    steps = {
        f"printed_over_exact_step_at_K_{k}": times(*(step[-1] for step in curves["rr", k, epsilons[0]]))
        for k in classes
    }
    needed = bounds.most_needed_constant(2 * np.log(2), 0.5)
    better = [
        k for k in classes if paired(*(curves[m, k, epsilons[0]][1][-1] for m in ("normal", "rr"))).difference.low > 0
    ]
    return {
        "C.thm9": {**rr, **passed, **steps, "n_from_which_the_bound_is_below_DL/2": speaks(2, 1.0)},
        "C.thm5": {k: rr[k] for k in ("largest_risk_over_bound", "slope_in_n_beyond_what_is_allowed")} | passed,
        "C.prop11": {
            **normal,
            "slope_in_K_of_the_bound_of_Theorem_9_over_its_own": gain_in_labels(classes, epsilons[0], delta),
            "constant_needed_at_epsilon_1_delta_0.999": float(bounds.gaussian_constant(1.0, 0.999)),
            "constant_needed_up_to_epsilon_2ln2_delta_0.5": needed,
            "labels_from_which_its_noise_is_smaller": bounds.labels_from_which_normal_wins(epsilons[0], delta),
            "numbers_of_labels_with_the_larger_risk": len(better),
            "numbers_of_labels_run": len(classes),
            "most_labels_run": classes[-1],
        },
    }


def gain_in_labels(classes: Sequence[int], epsilon: float, delta: float, n: int = 10_000) -> float:
    """The logarithmic slope in K of Theorem 9's bound over Proposition 11's with the least noise; n cancels."""
    apart = [bounds.theorem9_bound(k, epsilon, n) / bounds.proposition11_bound(k, epsilon, delta, n) for k in classes]
    return float(np.polyfit(np.log(classes), np.log(apart), 1)[0])


def _grid(curves: Mapping[tuple, np.ndarray]) -> tuple[list[float], int, list[int]]:
    """What was run: budgets, the largest first; the number of labels at each; the numbers of labels at the largest."""
    epsilons = sorted({e for _, _, e in curves}, reverse=True)
    fixed = next(k for _, k, e in curves if e == epsilons[-1])
    return epsilons, fixed, sorted({k for _, k, e in curves if e == epsilons[0]})


def _against_bound(part, method: str, which: int, bound_of: Callable, delta: float) -> dict[str, Any]:
    """An algorithm's risk over its bound, and its slopes in n, K and 1/epsilon, also beyond those of the bound.

    which: 0 with the printed step size, 1 with D / G.
    """
    examples, curves = part
    late = len(examples) // 2
    epsilons, fixed, classes = _grid(curves)
    excess, slopes = curves[method, fixed, epsilons[0]][which], noise_slopes(method, classes, epsilons, fixed, delta)
    allowed = (-0.5 + 1 / (2 + np.log(examples[late])), *np.maximum(STATED[method], slopes))
    three = (
        slope(examples[late:], excess[late:]),
        slope(classes, [curves[method, k, epsilons[0]][which][-1] for k in classes]),
        slope(1 / np.array(epsilons), [curves[method, fixed, e][which][-1] for e in epsilons]),
    )
    ratios = [
        mean_interval(v).high / bound_of(k, e, n)
        for (m, k, e), pair in curves.items()
        if m == method
        for v, n in zip(pair[which], examples, strict=True)
    ]
    return {
        "largest_risk_over_bound": float(max(ratios)),
        **{f"slope_in_{name}": value for name, value in zip(("n", "K", "1/epsilon"), three, strict=True)},
        **{
            f"slope_in_{name}_beyond_what_is_allowed": _less(value, most)
            for name, value, most in zip(("n", "K", "1/epsilon"), three, allowed, strict=True)
        },
    }


def speaks(classes: int, epsilon: float) -> int:
    """The number of examples from which on Theorem 9's bound with its constant is below D L / 2."""
    root = optimize.brentq(lambda log_n: bounds.theorem9_bound(classes, epsilon, np.exp(log_n)) - 0.5, 1, 99)
    return int(np.ceil(np.exp(root)))


def _less(value: Measured, by: float) -> Measured:
    return Measured(value.value - by, value.low - by, value.high - by, value.n)


def times(a: np.ndarray, b: np.ndarray) -> Measured:
    """The ratio a / b of paired runs as a geometric mean with its interval."""
    d = paired(np.log(a), np.log(b)).difference
    return Measured(*(float(np.exp(end)) for end in (d.value, d.low, d.high)), d.n)


def dimension(curves_: Mapping[str, Any]) -> Values:
    """What grows with the dimension: {claim: values}. found: of the part ``dimension``."""
    curves, p, n = curves_["curves"], curves_["dimensions"], curves_["examples"]
    beyond = {
        name: paired(np.log(curves[name][-1] / curves[name][0]), np.log(curves[like][-1] / curves[like][0])).difference
        for name, like in NO_PRIVACY.items()
    }
    best = curves["DP, best of many"]
    between = {f"p_{p[i]}": i for i in range(1, len(p) - 1)}
    over_labels = {
        f"DP_over_RR_many_passes_at_{at}": times(best[i], curves["RR, many passes"][i])
        for at, i in {"smallest_p": 0, **between, "largest_p": -1}.items()
    }
    rate = 1 / np.sqrt(n) + np.sqrt(np.array(p) * np.log(1 / curves_["delta"])) / (curves_["epsilon"] * n)
    over_rate = [mean_interval(v).high / r for v, r in zip(best, rate, strict=True)]
    grows = slope(p, best)
    return {
        "C.s-dimension-free": {
            **{f"growth_of_{_key(name)}": times(values[-1], values[0]) for name, values in curves.items()},
            **{f"log_growth_of_{_key(name)}_beyond_that_without_privacy": d for name, d in beyond.items()},
            "slope_of_the_best_DP_in_p": grows,
            "p_smallest": p[0],
            "p_largest": p[-1],
            "examples": n,
        },
        "C.s-provably-easier": {
            "DP_over_LP-RR-SGD_at_smallest_p": times(best[0], curves["LP-RR-SGD"][0]),
            **over_labels,
            "DP_over_no_privacy_many_passes_at_smallest_p": times(best[0], curves["mean, no privacy"][0]),
            "log_growth_of_RR_many_passes_beyond_that_without_privacy": beyond["RR, many passes"],
            "p_over_n_where_noise_is_equal": cross(curves_["epsilon"], curves_["delta"], 2),
        },
        "C.eq6": {"largest_risk_over_rate": float(max(over_rate))},
        "C.s-eq6-tight": {"slope_in_p_of_the_best_DP": grows},
    }


def _key(name: str) -> str:
    return name.replace(" ", "_").replace(",", "")


def cross(epsilon: float, delta: float, classes: int) -> float:
    """p / n up to which whole-example DP has less noise in the mean gradient than randomised labels."""
    return float(bounds.rr_noise(classes, epsilon)) / mechanisms.analytic_sigma(epsilon, delta, 2.0) ** 2


def moved(by_size: Mapping[str, np.ndarray], check: Mapping[str, float]) -> Values:
    """Corollary 10 and its steps: {claim: values}. found: of the part ``sets``."""
    best = int(by_size["risks"].mean(axis=1).argmin())
    over = [mean_interval(risk).high / bound for risk, bound in zip(by_size["risks"], by_size["bounds"], strict=True)]
    values = {
        "largest_risk_over_bound": float(max(over)),
        "excess_over_moved_excess_over_bound": check["ten"],
        "best_k": best + 1,
        "best_k_less_all_labels": paired(by_size["risks"][best], by_size["risks"][-1]).difference,
    }
    return {
        "C.eq9": {"largest_change_over_bound": check["nine"], "reached_by_a_problem_made_for_it": check["moved_worst"]},
        "C.eq10": {"largest_ratio": check["ten"]},
        **dict.fromkeys(("C.cor10", "C.cor6", "C.eq8", "C.s-good-prior-helps"), values),
    }


def lower(risks: Mapping[str, Sequence[float]], check: Mapping[str, float], n: int = 256) -> Values:
    """The lower bounds: {claim: values}. found: of the part ``construction``."""
    e, sharp = check["epsilon"], np.array(risks["bound: sharp"])
    least = min((np.array(risks[name]) / sharp).min() for name in ("RR sums, copied", "careful counts, copied"))
    thirteen = {
        "sharp_bound": bounds.sharp_bound(n, e) * np.sqrt(n),
        "paper's_over_sharp": bounds.proposition13_bound(n, e) / bounds.sharp_bound(n, e),
        "RR_signs_over_sharp": bounds.risk_of_rr_signs(n, e) / bounds.sharp_bound(n, e),
        "leaking_signs_over_sharp_at_delta_0.1": bounds.risk_of_leaking_signs(n, e, 0.1)
        / bounds.sharp_bound(n, e, 0.1),
    }
    fifteen = {
        "constant_of_the_paper's_argument": bounds.lemma15_bound(10**6, 0.001) * np.sqrt(1000),
        "sharp_constant": bounds.lemma15_bound(10**6, 0.001, sharp=True) * np.sqrt(1000),
        "least_risk_over_sharp_bound": float(least),
        "constant_where_delta_is_a_tenth_of_epsilon": bounds.lemma15_constant(0.1),
    }
    sixteen = {
        "delta_of_the_reduction_over_delta": check["lemma16"],
        "enumerated_delta_over_chance_of_more_copies": check["resampled"],
    }
    names = ("least_risk_over_sharp_bound", "constant_where_delta_is_a_tenth_of_epsilon")
    reached = {name: fifteen[name] for name in names}
    gaps = bounds.rate_gaps()
    found_values = {
        "C.eq13": {"odds_of_a_right_sign_over_e_to_epsilon": check["thirteen"]},
        "C.eq14": {"expected_right_signs_over_bound": check["fourteen"]},
        "C.eq15": {"largest_ratio": check["fifteen"]},
        **dict.fromkeys(("C.prop13", "C.eq12"), thirteen),
        "C.fact14": {"largest_exact_delta_over_bound": check["group"]},
        "C.lemma15": fifteen,
        "C.eq16": reached,
        "C.lemma16": sixteen,
        **dict.fromkeys(("C.prop12", "C.eq11"), reached | sixteen),
        **dict.fromkeys(("C.s-tight-up-to", "C.s-tight-polylog"), gaps),
    }
    return {claim: {name: float(v) for name, v in values.items()} for claim, values in found_values.items()}


def by_prior(classes: int = 10, k: int = 2, epsilon: float = 1.0, n: int = 10_000, beta: float = 0.05) -> Values:
    """Our bound of Theorem 17 for thresholds, with all labels over that with k, for two shares of missed labels."""
    complexity = debiased.thresholds_rademacher(n)

    def bound(labels: int, miss: float) -> float:
        return debiased.theorem17_bound(miss, labels, epsilon, n, beta, complexity)

    missed = {"good": 0.05, "poor": 0.5}
    ratios = {f"bound_of_all_labels_over_that_of_a_{name}_prior": float(bound(classes, 0) / bound(k, miss))
              for name, miss in missed.items()}  # fmt: skip
    return {"C.s-good-prior-nonconvex": ratios}


def learners(measured: Mapping[str, Any], check: Mapping[str, float]) -> Values:
    """Appendix G: {claim: values}. found: of the part ``generalisation``."""
    runs, bound, beta = measured["found"], measured["bounds"], measured["beta"]
    trials = sum(len(run["deviation"]) for run in runs.values())
    hardest = min(measured["epsilons"])
    above = sum(int((run["deviation"] > bound[cell]).sum()) for cell, run in runs.items())
    clean = sum(
        int((run["clean"] > debiased.deviation_bound(debiased.thresholds_rademacher(n), n, beta)).sum())
        for (_, n), run in runs.items()
    )
    narrow = {
        n: proportion_interval(
            int((abs(runs[hardest, n]["single"]) > LINE.miss + debiased.deviation_bound(0.0, n, beta)).sum()),
            measured["draws"],
        )
        for n in measured["examples"]
    }
    seventeen = {
        "share_above_our_bound": proportion_interval(above, trials),
        **{f"share_above_it_without_the_width_at_n_{n}": share for n, share in narrow.items()},
    }
    printed = float(debiased.lipschitz_printed(4, check["epsilon"]))
    bias, miss = {"largest_bias": check["bias18"]}, {"largest_difference_over_miss_rate": check["lemma20"]}
    return {
        "C.eq17": bias,
        "C.lemma18": bias,
        "C.lemma19": {
            "largest_slope": check["slope19"],
            "least_constant": float(debiased.lipschitz_least(4, check["epsilon"])),
            "largest_slope_over_the_constant": check["slope19"] / printed,
        },
        "C.lemma20": miss,
        "C.eq19": miss,
        "C.thm17": seventeen,
        "C.eq18": seventeen,
        "C.defg1": {"apart_by": abs(check["enumerated"] - debiased.thresholds_rademacher(9))},
        "C.defg2": {"spread_of_all_thresholds_over_samples": check["spread"]},
        "C.lemma21": {"share_above_the_bound": proportion_interval(clean, trials), "beta": beta},
        "C.lemma22": {"largest_ratio": check["contraction"]},
    }


def yours(epsilon: float, delta: float, labels: int, examples: int, dimension: int) -> dict[str, Any]:
    """A reader's own case by closed forms: second moments in units of L², risks in units of DL."""
    moment = float(bounds.rr_worst_second_moment(labels, epsilon))
    normal = bounds.normal_second_moment(labels, epsilon, delta)
    equal = cross(epsilon, delta, labels) * examples  # the dimension where both noises are equal
    risk = float(bounds.last_iterate_bound(moment, examples))
    return {
        "second_moment_of_LP_RR_SGD": moment,
        "second_moment_of_LP_Normal_SGD": normal,
        "smaller_noise": "LP-RR-SGD (δ = 0)" if moment <= normal else "LP-Normal-SGD",
        "normal_noise_wins_from_this_many_labels": bounds.labels_from_which_normal_wins(epsilon, delta),
        "whole_examples_have_less_noise_up_to_dimension": equal,
        "at_your_dimension": "labels" if dimension > equal else "whole examples",
        "risk_bound_of_LP_RR_SGD_exact_G": risk,
        "risk_bound_of_Theorem_9": float(bounds.theorem9_bound(labels, epsilon, examples))
        if epsilon <= 1
        else "not stated above ε = 1",
        "says_something": "yes" if risk < 0.5 else "no: weights 0 are as good",
        "no_algorithm_below_in_n_dimensions": float(bounds.sharp_bound(examples, epsilon)),
    }


# ---- figures


def line(axes: plt.Axes, x: Sequence[float], values, label: str, colour, marker: str, style: str) -> None:
    """A mean curve with its 95% band; values of shape (len(x), replicates)."""
    look = {"color": colour, "marker": marker, "ls": style, "label": label, "ms": 5}
    plotting.line(axes, x, plotting.means(np.asarray(values)), "", within=(1e-9, np.inf), **look)


# What the first figure calls its methods.
WORDS = {
    "LP-RR-SGD": "labels,\none pass",
    "RR, many passes": "labels,\nmany passes",
    "DP, best of many": "whole\nexamples",
    "SGD, no privacy": "no privacy",
}


def over_dimension(axes: plt.Axes, measured: Mapping[str, Any], title: str) -> None:
    """Excess risk against p: a line each for the two ways to protect labels, whole examples at their best, and SGD."""
    for name in SHOWN:
        line(axes, measured["dimensions"], measured["curves"][name], WORDS[name], *LOOKS[name])
    least = min(np.mean(v) for name in SHOWN for v in measured["curves"][name])
    axes.set(xscale="log", yscale="log", xlabel="number of features", ylabel="excess risk (1: the worst)", title=title)
    axes.set_ylim(bottom=least / 3)  # on a logarithmic axis a band that reaches 0 has no end
    axes.set_xlim(right=max(measured["dimensions"]))
    plotting.name_lines(axes, gap=30)


def rate_panels(panels: Sequence[plt.Axes], part: tuple[np.ndarray, Mapping[tuple, np.ndarray]]) -> None:
    """Worst risk against n, K and 1/epsilon: crosses with the printed step size, symbols with D / G."""
    n, measured = part
    epsilons, k0, classes = _grid(measured)
    e0 = epsilons[0]
    by_n, by_k, by_e = panels
    for method, name in (("rr", "LP-RR-SGD"), ("normal", "LP-Normal-SGD")):
        colour, marker, style = LOOKS[name]
        said = {"rr": "randomised\nresponse", "normal": "normal\nnoise"}[method]
        for which, (mark, dash) in enumerate([("x", ""), (marker, style)]):
            look = (said if which else "_", colour, mark, dash)
            line(by_n, n, measured[method, k0, e0][which], *look)
            line(by_k, classes, [measured[method, k, e0][which][-1] for k in classes], *look)
            line(by_e, 1 / np.array(epsilons), [measured[method, k0, e][which][-1] for e in epsilons], *look)
    exact = bounds.last_iterate_bound(bounds.rr_worst_second_moment(k0, e0), n)
    by_n.plot(n, exact, color="grey", ls="-.", label="bound,\nexact G")
    by_n.plot(n, bounds.theorem9_bound(k0, e0, n), color="black", lw=1, label="bound,\nprinted G")
    by_n.set(xlabel="examples n", ylabel=f"worst {RISK}", title=f"K = {k0}, ε = {e0:g}")
    by_k.set(xlabel="labels K", ylabel=f"worst {RISK}", title=f"n = {n[-1]:,}, ε = {e0:g}")
    by_e.set(xlabel="1/ε", ylabel=f"worst {RISK}", title=f"n = {n[-1]:,}, K = {k0}")
    for axes, ticks in ((by_n, None), (by_k, classes), (by_e, 1 / np.array(epsilons))):
        axes.set(xscale="log", yscale="log")
        axes.yaxis.set_minor_locator(LogLocator(subs=(3,)))  # a tick between two decades, not eight
        if ticks is not None:
            axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
            axes.set_xticks([], minor=True)
    by_n.figure.tight_layout()
    for axes in panels:
        plotting.name_lines(axes, gap=30)


def second_moments(axes: plt.Axes, epsilon: float, delta: float, most: int = 1000) -> None:
    """What the step size must allow for: the largest E|g|^2 against K, for both algorithms."""
    k, sigma = np.unique(np.geomspace(2, most, 80).astype(int)), mechanisms.analytic_sigma(epsilon, delta, 2.0)
    axes.plot(k, bounds.printed_second_moment(k, epsilon), color="black", lw=1, label="printed bound")
    axes.plot(k, bounds.rr_worst_second_moment(k, epsilon), color=LOOKS["LP-RR-SGD"][0], label="randomised\nresponse")
    axes.plot(k, 1 + k * sigma**2, color=LOOKS["LP-Normal-SGD"][0], ls="--", label="normal noise")
    axes.set(xscale="log", yscale="log", xlabel="labels K", ylabel="largest E|g|²/L²", xlim=(2, most))
    plotting.name_lines(axes, gap=24)


def lower_bounds(axes: plt.Axes, measured: Mapping[str, Sequence[float]]) -> None:
    """Excess empirical risk on the construction against epsilon: algorithms with dots, bounds as plain lines."""
    hidden = "LP-RR-SGD, no copies"  # its risk is that of RR's signs to five digits
    names = [name for name in measured if name not in ("epsilon", hidden)]
    for name, colour in zip(names, sns.color_palette("colorblind", len(names)), strict=True):
        bound = name.startswith("bound")
        style = {"bound: paper": ":", "bound: sharp": "--"}.get(name, "-")
        axes.plot(measured["epsilon"], measured[name], color="black" if bound else colour,
                  marker=None if bound else "o", ms=4, ls=style, label=name)  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="ε", ylabel=RISK)
    axes.legend(fontsize=10.5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.15))


def sets(axes: plt.Axes, measured: Mapping[str, np.ndarray]) -> None:
    """Corollary 10: excess risk against k, with the miss rate of each k on top."""
    k = np.arange(1, len(measured["risks"]) + 1)
    line(axes, k, measured["risks"], "LP-RR-SGD on k labels", *LOOKS["LP-RR-SGD"])
    axes.axhline(measured["risks"][-1].mean(), color="grey", ls=":", label="all labels")
    axes.set(xlabel="labels kept, k", ylabel=RISK, xticks=k)
    top = axes.secondary_xaxis("top")
    top.set_xticks(k, [f"{100 * m:.0f}" for m in measured["misses"]], fontsize=10.5)
    top.set_xlabel("label not among them, %", fontsize=10.5)
    axes.legend(fontsize=10.5)


def generalisation(axes: plt.Axes, measured: Mapping[str, Any]) -> None:
    """Largest deviations of all data sets as dots, our bound as a line, a colour for each epsilon."""
    for i, epsilon in enumerate(measured["epsilons"]):
        for n in measured["examples"]:
            values = measured["found"][epsilon, n]["deviation"]
            spread = n * np.exp(np.random.default_rng(i).uniform(-0.08, 0.08, len(values)))
            axes.plot(spread, values, ".", color=PALETTE[i], ms=3, alpha=0.4)
        line_of = [measured["bounds"][epsilon, n] for n in measured["examples"]]
        axes.plot(measured["examples"], line_of, color=PALETTE[i], label=f"bound,\nε = {epsilon:g}")
    axes.set(xscale="log", yscale="log", xlabel="examples n", ylabel="largest deviation of the risk")
    axes.set_xticks(measured["examples"], [f"{n:,}" for n in measured["examples"]])
    axes.set_xticks([], minor=True)
    plotting.name_lines(axes, gap=32)
