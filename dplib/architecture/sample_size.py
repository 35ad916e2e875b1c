"""Paper B, Section VI-B: DP-SGD steps to a set validation accuracy, their budgets, and the curve through these.

The training set is drawn with replacement from the published one, as the paper does, so that n may exceed it. The run
yields a number of steps and nothing about privacy: at a fixed noise multiplier and batch size, epsilon follows from
(batch / n, steps) afterwards, under any accountant (:func:`epsilon`).
"""

import math

import numpy as np
import torch
from scipy import optimize

from dplib import accounting, checks, dpsgd, examples, rdp, runs, trainings
from dplib.architecture.printed_budgets import TOOL_ORDERS
from dplib.checks import ParameterError
from dplib.dpsgd import Engine
from dplib.examples import Examples
from dplib.sgd import find_device

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
    """Train by DP-SGD until the validation accuracy first reaches ``target``.

    Args:
        dataset, features, part: of :func:`dplib.data.tasks.task`; its validation part decides when to stop.
        hidden: units of each hidden layer.
        n: training records, drawn with replacement.
        learning_rate: of plain SGD on the noisy gradients.
        seed: decides split, draw, initial weights, batches and noise. Equal seeds draw equal records at equal n.
        batch: expected batch size, at most n. noise_multiplier: of DP-SGD with clipping norm 1.
        target: accuracy in (0, 1). most_steps: give up after so many.

    Returns:
        "steps" at the first look that reached the target, None where none did; "validation" and "test" accuracies at
        the end; "distinct", how many different records were drawn; "parameters"; "score" for tuning: minus the steps,
        or, without success, minus ``most_steps`` less what was missing.
    """
    checks.fraction().check("target", target)
    checks.integer(1, n).check("batch", batch)
    found = trainings.task(dataset, features, None, seed, part)
    weights, draws, batches, noise = np.random.SeedSequence([seed, 2]).spawn(4)
    net = trainings.network(
        hidden, found.x_train.shape[1:], len(found.classes), "relu", 0.0, int(weights.generate_state(1)[0])
    )
    place = find_device(device)
    parts = {
        name: Examples((getattr(found, f"x_{name}"), getattr(found, f"y_{name}")), name, place, torch.float32)
        for name in ("train", "valid", "test")
    }
    base = parts["train"].n
    drawn = torch.from_numpy(np.random.default_rng(draws).integers(base, size=n))
    settings = dpsgd.DPSGD(
        steps=most_steps,
        sample_rate=batch / base,  # the engine divides by sample_rate * base, which is the batch size wanted
        learning_rate=learning_rate,
        noise_multiplier=noise_multiplier,
        max_grad_norm=1.0,
    )
    generator = torch.Generator(place).manual_seed(int(noise.generate_state(1)[0]))
    rng = np.random.default_rng(batches)
    engine = Engine(net.to(place).train(), settings, parts["train"], examples.cross_entropy, generator)
    reached, accuracy = None, 0.0
    for step in range(1, most_steps + 1):
        engine.step(drawn[torch.from_numpy(examples.poisson(n, batch / n, rng))].to(place))
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


ACCOUNTANTS = ("paper", "rdp", "pld")


def epsilon(noise_multiplier, sample_rate, steps, delta, accountant="paper"):
    """Epsilon under one of :data:`ACCOUNTANTS`; add or remove one record, Poisson batches. Arrays broadcast.

    "paper": Rényi DP on the orders of tensorflow-privacy, with the improved conversion, which is what reproduces the
    paper's printed budgets; "rdp" and "pld": of
    :mod:`dplib.accounting`, with more orders and without any.
    """
    if accountant not in ACCOUNTANTS:
        raise ParameterError(f"accountant = {accountant!r} is not allowed: one of {', '.join(ACCOUNTANTS)}.")
    if accountant in ("rdp", "pld"):
        return accounting.epsilon(noise_multiplier, sample_rate, steps, delta, accountant)
    return rdp.epsilon(noise_multiplier, sample_rate, steps, delta, "improved", TOOL_ORDERS)


def epsilon_of_steps(noise_multiplier, sample_rate, steps, delta, accountant="paper", points: int = 3) -> np.ndarray:
    """:func:`epsilon` for many numbers of steps (k,) at one setting.

    "pld" is slow, so it is computed at ``points`` numbers of steps between the least and the most and interpolated in
    logarithms in between, along which epsilon is nearly straight (within 0.5%, as the tests check).
    """
    steps = np.asarray(steps, dtype=float)
    if accountant != "pld":
        return np.asarray(epsilon(noise_multiplier, sample_rate, steps, delta, accountant))
    knots = np.unique(np.geomspace(steps.min(), steps.max(), points).round())
    values = [epsilon(noise_multiplier, sample_rate, knot, delta, "pld") for knot in knots]
    return np.exp(np.interp(np.log(steps), np.log(knots), np.log(np.maximum(values, 1e-300))))


def fit(n, values, least_alpha: float = 0.0) -> tuple[float, float]:
    """alpha and beta of epsilon = ln(alpha + beta / n), by least squares on epsilon.

    Args:
        n: (k,) sizes, k >= 3. values: (k,) budgets, finite.
        least_alpha: alpha is at least this; the paper has 1, below which the curve is negative for large n.
    """
    n, values = np.asarray(n, dtype=float), np.asarray(values, dtype=float)
    if n.ndim != 1 or n.shape != values.shape or len(n) < 3 or not np.isfinite(values).all():
        raise ParameterError("n and values are not allowed: k >= 3 sizes, and as many finite budgets.")
    slope, intercept = np.polyfit(1 / n, np.exp(values), 1)
    # Logarithms keep the argument positive, and bring 1/n and 1 to one scale.
    start = np.log([max(intercept - least_alpha, 1e-3), max(slope, 1e-3)])

    def residuals(logs):
        return np.log(least_alpha + np.exp(logs[0]) + np.exp(logs[1]) / n) - values

    found = np.exp(optimize.least_squares(residuals, start, xtol=1e-14, ftol=1e-14, gtol=1e-14).x)
    return least_alpha + float(found[0]), float(found[1])


def bootstrap_fit(n, values, draws: int, rng: np.random.Generator, least_alpha: float = 0.0) -> np.ndarray:
    """(draws, 2) of alpha and beta from means over runs that are drawn again, with replacement, at each size.

    Args:
        n: (k,). values: (k, r), the budget of each of r runs. least_alpha: of :func:`fit`.
    """
    values = np.asarray(values, dtype=float)
    k, runs = values.shape
    picks = rng.integers(runs, size=(draws, k, runs))
    return np.array([fit(n, np.take_along_axis(values, pick, 1).mean(1), least_alpha) for pick in picks])


def least_relative_error(n, values, least_alpha: float = 0.0) -> float:
    """The largest relative error of that alpha and beta for which it is least: no curve of the form comes nearer.

    Args: as :func:`fit`.
    """
    n, values = np.asarray(n, dtype=float), np.asarray(values, dtype=float)
    alpha, beta = fit(n, values, least_alpha)

    def worst(logs):
        return np.abs(np.log(least_alpha + np.exp(logs[0]) + np.exp(logs[1]) / n) / values - 1).max()

    start = np.log([max(alpha - least_alpha, 1e-6), beta])
    tight = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    for _ in range(3):  # the simplex starts anew where it got stuck on a kink
        start = optimize.minimize(worst, start, method="Nelder-Mead", options=tight).x
    return float(worst(start))


def size_for(level, noise_multiplier, batch, steps, delta, accountant="paper", between=None) -> float:
    """The number of records at which a training spends ``level``, by the accountant itself: no curve is interpolated.

    Args:
        level: the budget. noise_multiplier, batch: of the training.
        steps: function of n that gives its number of steps.
        accountant: of :func:`epsilon`. between: numbers of records to look between, ``batch`` and 1e9 by default.

    Returns:
        nan where no n between them spends so much, or so little.
    """

    def excess(log_n):
        n = math.exp(log_n)
        return float(epsilon(noise_multiplier, min(1.0, batch / n), round(steps(n)), delta, accountant)) - level

    ends = [math.log(n) for n in between or (batch, 1e9)]
    if excess(ends[0]) < 0 or excess(ends[1]) > 0:
        return math.nan
    return math.exp(optimize.brentq(excess, *ends, xtol=1e-6))
