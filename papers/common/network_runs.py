"""One training of one network on one data set at one budget: the run that many chapters repeat many times over."""

import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from book.evidence import plans, runs
from dplib import accounting, stats
from dplib.data.tasks import PATIENTS, shifted, task

if TYPE_CHECKING:
    from dplib.devices import Work

__all__ = ["Model", "Outcome", "measured", "network_training", "noise_for", "shifted", "task"]

PRV_LIMIT = 100.0  # above this epsilon Opacus's PRV accountant gives no number, and RDP takes its place
Model = str | list[int] | dict[str, Any]


@functools.lru_cache(maxsize=512)
def noise_for(epsilon: float, sample_rate: float, steps: int, delta: float) -> float:
    """The noise multiplier of a budget, by PRV, or by RDP above :data:`PRV_LIMIT`."""
    return accounting.noise_multiplier(epsilon, sample_rate, steps, delta, "prv" if epsilon <= PRV_LIMIT else "rdp")


def _work(job: runs.Job) -> "Work":
    """How much a job of :func:`network_training` is."""
    from dplib.devices import training_work
    from papers.common import networks

    data = task(job["dataset"], job["features"], None, 0, "report", job["length"])
    outputs = 1 if job["dataset"] in PATIENTS else len(data.classes)
    net = networks.network(job["model"], data.x_train.shape[1:], outputs, job["activation"], 0.0, 0)
    batch = min(job["batch"], job["n_train"] or len(data.y_train))
    return training_work(net, data.x_train, batch, job["steps"])


@runs.experiment(
    "network",
    version=1,
    data=("dataset",),
    work=_work,
    probe={"dataset": "digits", "features": "flat", "model": [16], "epsilon": 2.0, "learning_rate": 1.0, "seed": 3,
           "batch": 250, "steps": 60, "momentum": 0.5, "dropout": 0.1},
)  # fmt: skip
def network_training(
    *,
    dataset: str,
    model: Model,
    epsilon: float | None,
    learning_rate: float,
    seed: int,
    split_seed: int | None = None,
    part: str = "report",
    features: str = "image",
    n_train: int | None = None,
    length: int = 40,
    batch: int = 1024,
    steps: int = 500,
    delta: float = 1e-5,
    noise_multiplier: float | None = None,
    max_grad_norm: float | None = 1.0,
    momentum: float = 0.0,
    activation: str | list[str] = "relu",
    init: str = "torch",
    dropout: float = 0.0,
    frozen: list[int] | None = None,
    evaluate_every: int | None = None,
    device: str = "cpu",
) -> runs.Result:
    """Train and evaluate the last iterate.

    Args:
        dataset, features, n_train, part, length: of :func:`dplib.data.tasks.task`. A run of the part "tune" has the
            sampling rate, steps and noise of the report's.
        split_seed: draws the split, by default ``seed``. Candidates of one search share it, so that the winner's test
            records chose nothing, and differ in ``seed``.
        epsilon: budget at ``delta`` of this training alone, for neighbours that add or remove a record. None:
            ``noise_multiplier``, or no noise (then ``max_grad_norm`` None is plain SGD, and a number clipping alone).
        seed: decides split, initial weights, batches, noise and dropout. Equal seeds give equal splits and, at equal
            batch and steps, equal batches, so that comparisons of models may be paired by seed.
        batch: expected batch size.
        frozen: layers that keep their random weights, as :func:`papers.common.networks.freeze`. Of first layers that
            are frozen the outputs are computed once, which changes nothing but the time.
        evaluate_every: steps between evaluations of the "curve"; None: only the end.

    Returns:
        "validation" and "test": accuracies, or mean absolute errors of a regression (None after divergence, without
        such a part, and "test" of the part "tune"); their losses and "train_loss"; "constant", the "test" of a constant
        prediction that knows the training part; "balanced", mean recall on the test part, and "majority", the share of
        it predicted to be of the most frequent class (not of a regression); "noise_multiplier", "sample_rate", "steps",
        "n", "parameters", "trained"; and "curve" where asked for: rows of step, validation, test.
    """
    from dplib import devices, dpsgd  # they import PyTorch, which whoever reads runs does not wait for
    from papers.common import networks

    split = seed if split_seed is None else split_seed
    data = task(dataset, features, n_train, split, part, length)
    n = len(task(dataset, features, n_train, split, "report", length).y_train)
    # The split's seed is the job's; the draws below must not repeat it.
    entropy = [seed, 1] if split_seed is None else [split_seed, seed, 1]
    weights, draws = np.random.SeedSequence(entropy).spawn(2)
    regression = dataset in PATIENTS
    outputs, shape = 1 if regression else len(data.classes), data.x_train.shape[1:]
    weights_seed = int(weights.generate_state(1)[0])
    net = networks.network(model, shape, outputs, activation, dropout, weights_seed, init)
    parameters = sum(p.numel() for p in net.parameters())
    x = {name: getattr(data, f"x_{name}") for name in ("train", "valid", "test")}
    if frozen:
        networks.freeze(net, frozen)
        net, x = networks.frozen_once(net, x, devices.find_device(device))
    sample_rate = min(1.0, batch / n)
    noise = float(noise_multiplier or 0.0)
    if epsilon is not None:
        noise = float(noise_for(epsilon, sample_rate, steps, delta))
    settings = dpsgd.DPSGD(
        steps=steps,
        sample_rate=sample_rate,
        learning_rate=learning_rate,
        noise_multiplier=noise,
        max_grad_norm=max_grad_norm,
        momentum=momentum,
    )
    valid = None if x["valid"] is None else (x["valid"], data.y_valid)
    parts = dpsgd.Data((x["train"], data.y_train), valid, (x["test"], data.y_test))
    loss = dpsgd.squared_error if regression else dpsgd.cross_entropy
    run = dpsgd.train(
        net,
        parts,
        settings,
        np.random.default_rng(draws),
        loss=loss,
        evaluate_every=evaluate_every,
        device=device,
        progress=False,
    )
    result = networks.result_of(run, evaluate_every) | {"n": n, "parameters": parameters, "noise_multiplier": noise}
    if regression:
        result["constant"] = float(np.abs(data.y_test - data.y_train.mean()).mean())
    else:
        result |= networks.by_class(net, x["test"], data)
    if part == "tune":  # its test part is the validation part
        result = {k: v for k, v in result.items() if k not in ("test", "test_loss", "balanced", "majority")}
    return result


@dataclass(frozen=True)
class Outcome:
    """A cell with its tuned rate, and its reported runs by seed.

    Attributes:
        job: the cell. tuned: what :func:`book.evidence.plans.tune` found, None where the cell had a rate of its own.
        runs: what :func:`network_training` returned, in the order of the seeds.
    """

    job: Mapping[str, Any]
    rate: float
    tuned: plans.Tuned | None
    runs: Sequence[runs.Result]

    def values(self, what: str = "test") -> np.ndarray:
        """One number for each seed, (seeds,): accuracies in percent, errors as they are.

        Where a training diverged its "test" is that of a constant prediction: what its owner would release instead.
        """
        scale = 1.0 if self.job["dataset"] in PATIENTS else 100.0
        return scale * np.array([run["constant"] if run[what] is None else run[what] for run in self.runs])

    @property
    def mean(self) -> stats.Measured:
        return stats.mean_interval(self.values())

    @property
    def parameters(self) -> int:
        return self.runs[0]["parameters"]


def measured(
    get: plans.Get,
    cells: Mapping[Hashable, Mapping[str, Any]],
    rates: Mapping[str, Sequence[float]],
    *,
    seeds: int,
    first: int = 0,
    tuning_seeds: int = 3,
    extensions: int = 2,
) -> dict[Hashable, Outcome]:
    """Tune every cell by itself, then train each with seeds ``first``, first + 1, ...; equal seeds may be paired.

    Args:
        cells: those with a ``learning_rate`` are not tuned.
        rates: of the grids to begin with, for "sgd" (no clipping) and "dp" (with clipping).
    """
    chosen: dict[Hashable, plans.Tuned] = {}
    for kind in ("sgd", "dp"):
        untuned = {
            key: {**job, "part": "tune"}
            for key, job in cells.items()
            if "learning_rate" not in job and (job.get("max_grad_norm", 1.0) is None) == (kind == "sgd")
        }
        smaller = any(job["dataset"] in PATIENTS for job in untuned.values())
        if untuned:
            chosen |= plans.tune(
                get, network_training, untuned, rates[kind], smaller=smaller, seeds=tuning_seeds, extensions=extensions
            )
    rate = {key: chosen[key].value if key in chosen else job["learning_rate"] for key, job in cells.items()}
    reported = {key: {**job, "learning_rate": rate[key]} for key, job in cells.items()}
    by_key = plans.by_seed(get, network_training, reported, seeds, first)
    return {key: Outcome(job, rate[key], chosen.get(key), by_key[key]) for key, job in cells.items()}
