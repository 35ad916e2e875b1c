"""The runs of chapter 9 on images: what is tuned, on which labels, and the main comparison over budgets and stages."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from dplib import study
from dplib.labels import jobs as label_jobs

Result = dict[str, Any]
TUNING_SEED = 1000  # of split, answers and weights in tuning: no seed of a reported run


@dataclass
class Lab:
    """What all runs share; counts the processor time that they took when they ran.

    Attributes:
        checksums: of each data set. network, n_train: as in :func:`dplib.labels.jobs.train`.
        training: arguments of :func:`dplib.labels.training.fit` but for what is tuned. device: cpu or cuda.
        first_share: of the data in stage 1; the other stages share the rest equally.
        tuned: what :func:`tune` chose.
    """

    checksums: Mapping[str, str]
    network: str
    training: Mapping[str, Any]
    first_share: float
    n_train: int | None = None
    workers: int = 1
    device: str = "cpu"
    tuned: dict[tuple[str, float | None], "Choice"] = field(default_factory=dict)
    cpu_seconds: float = 0.0

    def run(self, jobs: Sequence[Mapping[str, Any]], what: str) -> list[Result]:
        """Results of ``labels.jobs.train`` in the order of the jobs."""
        found = []
        for name in dict.fromkeys(job["dataset"] for job in jobs):
            own = [job for job in jobs if job["dataset"] == name]
            inputs = {name: self.checksums[name]}
            found += study.run(label_jobs.train, own, workers=self.workers, inputs=inputs, what=what)
        places = [i for name in dict.fromkeys(j["dataset"] for j in jobs)
                  for i, job in enumerate(jobs) if job["dataset"] == name]  # fmt: skip
        ordered = [result for _, result in sorted(zip(places, found, strict=True), key=lambda pair: pair[0])]
        self.cpu_seconds += sum(result["cpu_seconds"] for result in ordered)
        return ordered

    def job(self, dataset: str, epsilon: float | None, stages: int, seed: int, **changes: Any) -> dict[str, Any]:
        """A run with what was tuned for the nearest budget."""
        choice = self.choice(dataset, epsilon)
        given = {
            "dataset": dataset,
            "network": self.network,
            "epsilon": epsilon,
            "shares": shares(stages, self.first_share),
            "temperature": choice.temperature,
            "mixup": choice.mixup,
            "training": {**self.training, "learning_rate": choice.learning_rate},
            "seed": seed,
            "n_train": self.n_train,
        }
        return given | self.where() | changes

    def where(self) -> dict[str, str]:
        """The device as an argument; on a CPU none, which is the default."""
        return {} if self.device == "cpu" else {"device": self.device}

    def choice(self, dataset: str, epsilon: float | None) -> "Choice":
        """What was tuned at the nearest budget (None: the largest one; of two as near, the smaller)."""
        known = [one for name, one in self.tuned if name == dataset]
        nearest = max(known) if epsilon is None else min(sorted(known), key=lambda one: abs(one - epsilon))
        return self.tuned[dataset, nearest]


@dataclass(frozen=True)
class Choice:
    """Settings chosen on validation examples with randomised labels.

    Attributes:
        first, second: the candidates of LP-1ST (learning rate, mixup) and LP-2ST (temperature), each with its
            estimated validation accuracy ("randomised") and the true one ("validation"), in percent.
        lost: true validation accuracy of the best candidate less that of the chosen one, for LP-1ST and LP-2ST.
    """

    learning_rate: float
    mixup: float
    temperature: float
    first: pd.DataFrame
    second: pd.DataFrame
    lost: tuple[float, float]


def shares(stages: int, first: float) -> list[float]:
    """Shares of the data: ``first`` for stage 1, the rest equally for the others."""
    return [1.0] if stages == 1 else [first, *[round((1 - first) / (stages - 1), 6)] * (stages - 1)]


def tune(
    lab: Lab,
    dataset: str,
    epsilon: float,
    *,
    rates: Sequence[float],
    mixups: Sequence[float],
    temperatures: Sequence[float],
    n: int | None,
    validation: int,
) -> Choice:
    """Learning rate and mixup by LP-1ST, then the temperature by LP-2ST; each by the randomised validation labels.

    All candidates of LP-1ST are trained on one and the same randomised answers (one seed), and scored on one set of
    answers: one question for each label. LP-2ST asks the labels of its stage 2 anew for each temperature.
    """
    common = {"dataset": dataset, "network": lab.network, "epsilon": epsilon, "seed": TUNING_SEED, "n_train": n}
    common |= {"validation": validation} | lab.where()
    first_jobs = [
        common | {"mixup": mixup, "training": {**lab.training, "learning_rate": rate}}
        for rate in rates
        for mixup in mixups
    ]
    first = _scored(lab, first_jobs, [{"learning rate": j["training"]["learning_rate"], "mixup": j["mixup"]}
                                      for j in first_jobs])  # fmt: skip
    best = first.loc[first["randomised"].idxmax()]
    chosen = {
        "mixup": float(best["mixup"]),
        "training": {**lab.training, "learning_rate": float(best["learning rate"])},
    }
    second_jobs = [common | chosen | {"shares": shares(2, lab.first_share), "temperature": one} for one in temperatures]
    second = _scored(lab, second_jobs, [{"temperature": one} for one in temperatures])
    warm = second.loc[second["randomised"].idxmax()]
    lost = tuple(float(t["validation"].max() - b["validation"]) for t, b in ((first, best), (second, warm)))
    choice = Choice(float(best["learning rate"]), float(best["mixup"]), float(warm["temperature"]), first, second, lost)
    lab.tuned[dataset, epsilon] = choice
    return choice


def compare(
    lab: Lab, dataset: str, epsilons: Sequence[float | None], stages: Sequence[int], seeds: int, curve_at: float
) -> pd.DataFrame:
    """The main comparison: one row for each run, see :func:`row`. Without a budget (None) one stage is enough.

    Seed s of every method has the same random order of the examples.
    """
    cells = [(t, e, s) for s in range(seeds) for e in epsilons for t in stages if t == 1 or e is not None]
    jobs = [lab.job(dataset, e, t, s, curve=e == curve_at and t <= 2) for t, e, s in cells]
    return pd.DataFrame([row(job, result) for job, result in zip(jobs, lab.run(jobs, "trainings"), strict=True)])


def row(job: Mapping[str, Any], result: Result) -> dict[str, Any]:
    """A run as a row: accuracies and shares in percent; epsilon inf where there is no budget."""
    last = result["stages"][-1]
    return {
        "dataset": job["dataset"],
        "epsilon": math.inf if job["epsilon"] is None else job["epsilon"],
        "stages": len(job["shares"]),
        "seed": job["seed"],
        "accuracy": 100 * result["accuracy"],
        "stage 1": 100 * result["stages"][0]["evaluation"]["top"][0],
        "top 2 of stage 1": 100 * result["stages"][0]["evaluation"]["top"][1],
        "mean k": last["mean_k"],
        "right": 100 * last["right"],
        "covered": 100 * last["covered"],
        "wrong": 100 * last["wrong"],
        "wrong before": _percent(last["wrong_before"]),
        "wrong after": _percent(last["wrong_after"]),
        "kept": 100 * last["kept"] / last["reused"] if last["reused"] else math.nan,
        "curves": [stage["evaluation"].get("curve") for stage in result["stages"]],
    }


def _scored(lab: Lab, jobs: Sequence[Mapping[str, Any]], names: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    results = lab.run(jobs, "tuning runs")
    return pd.DataFrame(
        [
            {**name, "randomised": 100 * result["randomised"], "validation": 100 * result["accuracy"]}
            for name, result in zip(names, results, strict=True)
        ]
    )


def _percent(share: float | None) -> float:
    return math.nan if share is None else 100 * share
