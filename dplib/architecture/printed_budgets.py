"""Every training epsilon that paper B prints, the tool that printed it, and what settings give it.

The paper's tool is ``compute_dp_sgd_privacy`` of tensorflow-privacy 0.6.2 (Section IV-B): Rényi DP at a fixed list of
orders, with the improved conversion, for Poisson batches and data sets that differ by adding or removing one example.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dplib import claims, mechanisms, rdp

TOOL_ORDERS = np.array([1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 4.5, *range(5, 64), 128, 256, 512])
# What a person may have typed in: the grids of the inverse search.
NOISES = np.round(np.arange(0.5, 4.05, 0.1), 1)
_SMALL, _LARGE = (1e-4, 1e-3, 1e-2, 0.1), (100, 150, 200, 250, 300, 400, 500, 750, 1000, 2000, 5000, 10_000)
WIDE_NOISES = np.array([*_SMALL, *NOISES, 4.5, 5, 6, 7, 8, 9, 10, 12, 15, *range(20, 100, 10), *_LARGE])
BATCHES = np.array([10, 16, 20, 25, 32, 50, 64, 100, 125, 128, 150, 200, 250, 256, 300, 400, 500, 512, 1000, 1024])
EPOCHS = np.arange(1, 1001)
ROUND_EPOCHS = np.array([*range(1, 11), *range(15, 101, 5), *range(120, 501, 10), *range(550, 1001, 50)])


@dataclass(frozen=True)
class Setting:
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

    def __str__(self) -> str:
        return f"noise {self.noise_multiplier:g}, batch {self.batch_size}, {self.epochs} epochs, n = {self.n:,}"


@dataclass(frozen=True)
class Printed:
    """One printed epsilon.

    Attributes:
        epsilon: with all printed digits. stated: what the paper says of this training, its defaults (noise 2, batch
            100, 300 epochs) where it says nothing; None where n is unknown. own: which of these it prints for this
            very value. other_n: sizes to try as well. fit: the setting we conclude on, if any. claims: ledger rows.
    """

    where: str
    task: str
    epsilon: str
    stated: Setting | None
    own: tuple[str, ...]
    fit: Setting | None
    claims: tuple[str, ...]
    other_n: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.where}: {self.task}, ε = {self.epsilon}"


def _default(n, delta=1e-5, noise=2.0, batch=100, epochs=300):
    return Setting(n, batch, epochs, noise, delta)


def _pair(name):
    return (f"B.table1.{name}-stw", f"B.table1.{name}-paw")


def _table4(epsilon):
    return tuple(f"B.table4.eps{epsilon}-{net}" for net in ("stw", "paw", "lenet"))


_CIFAR, _MNIST, _SVHN, _PURCHASE = 50_000, 60_000, 42_000, 157_750  # training examples, Section IV-A
_ADULT, _CANCER, _SMS, _MEDICAL = 22_750, 191, 4_700, 1_000
_ALL = ("n", "batch_size", "epochs", "noise_multiplier")
_SMS_RNN = (_default(_SMS), ("n",))


def _six(n, noise=2.0, delta=1e-5):
    return Setting(n, 250, 200, noise, delta)


ROWS: tuple[Printed, ...] = (
    Printed("Table I", "CNN, CIFAR-10", "4.87", _default(_CIFAR), ("n",), _default(_CIFAR, noise=1.0),
            _pair("cnn-cifar10"), (60_000,)),
    Printed("Table I", "CNN, MNIST", "4.39", _default(_MNIST), ("n",), _default(_MNIST, noise=1.0),
            _pair("cnn-mnist"), (70_000,)),
    Printed("Table I", "CNN, SVHN", "5.38", _default(_SVHN), ("n",), _default(_SVHN, noise=1.0),
            _pair("cnn-svhn"), (52_000, 99_289)),
    Printed("Table I", "FCN, CIFAR-10", "2.34", _default(_CIFAR), ("n",), _six(_CIFAR),
            _pair("fcn-cifar10"), (60_000,)),
    Printed("Table I", "FCN, MNIST and Fashion-MNIST", "2.11", _default(_MNIST), ("n",), _six(_MNIST),
            _pair("fcn-mnist") + _pair("fcn-fashion-mnist"), (70_000,)),
    Printed("Tables I, V", "FCN, SVHN", "2.58", _default(_SVHN), ("n",), _six(_SVHN),
            (*_pair("fcn-svhn"), "B.pca"), (52_000, 99_289)),
    Printed("Table I", "FCN, Purchase-100", "1.54", _default(_PURCHASE, 1e-7), ("n",), _six(_PURCHASE, delta=1e-7),
            _pair("fcn-purchase100"), (197_324,)),
    Printed("Table IV", "CNNs, MNIST", "4.39", _default(_MNIST, noise=1.0), _ALL, _default(_MNIST, noise=1.0),
            _table4("4.39")),
    Printed("Table IV", "CNNs, MNIST", "2.98", _default(_MNIST, noise=1.0, epochs=150), _ALL,
            _default(_MNIST, noise=1.0, epochs=150), _table4("2.98")),
    Printed("Table IV", "CNNs, MNIST", "1.09", _default(_MNIST, epochs=150), _ALL, _default(_MNIST, epochs=150),
            _table4("1.09")),
    Printed("Table IV", "CNNs, MNIST", "1.05", _default(_MNIST, batch=200, epochs=70), _ALL,
            _default(_MNIST, batch=200, epochs=70), _table4("1.05")),
    Printed("Section VI-D", "STW CNN, MNIST", "2.11", _default(_MNIST, epochs=500), ("n", "epochs", "noise_multiplier"),
            _default(_MNIST, epochs=500), ("B.fcn-beats-cnn",)),
    Printed("Tables VI, VIII, IX", "FCN, MNIST", "2.11", _default(_MNIST), ("n",), _six(_MNIST),
            ("B.table6.fcn-large-normal", "B.table6.fcn-large-rwt", "B.table9.eps2.11-stw", "B.table9.eps2.11-paw",
             "B.search-comparison"), (70_000,)),
    Printed("Table VI", "CNN, MNIST", "5.92", _default(_MNIST), ("n",), _six(_MNIST, 1.0),
            ("B.table6.cnn-large-normal", "B.table6.cnn-large-rwt"), (70_000,)),
    Printed("Tables VI, VII, IX", "FCN and CNN, MNIST", "0.341", _default(_MNIST), ("n",), _six(_MNIST, 10.0),
            ("B.table6.fcn-small-normal", "B.table6.fcn-small-rwt", "B.table6.cnn-small-normal",
             "B.table6.cnn-small-rwt", "B.rwt-beats-simple", "B.rwt-search"), (70_000,)),
    Printed("Table VI", "RNN, SMS Spam", "1.47e11", *_SMS_RNN, Setting(_SMS, 100, 50, 1e-4),
            ("B.table6.rnn-large-normal", "B.table6.rnn-large-rwt"), (5_574,)),
    Printed("Table VI", "RNN, SMS Spam", "0.391", *_SMS_RNN, Setting(_SMS, 100, 50, 10.0),
            ("B.table6.rnn-small-normal", "B.table6.rnn-small-rwt"), (5_574,)),
    Printed("Table XIII", "RNN, SMS Spam", "7.21", *_SMS_RNN, Setting(_SMS, 100, 50, 1.0), ("B.rnn",), (5_574,)),
    Printed("Table XIV", "regression, Medical Cost", "0.95", _default(_MEDICAL), ("n",), None,
            ("B.regression-setup",), (1_338,)),
    Printed("Table II (captioned Adult)", "logistic regression", "0.236", _default(_ADULT, batch=250, epochs=40),
            ("batch_size", "epochs"), None, ("B.table2.eps0.236-all",), (_CANCER, 286, 32_561, 48_842)),
    Printed("Table II (captioned Adult)", "logistic regression", "0.014", _default(_ADULT, batch=250, epochs=40),
            ("batch_size", "epochs"), None, ("B.table2.eps0.014-all",), (_CANCER, 286, 32_561, 48_842)),
    Printed("Table XVIII (captioned Breast Cancer)", "logistic regression", "0.0196",
            _default(_CANCER, batch=250, epochs=40), ("batch_size", "epochs"), Setting(_ADULT, 250, 40, 100.0),
            ("B.table18.eps0.0196-all",), (286, _ADULT, 32_561, 48_842)),
    Printed("Table XVIII (captioned Breast Cancer)", "logistic regression", "0.00817",
            _default(_CANCER, batch=250, epochs=40), ("batch_size", "epochs"), None, ("B.table18.eps0.00817-all",),
            (286, _ADULT, 32_561, 48_842)),
    Printed("Table III", "split features, synthetic", "0.0355", None, ("epochs",), None, ("B.table3.input-10",)),
)  # fmt: skip


def tool_epsilon(setting: Setting, conversion="improved", orders=TOOL_ORDERS) -> float:
    """What the paper's tool reports; nan where it refuses, because a batch exceeds the data.

    Args:
        conversion: "improved" is what version 0.6.2 has; "classical" what versions before 2021 had.
    """
    if setting.batch_size > setting.n:
        return math.nan
    spent = rdp.rdp(setting.noise_multiplier, setting.sample_rate, setting.steps, orders)
    if conversion == "improved" and (spent <= -math.log1p(-(setting.delta**2))).any():
        return 0.0  # the total variation is at most sqrt(1 - e^-KL) <= delta
    return float(rdp.to_epsilon(spent, orders, setting.delta, conversion).min())


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


def fits(text: str, sizes, delta, noises=WIDE_NOISES, batches=BATCHES, epochs=ROUND_EPOCHS) -> pd.DataFrame:
    """All settings of a grid whose tool epsilon is the printed one in all its digits.

    Epsilon is the least of ``steps * rdp + price`` over orders, so it is below a number exactly when the steps are
    below the largest of ``(number - price) / rdp``: one divergence per noise and sample rate answers for all epochs.

    Args:
        text: the printed epsilon. sizes: numbers of examples to try. Others: the grid; batches above n are left out.

    Returns:
        Columns n, batch_size, epochs, noise_multiplier, epsilon (the tool's).
    """
    noises, batches, epochs = (np.unique(np.atleast_1d(part)) for part in (noises, batches, epochs))
    price, tables = _price(delta), []
    for n in np.unique(np.atleast_1d(sizes)):
        batch, noise, one_step = _divergences(int(n), tuple(batches.tolist()), tuple(noises.tolist()))
        least, most = (((bound - price) / one_step).max(axis=1)[:, None] for bound in rounding_interval(text))
        steps = np.ceil(epochs * int(n) / batch[:, None])
        which, epoch = np.nonzero((steps >= least) & (steps < most))
        found = (steps[which, epoch][:, None] * one_step[which] + price).min(axis=1)
        columns = (np.full(len(which), n), batch[which], epochs[epoch], noise[which], found)
        tables.append(pd.DataFrame(dict(zip((*_ALL, "epsilon"), columns, strict=True))))
    return pd.concat(tables, ignore_index=True)


@functools.lru_cache(maxsize=64)
def _divergences(n, batches, noises):
    """Batches and noises of the grid, each of shape (k,), and what one step costs at the tool's orders, (k, orders)."""
    batch, noise = (part.ravel() for part in np.meshgrid([b for b in batches if b <= n], noises, indexing="ij"))
    return batch, noise, rdp.rdp(noise, batch / n, 1, TOOL_ORDERS)


def _price(delta):
    return np.log1p(-1 / TOOL_ORDERS) - (np.log(delta) + np.log(TOOL_ORDERS)) / (TOOL_ORDERS - 1)


def common_fits(rows, same=("batch_size", "epochs"), **grid) -> list[tuple]:
    """The values of the settings ``same`` with which every row fits, each with its own n and its own of the rest."""
    found = [fits(row.epsilon, row.fit.n, row.fit.delta, **grid) for row in rows]
    return sorted(set.intersection(*(set(table[list(same)].itertuples(index=False, name=None)) for table in found)))


def shuffled_epsilon(setting: Setting, replace: bool = False) -> float:
    """What is proven when every epoch visits each example once, in batches of a fixed size, without amplification.

    An example then enters ``epochs`` of the noisy sums, each with norm at most C: that is one Gaussian of sensitivity
    sqrt(epochs) C, whatever order the shuffle chose. Neighbours: one example's gradients set to zero (the batches stay
    as they are); with ``replace`` one example is replaced, which doubles the sensitivity. Exact for a known order.
    """
    sensitivity = (2 if replace else 1) * math.sqrt(setting.epochs)
    return float(mechanisms.gaussian_epsilon(setting.noise_multiplier, sensitivity, setting.delta))


def shuffled_lower_bound(setting: Setting) -> float:
    """An epsilon that the shuffled training cannot be below, for zeroed gradients of one example.

    All noisy sums added up are a Gaussian: an example whose clipped gradient always points the same way moves them by
    epochs * C, against noise of sqrt(steps) * noise * C.
    """
    noise = setting.noise_multiplier * math.sqrt(setting.steps)
    return float(mechanisms.gaussian_epsilon(noise, setting.epochs, setting.delta))


@dataclass(frozen=True)
class Contradiction:
    """Two printed statements that cannot both be right; ``chapter`` is where it matters."""

    what: str
    printed: str
    against: str
    chapter: str


def contradictions() -> list[Contradiction]:
    """Every contradiction that we found and that no other row of the ledger resolves."""
    return [*_one_number_for_two_settings(), *_two_numbers_for_one_setting(), *_exchanged_captions()]


def _published(claim_id, name):
    return claims.get(claim_id).published[name]


def _percent(claim_id, name):
    return f"{_published(claim_id, name):.2f}%"


def _one_number_for_two_settings():
    settings = {name: _published("B.paas-settings", name) for name in ("batch_size", "epochs")}
    search = Setting(n=60_000, noise_multiplier=2.0, **settings)
    return [
        Contradiction(
            "STW CNN, MNIST: one accuracy, two budgets",
            f"{_percent('B.table4.eps1.09-stw', 'acc_dpsgd')} at ε = 1.09 (Table IV, 150 epochs)",
            f"{_percent('B.fcn-beats-cnn', 'acc_cnn')} at ε = 2.11 (Section VI-D, 500 epochs)",
            "04",
        ),
        Contradiction(
            "ε of the MNIST trainings inside the search",
            f"{_published('B.search-comparison', 'epsilon_training')} (Table VIII)",
            f"{tool_epsilon(search):.2f}, from {search} (Sections IV-B, IX-A)",
            "07",
        ),
        Contradiction(
            "MNIST examples for 85% at ε = 1, simple network",
            f"{_published('B.effective-sample', 'n_simple'):,} (Section VI-B)",
            f"{_examples_by_the_fit(1.0):,.0f} by the printed fit (Section VI-B)",
            "03",
        ),
    ]


def _examples_by_the_fit(epsilon):
    """n at which ε = ln(α + β/n)."""
    alpha, beta = (_published("B.eps-fit", name) for name in ("alpha", "beta"))
    return beta / (math.exp(epsilon) - alpha)


def _two_numbers_for_one_setting():
    small, complex_net = "B.table6.fcn-small", "B.table7.complex"
    first, second = "B.table1.fcn-mnist-paw", "B.table9.eps2.11-paw"
    return [
        Contradiction(
            "FCN of 9,610 parameters, MNIST, ε = 2.11",
            f"{_percent(first, 'acc_dpsgd')} with DP-SGD, {_percent(first, 'acc_sgd')} with SGD (Table I)",
            f"{_percent(second, 'acc_dpsgd')} and {_percent(second, 'acc_sgd')} (Table IX)",
            "07",
        ),
        Contradiction(
            "FCN of 1,362,122 parameters, MNIST, ε = 0.34",
            f"{_percent(f'{small}-normal', 'acc')} all layers, {_percent(f'{small}-rwt', 'acc')} two (Table VI)",
            f"{_percent(f'{complex_net}-normal', 'acc_dpsgd')} and {_percent(f'{complex_net}-rwt', 'acc_dpsgd')} "
            "(Table VII)",
            "05",
        ),
    ]


def _exchanged_captions():
    rows = {
        table: [id_ for id_ in claims.load("B") if id_.startswith(f"B.{table}.")] for table in ("table2", "table18")
    }
    largest = max(_published(id_, "n_features") for id_ in rows["table18"] if not id_.endswith("-all"))
    tests = _published("B.data-breast-cancer", "n_test")
    accuracies = [_published(id_, "acc_sgd") for id_ in rows["table2"]]
    multiples = sum(any(round(100 * k / tests, 2) == value for k in range(tests + 1)) for value in accuracies)
    return [
        Contradiction(
            "Table XVIII, captioned Breast Cancer",
            f"subsets of up to {largest} features",
            f"{_published('B.data-breast-cancer', 'features')} features in the data (Section IV-A)",
            "06",
        ),
        Contradiction(
            "Table II, captioned Adult",
            f"{multiples} of {len(accuracies)} SGD accuracies are multiples of 1/{tests}",
            f"{tests} test records of Breast Cancer, {_published('B.data-adult', 'n_test'):,} of Adult",
            "06",
        ),
        Contradiction(
            "Batch of Tables II and XVIII",
            f"{_published('B.mechanism-does-not-matter', 'batch_size')} (Section V-B)",
            f"{_published('B.data-breast-cancer', 'n_train')} training records of Breast Cancer",
            "06",
        ),
    ]
