"""Many logistic regressions at once by DP-SGD on shared batches: a grid of settings for little more than one of them.

All models see the same Poisson sample at each step, and each gets noise of its own. So each model by itself is as
private as :mod:`dplib.dpsgd` makes it. Several of them together spend more than so many trainings with batches of their
own: a record moves all their sums in the same steps. Models with noise multipliers s_1, ..., s_k that are released
together, or among which one is chosen by what is released, are to be accounted as one training of noise multiplier
1 / sqrt(1/s_1^2 + ... + 1/s_k^2).

Runs that share batches are *not independent seeds* either: their errors go together, which helps when settings are
compared with each other and misleads when they are averaged. For intervals, repeat the grid with other seeds.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor

from dplib import checks, examples
from dplib.checks import ParameterError
from dplib.devices import EVALUATED, Work, find_device, whole_float32
from dplib.dpsgd import DPSGD, generator_of, given_sets
from dplib.examples import Data, Examples
from dplib.layers import SHORTEST
from dplib.progress import tqdm
from dplib.sums import without_denormals

_OWN = ("learning_rate", "noise_multiplier", "max_grad_norm")  # what may differ between models


class LogisticGrid:
    """m logistic regressions on the same records, all weights zero at first: ``weights`` (k, m, p), ``bias`` (k, m).

    Where something of a record is not finite for a model that clips, it adds nothing to that model, and is counted in
    ``dropped`` (m,), which tells of single records and is no release.

    Args:
        settings: one for each model; they differ in learning rate, noise multiplier and clipping norm alone.
        train: n rows of p numbers with labels 0 to k - 1.
        classes: k, from 2 to a million.
        generators: of each model's noise; None for the cryptographic source.

    Raises:
        ParameterError: for a value outside its range.
    """

    def __init__(
        self, settings: Sequence[DPSGD], train: Examples, classes: int, generators: Sequence[torch.Generator] | None
    ):
        _check_alike(settings)
        checks.integer(2, 10**6).check("classes", classes)
        examples.check_labels(train.y, classes, "train")
        rows = train.tensors()[0]
        self.settings, self.train = list(settings), train
        self._generators = generators or [None] * len(settings)
        m, p = len(settings), rows.shape[1]
        self.weights, self.bias = rows.new_zeros(classes, m, p), rows.new_zeros(classes, m)
        self._noise = rows.new_zeros(m, classes * (p + 1))
        self._one_hot = torch.eye(classes, dtype=rows.dtype, device=rows.device)
        if train.y.is_floating_point():
            raise ParameterError("train: labels must be whole numbers.")

        # Each model moves by its learning rate over the divisor, so both are part of its factors.
        self._rates = [of_model.learning_rate / of_model.quotient(train.n) for of_model in settings]
        self._most = rows.new_tensor(self._rates).unsqueeze(1)
        bounds = [1e30 if of_model.max_grad_norm is None else of_model.max_grad_norm for of_model in settings]
        self._clips = torch.tensor([[bound < 1e30] for bound in bounds], device=rows.device)
        self.dropped = torch.zeros(m, dtype=torch.int64, device=rows.device)
        self._scaled = rows.new_tensor([r * bound for r, bound in zip(self._rates, bounds, strict=True)]).unsqueeze(1)

    @whole_float32()
    def step(self, rows: Tensor) -> None:
        """One step of every model.

        Args:
            rows: of the records that are taken, shape (b,), b >= 0.
        """
        if len(rows):
            x, y = self.train.batch(rows)
            d = self._errors(x, y)
            errors = d.square().sum(0).clamp_min_(SHORTEST**2)
            norms = (errors * (torch.linalg.vector_norm(x, dim=1).square_() + 1)).sqrt_().add_(1e-6)  # (m, b)
            d *= without_denormals(torch.minimum(self._scaled / norms, self._most))
            if norms.is_cuda or not math.isfinite(norms.sum()):  # a GPU is not waited for
                lost = ~norms.isfinite() & self._clips
                d.masked_fill_(lost, 0)  # no weight takes it out: 0 times infinity is not a number
                self.dropped += lost.sum(1)
            self.weights.flatten(0, 1).addmm_(d.flatten(0, 1), x, alpha=-1)
            self.bias -= d.sum(2)
        self._add_noise()

    @whole_float32()
    def evaluate(self, held_out: Examples, size: int | None = None) -> dict[str, np.ndarray]:
        """Mean loss and accuracy of every model: {"loss": (m,), "metric": (m,)}.

        Args:
            held_out: examples on the device of the training.
            size: examples that go through at once; None for what the device does well.

        Raises:
            ParameterError: where autocast is on.
        """
        place = held_out.y.device
        losses, right = torch.zeros(2, len(self.settings), dtype=torch.float64, device=place)
        for x, y in held_out.pieces(size or EVALUATED.on(place)):
            logits = self._logits(x)
            labels = y.expand(1, logits.shape[1], -1)
            losses += (logits.logsumexp(0) - logits.gather(0, labels)[0]).double().sum(1)
            right += (logits.argmax(0) == y).double().sum(1)
        return {"loss": (losses / held_out.n).cpu().numpy(), "metric": (right / held_out.n).cpu().numpy()}

    def _logits(self, x: Tensor) -> Tensor:
        """(b, p) to (k, m, b)."""
        return torch.addmm(self.bias.view(-1, 1), self.weights.flatten(0, 1), x.t()).view(*self.bias.shape, -1)

    def _errors(self, x: Tensor, y: Tensor) -> Tensor:
        """Gradients of the losses with respect to the logits, softmax minus one-hot, (k, m, b)."""
        logits = self._logits(x)
        d = logits.sub_(logits.amax(0)).exp_()
        d /= d.sum(0)
        return d.sub_(self._one_hot[:, y].unsqueeze(1))

    def _add_noise(self) -> None:
        classes, m, p = self.weights.shape
        for i, (of_model, rate, generator) in enumerate(zip(self.settings, self._rates, self._generators, strict=True)):
            if of_model.noise_multiplier:
                examples.fill_normal(
                    self._noise[i], of_model.noise_multiplier * of_model.max_grad_norm * rate, generator
                )
        weights, bias = self._noise.split([classes * p, classes], 1)  # a model's noise in the order of nn.Linear
        self.weights -= weights.view(m, classes, p).transpose(0, 1)
        self.bias -= bias.t()


@whole_float32()
def train_grid(
    data: Data,
    settings: Sequence[DPSGD],
    rng: np.random.Generator | None,
    *,
    classes: int,
    device: str = "cpu",
    progress: bool = True,
) -> dict[str, dict[str, np.ndarray]]:
    """Train one logistic regression for each of ``settings``, on shared batches; see the warning above.

    Args:
        data: rows (n, p), or arrays that are flattened to rows, with labels 0 to ``classes`` - 1. Neighbouring data
            sets differ by adding or removing one training record.
        settings: one for each model; they differ in learning rate, noise multiplier and clipping norm alone.
        rng: decides sampling and every model's noise; not with ``secure``, where it may be left out (None).
        classes: k, from 2 to a million.
        device: "cpu"; "cuda"; or "auto", a GPU where there is one and the trainings are large enough to gain by it.
        progress: show a bar.

    Returns:
        Of "validation" and "test", where given, "loss" and "metric" (the accuracy) of every model, (m,).

    Raises:
        ParameterError: before any step, for data, labels or settings that are not allowed, or with autocast.
    """
    _check_alike(settings)
    checks.integer(2, 10**6).check("classes", classes)
    first = settings[0]
    rng = generator_of(rng, None, first.secure)
    flat = {name: flattened(pair, name) for name, pair in given_sets(data).items()}
    for name, (x, _) in flat.items():
        if x.shape[1:] != flat["train"][0].shape[1:]:
            raise ParameterError(f"{name}: rows of {x.shape[1]} numbers, but train has {flat['train'][0].shape[1]}.")
    # Two products of (b, p) and (p, m k) a step.
    operations = 4.0 * first.sample_rate * flat["train"][0].numel() * len(settings) * classes
    place = find_device(device, Work(operations, first.steps))
    sets = {name: Examples(pair, name, place, torch.float32) for name, pair in flat.items()}
    for name, part in sets.items():
        examples.check_labels(part.y, classes, name)
    seeds = [int(seed) for seed in rng.integers(2**63, size=len(settings) + 1)]
    noises = None if first.secure else [torch.Generator(place).manual_seed(seed) for seed in seeds[1:]]
    grid = LogisticGrid(settings, sets["train"], classes, noises)
    batches = None if first.secure else np.random.default_rng(seeds[0])
    sampler = examples.Sampler(first.sampling, sets["train"].n, first.sample_rate, batches)
    taken = sampler.batches(place)
    for _ in tqdm(range(first.steps), "steps", leave=False, delay=2, disable=not progress):
        grid.step(next(taken))
    return {name: grid.evaluate(part) for name, part in sets.items() if name != "train"}


def flattened(pair: examples.Pair, name: str) -> tuple[Tensor, Tensor]:
    """Examples as rows (n, p), and their labels.

    Args:
        pair: examples (n, ...) and targets (n,).
        name: what messages call them.
    """
    x, y = examples.tensors(pair, name)
    return (x.flatten(1) if x.dim() > 1 else x), y


def _check_alike(settings: Sequence[DPSGD]) -> None:
    if not isinstance(settings, Sequence) or not all(isinstance(of_model, DPSGD) for of_model in settings):
        raise ParameterError(f"settings = {checks.shown(settings)} is not allowed: it must be a list of DPSGD.")
    if not settings:
        raise ParameterError("settings is empty: a grid needs at least one model.")
    for of_model in settings:
        if of_model.momentum or of_model.clipping != "flat":
            raise ParameterError("a grid has no momentum, and clips flat.")
        for name, value in asdict(of_model).items():
            if name not in _OWN and value != getattr(settings[0], name):
                raise ParameterError(
                    f"{name} differs between models of a grid, which share their batches: it must not."
                )
