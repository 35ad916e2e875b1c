"""The numbers behind the dials: what their closed forms take, and what the chapters' runs lead to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd

from book.evidence import plans
from dplib import gmm, mechanisms
from papers.architecture import crossover_model_rows, crossover_rows
from papers.screening import accounts, one_update

# ---- Chapter 1: private Gaussian mixtures ----

DIMENSIONS = (20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 7000, 10_000)
DELTA = 1e-4
N_PER_CLASS = 30
DISTANCE = 2.0
SIGNALS = {"dense": None, "sparse": 20}  # features that differ between the classes
NOISES = ("none", "unit", "L2", "L1")  # as in gmm_experiments.NOISES
SEED = 1


def mixture(signal: str, p: int) -> gmm.Mixture:
    """The mixture of chapter 1 with p features, without noise."""
    return gmm.two_classes(p, N_PER_CLASS, DISTANCE, SIGNALS[signal])


@cache
def scale(signal: str, p: int, noise: str) -> float:
    """Standard deviation of the noise in units of ln(1/delta)/epsilon: 0, 1, or twice the norm C_p of Definition 3."""
    if noise in ("none", "unit"):
        return float(noise == "unit")
    generator = np.random.default_rng([SEED, p])
    return 2 * float(gmm.max_norms(mixture(signal, p), int(noise[1]), 10, generator).mean())


def gmm_error(signal: str, noise: str, p: int, epsilon: float) -> float:
    """Mean error on noisy test points, to first order (:func:`gmm.predicted_error`)."""
    noisy = replace(mixture(signal, p), noise_sd=float(mechanisms.paper_sigma(epsilon, DELTA, scale(signal, p, noise))))
    return gmm.predicted_error(noisy)


# ---- Chapter 4: two networks and their crossing ----


@dataclass(frozen=True)
class TwoModels:
    """A simple model and a complex one on real data: test accuracy (%) and its 95% interval, (2, k), at k budgets.

    Attributes:
        crossing: estimate and the ends of its interval; 0 and inf where it leaves the range.
        leads: who leads beyond chance at each budget, 1 the simple one, -1 the complex one; None: not tested.
    """

    name: str
    models: tuple[str, str]
    epsilon: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    crossing: tuple[float, float, float]
    leads: tuple[int, ...] | None

    def at(self, epsilon: float | Sequence[float]) -> np.ndarray:
        """Mean accuracies at budgets, shape (2, ...): straight lines in log epsilon; nan outside the range."""
        x = np.log(self.epsilon)
        return np.array([np.interp(np.log(epsilon), x, m, left=np.nan, right=np.nan) for m in self.mean])

    def verdict(self, epsilon: float) -> int:
        """1 below the interval of the crossing, -1 above it, 0 inside."""
        return int(epsilon < self.crossing[1]) - int(epsilon > self.crossing[2])


_FCNS = ("small FCN (PAW)", "large FCN (STW)")
_SWEEPS = {"longer": "MNIST, 1,200 steps", "mnist": "MNIST, 400 steps", "fashion": "Fashion-MNIST, 400 steps"}


@cache
def pairs() -> tuple[TwoModels, ...]:
    """Every pair of curves of chapter 4 with four budgets or more: Figure 7's networks, and the models of Figure 8."""
    study = plans.load("04")
    seven, (eight, crossings) = crossover_rows.pairs(study), crossover_model_rows.three(study)
    panels = [(name, _FCNS, seven[part].curves.values(), seven[part].crossing, seven[part].leads)
             for part, name in _SWEEPS.items()]  # fmt: skip
    panels += [("MNIST, 400 steps of batch 256", models, [eight[model] for model in models], crossing, None)
              for models, (crossing, _) in crossings.items()]  # fmt: skip
    return tuple(
        TwoModels(name, models, next(iter(curves))["epsilon"].to_numpy(),
             *(np.stack([curve[end] for curve in curves]) for end in ("mean", "low", "high")), crossing, leads)
        for name, models, curves, crossing, leads in panels
    )  # fmt: skip


@cache
def budgets() -> tuple[float, ...]:
    """Positions of chapter 4's slider: round numbers from 0.1 to 10^7, and every budget that was run."""
    few = (0.1, 0.15, 0.2, 0.3, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
    many = tuple(m * 10.0**k for k in range(1, 7) for m in (1, 3))
    return tuple(sorted({*few, *many, *(float(e) for pair in pairs() for e in pair.epsilon)}))


# ---- Chapter 8: randomised response with a prior ----

CLASSES = 10
SHAPES = ("long tail", "one favourite", "two candidates")


def prior(shape: str, sharpness: float) -> np.ndarray:
    """A prior over 10 labels, the likeliest first: uniform at sharpness 0, nearly certain of its first labels at 1.

    Long tail: proportional to rank^(-4 sharpness). One favourite, two candidates: these labels share what sharpness
    moves from the others, up to 99%.
    """
    if shape == "long tail":
        weights = np.arange(1, CLASSES + 1) ** (-4.0 * sharpness)
        return weights / weights.sum()
    first = {"one favourite": 1, "two candidates": 2}[shape]
    mass = (1 - sharpness) * first / CLASSES + sharpness * 0.99
    return np.where(np.arange(CLASSES) < first, mass / first, (1 - mass) / (CLASSES - first))


# ---- Chapter 12: what screening leaks ----


@cache
def screened() -> dict[str, pd.DataFrame]:
    """Chapter 12's published trainings, {setting of paper D: a row for each push of the other records}.

    Columns as of :func:`papers.screening.leak_runs.training`, among them "passing", the probability that a candidate
    passes the test, "rate", accepted over drawn, and epsilon as "claimed", "exact", and of "all" noisy gradients.
    """
    return {name: pd.DataFrame(rows) for name, rows in plans.load("12").read("trainings").items()}


LIMITS = tuple(range(21))


@cache
def smallest_example() -> tuple[np.ndarray, float, float]:
    """Epsilon of one accepted update: exact at each of LIMITS, exact without screening, and as claimed by Lemma 2.

    The chapter's first example: noise multiplier 1, full batches, a steep linear energy on public data that the record
    pushes down, delta 1e-5.
    """
    up = one_update.threshold(0.0)
    spent = [one_update.epsilon(*one_update.pair(1.0, up, limit), accounts.DELTA) for limit in LIMITS]
    plain = float(mechanisms.gaussian_epsilon(1.0, 1.0, accounts.DELTA))
    return np.array(spent), plain, accounts.epsilon(1, 1.0, 1.0)[0]
