"""What first light times: steps of trainings, several processes at once, and from which size on a GPU gains."""

import multiprocessing
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from book.evidence import runs, step_times
from book.evidence.first_light_process import Facts, Pieces
from book.evidence.first_light_sums import seconds
from dplib import devices, dpsgd, many, models, sgd
from dplib.examples import Examples

CPU = torch.device("cpu")
PHASE = 2.5  # seconds that some processes step together


class Case(NamedTuple):
    """A network, the shape of its examples, a batch size."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    batch: int


def cnn(batch: int) -> Case:
    """The 26,010 weights of paper D."""
    return Case(models.cnn4, (1, 28, 28), batch)


def perceptron(batch: int) -> Case:
    """784-128-10."""
    return Case(partial(models.mlp, [784, 128, 10]), (784,), batch)


def resnet(batch: int, width: int = 64) -> Case:
    """ResNet-18 with group normalisation on images of 32 by 32."""
    return Case(partial(models.resnet18, width=width, norm=models.group_norm), (3, 32, 32), batch)


GPU_CASES = {
    "CNN, 512": cnn(512),
    "perceptron, 250": perceptron(250),
    "CNN, 2,048": cnn(2048),
    "ResNet-18, 512": resnet(512),
}
# A processor shows only that all of it runs.
CPU_CASES = {"CNN, 64": cnn(64), "perceptron, 250": perceptron(250), "ResNet-18 of width 8, 8": resnet(8, 8)}


def pieces(asked: Mapping[str, Any]) -> Pieces:
    """The pieces of the stage."""
    runs.one_thread()
    place = torch.device(asked["device"])
    cases = GPU_CASES if place.type == "cuda" else CPU_CASES
    timings = [(name, partial(case_speed, place, case)) for name, case in cases.items()]
    more = {
        "many": partial(many_speed, place),
        "crossing": partial(crossing, place),
        "processes": partial(processes, place),
    }
    return dict([*timings[:2], *more.items(), *timings[2:]])


def case_speed(place: torch.device, case: Case) -> Facts:
    """Steps a second and peak memory of DP-SGD, SGD and Opacus on one network."""
    train = step_times.records(case.shape, 4 * case.batch, place)
    sides = {
        "DP-SGD": step_times.dpsgd_step,
        "SGD": lambda net, train, batch: step_times.sgd_step(net, train, 10**9),
        "Opacus, ghost clipping": partial(step_times.opacus_step, mode="ghost"),
        "Opacus, hooks": partial(step_times.opacus_step, mode="hooks"),
    }
    by_side = {name: side_speed(place, case, train, make) for name, make in sides.items()}
    rates = {name: side.get("steps_a_second") for name, side in by_side.items()}
    ratio = rates["SGD"] / rates["DP-SGD"] if all(rates[name] for name in ("SGD", "DP-SGD")) else None
    return {"batch": case.batch, "sides": by_side, "step of DP-SGD over SGD": ratio}


def side_speed(place: torch.device, case: Case, train: Examples, make: Callable[..., step_times.Step]) -> Facts:
    """Of one side, or what kept it from running."""
    gpu = place.type == "cuda"
    if gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    try:
        with devices.whole_float32():  # all sides alike: convolutions of PyTorch are cut to TF32 by default
            step = make(network(case, place), train, case.batch)
            batches = drawn(case.batch, train.n, place)
            turn = iter(range(10**9))
            took = seconds(lambda: step(batches[next(turn) % len(batches)]), place, 1.0 if gpu else 0.2)
    except (ImportError, torch.OutOfMemoryError) as error:
        return {"not run": f"{type(error).__name__}: {error}"[:200]}
    memory = {"peak_memory_bytes": torch.cuda.max_memory_allocated() - before} if gpu else {}
    return {"steps_a_second": 1 / took, **memory}


def network(case: Case, place: torch.device) -> nn.Module:
    """On the device, images in the layout that is fastest."""
    layout = torch.channels_last if len(case.shape) == 3 else torch.preserve_format
    return sgd.seeded(case.build, 0).to(place, memory_format=layout)


def drawn(batch: int, n: int, place: torch.device) -> list[Tensor]:
    """Batches of one size: cuDNN plans anew for each size, which is no step's time."""
    rng = np.random.default_rng(0)
    return [torch.from_numpy(rng.permutation(n)[:batch]).to(place) for _ in range(8)]


def many_speed(place: torch.device) -> Facts:
    """Trainings of the CNN one at a time, and many at once."""
    gpu = place.type == "cuda"
    count, steps, case = (20, 200, cnn(512)) if gpu else (4, 12, cnn(32))
    x, y = step_times.records(case.shape, 16 * case.batch).tensors()
    data = dpsgd.Data((x.view(-1, *case.shape), y))

    def took(steps: int, together: bool) -> float:
        private = step_times.settings(1 / 16, steps=steps, max_grad_norm=1.0)
        nets = [sgd.seeded(case.build, seed) for seed in range(count if together else 1)]
        rngs = [np.random.default_rng(seed) for seed in range(len(nets))]
        begun = time.perf_counter()
        if together:
            many.train(nets, data, private, rngs, device=place.type, progress=False)
        else:
            dpsgd.train(nets[0], data, private, rngs[0], device=place.type, progress=False)
        return time.perf_counter() - begun

    # Two lengths: what a training does before its first step is not in their difference.
    both = {together: took(3 * steps, together) - took(steps, together) for together in (True, False)}
    rates = {"at once": count * 2 * steps / both[True], "one at a time": 2 * steps / both[False]}
    return {"models": count, "batch": case.batch, "model_steps_a_second": rates}


def crossing(place: torch.device) -> Facts:
    """Seconds of a step on one core and on the device by the floating point operations of a step; from which on the
    device is faster; and what ``CORE`` and ``STEP`` of :mod:`dplib.devices` are here, by which "auto" chooses (its
    ``START`` is measured by stage "machine").
    """
    sizes = (16, 64, 256, 1024, 4096) if place.type == "cuda" else (8, 32)
    rows = []
    for make in (perceptron, cnn):
        for batch in sizes:
            case = make(batch)
            row: Facts = {"network": make.__name__, "batch": batch, "operations": operations(case)}
            for name, where in {"core": CPU, "device": place}.items():
                train = step_times.records(case.shape, 2 * batch, where)
                step, batches = step_times.dpsgd_step(network(case, where), train, batch), drawn(batch, train.n, where)
                row[name] = seconds(lambda step=step, batches=batches: step(batches[0]), where, 0.1)
            rows.append(row)
    reckoned = {"CORE": devices.CORE, "STEP": devices.STEP, "START": devices.START}
    return {"steps": rows, **constants(rows), "reckoned in dplib.devices": reckoned}


def constants(rows: list[Facts]) -> Facts:
    """Of rows with operations and seconds: operations a second of a core in large steps, seconds of the device's
    smallest step, and the operations where their two lines cross.
    """
    core = float(np.median([row["operations"] / row["core"] for row in rows if row["batch"] >= 256] or [np.nan]))
    least = min(row["device"] for row in rows)
    slower = [row["operations"] for row in rows if row["device"] >= row["core"]]
    faster = [row["operations"] for row in rows if row["device"] < row["core"]]
    return {
        "core_operations_a_second": core,
        "device_step_seconds": least,
        "crossing_operations": core * least,
        "largest_step_where_the_core_is_faster": max(slower, default=None),
        "smallest_step_where_the_device_is_faster": min(faster, default=None),
    }


def operations(case: Case) -> float:
    """Floating point operations of a step."""
    return devices.training_work(case.build(), torch.zeros(1, *case.shape), case.batch, 1).operations


# ---- several processes ----


def processes(place: torch.device) -> Facts:
    """Steps a second of the CNN by all processes together, 1, 4 and 8 of them; on the processor one and two."""
    phases = (1, 4, 8) if place.type == "cuda" else (1, 2)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(max(phases))
    with ProcessPoolExecutor(max(phases), context, _begin, (barrier,)) as pool:
        made = [pool.submit(_steps, place.type, i, phases) for i in range(max(phases))]
        counts = np.sum([process.result() for process in made], axis=0)
    return {"batch": _case(place).batch, "steps_a_second": dict(zip(map(str, phases), counts / PHASE, strict=True))}


def _case(place: torch.device) -> Case:
    return cnn(512 if place.type == "cuda" else 32)


def _begin(barrier: Barrier) -> None:
    global _together
    _together = barrier
    runs.one_thread()


def _steps(device: str, i: int, phases: tuple[int, ...]) -> list[float]:
    """Steps of process i in each phase, in which the first of them work."""
    place = torch.device(device)
    case = _case(place)
    train = step_times.records(case.shape, 4 * case.batch, place)
    step, rows = step_times.dpsgd_step(network(case, place), train, case.batch), drawn(case.batch, train.n, place)
    step(rows[0])
    rates: list[Any] = []
    for working in phases:
        _together.wait(60)
        took = seconds(lambda: step(rows[0]), place, PHASE) if i < working else float("inf")
        rates.append(PHASE / took)
    return rates
