"""From the runs of chapter 2 to the values of its rows in the ledger, by claim, and to what its figures draw."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import integrate
from scipy import stats as sps

from book.evidence.runs import Result
from dplib import mechanisms, selection, stats
from dplib.stats import Measured
from dplib.stats import mean_interval as mean
from papers.larger_models import dfs_errors as tools
from papers.larger_models import dfs_networks
from papers.larger_models.dfs_runs import BUDGETS, SIZES, SMALL_CASE

Results = Sequence[Result]
Designs = Mapping[tuple[float, float], Results]
Values = dict[str, dict[str, Any]]
BEST = 0.02  # a curve is at its best within so much of it, and climbs when it rises by more
GUESSING = 0.4  # nothing is learnt above this error
PRINTED = 0.88  # the paper's c


# ------------------------------------------------------------------------------------------------------------ theory


def separation(n: float, gamma: float, c: float, tau: float = 0.0) -> float:
    """The exact probability of Theorem 8 with v = 1: s = n^(1/4), ln(p - s) = n^(0.8 gamma), beta_n = ln n.

    With ``tau``, ln(1/delta)/epsilon, the data carry Definition 3's noise, its C_p taken for the mean norm of a point
    around 0, which is less.
    """
    p = np.exp(n ** (0.8 * gamma)) if tau else 0.0
    noise = 2 * tau * np.sqrt(2 / np.pi) * p
    alpha, sd = n**-gamma * np.log(n), 2 * np.hypot(1.0, noise) / np.sqrt(n)
    numbers = [np.log(n) / 4, n ** (0.8 * gamma)]
    return float(np.exp(selection.log_separation([alpha, 0.0], [sd, sd], c * n ** ((gamma - 1) / 2), numbers)))


def with_definition3(epsilon: float = 5.0, delta: float = 1e-4) -> float:
    """The largest probability of Theorem 8 with Definition 3's noise, v bounding the variances without it."""
    tau = float(mechanisms.paper_sigma(epsilon, delta))
    return max(separation(n, 0.25, c, tau) for n in (1e2, 1e4, 1e6) for c in (1.0, 2.0, 4.0))


def theory(checked: Results, drawn: Designs) -> Values:
    """Equations (15) and (16), the two expectations, Theorem 8, Lemma 2 and Assumption 1: {claim: values}."""
    case = SMALL_CASE
    exact = float(np.exp(selection.log_separation(
        [case["alpha"], 0.0], [case["sd"]] * 2, case["threshold"], np.log([case["important"], case["others"]])
    )))  # fmt: skip
    shares = {
        weight: [r["means"] for (_, w), rs in drawn.items() if w == weight for r in rs] for weight in (0.88, 0.44, 0.12)
    }
    inside, beyond, constant = _lemma2()
    return {
        "A.eq15": {"largest_difference": max(case["welch"] for case in checked)},
        "A.def7": {"largest_difference": max(case["distance"] for case in checked)},
        "A.s-expectation-d-hat": {
            "shift_in_standard_deviations": mean([case["shift"] for case in checked]),
            "sd_noisy_over_clean": mean([case["sd_noisy"] / case["sd_clean"] for case in checked]),
        },
        "A.s-expectation-sigma-hat": {"added_over_printed_less_1": mean([case["added"] - 1 for case in checked])},
        "A.thm8": {
            "smallest_difference_over_all_features": 0.0,
            "limit_inside": separation(1e24, 0.25, 1.0),
            "limit_outside": max(separation(1e24, 0.4, c) for c in (1.0, 2.0, 4.0)),
            "simulated_less_exact": mean([case["separated"] / case["separations"] - exact for case in checked]),
            "probability_with_definition_3": with_definition3(),
        },
        "A.lemma2": {
            "ratio_inside": inside,
            "ratio_at_sqrt_n": beyond,
            "constant_of_second_part": constant,
        },
        "A.assumption1": {
            "share_of_means_not_zero": mean([share["not_zero"] for share in shares[0.88]]),
            "share_with_half_of_c": mean([share["not_zero"] for share in shares[0.44]]),
            "share_with_c_and_1_minus_c_exchanged": mean([share["not_zero"] for share in shares[0.12]]),
            "growth_exponent_of_noise_variance_in_p": mean([draw["norm_growth"] for draw in drawn[10.0, PRINTED]]),
        },
        "A.fig2app": {
            "level": 0.1,
            "below_0.1_weight_c": mean([share["below_0.1"] for share in shares[0.88]]),
            "below_0.1_weight_half_of_c": mean([share["below_0.1"] for share in shares[0.44]]),
            "below_0.1_weight_1_minus_c": mean([share["below_0.1"] for share in shares[0.12]]),
        },
        "A.s-setup-synthetic": {
            "integral": (1 - PRINTED) + PRINTED / 2,
            "integral_without_the_half": (1 - PRINTED) + PRINTED,
        },
        "A.s-setup-delta": {"delta": 0.0001},
        "A.s-resnet-features": {
            "features_resnet18": dfs_networks.n_features("resnet18", 64),
            "features_resnet50": dfs_networks.n_features("resnet50", 64),
        },
    }


def _lemma2() -> tuple[float, float, float]:
    """Student's tail, the law of the statistic for normal data and equal classes, against what Lemma 2 says of it.

    Returns:
        The ratio of ln P(T > x) to -x^2 / 2 at n = 1e12 for x = n^(1/4) and x = n^(1/2); and the largest constant of
        the second part, for n from 100 to 1e8.
    """
    d = 2 * 2 * np.sqrt(2 / np.pi) / 2**1.5  # E|X|^3 of a standard normal is 2 sqrt(2/pi)
    constants = []
    for n in (1e2, 1e4, 1e6, 1e8):
        x = np.linspace(0, n ** (1 / 6) / d, 50)
        constants.append(np.abs(sps.t.sf(x, n - 2) / sps.norm.sf(x) - 1) / ((1 + x) ** 3 * d**3 / np.sqrt(n)))
    n = 1e12
    return log_tail(n**0.25, n - 2) / (-(n**0.5) / 2), log_tail(n**0.5, n - 2) / (-n / 2), float(np.max(constants))


def log_tail(x: float, df: float) -> float:
    """ln P(T > x) of Student's t, the density scaled by its value at x, so that nothing underflows."""
    area = integrate.quad(
        lambda u: np.exp(-(df + 1) / 2 * np.log1p((2 * x * u + u**2) / (df + x**2))), 0, 60 / x, limit=200
    )[0]
    return float(sps.t.logpdf(x, df) + np.log(area))


def leaks(epsilon: float = 5.0, delta: float = 1e-4, n: int = 30, m: int = 20) -> dict[str, float]:
    """What Algorithm 1 gives away, by explicit pairs of data sets: exact deltas at the epsilon that it claims.

    Args:
        n: records of a class. m: features kept.
    """
    labels, big, rng = np.repeat([0, 1], n), 10.0, np.random.default_rng(0)
    base = np.r_[np.tile([big, -big], (n, 1)), np.zeros((n, 2))]
    single, two, zeros = base.copy(), base.copy(), np.zeros_like(base)
    single[n - 1, 1] += 1e-6  # |-10 + 1e-6| is less than 10: feature 0 is kept
    two[n - 1, 0] -= 1e-6
    other = zeros.copy()
    other[0] = 1.0

    def noise(norm: float) -> float:
        return selection.definition_sd(norm, epsilon, delta)

    picks = [int(selection.dfs(x, labels, 1, noise, rng).features[0]) for x in (single, two)]
    scales = [selection.dfs(x, labels, 1, noise, rng).noise_sd for x in (zeros, other)]
    literal = selection.literal_sd(10.0, epsilon, delta)
    return {
        "delta_kept_features": float(picks[0] != picks[1]),
        "delta_kept_features_secret": float(mechanisms.gaussian_delta(noise(big), 2 * big * np.sqrt(n), epsilon)),
        "delta_scale_all_zero": float(scales[0] == 0 < scales[1]),
        "delta_scale_10_percent": float(mechanisms.two_gaussians_delta(0.0, 1.1, 1.0, 2 * n * m, epsilon)),
        "epsilon_public_bound_sd": float(mechanisms.gaussian_epsilon(noise(1.0), 2.0, delta)),
        "epsilon_public_bound_variance_N_10": float(mechanisms.gaussian_epsilon(literal, 20.0, delta)),
    }


def algorithm(checked: Results, released: Results) -> Values:
    """Algorithm 1 for two and for k classes: {claim: values}; ``released`` of the part "releases"."""
    leaked = leaks()
    return {
        "A.alg1": leaked | {
            "public_less_private_selection": lead(released, "rows, public selection", "rows, private DFS", 5.0),
            "means_selected_less_all": lead(released, "means, private DFS", "means, all features", 5.0),
            "means_selected_less_all_at_1": lead(released, "means, private DFS", "means, all features", 1.0),
        },
        "A.alg1k": {
            "largest_difference_to_pairs": max(case["pairs"] for case in checked),
            **{key: leaked[key] for key in ("delta_kept_features", "delta_scale_all_zero")},
        },
    }  # fmt: skip


def error(released: Results, arm: str, epsilon: float) -> Measured:
    """Mean test error of one way to release, over seeds."""
    return mean([release[f"{epsilon:g}"][arm] for release in released])


def lead(released: Results, arm: str, other: str, epsilon: float) -> Measured:
    """Test error of one way less that of another one, paired by seed."""
    return mean([release[f"{epsilon:g}"][arm] - release[f"{epsilon:g}"][other] for release in released])


# ------------------------------------------------------------------------------------------------------- Section 4.1


def curves(results: Results, key: str, criterion: str) -> np.ndarray:
    """Errors (seeds, sizes) of one criterion in a reading at a budget."""
    return np.array([result["curves"][key][criterion] for result in results])


def at(results: Results, key: str, criterion: str, size: int, sizes: Sequence[int] = SIZES) -> np.ndarray:
    """Errors (seeds,) at the largest size that is not above ``size``."""
    return curves(results, key, criterion)[:, np.searchsorted(sizes, size, "right") - 1]


def shape(results: Results, reading: tools.Reading, epsilon: float) -> dict[str, bool]:
    """What the text says of Figures 3 and 4, of the mean curves in one design, reading and budget; or of one draw."""
    key, sizes = reading.at(epsilon), np.array(SIZES)
    dfs, none, t = (curves(results, key, c).mean(0) for c in ("DFS", "no selection", "t-statistic"))
    low = sizes <= 100
    gap = _band((curves(results, key, "DFS") - curves(results, key, "t-statistic"))[:, low].mean(1))
    beyond = _band(at(results, key, "no selection", 1000))
    best, at20 = min(dfs.min(), none.min()), sizes.tolist().index(20)
    learns = best < GUESSING
    return {
        "0 without noise": bool(at(results, tools.NO_NOISE, "DFS", 20).mean() <= 0.01),
        "0 under noise": bool(dfs[at20] <= 0.01),
        "best with 20": bool(learns and dfs[at20] <= best + BEST),
        "best to 500": bool(learns and dfs[(sizes >= 20) & (sizes <= 500)].max() <= best + BEST),
        "no selection is worse": bool(learns and none.min() > dfs.min() + BEST),
        "over 1000": bool(beyond[0] > 0.01),
        "below t": bool(learns and gap[1] < 0),
        "stable below 30": bool(learns and _climb(dfs[sizes <= 30]) <= BEST),
        "climbs to 100": bool(learns and dfs[sizes == 100][0] > dfs[low].min() + BEST),
        "t climbs": bool(_climb(t[sizes <= 30]) > BEST and t[sizes == 100][0] > t[sizes == 5][0] + BEST),
    }


def _band(values: np.ndarray) -> tuple[float, float]:
    """The 95% interval of a mean over draws; a single draw is what it is."""
    return (values[0], values[0]) if len(values) == 1 else (mean(values).low, mean(values).high)


def _climb(curve: np.ndarray) -> float:
    return float((curve - np.minimum.accumulate(curve)).max())


# What each sentence on Figures 3 and 4 asks of a reading; "each": at one budget, as none is printed; else at both.
ASKED = {
    "A.fig3": ("both", ("0 without noise", "best with 20", "no selection is worse")),
    "A.fig3-20features": ("both", ("0 without noise", "0 under noise")),
    "A.fig3-1000features": ("each", ("0 under noise", "over 1000")),
    "A.fig3-500features": ("both", ("best to 500",)),
    "A.fig4a": ("each", ("below t", "stable below 30", "climbs to 100", "t climbs")),
}


def having(drawn: Designs, claim: str) -> set[tuple]:
    """The cases that show what a sentence says: (design, reading) or, for "each", (design, reading, budget)."""
    kind, items = ASKED[claim]
    readings = set()
    for design, results in drawn.items():
        for reading in tools.READINGS:
            right = {e: all(shape(results, reading, e)[item] for item in items) for e in (5.0, 10.0)}
            if kind == "both" and all(right.values()):
                readings.add((design, reading))
            readings |= {(design, reading, e) for e, holds in right.items() if holds and kind == "each"}
    return readings


def single_draws(drawn: Designs, fresh: Designs, claim: str) -> dict[str, Any]:
    """In how many single draws a figure appears as a whole, at a budget or both as :data:`ASKED` has it: fresh draws of
    the design and reading that show it most often on the first ones.
    """
    kind, items = ASKED[claim]

    def shown(results: Results, reading: tools.Reading) -> int:
        right = [[all(shape([result], reading, e)[item] for item in items) for e in (5.0, 10.0)] for result in results]
        return sum(all(both) if kind == "both" else any(both) for both in right)

    cells = [(design, reading) for design in drawn for reading in tools.READINGS]
    design, reading = max(cells, key=lambda at: shown(drawn[at[0]], at[1]))
    return {
        "single_draws_that_show_it": shown(fresh[design], reading),
        "single_draws": len(fresh[design]),
        "their_reading": f"{reading}, variances of mean {design[0]:g}, weight {design[1]:g}",
    }


def over_budgets(results: Results, reading: tools.Reading) -> bool:
    """Figure 4, right: with 20 features DFS's error falls with epsilon and is below that of |T| wherever either is
    0.005 or more, significantly so at more than half of these budgets."""
    dfs, other = (np.array([result["sweep"][str(reading)][c] for result in results]) for c in ("DFS", "t-statistic"))
    steps = np.diff(dfs.mean(0))
    told = np.flatnonzero(np.maximum(dfs.mean(0), other.mean(0)) >= 0.005)
    gaps = [mean((dfs - other)[:, i]) for i in told]
    falls = steps.max() <= 0.005 and steps.sum() <= -0.02
    below = sum(gap.high < 0 for gap in gaps)
    return bool(falls and len(gaps) >= 3 and all(gap.value < 0 for gap in gaps) and below > len(gaps) / 2)


def figures(drawn: Designs, fresh: Designs) -> Values:
    """Figures 3 and 4, over readings: those that show it on the first draws, and of these on fresh draws again."""
    cases = {
        claim: len(drawn) * len(tools.READINGS) * (2 if kind == "each" else 1) for claim, (kind, _) in ASKED.items()
    }
    shown = {claim: (having(drawn, claim), having(fresh, claim)) for claim in ASKED}
    sweep = [
        {(d, r) for d, rs in cell.items() for r in tools.READINGS if over_budgets(rs, r)} for cell in (drawn, fresh)
    ]
    shown["A.fig4b"], cases["A.fig4b"] = (sweep[0], sweep[1]), len(drawn) * len(tools.READINGS)
    values: Values = {}
    for claim, (first, second) in shown.items():
        both = first & second
        values[claim] = {
            "error_at_most": 0.01,
            "best_within": BEST,
            "cases": cases[claim],
            "shown_again": len(both),
            "shown_again_with_definition_3": sum(case[1].noise == "definition 3" for case in both),
        }
    values["A.fig4a"] |= {
        f"dfs_less_{_key(rival)}_variances_{v:g}": gap(fresh, v, rival)
        for v in (0.1, 10.0) for rival in tools.RIVALS
    }  # fmt: skip
    for claim in ("A.fig3", "A.fig4a"):
        values[claim] |= single_draws(drawn, fresh, claim)
    reading, low = tools.Reading("sensitivity one", "clean", "noisy").at(5.0), np.array(SIZES) <= 100
    both = (curves(fresh[0.1, PRINTED], reading, c)[:, low].mean(1) for c in ("DFS", "t-statistic"))
    values["A.fig4a"]["dfs_less_t_clean_selection_noisy_test_variances_0.1"] = mean(np.subtract(*both))
    printed = at(fresh[10.0, PRINTED], tools.Reading("definition 3", "noisy").at(5.0), "DFS", 20)
    values["A.fig3"]["error_20_features_definition_3_epsilon_5"] = mean(printed)
    values["A.fig3-noiseless"] = {
        f"dfs_less_no_selection_variances_{v:g}": mean(
            curves(fresh[v, PRINTED], tools.NO_NOISE, "DFS").min(1)
            - curves(fresh[v, PRINTED], tools.NO_NOISE, "no selection").min(1)
        )
        for v in (0.1, 10.0)
    }
    return values | _smooth(fresh)


def gap(drawn: Designs, variance: float, rival: str) -> Measured:
    """DFS less a rival: mean error up to 100 features over all readings with noise of sensitivity one, by seed."""
    low = np.array(SIZES) <= 100
    every = [
        (curves(results, reading.at(e), "DFS") - curves(results, reading.at(e), rival))[:, low].mean(1)
        for (v, _), results in drawn.items() if v == variance for reading in tools.ONE for e in (5.0, 10.0)
    ]  # fmt: skip
    return mean(np.mean(every, axis=0))


def _smooth(drawn: Designs) -> Values:
    """Whether single curves without selection are rougher than those of DFS under noise."""
    cells = [(results, str(reading)) for results in drawn.values() for reading in tools.ONE
             if curves(results, reading.at(5.0), "DFS").mean(0)[: SIZES.index(500)].min() < GUESSING]  # fmt: skip

    def rough(measure: int, key: str | None = None) -> np.ndarray:
        return np.array([[np.array([result["rough"][key or name][c][measure] for c in ("no selection", "DFS")])
                          for result in results] for results, name in cells])  # (cells, seeds, 2)  # fmt: skip

    turns, bends, clean = rough(0), rough(1), rough(0, tools.NO_NOISE)
    return {
        "A.fig3-not-smooth": {
            "turns_no_selection": mean(turns[..., 0].mean(0)),
            "turns_dfs": mean(turns[..., 1].mean(0)),
            "turns_no_selection_without_noise": mean(clean[..., 0].mean(0)),
            "turns_less_dfs": mean((turns[..., 0] - turns[..., 1]).mean(0)),
            "turns_less_dfs_without_noise": mean((clean[..., 0] - clean[..., 1]).mean(0)),
            "turns_of_the_noise_less_of_the_rest": mean((turns[..., 0] - 2 * clean[..., 0] + clean[..., 1]).mean(0)),
            "second_difference_less_dfs": mean((bends[..., 0] - bends[..., 1]).mean(0)),
        }
    }


def selecting(drawn: Designs, fresh: Designs) -> Values:
    """Remark 3, the shrinking norm and the stable choice: {claim: values}."""
    cells = {
        (design, reading, e): stats.paired(
            at(rs, reading.at(e), "DFS", 20), at(rs, reading.at(e), "no selection", SIZES[-1])
        )
        for design, rs in fresh.items() for reading in tools.READINGS for e in (5.0, 10.0)
    }  # fmt: skip
    sure = stats.holm([difference.p_value for difference in cells.values()]) < 0.05
    signs = [np.sign(difference.difference.value) * ok for difference, ok in zip(cells.values(), sure, strict=True)]
    log10 = max(result["log10_separation"] for rs in (*drawn.values(), *fresh.values()) for result in rs)
    values: Values = {
        "A.remark3": {
            "probability_under_the_conditions": separation(1e24, 0.25, 1.0),
            "probability_with_definition_3": with_definition3(),
            "log10_probability_in_section_4_1": log10,
            "cells": len(cells),
            "cells_selection_better": int(np.sum(np.array(signs) < 0)),
            "cells_selection_worse": int(np.sum(np.array(signs) > 0)),
        },
        "A.s-dfs-shrinks-cp": {"counts_from": BEST},
        "A.s-distance-stable": {},
    }
    every = list(fresh.values())
    lines = [[{(r["scale"], r["features"]): r for r in result["few"]} for result in rs] for rs in every]
    for scale in ("printed", "sd"):
        change = np.array(
            [[result[scale, "few"]["error"] - result[scale, "all"]["error"] for result in rs] for rs in lines]
        )
        for claim in ("A.s-dfs-shrinks-cp", "A.remark3"):
            values[claim][f"error_change_noise_as_{scale}"] = mean(change.mean(0))
    values["A.s-dfs-shrinks-cp"]["norm_few_over_all"] = mean(
        np.mean([[result["sd", "few"]["norm"] / result["sd", "all"]["norm"] for result in rs] for rs in lines], axis=0)
    )
    for noise, e in (("definition 3", 5.0), ("sensitivity one", 5.0), ("sensitivity one", 10.0)):
        key, name = f"{noise}; ε = {e:g}", f"{_key(noise)}_epsilon_{e:g}"
        kept, by_t = (
            np.mean([[result["same"][key][c] for result in rs] for rs in every], axis=0) for c in ("DFS", "t-statistic")
        )
        values["A.s-distance-stable"] |= {
            f"distance_{name}": mean(kept),
            f"t_{name}": mean(by_t),
            f"distance_less_t_{name}": mean(kept - by_t),
        }
    return values


REASON_SEEDS = 20  # fresh draws of each design


def reason_of_t(seeds: int = REASON_SEEDS, p: int = 3000, n_per_class: int = 30, m: int = 20, delta: float = 1e-4):
    """What the t-statistic loses by its variances and by its means, on fresh draws of Section 4.1: {claim: values}."""
    noises = (("definition 3", 5.0), ("sensitivity one", 5.0), ("sensitivity one", 10.0))
    lost: dict[tuple[str, float], list[list[dict[str, int]]]] = {noise: [] for noise in noises}
    for variance in (10.0, 0.1):
        for weight in (0.88, 0.44, 0.12):
            key = round(1000 * variance), round(1000 * weight)
            rngs = [np.random.default_rng(np.random.SeedSequence([23, seed, *key])) for seed in range(seeds)]
            problems = [tools.synthetic(p, n_per_class, variance, weight, rng) for rng in rngs]
            for noise, e in noises:
                sds = [tools.noise_sd(tools.Reading(noise), problem.largest_norm, e, delta) for problem in problems]
                cell = [tools.lost_by_part(problem, m, sd) for problem, sd in zip(problems, sds, strict=True)]
                lost[noise, e].append(cell)
    values = {}
    for (noise, e), cells in lost.items():
        name = f"{_key(noise)}_epsilon_{e:g}"
        by = {part: np.mean([[one[part] for one in cell] for cell in cells], axis=0) for part in ("variances", "means")}
        values |= {f"lost_by_{part}_{name}": mean(counts) for part, counts in by.items()}
        values[f"variances_less_means_{name}"] = mean(by["variances"] - by["means"])
    return {"A.s-t-relies-on-variance": values}


# --------------------------------------------------------------------------------------------------------- real data


def images(
    real: Mapping[str, Results],
    layered: Mapping[str, Results],
    picked: Mapping[str, tuple],
    more: Mapping[str, Results],
) -> Values:
    """The appendix's figures on MNIST and CIFAR-10, and Remark 4: {claim: values}; ``more``: pairs of CIFAR-10."""
    values: Values = {}
    for claim, pairs in (("A.fig4app-a", real["mnist"]), ("A.fig3app-a", more["cifar10-jpeg"])):
        values[claim] = {"lead_that_counts": 0.02, "turns_that_count": 0.02}
        for rival in tools.RIVALS:
            turns = [pair["turns"]["DFS"] - pair["turns"][rival] for pair in pairs]
            values[claim][f"error_less_{_key(rival)}"] = mean([_low(pair, rival) for pair in pairs])
            values[claim][f"turns_less_{_key(rival)}"] = mean(turns)
    rises = {}
    none = tools.NO_NOISE
    for c, short in (("t-statistic", "t"), ("signed t", "signed_t"), ("DFS", "DFS")):
        clean = [result["curves"][none][c][result["sizes"].index(20)] for result in real["mnist"]]
        ways = {
            f"selection_{select_on}{suffix}": tools.Reading("sensitivity one", select_on, test)
            for select_on in ("clean", "noisy")
            for test, suffix in (("noisy", ""), ("clean", "_clean_points"))
        } | {"algorithm_1": tools.Reading("algorithm 1, variance", test="clean")}
        for way, reading in ways.items():
            noisy = [result["sweep"][str(reading)][c][BUDGETS.index(10.0)] for result in real["mnist"]]
            rises[f"rise_{short}_{way}"] = mean(np.subtract(noisy, clean))
    values["A.fig4app-b"] = values["A.s-mnist-ttest-eps10"] = rises
    leads = {f"one_pair_{_key(rival)}": mean(lead) for rival, (_, lead) in picked.items()}
    leads |= {f"random_pairs_{_key(rival)}": _largest_lead(real["cifar10-jpeg"], rival) for rival in tools.RIVALS}
    values["A.fig3app-b"] = values["A.s-dfs-beats-ttest-cifar"] = leads
    table = [layers["table"] for layers in layered["mnist"]]
    values["A.remark4"] = {
        "accuracy_of_the_network": mean([100 * layers["network_accuracy"]["wide"] for layers in layered["mnist"]]),
        **{f"{s.replace('; ε = ', '_epsilon_')}": mean([100 * row[s]["wide + distance"]["accuracy"] for row in table])
           for s in table[0]},
    }  # fmt: skip
    return values


def _low(run: Result, rival: str) -> float:
    """DFS less a rival: mean error up to 100 features over the readings with noise of sensitivity one, at epsilon 5."""
    low = np.array(run["sizes"]) <= 100
    return float(np.mean([
        (np.array(run["curves"][r.at(5.0)]["DFS"]) - run["curves"][r.at(5.0)][rival])[low].mean() for r in tools.ONE
    ]))  # fmt: skip


def _largest_lead(results: Results, rival: str) -> Measured:
    """The largest mean lead of DFS at epsilon 1 or 2: the cell is picked on half the seeds, measured on the others."""
    keys, half = [r.at(e) for r in tools.ONE for e in (1.0, 2.0)], len(results) // 2
    leads = np.array(
        [[np.subtract(result["curves"][k][rival], result["curves"][k]["DFS"]) for k in keys] for result in results]
    )
    where = np.unravel_index(leads[:half].mean(0).argmax(), leads.shape[1:])
    return mean(leads[half:][:, where[0], where[1]])


def _key(name: str) -> str:
    """A criterion or a noise as a part of a value's name."""
    return name.replace(" ", "_").replace("-", "_")
