"""The closed forms that dials compute in the page, as Vega expressions, each beside the library's own function.

A browser test compares the two at random settings. Vega has the normal distribution; the rest is arithmetic.
"""

import math

import numpy as np

from book.press import dials_data as data
from book.press.dials_page import Formula
from dplib import mechanisms
from dplib import randomised_response as response

# ---- Chapter 1 ----

LOG = math.log(1 / data.DELTA)
HALVINGS = 45  # of the interval in which epsilon is looked for
FRACTIONS = 40  # of the continued fraction


def mixture_error(scale: str, p: str, informative: str) -> str:
    """:func:`dplib.gmm.predicted_error` of the dial's mixtures, with noise of ``scale``.

    Each feature's variance is v = 1 + (scale ln(1/delta) / epsilon)^2; Gamma = distance^2 m / v for m informative ones.
    """
    nu, n = 2 * data.N_PER_CLASS - 2, 2 * data.N_PER_CLASS
    gamma = f"({data.DISTANCE**2} * ({informative}) / (1 + pow(({scale}) * {LOG!r} / epsilon, 2)))"
    factor = math.sqrt((nu - 4) / (nu - 2) / (1 + 1 / n)) / 2
    return f"cumulativeNormal(-{factor!r} * {gamma} / sqrt({gamma} + ({p}) * {2 / data.N_PER_CLASS!r}))"


def mixture() -> dict[str, Formula]:
    """Error at the dial's epsilon, number of features and signal, for each noise; and what Definition 2 spends."""
    p = "grid[features]"
    m = f"(signal === 0 ? {p} : {data.SIGNALS['sparse']})"

    def error(k: int, noise: str) -> Formula:
        def python(at):
            signal = list(data.SIGNALS)[at["signal"]]
            return data.gmm_error(signal, noise, data.DIMENSIONS[at["features"]], at["epsilon"])

        return Formula(mixture_error(f"scales[signal][{k}][features]", p, m), python)

    formulas = {f"error{noise}": error(k, noise) for k, noise in enumerate(data.NOISES)}
    for noise in data.NOISES:
        name = f"error{noise}"
        words = Formula(
            f"{name} < 0.0005 ? 'below 0.001' : format({name}, '.3f')",
            lambda at, name=name: "below 0.001" if at[name] < 0.0005 else f"{at[name]:.3f}",
        )
        formulas[noise] = words
    return formulas | {"errors": _errors()} | spent()


_ERRORS = {
    "none": " without noise",
    "unit": " with noise of sensitivity one",
    "L2": " by the largest ℓ₂ norm",
    "L1": " by the largest ℓ₁ norm",
}


def _errors() -> Formula:
    """The errors of the curves that are shown, in words: a curve that is to be guessed is not given away."""
    each = [f"{noise} + '{words}'" for noise, words in _ERRORS.items()]
    every = " + ', ' + ".join(each[:-1]) + f" + ', and ' + {each[-1]}"

    def python(at):
        told = [f"{at[noise]}{words}" for noise, words in _ERRORS.items()]
        return told[at["shown"] - 1] if at["shown"] else f"{', '.join(told[:-1])}, and {told[-1]}"

    return Formula(f"shown === 0 ? {every} : [{', '.join(each)}][shown - 1]", python)


def spent() -> dict[str, Formula]:
    """The exact epsilon of the noise of Definition 2: the root of the Gaussian mechanism's delta, by halving.

    With mu = 1/sigma, delta(e) = Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu). The second term is phi(a) R(x), where a
    is the first argument, x minus the second and R the ratio of Mills, so that no exponential overflows.
    """
    formulas = {
        "mu": Formula(f"epsilon / {LOG!r}", lambda at: at["epsilon"] / LOG),
        "most": Formula(
            f"mu * mu / 2 + mu * {math.sqrt(2 * LOG)!r}", lambda at: at["mu"] ** 2 / 2 + at["mu"] * math.sqrt(2 * LOG)
        ),
        "low0": Formula("0", lambda at: 0.0),
    }
    for k in range(HALVINGS):
        e = f"(low{k} + most / {2 ** (k + 1)})"

        def python(at, k=k):
            middle = at[f"low{k}"] + at["most"] / 2 ** (k + 1)
            above = mechanisms.gaussian_log_delta(1 / at["mu"], 1.0, middle) > math.log(data.DELTA)
            return middle if above else at[f"low{k}"]

        formulas[f"low{k + 1}"] = Formula(f"{gaussian_delta(e)} > {data.DELTA} ? {e} : low{k}", python)
    formulas["spent"] = Formula(
        f"low{HALVINGS}",
        lambda at: float(
            mechanisms.gaussian_epsilon(mechanisms.paper_sigma(at["epsilon"], data.DELTA), 1.0, data.DELTA)
        ),
        ",.3f",
    )
    formulas["excess"] = Formula(
        "spent > epsilon ? ': it is not private as claimed' : ''",
        lambda at: ": it is not private as claimed" if at["spent"] > at["epsilon"] else "",
    )
    return formulas


def gaussian_delta(e: str) -> str:
    """Delta at epsilon ``e`` of the Gaussian mechanism of distance mu."""
    a, x = f"(mu / 2 - {e} / mu)", f"(mu / 2 + {e} / mu)"
    return f"(cumulativeNormal{a} - densityNormal{a} * {mills(x)})"


def mills(x: str) -> str:
    """(1 - Phi(x)) / phi(x) for x > 0: directly up to 4, beyond by Laplace's continued fraction."""
    fraction = x
    for k in range(FRACTIONS, 0, -1):
        fraction = f"{x} + {k} / ({fraction})"
    return f"({x} < 4 ? cumulativeNormal(-{x}) / densityNormal({x}) : 1 / ({fraction}))"


# ---- Chapter 8 ----


def success(e: str, k: int) -> str:
    """w_k of Algorithm 2 at epsilon ``e``: the k likeliest labels' mass over 1 + (k - 1) exp(-e)."""
    mass = " + ".join(f"prior[{j}]" for j in range(k))
    return f"(({mass}) / (1 + {k - 1} * exp(-({e}))))"


def best(e: str) -> str:
    """The largest w_k at epsilon ``e``."""
    return f"max({', '.join(success(e, k) for k in range(1, data.CLASSES + 1))})"


def answering() -> dict[str, Formula]:
    """The prior, k*, and how often each answer is right, at any epsilon and sharpness."""
    labels = range(1, data.CLASSES + 1)
    tail = " + ".join(f"pow({j}, -4 * sharpness)" for j in labels)
    mass = f"((1 - sharpness) * shape / {data.CLASSES} + sharpness * 0.99)"
    each = [
        f"shape === 0 ? pow({j}, -4 * sharpness) / ({tail}) : "
        f"{j} <= shape ? {mass} / shape : (1 - {mass}) / ({data.CLASSES} - shape)"
        for j in labels
    ]
    largest = " : ".join(f"w[{k - 1}] >= right * (1 - 1e-12) ? {k}" for k in reversed(labels))

    def prior(at):
        return data.prior(data.SHAPES[at["shape"]], at["sharpness"])

    def constant(at):
        return ONLY_ONE if at["k"] == 1 else EVERY if at["k"] == data.CLASSES else ""

    return {
        "prior": Formula(f"[{', '.join(each)}]", prior),
        "w": Formula(
            f"[{', '.join(success('epsilon', k) for k in labels)}]",
            lambda at: response.success(at["prior"], np.float64(at["epsilon"])),
        ),
        "right": Formula(best("epsilon"), lambda at: float(at["w"].max()), ".3f"),
        "k": Formula(f"{largest} : 1", lambda at: int(response.best_k(at["prior"], np.float64(at["epsilon"]))), "d"),
        "level": Formula("exp(-epsilon) * right", lambda at: math.exp(-at["epsilon"]) * at["right"]),
        "plain": Formula(f"w[{data.CLASSES - 1}]", lambda at: float(at["w"][-1]), ".3f"),
        "guess": Formula("prior[0]", lambda at: float(at["prior"][0]), ".3f"),
        "constant": Formula(f"k === 1 ? '{ONLY_ONE}' : k === {data.CLASSES} ? '{EVERY}' : ''", constant),
    }


ONLY_ONE = "One label is kept: the answer is a constant, tells nothing of the true label, and spends no privacy."
EVERY = "All labels are kept: this is plain randomised response."
