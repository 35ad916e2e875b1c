"""Standard against privacy-aware workflow (paper B, Sections V and VI): which networks, at which budgets, in one table.

A *sweep* trains a few models at several budgets. The learning rate of each (model, budget) is chosen by validation
accuracy on tuning seeds; then the test accuracy of the last iterate is reported on other seeds, the same ones for every
model, so that models may be compared in pairs. Neither the choice of the rate nor the principal components are
accounted for.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dplib import checks, data, stats, study, trainings
from dplib.checks import ParameterError

TUNING_SEED = 1000  # tuning seeds start here; reporting seeds are 0, 1, 2, ...
NON_PRIVATE = math.inf  # the "epsilon" of plain SGD in all tables

Job = dict


@dataclass(frozen=True)
class Pair:
    """Two networks for one data set: the simple one from the privacy-aware workflow, the complex from the standard one.

    Attributes:
        simple, complex: as ``trainings.network`` takes them.
        features: as ``trainings.task`` takes them.
        row: the rows ``B.table1.<row>-paw`` and ``-stw`` of the ledger; None for data that the paper does not have.
        stands_for: the paper's data set where this is another one.
        epsilon: the budget printed for the pair. delta: likewise. dropout: of networks given by their widths.
        n_train: records to train on, where the paper takes a part.
    """

    simple: str | list[int]
    complex: str | list[int]
    features: str
    row: str | None = None
    stands_for: str | None = None
    epsilon: float | None = None
    delta: float = 1e-5
    dropout: float = 0.0
    n_train: int | None = None


SIMPLE, COMPLEX = "simple (PAW)", "complex (STW)"

PAIRS = {
    "digits": Pair("fcn-mnist-paw", "fcn-mnist-stw", "flat", stands_for="MNIST"),  # 8x8 pixels: 64 inputs as well
    "mnist": Pair("fcn-mnist-paw", "fcn-mnist-stw", "pca-64", "fcn-mnist", epsilon=2.11),
    "fashion-mnist": Pair(
        "fcn-fashion-mnist-paw", "fcn-fashion-mnist-stw", "pca-64", "fcn-fashion-mnist", epsilon=2.11
    ),
    "cifar10-jpeg": Pair("fcn-cifar10-paw", "fcn-cifar10-stw", "pca-300", "fcn-cifar10", "CIFAR-10", 2.34),
    "cifar10": Pair("fcn-cifar10-paw", "fcn-cifar10-stw", "pca-300", "fcn-cifar10", epsilon=2.34),
    "svhn": Pair("fcn-svhn-paw", "fcn-svhn-stw", "pca-300", "fcn-svhn", "SVHN in grey", 2.58, n_train=42_000),
    "location": Pair([128], [1024, 256], "image", "fcn-purchase100", "Purchase-100", 1.54, 1e-7, 0.2),
}

# Logistic regression against FCN against CNN (Figure 8), and the three CNNs of Table IV: model and features on MNIST.
LOGISTIC, FCN, STW_FCN = "logistic regression", "PAW FCN", "STW FCN"
CNN, LENET, STW_CNN = "PAW CNN", "LeNet-5", "STW CNN"
MODELS: dict[str, tuple[str | list[int], str]] = {
    LOGISTIC: ([], "pca-64"),
    FCN: ("fcn-mnist-paw", "pca-64"),
    STW_FCN: ("fcn-mnist-stw", "pca-64"),
    CNN: ("cnn-mnist-paw", "image"),
    LENET: ("lenet5-mnist", "image"),
    STW_CNN: ("cnn-mnist-stw", "image"),
}


@dataclass(frozen=True)
class Settings:
    """How a sweep tunes and repeats.

    Attributes:
        rates: learning rates to start from with clipping, increasing; ``study.tune`` extends them at the edges.
        sgd_rates: likewise for plain SGD, whose gradients are not clipped.
        seeds: number of reporting seeds, 0, 1, ... tuning_seeds: number of tuning seeds, from 1000 on.
        extensions: how often a grid may grow. workers: processes.
    """

    rates: Sequence[float]
    sgd_rates: Sequence[float]
    seeds: int = 5
    tuning_seeds: int = 1
    extensions: int = 2
    workers: int = 1


@dataclass(frozen=True)
class Sweep:
    """What a sweep measured.

    Attributes:
        runs: one row a reported run: model, epsilon (inf: SGD), seed, rate, validation, test, noise_multiplier,
            parameters, diverged.
        tuning: one row a rate tried: model, epsilon, rate, validation, chosen, at_edge.
        cpu_seconds: of every run behind it, whenever it ran.
    """

    runs: pd.DataFrame
    tuning: pd.DataFrame
    cpu_seconds: float

    def accuracies(self, model: str, part: str = "test") -> tuple[np.ndarray, np.ndarray]:
        """Private budgets in increasing order (k,), and accuracies (seeds, k) in the order of the seeds."""
        own = self.runs[(self.runs.model == model) & (self.runs.epsilon < NON_PRIVATE)]
        table = own.pivot(index="seed", columns="epsilon", values=part).sort_index().sort_index(axis=1)
        if table.empty:
            raise ParameterError(f"model = {model!r} is not in this sweep: it has {', '.join(self.models)}.")
        return table.columns.to_numpy(float), table.to_numpy(float)

    def at(self, model: str, epsilon: float | None, part: str = "test") -> np.ndarray:
        """Accuracies (seeds,) of a model at one budget; None: without privacy."""
        own = self.runs[(self.runs.model == model) & (self.runs.epsilon == _number(epsilon))].sort_values("seed")
        if own.empty:
            raise ParameterError(f"{model} at epsilon = {epsilon} is not in this sweep.")
        return own[part].to_numpy(float)

    def parameters(self, model: str) -> int:
        """Size of a model."""
        return int(self.runs[self.runs.model == model].parameters.iloc[0])

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(self.runs.model))

    @property
    def epsilons(self) -> list[float]:
        """Private budgets, increasing."""
        return sorted(e for e in set(self.runs.epsilon) if e < NON_PRIVATE)

    def compared(self, a: str, b: str, epsilon: float | None) -> stats.Comparison:
        """Paired comparison of the test accuracies of ``a`` and ``b``, in percentage points."""
        return stats.paired(100 * self.at(a, epsilon), 100 * self.at(b, epsilon))

    def summary(self) -> pd.DataFrame:
        """Mean test accuracy in percent with its 95% interval for each model and budget, and the rate chosen."""
        rows = []
        for (model, epsilon), own in self.runs.groupby(["model", "epsilon"], sort=False):
            mean = stats.mean_interval(100 * own.test)
            rows.append(
                [model, epsilon, mean.value, mean.low, mean.high, own.rate.iloc[0], int(own.parameters.iloc[0])]
            )
        columns = ["model", "epsilon", "mean", "low", "high", "rate", "parameters"]
        return pd.DataFrame(rows, columns=columns).sort_values(["model", "epsilon"], ignore_index=True)


def pair_models(dataset: str, batch: int, steps: int, delta: float | None = None) -> dict[str, Job]:
    """The two networks of a data set as jobs without budget, rate and seed; the same batch and steps for both."""
    checks.one_of(*PAIRS).check("dataset", dataset)
    pair = PAIRS[dataset]
    shared = {
        "dataset": dataset,
        "features": pair.features,
        "batch": int(batch),
        "steps": int(steps),
        "delta": float(pair.delta if delta is None else delta),
    }
    shared |= {name: getattr(pair, name) for name in ("dropout", "n_train") if getattr(pair, name)}
    return {SIMPLE: {**shared, "model": pair.simple}, COMPLEX: {**shared, "model": pair.complex}}


def other_models(names: Sequence[str], dataset: str, batch: int, steps: int, delta: float) -> dict[str, Job]:
    """Models of :data:`MODELS` by name, as jobs likewise; "digits" has 64 pixels in place of 64 components."""
    jobs = {}
    for name in names:
        checks.one_of(*MODELS).check("model", name)
        model, features = MODELS[name]
        if dataset == "digits":
            if features == "image":
                raise ParameterError(f"{name} does not take images of 8 x 8 pixels: dataset must be mnist.")
            features = "flat"
        jobs[name] = {
            "dataset": dataset,
            "features": features,
            "batch": int(batch),
            "steps": int(steps),
            "delta": float(delta),
            "model": model,
        }
    return jobs


def widths_models(widths: Sequence[int], dataset: str, batch: int, steps: int, delta: float) -> dict[str, Job]:
    """Perceptrons with one hidden layer of so many units and dropout as in the paper (Figure 1), by their width."""
    shared = pair_models(dataset, batch, steps, delta)[SIMPLE]
    return {f"{int(width)} units": {**shared, "model": [int(width)], "dropout": 0.2} for width in widths}


def sweep(models: Mapping[str, Job], epsilons: Sequence[float | None], settings: Settings) -> Sweep:
    """Tune and report every model at every budget (None: plain SGD without clipping or noise).

    Raises:
        ParameterError, DataError, study.StudyError: as the trainings do.
    """
    budgets = [None if e is None or e == NON_PRIVATE else float(e) for e in dict.fromkeys(epsilons)]
    inputs = {name: data.load(name).checksum for name in {job["dataset"] for job in models.values()}}
    shared = {"workers": settings.workers, "inputs": inputs}
    tuning_seeds = [TUNING_SEED + i for i in range(settings.tuning_seeds)]
    tuned: dict[tuple[str, float], study.Tuned] = {}
    for private in (True, False):
        keys = [(name, e) for e in budgets for name in models if (e is not None) == private]
        rates = [float(r) for r in (settings.rates if private else settings.sgd_rates)]
        cells = [_cell(models[name], e) for name, e in keys]
        if cells:
            found = study.tune(
                trainings.train, cells, rates, seeds=tuning_seeds, extensions=settings.extensions, **shared
            )
            tuned |= {(name, _number(e)): one for (name, e), one in zip(keys, found, strict=True)}
    tries = [(key, rate, seed) for key, one in tuned.items() for rate in one.tried for seed in tuning_seeds]
    old = _runs([{**tuned[key].cell, "learning_rate": rate, "seed": seed} for key, rate, seed in tries], shared)
    reported = [(key, seed) for key in tuned for seed in range(settings.seeds)]
    jobs = [{**tuned[key].cell, "learning_rate": tuned[key].rate, "seed": seed} for key, seed in reported]
    new = _runs(jobs, shared)
    runs = [_row(*key, seed, tuned[key].rate, result) for (key, seed), result in zip(reported, new, strict=True)]
    tuning = [
        [*key, rate, score, rate == one.rate, one.at_edge]
        for key, one in tuned.items()
        for rate, score in one.tried.items()
    ]
    columns = ["model", "epsilon", "rate", "validation", "chosen", "at_edge"]
    spent = sum(result["cpu_seconds"] for result in [*old, *new])
    return Sweep(pd.DataFrame(runs), pd.DataFrame(tuning, columns=columns), float(spent))


def at_rates(models: Mapping[str, Job], epsilon: float, rates: Sequence[float], settings: Settings) -> Sweep:
    """The reported runs of every model at one budget and at *given* rates: what happens without tuning (Figure 9)."""
    inputs = {name: data.load(name).checksum for name in {job["dataset"] for job in models.values()}}
    keys = [(name, float(rate), seed) for name in models for rate in rates for seed in range(settings.seeds)]
    jobs = [{**_cell(models[name], float(epsilon)), "learning_rate": rate, "seed": seed} for name, rate, seed in keys]
    results = _runs(jobs, {"workers": settings.workers, "inputs": inputs})
    rows = [_row(name, epsilon, seed, rate, found) for (name, rate, seed), found in zip(keys, results, strict=True)]
    return Sweep(pd.DataFrame(rows), pd.DataFrame(), float(sum(found["cpu_seconds"] for found in results)))


def _cell(job: Job, epsilon: float | None) -> Job:
    return {**job, "epsilon": epsilon, "max_grad_norm": None if epsilon is None else 1.0}


def _runs(jobs: Sequence[Job], shared: Mapping) -> list[dict]:
    return study.run(trainings.train, jobs, what="trainings", **shared)


def _number(epsilon: float | None) -> float:
    return NON_PRIVATE if epsilon is None else float(epsilon)


def _row(model: str, epsilon: float, seed: int, rate: float, result: Mapping) -> dict:
    """A run as a row; one that diverged counts as 0, so that it cannot pass unnoticed."""
    diverged = result["test"] is None
    return {
        "model": model,
        "epsilon": _number(epsilon),
        "seed": seed,
        "rate": rate,
        "validation": 0.0 if diverged else result["validation"],
        "test": 0.0 if diverged else result["test"],
        "noise_multiplier": result["noise_multiplier"],
        "parameters": result["parameters"],
        "diverged": diverged,
    }
