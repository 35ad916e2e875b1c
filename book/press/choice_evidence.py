"""What the kept runs measured of private accuracy, as one tidy table: the evidence behind "Choose a model".

Only methods whose budget covers all that looks at the private records but the choice of the learning rate; those of
:data:`LISTED` have no program and are never advised. No accuracy, rate or budget is written here: they are read from
the runs of chapters 5, 9, 10 and 13.
"""

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pandas as pd

from book.evidence import plans
from dplib import mechanisms, stats
from dplib.stats import Measured
from papers.architecture import advice_rows
from papers.common import diverged
from papers.labels import later_method_runs, prior_method_runs, stage_runs
from papers.labels.prior_check_runs import private_sgd

RECORDS, LABELS = "records", "labels"
CURATOR, NOBODY = "curator", "nobody"  # who may see what is private
IMAGE, TABLE, TEXT = "image", "table", "text"
ANSWERS = ("rr", "subset", "clusters-soft")  # of chapter 10, with a program
# Measured, without a program.
LISTED = ("rr-likelihood", "stages-likelihood", "stages-subset", "vector", "vector-likelihood", "projected")
MOST_LINES = 4  # of a panel
LEAST_GAIN = 3.5  # points that a model must gain without noise before a share of the gain means anything


@dataclass(frozen=True)
class Data:
    """A data set as it was trained on: n records of d numbers; ``constant``: percent of its largest class."""

    name: str
    kind: str
    n: int
    d: int
    classes: int
    constant: float

    @property
    def source(self) -> str:
        """The published set that the records come from: "adult" of "600 rows of adult"."""
        return self.name.rpartition(" of ")[2]


@dataclass(frozen=True)
class Result:
    """A method's test accuracy at one budget, over seeds.

    Attributes:
        method: a key of "method" in ``choice.toml``. private: what it protects, RECORDS or LABELS.
        epsilon: of one training. Records: at delta = 1e-5 for one added or removed, or pure for one replaced
            ("objective"). Labels: for one replaced, pure; of a curator's sums at delta = 1e-5.
        accuracy: in percent. ordinary: the most accurate training without privacy that the book has of these data: of
            images a network or a linear model on features, of tables logistic regression or gradient-boosted trees.
        learning_rate, sample_rate, steps: None where there are none. chapter: whose runs they are.
        more: further settings that the method's program has gaps for, by name.
        sigma: of a curator's sum over all records, over what one label moves it by; None for all other methods.
    """

    data: Data
    method: str
    private: str
    epsilon: float
    accuracy: Measured
    ordinary: float
    learning_rate: float | None
    sample_rate: float | None
    steps: int | None
    chapter: str
    more: Mapping[str, float] = field(default_factory=dict)
    shares: Measured | None = None
    sigma: float | None = None

    @property
    def share(self) -> float | None:
        """What privacy leaves of ordinary training's gain over a constant, by the lower end of the 95% interval; None
        where that gain is too small to be shared. Of tables the interval is of shares, paired by seed.
        """
        whole = self.ordinary - self.data.constant
        low = self.shares.low if self.shares else (self.accuracy.low - self.data.constant) / whole
        return None if whole < LEAST_GAIN else min(1.0, max(0.0, low))


@functools.cache
def table() -> tuple[Result, ...]:
    """All results, each with the ordinary training of its data beside it."""
    images = (*_features(), *_cnn(), *_labels(), *_networks())
    best: dict[str, float] = {}
    for image in images:
        best[image.data.name] = max(image.ordinary, best.get(image.data.name, 0.0))
    return (*(replace(image, ordinary=best[image.data.name]) for image in images), *_tables())


@functools.cache
def advice() -> advice_rows.Advice:
    """What the advice on tables rests on."""
    return plans.load("13").read("advice")


# Images of a set, numbers in one, and the share (%) of the most frequent class in the test part; a test counts them.
IMAGES = {"cifar10-jpeg": (50_000, 3072, 10.0), "mnist": (60_000, 784, 11.35), "fashion-mnist": (60_000, 784, 10.0)}


def _images(name: str, held: int = prior_method_runs.VALIDATION) -> Data:
    n, d, constant = IMAGES[name]
    return Data(name, IMAGE, n - held, d, 10, constant)


def _features() -> Iterator[Result]:
    """Chapter 10: logistic regression by DP-SGD on features from synthetic pictures."""
    steps = private_sgd.__kwdefaults__["steps"]
    for name, compared in plans.load("10").read("features").items():
        without = compared.mean("dp-sgd", math.inf).value
        for i, epsilon in enumerate(compared.epsilons[:-1]):
            yield Result(
                _images(name), "features", RECORDS, epsilon, compared.mean("dp-sgd", epsilon), without,
                compared.rates["dp-sgd"][i], float(compared.facts["sample rate"][0, i]), steps, "10",
            )  # fmt: skip


def _cnn() -> Iterator[Result]:
    """Chapter 9: DP-SGD on a small tanh CNN, tuned at every budget and without noise."""
    show = plans.load("09")
    without = show.read("clipped")
    for (name, epsilon), outcome in show.read("records").items():
        yield Result(
            _images(name, 0), "cnn", RECORDS, epsilon, outcome.mean,
            without[name, None].mean.value, outcome.rate, outcome.runs[0]["sample_rate"], outcome.runs[0]["steps"], "9",
            {"clip": outcome.job["max_grad_norm"]},
        )  # fmt: skip


def _tables() -> Iterator[Result]:
    """Chapter 13's own: every table with the setting that the other tables chose, beside logistic regression."""
    names = {advice().advised(): "rows", "pure": "objective"}
    for method, points in advice().lines.items():
        for point in points if method in names else ():
            data = Data(point.table, TABLE, point.n, point.columns, point.classes, point.constant)
            ridge = {"ridge": advice().chosen[method][""][0]} if method == "pure" else {}
            yield Result(
                data, names[method], RECORDS, point.epsilon, point.accuracy, point.ordinary, None, None, None, "13",
                {"strength": point.strength, **ridge}, shares=point.share,
            )  # fmt: skip


def _labels() -> Iterator[Result]:
    """Chapter 10: randomised labels, sums of a curator, and linear classifiers on features of public inputs."""
    show, settings = plans.load("10"), later_method_runs.compare_later.__kwdefaults__
    first = show.read("methods") | show.read("other_labels")
    clean = {name: compared.mean("clean", compared.epsilons[0]).value for name, compared in first.items()}
    for name, compared in (*first.items(), *show.read("later").items()):
        for method in sorted(set(compared.test) & {*ANSWERS, *LISTED, *later_method_runs.CENTRAL}):
            central = method in later_method_runs.CENTRAL
            for i, epsilon in enumerate(compared.epsilons):
                yield Result(
                    _images(name), method, LABELS, epsilon, compared.mean(method, epsilon), clean[name],
                    compared.rates[method][i], None, None, "10", {"steps": settings["steps"]} if central else {},
                    sigma=float(mechanisms.analytic_sigma(epsilon, settings["delta"])) if central else None,
                )  # fmt: skip


def _networks() -> Iterator[Result]:
    """Chapter 9: randomised labels in two stages, and a small convolutional network."""
    show = plans.load("09")
    for name in filter(show.parts.__contains__, IMAGES):
        read = show.read(name)
        without = stats.mean_interval(diverged.accuracies(read["cells"][math.inf, 1])).value
        for epsilon, results in ((epsilon, runs) for (epsilon, stages), runs in read["cells"].items() if stages == 2):
            choice_ = stage_runs.chosen(read["choices"], epsilon, 2)
            more = {"mixup": choice_["mixup"][0], "temperature": choice_["temperature"]}
            level = stats.mean_interval(diverged.accuracies(results))
            data = _images(name, 0)
            yield Result(
                data, "stages", LABELS, epsilon, level, without, choice_["learning_rate"], None, None, "9", more
            )


def points() -> pd.DataFrame:
    """Shares on images, of methods with a program, as rows for a figure of three panels with at most four lines each.

    Columns: "panel", "budget" (n epsilon; epsilon for private labels), "share" in percent, "line".
    """
    rows = []
    for result in table():
        if result.data.kind != IMAGE or result.share is None or result.method in LISTED:
            continue
        whole = result.private == RECORDS
        panel = "whole images, n·ε" if whole else f"private labels of {result.data.name}, ε"
        line = f"{result.method}: {result.data.name}" if whole else result.method
        rows.append((panel, result.epsilon * (result.data.n if whole else 1), 100 * result.share, line))
    frame = pd.DataFrame(rows, columns=["panel", "budget", "share", "line"])
    means = frame.groupby(["panel", "line"], as_index=False)["share"].mean()
    best = means.sort_values("share", ascending=False).groupby("panel").head(MOST_LINES)
    shown = frame.merge(best[["panel", "line"]])
    return shown[shown.groupby("panel")["line"].transform("nunique") > 1]
