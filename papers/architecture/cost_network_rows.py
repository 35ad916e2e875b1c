"""From kept runs of networks to the values of chapter 5's rows; a function for each part of the plan.

Each returns {row: values}. Differences are paired by seed and in points of test accuracy, or in mean absolute error.
A name with ``_less_`` says which is taken from which.
"""

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats as distributions

from book.evidence import claims
from dplib import stats
from dplib.data import preprocess
from dplib.stats import Measured, mean_interval
from papers.architecture.cost_runs import CLIPPED, SGD
from papers.architecture.printed_budgets import PrintedTraining, tool_epsilon
from papers.common.extended import added
from papers.common.network_runs import Outcome

LOOKED_AT = 5  # seeds of the ladders before others were added
EQUAL = 1.0  # points of accuracy: a smaller difference of costs matters to nobody
Found = Mapping[Any, Outcome]
Rows = dict[str, dict[str, Any]]


def every(read: Mapping[str, Any]) -> Rows:
    """The rows that the parts of a plan are enough for.

    Args:
        found: part to what :meth:`book.evidence.plans.Plan.read` returns, "codes" to the differences of :func:`across`.
    """
    rows: Rows = {}
    for function, parts in FUNCTIONS.items():
        if all(name in read for name in parts):
            for row, values in function(*(read[name] for name in parts)).items():
                rows[row] = rows.get(row, {}) | values
    return rows


def less(outcome: Outcome, other: Outcome) -> Measured:
    """Mean of one minus the other, paired by seed."""
    return mean_interval(outcome.values() - other.values())


def budget_of(outcomes: Found) -> float:
    """The epsilon of a part that has one; the last element of a key is its budget."""
    (epsilon,) = {key[-1] for key in outcomes if isinstance(key[-1], float)}
    return epsilon


def scores(outcome: Outcome) -> str:
    """Mean validation scores of the rates that were tried, in words."""
    return "; ".join(f"{score:.3g} at {rate:g}" for rate, score in outcome.tuned.tried.items())


def regression(outcomes: Found) -> Rows:
    """Tables XIV and XV; keys (layers, units, budget)."""
    e = budget_of(outcomes)
    depths, widths = (sorted({key[i] for key in outcomes}) for i in (0, 1))
    rows: Rows = {
        f"B.table{number}.layers-{depth}": {f"mae_{width}": outcomes[depth, width, budget].mean for width in widths}
        for number, budget in ((14, e), (15, SGD))
        for depth in depths
    }
    best = {
        b: min((key for key in outcomes if key[2] == b), key=lambda key: outcomes[key].mean.value) for b in (SGD, e)
    }
    fewest = {
        f"fewest_minus_most_units_dp_{depth}_layers": less(
            outcomes[depth, widths[0], e], outcomes[depth, widths[-1], e]
        )
        for depth in depths
    }
    most = {
        f"most_minus_fewest_layers_{name}_{width}_units": less(
            outcomes[depths[-1], width, budget], outcomes[depths[0], width, budget]
        )
        for name, budget in (("dp", e), ("sgd", SGD))
        for width in widths
    }
    wide, deep = (6, 120), (12, 60)  # the pair that the text compares
    rows["B.regression"] = {
        **fewest,
        **most,
        "best_dp_layers": best[e][0],
        "best_dp_units": best[e][1],
        "mae_sgd_best": outcomes[best[SGD]].mean,
        "validation_error_6x120": scores(outcomes[*wide, e]),
    }
    rows["B.regression-across-board"] = {
        f"dp_less_sgd_{depth}_layers_{width}_units": less(outcomes[depth, width, e], outcomes[depth, width, SGD])
        for depth in depths
        for width in widths
    }
    gains = rows["B.regression-depth-weaker"] = sgd_gains(outcomes, depths, widths)
    rows["B.regression-across-board"] |= {name: gains[name] for name in ("sgd_gain_by_units", "sgd_gain_by_layers")}
    rows["B.regression-pair"] = {
        "mae_dp_12x60": outcomes[*deep, e].mean,
        "mae_dp_6x120": outcomes[*wide, e].mean,
        "mae_sgd_difference": less(outcomes[*wide, SGD], outcomes[*deep, SGD]),
        "params_12x60": outcomes[*deep, e].parameters,
        "params_6x120": outcomes[*wide, e].parameters,
    }
    shown = {"layers": ", ".join(map(str, depths)), "units": ", ".join(map(str, widths))}
    rows["B.regression-setup"] = {"epsilon": e, **shown}
    train, _, test = preprocess.PAPER_B["medical-cost"]
    rows["B.data-medical-cost"] = {"n_train": train, "n_test": test}
    return rows


def sgd_gains(outcomes: Found, depths: Sequence[int], widths: Sequence[int]) -> dict[str, Measured]:
    """How far the error with SGD falls from end to end of Table XV: by units, a mean over the depths, and by layers, a
    mean over the widths; one from the other, and the same for each doubling of either.
    """
    by_units = np.mean([_fall(outcomes, (depth, widths[0]), (depth, widths[-1])) for depth in depths], axis=0)
    by_layers = np.mean([_fall(outcomes, (depths[0], width), (depths[-1], width)) for width in widths], axis=0)
    doublings = [math.log2(sizes[-1] / sizes[0]) for sizes in (widths, depths)]
    return {
        "sgd_gain_by_units": mean_interval(by_units),
        "sgd_gain_by_layers": mean_interval(by_layers),
        "sgd_units_less_layers": mean_interval(by_units - by_layers),
        "sgd_units_less_layers_per_doubling": mean_interval(by_units / doublings[0] - by_layers / doublings[1]),
    }


def _fall(outcomes: Found, small: tuple[int, int], large: tuple[int, int]) -> np.ndarray:
    return outcomes[*small, SGD].values() - outcomes[*large, SGD].values()


def ladder(outcomes: Found, kind: str) -> dict[int, dict[Any, Outcome]]:
    """One ladder of Figure 12 with Keras's weights: {size: {budget: outcome}}, by size."""
    sizes = sorted({key[1] for key in outcomes if key[0] == kind})
    return {s: {key[-1]: outcome for key, outcome in outcomes.items() if key[:3] == (kind, s, "keras")} for s in sizes}


def ladders(outcomes: Found) -> Rows:
    """Figure 12; keys ("width" or "depth", size, initial weights, budget)."""
    e = budget_of(outcomes)
    width, depth = list(ladder(outcomes, "width").values()), list(ladder(outcomes, "depth").values())
    last, large = depth[-1], [by_budget[e].parameters for by_budget in width]
    # "Already large": the widest, beside the largest network with at most a quarter of its weights.
    quarter = width[max(i for i, p in enumerate(large) if p <= large[-1] / 4)]
    small = width[max((i for i, p in enumerate(large) if p <= 1e4), default=0)]
    loss = {b: depth[0][b].values() - last[b].values() for b in (SGD, e)}
    step = quarter[e].values() - width[-1][e].values()
    tenfold = [math.log10(b[e].parameters / a[e].parameters) for a, b in ((depth[0], last), (quarter, width[-1]))]
    return {
        "B.width": {
            "gain_up_to_1e4": less(small[e], width[0][e]),
            "loss_by_the_last_step": mean_interval(step),
        },
        "B.depth": {
            "loss_private": mean_interval(loss[e]),
            "loss_sgd": mean_interval(loss[SGD]),
            "loss_private_less_loss_sgd": mean_interval(loss[e] - loss[SGD]),
            "sgd_less_private_at_most_layers": less(last[SGD], last[e]),
        },
        "B.fig12": {
            "loss_by_depth": mean_interval(loss[e]),
            "loss_by_the_last_step_of_width": mean_interval(step),
            "points_per_tenfold_width_minus_depth": mean_interval(loss[e] / tenfold[0] - step / tenfold[1]),
        },
        "B.sgd-complexity": {
            "sgd_gain_by_width": less(width[-1][SGD], width[0][SGD]),
            "sgd_gain_by_depth": less(last[SGD], depth[0][SGD]),
        },
        "B.width-depth-setup": {
            f"{kind}_{end}": pick(ladder(outcomes, kind))
            for kind in ("width", "depth")
            for end, pick in (("min", min), ("max", max))
        }
        | {"units": depth[-1][e].job["model"][0]},
        **deep_and_wide(outcomes),
    }


def deep_and_wide(outcomes: Found) -> Rows:
    """Deep networks beside wide ones with as many weights: what each loses by noise, and from SGD to DP-SGD.

    Whether costs are equal is decided by the seeds that were added after a look at the first :data:`LOOKED_AT`.
    """
    e = budget_of(outcomes)
    partners = [w for kind, w, _, budget in outcomes if kind == "width" and budget == CLIPPED]
    depths = [d for kind, d, init, budget in outcomes if kind == "depth" and (init, budget) == ("he", CLIPPED)]
    values: dict[str, Measured] = {}
    cost: dict[str, np.ndarray] = {}  # of pairs in which SGD is not behind DP-SGD: the others say nothing of a cost
    for (d, w), init in itertools.product(zip(depths, partners, strict=True), ("keras", "he")):
        deep = {budget: outcomes["depth", d, init, budget].values() for budget in (SGD, CLIPPED, e)}
        wide = {budget: outcomes["width", w, "keras", budget].values() for budget in (SGD, CLIPPED, e)}
        more = {budget: (deep[budget] - deep[e]) - (wide[budget] - wide[e]) for budget in (SGD, CLIPPED)}
        values[f"more_lost_by_noise_{d}_{init}"] = mean_interval(more[CLIPPED])
        values[f"sgd_less_private_{d}_{init}"] = mean_interval(deep[SGD] - deep[e])
        if all(mean_interval(scores[SGD] - scores[e]).high >= 0 for scores in (deep, wide)):
            cost[f"{d}_{init}"] = added(more[SGD], LOOKED_AT)
    return {"B.intro-depth-worse": values, "B.complexity-measure": equal_sizes(cost) | {"pairs": 2 * len(depths)}}


def equal_sizes(pairs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Of pairs of networks with equal numbers of weights, how many have unequal costs of privacy, and equal ones.

    Unequal: beyond chance, by Holm's method over these pairs. Equal: the 90% interval within :data:`EQUAL`.

    Args:
        pairs: name to differences of cost in points, (seeds,).
    """
    measured = {name: mean_interval(values) for name, values in pairs.items()}
    p = [distributions.ttest_1samp(values, 0).pvalue for values in pairs.values()]
    unequal = stats.holm(np.array(p)) < 0.05 if p else np.array([], dtype=bool)
    inside = [
        max(np.abs(distributions.t.interval(0.9, len(v) - 1, v.mean(), distributions.sem(v)))) < EQUAL
        for v in pairs.values()
    ]
    return {
        **{f"deep_minus_wide_{name}": difference for name, difference in measured.items()},
        "pairs_where_sgd_is_trained": len(pairs),
        "unequal_cost": int(unequal.sum()),
        "equal_cost": int((np.array(inside, dtype=bool) & ~unequal).sum()),
    }


def table_6(outcomes: Found, kind: str) -> Rows:
    """Four rows of Table VI, for "fcn", "cnn" or "rnn"; keys (network, "all" or "last two", budget)."""
    budgets = sorted({key[2] for key in outcomes if key[0] == "complex" and isinstance(key[2], float)})
    at = {"small": 0.341 if 0.341 in budgets else budgets[0], "large": budgets[-1]}
    rows: Rows = {}
    for (size, e), (method, name) in itertools.product(at.items(), (("normal", "all"), ("rwt", "last two"))):
        outcome = outcomes["complex", name, e]
        rows[f"B.table6.{kind}-{size}-{method}"] = {
            "acc": outcome.mean,
            "epsilon": e,
            "parameters": outcome.parameters,
            "parameters_trainable_rwt": outcomes["complex", "last two", e].runs[0]["trained"],
        }
        if kind == "rnn":
            rows[f"B.table6.{kind}-{size}-{method}"]["balanced_above_half"] = above_half(outcome)
    return rows


def above_half(outcome: Outcome) -> Measured:
    """Balanced accuracy of a model of two classes, in points above the 50% of a constant."""
    return mean_interval(outcome.values("balanced") - 50)


def random_weights(outcomes: Found) -> Rows:
    """Table VII and what is said of it: the perceptron on MNIST."""
    (small,) = {key[2] for key in outcomes if key[0] == "simple" and key[2] != SGD}
    full, frozen, simple = (outcomes[at] for at in (("complex", "all", small), ("complex", "last two", small),
                                                 ("simple", "all", small)))  # fmt: skip
    shown = {"complex-normal": full, "complex-rwt": frozen, "simple-normal": simple}
    return {
        **table_6(outcomes, "fcn"),
        **{
            f"B.table7.{row}": {"acc_dpsgd": interval.mean, "parameters": interval.runs[0]["trained"]}
            for row, interval in shown.items()
        },
        "B.rwt-beats-simple": {
            "acc_complex": full.mean,
            "acc_simple": simple.mean,
            "acc_complex_rwt": frozen.mean,
            "parameter_ratio": full.parameters / simple.parameters,
        },
    }


def frozen_early(fcn: Found, cnn: Found) -> Rows:
    """Freezing the early layers at small budgets: the perceptron, also at one rate for both trainings, and the CNN."""
    (small,) = {key[2] for key in fcn if key[0] == "simple" and key[2] != SGD}
    untuned = sorted(key[2][1] for key in fcn if isinstance(key[2], tuple) and key[1] == "all")
    return {
        "B.intro-rwt": {
            **{f"gain_over_full_training_{e:g}": gain for e, gain in gains(fcn).items() if e <= small},
            **{
                f"gain_at_an_untuned_rate_of_{rate:g}": less(
                    fcn["complex", "last two", ("rate", rate)], fcn["complex", "all", ("rate", rate)]
                )
                for rate in untuned
            },
            "gain_small_cnn": extremes(cnn)[0],
        }
    }


def frozen_early_again(fcn: Found) -> Rows:
    """The gains of freezing over all seeds that the store has, beside those over the seeds that decide."""
    return {"B.intro-rwt": {f"gain_over_20_seeds_{e:g}": gain for e, gain in gains(fcn).items()}}


def gains(outcomes: Found) -> dict[float, Measured]:
    """{epsilon: accuracy with the last two layers trained less that with all of them}."""
    budgets = sorted({key[2] for key in outcomes if key[0] == "complex" and isinstance(key[2], float)})
    return {e: less(outcomes["complex", "last two", e], outcomes["complex", "all", e]) for e in budgets}


def extremes(outcomes: Found) -> tuple[Measured, Measured]:
    """The gains of :func:`gains` at the printed small budget and at the large one."""
    by_budget = gains(outcomes)
    return by_budget[0.341 if 0.341 in by_budget else min(by_budget)], by_budget[max(by_budget)]


def frozen_images(fcn: Found, cnn: Found) -> Rows:
    """Figure 10, and whether the cost follows the trained weights: networks on MNIST."""
    both = {"fcn": fcn, "cnn": cnn}
    ends = {name: dict(zip(("small", "large"), extremes(outcomes), strict=True)) for name, outcomes in both.items()}

    def cost(outcomes: Found, method: str) -> np.ndarray:
        return outcomes["complex", method, SGD].values() - outcomes["complex", method, 0.341].values()

    return {
        "B.fig10": {f"gain_{size}_{name}": gain for name, sizes in ends.items() for size, gain in sizes.items()},
        "B.trainable-complexity": {
            f"cost_of_all_less_cost_of_two_{name}": mean_interval(cost(outcomes, "all") - cost(outcomes, "last two"))
            for name, outcomes in both.items()
        },
    }


def small_budgets(fcn: Found, cnn: Found, rnn: Found) -> Rows:
    """Whether two trained layers are ahead at the printed small budget, and behind at the large one."""
    values = {}
    for name, outcomes in (("fcn", fcn), ("cnn", cnn), ("rnn", rnn)):
        values[f"gain_small_{name}"], values[f"gain_large_{name}"] = extremes(outcomes)
    low, high = min(gains(rnn)), max(gains(rnn))
    ham = {size: above_half(rnn["complex", "all", e]) for size, e in (("small", low), ("large", high))}
    return {
        "B.rwt-small-budget": values | {f"rnn_balanced_above_half_{size}": interval for size, interval in ham.items()}
    }


def feature_extractor(fcn: Found, signals: Mapping[tuple[str, int], np.ndarray], cnn: Found) -> Rows:
    """The ratio of signal to noise of one step of the perceptron with two trained layers, over that with all, beside
    what both networks gain; ``signals``: the part.
    """
    ratio = {steps: signals["last two", steps] / signals["all", steps] for steps in (0, 40)}
    weights = [fcn["complex", name, 0.341].runs[0]["trained"] for name in ("all", "last two")]
    counts = math.sqrt(weights[0] / weights[1])
    return {
        "B.rwt-feature-extractor": {
            "snr_ratio_at_start": mean_interval(counts * ratio[0]),
            "snr_ratio_after_40_steps": mean_interval(counts * ratio[40]),
            "snr_ratio_by_the_counts_alone": counts,
            "gain_in_accuracy": extremes(fcn)[0],
            "gain_in_accuracy_of_the_cnn": extremes(cnn)[0],
        }
    }


def new_seeds_fcn(outcomes: Found) -> Rows:
    """A row of Table VI by seeds that no earlier run has."""
    return {"B.table6.fcn-large-normal": {"acc": outcomes["complex", "all", 2.11].mean}}


def new_seeds_cnn(outcomes: Found) -> Rows:
    """A row of Table VI by seeds that no earlier run has."""
    return {"B.table6.cnn-small-rwt": {"acc": outcomes["complex", "last two", 0.341].mean}}


def image_extractor(signals: Mapping[tuple[str, int], np.ndarray], frozen: Found, without: Found) -> Rows:
    """Whether the printed reason fits the CNN.

    Args:
        signals: of a step, at two moments; their geometric mean counts. frozen: with two trained layers; without: these
            two alone, on pixels in the place of what the frozen layers make of them.
    """
    two, alone = frozen["complex", "last two", 0.341], without["complex", "all", 0.341]
    counts = math.sqrt(two.parameters / two.runs[0]["trained"])
    moments = sorted({after for _, after in signals})
    ratios = np.array([signals["last two", after] / signals["all", after] for after in moments])
    return {
        "B.rwt-feature-extractor": {
            "snr_ratio_cnn": mean_interval(counts * np.exp(np.log(ratios).mean(axis=0))),
            "snr_ratio_cnn_by_the_counts_alone": counts,
            "frozen_less_none_cnn": less(two, alone),
        }
    }


def components(outcomes: Found) -> Rows:
    """Table V on other data; keys ("flat" or "pca-K", network, budget)."""
    e = budget_of(outcomes)
    (pca,) = {key[0] for key in outcomes if key[0] != "flat"}
    kinds = itertools.product(("STW", "PAW"), (SGD, e))
    gain = {(name, b): outcomes[pca, name, b].values() - outcomes["flat", name, b].values() for name, b in kinds}
    loss = {name: less(outcomes["flat", name, SGD], outcomes["flat", name, e]) for name in ("STW", "PAW")}
    return {
        "B.pca": {
            "gain_stw": mean_interval(gain["STW", e]),
            "gain_paw": mean_interval(gain["PAW", e]),
            "loss_points": loss["STW"],
            "epsilon": e,
            "k": int(pca.partition("-")[2]),
        },
        "B.pca-both-workflows": {
            "paw_minus_stw_with_pca": less(outcomes[pca, "PAW", e], outcomes[pca, "STW", e]),
            "paw_minus_stw_without": less(outcomes["flat", "PAW", e], outcomes["flat", "STW", e]),
            "more_gain_under_dp_stw": mean_interval(gain["STW", e] - gain["STW", SGD]),
            "more_gain_under_dp_paw": mean_interval(gain["PAW", e] - gain["PAW", SGD]),
            **{f"loss_from_sgd_raw_{name.lower()}": loss_ for name, loss_ in loss.items()},
        },
    }


OF_LSTM = PrintedTraining(4_700, 100, 50, 1.0)  # what the printed epsilon of Table XIII fits


def messages(outcomes: Found) -> Rows:
    """Table XIII; keys ("complex" or "simple", budget)."""
    e = budget_of(outcomes)
    tables = {
        f"B.table13.{name}": {
            "parameters": outcomes[name, e].parameters,
            "acc_sgd": outcomes[name, SGD].mean,
            "acc_dpsgd": outcomes[name, e].mean,
            "balanced_above_half": above_half(outcomes[name, e]),
        }
        for name in ("complex", "simple")
    }
    ham = mean_interval(100 * np.array([run["constant"] for run in outcomes["simple", e].runs]))
    train, _, test = preprocess.PAPER_B["sms-spam"]
    return tables | {
        "B.data-sms": {"n_train": train, "n_test": test},
        "B.batches-must-divide": {},
        "B.rnn": {
            "epsilon": e,
            "simple_minus_complex_same_steps": less(outcomes["simple", e], outcomes["complex", e]),
            "simple_minus_complex_sgd_same_steps": less(outcomes["simple", SGD], outcomes["complex", SGD]),
            "complex_balanced": mean_interval(outcomes["complex", e].values("balanced")),
            "always_ham": ham,
        },
        "B.rnn-budget": {
            "epsilon_as_printed": tool_epsilon(OF_LSTM),
            "epsilon_with_60000_records": tool_epsilon(replace(OF_LSTM, n=60_000)),
            "epsilon_with_noise_2": tool_epsilon(replace(OF_LSTM, noise_multiplier=2.0)),
        },
    }


def clipping(outcomes: Found) -> Rows:
    """Appendix C-E; keys SGD, CLIPPED, an epsilon, or ("rate", r)."""
    epsilons = sorted(key for key in outcomes if isinstance(key, float))
    high, said = outcomes[epsilons[-1]], claims.get("B.dpsgd-beats-sgd").published
    untuned = {
        f"lead_over_sgd_at_{key[1]:g}": less(high, outcome)
        for key, outcome in outcomes.items()
        if isinstance(key, tuple)
    }
    return {
        "B.dpsgd-beats-sgd": {
            "acc_sgd": outcomes[SGD].mean,
            "acc_dpsgd": high.mean,
            "acc_clipped": outcomes[CLIPPED].mean,
            "epsilon": epsilons[-1],
            "printed_lead": said["acc_dpsgd"] - said["acc_sgd"],
            "lead_over_tuned_sgd": less(high, outcomes[SGD]),
            "clipped_over_tuned_sgd": less(outcomes[CLIPPED], outcomes[SGD]),
            **untuned,
        },
        "B.large-learning-rates": {
            "best_rate_sgd": outcomes[SGD].rate,
            **{f"best_rate_eps_{e:g}": outcomes[e].rate for e in epsilons},
            "validation_accuracy_at_most_epsilon": scores(high),
        },
        "B.large-rates-clipping": {
            "best_rate_sgd": outcomes[SGD].rate,
            "best_rate_dpsgd": high.rate,
            "best_rate_clipped_sgd": outcomes[CLIPPED].rate,
            "clipped_rate_over_private": outcomes[CLIPPED].rate / high.rate,
        },
    }


def across(tall: Found, thin: Found, lstm: Found, table: Found, rwt: Found, codes: Mapping[str, np.ndarray]) -> Rows:
    """The rows that look at all tasks: what the simpler choice brings with DP-SGD, and how much more than with SGD.

    Args:
        tall, thin, lstm, table, rwt: the parts ladders, components, messages, regression and random_weights.
        codes: accuracy without one-hot codes less with them, (splits,): "private" at ε = 0.1, "plain" without noise.
    """
    e, message, dp = budget_of(tall), budget_of(lstm), budget_of(table)
    width, depth = list(ladder(tall, "width").values()), list(ladder(tall, "depth").values())
    narrow = max((w for w in width if w[e].parameters <= width[-1][e].parameters / 4), key=lambda w: w[e].parameters)
    (pca,) = {key[0] for key in thin if key[0] != "flat"}
    pairs = {  # how to look up the simpler one, then the other, by budget
        "a narrow layer": (narrow.get, width[-1].get, e),
        "few layers": (depth[0].get, depth[-1].get, e),
        "PCA": (lambda b: thin[pca, "STW", b], lambda b: thin["flat", "STW", b], e),
        "a simple LSTM": (lambda b: lstm["simple", b], lambda b: lstm["complex", b], message),
        "frozen layers": (lambda b: rwt["complex", "last two", b], lambda b: rwt["complex", "all", b], 0.341),
    }
    lead = {
        (name, b): first(b).values() - other(b).values()
        for name, (first, other, at) in pairs.items()
        for b in (SGD, at)
    }
    more = {f"more_under_privacy_{n}": mean_interval(lead[n, at] - lead[n, SGD]) for n, (_, _, at) in pairs.items()}
    layers, units = ([end(key[i] for key in table) for end in (min, max)] for i in (0, 1))
    smaller = {
        f"regression, {units[0]} units for {units[1]}, {d} layers": less(table[d, units[1], dp], table[d, units[0], dp])
        for d in sorted({key[0] for key in table})
    } | {
        f"regression, {layers[0]} layers for {layers[1]}, {w} units": less(
            table[layers[1], w, dp], table[layers[0], w, dp]
        )
        for w in sorted({key[1] for key in table})
    }
    return {
        "B.not-only-hyperparameters": {
            **more,
            "more_under_privacy_no one-hot codes": mean_interval(codes["private"] - codes["plain"]),
            "sgd_less_private_few layers": less(depth[-1][SGD], depth[-1][e]),
            "sgd_less_private_PCA": less(thin["flat", "STW", SGD], thin["flat", "STW", e]),
            "effect_of_learning_rate": less(rwt["complex", "all", 0.341], rwt["complex", "all", ("rate", 0.03)]),
        },
        "B.all-tasks": {
            "fewer layers": less(depth[0][e], depth[-1][e]),
            "a narrower layer": less(narrow[e], width[-1][e]),
            "FCN, PCA": less(thin[pca, "PAW", e], thin[pca, "STW", e]),
            "FCN, raw input": less(thin["flat", "PAW", e], thin["flat", "STW", e]),
            "LSTM, equal steps": less(lstm["simple", message], lstm["complex", message]),
            "objective perturbation": mean_interval(codes["private"]),
            **smaller,
        },
    }


FUNCTIONS: Mapping[Callable[..., Rows], tuple[str, ...]] = {  # each with the parts that it needs
    regression: ("regression",),
    ladders: ("ladders",),
    random_weights: ("random_weights",),
    functools.partial(table_6, kind="cnn"): ("convolutions",),
    functools.partial(table_6, kind="rnn"): ("frozen_lstm",),
    components: ("components",),
    messages: ("messages",),
    clipping: ("clipping",),
    feature_extractor: ("random_weights", "signal", "convolutions"),
    new_seeds_fcn: ("table_6_fcn",),
    new_seeds_cnn: ("table_6_cnn",),
    image_extractor: ("signal_cnn", "table_6_cnn", "pixels"),
    functools.partial(image_extractor): ("signal_cnn_more", "table_6_cnn", "pixels"),  # new seeds: these alone decide
    frozen_early: ("random_weights", "convolutions"),
    frozen_early_again: ("random_weights_all",),
    frozen_images: ("random_weights", "convolutions"),
    small_budgets: ("random_weights", "convolutions", "frozen_lstm"),
    across: ("ladders", "components", "messages", "regression", "random_weights", "codes"),
}
