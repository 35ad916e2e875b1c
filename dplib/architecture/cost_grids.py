"""The cells of each piece of the chapter on what drives the cost: which networks meet which budgets."""

from collections.abc import Sequence
from typing import Any

from dplib.architecture.cost_drivers import CLIPPED, SGD, Budget, cell, ladder, partner_width

# Learning rates to begin with: "sgd" without clipping, "dp" with it. Grids grow where the best one lies at an end.
IMAGE_RATES = {"sgd": [0.1, 0.3, 0.9], "dp": [0.2, 0.6, 1.8]}
PATIENT_RATES = {"sgd": [0.03, 0.1, 0.3], "dp": [0.02, 0.06, 0.18]}
MESSAGE_RATES = {"sgd": [0.1, 0.3, 0.9], "dp": [0.03333, 0.1, 0.3]}
COMPONENT_RATES = {"sgd": [0.1, 0.3, 0.9], "dp": [0.6, 1.8, 5.4]}
CLIPPING_RATES = {"sgd": [0.03, 0.1, 0.3], "dp": [0.25, 0.5, 1.0, 2.0, 4.0]}
PAPER_SGD_RATES = [1e-4, 1e-3, 1e-2]  # where a grid search that stops too early would end
PATIENT_LAYERS, PATIENT_UNITS = (2, 6, 12), (10, 30, 60, 120)  # Tables XIV and XV

Cells = dict[Any, dict[str, Any]]


def ladder_cells(
    dataset: str,
    features: str,
    inputs: int,
    outputs: int,
    widths: Sequence[int],
    depths: Sequence[int],
    units: int,
    pairs: Sequence[int],
    epsilon: float,
    **settings: Any,
) -> Cells:
    """Figure 12: (kind, size, init, budget) to a cell. Initial weights by Keras's rules, the paper's; at the depths of
    ``pairs`` also by He's, which keep the signal at any depth; and clipping without noise, of wide partners too."""
    rungs = ladder(inputs, outputs, widths, depths, units, pairs)
    cells = {
        (kind, size, "keras", budget): cell(dataset, model, budget, features=features, init="keras", **settings)
        for (kind, size), model in rungs.items()
        for budget in (SGD, epsilon)
    }
    for depth in pairs:
        width = partner_width(inputs, [units] * depth, outputs)
        cells["width", width, "keras", CLIPPED] = cell(
            dataset, [width], CLIPPED, features=features, init="keras", **settings
        )
        for init, budget in [("he", SGD), ("he", CLIPPED), ("he", epsilon), ("keras", CLIPPED)]:
            cells["depth", depth, init, budget] = cell(
                dataset, [units] * depth, budget, features=features, init=init, **settings
            )
    return cells


def frozen_cells(
    dataset: str,
    models: dict[str, Any],
    epsilons: Sequence[float],
    epsilon_small: float,
    **settings: Any,
) -> Cells:
    """Tables VI and VII, Figure 10: (name, trained layers or None, budget) to a cell. The network called "complex" with
    all layers trained and with the last two, at every budget and with SGD; the others at the small one and with SGD."""
    cells = {}
    for budget in (*epsilons, SGD):
        for last in (2, None):
            cells["complex", last, budget] = cell(dataset, models["complex"], budget, train_last=last, **settings)
    for name, model in models.items():
        if name != "complex":
            for budget in (epsilon_small, SGD):
                cells[name, None, budget] = cell(dataset, model, budget, **settings)
    return cells


def convolution_cells(dataset: str, epsilons: Sequence[float], **settings: Any) -> Cells:
    """The CNN of Table XXX: (trained layers or None, budget) to a cell."""
    return {
        (last, budget): cell(dataset, "cnn", budget, features="image", train_last=last, **settings)
        for budget in epsilons
        for last in (2, None)
    }


def untuned_cells(dataset: str, model: list[int], epsilon: float, rates: Sequence[float], **settings: Any) -> Cells:
    """The complex network at rates that nobody tuned: (trained layers or None, rate) to a cell."""
    return {
        (last, rate): {**cell(dataset, model, epsilon, train_last=last, **settings), "learning_rate": rate}
        for last in (2, None)
        for rate in rates
    }


def message_cells(
    dataset: str,
    epsilon: float,
    epsilon_small: float,
    epsilon_large: float,
    complex_model: str,
    simple_model: str,
    simple_steps: int,
    **settings: Any,
) -> Cells:
    """Tables XIII and VI: (network, trained layers or None, budget) to a cell. The simple network takes more steps, at
    the same budget: each costs a tenth of the complex one's time."""
    cells = {}
    for budget in (SGD, epsilon, epsilon_small, epsilon_large):
        cells["complex", None, budget] = cell(dataset, complex_model, budget, **settings)
        if budget in (epsilon_small, epsilon_large):
            cells["complex", 2, budget] = cell(dataset, complex_model, budget, train_last=2, **settings)
    for budget in (SGD, epsilon, epsilon_small):
        cells["simple", None, budget] = cell(dataset, simple_model, budget, **{**settings, "steps": simple_steps})
    for budget in (SGD, epsilon):
        cells["simple, same steps", None, budget] = cell(dataset, simple_model, budget, **settings)
    return cells


def patient_cells(dataset: str, epsilon: float, layers: Sequence[int], units: Sequence[int], **settings: Any) -> Cells:
    """Tables XIV and XV: (layers, units, init, budget) to a cell; the deepest networks with He initial weights too."""
    return {
        (depth, width, init, budget): cell(dataset, [width] * depth, budget, init=init, **settings)
        for init in ("keras", "he")
        for depth in (layers if init == "keras" else [max(layers)])
        for width in units
        for budget in (SGD, epsilon)
    }


def component_cells(
    dataset: str, components: int, workflows: dict[str, list[int]], epsilon: float, **settings: Any
) -> Cells:
    """Table V: (features, workflow, budget) to a cell."""
    return {
        (features, name, budget): cell(dataset, model, budget, features=features, **settings)
        for features in ("flat", f"pca-{components}")
        for name, model in workflows.items()
        for budget in (SGD, epsilon)
    }


def clipping_cells(dataset: str, features: str, model: list[int], budgets: Sequence[Budget], **settings: Any) -> Cells:
    """Appendix C-E: SGD, SGD with clipping, and DP-SGD at the given budgets."""
    return {budget: cell(dataset, model, budget, features=features, **settings) for budget in (SGD, CLIPPED, *budgets)}


def paper_rate_cells(dataset: str, features: str, model: list[int], **settings: Any) -> Cells:
    """Plain SGD at small rates, not tuned."""
    return {
        rate: {**cell(dataset, model, SGD, features=features, **settings), "learning_rate": rate}
        for rate in PAPER_SGD_RATES
    }
