"""Width against records, budget and steps: networks of one hidden layer as kept runs (``notebooks/plans/14.yml``).

Fixed before the runs: the candidates of a cell are rates and steps; the best by mean validation accuracy over two
tuning seeds is run on five others, and the last iterate reported on test records. The plans' file says how widths are
compared.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from book.evidence import plans, runs
from book.evidence.plans import Get, by_seed
from dplib import checks
from papers.common.network_runs import noise_for
from papers.sizes import public_part
from papers.sizes.random_feature_runs import features

__all__ = ["features", "random_features", "training_of_width", "widths"]

BATCH = 512
Key = tuple[int, float | None, int]  # n, epsilon, width (0: no hidden layer)


@runs.experiment(
    "width",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "width": 16, "n": 1000, "epsilon": 2.0, "steps": 40, "spread": 0.1, "seed": 3},
)
def training_of_width(
    *,
    dataset: str,
    width: int,
    n: int,
    epsilon: float | None,
    steps: int,
    seed: int,
    spread: float | None = None,
    learning_rate: float | None = None,
    components: int = 64,
    delta: float = 1e-5,
    device: str = "cpu",
) -> runs.Result:
    """Train one network on n random records of the pool, and evaluate the last iterate.

    Args:
        width: units of the one hidden layer (ReLU); 0: none, a linear model.
        epsilon: budget at ``delta`` for neighbours that add or remove a record; clipping norm 1, batches of 512 on
            average, or all n records where they are fewer. None: plain SGD, with ``learning_rate``.
        spread: of private training, the rate in the units of its noise: the standard deviation to which the noise of
            all steps adds up in each weight, rate times noise multiplier times sqrt(steps) / batch.

    Returns "validation" (public part) and "test" accuracies, None after divergence; "learning_rate",
    "noise_multiplier", "parameters". ParameterError or DataError for what is not allowed or not there.
    """
    from dplib import dpsgd  # it imports PyTorch, which whoever reads runs does not wait for
    from papers.common import networks

    checks.integer(0).check("width", width)
    parts = public_part.parts(dataset, components)
    x, y = parts["pool"]
    checks.integer(1, len(y)).check("n", n)
    weights, drawn, draws = np.random.SeedSequence([seed, 14]).spawn(3)
    rows = np.random.default_rng(drawn).permutation(len(y))[:n]
    hidden = [width] if width else []
    net = networks.network(hidden, x.shape[1:], int(y.max()) + 1, "relu", 0.0, int(weights.generate_state(1)[0]))
    q, noise = min(1.0, BATCH / n), 0.0
    if epsilon is not None:
        checks.positive().check("spread", spread)
        noise = float(noise_for(epsilon, q, steps, delta))
        learning_rate = spread * q * n / (noise * steps**0.5)
    settings = dpsgd.DPSGD(
        steps, q, learning_rate, noise_multiplier=noise, max_grad_norm=None if epsilon is None else 1.0
    )
    every = dpsgd.Data((x[rows], y[rows]), parts["public"], parts["test"])
    run = dpsgd.train(net, every, settings, np.random.default_rng(draws), device=device, progress=False)
    reached = {part: None if run.diverged else run.final[part]["metric"] for part in ("validation", "test")}
    return reached | {"learning_rate": learning_rate, "noise_multiplier": noise, "parameters": run.parameters}


def widths(
    get: Get,
    *,
    dataset: str,
    sizes: Sequence[int],
    epsilons: Sequence[float | None],
    widths: Sequence[int],
    steps: Sequence[int],
    spreads: Sequence[float],
    rates: Sequence[float],
    seeds: int,
    tuning_seeds: int = 2,
    **settings: Any,
) -> dict[Key, dict[str, Any]]:
    """Every width at every number of records and budget, with rate and steps of its own.

    Returns:
        For (n, epsilon, width): "test", accuracies in percent by seed (NaN after divergence); "by_steps", the tuned
        mean validation accuracy of each number of steps, in percent; "steps", "spread" (None: plain SGD),
        "learning_rate", and "at_edge": the grid's end was the best.
    """
    keys = [(n, epsilon, width) for n in sizes for epsilon in epsilons for width in widths]
    cells = {
        (key, t): {"dataset": dataset, "n": key[0], "epsilon": key[1], "width": key[2], "steps": t, **settings}
        for key in keys
        for t in steps
    }
    private = {at: cell for at, cell in cells.items() if cell["epsilon"] is not None}
    plain = {at: cell for at, cell in cells.items() if cell["epsilon"] is None}
    tuned = plans.tune(get, training_of_width, private, spreads, seeds=tuning_seeds, name="spread") if private else {}
    tuned |= plans.tune(get, training_of_width, plain, rates, seeds=tuning_seeds) if plain else {}
    best = {key: max(steps, key=lambda t, key=key: tuned[key, t].tried[tuned[key, t].value]) for key in keys}
    jobs = {}
    for key, t in best.items():
        name = "learning_rate" if key[1] is None else "spread"
        jobs[key] = {**cells[key, t], name: tuned[key, t].value}
    results = by_seed(get, training_of_width, jobs, seeds)
    return {key: _cell(results[key], job, key, tuned, steps) for key, job in jobs.items()}


def _cell(
    results: Sequence[runs.Result], job: Mapping[str, Any], key: Key, tuned: Mapping[Any, plans.Tuned], steps: Any
) -> dict[str, Any]:
    rate = tuned[key, job["steps"]]
    return {
        "test": np.array([np.nan if r["test"] is None else 100 * r["test"] for r in results]),
        "by_steps": {t: 100 * tuned[key, t].tried[tuned[key, t].value] for t in steps},
        "steps": job["steps"],
        "spread": job.get("spread"),
        "learning_rate": results[0]["learning_rate"],
        "at_edge": rate.at_edge,
    }


def random_features(
    get: Get,
    *,
    dataset: str,
    n: int,
    counts: Sequence[int],
    epsilons: Sequence[float | None],
    rates: Sequence[float],
    seeds: int,
    tuning_seeds: int = 2,
    **settings: Any,
) -> dict[tuple[int, float | None], dict[str, Any]]:
    """Random features of every number, trained by private gradient descent, each with a rate of its own.

    Returns for (p, epsilon): "test", accuracies in percent by seed; "rate"; "at_edge".
    """
    grid = {"settings": [[epsilon, rate] for epsilon in epsilons for rate in rates]}
    cells = {p: {"dataset": dataset, "n": n, "p": p, **settings} for p in counts}
    tried = by_seed(get, features, {p: cell | grid for p, cell in cells.items()}, tuning_seeds, plans.FIRST)
    chosen = {}
    for p, trials in tried.items():
        scores = np.mean([trial["validation"] for trial in trials], axis=0)
        best = scores.reshape(len(epsilons), len(rates)).argmax(axis=1)
        chosen[p] = [[epsilon, rates[i]] for epsilon, i in zip(epsilons, best, strict=True)]
    results = by_seed(get, features, {p: cell | {"settings": chosen[p]} for p, cell in cells.items()}, seeds)
    return {
        (p, epsilon): {
            "test": 100 * np.array([result["test"][i] for result in results[p]]),
            "rate": rate,
            "at_edge": rate in (rates[0], rates[-1]),
        }
        for p in counts
        for i, (epsilon, rate) in enumerate(chosen[p])
    }
