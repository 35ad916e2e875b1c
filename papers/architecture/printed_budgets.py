"""Every training epsilon that paper B prints, the tool that printed it, and what settings give it.

The paper's tool is ``compute_dp_sgd_privacy`` of tensorflow-privacy 0.6.2 (Section IV-B): Rényi DP at a fixed list of
orders, with the improved conversion, for Poisson batches and data sets that differ by adding or removing one example.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from book.evidence import claims
from dplib import mechanisms, rdp

if TYPE_CHECKING:
    import pandas as pd

TOOL_ORDERS = np.array([1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 4.5, *range(5, 64), 128, 256, 512])
# What a person may have typed in: the grids of the inverse search.
_SMALL, _LARGE = (1e-4, 1e-3, 1e-2, 0.1), (100, 150, 200, 250, 300, 400, 500, 750, 1000, 2000, 5000, 10_000)
_USUAL = np.round(np.arange(0.5, 4.05, 0.1), 1)
NOISES = np.array([*_SMALL, *_USUAL, 4.5, 5, 6, 7, 8, 9, 10, 12, 15, *range(20, 100, 10), *_LARGE])
BATCHES = np.array([10, 16, 20, 25, 32, 50, 64, 100, 125, 128, 150, 200, 250, 256, 300, 400, 500, 512, 1000, 1024])
EPOCHS = np.array([*range(1, 11), *range(15, 101, 5), *range(120, 501, 10), *range(550, 1001, 50)])


@dataclass(frozen=True)
class PrintedTraining:
    """A training: ``n`` examples, fixed ``batch_size``, whole ``epochs``, noise over clipping norm, and delta."""

    n: int
    batch_size: int
    epochs: int
    noise_multiplier: float
    delta: float = 1e-5

    @property
    def sample_rate(self) -> float:
        return self.batch_size / self.n

    @property
    def steps(self) -> int:
        return math.ceil(self.epochs * self.n / self.batch_size)

    @property
    def short(self) -> str:
        """noise/batch/epochs, for tables and axes."""
        return f"{self.noise_multiplier:g}/{self.batch_size}/{self.epochs}"


@dataclass(frozen=True)
class Printed:
    """A printed epsilon with all its digits, the setting that we conclude on, if any, and the rows of the ledger that
    print it; ``stated``: noise and epochs are printed beside this very value, and are those of the setting.
    """

    epsilon: str
    fit: PrintedTraining | None
    claims: tuple[str, ...]
    stated: bool = False


def _pair(name):
    return f"B.table1.{name}-stw", f"B.table1.{name}-paw"


def _table4(epsilon):
    return tuple(f"B.table4.eps{epsilon}-{net}" for net in ("stw", "paw", "lenet"))


def _table6(*names):
    return tuple(f"B.table6.{name}-{how}" for name in names for how in ("normal", "rwt"))


_CIFAR, _MNIST, _SVHN, _PURCHASE, _ADULT, _SMS = 50_000, 60_000, 42_000, 157_750, 22_750, 4_700  # Section IV-A
ROWS: tuple[Printed, ...] = (
    # the CNNs of Table I, then its fully connected networks
    Printed("4.87", PrintedTraining(_CIFAR, 100, 300, 1.0), _pair("cnn-cifar10")),
    Printed("4.39", PrintedTraining(_MNIST, 100, 300, 1.0), _pair("cnn-mnist")),
    Printed("5.38", PrintedTraining(_SVHN, 100, 300, 1.0), _pair("cnn-svhn")),
    Printed("2.34", PrintedTraining(_CIFAR, 250, 200, 2.0), _pair("fcn-cifar10")),
    Printed("2.11", PrintedTraining(_MNIST, 250, 200, 2.0), _pair("fcn-mnist") + _pair("fcn-fashion-mnist")),
    Printed("2.58", PrintedTraining(_SVHN, 250, 200, 2.0), (*_pair("fcn-svhn"), "B.pca")),
    Printed("1.54", PrintedTraining(_PURCHASE, 250, 200, 2.0, 1e-7), _pair("fcn-purchase100")),
    # MNIST elsewhere
    Printed("4.39", PrintedTraining(_MNIST, 100, 300, 1.0), _table4("4.39"), stated=True),
    Printed("2.98", PrintedTraining(_MNIST, 100, 150, 1.0), _table4("2.98"), stated=True),
    Printed("1.09", PrintedTraining(_MNIST, 100, 150, 2.0), _table4("1.09"), stated=True),
    Printed("1.05", PrintedTraining(_MNIST, 200, 70, 2.0), _table4("1.05"), stated=True),
    Printed("2.11", PrintedTraining(_MNIST, 100, 500, 2.0), ("B.fcn-beats-cnn",), stated=True),
    Printed("2.11", PrintedTraining(_MNIST, 250, 200, 2.0),
            (*_table6("fcn-large"), "B.table9.eps2.11-stw", "B.table9.eps2.11-paw", "B.search-comparison")),
    Printed("5.92", PrintedTraining(_MNIST, 250, 200, 1.0), _table6("cnn-large")),
    Printed("0.341", PrintedTraining(_MNIST, 250, 200, 10.0),
            (*_table6("fcn-small", "cnn-small"), "B.rwt-beats-simple", "B.rwt-search")),
    # SMS Spam
    Printed("1.47e11", PrintedTraining(_SMS, 100, 50, 1e-4), _table6("rnn-large")),
    Printed("0.391", PrintedTraining(_SMS, 100, 50, 10.0), _table6("rnn-small")),
    Printed("7.21", PrintedTraining(_SMS, 100, 50, 1.0), ("B.rnn",)),
    # tables; no setting that the paper names gives these, but for one
    Printed("0.95", None, ("B.regression-setup",)),
    Printed("0.236", None, ("B.table2.eps0.236-all",)),
    Printed("0.014", None, ("B.table2.eps0.014-all",)),
    Printed("0.0196", PrintedTraining(_ADULT, 250, 40, 100.0), ("B.table18.eps0.0196-all",)),
    Printed("0.00817", None, ("B.table18.eps0.00817-all",)),
    Printed("0.0355", None, ("B.table3.input-10",)),
)  # fmt: skip


def tool_epsilon(setting: PrintedTraining, conversion="improved") -> float:
    """What the paper's tool reports; nan where it refuses, because a batch exceeds the data.

    ``conversion``: "improved" is what version 0.6.2 has; "classical" what versions before 2021 had.
    """
    if setting.batch_size > setting.n:
        return math.nan
    spent = rdp.rdp(setting.noise_multiplier, setting.sample_rate, setting.steps, TOOL_ORDERS)
    if conversion == "improved" and (spent <= -math.log1p(-(setting.delta**2))).any():
        return 0.0  # the total variation is at most sqrt(1 - e^-KL) <= delta
    return float(rdp.to_epsilon(spent, TOOL_ORDERS, setting.delta, conversion).min())


def tool_floor(delta: float) -> float:
    """The smallest positive epsilon that the tool can report at ``delta``, however large the noise."""
    return float(rdp.to_epsilon(np.zeros(len(TOOL_ORDERS)), TOOL_ORDERS, delta).min())


def rounding_interval(text: str) -> tuple[float, float]:
    """The numbers that round to a printed one: [low, high)."""
    mantissa, _, exponent = text.partition("e")
    half = 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return float(text) - half, float(text) + half


def rounds_to(value: float, text: str) -> bool:
    """Whether a number, rounded to as many digits, is the printed one."""
    low, high = rounding_interval(text)
    return bool(low <= value < high)


def fits(text: str, n: int, delta: float, noises=NOISES, batches=BATCHES, epochs=EPOCHS) -> set[tuple]:
    """Every (noise, batch, epochs) of a grid with which the tool gives the printed epsilon in all its digits.

    Epsilon is the least of ``steps * rdp + price`` over orders, so it is below a number exactly when the steps are
    below the largest of ``(number - price) / rdp``: one divergence per noise and sample rate answers for all epochs.
    """
    batch, noise = (part.ravel() for part in np.meshgrid([b for b in batches if b <= n], noises, indexing="ij"))
    one_step = rdp.rdp(noise, batch / n, 1, TOOL_ORDERS)
    price = np.log1p(-1 / TOOL_ORDERS) - (np.log(delta) + np.log(TOOL_ORDERS)) / (TOOL_ORDERS - 1)
    least, most = (((bound - price) / one_step).max(axis=1)[:, None] for bound in rounding_interval(text))
    steps = np.ceil(epochs * n / batch[:, None])
    which, epoch = np.nonzero((steps >= least) & (steps < most))
    return set(zip(noise[which].tolist(), batch[which].tolist(), epochs[epoch].tolist(), strict=True))


def common_fits(rows, own_noise: bool = False, **grid) -> list[tuple]:
    """(noise, batch, epochs) with which every row fits, each with its own n; (batch, epochs) if its own noise too."""
    by_row = [fits(row.epsilon, row.fit.n, row.fit.delta, **grid) for row in rows]
    return sorted(set.intersection(*({fit[own_noise:] for fit in fits_} for fits_ in by_row)))


def shuffled_epsilon(setting: PrintedTraining) -> float:
    """What is proven when every epoch visits each example once, in batches of a fixed size, without amplification.

    An example then enters ``epochs`` of the noisy sums, each with norm at most C: that is one Gaussian of sensitivity
    sqrt(epochs) C, whatever order the shuffle chose. Neighbours: one example's gradients set to zero (the batches stay
    as they are). Exact for a known order.
    """
    return float(mechanisms.gaussian_epsilon(setting.noise_multiplier, math.sqrt(setting.epochs), setting.delta))


def shuffled_lower_bound(setting: PrintedTraining) -> float:
    """An epsilon that the shuffled training cannot be below, for zeroed gradients of one example.

    All noisy sums added up are a Gaussian: an example whose clipped gradient always points the same way moves them by
    epochs * C, against noise of sqrt(steps) * noise * C.
    """
    noise = setting.noise_multiplier * math.sqrt(setting.steps)
    return float(mechanisms.gaussian_epsilon(noise, setting.epochs, setting.delta))


def contradictions() -> "pd.DataFrame":
    """Printed statements that cannot both be right and that no other row of the ledger resolves, with their chapter."""

    def said(claim, name):
        return claims.get(f"B.{claim}").published[name]

    def percent(claim, name):
        return f"{said(claim, name):.2f}%"

    batch, epochs = said("paas-settings", "batch_size"), said("paas-settings", "epochs")
    by_fit = said("eps-fit", "beta") / (math.e - said("eps-fit", "alpha"))
    table_2, table_18 = (list(claims.printed_rows(f"B.{table}").values()) for table in ("table2", "table18"))
    tests = said("data-breast-cancer", "n_test")
    multiples = sum(row["acc_sgd"] in {round(100 * k / tests, 2) for k in range(tests + 1)} for row in table_2)
    rows = [
        ("STW CNN, MNIST: one accuracy, two budgets",
         f"{percent('table4.eps1.09-stw', 'acc_dpsgd')} at ε = 1.09 (Table IV, 150 epochs)",
         f"{percent('fcn-beats-cnn', 'acc_cnn')} at ε = 2.11 (Section VI-D, 500 epochs)", "04"),
        ("ε of the MNIST trainings inside the search",
         f"{said('search-comparison', 'epsilon_training')} (Table VIII)",
         f"{tool_epsilon(PrintedTraining(_MNIST, batch, epochs, 2.0)):.2f}, from noise 2, batch {batch}, "
        f"{epochs} epochs, "
         "n = 60,000 (Sections IV-B, IX-A)", "07"),
        ("MNIST examples for 85% at ε = 1, simple network",
         f"{said('effective-sample', 'n_simple'):,} (Section VI-B)",
         f"{by_fit:,.0f} by the printed fit (Section VI-B)", "03"),
        ("FCN of 9,610 parameters, MNIST, ε = 2.11",
         f"{percent('table1.fcn-mnist-paw', 'acc_dpsgd')} with DP-SGD, {percent('table1.fcn-mnist-paw', 'acc_sgd')} "
         "with SGD (Table I)",
         f"{percent('table9.eps2.11-paw', 'acc_dpsgd')} and {percent('table9.eps2.11-paw', 'acc_sgd')} (Table IX)",
         "07"),
        ("FCN of 1,362,122 parameters, MNIST, ε = 0.34",
         f"{percent('table6.fcn-small-normal', 'acc')} all layers, {percent('table6.fcn-small-rwt', 'acc')} two "
         "(Table VI)",
         f"{percent('table7.complex-normal', 'acc_dpsgd')} and {percent('table7.complex-rwt', 'acc_dpsgd')} "
         "(Table VII)", "05"),
        ("Table XVIII, captioned Breast Cancer",
         f"subsets of up to {max(row['n_features'] for row in table_18 if row['n_features'] != 'all')} features",
         f"{said('data-breast-cancer', 'features')} features in the data (Section IV-A)", "06"),
        ("Table II, captioned Adult",
         f"{multiples} of {len(table_2)} SGD accuracies are multiples of 1/{tests}",
         f"{tests} test records of Breast Cancer, {said('data-adult', 'n_test'):,} of Adult", "06"),
        ("Batch of Tables II and XVIII",
         f"{said('mechanism-does-not-matter', 'batch_size')} (Section V-B)",
         f"{said('data-breast-cancer', 'n_train')} training records of Breast Cancer", "06"),
    ]  # fmt: skip
    import pandas as pd

    return pd.DataFrame(rows, columns=["what", "printed", "against", "chapter"])
