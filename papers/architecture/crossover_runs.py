"""Chapter 4's runs: a simple and a complex network of paper B at many budgets, each at its own learning rate.

Parts of plans (:mod:`book.evidence.plans`). Every training is :func:`papers.common.network_runs.network_training`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from book.evidence import plans
from book.evidence.plans import Get
from book.evidence.runs import Result
from dplib import checks
from papers.common.network_runs import measured, network_training

SIMPLE, COMPLEX = "simple (PAW)", "complex (STW)"
# The two FCNs of each data set (Table I), with what they see; digits has 64 pixels as MNIST has 64 components.
PAIRS: Mapping[str, dict[str, Any]] = {
    "digits": {"simple": "fcn-mnist-paw", "complex": "fcn-mnist-stw", "features": "flat"},
    "mnist": {"simple": "fcn-mnist-paw", "complex": "fcn-mnist-stw", "features": "pca-64"},
    "fashion-mnist": {"simple": "fcn-fashion-mnist-paw", "complex": "fcn-fashion-mnist-stw", "features": "pca-64"},
    "cifar10-jpeg": {"simple": "fcn-cifar10-paw", "complex": "fcn-cifar10-stw", "features": "pca-300"},
    "cifar10": {"simple": "fcn-cifar10-paw", "complex": "fcn-cifar10-stw", "features": "pca-300"},
    "svhn": {"simple": "fcn-svhn-paw", "complex": "fcn-svhn-stw", "features": "pca-300", "n_train": 42_000},
    "purchase-100": {"simple": "fcn-purchase100-paw", "complex": "fcn-purchase100-stw", "delta": 1e-7},
    "location": {"simple": [128], "complex": [1024, 256], "features": "image", "dropout": 0.2, "delta": 1e-7},
}
# Figure 8 and Table IV, on MNIST.
MODELS: Mapping[str, tuple[str | list[int], str]] = {
    "logistic regression": ([], "pca-64"),
    "PAW FCN": ("fcn-mnist-paw", "pca-64"),
    "PAW CNN": ("cnn-mnist-paw", "image"),
    "LeNet-5": ("lenet5-mnist", "image"),
    "STW CNN": ("cnn-mnist-stw", "image"),
}
Swept = dict[str, dict[float, list[Result]]]  # model to budget (inf: SGD) to results by seed, with their rate


def pair(get: Get, *, dataset: str, **settings: Any) -> Swept:
    """Both networks of a data set over budgets: Table I and Figure 7; ``settings`` of :func:`swept`."""
    checks.one_of(*PAIRS).check("dataset", dataset)
    settings_ = dict(PAIRS[dataset])
    models = {SIMPLE: settings_.pop("simple"), COMPLEX: settings_.pop("complex")}
    return swept(
        get, {name: {"dataset": dataset, **settings_, "model": model} for name, model in models.items()}, **settings
    )


def models(get: Get, *, names: Sequence[str], **settings: Any) -> Swept:
    """Models of :data:`MODELS` on MNIST over budgets: Figure 8 and Table IV."""
    checks.list_of(checks.one_of(*MODELS)).check("names", list(names))
    cells = {n: {"dataset": "mnist", "model": MODELS[n][0], "features": MODELS[n][1]} for n in names}
    return swept(get, cells, **settings)


def widths(get: Get, *, units: Sequence[int], **settings: Any) -> Swept:
    """One hidden layer of so many units on MNIST: Figure 1."""
    shared = {"dataset": "mnist", "features": "pca-64", "dropout": 0.2}
    return swept(get, {str(n): {**shared, "model": [n]} for n in units}, **settings)


def at_rates(
    get: Get, *, dataset: str, epsilon: float, rates: Sequence[float], seeds: int, **settings: Any
) -> dict[str, dict[float, list[Result]]]:
    """Both networks at given rates: Figure 9, {network: {rate: results by seed}}."""
    by_model = {}
    for name, kind in ((SIMPLE, "simple"), (COMPLEX, "complex")):
        settings_ = {k: v for k, v in PAIRS[dataset].items() if k not in ("simple", "complex")}
        cell = {"dataset": dataset, **settings_, "model": PAIRS[dataset][kind], "epsilon": epsilon, **settings}
        by_model[name] = plans.by_seed(
            get, network_training, {float(r): {**cell, "learning_rate": float(r)} for r in rates}, seeds
        )
    return by_model


def swept(
    get: Get,
    cells: Mapping[str, Mapping[str, Any]],
    *,
    epsilons: Sequence[float | None],
    rates: Sequence[float],
    sgd_rates: Sequence[float] = (0.3, 1.0, 3.0),
    seeds: int = 5,
    first: int = 0,
    tuning_seeds: int = 3,
    extensions: int = 2,
    **settings: Any,
) -> Swept:
    """Every model at every budget (None: plain SGD), each at the rate that is best on validation data.

    Each result has its "learning_rate" and the "tuning_score" of that rate, the mean over the tuning runs.

    Args:
        cells: model to its part of a job. rates, sgd_rates: grids with and without privacy, increasing.
        first: the first seed that is reported.
        settings: further arguments of :func:`papers.common.network_runs.network_training`, for all models alike.
    """
    asked = {(name, e): {**cell, **settings, **budget(e)} for e in epsilons for name, cell in cells.items()}
    grids = {"sgd": sgd_rates, "dp": rates}
    outcomes = measured(get, asked, grids, seeds=seeds, first=first, tuning_seeds=tuning_seeds, extensions=extensions)
    by_model: Swept = {name: {} for name in cells}
    for (name, e), outcome in outcomes.items():
        results = [
            {**run, "learning_rate": outcome.rate, "tuning_score": outcome.tuned.tried[outcome.rate]}
            for run in outcome.runs
        ]
        by_model[name][math.inf if e is None else float(e)] = results
    return by_model


def budget(epsilon: float | None) -> dict[str, Any]:
    """A budget as a part of a job; None: plain SGD, without clipping or noise."""
    return {"epsilon": None, "max_grad_norm": None} if epsilon is None else {"epsilon": float(epsilon)}


# At your epsilon: short trainings, whose rates are chosen at the budget itself.
YOURS = {
    "digits": {"batch": 256, "steps": 80, "rates": [1.5, 6.0]},
    "mnist": {"batch": 1024, "steps": 400, "rates": [1.0, 3.0, 9.0]},
}


def yours(get: Get, *, dataset: str, epsilon: float, delta: float = 1e-5, seeds: int = 5) -> dict[str, list[Result]]:
    """The chapter's question at a reader's own budget: {network: results by seed}, both at tuned rates."""
    checks.one_of(*YOURS).check("dataset", dataset)
    by_model = pair(get, dataset=dataset, epsilons=[epsilon], delta=delta, seeds=seeds, extensions=1, **YOURS[dataset])
    return {name: by_budget[float(epsilon)] for name, by_budget in by_model.items()}
