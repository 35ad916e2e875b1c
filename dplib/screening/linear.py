"""Paths of DP-SGD and of annealed DP-SGD on a linear regression with two parameters (paper D, Figure 1).

The figure has no settings and no numbers; these are ours. Records are x from a standard normal and
y = slope x + intercept + noise; the loss of a record is the squared error, and J is the mean over all records, which
is least at the ordinary least-squares solution.
"""

import numpy as np
import torch
from torch import nn

from dplib import checks
from dplib.dpsgd import DPSGD
from dplib.examples import squared_error
from dplib.screening import annealing
from dplib.screening.annealing import Annealing
from dplib.screening.trace import REJECTED
from dplib.sgd import seeded

SLOPE, INTERCEPT = 2.0, 1.0
START = (-1.0, -1.5)


def problem(n: int, spread: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, y, optimum): (n, 1), (n, 1) and the least-squares (slope, intercept)."""
    rng = np.random.default_rng([seed, 1])
    x = rng.standard_normal((n, 1))
    y = SLOPE * x + INTERCEPT + spread * rng.standard_normal((n, 1))
    return x, y, np.linalg.lstsq(np.hstack([x, np.ones_like(x)]), y, rcond=None)[0][:, 0]


def path(
    *,
    annealed: bool,
    seed: int,
    queries: int,
    accepted: int | None = None,
    n: int = 500,
    spread: float = 0.5,
    sample_rate: float = 0.1,
    learning_rate: float = 0.4,
    noise_multiplier: float = 5.0,
    max_grad_norm: float = 1.0,
    initial_temperature: float = 10.0,
    rejection_limit: int | None = 10,
) -> dict[str, list]:
    """One training from :data:`START`, the method of Algorithm 2 or plain DP-SGD with the same batches and noise.

    Args:
        annealed: whether steps are screened, by J on the training records.
        queries, accepted: the stop, as in :func:`dplib.screening.annealing.train`.
        seed: decides records, batches, noise and acceptance. Equal seeds pair the two methods.
        n, spread: of the records and of the noise in y.

    Returns:
        "slope" and "intercept" after each query, before the first one included (queries + 1 numbers); "accepted", 0 or
        1 for each query; "loss", J after each query, and "distance" to the least-squares solution (queries + 1).

    Raises:
        ParameterError: for a setting that is not allowed.
    """
    checks.boolean().check("annealed", annealed)
    checks.integer(2).check("n", n)
    x, y, optimum = problem(n, spread, seed)
    net = seeded(lambda: nn.Linear(1, 1), 0).double()
    with torch.no_grad():
        net.weight.fill_(START[0])
        net.bias.fill_(START[1])
    seen = [np.array(START)]
    run = annealing.train(
        net,
        (x, y),
        DPSGD(queries, sample_rate, learning_rate, noise_multiplier, max_grad_norm),
        np.random.default_rng([seed, 2]),
        annealing=Annealing(initial_temperature, rejection_limit) if annealed else None,
        energy=(x, y),
        accepted=accepted,
        follow=lambda weights: seen.append(weights.numpy().copy()),
        loss=squared_error,
        metric=squared_error,
    )
    places = np.array(seen)
    errors = y - x * places[:, 0] - places[:, 1]  # (n, queries + 1)
    return {
        "slope": places[:, 0].tolist(),
        "intercept": places[:, 1].tolist(),
        "accepted": [int(outcome != REJECTED) for outcome in run.outcomes],
        "loss": (errors**2).mean(0).tolist(),
        "distance": np.linalg.norm(places - optimum, axis=1).tolist(),
    }
