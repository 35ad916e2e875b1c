"""From kept runs, printed layers and printed budgets to the values of chapter 7's rows in the ledger, by claim."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from book.evidence import claims
from book.evidence.plans import Plan
from dplib import best_of_random, search_budgets, stats
from dplib.models import block_cnn, parameter_count
from dplib.search_budgets import Search, dpsgd_epsilon
from dplib.stats import Measured, mean_interval, paired
from papers.architecture.cost_runs import perceptron_parameters
from papers.architecture.printed_budgets import PrintedTraining, tool_epsilon
from papers.architecture.search import CNN, FCN, Space
from papers.common import printed
from papers.common.diverged import accuracies

Values = dict[str, dict[str, Any]]
# Shapes of the distributions of random numbers of candidates.
SHAPES = {"geometric": 1.0, "logarithmic": 0.0, "shape_minus_half": -0.5, "shape_minus_0.9": -0.9}
SIZES = {"rs": (400.0,), "mgrs": (40.0, 20.0, 10.0)}
SEARCHES = ("rs", "rs_fixed", "mgrs", "paas")  # arms of one budget
CAP = 60  # trainings of PAAS at most
_ROWS = {
    "B.table11": (FCN, {name.replace("units", "neurons"): name for name in FCN.entries}),
    "B.table12": (CNN, {"blocks": "blocks", "filters1": "filters", "dense-units": "units"}),
}
_CNNS = {
    "cnn-cifar10-stw": (3, 32, 2, 48, 512),
    "cnn-cifar10-paw": (3, 32, 3, 16, 512),
    "cnn-mnist-stw": (1, 28, 2, 48, 64),
    "cnn-mnist-paw": (1, 28, 2, 16, 64),
    "cnn-svhn-stw": (1, 32, 2, 48, 512),
    "cnn-svhn-paw": (1, 32, 2, 16, 512),
}  # channels, image size, blocks, filters of the first block, dense units: all in Table XII
# Of each data set the inputs of Table I's perceptrons, by their counts of parameters, and the classes.
INPUTS = {
    "mnist": (64, 10),
    "fashion-mnist": (64, 10),
    "svhn": (300, 10),
    "cifar10": (300, 10),
    "purchase100": (600, 100),
}
_NAMES = {"relu": "ReLU", "sigmoid": "Sigmoid", "tanh": "TanH"}


def spaces() -> Values:
    """Tables XI and XII against the search spaces, and the rules of Section IX-A against the printed counts."""
    rows: Values = {}
    for table, (space, names) in _ROWS.items():
        for row, entry in names.items():
            rows[f"{table}.{row}"] = {"possible_values": ", ".join(_NAMES.get(v, str(v)) for v in space.entries[entry])}
    fits = {
        (data, kind): possible_inputs(printed.ARCHITECTURES[f"fcn-{data}-{kind}"].parameters, outputs=outputs)
        for data, (_, outputs) in INPUTS.items()
        for kind in ("stw", "paw")
    }
    rows["B.fcn-search-setup"] = {
        "counts": len(fits),
        "counts_with_300_inputs": sum(300 in inputs for inputs in fits.values()),
        "counts_as_corrected": sum(INPUTS[data][0] in inputs for (data, _), inputs in fits.items()),
    }
    by_rule = {name: _cnn_count(name) for name in _CNNS}
    shown = {name: printed.ARCHITECTURES[name].parameters for name in _CNNS}
    corrected = by_rule | {"cnn-cifar10-paw": parameter_count(block_cnn(3, 32, [16, 32, 48], 512))}
    rows["B.cnn-search-setup"] = {
        "counts": len(shown),
        "counts_by_rule": sum(by_rule[name] == shown[name] for name in shown),
        "counts_with_correction": sum(corrected[name] == shown[name] for name in shown),
    }
    return rows


def _cnn_count(name: str) -> int:
    channels, size, blocks, filters, units = _CNNS[name]
    return parameter_count(block_cnn(channels, size, [filters * 2**i for i in range(blocks)], units))


def known(by_size: Mapping[str, Mapping[str, Any]], searches: int) -> Values:
    """The searches on a known fitness: of :func:`papers.architecture.search_runs.known`."""

    def share(size, name):
        return stats.proportion_interval(by_size[size][name], searches)

    return {
        "B.genetic-algorithm": {"finds_the_best": share("20 x 20", "paas")},
        "B.alg1": {
            "finds_the_best_20x20": share("20 x 20", "paas"),
            "finds_the_best_6x10": share("6 x 10", "paas"),
            "most_trainings_6x10": by_size["6 x 10"]["most_trainings"],
        },
    }


def possible_inputs(parameters: int, space: Space = FCN, outputs: int = 10) -> list[int]:
    """Numbers of inputs for which some perceptron of a space has so many parameters."""
    widths = set()
    for hidden in {tuple(n["model"]) for n in space.networks()}:
        rest = parameters - perceptron_parameters(0, hidden, outputs)
        if rest > 0 and rest % hidden[0] == 0:
            widths.add(rest // hidden[0])
    return sorted(widths)


# --- trainings --------------------------------------------------------------------------------------------------------


def column(rows: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    """One number of every outcome."""
    return np.array([row[name] for row in rows], dtype=float)


def table_8(searches: Mapping[str, Sequence[Mapping[str, Any]]], sizes: Mapping[str, Any]) -> Values:
    """The rows on the three searches, of :func:`papers.architecture.search_runs.table_8` and its inputs."""
    accuracy = {name: column(rows, "fresh") for name, rows in searches.items()}
    tried = {f"trainings_{name}": float(column(rows, "trainings").mean()) for name, rows in searches.items()}
    pairs = {f"{a}_minus_{b}": paired(accuracy[a], accuracy[b]).difference for a, b in (
        ("paas", "rs"), ("paas", "mgrs"), ("rs", "mgrs"))}  # fmt: skip
    acc = {id_.rpartition(".")[2]: cells["acc"] for id_, cells in claims.printed_rows("B.table8").items()}
    best = {f"paas_minus_{name}": pairs[f"paas_minus_{name}"] for name in ("rs", "mgrs")}
    best["printed_paas_minus_best_other"] = round(acc.pop("paas") - max(acc.values()), 6)
    sure = proven()
    drawn = {f"epsilon_{name}_with_random_number": sure[name]["geometric"] for name in ("rs", "mgrs")}
    anew = {f"trainings_{name}_each_candidate_anew": sum(SIZES[name]) for name in ("rs", "mgrs")}  # a mean, if random
    settings = {f"mgrs_k{i}": k for i, k in enumerate(sizes["mgrs"], 1)}
    winners, by_draws = column(searches["paas"], "own"), column(searches["rs"], "by_draws")
    reached = np.flatnonzero(by_draws.mean(0) >= winners.mean())
    again = sum(row["trainings"] - row["networks"] for row in searches["paas"])
    return {
        **{
            f"B.table8.{name}": {
                "acc": mean_interval(column(rows, "own")),
                "acc_of_fresh_trainings": mean_interval(accuracy[name]),
                "trainings": tried[f"trainings_{name}"],
                "epsilon_overall": sure[name]["fixed"],
                **({"epsilon_with_random_number": sure[name]["geometric"]} if "geometric" in sure[name] else {}),
            }
            for name, rows in searches.items()
        },
        "B.search-comparison": {
            **pairs, **{f"eps_{name}": sure[name]["fixed"] for name in searches},
        },
        "B.search-tradeoff": {
            **{f"epsilon_{name}": sure[name]["fixed"] for name in searches}, **drawn, **tried, **anew,
        },
        "B.search-when": {
            **tried,
            **{f"eps_{name}": sure[name]["fixed"] for name in searches},
            **drawn,
            "mgrs_minus_paas": paired(accuracy["mgrs"], accuracy["paas"]).difference,
            **best,
            "paas_minus_random_at_equal_trainings": paired(winners, column(searches["paas"], "random")).difference,
            "paas_minus_random_with_equal_noise": paired(winners, column(searches["paas"], "noisy_random")).difference,
            "draws_of_rs_for_the_accuracy_of_paas": int(reached[0]) + 1 if len(reached) else f"above {sizes['k']}",
        },
        "B.paas-best": best | tried,
        "B.paas-memo": {"trainings_less_distinct": again},
        "B.rs-settings": {
            "rs_k": sizes["k"], **settings, "p_mutate": sizes["p_mutate"],
            "different_networks_of_rs": tried["trainings_rs"],
        },
    }  # fmt: skip


def workflows(searches: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> Values:
    """The rows on the two workflows, of :func:`papers.architecture.search_runs.workflows`."""
    standard, aware = searches["sgd"], searches["dp"]

    def gain(how: str) -> Measured:
        return paired(column(aware[how], "fresh"), column(standard[how], "fresh")).difference

    sizes = [np.log10(column(workflow["dp"], "parameters")) for workflow in (aware, standard)]
    gains = {"paw_minus_stw_dpsgd": gain("dp"), "paw_minus_stw_sgd": gain("sgd")}
    return {
        **{
            claim_id: {
                "acc_dpsgd": mean_interval(column(workflow["dp"], "fresh")),
                "acc_sgd": mean_interval(column(workflow["sgd"], "fresh")),
            }
            for claim_id, workflow in {"B.stw": standard, "B.paw": aware}.items()
        },
        "B.paas-stw-paw": gains,
        "B.paw-search-better": {**gains, "log10_parameters_paw_minus_stw": paired(*sizes).difference},
    }


def replays(replays_: Sequence[Mapping[str, Any]]) -> Values:
    """The rows on noise and on evolution, of :func:`papers.architecture.search_runs.replays`, in points."""
    mean = {name: np.array([100 * replay["mean"][name] for replay in replays_]) for name in replays_[0]["mean"]}
    spread = {name: np.array([100 * replay["sd"][name] for replay in replays_]) for name in ("noise", "plain")}
    best = np.array([100 * replay["best"] for replay in replays_])
    return {
        "B.paas-noise-robust": {
            "accuracy_with_minus_without": paired(mean["noise"], mean["plain"]).difference,
            "spread_with_minus_without": paired(spread["noise"], spread["plain"]).difference,
            "of_this_by_the_final_choice": paired(mean["noise"], mean["clean_pick"]).difference,
            "of_this_by_steering": paired(mean["clean_pick"], mean["plain"]).difference,
        },
        "B.evolution-beats-random": {
            "replayed_without_noise": paired(mean["plain"], mean["random"]).difference,
            "best_of_the_table_minus_random": paired(best, mean["random"]).difference,
            "networks_of_the_table": replays_[0]["networks"],
        },
    }


def one_budget(by_budget: Mapping[float, Mapping[str, np.ndarray]]) -> dict[str, Measured]:
    """Differences of released models, of :func:`papers.architecture.search_runs.one_budget`, by total and arms."""
    pairs = [(arm, "fixed") for arm in SEARCHES] + [("rs", "random"), ("rs_fixed", "random")]
    return _differences(by_budget, pairs)


def same_guarantee(by_budget: Mapping[float, Mapping[str, np.ndarray]]) -> Values:
    """The rows on searches that are paid for, of :func:`papers.architecture.search_runs.one_budget` on new splits."""
    blind = [(arm, choice) for choice in ("fixed", "random") for arm in SEARCHES]
    others = [(rs, other) for rs in ("rs", "rs_fixed") for other in ("mgrs", "paas", "fixed")]
    return {
        "B.search-same-guarantee": _differences(by_budget, blind),
        "B.rs-tight-budget": _differences(by_budget, others),
    }


def _differences(by_budget, pairs) -> dict[str, Measured]:
    return {
        f"total_{total:g}_{a}_minus_{b}": paired(by[a], by[b]).difference
        for total, by in by_budget.items()
        for a, b in pairs
    }


def learning_rates(rates: Mapping[str, Mapping[str, float]], momentum: float) -> dict[str, float]:
    """The row on learning rates; a step of SGD with momentum counts as rate / (1 - momentum)."""
    private, plain = (np.array(list(rates[name].values())) for name in ("dp", "sgd"))
    ratio = private / (plain / (1 - momentum))
    return {
        "fcn_dpsgd_low": float(private.min()),
        "fcn_dpsgd_high": float(private.max()),
        "fcn_sgd_low": float(plain.min()),
        "fcn_sgd_high": float(plain.max()),
        "sgd_momentum": momentum,
        "kinds": len(ratio),
        "kinds_dpsgd_above_sgd": int((ratio > 1.001).sum()),
        "kinds_dpsgd_below_sgd": int((ratio < 0.999).sum()),
    }


def printed_networks(printed_: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> Values:
    """The rows of Table IX, of :func:`papers.architecture.search_runs.printed_networks`."""
    rows: Values = {}
    for row, by in printed_.items():
        shown = claims.get(f"B.table9.{row}").published
        rows[f"B.table9.{row}"] = {
            "parameters": by["sgd"][0]["parameters"],
            "parameters_trainable": by["sgd"][0]["trained"],
        }
        for how, results in by.items():
            values = accuracies(results, "test")
            rows[f"B.table9.{row}"] |= {
                f"acc_{how}": mean_interval(values),
                f"acc_{how}_less_printed": mean_interval(values - shown[f"acc_{how}"]),
            }
            if (pair := row.replace("paw", "stw")) != row and pair in printed_:
                other = accuracies(printed_[pair][how], "test")
                rows[f"B.table9.{row}"][f"gap_{how}"] = paired(values, other).difference
    return rows


def printed_length(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> Values:
    """A row of Table IX with SGD at the printed length, of :func:`papers.architecture.search_runs.printed_length`."""
    rows: Values = {}
    for row, results in found.items():
        values, shown = accuracies(results, "test"), claims.get(f"B.table9.{row}").published["acc_sgd"]
        rows[f"B.table9.{row}"] = {
            "acc_sgd_at_length": mean_interval(values),
            "acc_sgd_at_length_less_printed": mean_interval(values - shown),
            "steps_at_length": results[0]["steps"],
        }
    return rows


def table_9(frozen: Mapping[str, Any]) -> Values:
    """The rows on layers that stay random, of :func:`papers.architecture.search_runs.table_9`."""
    rows = printed_networks(frozen["printed"])
    rows["B.rwt-search"] = {
        "best_with_frozen_minus_best_without": paired(
            column(frozen["drawn"], "with"), column(frozen["drawn"], "without")
        ).difference,
        "winners_with_frozen_layers": sum("frozen" in draw["network"] for draw in frozen["drawn"]),
    }
    for activation, by in frozen["one_frozen"].items():
        free, private = (accuracies(by[name], "test") for name in ("sgd", "small"))
        rows["B.rwt-search"] |= {
            f"acc_sgd_{activation}": mean_interval(free), f"loss_points_{activation}": paired(free, private).difference
        }  # fmt: skip
    return rows


def trained(study: Plan) -> Values:
    """All rows that rest on trainings, from a plan's parts."""
    momentum = study.parts["learning_rates"].inputs["optimisers"]["sgd"]["momentum"]
    rows = {
        **table_8(study.read("table_8"), study.parts["table_8"].inputs),
        **replays(study.read("replays")),
        **table_9(study.read("table_9")),
        **workflows(study.read("workflows")),
        "B.learning-rates": learning_rates(study.read("learning_rates"), momentum),
    }
    rows["B.search-when"] |= one_budget(study.read("one_budget"))
    for part, function in AGAIN.items():  # on splits that no earlier run has
        if part in study.parts:
            for row, values in function(study.read(part)).items():
                rows[row] = rows.get(row, {}) | values
    return rows


AGAIN = {
    "printed_networks": printed_networks,
    "printed_length": printed_length,
    "evolution": lambda draws: {"B.evolution-beats-random": replays(draws)["B.evolution-beats-random"]},
}


# --- budgets ----------------------------------------------------------------------------------------------------------

TABLE_8 = PrintedTraining(60_000, 250, 200, 2.0)  # gives the printed 2.11


def table_8_epsilon(search: Search, delta: float = 1e-5) -> float:
    """Epsilon of a search whose trainings are those of Table VIII."""
    return dpsgd_epsilon(search, TABLE_8.noise_multiplier, TABLE_8.sample_rate, TABLE_8.steps, delta)


def searches() -> dict[str, dict[str, Search]]:
    """The searches of Table VIII: "fixed" numbers of trainings, and random ones by distribution."""
    by_strategy = {"paas": {"fixed": Search(CAP)}}
    for name, means in SIZES.items():
        random = {label: Search(selections=tuple((k, shape) for k in means)) for label, shape in SHAPES.items()}
        by_strategy[name] = {"fixed": Search(int(sum(means))), **random}
    return by_strategy


def proven() -> dict[str, dict[str, float]]:
    """What is proven of :func:`searches` at Table VIII's settings."""
    return {name: {how: table_8_epsilon(search) for how, search in kinds.items()} for name, kinds in searches().items()}


def by_profile() -> dict[str, tuple[float, float]]:
    """Epsilon of RS with a random number of candidates, by the whole profile of a training: what the worst score that
    we found needs, and what no score exceeds."""
    (mean,), epsilons = SIZES["rs"], {}
    for label in ("geometric", "logarithmic", "shape_minus_half"):
        ends = best_of_random.of_trainings(2.0, TABLE_8.sample_rate, TABLE_8.steps, mean, SHAPES[label], 1e-5)
        epsilons[label] = ends.low, ends.high
    return epsilons


def budgets(sharper: Mapping[str, tuple[float, float]]) -> Values:
    """The rows on the printed budgets; ``sharper`` of :func:`by_profile`."""
    sure = proven()
    nine = search_budgets.equation_9
    parts = [table_8_epsilon(Search(selections=((k, 1.0),))) for k in SIZES["mgrs"]]
    drawn = {
        name: {"epsilon": sure[name]["fixed"], **{f"epsilon_{s}": sure[name][s] for s in SHAPES}}
        for name in ("rs", "mgrs")
    }

    def eight(form: str, delta: float) -> float:
        return float(search_budgets.composed_epsilon(2.11, CAP, delta, form))

    return {
        "B.eq8-paas": {
            "corrected_form": eight("corrected", 1e-5),
            "renyi_60": sure["paas"]["fixed"],
        },
        "B.paas-budget": {
            "epsilon": sure["paas"]["fixed"],
            # Falls as δ′ rises, to δ′ = 1.
            "equation_8_printed_at_least": eight("printed", 1.0),
            "equation_8_corrected_at_least": eight("corrected", 1.0),
        },
        "B.rs-budget": drawn["rs"] | {"epsilon_geometric_by_profile": sharper["geometric"][1]},
        "B.mgrs-budget": drawn["mgrs"]
        | {
            f"least_by_equation_9_with_3.51_for_rs_{form}": search_budgets.least_mgrs(form)
            for form in search_budgets.FORMS
        },
        "B.eq9": {
            f"{form}_k{k}": float(nine(0.05, 5000, k, 0.01, form))
            for form in ("printed", "corrected")
            for k in (10, 400)
        }
        | {"trainings_of_the_theorem": search_budgets.theorem_runs(0.175, 0.05, 1 / 400)},
        "B.mgrs-composition": {"sum_of_three": sum(parts), "composed_as_renyi": sure["mgrs"]["geometric"]},
        "B.rs": {
            **{f"epsilon_mean_400_{s}": sure["rs"][s] for s in SHAPES},
            "epsilon_mean_400_geometric_by_profile": sharper["geometric"][1],
            "epsilon_400_composed": sure["rs"]["fixed"],
        },
        "B.paas-settings": {
            "generations": 6, "population": 10,
            "epsilon_at_300_epochs": tool_epsilon(PrintedTraining(60_000, 100, 300, 2.0)),
            "epsilon_at_500_epochs": tool_epsilon(PrintedTraining(60_000, 100, 500, 2.0)),
        },
        "B.workflow-not-dp": {"last_training_alone": 2.11, "paas_cap_60": sure["paas"]["fixed"]},
        "B.released-model-private": {},
        "B.intro-algorithms-private": {
            "paas_60_composed": sure["paas"]["fixed"],
            "rs_400_composed": sure["rs"]["fixed"],
            "mgrs_70_composed": sure["mgrs"]["fixed"],
        },
    }  # fmt: skip


def overall(epsilon: float, delta: float = 1e-5) -> dict[str, float]:
    """Budgets of whole searches whose every training is Table VIII's with the noise that costs (epsilon, delta)."""
    noise = search_budgets.noise_for(Search(1), epsilon, delta, TABLE_8.sample_rate, TABLE_8.steps)
    cost = (noise, TABLE_8.sample_rate, TABLE_8.steps, delta)
    epsilons = {"noise_multiplier": noise, "paas_cap_60": dpsgd_epsilon(Search(CAP), *cost)}
    for name in SIZES:
        epsilons[f"{name}_fixed_number"] = dpsgd_epsilon(searches()[name]["fixed"], *cost)
        epsilons[f"{name}_geometric"] = dpsgd_epsilon(searches()[name]["geometric"], *cost)
    return epsilons
