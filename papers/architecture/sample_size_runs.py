"""Paper B, Section VI-B: DP-SGD steps to a set validation accuracy, their budgets, and the curve through these.

The training set is drawn with replacement from the published one, as the paper does, so that n may exceed it. The run
yields a number of steps and nothing about privacy: at a fixed noise multiplier and batch size, epsilon follows from
(batch / n, steps) afterwards, under any accountant (:func:`epsilon`).
"""

import math

import numpy as np
import torch
from scipy import optimize

from book.evidence import runs
from dplib import accounting, checks, dpsgd, examples, rdp
from dplib.devices import find_device
from dplib.dpsgd import Engine
from dplib.examples import Examples
from papers.architecture.printed_budgets import TOOL_ORDERS
from papers.common import network_runs, networks

EVERY = 5  # steps between looks at the accuracy


@runs.experiment(
    "steps_to_target",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "hidden": [16], "n": 5000, "learning_rate": 1.0, "seed": 3, "target": 0.5,
           "most_steps": 60},
)  # fmt: skip
def steps_to_target(
    *,
    dataset: str,
    hidden: list[int],
    n: int,
    learning_rate: float,
    seed: int,
    part: str = "report",
    features: str = "flat",
    batch: int = 250,
    noise_multiplier: float = 2.0,
    target: float = 0.85,
    most_steps: int = 1000,
    device: str = "cpu",
) -> runs.Result:
    """Train by DP-SGD, clipping norm 1, until the validation accuracy first reaches ``target``; at most ``most_steps``.

    Args:
        dataset, features, part: of :func:`dplib.data.tasks.task`. hidden: units of each hidden layer.
        n: training records, drawn with replacement. batch: expected batch size, at most n.
        seed: decides split, draw, initial weights, batches and noise. Equal seeds draw equal records at equal n.

    Returns:
        "steps" at the first look that reached the target, None where none did; "validation" and "test" accuracies at
        the end; "distinct", how many different records were drawn; "parameters"; "score" for tuning: minus the steps,
        or, without success, minus ``most_steps`` less what was missing.
    """
    checks.fraction().check("target", target)
    checks.integer(1, n).check("batch", batch)
    data = network_runs.task(dataset, features, None, seed, part)
    weights, draws, batches, noise = np.random.SeedSequence([seed, 2]).spawn(4)
    net = networks.network(
        hidden, data.x_train.shape[1:], len(data.classes), "relu", 0.0, int(weights.generate_state(1)[0])
    )
    place = find_device(device)
    parts = {
        name: Examples((getattr(data, f"x_{name}"), getattr(data, f"y_{name}")), name, place, torch.float32)
        for name in ("train", "valid", "test")
    }
    base = parts["train"].n
    drawn = torch.from_numpy(np.random.default_rng(draws).integers(base, size=n)).to(place)
    settings = dpsgd.DPSGD(
        steps=most_steps,
        sample_rate=batch / base,  # the engine divides by sample_rate * base, which is the batch size wanted
        learning_rate=learning_rate,
        noise_multiplier=noise_multiplier,
        max_grad_norm=1.0,
    )
    generator = torch.Generator(place).manual_seed(int(noise.generate_state(1)[0]))
    taken = examples.Sampler("poisson", n, batch / n, np.random.default_rng(batches)).batches(place)
    engine = Engine(net.to(place).train(), settings, parts["train"], examples.cross_entropy, generator)
    reached, accuracy = None, 0.0
    for step in range(1, most_steps + 1):
        engine.step(drawn[next(taken)], look=False)  # of records drawn twice there are two
        if step % EVERY == 0:
            accuracy = _accuracy(net, parts["valid"])
            if accuracy >= target:
                reached = step
                break
    engine.close()
    return {
        "steps": reached,
        "validation": accuracy,
        "test": _accuracy(net, parts["test"]),
        "distinct": len(drawn.unique()),
        "parameters": sum(p.numel() for p in net.parameters()),
        "score": -float(reached) if reached else -most_steps * (2 - accuracy),
    }


def _accuracy(net: torch.nn.Module, part: Examples) -> float:
    return examples.evaluate(net, part, examples.cross_entropy, examples.correct)["metric"]


def epsilon(noise_multiplier, sample_rate, steps, delta, accountant="paper"):
    """Epsilon for adding or removing one record, Poisson batches. Arrays broadcast.

    "paper": Rényi DP on the orders of tensorflow-privacy, with the improved conversion, which is what reproduces the
    paper's printed budgets; or an accountant of :mod:`dplib.accounting`.
    """
    if accountant == "paper":
        return rdp.epsilon(noise_multiplier, sample_rate, steps, delta, "improved", TOOL_ORDERS)
    return accounting.epsilon(noise_multiplier, sample_rate, steps, delta, accountant)


def epsilon_of_steps(noise_multiplier, sample_rate, steps, delta, accountant="paper") -> np.ndarray:
    """:func:`epsilon` for many numbers of steps (k,) at one setting.

    Other accountants than the paper's are slow, so they are asked at the least and the most steps, and epsilon is
    interpolated in logarithms in between, along which it is nearly straight (as the tests check).
    """
    steps = np.asarray(steps, dtype=float)
    if accountant == "paper":
        return np.asarray(epsilon(noise_multiplier, sample_rate, steps, delta))
    ends = np.unique([steps.min(), steps.max()])
    values = [epsilon(noise_multiplier, sample_rate, end, delta, accountant) for end in ends]
    return np.exp(np.interp(np.log(steps), np.log(ends), np.log(np.maximum(values, 1e-300))))


def _curve(logs, n, least_alpha):
    """ln(alpha + beta / n); logarithms keep the argument positive, and bring 1/n and 1 to one scale."""
    return np.log(least_alpha + np.exp(logs[0]) + np.exp(logs[1]) / n)


def fit(n, values, least_alpha: float = 0.0) -> tuple[float, float]:
    """alpha and beta of epsilon = ln(alpha + beta / n) by least squares on the budgets (k,) of the sizes (k,).

    ``least_alpha``: the paper has 1, below which the curve is negative for large n.
    """
    n, values = np.asarray(n, dtype=float), np.asarray(values, dtype=float)
    slope, intercept = np.polyfit(1 / n, np.exp(values), 1)
    start = np.log([max(intercept - least_alpha, 1e-3), max(slope, 1e-3)])
    tight = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}
    fitted = np.exp(optimize.least_squares(lambda logs: _curve(logs, n, least_alpha) - values, start, **tight).x)
    return least_alpha + float(fitted[0]), float(fitted[1])


def bootstrap_fit(n, values, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(draws, 2) of alpha and beta from means over the runs of each size, (k, r), drawn again with replacement."""
    k, runs = values.shape
    picks = rng.integers(runs, size=(draws, k, runs))
    return np.array([fit(n, np.take_along_axis(values, pick, 1).mean(1)) for pick in picks])


def least_relative_error(n, values, least_alpha: float = 0.0) -> float:
    """The largest relative error of that alpha and beta for which it is least: no curve of the form comes nearer."""
    n, values = np.asarray(n, dtype=float), np.asarray(values, dtype=float)
    alpha, beta = fit(n, values, least_alpha)

    def worst(logs):
        return np.abs(_curve(logs, n, least_alpha) / values - 1).max()

    start = np.log([max(alpha - least_alpha, 1e-6), beta])
    tight = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    for _ in range(3):  # the simplex starts anew where it got stuck on a kink
        start = optimize.minimize(worst, start, method="Nelder-Mead", options=tight).x
    return float(worst(start))


def size_for(level, noise_multiplier, batch, steps, delta, between) -> float:
    """The number of records at which a training spends ``level``, by the paper's accountant: no curve is interpolated.

    ``steps`` is a function of n. nan where no n between the two numbers ``between`` spends so much, or so little.
    """

    def excess(log_n):
        n = math.exp(log_n)
        return float(epsilon(noise_multiplier, min(1.0, batch / n), round(steps(n)), delta)) - level

    ends = [math.log(n) for n in between]
    if excess(ends[0]) < 0 or excess(ends[1]) > 0:
        return math.nan
    return math.exp(optimize.brentq(excess, *ends, xtol=1e-6))
