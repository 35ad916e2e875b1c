"""First light's stages "machine" and "sums": what this machine is, and whether what privacy rests on holds there."""

import time

BEGUN = time.perf_counter()  # before PyTorch is there

import platform  # noqa: E402
import warnings  # noqa: E402
from collections import Counter  # noqa: E402
from collections.abc import Callable, Mapping  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from book.evidence import execution, runs, step_times  # noqa: E402
from book.evidence.first_light_process import Facts, NotHere, Pieces  # noqa: E402
from dplib import clipping, dpsgd, examples, models, sgd  # noqa: E402

IMPORTED = time.perf_counter() - BEGUN

# Of a clipped sum in float32 against float64, relative. Measured on a processor: 2e-7 to 2e-6 with float32 as it is,
# 1e-4 to 1e-3 with its factors cut to TF32's 11 bits.
SUMS = 2e-5
CUT = 3e-5  # of one product of 256 terms: float32 errs by 1e-7 to 1e-6, TF32 by some 3e-4


def machine(asked: Mapping[str, Any]) -> Pieces:
    """What this machine is and how fast."""
    runs.one_thread()
    place = torch.device(asked["device"])
    return {
        "start-up": partial(start_up, place),
        "bandwidth": partial(bandwidth, place),
        "products": partial(products, place),
    }


def start_up(place: torch.device) -> Facts:
    """Versions, the device, and the seconds until a first step is made."""
    begun = time.perf_counter()
    torch.zeros(1, device=place)
    wait(place)
    first_kernel = time.perf_counter() - begun
    train = step_times.records((784,), 600, place)
    step_times.dpsgd_step(sgd.seeded(lambda: models.mlp([784, 128, 10]), 0).to(place), train, 64)(
        torch.arange(64, device=place)
    )
    wait(place)
    facts = {
        "import_seconds": IMPORTED,
        "first_kernel_seconds": first_kernel,
        "first_step_seconds": time.perf_counter() - begun,
        "commit": execution.commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "versions": execution.versions(),
        "hardware": execution.hardware(),
    }
    if place.type == "cuda":
        about = torch.cuda.get_device_properties(place)
        facts |= {
            "gpu": about.name,
            "memory_bytes": about.total_memory,
            "multiprocessors": about.multi_processor_count,
            "capability": f"{about.major}.{about.minor}",
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }
    return facts


def bandwidth(place: torch.device) -> Facts:
    """Bytes a second within the device, read and written, and to it from the host's memory."""
    count = 2**28 if place.type == "cuda" else 2**23
    a = torch.ones(count, device=place)
    b, host = torch.empty_like(a), torch.ones(count // 16)
    by_place = {"within": 8 * count / seconds(lambda: b.copy_(a), place)}
    if place.type == "cuda":
        pinned = host.pin_memory()
        few = b[: len(host)]
        by_place |= {
            "from pageable memory": 4 * len(host) / seconds(lambda: few.copy_(host), place),
            "from pinned memory": 4 * len(host) / seconds(lambda: few.copy_(pinned, non_blocking=True), place),
        }
    return {"bytes_a_second": by_place}


def products(place: torch.device) -> Facts:
    """Floating point operations a second of a matrix product, and the error of float32 with TF32 allowed or not."""
    n = 8192 if place.type == "cuda" else 512
    generator = torch.Generator(place).manual_seed(0)
    a, b = (torch.randn(n, n, device=place, generator=generator) for _ in range(2))
    rates, errors = {}, {}
    for name, allowed in {"float32": False, "TF32": True}.items():
        allow_tf32(allowed)
        rates[name] = 2 * n**3 / seconds(lambda: a @ b, place)
        errors[name] = max(product_errors(place).values())
    allow_tf32(False)
    a, b = a.bfloat16(), b.bfloat16()
    rates["bfloat16"] = 2 * n**3 / seconds(lambda: a @ b, place)
    return {"size": n, "operations_a_second": rates, "relative_error": errors}


# ---- sums ----

NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "CNN": (models.cnn4, (1, 28, 28)),
    "perceptron": (lambda: models.mlp([784, 128, 10]), (784,)),
    "GroupNorm": (lambda: models.resnet18(width=8, norm=models.group_norm), (3, 16, 16)),
    "LSTM": (lambda: models.spam_lstm(16, 32, 0.0), (20,)),
}


def sums(asked: Mapping[str, Any]) -> Pieces:
    """Whether the sums, the noise and the precision are what privacy rests on."""
    runs.one_thread()
    place = torch.device(asked["device"])
    return {
        **{f"clipped sum, {name}": partial(clipped_sum, place, name) for name in NETWORKS},
        "noise": partial(noise, place),
        "precision": partial(precision, place),
        **{f"waits, {name}": partial(waits, place, name) for name in ("CNN", "perceptron")},
    }


def network(name: str) -> nn.Module:
    """A network of ``NETWORKS`` with the same weights each time."""
    return sgd.seeded(NETWORKS[name][0], 0)


def batch(name: str, count: int) -> tuple[Tensor, Tensor]:
    """Random examples for a network of ``NETWORKS``, and labels."""
    rng, shape = np.random.default_rng(1), NETWORKS[name][1]
    y = torch.from_numpy(rng.integers(2, size=count))
    if name == "LSTM":
        return torch.from_numpy(rng.integers(1000, size=(count, *shape))), y
    return torch.from_numpy(rng.standard_normal((count, *shape), np.float32)), y


def clipped_sum(place: torch.device, name: str, count: int = 16) -> Facts:
    """A clipped sum in float32, made where TF32 is allowed outside, beside each example's gradient in float64."""
    net, (x, y) = network(name), batch(name, count)
    gradients = singles(net.double(), x.double() if x.is_floating_point() else x, y)
    norms = gradients.norm(dim=1)
    bound = float(norms.median())
    due = (gradients * (bound / (norms + 1e-6)).clamp(max=1)[:, None]).sum(0)
    net = net.float().to(place)
    added = {p: torch.zeros_like(p) for p in net.parameters()}
    seen: list[Tensor] = []

    def factors(of_examples: Tensor) -> Tensor:
        seen.append(of_examples.clone())
        return clipping.flat(of_examples, bound)

    allow_tf32(True)
    try:
        clipping.ClippedSums(net, added).add(x.to(place), y.to(place), examples.cross_entropy, factors)
    finally:
        allow_tf32(False)
    summed = torch.cat([gradient.flatten() for gradient in added.values()]).double().cpu()
    facts = {
        "error": float((summed - due).norm() / due.norm()),
        "error_of_norms": float((seen[0].double().cpu() / norms - 1).abs().max()),
        "allowed": SUMS,
    }
    wrong = [what for what in ("error", "error_of_norms") if not facts[what] <= SUMS]
    return facts | ({"wrong": wrong} if wrong else {})


def singles(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Each example's gradient by itself, (b, parameters)."""
    losses = [examples.cross_entropy(net(x[i : i + 1]), y[i : i + 1]).sum() for i in range(len(x))]
    each = [torch.autograd.grad(loss, list(net.parameters()), materialize_grads=True) for loss in losses]
    return torch.stack([torch.cat([g.flatten() for g in of_one]) for of_one in each])


def noise(place: torch.device) -> Facts:
    """Moments of the noise on an empty batch, of the noise of two steps together, and of its coordinates."""
    train, steps = step_times.records((784,), 600, place), 400 if place.type == "cuda" else 40
    net = sgd.seeded(lambda: models.mlp([784, 32, 10]), 0).to(place)
    private = step_times.settings(0.1, max_grad_norm=0.5, noise_multiplier=1.3, divisor=10.0)
    engine = dpsgd.Engine(net, private, train, generator=torch.Generator(place).manual_seed(0))
    none = torch.zeros(0, dtype=torch.int64, device=place)
    drawn = torch.stack([engine.gradient(none).clone() for _ in range(steps)]).double() / (1.3 * 0.5 / 10.0)
    n, few = drawn.numel(), drawn[:, :64]
    covariance = (few.T @ few / steps).fill_diagonal_(0)
    scores = {  # in standard deviations of what N(0, 1) gives
        "mean": float(drawn.mean()) * n**0.5,
        "variance": float(drawn.square().mean() - 1) * (n / 2) ** 0.5,
        "kurtosis": float(drawn.pow(4).mean() - 3) * (n / 96) ** 0.5,
        "steps in a row": float((drawn[1:] * drawn[:-1]).mean()) * (n - drawn.shape[1]) ** 0.5,
        "coordinates in a row": float((drawn[:, 1:] * drawn[:, :-1]).mean()) * (n - steps) ** 0.5,
        "largest of 2,016 covariances": float(covariance.abs().max()) * steps**0.5,
    }
    wrong = [what for what, score in scores.items() if not abs(score) <= (6 if "largest" in what else 5)]
    return {"numbers": n, "standard deviations": scores} | ({"wrong": wrong} if wrong else {})


def precision(place: torch.device) -> Facts:
    """Errors of products inside a private step, a step without noise, evaluation, and under autocast, where TF32 is
    allowed outside; by products made there and then, whatever the switches say.
    """
    pair, errors = tuple(part.numpy() for part in step_times.records((784,), 200).tensors()), {}

    def look(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            errors[name] = max([errors.get(name, 0.0), *product_errors(place).values()])

        return hook

    options = {"private": {"max_grad_norm": 1.0}, "without privacy": {"noise_multiplier": 0.0}}
    for name, changes in options.items():
        net = sgd.seeded(lambda: models.mlp([784, 10]), 0).to(place)
        net[0].register_forward_hook(look(name))
        allow_tf32(True)
        try:
            dpsgd.train(
                net,
                dpsgd.Data(pair, test=pair),
                step_times.settings(0.2, **changes),
                np.random.default_rng(0),
                device=place.type,
                progress=False,
            )
        finally:
            allow_tf32(False)
    errors["under autocast"] = under_autocast(place)
    wrong = [name for name, error in errors.items() if error is not None and not error <= CUT]
    return {"relative_errors": errors, "allowed": CUT} | ({"wrong": wrong} if wrong else {})


def under_autocast(place: torch.device) -> float | None:
    """The error of a clipped sum inside torch.autocast; None where it is refused, as it should be."""
    try:
        with torch.autocast(place.type, torch.bfloat16):
            return clipped_sum(place, "perceptron")["error"]
    except dpsgd.ParameterError:
        return None


def waits(place: torch.device, name: str) -> Facts:
    """How often the host waits for the GPU in each step of a training, and where."""
    if place.type != "cuda":
        raise NotHere("only a GPU is waited for")
    x, y = batch(name, 256)
    data, told = dpsgd.Data((x.numpy(), y.numpy())), {}
    for steps in (10, 10, 30):  # the first one also waits for what is done once in a process
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                private = step_times.settings(0.2, max_grad_norm=1.0, steps=steps)
                dpsgd.train(network(name), data, private, np.random.default_rng(0), device="cuda", progress=False)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        places = [
            f"{Path(warning.filename).name}:{warning.lineno}"
            for warning in caught
            if "synchroniz" in str(warning.message)
        ]
        told[steps] = Counter(places)
    each = {where: (told[30][where] - told[10][where]) / 20 for where in told[30]}
    return {"waits_a_step": sum(each.values()), "places": {where: n for where, n in each.items() if n}}


# ---- what pieces share ----


def wait(place: torch.device) -> None:
    """Until the device has done all that it was given."""
    if place.type == "cuda":
        torch.cuda.synchronize(place)


def seconds(call: Callable[[], object], place: torch.device, least: float = 0.3) -> float:
    """Mean seconds of a call, of as many as take ``least`` seconds, after two others."""
    call(), call()
    wait(place)
    begun, count = time.perf_counter(), 0
    while time.perf_counter() - begun < least:
        for _ in range(5):
            call()
        wait(place)
        count += 5
    return (time.perf_counter() - begun) / count


def allow_tf32(allowed: bool) -> None:
    """For all products of float32, by the switch that torch had before 2.9 and still has."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed


def product_errors(place: torch.device) -> dict[str, float]:
    """Relative errors of a product of matrices and of a convolution as they are made here and now."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(256, 256, generator=generator) for _ in range(2))
    x, w = torch.randn(2, 32, 9, 9, generator=generator), torch.randn(8, 32, 3, 3, generator=generator)
    made = {"product": (torch.matmul, a, b), "convolution": (nn.functional.conv2d, x, w)}
    errors = {}
    with torch.no_grad():
        for name, (call, left, right) in made.items():
            due = call(left.double(), right.double())
            errors[name] = float((call(left.to(place), right.to(place)).cpu().double() - due).norm() / due.norm())
    return errors
