"""From kept runs to the values of chapter 3's rows in the ledger, by claim (paper B, Sections III-A, VI-A and VI-B).

Values with an interval: means over seeds with 95%, paired by seed where two trainings are compared; budgets of mean
curves by bootstrap over seeds.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import optimize

from book.evidence import runs
from book.evidence.plans import Plan
from dplib import stats
from dplib.data import preprocess
from dplib.stats import Measured, mean_interval
from papers.architecture import sample_size_runs as budget
from papers.architecture import sum_task
from papers.architecture.privacy_cost_runs import CLIPPED, DELTA, NO_LIMIT, SETTING
from papers.common.diverged import accuracies
from papers.common.extended import added

Values = dict[str, dict[str, Any]]
Task = Mapping[int, Sequence[runs.Result]]  # input size to results by seed
NOISE, BATCH = 2.0, 250  # of Figure 6: the paper's default noise; the batch size is ours
LEVEL = {"accuracy": 0.85, "nearness": 0.5}  # which the budget of an input size is about
LOOKED_AT = 20  # seeds of the networks' part that were looked at before as many more were added
EARLY = 10  # epochs after which the curves of Figure 5 are compared, besides the last


# --- the engineered task ----------------------------------------------------------------------------------------------


def percent(results: Sequence[runs.Result], key: str = "accuracy") -> np.ndarray:
    """A share of every run, in per cent (seeds,)."""
    return 100 * np.array([r[key] for r in results])


def lost(table: Task, kept: Task) -> dict[int, Measured]:
    """Points lost against ten inputs by wider ones whose records keep their length, paired by seed."""
    narrow = percent(table[min(table)])
    return {m: stats.paired(narrow[: len(rs)], percent(rs)).difference for m, rs in kept.items()}


def lost_by_the_largest_input(study: Plan) -> Measured:
    """Points that the largest input loses against ten where records keep their length, by this study's runs."""
    kept = study.read("kept")
    return lost(study.read("table_3"), kept)[max(kept)]


def table_3(table: Task, tuned: Task) -> Values:
    """Printed cells of Table III, and what a learning rate of its own gives each size."""
    return {
        f"B.table3.input-{m}": {
            "acc_sgd": mean_interval(percent(results, "sgd_accuracy")),
            "acc_dpsgd": mean_interval(percent(results)),
            "acc_dpsgd_with_a_rate_of_its_own": mean_interval(percent(tuned[m])),
        }
        for m, results in table.items()
    }


def table_3_many(repeats: Mapping[str, np.ndarray]) -> Values:
    """The row of 500 inputs by many new repeats, of :func:`papers.architecture.privacy_cost_runs.many`."""
    cells = {"acc_sgd": "sgd_accuracies", "acc_dpsgd": "accuracies"}
    return {"B.table3.input-500": {cell: mean_interval(100 * repeats[name]) for cell, name in cells.items()}}


def figure_5(table: Task, kept: Task) -> Values:
    """Figure 5: the distance to SGD by epoch, and the part of it that acts on the data."""
    ends = {m: np.array([r["distances"] for r in rs]) for m, rs in table.items()}
    widest = max(table)

    def rises(epoch: int) -> dict[tuple[int, int], Measured]:
        return {(a, b): stats.paired(ends[b][:, epoch], ends[a][:, epoch]).difference for a, b in pairwise(ends)}

    def last(results: Sequence[runs.Result], key: str) -> Measured:
        return mean_interval([r[key][-1] for r in results])

    return {
        "B.fig5": {
            **{f"distance_m{m}": mean_interval(values[:, -1]) for m, values in ends.items()},
            **{f"drop_m{m}": stats.paired(values[:, 0], values[:, -1]).difference for m, values in ends.items()},
            **{f"rise_{a}_to_{b}": gap for (a, b), gap in rises(-1).items()},
            **{f"rise_{a}_to_{b}_after_{EARLY}_epochs": gap for (a, b), gap in rises(EARLY - 1).items()},
            f"distance_records_kept_m{widest}": last(kept[widest], "distances"),
            f"acting_part_m{min(table)}": last(table[min(table)], "predictive"),
            f"acting_part_m{widest}": last(table[widest], "predictive"),
            f"acting_part_records_kept_m{widest}": last(kept[widest], "predictive"),
        }
    }


def needed(results: Task, what: str) -> dict[int, np.ndarray]:
    """The budget at which the mean curve of each size first reaches its LEVEL: of all runs, then of 1,000 bootstraps.

    Equal draws of runs for every size; one epoch more than were run stands for "not reached".
    """
    noise_multiplier = results[min(results)][0]["noise_multiplier"]
    q, steps = SETTING["batch"] / SETTING["n"], SETTING["n"] // SETTING["batch"]
    curves = {m: np.array([r["accuracies"] for r in rs]) for m, rs in results.items()}
    if what == "nearness":
        curves = {m: 1 - np.array([r["distances"] for r in rs]) for m, rs in results.items()}
    count, epochs = curves[min(curves)].shape
    spent = np.array([float(budget.epsilon(noise_multiplier, q, e * steps, DELTA)) for e in range(1, epochs + 2)])
    picks = np.random.default_rng(8).integers(count, size=(1000, count))
    means = {m: np.concatenate([[c.mean(0)], c[picks].mean(1)]) for m, c in curves.items()}
    hits = {m: mean >= LEVEL[what] for m, mean in means.items()}
    return {m: spent[np.where(hit.any(-1), hit.argmax(-1), epochs)] for m, hit in hits.items()}


def _drawn(values: np.ndarray, n: int) -> Measured:
    """The first value, with the 95% interval of the others."""
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return Measured(float(values[0]), float(low), float(high), n)


def input_budget(table: Task, kept: Task, large: Task, wide: Task, narrow: Task, random: Task) -> Values:
    """Section VI-A: the budget that each input size needs, and whether it is the size that needs it.

    Args:
        kept: records as long as before the split. large: at a budget of 1. random: pieces of random size.
        wide, narrow: from zero weights, as printed and the ten inputs over root k, which must have one law.
    """
    row: dict[str, Any] = {}
    for what in LEVEL:
        budgets, n = needed(large, what), len(large[min(large)])
        row |= {f"epsilon_for_{what}_m{m}": _drawn(values, n) for m, values in budgets.items()}
        pairs = [*pairwise(budgets), (min(budgets), max(budgets))]
        row |= {f"more_epsilon_for_{what}_{a}_to_{b}": _drawn(budgets[b] - budgets[a], n) for a, b in pairs}
    row |= {f"loss_records_kept_m{m}": gap for m, gap in lost(table, kept).items()}
    row |= {f"loss_random_pieces_m{m}": gap for m, gap in lost(table, random).items()}
    row |= {f"wide_less_narrow_m{m}": stats.paired(percent(wide[m]), percent(narrow[m])).difference for m in wide}
    return {"B.input-size-budget": row}


def task(table: Task, random: Task) -> Values:
    """The engineered task as such: what is printed of it, and whether it has an optimum."""
    rng, widest = np.random.default_rng(9), max(table)
    features, labels, copies = sum_task.draw(2000, widest, "equal", rng)
    wide = np.column_stack([np.repeat(features, copies, axis=1), np.ones(2000)])
    margins = (2 * labels - 1) * (wide @ np.append(np.full(widest, 1.0), -5.0))  # right on every record
    losses = [float(np.logaddexp(0, -margins * t).mean()) for t in (1, 1000)]
    return {
        "B.split-feature-setup": {
            "repeats": len(table[widest]),
            "epochs": SETTING["epochs"],
            "n_sizes": len(table),
            "least_epsilon_at_noise_2": float(budget.epsilon(2.0, 1e-9, 1, DELTA)),
            "noise_here": table[widest][0]["noise_multiplier"],
            **{f"acc_dpsgd_random_pieces_m{m}": mean_interval(percent(rs)) for m, rs in random.items()},
        },
        "B.unique-optimum": {
            "parameters": widest + 1,
            "rank_of_hessian": int(np.linalg.matrix_rank(wide.T @ wide, tol=1e-4)),
            "loss_at_1000_theta_over_loss_at_theta": losses[1] / losses[0],
            **{f"acc_sgd_m{m}": mean_interval(percent(rs, "sgd_accuracy")) for m, rs in table.items()},
        },
        "B.eq1": {"largest_gap_to_reference": _reference_gap(rng), "loss_on_separable_data": losses[1] / losses[0]},
    }


def _reference_gap(rng: np.random.Generator) -> float:
    """Gradient descent against BFGS where the minimum exists: the same task with a tenth of its labels flipped."""
    features, labels, _ = sum_task.draw(4000, sum_task.BASE, "equal", rng)
    design = np.column_stack([features - 0.5, np.ones(4000)])
    signs = 2 * np.where(rng.random(4000) < 0.1, 1 - labels, labels) - 1

    def risk(theta: np.ndarray) -> tuple[float, np.ndarray]:
        margin = signs * (design @ theta)
        return float(np.logaddexp(0, -margin).mean()), -(design * (signs / (1 + np.exp(margin)))[:, None]).mean(0)

    reference = optimize.minimize(risk, np.zeros(11), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    theta = np.zeros(11)
    for _ in range(5000):
        theta -= 4.0 * risk(theta)[1]
    return float(np.abs(theta - reference).max())


# --- the cost of privacy of networks ----------------------------------------------------------------------------------

Family = Mapping[tuple[int, Any], Sequence[runs.Result]]


def errors(family: Family) -> dict[tuple[int, Any], np.ndarray]:
    """Test errors in per cent by (width, kind), (seeds,) each; one that diverged as :mod:`papers.common.diverged`."""
    return {key: 100 - accuracies(results, "test") for key, results in family.items()}


def costs(family: Family) -> dict[tuple[int, Any], np.ndarray]:
    """Equation (2) by (width, kind): points of test error beyond those of SGD, paired by seed."""
    losses = errors(family)
    return {(w, kind): values - losses[w, "SGD"] for (w, kind), values in losses.items() if kind != "SGD"}


def cost_of_privacy(family: Family, input_loss: Measured) -> Values:
    """Section III-A: the cost, its sign, and how it grows.

    Where a cost is below 0, the seeds that were added after a look at the first :data:`LOOKED_AT` decide alone.

    Args:
        input_loss: points lost by the largest input where records keep their length, of :func:`lost`.
    """
    error, cost = errors(family), costs(family)
    widths = sorted({w for w, _ in family})
    budgets = sorted({kind for _, kind in family if isinstance(kind, float) and kind < NO_LIMIT})
    least, most, widest = budgets[0], budgets[-1], widths[-1]
    logs = np.log10([family[w, "SGD"][0]["parameters"] for w in widths])
    private = [mean_interval(cost[w, b]) for w in widths for b in budgets]
    slopes = {b: np.polyfit(logs, np.array([cost[w, b] for w in widths]), 1)[0] for b in budgets}
    free = {"at_no_limit": NO_LIMIT, CLIPPED.replace(" ", "_"): CLIPPED}
    return {
        "B.eq2": {
            **{f"fall_{w}_units": stats.paired(cost[w, least], cost[w, most]).difference for w in widths},
        },
        "B.err-def": {
            f"scatter_over_seeds_at_{least:g}": error[widest, least].std(ddof=1),
        },
        "B.cost-negative": {
            "private_cells": len(private),
            "positive": sum(cost.low > 0 for cost in private),
            "negative": sum(cost.high < 0 for cost in private),
            **{
                f"cost_{w}_units_{name}": mean_interval(added(cost[w, kind], LOOKED_AT))
                for w in widths
                for name, kind in free.items()
            },
        },
        "B.hypothesis": {
            **{f"points_for_ten_times_the_parameters_at_{b:g}": mean_interval(s) for b, s in slopes.items()},
            "loss_of_the_largest_input": input_loss,
            **{
                f"error_widest_less_narrowest_{name}": stats.paired(error[widest, k], error[widths[0], k]).difference
                for name, k in {"sgd": "SGD", **{f"at_{b:g}": b for b in budgets}}.items()
            },
            **{f"last_step_at_{b:g}": stats.paired(cost[widest, b], cost[widths[-2], b]).difference for b in budgets},
        },
    }


# --- records for a set accuracy ---------------------------------------------------------------------------------------

Stops = dict[int, np.ndarray]  # training size to steps (seeds,)


def stops(results: Mapping[int, Sequence[runs.Result]], most_steps: int) -> Stops:
    """Steps until the target, a run that never reached it counted as ``most_steps``."""
    return {n: np.array([most_steps if r["steps"] is None else r["steps"] for r in rs]) for n, rs in results.items()}


def spent(steps: Stops, accountant: str) -> Stops:
    """The budgets of these steps, by an accountant of :mod:`papers.architecture.sample_size_runs`."""
    return {n: budget.epsilon_of_steps(NOISE, BATCH / n, s, DELTA, accountant) for n, s in steps.items()}


def steps_at(steps: Stops, n: float, seed: int) -> float:
    """Steps of a seed at n records: straight in log n between two sizes, level beyond them."""
    return float(np.interp(np.log(n), np.log(list(steps)), [values[seed] for values in steps.values()]))


def increase(simple: Stops, large: Stops, seed: int, n: float | None = None, level: float | None = None) -> float:
    """Per cent more records that the complex network needs at the budget of n records, or at ``level``.

    By the paper's accountant itself: no curve is interpolated but that of the steps.
    """
    if level is None:
        level = float(budget.epsilon(NOISE, BATCH / n, round(steps_at(simple, n, seed)), DELTA))
    few, many = (
        budget.size_for(level, NOISE, BATCH, lambda size, s=s: steps_at(s, size, seed), DELTA, between=(2 * BATCH, 1e6))
        for s in (simple, large)
    )
    return 100 * (many / few - 1)


def sample_size(simple: Stops, large: Stops, failed: int, printed: Mapping[str, Any]) -> Values:
    """Section VI-B but the fit. ``printed``: the values of B.effective-sample; ``failed``: runs short of the target."""
    both, sizes = range(len(large[min(large)])), list(simple)
    at, biggest = printed["n_simple"], max(sizes)
    mean = {n: simple[n].mean() for n in sizes}
    typical = round(float(np.mean(list(mean.values()))))

    def budgets(steps: Stops, n: float, accountant: str) -> np.ndarray:
        taken = np.round([steps_at(steps, n, seed) for seed in both])
        return budget.epsilon_of_steps(NOISE, BATCH / n, taken, DELTA, accountant)

    ends = {n: {a: [budgets(s, n, a) for s in (simple, large)] for a in ("paper", "pld")} for n in (5e5, biggest)}
    gap, tight = ({n: mean_interval(end[a][1] - end[a][0]) for n, end in ends.items()} for a in ("paper", "pld"))
    ratio = {n: mean_interval(end["pld"][1] / end["pld"][0]) for n, end in ends.items()}
    by_n = {n: float(budget.epsilon(NOISE, BATCH / n, typical, DELTA, "pld")) for n in sizes}
    more = mean_interval([increase(simple, large, s, at) for s in both])
    at_simple = [float(budget.epsilon(NOISE, BATCH / at, round(steps_at(simple, at, s)), DELTA)) for s in both]
    return {
        "B.effective-sample-setup": {
            "n_min": min(sizes),
            "n_max": biggest,
            "repeats": min(len(simple[biggest]), len(large[biggest])),
            "runs_short_of_target": failed,
            "copies_of_an_image": biggest / preprocess.PAPER_B["mnist"][0],
        },
        "B.fig6": {
            **{f"extra_steps_n{n}": mean_interval(large[n] - simple[n][: len(both)]) for n in sizes},
            "gap_at_largest_n": gap[biggest],
            "gap_tight_at_largest_n": tight[biggest],
            "ratio_tight_at_largest_n": ratio[biggest],
            "percent_steps_change": 100 * (max(mean.values()) / min(mean.values()) - 1),
        },
        "B.curves-converge": {
            "gap_at_500000": gap[5e5],
            "gap_at_largest_n": gap[biggest],
            "gap_tight_at_500000": tight[5e5],
            "gap_tight_at_largest_n": tight[biggest],
            "ratio_tight_at_500000": ratio[5e5],
            "ratio_tight_at_largest_n": ratio[biggest],
        },
        "B.effective-sample": {
            "epsilon": mean_interval(at_simple),
            "increase_percent": more,
            "increase_percent_at_epsilon_1": mean_interval([increase(simple, large, s, level=1.0) for s in both]),
        },
        "B.takeaway-vi-data": {"increase_percent": more, "runs_short_of_target": failed},
        "B.subsampling": {"steps": typical, **{f"epsilon_n{n}": epsilon for n, epsilon in by_n.items()}},
    }


def fit(simple: Stops) -> Values:
    """The curve epsilon = ln(alpha + beta / n) of Section VI-B, by the paper's accountant and by a tight one."""
    sizes, rng = list(simple), np.random.default_rng(10)
    paper, tight = (np.array(list(spent(simple, a).values())) for a in ("paper", "pld"))
    n = paper.shape[1]

    def fitted(values: np.ndarray, first: int = 0) -> list[Measured]:
        at, values = sizes[first:], values[first:]
        draws = np.vstack([budget.fit(at, values.mean(1)), budget.bootstrap_fit(at, values, 200, rng)])
        return [_drawn(draws[:, i], n) for i in range(2)]

    (alpha, beta), (free, _), (alpha_from, beta_from) = fitted(paper), fitted(tight), fitted(paper, 1)

    def least(first: int) -> Measured:
        """How near any alpha >= 1 and beta come, on the mean curve from a size on; interval by jackknife over seeds."""
        part_sizes, part = sizes[first:], paper[first:]
        whole = budget.least_relative_error(part_sizes, part.mean(1), 1.0)
        less = [budget.least_relative_error(part_sizes, np.delete(part, i, 1).mean(1), 1.0) for i in range(n)]
        return mean_interval(n * whole - (n - 1) * np.array(less))

    line = np.polyfit(np.log(sizes), np.log(tight.mean(1)), 1)
    return {
        "B.eps-fit": {
            "alpha": alpha,
            "beta": beta,
            "least_relative_error": least(0),
            f"least_relative_error_from_{sizes[1]}_records": least(1),
            f"alpha_from_{sizes[1]}_records": alpha_from,
            f"beta_from_{sizes[1]}_records": beta_from,
            "alpha_tight": free,
            "alpha_of_one_step": float(np.exp(budget.epsilon(NOISE, BATCH / max(sizes), 1, DELTA))),
            "power_law_misfit_tight_percent": 100
            * np.abs(np.exp(np.polyval(line, np.log(sizes))) / tight.mean(1) - 1).max(),
        }
    }
