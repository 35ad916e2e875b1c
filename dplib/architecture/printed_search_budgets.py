"""The five search budgets that paper B prints, and which formula and settings give them, if any.

Table VIII has 22.3 for PAAS, 3.51 for RS and 8.53 for MGRS, Section IX-B has 49.63 for PAFS and 2.31 for CFS. Each has
a table here of all combinations tried (:func:`table`), and the share of other numbers that the same combinations would
have met as well (:func:`by_chance`). Equation (9), on which RS and MGRS rest, is :func:`equation_9`. What is to be said
of the tables is in ``dplib.architecture.printed_search_verdicts``; what is proven of such searches in
``dplib.architecture.search_budgets``.
"""

import functools
import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import optimize, special

from dplib import pure_composition, rdp
from dplib.architecture.printed_budgets import TOOL_ORDERS, Setting, rounding_interval
from dplib.checks import ParameterError, fraction, integer, one_of, positive

TRAINING, SCORE = 2.11, 0.02  # epsilon of one training and of one noisy score (Sections IX-A and VIII-A)
RS_RUNS, MGRS_RUNS = (400,), (40, 20, 10)
FORMS = ("printed", "corrected")


@dataclass(frozen=True)
class Figure:
    """A printed budget: its text, the ledger row, and what it is for."""

    text: str
    claim: str
    what: str


FIGURES = {
    "PAAS": Figure("22.3", "B.paas-budget", "6 generations of 10 trainings at ε = 2.11"),
    "RS": Figure("3.51", "B.rs-budget", "400 candidates at ε = 2.11"),
    "MGRS": Figure("8.53", "B.mgrs-budget", "40, 20 and 10 candidates at ε = 2.11"),
    "PAFS": Figure("49.63", "B.pafs-budget", "10 generations of 600 trainings at ε = 0.1"),
    "CFS": Figure("2.31", "B.cfs-budget", "noisy entropies of 43 features and the class"),
}


# --- equation (9) ----------------------------------------------------------------------------------------------------


def equation_9(loss, validation, count, failure, form="corrected"):
    """The least epsilon' that satisfies equation (9), loss * validation >= (4/epsilon') ln(C/epsilon').

    It rests on Theorem 10.2 of Gupta et al. (2010), which Abadi et al. (2016, Appendix D) restate. A mechanism is
    epsilon-DP and with probability at least p its output scores Q or more, for a score of sensitivity 1 (the number of
    correct validation records). Then for epsilon' in (0, 1/2) there is an (epsilon + 8 epsilon')-DP mechanism whose
    output scores at least Q - (4/epsilon') ln(1/(epsilon' failure p)), except with probability ``failure``. With one
    good setting among ``count``, drawn uniformly, p = 1/count: the logarithm is of count/(epsilon' failure), the form
    "corrected". The "printed" form has ``count`` in the denominator, as if p were count.

    Three conditions are not met in the paper: the theorem is for pure epsilon-DP, and DP-SGD has a delta; its
    mechanism runs :func:`theorem_runs` trainings, not ``count``; and scores must be noised by its rule. On the other
    hand max(epsilon, 8 epsilon') is enough where trainings and scores use disjoint records (Abadi et al., ibid.).

    Args:
        loss: accuracy given up, in (0, 1), x in the paper. validation: records, v. count: candidates, k. failure: in
            (0, 1), delta in the paper, not that of differential privacy. Arrays broadcast.
        form: one of :data:`FORMS`.

    Returns:
        epsilon', closed form by Lambert's W (an array of the broadcast shape, a float for scalars); inf where it would
        be 1/2 or more, which the theorem does not cover.
    """
    one_of(*FORMS).check("form", form)
    loss, validation, count, failure = (np.asarray(v, dtype=float) for v in (loss, validation, count, failure))
    if not ((loss > 0).all() and (validation >= 1).all() and (count >= 1).all() and (failure > 0).all()):
        raise ParameterError("loss and failure must be greater than 0, validation and count at least 1.")
    slope = loss * validation / 4  # epsilon' e^(slope epsilon') = C
    constant = count / failure if form == "corrected" else 1 / (count * failure)
    found = special.lambertw(slope * constant).real / slope
    return np.where(found < 0.5, found, np.inf)[()]


def theorem_runs(selection_epsilon, failure, p) -> float:
    """Trainings that the mechanism of the theorem makes: y^2 ln y with y = 1/(epsilon' failure p)."""
    positive().check("selection_epsilon", selection_epsilon)
    fraction().check("failure", failure)
    y = 1 / (selection_epsilon * failure * p)
    return float(y**2 * np.log(y))


def search_epsilon(runs, loss, validation, failure, form="corrected", training=TRAINING, once=False) -> float:
    """The paper's budget of RS (one entry in ``runs``) or MGRS (one a generation): the sum of epsilon + 8 epsilon'.

    Args:
        runs: candidates of each generation. loss, validation, failure, form: as in :func:`equation_9`.
        training: epsilon of one training. once: count it once, not in every generation (the paper says every one).
    """
    for count in runs:
        integer(1).check("runs", count)
    selection = sum(8 * equation_9(loss, validation, count, failure, form) for count in runs)
    return float((1 if once else len(runs)) * training + selection)


def joint_fits() -> pd.DataFrame:
    """Whether one loss and one failure probability give both 3.51 for RS and 8.53 for MGRS, without any grid.

    3.51 fixes epsilon' = 0.175 for 400 candidates, hence loss * validation for each failure probability from 1e-15 to
    0.5; what is left is one line of MGRS budgets.

    Returns:
        Columns form, training (counted each generation or once), lowest and highest MGRS budget on that line, and
        failure and records (loss * validation) where it is 8.53, nan where it never is.
    """
    rows, rs = [], (3.51 - TRAINING) / 8

    def mgrs(log_failure, form, once):
        failure = np.exp(log_failure)
        constant = RS_RUNS[0] / failure if form == "corrected" else 1 / (RS_RUNS[0] * failure)
        records = 4 / rs * np.log(constant / rs)
        return (search_epsilon(MGRS_RUNS, 1.0, records, failure, form, once=once), records) if records > 1 else None

    for form, once in itertools.product(FORMS, (False, True)):
        line = [(at, *found) for at in np.linspace(np.log(1e-15), np.log(0.5), 2000) if (found := mgrs(at, form, once))]
        at, values, _ = (np.array(part) for part in zip(*line, strict=True))
        finite = np.isfinite(values)
        at, values = at[finite], values[finite]
        failure = records = np.nan
        if values.min() < 8.53 < values.max():
            k = int(np.flatnonzero((values[1:] - 8.53) * (values[:-1] - 8.53) <= 0)[0])
            root = optimize.brentq(lambda x, form=form, once=once: mgrs(x, form, once)[0] - 8.53, at[k], at[k + 1])
            failure, records = float(np.exp(root)), mgrs(root, form, once)[1]
        rows.append((form, "once" if once else "each generation", values.min(), values.max(), failure, records))
    return pd.DataFrame(rows, columns=["form", "training", "lowest", "highest", "failure", "records"])


# --- what was tried for each figure ----------------------------------------------------------------------------------

_DELTAS = tuple(10.0**-k for k in range(3, 10))
_PLAIN_DELTAS = (1e-4, 1e-5, 1e-6, 1e-7)
_LOSSES = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.15, 0.2)
_FAILURES = (0.5, 0.2, *(m * 10.0**-k for k in range(1, 10) for m in (1, 0.5, 0.2)))


def table(name: str) -> pd.DataFrame:
    """Every combination that was tried for a printed budget.

    Args:
        name: one of :data:`FIGURES`.

    Returns:
        Columns formula; change (where it departs from the paper's text, "" where only what is not stated is filled in);
        the settings of the formula; plain (round settings only); value; fits (it rounds to the printed figure).
    """
    one_of(*FIGURES).check("name", name)
    return _table(name).copy()


@functools.cache
def _table(name):
    result = {"PAAS": _paas, "RS": _rs, "MGRS": _mgrs, "PAFS": _pafs, "CFS": _cfs}[name]()
    low, high = rounding_interval(FIGURES[name].text)
    return result.assign(fits=(result["value"] >= low) & (result["value"] < high))


def by_chance(name: str, rows=None) -> float:
    """Share of the other numbers within 20% of a printed budget, of as many digits, that the same rows meet as well.

    Args:
        rows: part of :func:`table`'s rows; by default all.
    """
    text = FIGURES[name].text
    values = np.sort((table(name) if rows is None else rows)["value"].to_numpy())
    digits = len(text.partition(".")[2])
    unit = 10.0**-digits
    around = np.arange(np.ceil(0.8 * float(text) / unit), np.floor(1.2 * float(text) / unit) + 1) * unit
    decoys = [f"{decoy:.{digits}f}" for decoy in around]
    bounds = np.array([rounding_interval(decoy) for decoy in decoys if decoy != text])
    return float((np.searchsorted(values, bounds[:, 1]) > np.searchsorted(values, bounds[:, 0])).mean())


def overview() -> pd.DataFrame:
    """One row a figure: combinations tried, fits, fits without a change, and the share of other numbers met."""
    rows = []
    for name, figure in FIGURES.items():
        tried = table(name)
        fits = tried[tried["fits"]]
        rows.append((name, figure.text, len(tried), len(fits), int((fits["change"] == "").sum()), by_chance(name)))
    return pd.DataFrame(rows, columns=["search", "printed", "tried", "fits", "fits_as_stated", "met_by_chance"])


def _frame(formula, change, plain, **settings):
    """All combinations of settings, as a frame of their own."""
    rows = pd.DataFrame(itertools.product(*settings.values()), columns=list(settings))
    return rows.assign(formula=formula, change=change, plain=plain)


_EQUATION_8 = (
    ("equation (8), printed", "", "printed"),
    ("equation (8), corrected", "bracket closed before the second term", "corrected"),
    ("basic composition", "another theorem", "basic"),
    ("zCDP", "another theorem", "zcdp"),
)


def _equation_8(plain, **settings):
    """Equation (8) both ways, basic composition and zCDP for columns count, epsilon and delta; basic has no delta."""
    parts = []
    for formula, change, rule in _EQUATION_8:
        used = {**settings, "delta": settings["delta"][:1]} if rule == "basic" else settings
        part = _frame(formula, change, plain, **used)
        value = pure_composition.formula(rule, part["epsilon"], part["count"], part["delta"])
        parts.append(part.assign(value=value, delta=np.nan if rule == "basic" else part["delta"]))
    return pd.concat(parts, ignore_index=True)


def _pafs():
    """c = kl = 6,000 or "about 2300" distinct subsets; the final training may be one more at the same epsilon."""
    counts = (6000, *range(2250, 2350))
    alone = _equation_8(True, count=counts, epsilon=(0.1,), delta=_DELTAS)
    change = (alone["change"] + "; the final training added").str.removeprefix("; ")
    final = alone.assign(value=alone["value"] + 0.1, change=change, plain=False)
    return pd.concat([alone, final], ignore_index=True)


def _cfs():
    """How many noisy entropies, at what epsilon each, is not stated: numbers that 9 attributes or 43 features give."""
    counts = sorted({count for m in (9, 43) for count in entropy_counts(m).values()})
    mantissas, exponents = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 7.5, 8, 9), range(-4, 0)
    epsilons = tuple(float(f"{m}e{k}") for k in exponents for m in mantissas)
    tried = _equation_8(False, count=counts, epsilon=epsilons, delta=_DELTAS)
    round_epsilon = tried["epsilon"].map(lambda e: f"{e:e}"[0] in "125" and float(f"{e:.0e}") == e)
    return tried.assign(plain=round_epsilon & (tried["delta"].isna() | tried["delta"].isin(_PLAIN_DELTAS)))


def entropy_counts(m: int) -> dict[str, int]:
    """Numbers of entropies or coefficients that a correlation-based selection over ``m`` features may noise."""
    with_class = m + 1
    return {
        "each feature": m,
        "each feature and the class": with_class,
        "features, class and each pair with the class": 2 * m + 1,
        "pairs of features": m * (m - 1) // 2,
        "pairs, class among them": m * with_class // 2,
        "singles and pairs, class among them": with_class * (m + 2) // 2,
        "three entropies for each pair": 3 * m * with_class // 2,
        "ordered pairs, class among them": m * with_class,
        "square table of the features": m**2,
        "square table, class among them": with_class**2,
        "square table and one more row": with_class * (m + 2),
    }


def _paas():
    """Equation (8) for up to 60 trainings, Rényi composition by the paper's tool, and sums of training and scores."""
    eight = _equation_8(True, count=range(1, 61), epsilon=(TRAINING,), delta=_DELTAS)
    eight.loc[(eight["change"] == "") & (eight["count"] != 60), "change"] = "fewer trainings"
    return pd.concat([eight, _rdp_rows(), _sums()], ignore_index=True)


def _rdp_rows():
    rows = []
    for setting, which in ((Setting(60_000, 100, 300, 2.0), "stated"), (Setting(60_000, 100, 500, 2.0), "at 2.11"),
                           (Setting(60_000, 250, 200, 2.0), "at 2.11")):  # fmt: skip
        one = rdp.rdp(setting.noise_multiplier, setting.sample_rate, setting.steps, TOOL_ORDERS)
        for count in range(1, 61):
            value = float(rdp.to_epsilon(count * one, TOOL_ORDERS, setting.delta).min())
            change = "another theorem" if which == "stated" else "another theorem, other settings"
            rows.append(("Rényi composition of the trainings", change, True, count, str(setting), setting.delta, value))
    return pd.DataFrame(rows, columns=["formula", "change", "plain", "count", "setting", "delta", "value"])


def _sums():
    """So many trainings and so many noisy scores, simply added; the numbers are those of the three searches."""
    counts = (1, 3, 6, 10, 20, 40, 60, 70, 400)
    part = _frame("sum of trainings and scores", "added, not by (8)", True, count=counts, scores=(0, *counts))
    return part.assign(value=part["count"] * TRAINING + part["scores"] * SCORE)


def _nine(runs, once):
    parts = []
    for form in FORMS:
        change = "; ".join(
            c for c in ("" if form == "printed" else "p = 1/k", "training counted once" if once else "") if c
        )
        part = _frame(f"equation (9), {form}", change, True, loss=_LOSSES, validation=(5000, 10_000), failure=_FAILURES)
        selection = sum(equation_9(part["loss"], part["validation"], k, part["failure"], form) for k in runs)
        parts.append(part.assign(value=(1 if once else len(runs)) * TRAINING + 8 * selection))
    return pd.concat(parts, ignore_index=True)


def _rs():
    return pd.concat([_nine(RS_RUNS, False), _sums()], ignore_index=True)


def _mgrs():
    return pd.concat([_nine(MGRS_RUNS, False), _nine(MGRS_RUNS, True), _sums()], ignore_index=True)
