"""Examples and targets for training: checked once, then gathered a batch at a time into memory that is used again."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dplib import secure
from dplib.checks import ParameterError, bounded, described, integer, number, one_of, refuse_hidden, shown
from dplib.devices import EVALUATED, whole_float32
from dplib.layers import row_norms

SMALL = 2**14  # numbers of a batch for which new memory costs less than a view of old
Array = np.ndarray | Tensor
Pair = tuple[Array, Array]  # examples (n, ...) and targets (n, ...)
Loss = Callable[[Tensor, Tensor], Tensor]  # outputs (b, ...) and targets (b, ...) to one loss an example, (b,)


def cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of each example, natural logarithms, shape (b,).

    Args:
        outputs: scores, shape (b, k).
        y: labels, shape (b,) in int64, or probabilities, shape (b, k).
    """
    return F.cross_entropy(outputs, y, reduction="none")


def squared_error(outputs: Tensor, y: Tensor) -> Tensor:
    """Mean squared error of each example, shape (b,).

    Args:
        outputs: shape (b,) or (b, 1) or (b, k).
        y: targets, of as many numbers an example.
    """
    return (outputs.reshape(len(y), -1) - y.reshape(len(y), -1)).square().mean(1)


def correct(outputs: Tensor, y: Tensor) -> Tensor:
    """1 where the largest score is that of the label, or of the likeliest one; else 0; shape (b,). NaN where there are
    no two scores to choose from, or targets are no labels: real numbers, rows that are no probabilities.

    Args:
        outputs: scores, shape (b, k), k >= 2.
        y: labels, shape (b,) in int64, or probabilities, shape (b, k).
    """
    chosen = outputs.dim() == 2 and outputs.shape[1] > 1
    if chosen and y.dim() == 1 and not y.is_floating_point():
        return (outputs.argmax(1) == y).float()
    if chosen and y.shape == outputs.shape:
        right = (outputs.argmax(1) == y.argmax(1)).float()
        return torch.where(probabilities(y), right, math.nan)
    return torch.full((len(y),), math.nan, device=y.device)


def probabilities(y: Tensor) -> Tensor:
    """Which rows are probabilities: at least 0, of sum 1 but for the rounding of float32, or of a shorter type; (b,).

    Args:
        y: shape (b, k).
    """
    room = max(1e-5, torch.finfo(y.dtype).eps) if y.is_floating_point() else 0.0
    return (y >= 0).all(1) & ((y.sum(1, dtype=torch.float64) - 1).abs() <= room)


def absolute_error(outputs: Tensor, y: Tensor) -> Tensor:
    """Mean absolute error of each example, shape (b,).

    Args:
        outputs: shape (b,) or (b, 1) or (b, k).
        y: targets, of as many numbers an example.
    """
    return (outputs.reshape(len(y), -1) - y.reshape(len(y), -1)).abs().mean(1)


@dataclass(frozen=True)
class Data:
    """Examples and targets for training and, where given, for validation and test; arrays or tensors.

    Examples are (n, ...) real or, for embeddings, whole numbers; images are (n, channels, height, width). Labels are
    whole numbers from 0. Neighbouring data sets differ in one training record.

    Args:
        train: examples and targets that are trained on.
        validation: examples and targets that choices may be made on; None for none.
        test: examples and targets that are looked at last; None for none.
    """

    train: Pair
    validation: Pair | None = None
    test: Pair | None = None

    def held_out(self) -> dict[str, Pair]:
        """Validation and test, where given, by name."""
        pairs = {"validation": self.validation, "test": self.test}
        return {name: pair for name, pair in pairs.items() if pair is not None}


class Examples:
    """Examples (n, ...) and targets (n, ...) on a device, as rows of one matrix, so that a batch is a copy of rows.

    Real numbers become ``dtype``. Images are kept channels-last or plain, as the network on them (:func:`layout_of`).

    Args:
        pair: examples (n, ...) and targets (n, ...), arrays or tensors.
        name: what messages call the data, such as "train".
        device: where they are kept.
        dtype: of real numbers; whole ones become int64.
        layout: of images in memory: channels-last, or plain.

    Raises:
        ParameterError: for no examples, different numbers of them, numbers that are not finite.
    """

    def __init__(
        self,
        pair: Pair,
        name: str,
        device: torch.device,
        dtype: torch.dtype,
        layout: torch.memory_format = torch.channels_last,
    ):
        x, y = tensors(pair, name)
        if x.dim() < 2 or len(x) == 0 or y.dim() == 0 or len(y) != len(x):
            raise ParameterError(
                f"{name}: examples of shape {tuple(x.shape)} with targets of shape {tuple(y.shape)} are not allowed: "
                "they must be (n, ...) and (n, ...), n at least 1."
            )
        x, y = (array.to(device, dtype if array.is_floating_point() else torch.int64) for array in (x, y))
        for what, array in (("examples", x), ("targets", y)):
            if array.is_floating_point() and not _finite(array):
                raise ParameterError(f"{name}: the {what} have numbers that are not finite (NaN or infinite).")
        self.n, self.y = len(x), y
        self.is_image = x.dim() == 4
        self._is_last = self.is_image and layout == torch.channels_last
        x = (x.permute(0, 2, 3, 1) if self._is_last else x).contiguous()
        self._shape, self._rows = x.shape[1:], x.flatten(1)
        self._buffer = self._rows.new_empty(0, self._rows.shape[1])
        self._norms: dict[bool, Tensor] = {}

    @staticmethod
    def joined(sets: Sequence["Examples"]) -> tuple["Examples", list[int]]:
        """All in one, each set once; and the rows at which each begins.

        Args:
            sets: of one shape of example and one kind of target; the same set may stand in it several times.

        Raises:
            ParameterError: for sets that are not alike.
        """
        distinct = list({id(data): data for data in sets}.values())
        if len({(data._shape, data._is_last, data.y.shape[1:], data.y.dtype) for data in distinct}) > 1:
            raise ParameterError("data: all models need examples of one shape, and targets of one kind.")
        ends = np.cumsum([data.n for data in distinct]).tolist()
        starts = {id(data): end - data.n for data, end in zip(distinct, ends, strict=True)}
        whole = copy.copy(distinct[0])
        if len(distinct) > 1:
            whole.n, whole._norms, whole._buffer = ends[-1], {}, whole._rows.new_empty(0, whole._rows.shape[1])
            whole._rows, whole.y = (
                torch.cat(parts) for parts in zip(*(data.tensors() for data in distinct), strict=True)
            )
        return whole, [starts[id(data)] for data in sets]

    def batch(self, rows: Tensor, fresh: bool = False) -> tuple[Tensor, Tensor]:
        """Examples (b, ...) and targets (b, ...) of some rows.

        Args:
            rows: of the examples that are taken, shape (b,), int64.
            fresh: the examples are in memory of their own; otherwise the next batch may overwrite them.
        """
        b, numbers = rows.shape[0], self._rows.shape[1]
        if fresh or b * numbers <= SMALL:
            return self._shaped(self._rows.index_select(0, rows)), self.y.index_select(0, rows)
        if b > self._buffer.shape[0]:
            self._buffer = self._rows.new_empty(b, numbers)
        x = torch.index_select(self._rows, 0, rows, out=self._buffer[:b])
        return self._shaped(x), self.y.index_select(0, rows)

    def norms(self, rows: Tensor, with_one: bool) -> Tensor:
        """Norms |x| of examples, shape (b,); computed for all examples the first time.

        Args:
            rows: of the examples that are taken, shape (b,), int64.
            with_one: of x with a 1 appended, as a layer with a bias sees it.
        """
        if with_one not in self._norms:
            self._norms[with_one] = row_norms(self._rows, with_one)
        return self._norms[with_one].index_select(0, rows)

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Rows (n, numbers of an example) and targets."""
        return self._rows, self.y

    def pieces(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All of them in order, as pairs (x, y). The first is a copy, and so are those after one that was changed, as
        by a network that begins with an activation in place: the records themselves stay as they are.

        Args:
            size: most examples of a pair.
        """
        changes = True
        for x, y in zip(self._rows.split(size), self.y.split(size), strict=True):
            given = (x.clone(), y.clone()) if changes else (x, y)
            versions = [array._version for array in given]
            yield self._shaped(given[0]), given[1]
            changes = [array._version for array in given] != versions

    def extremes(self) -> Tensor:
        """Rows of the records that hold the least or the largest number of a column, or such a target: what a network
        does not take (a word beyond its embedding) is most likely there. Of at most 64 columns, (rows,).
        """
        columns = torch.linspace(0, self._rows.shape[1] - 1, min(64, self._rows.shape[1])).long().unique()
        parts = (self._rows[:, columns.to(self._rows.device)], self.y.reshape(self.n, -1)[:, :64])
        ends = [end(0) for part in parts for end in (part.argmin, part.argmax) if part.numel()]
        overall = [self._rows.flatten().argmin(), self._rows.flatten().argmax()] if self._rows.numel() else []
        return torch.cat([*ends, *(place.view(1) // self._rows.shape[1] for place in overall)]).unique()

    def with_rare_labels(self, labels: int = 8) -> Tensor:
        """Rows of two records of each of the rarest labels, (2 labels,) at most: of the same one twice, where there is
        only one; none where targets are no labels.

        Args:
            labels: how many of them, at most.
        """
        if self.y.dim() != 1 or self.y.is_floating_point():
            return torch.empty(0, dtype=torch.int64, device=self.y.device)
        kinds, counts = self.y.unique(return_counts=True)
        rows = [(self.y == kind).nonzero()[[0, -1], 0] for kind in kinds[counts.argsort()[:labels]]]
        return torch.cat(rows)

    def first(self) -> Tensor:
        """The first example, as a batch of one; a copy."""
        return self._shaped(self._rows[:1].clone())

    def _shaped(self, x: Tensor) -> Tensor:
        if len(self._shape) == 1:
            return x
        x = x.view(-1, *self._shape)
        return x.permute(0, 3, 1, 2) if self._is_last else x


@bounded(size=integer(1))
@whole_float32()
@torch.no_grad()
def evaluate(net: nn.Module, examples: Examples, loss: Loss, metric: Loss, size: int | None = None) -> dict[str, float]:
    """Mean loss and metric over all examples, in evaluation mode: {"loss", "metric"}.

    Args:
        net: examples (b, ...) to outputs; each layer is left in the mode that it was in.
        examples: on the device of the network.
        loss: outputs and targets to a loss of each example, shape (b,).
        metric: outputs and targets to a number of each example, shape (b,).
        size: examples that go through at once; None for what the device does well.

    Raises:
        ParameterError: for a value outside its range, or what is no :class:`Examples`.
    """
    if not isinstance(examples, Examples):
        raise ParameterError(
            f"examples = {described(examples)} is not allowed: it must be dplib.examples.Examples, made of a pair."
        )
    modes, place = {module: module.training for module in net.modules()}, examples.y.device
    totals = torch.zeros(2, dtype=torch.float64, device=place)
    try:
        net.eval()
        for x, y in examples.pieces(int(size or EVALUATED.on(place))):
            outputs = net(x)
            totals += torch.stack([loss(outputs, y).double().sum(), metric(outputs, y).double().sum()])
    finally:
        for module, training in modes.items():
            module.training = training
    return dict(zip(("loss", "metric"), (totals / examples.n).tolist(), strict=True))


def check_labels(y: Tensor, classes: int, name: str) -> None:
    """Refuse labels that do not fit a network's scores.

    Args:
        y: labels, shape (n,), or probabilities, shape (n, k).
        classes: the scores that the network gives, in [1, 1e9].
        name: what messages call the data, such as "train".

    Raises:
        ParameterError: unless labels are whole numbers from 0 to ``classes`` - 1, or rows of as many probabilities.
    """
    integer(1, 10**9).check("classes", classes)
    if y.is_floating_point() and y.dim() == 2 and y.shape[1] == classes:
        if not probabilities(y).all():
            raise ParameterError(f"{name}: rows of labels must be probabilities: numbers of at least 0, of sum 1.")
        return
    if y.is_floating_point() or y.dim() != 1:
        raise ParameterError(f"{name}: labels must be (n,) whole numbers or (n, {classes}) probabilities.")
    if int(y.min()) < 0 or int(y.max()) >= classes:  # which one is private
        raise ParameterError(f"{name}: a label is not allowed: all must be in 0 to {classes - 1}.")


def tensors(pair: Pair, name: str) -> tuple[Tensor, Tensor]:
    """Examples and targets as tensors of numbers, without a copy where that is possible.

    Raises ParameterError, which names the table, for what is no such pair or holds no real numbers.

    Args:
        pair: examples (n, ...) and targets (n, ...), arrays or tensors.
        name: what messages call the data, such as "train".

    Raises:
        ParameterError: which names the table, for what is no such pair or holds no real numbers.
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ParameterError(f"{name} = {shown(type(pair))} is not allowed: it must be a pair of examples and targets.")
    return _tensor(pair[0], f"{name}: the examples"), _tensor(pair[1], f"{name}: the targets")


def _tensor(array: Array, name: str) -> Tensor:
    """Also of a table of pandas, a list of tensors, numbers in another byte order or from the last to the first."""
    try:
        if isinstance(array, list | tuple) and array and all(isinstance(x, Tensor) for x in array):
            array = torch.stack(list(array))
        if isinstance(array, Tensor) and type(array) not in (Tensor, nn.Parameter):
            kind = type(array).__name__
            raise ParameterError(f"{name} are a {kind}, which may hide numbers or count them otherwise: give a Tensor.")
        if not isinstance(array, Tensor):
            refuse_hidden(name, array)
            array = np.asarray(array)
            if array.dtype.kind not in "biufc":
                raise ParameterError(f"{name} are of {array.dtype}: they must be numbers.")
            kind = float if array.dtype == np.longdouble else array.dtype.newbyteorder("=")
            shared = array.flags.writeable and all(step >= 0 for step in array.strides)  # as a tensor can
            array = torch.as_tensor(array.astype(kind, copy=not shared))
        if array.is_sparse or array.is_quantized or array.is_nested:
            raise ParameterError(f"{name} are a sparse, nested or quantized tensor: they must be a plain one.")
        if array.is_complex():
            raise ParameterError(f"{name} are complex numbers, which are not allowed.")
        return array.detach()
    except ParameterError:
        raise
    except (TypeError, ValueError, RuntimeError, OverflowError) as problem:
        reason = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        raise ParameterError(f"{name} are no table of numbers: {reason[:300]}") from problem


def _finite(array: Tensor) -> bool:
    """One sum tells in most cases: it is finite only if every number is, and overflows rarely."""
    return bool(array.sum().isfinite()) or bool(array.isfinite().all())


VECTOR = 8  # float32 numbers in a register of AVX2


def layout_of(net: nn.Module, x: Array) -> torch.memory_format:
    """What a network on examples x (n, ...) is to be kept in: channels-last for images, or the plain order where a
    layer calls for it; other examples leave the network as it is.

    Args:
        net: a network.
        x: its examples, shape (n, ...).
    """
    if np.ndim(x) != 4:
        return torch.preserve_format
    return torch.contiguous_format if any(map(needs_plain_order, net.modules())) else torch.channels_last


def follow(x: Tensor, layout: torch.memory_format) -> Tensor:
    """Images (n, ...) in the plain order where the network is kept in it; elsewhere as they are.

    Args:
        x: images, shape (n, ...).
        layout: what :func:`layout_of` says of the network.
    """
    return x.contiguous() if layout == torch.contiguous_format else x


def needs_plain_order(module: nn.Module) -> bool:
    """Whether this is instance normalisation or such a convolution; padded ones are spared, but not worth the risk.

    Args:
        module: a layer.
    """
    if isinstance(module, nn.InstanceNorm2d):
        return True
    if not isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        return False
    # A transposed convolution is the backward pass of one that has input and output exchanged.
    channels = module.out_channels if isinstance(module, nn.ConvTranspose2d) else module.in_channels
    return max(module.kernel_size) == 1 and max(module.stride) > 1 and channels < VECTOR


SAMPLING = ("poisson", "shuffled")
BLOCK, BLOCK_ROWS = 64, 2**22  # batches that are drawn ahead for a GPU, and their rows


RECORDS = integer(1, 10**12)
RATE = number(1e-12, 1)  # below, the gaps between records are beyond whole numbers of 64 bits


def poisson(n: int, sample_rate: float, rng: np.random.Generator | None) -> np.ndarray:
    """Rows of one Poisson sample, (b,) in increasing order: each record by itself with the same probability.

    The gaps between successes of independent trials are geometric, so drawing the gaps gives the same law as n trials
    at the cost of b of them.

    Args:
        n: records, whole, in [1, 1e12].
        sample_rate: chance of each record, in [1e-12, 1].
        rng: a generator; None for :mod:`dplib.secure`.

    Raises:
        ParameterError: for a value outside its range.
    """
    RATE.check("sample_rate", sample_rate)
    RECORDS.check("n", n)
    n, sample_rate = int(n), float(sample_rate)  # NumPy's short numbers overflow in products
    if rng is None:
        return secure.successes(n, sample_rate)
    size = room(n, sample_rate)
    ends = rng.geometric(sample_rate, size).cumsum()
    while ends[-1] <= n:  # trials have no memory, so the sequence just goes on
        ends = np.concatenate([ends, ends[-1] + rng.geometric(sample_rate, size).cumsum()])
    return ends[: np.searchsorted(ends, n, side="right")] - 1


def poisson_table(n: int, sample_rate: float, rng: np.random.Generator, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The samples that :func:`poisson` draws in so many calls, at a fraction of the cost: rows (steps, most), of which
    the first of each are its sample and the others 0; and their numbers (steps,).

    Args:
        n: records, whole, in [1, 1e12].
        sample_rate: chance of each record, in [1e-12, 1].
        rng: a generator.
        steps: samples, in [1, 1e9].

    Raises:
        ParameterError: for a value outside its range.
    """
    RATE.check("sample_rate", sample_rate)
    RECORDS.check("n", n)
    integer(1, 10**9).check("steps", steps)
    n, sample_rate, steps = int(n), float(sample_rate), int(steps)
    state, size = rng.bit_generator.state, room(n, sample_rate)
    ends = rng.geometric(sample_rate, (steps, size)).cumsum(1)
    if (ends[:, -1] > n).all():
        taken = ends <= n
        return np.where(taken, ends - 1, 0), taken.sum(1)
    rng.bit_generator.state = state  # a sample has no room: draw one after another
    return padded([poisson(n, sample_rate, rng) for _ in range(steps)])


def padded(samples: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Samples as a table (samples, most rows), filled up with 0, and their sizes (samples,).

    Args:
        samples: rows of each, shape (its size,).
    """
    sizes = np.array([len(rows) for rows in samples])
    table = np.zeros((len(samples), max(1, sizes.max())), np.int64)
    for row, rows in zip(table, samples, strict=True):
        row[: len(rows)] = rows
    return table, sizes


def room(n: int, sample_rate: float) -> int:
    """Gaps that nearly always reach beyond n records: of the mean number and six standard deviations.

    Args:
        n: records, whole, in [1, 1e12].
        sample_rate: chance of each record, in [1e-12, 1].
    """
    mean = n * sample_rate
    return int(mean + 6 * mean**0.5) + 8


class Sampler:
    """The rows of one batch after another.

    "poisson" takes each record by itself with probability ``sample_rate``, and is what privacy accounting is about.
    "shuffled" goes through random orders of the n records in batches of round(sample_rate * n), and leaves out the
    last, incomplete one: for training without privacy.

    Args:
        kind: one of ``SAMPLING``, "poisson" or "shuffled".
        n: records, whole, in [1, 1e12].
        sample_rate: chance of each record, in [1e-12, 1].
        rng: a generator; None for :mod:`dplib.secure`.

    Raises:
        ParameterError: for a value outside its range.
    """

    def __init__(self, kind: str, n: int, sample_rate: float, rng: np.random.Generator | None):
        RATE.check("sample_rate", sample_rate)
        RECORDS.check("n", n)
        one_of(*SAMPLING).check("kind", kind)
        self.kind, self.n, self.sample_rate, self.rng = kind, int(n), float(sample_rate), rng
        self.batch_size = max(1, round(self.sample_rate * self.n))
        self._order = np.empty(0, np.int64)

    def batches(self, place: torch.device) -> Iterator[Tensor]:
        """The rows (b,) of one batch after another, without end, on a device; a GPU gets a block of them in one copy,
        since the host waits for each.

        Args:
            place: the device that the rows are put on.
        """
        while place.type == "cpu":
            yield torch.from_numpy(self.draw())
        while True:
            count = max(1, min(BLOCK, BLOCK_ROWS // self.batch_size))
            drawn = [self.draw() for _ in range(count)]
            yield from torch.from_numpy(np.concatenate(drawn)).to(place).split([len(rows) for rows in drawn])

    def draw(self) -> np.ndarray:
        """(b,) rows of the next batch."""
        if self.kind == "poisson":
            return poisson(self.n, self.sample_rate, self.rng)
        if len(self._order) < self.batch_size:
            self._order = self.rng.permutation(self.n)
        rows, self._order = self._order[: self.batch_size], self._order[self.batch_size :]
        return rows


def fill_normal(out: Tensor, sd: float, generator: torch.Generator | None) -> Tensor:
    """Fill ``out`` with independent N(0, sd^2), and return it. PyTorch's float32 normals are Box-Muller on 24 bits:
    none lies beyond 5.8 standard deviations.

    Args:
        out: a tensor of any shape.
        sd: standard deviation, >= 0.
        generator: on the device of ``out``; None for :mod:`dplib.secure`, in float64, rounded to the type of ``out``.
    """
    if generator is None:
        return out.copy_(secure.normal(out.numel()).mul_(sd).view(out.shape))
    return out.normal_(0.0, sd, generator=generator)
