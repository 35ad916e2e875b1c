"""Label privacy beside record privacy, and all methods side by side: the last figure of paper C and its table."""

from collections.abc import Mapping, Sequence

from dplib import stats
from dplib.labels.beyond_jobs import METHODS
from dplib.labels.beyond_study import Compared

Verdict = tuple[dict, str, str]
PAPER = ("rr", "stages", "clusters")  # the paper's own methods


def against_sgd(compared: Compared, sgd: Compared, method: str) -> dict[float, stats.Measured]:
    """A method less DP-SGD at each budget that both have: paired differences of test accuracy, in points."""
    return {
        epsilon: stats.paired(
            compared.test[method][:, compared.epsilons.index(epsilon)],
            sgd.test["dp-sgd"][:, sgd.epsilons.index(epsilon)],
        ).difference
        for epsilon in compared.epsilons
        if epsilon in sgd.epsilons
    }


def ahead(compared: Compared, sgd: Compared) -> tuple[list[float], list[float]]:
    """Budgets at which stages and clusters are both significantly above DP-SGD, and both significantly below."""
    gains = [against_sgd(compared, sgd, method) for method in ("stages", "clusters")]
    above = [e for e in gains[0] if all(one[e].low > 0 for one in gains)]
    return above, [e for e in gains[0] if all(one[e].high < 0 for one in gains)]


def last_figure(compared: Compared, sgd: Compared) -> Verdict:
    """C.fig-summary: stages and clusters are well above record-private methods at the same number.

    Otherwise "undecided": the paper compares deep networks, and linear ones cannot contradict that.
    """
    gains = {method: against_sgd(compared, sgd, method) for method in ("stages", "clusters")}
    values = {f"{method}_less_dp_sgd_at_eps_{e:g}": gain for method in gains for e, gain in gains[method].items()}
    every = [gain for one in gains.values() for gain in one.values()]
    verdict = "holds with change" if all(gain.low > 0 for gain in every) else "undecided"
    values |= {f"accuracy_of_dp_sgd_at_eps_{e:g}": sgd.mean("dp-sgd", e) for e in sgd.epsilons}
    for e in compared.epsilons:
        if e / 2 in sgd.epsilons:  # what protects a replaced label as well: half the budget for a removed record
            half = sgd.test["dp-sgd"][:, sgd.epsilons.index(e / 2)]
            own = compared.test["stages"][:, compared.epsilons.index(e)]
            values[f"stages_less_dp_sgd_at_half_of_eps_{e:g}"] = stats.paired(own, half).difference
            if "subset" in compared.test:
                subsets = compared.test["subset"][:, compared.epsilons.index(e)]
                values[f"subsets_less_dp_sgd_at_half_of_eps_{e:g}"] = stats.paired(subsets, half).difference
    if "subset" in compared.test:
        for e, gain in against_sgd(compared, sgd, "subset").items():
            values[f"subsets_less_stages_at_eps_{e:g}"] = compared.gain("subset", "stages", e).difference
            values[f"subsets_less_dp_sgd_at_eps_{e:g}"] = gain
    level, rise = plateau(sgd)
    ceiling = ""
    if level is not None:
        values[f"dp_sgd_at_eps_{sgd.epsilons[-1]:g}_less_at_eps_{level:g}"] = rise
        ceiling = f" From ε = {level:g} on DP-SGD gains no more: beyond, the comparison is with its ceiling."
    return values, verdict, (
        "Paired over seeds, in points of test accuracy, linear classifiers for both: what depth adds to label privacy, "
        "and not to DP-SGD, they cannot show, so they can confirm the claim or leave it open. The two ε differ in "
        "meaning (one label substituted, δ = 0; one record added or removed, δ > 0), and so do the features: DP-SGD's "
        f"may not come from the private images.{ceiling} Below ε = {sgd.epsilons[0]:g} DP-SGD was not run."
    )  # fmt: skip


def plateau(sgd: Compared) -> tuple[float | None, stats.Measured | None]:
    """The least budget from which on DP-SGD gains nothing significant up to the largest one, and that gain."""
    runs = sgd.test["dp-sgd"]
    for i, epsilon in enumerate(sgd.epsilons[:-1]):
        rise = stats.paired(runs[:, -1], runs[:, i]).difference
        if rise.low <= 0 and rise.value < 1:
            return epsilon, rise
    return None, None


def method_table(sets: Mapping[str, Compared]) -> dict[str, list]:
    """All methods on all data sets for a frozen row: lists with one entry for each budget.

    "title: method": mean test accuracies. "title: best", "title: best of the paper's": names of methods, by their
    means. "title: ahead by", with its ends "low" and "high": the former less the latter, paired, 95%.
    """
    private = [m for m in METHODS if m != "clean"]
    frozen: dict[str, list] = {}
    for title, one in sets.items():
        best, paper = ([_best(one, some, e) for e in one.epsilons] for some in (private, PAPER))
        gains = [one.gain(a, b, e).difference for a, b, e in zip(best, paper, one.epsilons, strict=True)]
        frozen |= {f"{title}: {m}": one.test[m].mean(axis=0).tolist() for m in METHODS}
        frozen |= {
            f"{title}: epsilon": list(one.epsilons),
            f"{title}: best": best,
            f"{title}: best of the paper's": paper,
            f"{title}: ahead by": [gain.value for gain in gains],
            f"{title}: ahead by, low": [gain.low for gain in gains],
            f"{title}: ahead by, high": [gain.high for gain in gains],
        }
    return frozen


def _best(one: Compared, methods: Sequence[str], epsilon: float) -> str:
    return max(methods, key=lambda m: one.mean(m, epsilon).value)


def best_methods(frozen: Mapping[str, list]) -> str:
    """One sentence from :func:`method_table`: which methods are a point or more ahead of all of the paper's own.

    The best was picked by the same runs; its interval is not corrected for that.
    """
    parts = []
    for title in [key.removesuffix(": epsilon") for key in frozen if key.endswith(": epsilon")]:
        names = ("epsilon", "best", "ahead by", "ahead by, low")
        ahead: dict[str, list[str]] = {}
        for epsilon, method, by, low in zip(*(frozen[f"{title}: {name}"] for name in names), strict=True):
            if low > 0 and by >= 1 and method not in PAPER:
                ahead.setdefault(METHODS[method], []).append(f"{by:.1f} at ε = {epsilon:g}")
        said = [f"{method} ({', '.join(by)})" for method, by in ahead.items()]
        parts.append(f"on {title} {'; '.join(said) or 'none'}")
    said = (
        "Ahead of the paper's own methods by a point or more, with an interval above 0 (the best picked by the same "
        f"runs, not corrected for that): {', and '.join(parts)}."
    )
    return said if parts else "The frozen run kept no table of the methods."


def rates_at_ends(compared: Compared, rates: Sequence[float], sgd: Compared, sgd_rates: Sequence[float]) -> str:
    """One sentence: how often the best learning rate lay at an end of its grid, for label privacy and for DP-SGD."""
    said = []
    for name, run, grid in (("the label-private methods", compared, rates), ("DP-SGD", sgd, sgd_rates)):
        chosen = [rate for method, row in run.rates.items() if method != "clean" for rate in row]
        if len(grid) == 1:
            said.append(f"{name} had one learning rate, untuned")
        else:
            ends = sum(rate in (grid[0], grid[-1]) for rate in chosen)
            said.append(f"for {name} the best of {len(grid)} learning rates lay at an end of the grid in {ends} of "
                        f"{len(chosen)} cases")  # fmt: skip
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def found_priors(gains: Mapping[str, Mapping], harm: Mapping[str, float]) -> str:
    """Two sentences from the frozen values of C.fig1b and C.s-ssl-underperforms-eps8: where cluster priors help."""
    measured = {float(key.removeprefix("gain_at_eps_")): one for key, one in gains.items() if "gain_at_eps_" in key}
    helps = [e for e, one in measured.items() if one["low"] > 0]
    harms = [e for e, one in measured.items() if one["high"] < 0]
    said = ""
    if helps:
        gain = stats.Measured(**measured[min(helps)])
        said = f"Cluster priors help up to ε = {max(helps):g}, by {gain} points at ε = {min(helps):g}. "
    if harms:
        most = min(harms, key=lambda e: measured[e]["value"])
        said += (
            f"They harm at ε = {', '.join(f'{e:g}' for e in harms)}, by {-measured[most]['value']:.1f} points at most"
        )
        pair = (f"right_answers_at_eps_{most:g}", f"right_answers_of_the_uniform_prior_at_eps_{most:g}")
        if set(pair) <= set(harm) and harm[pair[0]] > harm[pair[1]]:
            said += f", at ε = {most:g}, where answers are more often right and yet worse to learn from"
        said += "."
    return said.strip()


def found_sgd(values: Mapping[str, Mapping]) -> str:
    """One sentence from the frozen values of C.fig-summary: where DP-SGD is behind both of the paper's, or ahead."""
    order: dict[str, list[str]] = {"ahead of": [], "behind": []}
    for key in values:
        name, _, epsilon = key.partition("_less_dp_sgd_at_eps_")
        if name == "stages" and epsilon:
            both = [values[f"{method}_less_dp_sgd_at_eps_{epsilon}"] for method in ("stages", "clusters")]
            if all(one["high"] < 0 for one in both):
                order["ahead of"].append(epsilon)
            if all(one["low"] > 0 for one in both):
                order["behind"].append(epsilon)
    parts = [f"{word} stages and cluster priors at ε = {', '.join(at)}" for word, at in order.items() if at]
    return f"With linear classifiers DP-SGD, which protects whole records, is {' and '.join(parts)}." if parts else ""
