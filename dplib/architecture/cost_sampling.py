"""Does it matter how batches are drawn? Clipped SGD on shuffled batches of one size against Poisson samples.

DP-SGD libraries of the paper's time shuffled the records and accounted for Poisson sampling. With noise the two are
different mechanisms; what they do to the accuracy can be seen without it.
"""

import numpy as np

from dplib import dpsgd
from dplib.architecture import cost_jobs, cost_tasks
from dplib.engine import DPSGD


def sampled(
    *, dataset: str, model: list[int], sampling: str, batch: int, steps: int, learning_rate: float, seed: int
) -> dict[str, float]:
    """{"test": accuracy} of a perceptron by clipped SGD without noise; "sampling" is "poisson" or "shuffled"."""
    found = cost_tasks.task(dataset)
    weights, draws = np.random.SeedSequence([seed, 7]).spawn(2)
    shape = found.x_train.shape[1:]
    net = cost_jobs.network(model, shape, len(found.classes), "keras", int(weights.generate_state(1)[0]))
    settings = DPSGD(
        steps=steps,
        sample_rate=min(1.0, batch / len(found.y_train)),
        learning_rate=learning_rate,
        max_grad_norm=1.0,
        sampling=sampling,
    )
    parts = dpsgd.Data((found.x_train, found.y_train), test=(found.x_test, found.y_test))
    run = dpsgd.train(net, parts, settings, np.random.default_rng(draws), progress=False)
    return {"test": run.final["test"]["metric"]}
