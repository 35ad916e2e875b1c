"""The runs behind Table 1 and Figures 1(a), 3, 4 and 5 of paper C: what is tuned, what is reported.

Settings are chosen on training images that are held out, by their true labels, as the paper's were: no epsilon of the
tables covers the choice. Reported runs use all training images, other seeds, and the test part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from dplib import study
from dplib.labels import cifar_jobs, maps
from dplib.labels.experiments import shares

ABLATIONS = {  # each changes one thing of Appendix B's recipe
    "as in the paper": {},
    "stage 2 starts afresh": {"warm_start": False},
    "stage-1 labels not reused": {"reuse": False},
    "stage-1 labels not filtered": {"filtered": False},
    "no prior": {"temperature": float("inf")},
    "prior of labels, not answers": {"unmix": True, "temperature": 1.0},
}


@dataclass(frozen=True)
class Bench:
    """What all runs share.

    Attributes:
        common: arguments of :func:`dplib.labels.cifar_jobs.train` but budget, shares, settings, seed and variants.
        training: arguments of :func:`dplib.labels.training.fit` but learning rate and mixup.
        share: of stage 1. inputs: data-set name to checksum.
    """

    common: Mapping[str, Any]
    training: Mapping[str, Any]
    share: float
    inputs: Mapping[str, str]
    workers: int = 1

    def run(self, jobs: Sequence[Mapping[str, Any]], what: str) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
        """The results, as a table and as they are."""
        results = study.run(cifar_jobs.train, jobs, workers=self.workers, inputs=self.inputs, what=what)
        return maps.frame(jobs, results), results

    def job(
        self, epsilon: float | None, parts: Sequence[float], chosen: Mapping[str, float], seed: int, **more
    ) -> dict:
        """One run with the learning rate and mixup that were chosen; equal in all stages."""
        settings = {**self.training, "learning_rate": chosen["learning_rate"], "mixup": chosen["mixup"]}
        return {**self.common, "epsilon": epsilon, "shares": list(parts), "settings": settings, "seed": seed, **more}


def tune(
    bench: Bench,
    epsilons: Sequence[float | None],
    rates: Sequence[float],
    mixups: Sequence[float],
    temperatures: Sequence[float],
    *,
    seed: int,
    validation: int,
) -> pd.DataFrame:
    """Learning rate and mixup by LP-1ST, then the temperature by LP-2ST with them; one row for each budget.

    Args:
        seed: of all tuning runs, and of no other. validation: training images that are held out.

    Returns:
        Indexed by "epsilon" (inf without privacy): "learning_rate", "mixup", "temperature", and the validation
        accuracies of LP-1ST ("one") and LP-2ST ("two"; missing without privacy).
    """
    rows = {}
    for epsilon in epsilons:
        tried = [{"learning_rate": rate, "mixup": mixup} for rate, mixup in product(rates, mixups)]
        jobs = [bench.job(epsilon, [1.0], chosen, seed, validation=validation) for chosen in tried]
        found = bench.run(jobs, "tuning, one stage")[0]["final"]
        row = {**tried[int(found.argmax())], "temperature": 1.0, "one": found.max(), "two": np.nan}
        if epsilon is not None:
            variants = [{"temperature": t} for t in temperatures]
            job = bench.job(epsilon, shares(2, bench.share), row, seed, validation=validation, variants=variants)
            found = bench.run([job], "tuning, two stages")[0]["final"]
            row |= {"temperature": temperatures[int(found.argmax())], "two": found.max()}
        rows[np.inf if epsilon is None else epsilon] = row
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("epsilon")


def compare(
    bench: Bench,
    tuned: pd.DataFrame,
    stages: Sequence[int],
    seeds: Sequence[int],
    *,
    detail_at: float,
    more_stages: Sequence[int] = (),
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """LP-MST for each budget of ``tuned`` and number of stages; one stage without privacy.

    Args:
        detail_at: the budget with learning curves (Figure 3), and with ``more_stages`` (Figure 1a).

    Returns:
        The table of :func:`dplib.labels.maps.frame`; and the curves of LP-1ST and LP-2ST at ``detail_at``: columns
        "method" (LP-1ST, stage 1, stage 2), "epoch" (stage 2's go on after stage 1's), "seed", and "top_1" and "top_2",
        test accuracies in percent.
    """
    jobs = []
    for seed in seeds:  # whole seeds first: a study that is interrupted leaves complete comparisons
        for epsilon, chosen in tuned.iterrows():
            counts = [1] if np.isinf(epsilon) else [*stages, *(more_stages if epsilon == detail_at else [])]
            budget = None if np.isinf(epsilon) else float(epsilon)
            for count in counts:
                variants = [{"temperature": float(chosen["temperature"])}] if count > 1 else [{}]
                more = {"curve": True} if epsilon == detail_at and count <= 2 else {}
                jobs.append(bench.job(budget, shares(count, bench.share), chosen, seed, variants=variants, **more))
    table, results = bench.run(jobs, "stages")
    rows = []
    for job, result in zip(jobs, results, strict=True):
        if job.get("curve"):
            rows += _curve(result["variants"][0], job["seed"])
    return table, pd.DataFrame(rows)


def share_map(
    bench: Bench,
    chosen: Mapping[str, float],
    epsilon: float,
    first_shares: Sequence[float],
    temperatures: Sequence[float],
    seeds: Sequence[int],
) -> pd.DataFrame:
    """Figures 4(a) and 5: LP-2ST over the share of stage 1 and the temperature; temperatures share a stage 1."""
    variants = [{"temperature": t} for t in temperatures]
    jobs = [
        bench.job(epsilon, shares(2, share), chosen, seed, variants=variants, top=10)
        for seed in seeds
        for share in first_shares
    ]
    return bench.run(jobs, "shares and temperatures")[0]


def mixup_map(
    bench: Bench, chosen: Mapping[str, float], epsilon: float, mixups: Sequence[float], seeds: Sequence[int]
) -> pd.DataFrame:
    """Figure 4(b): LP-2ST over the mixup coefficients of both stages; columns "mixup_1" and "mixup_2" are added."""
    base = {**bench.training, "learning_rate": chosen["learning_rate"]}
    pairs, jobs = [], []
    for seed, one in product(seeds, mixups):
        settings = [[{**base, "mixup": one}, {**base, "mixup": two}] for two in mixups]
        variants = [{"temperature": float(chosen["temperature"]), "settings": both} for both in settings]
        job = bench.job(epsilon, shares(2, bench.share), chosen, seed, variants=variants)
        jobs.append(job | {"settings": settings[0]})
        pairs += [(one, two) for two in mixups]
    table = bench.run(jobs, "mixup")[0]
    table[["mixup_1", "mixup_2"]] = pairs
    return table


def ablations(bench: Bench, chosen: Mapping[str, float], epsilon: float, seeds: Sequence[int]) -> pd.DataFrame:
    """Appendix B's recipe and changes of it, :data:`ABLATIONS`, all from one stage 1; the column "change" is added."""
    usual = {"temperature": float(chosen["temperature"])}
    variants = [usual | change for change in ABLATIONS.values()]
    jobs = [bench.job(epsilon, shares(2, bench.share), chosen, seed, variants=variants) for seed in seeds]
    table = bench.run(jobs, "ablations")[0]
    table["change"] = list(ABLATIONS) * len(seeds)
    return table


def _curve(stages: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Rows of the learning curves of one run."""
    names = ["LP-1ST"] if len(stages) == 1 else ["stage 1", "stage 2"]
    points = [
        (name, point) for name, stage in zip(names, stages, strict=True) for point in stage["evaluation"]["curve"]
    ]
    return [
        {"method": name, "epoch": epoch, "seed": seed, "top_1": 100 * point[0], "top_2": 100 * point[1]}
        for epoch, (name, point) in enumerate(points, 1)
    ]
