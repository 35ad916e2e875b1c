"""The runs behind the chapter on annealed DP-SGD, and how its tables read them.

Every training goes through :func:`dplib.study.run`, so that pieces share what they have in common and an interrupted
study goes on where it was. Runs of different arms are paired by seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dplib import annealing_accounts, annealing_jobs, checks, data, study
from dplib.checks import ParameterError

Result = dict[str, Any]
# Arms of Table 1 by the ledger's column names; "ours_held" computes J on held-out training records.
ARMS: dict[str, dict[str, Any]] = {
    "dpsgd": {"scheme": "dpsgd-relu"},
    "dpsgd_tanh": {"scheme": "dpsgd-tanh"},
    "dpsgd_auto_s": {"scheme": "auto-s"},
    "ours": {"scheme": "annealed", "energy": "test"},
    "ours_held": {"scheme": "annealed", "energy": "held"},
    "non_dp": {"scheme": "non-private", "batch": 512, "learning_rate": 0.05},
}
TUNING = 1000  # seeds from here on are for tuning


@dataclass(frozen=True)
class Lab:
    """What all trainings on one data set share.

    Attributes:
        dataset: a key of ``annealing_jobs.TABLE_2``.
        records: its training records. inputs: of :func:`dplib.study.run`.
        epsilon, delta: the budget, by the paper's count: accepted updates, RDP.
        energy_size: records that J is computed on.
        held: training records set aside where J is computed on held-out ones, that many at least.
        points: evaluations on the way, evenly spaced in epsilon.
        workers: of :func:`dplib.study.run`.
        spent: CPU seconds of each training behind the page, by its job.
    """

    dataset: str
    records: int
    inputs: Mapping[str, str]
    epsilon: float = 3.0
    delta: float = 1e-5
    energy_size: int = 500
    held: int = 1000
    points: int = 30
    workers: int = 1
    spent: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, dataset: str, **named: Any) -> "Lab":
        """The lab of a data set, which is loaded once for its size and checksum."""
        checks.one_of(*annealing_jobs.TABLE_2).check("dataset", dataset)
        count = len(annealing_jobs.records(dataset, 0, 0)["train"][1])
        return cls(dataset, count, {dataset: data.load(dataset).checksum}, **named)

    def job(self, arm: str, seed: int, epsilon: float | None = None, **changes: Any) -> dict[str, Any]:
        """The job of an arm at a budget by the paper's count, with changes to its arguments.

        A plain arm stops at as many queries as that budget allows, an annealed one at as many accepted updates.
        """
        checks.one_of(*ARMS).check("arm", arm)
        job = {"dataset": self.dataset, **ARMS[arm], "seed": seed, **changes}
        if job.get("energy"):
            job.setdefault("energy_size", self.energy_size)
        if job.get("energy") == "held":
            job.setdefault("held", self.held)
        if job["scheme"] == "non-private":
            return job
        counts = self.counts(job, self.epsilon if epsilon is None else epsilon)
        job |= {"at_accepted": counts, "at_queries": counts}
        return job | ({"accepted": counts[-1]} if job["scheme"] == "annealed" else {"queries": counts[-1]})

    def setting(self, job: Mapping[str, Any]) -> tuple[float, float]:
        """(noise multiplier, sample rate) of a job."""
        table = annealing_jobs.TABLE_2[self.dataset]
        noise, batch = (job.get(name) or table[name] for name in ("noise_multiplier", "batch"))
        return noise, batch / (self.records - job.get("held", 0))

    def counts(self, job: Mapping[str, Any], epsilon: float) -> list[int]:
        """Numbers of updates at budgets up to ``epsilon``, evenly spaced; the last one is all that it allows."""
        setting = self.setting(job)
        steps = annealing_accounts.steps_allowed(epsilon, *setting, self.delta)
        if steps < 1:
            raise ParameterError(f"epsilon = {epsilon:g} is not allowed: it does not pay for one update.")
        low = annealing_accounts.paper_epsilon(*setting, max(1, steps // 100), self.delta)
        spread = np.linspace(low, epsilon, self.points)[:-1]
        return sorted({*(annealing_accounts.steps_allowed(e, *setting, self.delta) for e in spread), steps} - {0})

    def run(self, jobs: Sequence[Mapping[str, Any]], what: str = "trainings") -> list[Result]:
        """The results of jobs, in their order."""
        results = study.run(annealing_jobs.train, jobs, workers=self.workers, inputs=self.inputs, what=what)
        self.spent.update({repr(sorted(job.items())): r["cpu_seconds"] for job, r in zip(jobs, results, strict=True)})
        return results

    def arms(self, arms: Mapping[str, Mapping[str, Any]], seeds: Sequence[int], **changes: Any):
        """{name: results by seed} of arms given as {name: {"arm": ..., changes}}."""
        jobs = {(name, seed): self.job(**{**changes, **one}, seed=seed) for seed in seeds for name, one in arms.items()}
        done = dict(zip(jobs, self.run(list(jobs.values())), strict=True))
        return {name: [done[name, seed] for seed in seeds] for name in arms}

    @property
    def cpu_seconds(self) -> float:
        """CPU time of all trainings that were asked for, whenever they ran."""
        return sum(self.spent.values())


def table_1(lab: Lab, seeds: Sequence[int], arms: Sequence[str] = tuple(ARMS)[:-1], **changes: Any):
    """The private columns of Table 1 at the hyper-parameters of Table 2, {arm: results by seed}.

    DP-SGD with tanh also records what each update does to J on training records, and every annealed run its trace.
    """
    watched = {"dpsgd_tanh": {"energy": "train", "trace": True}, "ours": {"trace": True}, "ours_held": {"trace": True}}
    return lab.arms({arm: {"arm": arm, **watched.get(arm, {})} for arm in arms}, seeds, **changes)


def non_private(lab: Lab, seeds: Sequence[int], rates: Sequence[float], epochs: int, batch: int = 512):
    """(learning rate chosen on validation records, results by seed) without clipping and noise."""
    steps = max(1, lab.records // batch) * epochs
    cell = {"batch": batch, "queries": steps}
    aside = {"held": max(1, lab.records // 10), "report": "validation"}
    chosen, _ = _best(lab, "non_dp", [{**cell, "learning_rate": rate} for rate in rates], [TUNING], aside)
    return chosen, lab.arms({"non_dp": {"arm": "non_dp", **chosen}}, seeds)["non_dp"]


def tuned(
    lab: Lab, arms: Sequence[str], candidates: Sequence[Mapping[str, Any]], seeds: Sequence[int], tuning_seeds: int = 1
) -> dict[str, dict[str, Any]]:
    """Arms with hyper-parameters chosen on validation records among the same candidates, then run on all others.

    Returns:
        {arm: {"chosen": the candidate, "tried": its mean accuracies on validation records in the candidates' order,
        "results": by seed, on the test part}}. Tuning is not accounted for in any epsilon.
    """
    aside = {"held": lab.held + max(1, lab.records // 12), "report": "validation"}
    found = {}
    for arm in arms:
        seeds_tuning = [TUNING + i for i in range(tuning_seeds)]
        chosen, tried = _best(lab, arm, candidates, seeds_tuning, aside)
        # Where Table 2's settings are chosen, these are the runs of Table 1, where plain schemes watch J.
        final = lab.arms({arm: {"arm": arm, **chosen}}, seeds) if chosen else table_1(lab, seeds, [arm])
        found[arm] = {"chosen": chosen, "tried": tried, "results": final[arm]}
    return found


def _best(
    lab: Lab, arm: str, candidates: Sequence[Mapping[str, Any]], seeds: Sequence[int], aside: Mapping[str, Any]
) -> tuple[dict[str, Any], list[float]]:
    # J on the test part has no place in tuning: there, it is computed on held-out records.
    energy = {"energy": "held"} if ARMS[arm].get("energy") else {}
    jobs = [lab.job(arm, seed, **{**energy, **aside, **one}) for one in candidates for seed in seeds]
    scores = [-1.0 if r["accuracy"] is None else r["accuracy"] for r in lab.run(jobs, "tuning runs")]
    means = np.reshape(scores, (len(candidates), -1)).mean(axis=1)
    return dict(candidates[int(means.argmax())]), means.tolist()


def figure_4(lab: Lab, grids: Mapping[str, Sequence[Any]], seeds: Sequence[int], arm: str = "ours", **changes: Any):
    """{(name, value): results by seed}: one argument of the job varied at a time."""
    cells = {(name, value): {"arm": arm, name: value} for name, values in grids.items() for value in values}
    return lab.arms(cells, seeds, **changes)


def readings(lab: Lab, cells: Mapping[str, Mapping[str, Any]], seeds: Sequence[int], **changes: Any):
    """{name: results by seed} of other readings of Algorithm 2, each given as changes to an arm ("ours" by default)."""
    return lab.arms({name: {"arm": "ours", **one} for name, one in cells.items()}, seeds, **changes)


def at(result: Result, count: str, steps: int, column: str = "accuracy") -> float | None:
    """A column of a run's curve at the last evaluation with at most so many "accepted" updates or "queries".

    None where the run was not evaluated by then. The weights after t queries are those after the updates accepted by
    then, so that one run tells about both counts.
    """
    curve = result["curve"]
    row = int(np.searchsorted(curve[count], steps, side="right")) - 1
    return None if row < 0 else curve[column][row]


def mean_curve(results: Sequence[Result], count: str, steps: Sequence[int], column: str = "accuracy") -> np.ndarray:
    """Mean over runs at each number of steps, nan where a run has no value yet, (k,)."""
    values = [[at(result, count, n, column) for n in steps] for result in results]
    return np.array([[np.nan if v is None else v for v in row] for row in values]).mean(axis=0)


def smallest_epsilon(epsilons: Sequence[float], accuracy: Sequence[float], target: float) -> float | None:
    """Where a curve first reaches the target, with straight lines between its points; None where it does not."""
    epsilons, accuracy = np.asarray(epsilons, float), np.asarray(accuracy, float)
    reached = np.flatnonzero(accuracy >= target)
    if not reached.size:
        return None
    i = reached[0]
    if i == 0 or not np.isfinite(accuracy[i - 1]):
        return float(epsilons[i])
    share = (target - accuracy[i - 1]) / (accuracy[i] - accuracy[i - 1])
    return float(epsilons[i - 1] + share * (epsilons[i] - epsilons[i - 1]))


def spent(lab: Lab, result: Result) -> dict[str, float]:
    """The three epsilons of a run (:func:`dplib.annealing_accounts.epsilons`)."""
    setting = result["noise_multiplier"], result["sample_rate"]
    return annealing_accounts.epsilons(result["accepted"], result["queries"], *setting, lab.delta)
