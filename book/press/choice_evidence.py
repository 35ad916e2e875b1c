"""What the chapters measured of private accuracy, as one tidy table: the evidence behind "Choose a model".

Each row is read from a frozen result (``book/results``) and says where it stands there; no accuracy and no budget is
written in this module. What stands here is which rows of which chapter count, under which name, and what no frozen
value carries: pixels of an image, the sizes and the delta of Location, and the batch of the LSTM.

Left out: figures by diffprivlib's variant of objective perturbation (Table X, Table XVI), whose true epsilon is not the
one it is asked for; regression and ratings, which have no accuracy; networks that train the last layers only.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dplib import claims, plans, sources
from dplib.architecture import crossover_models, crossover_rows, feature_rows, privacy_cost_rows
from dplib.architecture.privacy_cost_study import DELTA, SETTING
from dplib.claims import RESULTS
from dplib.labels import prior_rows, stage_rows
from dplib.stats import Measured, mean_interval

RECORDS, LABELS = "records", "labels"
IMAGE, TABLE, TEXT = "image", "table", "text"
# A model family under the name that choices and pages use.
FAMILIES = {
    "constant": "a constant prediction",
    "linear": "logistic regression by DP-SGD",
    "objective": "logistic regression by objective perturbation, on few columns",
    "objective-all": "logistic regression by objective perturbation, on all columns",
    "small": "a small fully connected network",
    "cnn": "a small convolutional network",
    "large": "a large fully connected network",
    "recurrent": "a small recurrent network",
    "stages": "label randomisation in two stages (LP-2ST)",
    "answers": "plain randomised response on the labels (LP-1ST)",
}


@dataclass(frozen=True)
class Data:
    """A data set as its trainings used it.

    Attributes:
        kind: image, table or text. n: training records. d: numbers in a record (text: words kept of a message).
        classes: of the label. constant: test accuracy (%) of always naming the most frequent class, frozen with the
            trainings; None where it was not: 100 / classes is taken then.
    """

    name: str
    kind: str
    n: int
    d: int
    classes: int
    constant: float | None = None

    @property
    def floor(self) -> float:
        """Accuracy (%) without learning anything."""
        return 100 / self.classes if self.constant is None else self.constant


@dataclass(frozen=True)
class Result:
    """One frozen accuracy under differential privacy.

    Attributes:
        data: the data set. family: a key of FAMILIES. model: the model in words.
        private: whether whole records or only the labels are protected. epsilon, delta: the budget of one training;
            delta 0 is pure DP. Records: one added or removed (objective perturbation: one replaced). Labels: one
            replaced.
        accuracy: test accuracy (%), mean over the runs; low, high: its 95% interval, None where none was frozen.
        without: accuracy (%) of the same model without privacy, trained as long; None where it was not frozen.
        batch, steps: of the private training; None where there are none.
        chapter, row: whose frozen result it is; key: where in the row.
    """

    data: Data
    family: str
    model: str
    private: str
    epsilon: float
    delta: float
    accuracy: float
    low: float | None
    high: float | None
    without: float | None
    batch: int | None
    steps: int | None
    chapter: str
    row: str
    key: str

    @property
    def kept(self) -> float | None:
        """Share of what learning gains that is left under privacy: (accuracy - floor) / (without - floor)."""
        gain = (self.without or 0.0) - self.data.floor
        return None if self.without is None or gain <= 0 else (self.accuracy - self.data.floor) / gain

    @property
    def source(self) -> str:
        """Chapter and row, as a reader can find them."""
        return f"chapter {sources.shown_number(self.chapter)}, {self.row}"


@functools.cache
def run(chapter: str) -> dict[str, Any]:
    """The frozen result of a chapter's real profile: records by claim, provenance, what it rests on.

    Of chapters 3, 4, 6 and 10 the records are those that their kept runs lead to, in the same form; of chapter 9 those
    of Table 4 are, as far as there are kept runs.
    """
    if chapter == COST:
        settings = {**SETTING, "delta": DELTA, **plans.load("03").parts["table_3"].inputs}
        return {"records": _cost(), "provenance": {"parameters": settings}}
    if chapter == PRIORS:
        return {"records": _priors()}
    if chapter == FEATURES:
        return {"records": _features(), "provenance": {"parameters": _TABLES}}
    found = claims.frozen_run(RESULTS / f"{chapter}.real.json")
    if chapter == CROSSING:  # the parts that are not made again yet are in its rows as they were frozen
        return {**found, "records": found["records"] | _pairs()}
    if chapter == STAGES:  # one frozen run, on two pages
        found["records"] |= run(MORE_STAGES)["records"]
        show = plans.load("09")
        for name in stage_rows.TITLES:
            kept = show.read(name) if name in show.parts else None
            for count in (1, 2):
                values = stage_rows.table_4(name, kept, count)
                found["records"][f"C.table4.{name}-lp-{count}st"]["values"] = {k: asdict(v) for k, v in values.items()}
    return found


def _pairs() -> dict[str, Any]:
    study = plans.load("04")
    found = crossover_rows.pairs(study)
    records = _records(crossover_models.every(study, found))
    networks = {
        part: {**{name: curve.to_dict("list") for name, curve in one.curves.items()}, "sgd": [m.value for m in one.sgd]}
        for part, one in found.items()
    }
    models = {name: curve.to_dict("list") for name, curve in crossover_models.three(study)[0].items()}
    for row, data in (("B.fig7", networks), ("B.fig8", models)):
        records[row]["data"] = data
    return records


def _cost() -> dict[str, Any]:
    show = plans.load("03")
    values = privacy_cost_rows.table_3(show.read("table_3"), show.read("tuned"))
    stops = {
        name: privacy_cost_rows.stops(show.read(name)["results"], show.parts[name].inputs["most_steps"])
        for name in ("simple", "complex")
    }
    spent = {f"ε, {name}, pld": privacy_cost_rows.spent(steps, "pld") for name, steps in stops.items()}
    data = {"n": list(stops["simple"]), **{key: [v.mean() for v in one.values()] for key, one in spent.items()}}
    found = _records(values) | {"B.fig6": {"values": {}, "data": data}}
    others = {row: {"values": {}} for row, one in claims.load("B").items() if one.chapter == COST}
    return {row: {**one, "verdict": claims.get(row).expects} for row, one in (others | found).items()}


def _records(values: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Values of rows as a frozen result has them."""
    return {
        row: {
            "values": {name: asdict(one) if isinstance(one, Measured) else one for name, one in own.items()},
            "verdict": claims.get(row).expects,
        }
        for row, own in values.items()
    }


def _priors() -> dict[str, Any]:
    show = plans.load("10")
    main, sgd = show.read("methods")["cifar10-jpeg"], show.read("records")["cifar10-jpeg"]
    values = prior_rows.helped(main) | {
        "C.fig-summary": prior_rows.beside_records(main, sgd),
        "C.s-inputs-not-protected": prior_rows.attacked(show.read("attacks")),
    }
    return _records(values)


_TABLES = {"sgd_batch": 250, "sgd_epochs": 40, "sgd_delta": 1e-5}  # of every run of Tables II and XVIII


def _features() -> dict[str, dict[str, Any]]:
    """Records of chapter 6 by claim: verdict, values, and the curves of Figures 3 and 4."""
    read = plans.load("06").read
    curves = {"B.fig3": read("adult"), "B.fig4": read("recurrence")}
    trained = {"table2": read("table_2"), "table18": read("table_18")}
    own = read("recurrence_tuned")[0]
    found = {
        **feature_rows.tables(read("tables")),
        **feature_rows.sizes(*curves.values(), read("adult_tuned")[0], own),
        **feature_rows.crossings(read("adult_crossing"), read("recurrence_crossing"), curves["B.fig4"], own),
        **feature_rows.mechanism(*trained.values(), read("adult_like_sgd")[0]),
    }
    for name, one in trained.items():
        for row, cell in feature_rows.printed_cells(name, one).items():
            size, epsilon = claims.get(row).published["n_features"], claims.get(row).published["epsilon"]
            at = one.sizes[-1] if size == "all" else size
            means = {"acc_sgd": one.values[at, None], "acc_dpsgd": one.values[at, epsilon]}
            means = {key: mean_interval(values) for key, values in means.items()}
            known = {"epsilon": epsilon, "n_features": size, "constant": float(one.constant.mean())}
            found[row] = {**cell, **means, **known}
    data = {
        row: {"sizes": one.sizes, "epsilons": one.epsilons, "accuracy": one.values.mean(axis=0).round(3).tolist()}
        for row, one in curves.items()
    }
    return {row: {**one, "data": data.get(row, {})} for row, one in _records(found).items()}


def chapter(number: str) -> str:
    """A chapter's full name from its number, "03" to "10"."""
    return next(name for name in (COST, CROSSING, DRIVERS, FEATURES, SEARCH, STAGES, PRIORS) if name[:2] == number)


def verdict(number: str, row: str) -> str:
    """The frozen verdict of a row of the chapter with this number."""
    return run(chapter(number))["records"][row]["verdict"]


def value(chapter: str, row: str, key: str) -> Any:
    """One frozen value: a number, a text, or a mapping with value, low, high, n."""
    return run(chapter)["records"][row]["values"][key]


def has(number: str, row: str, key: str) -> bool:
    """Whether the chapter with this number froze this value."""
    return key in run(chapter(number))["records"].get(row, {}).get("values", {})


def crossing(chapter: str, row: str, key: str) -> float:
    """The estimate of a frozen crossover epsilon, such as "0.437 [0.28, 2]"."""
    found = value(chapter, row, key)
    return found["value"] if isinstance(found, dict) else float(re.match(r"[\d.e+-]+", found)[0])


@functools.cache
def table() -> tuple[Result, ...]:
    """All results, in the order of the chapters."""
    return (*_sums(), *_networks(), *_models(), *_ladders(), *_tables(), *_labels())


COST, CROSSING, DRIVERS = "03_cost_of_privacy", "04_crossover_epsilon", "05_what_drives_the_cost"
FEATURES, STAGES, PRIORS = "06_feature_selection", "09_label_dp_training", "10_label_dp_priors"
SEARCH = "07_architecture_search"
MORE_STAGES = "09b_label_dp_ratings_and_cifar"


@functools.cache
def datasets() -> dict[str, Data]:
    """The data sets by name, with the constant's accuracy where it was frozen."""
    constants = {"adult": "B.table18.eps0.0196-all", "breast-cancer": "B.table2.eps0.236-all"}
    images = {"mnist": ("mnist", 784), "fashion-mnist": ("fashion-mnist", 784), "cifar10-jpeg": ("cifar10", 3072)}
    every = [
        *(Data(name, IMAGE, value(CROSSING, f"B.data-{row}", "n_train"), d, 10) for name, (row, d) in images.items()),
        Data("location", TABLE, 4010, 446, 30),
        *(
            Data(
                name, TABLE, value(FEATURES, f"B.data-{name}", "n_train"),
                value(FEATURES, f"B.data-{name}", "features"), 2, value(FEATURES, row, "constant"),
            )
            for name, row in constants.items()
        ),
        Data(
            "sms-spam", TEXT, value(DRIVERS, "B.data-sms", "n_train"), parameter(DRIVERS, "message_length"), 2,
            value(DRIVERS, "B.rnn", "always_ham"),
        ),
    ]  # fmt: skip
    return {one.name: one for one in every}


def parameter(chapter: str, name: str) -> Any:
    """A parameter of the frozen run of a chapter."""
    return run(chapter)["provenance"]["parameters"][name]


def _interval(measured: dict[str, float]) -> tuple[float, float, float]:
    return measured["value"], measured["low"], measured["high"]


def _sums() -> Iterator[Result]:
    """Chapter 3: a linear task made of sums of uniform features, as wide as one likes (Table III)."""
    n, batch, epochs = (parameter(COST, name) for name in ("n", "batch", "epochs"))
    for d in parameter(COST, "sizes"):
        row = f"B.table3.input-{d}"
        yield Result(
            Data("sums", TABLE, n, d, 2), "linear", "logistic regression", RECORDS, parameter(COST, "epsilon"),
            parameter(COST, "delta"), *_interval(value(COST, row, "acc_dpsgd")), value(COST, row, "acc_sgd")["value"],
            batch, epochs * n // batch, COST, row, "acc_dpsgd",
        )  # fmt: skip


def _networks() -> Iterator[Result]:
    """Chapter 4: the printed pairs of fully connected networks against epsilon (Figure 7)."""
    usual, large = (
        (parameter(CROSSING, batch), parameter(CROSSING, steps))
        for batch, steps in (("batch", "steps"), ("large_batch", "large_steps"))
    )
    trained = {
        "mnist": ("mnist", usual), "longer": ("mnist", (usual[0], parameter(CROSSING, "longer") * usual[1])),
        "fashion": ("fashion-mnist", usual), "jpeg": ("cifar10-jpeg", large), "location": ("location", large),
    }  # fmt: skip
    for part, one in crossover_rows.pairs(plans.load("04")).items():
        name, (batch, steps) = trained[part]
        delta = 1e-7 if name == "location" else parameter(CROSSING, "delta")
        for which, family, curve, sgd in zip(
            ("simple", "complex"), ("small", "large"), one.curves.values(), one.sgd, strict=True
        ):
            for at, point in enumerate(curve.itertuples()):
                yield Result(
                    datasets()[name], family, f"the {which} network of the paper's pair", RECORDS, point.epsilon, delta,
                    point.mean, point.low, point.high, sgd.value, batch, steps, CROSSING, "B.fig7",
                    f"{part}: {which}, point {at + 1}",
                )  # fmt: skip


def _models() -> Iterator[Result]:
    """Chapter 4: three kinds of model on MNIST at equal batches and steps (Figure 8)."""
    batch, steps = parameter(CROSSING, "model_batch"), parameter(CROSSING, "model_steps")
    known = {"PAW FCN": ("small", None), "logistic regression": ("linear", None)}
    known["PAW CNN"] = ("cnn", value(CROSSING, "B.table4.eps1.09-paw", "acc_sgd")["value"])
    curves, _ = crossover_models.three(plans.load("04"))
    for model, (family, without) in known.items():
        for at, point in enumerate(curves[model].itertuples()):
            yield Result(
                datasets()["mnist"], family, model, RECORDS, point.epsilon, parameter(CROSSING, "delta"), point.mean,
                point.low, point.high, without, batch, steps, CROSSING, "B.fig8", f"{model}, point {at + 1}",
            )  # fmt: skip


def _ladders() -> Iterator[Result]:
    """Chapter 5: networks of Table VI trained in full (Figure 10 has the FCN), and the small LSTM of Table XIII."""
    for size in ("small", "large"):
        row = f"B.table6.cnn-{size}-normal"
        yield Result(
            datasets()["mnist"], "cnn", "the CNN of Table VI, all layers", RECORDS, value(DRIVERS, row, "epsilon"),
            parameter(DRIVERS, "delta"), *_interval(value(DRIVERS, row, "acc")), None, parameter(DRIVERS, "cnn_batch"),
            parameter(DRIVERS, "cnn_steps"), DRIVERS, row, "acc",
        )  # fmt: skip
    frozen = run(DRIVERS)["records"]["B.fig10"]["data"]
    for place, (epsilon, mean) in enumerate(zip(frozen["epsilons"], frozen["full"], strict=True)):
        yield Result(
            datasets()["mnist"], "large", "the FCN of Table VI, all layers", RECORDS, epsilon,
            parameter(DRIVERS, "delta"), mean, None, None, None, parameter(DRIVERS, "batch"),
            parameter(DRIVERS, "frozen_steps"), DRIVERS, "B.fig10", f"full, point {place + 1}",
        )  # fmt: skip
    row = "B.table13.simple"
    yield Result(
        datasets()["sms-spam"], "recurrent", "the simple LSTM", RECORDS, value(DRIVERS, "B.rnn", "epsilon"),
        parameter(DRIVERS, "delta"), *_interval(value(DRIVERS, row, "acc_dpsgd")),
        value(DRIVERS, row, "acc_sgd")["value"], 100, parameter(DRIVERS, "simple_message_steps"), DRIVERS, row,
        "acc_dpsgd",
    )  # fmt: skip


def _tables() -> Iterator[Result]:
    """Chapter 6: the census and recurrence of breast cancer, by DP-SGD and by objective perturbation."""
    batch, epochs = parameter(FEATURES, "sgd_batch"), parameter(FEATURES, "sgd_epochs")
    for row, record in run(FEATURES)["records"].items():
        if cell := re.match(r"B\.table(18|2)\.eps", row):
            data = datasets()["adult" if cell[1] == "18" else "breast-cancer"]
            values = record["values"]
            yield Result(
                data, "linear", f"two neurons on {values['n_features']} columns", RECORDS, values["epsilon"],
                parameter(FEATURES, "sgd_delta"), *_interval(values["acc_dpsgd"]), values["acc_sgd"]["value"],
                min(batch, data.n), epochs * data.n // min(batch, data.n), FEATURES, row, "acc_dpsgd",
            )  # fmt: skip
    for name, row in (("adult", "B.fig3"), ("breast-cancer", "B.fig4")):
        frozen = run(FEATURES)["records"][row]["data"]
        *budgets, _ = frozen["epsilons"]  # the last is so large that it stands for no noise at all
        for family, size in (("objective", FEW), ("objective-all", frozen["sizes"][-1])):
            accuracies = frozen["accuracy"][frozen["sizes"].index(size)]
            for epsilon, accuracy in zip(budgets, accuracies[:-1], strict=True):
                yield Result(
                    datasets()[name], family, f"the first {size} columns of CFS-Greedy", RECORDS, epsilon, 0.0,
                    accuracy, None, None, accuracies[-1], None, None, FEATURES, row,
                    f"accuracy, {size} columns, ε = {epsilon:g}",
                )  # fmt: skip


FEW = 5  # columns that objective perturbation is shown with: the paper's number for the census


def _labels() -> Iterator[Result]:
    """Chapter 9: randomised labels, asked once (LP-1ST) or in two stages (LP-2ST)."""
    tables = {
        "mnist": ("C.table4.mnist-", "batch_size"), "fashion-mnist": ("C.table4.fashion-mnist-", "batch_size"),
        "cifar10-jpeg": ("C.table1.", "cifar_batch"),
    }  # fmt: skip
    for name, (stem, batch) in tables.items():
        without = value(STAGES, f"{stem}lp-1st", "eps_inf")["value"]
        for family, row in (("answers", f"{stem}lp-1st"), ("stages", f"{stem}lp-2st")):
            for key, measured in run(STAGES)["records"][row]["values"].items():
                if key != "eps_inf":
                    yield Result(
                        datasets()[name], family, row[-6:].upper(), LABELS, float(key.removeprefix("eps")), 0.0,
                        *_interval(measured), without, parameter(STAGES, batch), None, STAGES, row, key,
                    )  # fmt: skip
