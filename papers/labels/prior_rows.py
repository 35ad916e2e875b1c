"""From the runs of chapter 10 to the values of its rows in the ledger, by claim, and to its figures and tables."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from scipy import stats as sps

from book.evidence import margins, plotting, rules, runs
from dplib import audit, exact_loss, mechanisms, priors
from dplib.stats import Measured, mean_interval, paired
from papers.labels.later_method_runs import LATER
from papers.labels.prior_method_runs import EARLIER, METHODS
from papers.labels.prior_runs import Compared, Votes

Values = dict[str, dict[str, Any]]
GROUPS = ((1, 3), (2, 2), (2, 3), (3, 2))  # records and labels of a group that is enumerated
BUDGETS = ((0.1, 0.05), (1.0, 0.25), (2.0, 1.0), (4.0, 0.5))  # whole, and the histogram's share
SMALL, LARGE = (0.05, 0.1), (2.0, 8.0)  # budgets at which cluster priors help, and at which they harm
NAMES = METHODS | LATER | EARLIER | {"dp-sgd": "DP-SGD at ε/2, records hidden too"}
SGD = "DP-SGD (whole records, δ > 0)"
# One colour a method in every figure of the chapter.
COLOURS = dict(
    zip(
        ("rr", "clusters", "subset", "clusters-soft", "stages", "clusters-smoothed"),
        sns.color_palette("colorblind"),
        strict=False,
    )
)
SHORT = {
    "clean": "no privacy", "rr": "randomised response", "clusters": "cluster priors", "stages": "two stages",
    "clusters-smoothed": "clusters, smoothed", "clusters-soft": "clusters, soft labels", "subset": "random subsets",
    "stages-subset": "stages, subsets first",
}  # fmt: skip


def enumerated() -> pd.DataFrame:
    """The exact loss of Algorithm 4 on groups of one to three records, and that of the counts alone.

    A row for each size and budget; "delta" is the largest probability by which any set of outputs exceeds epsilon,
    the second computation; "mixed": the counts with noise for epsilon_p instead of epsilon_p / 2.
    """
    rows = []
    for (n, k), (whole, part) in product(GROUPS, BUDGETS):
        table, neighbours = priors.joint_table(n, k, whole, part)
        counts, _ = priors.joint_table(n, k, part, part)
        mixed, _ = priors.joint_table(n, k, part, part, parameter=part)
        losses = [exact_loss.discrete_epsilon(outputs, neighbours=neighbours) for outputs in (table, counts, mixed)]
        rows.append([n, k, whole, part, *losses, exact_loss.discrete_delta(table, whole, neighbours)])
    return pd.DataFrame(rows, columns=["records", "labels", "ε", "ε_p", "loss", "loss of counts", "mixed", "delta"])


def histogram(losses: pd.DataFrame, noise: runs.Result, parameter: float) -> Values:
    """Algorithm 4 and its budget: {claim: values}. found: of :func:`enumerated`; noise: of the study's part."""
    share = sps.dlaplace.cdf(noise["edges"], parameter)
    expected = sum(noise["counts"]) * np.diff(np.concatenate([[0], share, [1]]))
    return {
        "C.alg4": {
            "largest_excess_of_the_loss_of_counts_over_eps_p": float((losses["loss of counts"] - losses["ε_p"]).max()),
            "exact_loss_of_our_program_over_eps_p": float(
                2 * (128 * np.log(2) - np.log(float(priors.stay(parameter)))) / (2 * parameter)
            ),
            "p_value_against_scipy_dlaplace": float(sps.chisquare(noise["counts"], expected).pvalue),
        },
        "C.s-histogram-budget": {
            "largest_excess_of_the_joint_loss_over_eps": float((losses["loss"] - losses["ε"]).max()),
            "largest_delta_at_eps": float(losses["delta"].max()),
        },
    }


def voted(votes_: Votes, chosen: Mapping[float, Mapping[str, Any]], others: Compared) -> Values:
    """Figure 2 and the choice of C and epsilon_p: {claim: values}.

    Args:
        chosen: of the part ``adaptive``. others: methods that ask single labels, compared on the seeds that both have.
    """
    few, many, first = votes_.counts[0], votes_.counts[-1], votes_.epsilons[0]
    lost = votes_.exact - votes_.accuracy[:, :, 0]
    hundred = votes_.exact[votes_.counts.index(100)]
    short = {e: paired(hundred, votes_.of(100, e)).difference for e in votes_.epsilons}

    def gain(e: float, over: str) -> Measured:
        asked = others.of(over, e)
        return paired(chosen[e]["test"]["chosen"][: len(asked)], asked).difference

    return {
        "C.fig2": {
            f"most_less_fewest_clusters_without_noise_({many}_and_{few})": paired(
                votes_.exact[-1], votes_.exact[0]
            ).difference,
            f"what_noise_costs_the_most_less_the_fewest_at_eps_{first:g}": paired(lost[-1], lost[0]).difference,
            **{f"best_number_of_clusters_at_eps_{e:g}": votes_.best(e) for e in votes_.epsilons},
        },
        "C.s-cluster-counts": {"best_at_eps_0.05": votes_.best(0.05)},
        "C.s-histogram-share": {
            "points_lost_at_eps_p_0.05": short[0.05],
            "smallest_eps_p_within_two_points": min(e for e, value in short.items() if value.value <= 2),
        },
        "C.s-adaptive-share": {
            f"{name}_at_eps_{e:g}": value
            for e, votes_ in chosen.items()
            for name, value in (
                ("clusters", votes_["chosen"][0]),
                ("eps_p", votes_["chosen"][1]),
                ("accuracy_gained", paired(votes_["test"]["chosen"], votes_["test"]["fixed"]).difference),
                ("over_randomised_response", gain(e, "rr")),
                ("over_random_subsets", gain(e, "subset")),
            )
        },
    }


def helped(compared: Compared, epsilon_p: float = 0.05) -> Values:
    """Cluster priors against the uniform prior: {claim: values}."""
    gains = {e: compared.gain("clusters", "rr", e) for e in compared.epsilons}
    small, large = ([e for e in budgets if e in gains] for budgets in (SMALL, LARGE))
    ignoring = {e: 100.0 if e <= epsilon_p else compared.fact("clusters constant", e) for e in small}
    return {
        "C.fig1b": {f"gain_at_eps_{e:g}": gain for e, gain in gains.items()},
        "C.s-ssl-small-eps": {
            "epsilon_max": max((e for e, gain in gains.items() if gain.low > 0), default=0.0),
            **{f"gain_at_eps_{e:g}": gains[e] for e in small},
            **{f"percent_of_answers_that_ignore_the_label_at_eps_{e:g}": share for e, share in ignoring.items()},
        },
        "C.s-ssl-underperforms-eps8": {
            **{f"gain_at_eps_{e:g}": gains[e] for e in large},
            **{f"gain_of_smoothed_priors_at_eps_{e:g}": compared.gain("clusters-smoothed", "rr", e) for e in large},
            **{f"percent_right_at_eps_{e:g}": compared.fact("clusters right", e) for e in large},
            **{f"percent_right_of_the_uniform_prior_at_eps_{e:g}": compared.fact("rr right", e) for e in large},
            "percent_of_labels_that_cannot_be_answered_at_eps_8": compared.fact("clusters lost", 8.0),
            "the_same_with_smoothed_counts": compared.fact("smoothed lost", 8.0),
        },
    }


def earlier(compared: Compared) -> Values:
    """Cluster priors against ClusterRR and the uniform prior, on seeds of their own: {claim: values}."""
    over = {
        name: {f"{name}_at_eps_{e:g}": compared.gain("clusters", other, e) for e in compared.epsilons}
        for name, other in (("gain", "rr"), ("lead_over_clusterrr", "cluster-rr"))
    }
    right = {f"percent_right_of_clusterrr_at_eps_{e:g}": compared.fact("cluster-rr right", e) for e in SMALL}
    return {
        "C.fig1b": over["gain"] | over["lead_over_clusterrr"],
        "C.s-clusterrr": over["lead_over_clusterrr"] | right,
    }


MARGIN = {"margin": ["accuracy_points", "fashion-mnist"]}
FRONTIER = {  # what is said of the frontier, each a rule that can come out either way
    "One noisy sum leads all that trust nobody, up to ε = 1": {
        "all_of": [{"ahead": {"value": f"sums_less_best_local_at_{e:g}", "by": MARGIN}} for e in (0.1, 0.25, 0.5, 1.0)]
    },
    "Random subsets lead two stages from ε = 0.5 to 2": {
        "all_of": [{"ahead": {"value": f"subset_less_stages_at_{e:g}", "by": MARGIN}} for e in (0.5, 1.0, 2.0)]
    },
    "DP-SGD at half of ε is behind the best other one at every ε": {
        "all_of": [
            {"behind": {"value": f"dp-sgd_less_best_other_at_{e:g}", "by": MARGIN | {"side": "lower"}}}
            for e in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
        ]
    },
}


def on_frontier(compared: Compared) -> tuple[dict[str, Measured], dict[float, list[str]]]:
    """Of :func:`papers.labels.prior_runs.frontier`: values of :data:`FRONTIER`, and who is best at each budget.

    The best method is named by the first half of the seeds, and compared on the second, so that the choice is free of
    the values that it is judged by. "Best" at a budget: that one, and all that are not behind it by the margin, beyond
    chance (each 95%).
    """
    seeds = len(compared.test["rr"]) // 2
    margin = margins.bound(MARGIN)

    def top(e: float, names: Sequence[str]) -> str:
        return max(names, key=lambda name: compared.of(name, e)[:seeds].mean())

    def less(method: str, other: str, e: float) -> Measured:
        return paired(compared.of(method, e)[seeds:], compared.of(other, e)[seeds:]).difference

    every = list(compared.test)
    local = [name for name in every if name not in ("sums", "dp-sgd")]
    values, best = {}, {}
    for e in compared.epsilons:
        values |= {
            f"sums_less_best_local_at_{e:g}": less("sums", top(e, local), e),
            f"subset_less_stages_at_{e:g}": less("subset", "stages", e),
            f"dp-sgd_less_best_other_at_{e:g}": less("dp-sgd", top(e, [n for n in every if n != "dp-sgd"]), e),
        }
        first = top(e, every)
        best[e] = [n for n in every if n == first or (less(first, n, e).low or 0.0) <= margin]
    return values, best


def frontier_said(values: Mapping[str, Measured]) -> pd.DataFrame:
    """What was said of the frontier before its runs, and what came: a row for each sentence of :data:`FRONTIER`."""
    words = {True: "it holds", False: "it does not hold", None: "open"}
    came = {sentence: words[rules.decide(rule, values, {})] for sentence, rule in FRONTIER.items()}
    return pd.DataFrame(came.items(), columns=["what we expected", "what came"])


def beside_records(compared: Compared, sgd: Compared) -> dict[str, Any]:
    """The values of C.fig-summary: label privacy less DP-SGD at the same number, and at half of 1, paired."""

    def less(method: str, epsilon: float, of_sgd: float) -> Measured:
        return paired(compared.of(method, epsilon), sgd.of("dp-sgd", of_sgd)).difference

    same = {f"{m}_less_dp_sgd_at_eps_{e:g}": less(m, e, e) for m in ("stages", "clusters") for e in sgd.epsilons}
    if 0.5 not in sgd.epsilons:
        return same
    half = {"stages": "stages", "subsets": "subset"}
    return same | {f"{name}_less_dp_sgd_at_half_of_eps_1": less(m, 1.0, 0.5) for name, m in half.items()}


def against_records(label: Compared, sgd: Compared, methods: Sequence[str]):
    """A table: label privacy at epsilon less DP-SGD at the same number and at half of it, where both ran; in points."""
    cells = {
        f"ε = {e:g}, DP-SGD at {of:g}": {
            NAMES[m]: f"{paired(label.of(m, e), sgd.of('dp-sgd', of)).difference:.1f}".replace("-", "−")
            for m in methods
        }
        for e in label.epsilons
        for of in (e, e / 2)
        if of in sgd.epsilons
    }
    return pd.DataFrame(cells)


def attacked(scores: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The values of C.s-inputs-not-protected: areas under the ROC curve, 0.5 for a blind guess."""
    label, record = (dict(zip(scores["epsilons"], scores[name].T, strict=True)) for name in ("label", "record"))
    return {
        **{f"auc_of_membership_at_label_eps_{e:g}": mean_interval(v) for e, v in label.items()},
        "auc_with_true_labels": mean_interval(scores["clean"]),
        "least_auc_of_a_nearest_neighbour_rule": float(scores["stored"].min()),
        **{f"auc_for_dp_sgd_at_record_eps_{e:g}": mean_interval(v) for e, v in record.items()},
    }


def attack_table(aucs: Mapping[str, Any]) -> pd.DataFrame:
    """The values of :func:`attacked`, under names that one can read."""
    names = {
        "auc_with_true_labels": "true labels",
        "auc_of_membership_at_label_eps_": "randomised labels, ε = ",
        "least_auc_of_a_nearest_neighbour_rule": "nearest neighbour on randomised labels",
        "auc_for_dp_sgd_at_record_eps_": "DP-SGD, ε = ",
    }
    shown = {
        words + key.removeprefix(begin): f"{value:.2f}"
        for begin, words in names.items()
        for key, value in aucs.items()
        if key.startswith(begin)
    }
    return pd.Series(shown).to_frame("area under the ROC curve")


def audit_of_answers(epsilon: float, canaries: int, classes: int) -> float:
    """What an audit of randomised response certifies at 95%: the expected number of guesses, the median of right ones.

    Each canary's label is one of two, by a fair coin. An answer that is one of the two is a guess; else the attacker
    abstains. Of the guesses a share e^epsilon / (1 + e^epsilon) is right: as many as any epsilon-DP release allows.
    """
    guesses = round(canaries * (np.exp(epsilon) + 1) / (np.exp(epsilon) + classes - 1))
    correct = int(sps.binom.median(guesses, 1 / (1 + np.exp(-epsilon))))
    return audit.one_run_epsilon(canaries, guesses, correct, 0.0)


def audits(epsilons: Sequence[float], delta: float = 1e-5) -> pd.DataFrame:
    """Epsilon that an audit in one run certifies: a row for each release and number of canaries, a column a budget."""
    shift = {e: 1 / float(mechanisms.analytic_sigma(e, delta)) for e in epsilons}
    rows = {
        (f"answers, {k} labels", n): {f"ε = {e:g}": audit_of_answers(e, n, k) for e in epsilons}
        for k in (2, 10) for n in (100, 1000, 10_000)
    } | {("one noisy sum", n): {f"ε = {e:g}": audit.one_run_limit(shift[e], delta, n) for e in epsilons}
         for n in (100, 1000)}  # fmt: skip
    return pd.DataFrame(rows).T.rename_axis(["what is seen", "canaries"])


def beside(compared: Compared, later: Compared) -> Compared:
    """Methods of later years with those of :func:`prior_study.methods`, same seeds, at the budgets of the former."""
    at = [compared.epsilons.index(e) for e in later.epsilons]
    both = {name: values[:, at] for name, values in compared.test.items()} | dict(later.test)
    return Compared(later.epsilons, both, {}, {}, ())


def table(compared: Compared, methods: Sequence[str], epsilons: Sequence[float]):
    """Test accuracies with intervals; bold: the best private method at a budget, and all not worse beyond chance."""
    private = [m for m in methods if m != "clean"]
    cells, bold = {}, {}
    for e in epsilons:
        top = max(private, key=lambda m, e=e: compared.mean(m, e).value)
        close = {m for m in private if m == top or (compared.gain(top, m, e).low or 0) <= 0}
        cells[f"ε = {e:g}"] = {NAMES[m]: f"{compared.mean(m, e):.1f}" for m in methods}
        bold[f"ε = {e:g}"] = {NAMES[m]: "font-weight: bold" if m in close else "" for m in methods}
    styles = pd.DataFrame(bold)
    return pd.DataFrame(cells).style.apply(lambda _: styles, axis=None)


# ---- figures


def curve(axes: plt.Axes, x: Sequence[float], values: np.ndarray, label: str, **style: Any) -> None:
    """Mean over runs, values (runs, len(x)) in percent, with its 95% interval, cut at 0 and 100."""
    plotting.line(axes, x, plotting.means(values.T), "", within=(0, 100), label=label, **({"marker": "o"} | style))


def budget_axis(axes: plt.Axes, epsilons: Sequence[float], label: str = "ε") -> None:
    """A logarithmic axis of budgets with readable ticks."""
    ticks = [t for t in (0.01, 0.03, 0.1, 0.3, 1, 3, 8) if 0.9 * min(epsilons) <= t <= 1.1 * max(epsilons)]
    axes.set(xscale="log", xlabel=label)
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.set_xticks([], minor=True)


def curves(axes: plt.Axes, compared: Compared, methods: Sequence[str], sgd: Compared | None = None) -> None:
    """Test accuracy over the budget, a line for each method, and for DP-SGD in black."""
    for method in methods:
        curve(
            axes,
            compared.epsilons,
            compared.test[method],
            SHORT.get(method, METHODS[method]),
            color=COLOURS.get(method),
        )
    if sgd:
        curve(axes, sgd.epsilons, sgd.test["dp-sgd"], SGD, color="black", marker="s")
    if "clean" in compared.test:
        axes.axhline(compared.test["clean"].mean(), color="grey", ls=":", label="no privacy")
    axes.set(ylabel="test accuracy, %")
    budget_axis(axes, compared.epsilons)


def vote_curves(axes: plt.Axes, votes_: Votes) -> None:
    """Figure 2: accuracy of the vote over the budget of the histogram, a line for each number of clusters."""
    colours = sns.color_palette("viridis", len(votes_.counts))
    for i, (count, colour) in enumerate(zip(votes_.counts, colours, strict=True)):
        curve(axes, votes_.epsilons, votes_.accuracy[i], f"{count} clusters", color=colour)
    axes.set(ylabel="test accuracy of the vote, %")
    budget_axis(axes, votes_.epsilons, "ε of the histograms")
    axes.set_xlim(right=max(votes_.epsilons))
    plotting.name_lines(axes)
