"""From kept runs, printed layers and printed budgets to the values of chapter 7's rows in the ledger, by claim."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from dplib import claims, printed, pure_composition, stats
from dplib.architecture import printed_search_budgets, printed_search_verdicts, search_budgets
from dplib.architecture.printed_budgets import Setting, tool_epsilon
from dplib.architecture.search_budgets import Search, dpsgd_epsilon
from dplib.architecture.space import CNN, FCN, Space
from dplib.architectures import block_cnn
from dplib.models import parameter_count
from dplib.stats import Measured

Values = dict[str, dict[str, Any]]
# Shapes of the distributions of random numbers of candidates.
SHAPES = {
    "geometric": 1.0,
    "logarithmic": 0.0,
    "shape_minus_half": -0.5,
    "shape_minus_0.9": -0.9,
}  # of random numbers of candidates
SIZES = {"paas": (), "rs": (400.0,), "mgrs": (40.0, 20.0, 10.0)}
CAP = 60  # trainings of PAAS at most
_ROWS = {
    "B.table11": (
        FCN,
        {
            "layers": "layers",
            "neurons1": "units1",
            "neurons2": "units2",
            "neurons3": "units3",
            "activation1": "activation1",
            "activation2": "activation2",
            "activation3": "activation3",
        },
    ),
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


_NAMES = {"relu": "ReLU", "sigmoid": "Sigmoid", "tanh": "TanH"}


def earlier(claim_id: str) -> dict[str, Any]:
    """Values of a row from its frozen run, for trainings whose single runs are still to be made."""
    row = claims.frozen(claim_id) or {"values": {}}
    return {name: Measured(**v) if isinstance(v, dict) else v for name, v in row["values"].items()}


def spaces() -> Values:
    """Tables XI and XII against the search spaces, and the rules of Section IX-A against the printed counts."""
    rows: Values = {}
    for table, (space, names) in _ROWS.items():
        for row, entry in names.items():
            rows[f"{table}.{row}"] = {"possible_values": ", ".join(_NAMES.get(v, str(v)) for v in space.entries[entry])}
    counts = {
        name: printed.ARCHITECTURES[f"fcn-{name}"].parameters
        for name in ("mnist-paw", "mnist-stw", "svhn-paw", "cifar10-paw")
    }
    fits = {name: possible_inputs(count) for name, count in counts.items()}
    rows["B.fcn-search-setup"] = {
        **counts,
        "counts": len(counts),
        "counts_with_300_inputs": sum(300 in inputs for inputs in fits.values()),
        "counts_with_64_or_300_inputs": sum(bool({64, 300} & set(inputs)) for inputs in fits.values()),
    }
    by_rule = {name: _cnn_count(name) for name in _CNNS}
    shown = {name: printed.ARCHITECTURES[name].parameters for name in _CNNS}
    corrected = by_rule | {"cnn-cifar10-paw": parameter_count(block_cnn(3, 32, [16, 32, 48], 512))}
    rows["B.cnn-search-setup"] = {
        **{f"{name}_by_rule": count for name, count in by_rule.items()},
        "counts": len(shown),
        "counts_by_rule": sum(by_rule[name] == shown[name] for name in shown),
        "counts_with_correction": sum(corrected[name] == shown[name] for name in shown),
    }
    return rows


def _cnn_count(name: str) -> int:
    channels, size, blocks, filters, units = _CNNS[name]
    return parameter_count(block_cnn(channels, size, [filters * 2**i for i in range(blocks)], units))


def known(found: Mapping[str, Mapping[str, Any]], searches: int) -> Values:
    """The searches on a known fitness: of :func:`dplib.architecture.search_study.known`."""

    def share(size, name):
        return stats.proportion_interval(found[size][name], searches)

    return {
        "B.genetic-algorithm": {"finds_the_best": share("20 x 20", "paas"), "random_do": share("20 x 20", "random")},
        "B.alg1": {
            "finds_the_best_20x20": share("20 x 20", "paas"),
            "finds_the_best_6x10": share("6 x 10", "paas"),
            "mean_trainings_6x10": found["6 x 10"]["mean_trainings"],
            "most_trainings_6x10": found["6 x 10"]["most_trainings"],
        },
    }


def perceptron_parameters(inputs: int, hidden: Sequence[int], outputs: int = 10) -> int:
    """Weights and biases of a perceptron."""
    return sum((a + 1) * b for a, b in pairwise([inputs, *hidden, outputs]))


def layer_parameters(inputs: int, hidden: Sequence[int], position: int, outputs: int = 10) -> int:
    """Weights and biases of one layer of a perceptron, counted from 0 at the input."""
    sizes = [inputs, *hidden, outputs]
    return (sizes[position] + 1) * sizes[position + 1]


def possible_inputs(parameters: int, space: Space = FCN, outputs: int = 10) -> list[int]:
    """Numbers of inputs for which some perceptron of a space has so many parameters."""
    found = set()
    for hidden in {tuple(n["model"]) for n in space.networks()}:
        rest = parameters - perceptron_parameters(0, hidden, outputs)
        if rest > 0 and rest % hidden[0] == 0:
            found.add(rest // hidden[0])
    return sorted(found)


# --- budgets ----------------------------------------------------------------------------------------------------------

TABLE_8 = Setting(60_000, 250, 200, 2.0)  # gives the printed 2.11


def table_8_epsilon(search: Search, delta: float = 1e-5, accountant: str = "rdp") -> float:
    """Epsilon of a search whose trainings are those of Table VIII."""
    return dpsgd_epsilon(search, TABLE_8.noise_multiplier, TABLE_8.sample_rate, TABLE_8.steps, delta, accountant)


def proven() -> dict[str, dict[str, float]]:
    """What is proven at Table VIII's settings: {search: {"fixed": composed, and by distribution of random numbers}}."""
    rows = {"paas": {"fixed": table_8_epsilon(Search(CAP))}}
    for name in ("rs", "mgrs"):
        rows[name] = {"fixed": table_8_epsilon(Search(int(sum(SIZES[name]))))}
        for label, shape in SHAPES.items():
            rows[name][label] = table_8_epsilon(Search(selections=tuple((k, shape) for k in SIZES[name])))
    return rows


def budgets() -> Values:
    """The rows on the printed budgets."""
    sure = proven()
    nine, eight = printed_search_budgets.equation_9, pure_composition.formula
    parts = [table_8_epsilon(Search(selections=((k, 1.0),))) for k in SIZES["mgrs"]]
    overall_rows = {
        name: {"epsilon": one["fixed"], **{f"epsilon_{s}": one[s] for s in SHAPES}}
        for name, one in sure.items()
        if name != "paas"
    }
    return {
        "B.eq8-paas": {
            "printed_form": float(eight("printed", 2.11, CAP, 1e-5)),
            "corrected_form": float(eight("corrected", 2.11, CAP, 1e-5)),
            "renyi_60": sure["paas"]["fixed"],
        },
        "B.paas-budget": {
            "epsilon": sure["paas"]["fixed"],
            "equation_8_printed_at_least": printed_search_verdicts.least_by_equation_8("printed"),
            "equation_8_corrected_at_least": printed_search_verdicts.least_by_equation_8("corrected"),
        },
        "B.rs-budget": overall_rows["rs"],
        "B.mgrs-budget": overall_rows["mgrs"],
        "B.eq9": {
            f"{form}_k{k}": float(nine(0.05, 5000, k, 0.01, form))
            for form in ("printed", "corrected")
            for k in (10, 400)
        },
        "B.mgrs-composition": {"sum_of_three": sum(parts), "composed_as_renyi": sure["mgrs"]["geometric"]},
        "B.rs": {
            **{f"epsilon_mean_{k}": table_8_epsilon(Search(selections=((float(k), 1.0),))) for k in (10, 100)},
            **{f"epsilon_mean_400_{s}": sure["rs"][s] for s in SHAPES},
            "epsilon_400_composed": sure["rs"]["fixed"],
        },
        "B.paas-settings": {
            "generations": 6, "population": 10,
            "epsilon_at_300_epochs": tool_epsilon(Setting(60_000, 100, 300, 2.0)),
            "epsilon_at_500_epochs": tool_epsilon(Setting(60_000, 100, 500, 2.0)),
        },
        "B.workflow-not-dp": {"last_training_alone": 2.11, "paas_cap_60": sure["paas"]["fixed"]},
    }  # fmt: skip


def overall(epsilon: float, delta: float = 1e-5) -> dict[str, float]:
    """Budgets of whole searches whose every training is Table VIII's with the noise that costs (epsilon, delta)."""
    noise = search_budgets.noise_for(Search(1), epsilon, delta, TABLE_8.sample_rate, TABLE_8.steps)
    cost = (noise, TABLE_8.sample_rate, TABLE_8.steps, delta)
    found = {"noise_multiplier": noise, "paas_cap_60": dpsgd_epsilon(Search(CAP), *cost)}
    for name in ("rs", "mgrs"):
        found[f"{name}_fixed_number"] = dpsgd_epsilon(Search(int(sum(SIZES[name]))), *cost)
        found[f"{name}_geometric"] = dpsgd_epsilon(Search(selections=tuple((k, 1.0) for k in SIZES[name])), *cost)
    return found
