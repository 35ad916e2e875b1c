"""What drives the cost of privacy: the experiments of paper B's Section VII and Appendix C, and which runs of them.

A part is a function of ``get`` and of what a plan says (``notebooks/plans/05.yml``). Every network has a learning rate
of its own for SGD, for clipped SGD and for DP-SGD, chosen on validation data with seeds that no result uses; that
choice is in no epsilon.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from book.evidence import plans, runs
from book.evidence.plans import Get
from dplib import checks, objpert
from dplib.checks import ParameterError
from dplib.data import tasks
from papers.architecture import feature_data
from papers.common import network_runs
from papers.common.network_runs import Outcome, measured, noise_for

SGD, CLIPPED = "SGD", "clipped SGD"
Budget = float | str
LAST_TWO = [0, 1]  # layers that stay as they were drawn where the last two of four are trained (Section VII-C)
TRAINED: Mapping[str, Mapping[str, Any]] = {"all": {}, "last two": {"frozen": LAST_TWO}}
PCA_RATES = {"sgd": [0.1, 0.3, 0.9], "dp": [0.6, 1.8, 5.4]}
IMAGE_RATES = {"sgd": [0.1, 0.3, 0.9], "dp": [0.2, 0.6, 1.8]}
MESSAGE_RATES = {"sgd": [0.1, 0.3, 0.9], "dp": [0.03333, 0.1, 0.3]}
PATIENT_RATES = {"sgd": [0.03, 0.1, 0.3], "dp": [0.02, 0.06, 0.18]}
CLIPPING_RATES = {"sgd": [0.03, 0.1, 0.3], "dp": [0.25, 0.5, 1.0, 2.0, 4.0]}


@runs.experiment(
    "census_encoding",
    version=1,
    data=("dataset",),
    probe={"dataset": "synthetic-census", "encoding": "one-hot", "epsilon": 0.5, "draws": 3, "seed": 1},
)
def release(
    *,
    dataset: str,
    encoding: str,
    epsilon: float | None,
    draws: int,
    seed: int,
    variant: str = "sound",
    scaling: str = "public",
    regularisation: float = 1.0,
    device: str = "cpu",
) -> runs.Result:
    """Logistic regressions by objective perturbation on one random split of a census: ``draws`` of the noise.

    Args:
        dataset, encoding: of :func:`papers.architecture.feature_data.census`. scaling: of
            :func:`papers.architecture.feature_data.scaled`.
        epsilon: of each release, pure DP, one record replaced; None: no noise, and hardly any regularisation.
        seed: draws the split and the noise.
        variant, regularisation: of :func:`dplib.objpert.fit`.

    Returns:
        "accuracies" on the test part, (draws,), 0 to 1; "constant": that of the most frequent class; "spent": what a
        release really costs (None: infinitely much); "bound": on the norm of a row; "features"; "converged": share.

    Raises ParameterError or DataError for what is not allowed or not there.
    """
    census = feature_data.census(dataset, encoding, seed)
    rows, test, bound = feature_data.scaled(census, scaling)
    fit = objpert.fit(
        rows / bound,
        census.y_train,
        epsilon=math.inf if epsilon is None else epsilon,
        regularisation=1e-4 if epsilon is None else regularisation,
        rng=np.random.default_rng([seed, 11]),
        problems=1 if epsilon is None else draws,
        variant="sound" if epsilon is None else variant,
        device=device,
    )
    spent = float(np.max(fit.epsilon))
    most = np.bincount(census.y_train).argmax()
    return {
        "accuracies": [runs.to_figures(a, 5) for a in fit.accuracy(test / bound, census.y_test)],
        "constant": float((census.y_test == most).mean()),
        "spent": spent if math.isfinite(spent) else None,
        "converged": float(fit.converged.mean()),
        "bound": bound,
        "features": rows.shape[1],
    }


@runs.experiment(
    "gradient_signal",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "model": [16, 8], "epsilon": 2.0, "learning_rate": 0.6, "seed": 1, "after": 3,
           "frozen": [0], "batch": 250, "steps": 20},
)  # fmt: skip
def gradient_signal(
    *,
    dataset: str,
    model: network_runs.Model,
    epsilon: float,
    learning_rate: float,
    seed: int,
    after: int,
    frozen: list[int] | None = None,
    batch: int = 512,
    steps: int = 200,
    device: str = "cpu",
) -> runs.Result:
    """The signal of one step: how long the mean clipped gradient is, after some steps of DP-SGD.

    Args:
        dataset, model, frozen, batch, steps, epsilon, learning_rate, seed: of
            :func:`papers.common.network_runs.network_training`, pixels in a row for a perceptron and an image for a
            CNN, Keras's weights, clipping norm 1. after: steps taken before it is looked at, 0 to ``steps``.

    Returns "length": norm of the mean over the training part, 0 to 1; "trained": weights that are trained.

    Raises ParameterError or DataError for what is not allowed or not there.
    """
    import torch  # which whoever reads runs does not wait for

    from dplib import devices, dpsgd
    from papers.common import networks

    checks.integer(0, steps).check("after", after)
    data = tasks.task(dataset, "flat" if isinstance(model, list) else "image", None, seed, "report")
    place = devices.find_device(device)
    weights, draws = np.random.SeedSequence([seed, 1]).spawn(2)
    seeded = int(weights.generate_state(1)[0])
    net = networks.network(model, data.x_train.shape[1:], len(data.classes), "relu", 0.0, seeded, "keras").to(place)
    if frozen:
        networks.freeze(net, frozen)
    rate = min(1.0, batch / len(data.y_train))
    settings = {"sample_rate": rate, "learning_rate": learning_rate, "max_grad_norm": 1.0}
    if after:
        noise = float(noise_for(epsilon, rate, steps, 1e-5))
        parts = dpsgd.Data((data.x_train, data.y_train), None, (data.x_test, data.y_test))
        dpsgd.train(net, parts, dpsgd.DPSGD(steps=after, noise_multiplier=noise, **settings),
                    np.random.default_rng(draws), device=device, progress=False)  # fmt: skip
    records = dpsgd.Examples((data.x_train, data.y_train), "train", place, torch.float32)
    engine = dpsgd.Engine(net, dpsgd.DPSGD(steps=1, **settings), records)
    length = float(engine.gradient(torch.arange(records.n, device=place)).norm()) * engine.divisor / records.n
    trained = len(engine.weights)
    engine.close()
    return {"length": length, "trained": trained}


def cell(dataset: str, model: Any, budget: Budget, **settings: Any) -> dict[str, Any]:
    """A job without seed and rate: ``budget`` is an epsilon, SGD (no clipping, no noise), or CLIPPED (no noise)."""
    job = {"dataset": dataset, "model": model, "epsilon": None, "init": "keras", **settings}
    if budget == SGD:
        return {**job, "max_grad_norm": None}
    return job if budget == CLIPPED else {**job, "epsilon": budget}


def regression(
    get: Get,
    *,
    dataset: str,
    epsilon: float,
    layers: Sequence[int],
    units: Sequence[int],
    steps: int,
    seeds: int,
    batch: int = 250,
    init: str = "keras",
    **grids: int,
) -> dict[tuple[int, int, Budget], Outcome]:
    """Tables XIV and XV: (layers, units of each, budget) to an outcome."""
    cells = {
        (depth, width, budget): cell(dataset, [width] * depth, budget, init=init, batch=batch, steps=steps)
        for depth in layers
        for width in units
        for budget in (SGD, epsilon)
    }
    return measured(get, cells, PATIENT_RATES, seeds=seeds, **grids)


def ladders(
    get: Get,
    *,
    dataset: str,
    features: str,
    inputs: int,
    widths: Sequence[int],
    depths: Sequence[int],
    pairs: Sequence[int],
    units: int,
    epsilon: float,
    seeds: int,
    classes: int = 10,
    **settings: Any,
) -> dict[tuple[str, int, str, Budget], Outcome]:
    """Figure 12: ("width" or "depth", size, initial weights, budget) to an outcome.

    One hidden layer that grows, and layers of ``units`` that grow in number. Those of ``pairs`` have a wide partner
    with as many parameters, and run from He's weights too, and with clipping alone.
    """
    if not set(pairs) <= set(depths):
        raise ParameterError(f"pairs = {list(pairs)} is not allowed: each must be among the depths {list(depths)}.")
    partners = {depth: partner_width(inputs, [units] * depth, classes) for depth in pairs}
    models = {("width", w): [w] for w in sorted({*widths, *partners.values()})}
    models |= {("depth", depth): [units] * depth for depth in depths}
    kinds = [(*key, "keras", budget) for key in models for budget in (SGD, epsilon)]
    kinds += [("width", partners[depth], "keras", CLIPPED) for depth in pairs]
    for depth in pairs:
        kinds += [("depth", depth, "he", budget) for budget in (SGD, CLIPPED, epsilon)]
        kinds.append(("depth", depth, "keras", CLIPPED))
    cells = {
        (kind, size, init, budget): cell(dataset, models[kind, size], budget, features=features, init=init, **settings)
        for kind, size, init, budget in kinds
    }
    return measured(get, cells, IMAGE_RATES, seeds=seeds)


def perceptron_parameters(inputs: int, hidden: Sequence[int], outputs: int) -> int:
    """Weights and biases of a fully connected network."""
    return sum((a + 1) * b for a, b in itertools.pairwise([inputs, *hidden, outputs]))


def partner_width(inputs: int, hidden: Sequence[int], outputs: int) -> int:
    """Width of the single hidden layer that has as nearly as possible the parameters of the given network."""
    return max(1, round((perceptron_parameters(inputs, hidden, outputs) - outputs) / (inputs + outputs + 1)))


def random_weights(
    get: Get,
    *,
    dataset: str,
    model: Any,
    epsilons: Sequence[float],
    seeds: int,
    features: str = "flat",
    others: Mapping[str, Any] | None = None,
    small: float | None = None,
    untuned: Sequence[float] = (),
    trained: Sequence[str] = ("all", "last two"),
    plain: bool = True,
    first: int = 0,
    **settings: Any,
) -> dict[tuple[str, str, Any], Outcome]:
    """Tables VI and VII, Figure 10: (network, "all" or "last two" trained, budget) to an outcome.

    Args:
        model: the complex network. others: further networks by name, all layers trained, at the budget ``small``.
        trained: which layers of it. plain: with SGD, too. first: of the seeds.
        untuned: rates at which the complex network runs at ``small`` without tuning; the key ends with ("rate", rate).
    """
    settings = {"features": features, **settings}
    methods = {name: frozen for name, frozen in TRAINED.items() if name in trained}
    cells = {
        ("complex", name, budget): cell(dataset, model, budget, **frozen, **settings)
        for budget in (*epsilons, *([SGD] if plain else []))
        for name, frozen in methods.items()
    }
    for name, layers in (others or {}).items():
        cells |= {(name, "all", budget): cell(dataset, layers, budget, **settings) for budget in (small, SGD)}
    for rate, (name, frozen) in itertools.product(untuned, methods.items()):
        cells["complex", name, ("rate", rate)] = {
            **cell(dataset, model, small, **frozen, **settings),
            "learning_rate": rate,
        }
    rates = MESSAGE_RATES if isinstance(model, str) and model.startswith("lstm") else IMAGE_RATES
    return measured(get, cells, rates, seeds=seeds, first=first)


def components(
    get: Get, *, dataset: str, k: int, networks: Mapping[str, list[int]], epsilon: float, seeds: int, **settings: Any
) -> dict[tuple[str, str, Budget], Outcome]:
    """Table V: ("flat" or "pca-K", network, budget) to an outcome."""
    cells = {
        (features, name, budget): cell(dataset, model, budget, features=features, **settings)
        for features in ("flat", f"pca-{k}")
        for name, model in networks.items()
        for budget in (SGD, epsilon)
    }
    return measured(get, cells, PCA_RATES, seeds=seeds, extensions=1)


def clipping(
    get: Get,
    *,
    dataset: str,
    features: str,
    model: list[int],
    epsilons: Sequence[float],
    seeds: int,
    untuned: Sequence[float] = (),
    **settings: Any,
) -> dict[Any, Outcome]:
    """Appendix C-E: SGD, clipped SGD, DP-SGD at each epsilon, and ("rate", r) of SGD that nobody tuned."""
    cells: dict[Any, dict[str, Any]] = {
        budget: cell(dataset, model, budget, features=features, **settings) for budget in (SGD, CLIPPED, *epsilons)
    }
    for rate in untuned:
        cells["rate", rate] = {**cells[SGD], "learning_rate": rate}
    return measured(get, cells, CLIPPING_RATES, seeds=seeds)


def signal(
    get: Get, *, seeds: int, first: int = 0, afters: Sequence[int] = (0, 40), **settings: Any
) -> dict[tuple[str, int], np.ndarray]:
    """("all" or "last two" layers trained, steps taken) to the length of the mean clipped gradient, (seeds,)."""
    cells = {(name, after): {**settings, "frozen": frozen, "after": after}
             for name, frozen in (("all", None), ("last two", LAST_TWO)) for after in afters}  # fmt: skip
    by_cell = plans.by_seed(get, gradient_signal, cells, seeds, first)
    return {cell: np.array([run["length"] for run in runs]) for cell, runs in by_cell.items()}


def messages(
    get: Get, *, dataset: str, models: Mapping[str, str], epsilons: Sequence[float], seeds: int, **settings: Any
) -> dict[tuple[str, Budget], Outcome]:
    """Table XIII: (network, budget) to an outcome, all at equal numbers of steps."""
    cells = {
        (name, budget): cell(dataset, model, budget, **settings)
        for name, model in models.items()
        for budget in (SGD, *epsilons)
    }
    return measured(get, cells, MESSAGE_RATES, seeds=seeds)
