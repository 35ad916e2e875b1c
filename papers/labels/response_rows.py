"""From the runs of chapter 8 to the values of its rows in the ledger, by claim, and to its tables."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from book.evidence import runs
from dplib import randomised_response as response
from papers.labels import response_runs

Results = Sequence[runs.Result]
SIZES, BUDGETS = (2, 3, 8, 10, 100), (0.0, 1e-9, 0.1, 1.0, 5.0, 20.0)  # of uniform priors
PROGRAMS = (1.0, 10.0, 20.0, 30.0, 36.0, 40.0, 60.0)  # budgets at which programs are taken apart
KINDS = {"0.1": "peaked", "1": "uneven", "10": "nearly flat", "uniform": "flat"}  # of random priors, in a table
EPOCHS, NETWORK = 40, (784, 128)  # of the paper on MNIST, Appendix B


def totals(checked_results: Sequence[runs.Result]) -> dict[str, float]:
    """Errors of all runs of :func:`check_priors` at their largest, extremes at their most extreme, counts added up."""
    worst = {name: max(result["worst"][name] for result in checked_results) for name in checked_results[0]["worst"]}
    extremes = {}
    for name in checked_results[0]["extremes"]:
        values = [result["extremes"][name] for result in checked_results if result["extremes"][name] is not None]
        extremes[name] = (min if name in ("least_gain", "excess_at_99") else max)(values, default=None)
    counts = {name: sum(result["counts"][name] for result in checked_results) for name in checked_results[0]["counts"]}
    return {**worst, **extremes, **counts}


def family_p(checked_results: Sequence[runs.Result], mechanism: str) -> float:
    """The least p-value of a mechanism's tests, times the number of all tests (Bonferroni), at most 1."""
    tests = sum(sum(result["tests"].values()) for result in checked_results)
    return min(1.0, tests * min(result["least_p"][mechanism] for result in checked_results))


def exact(checked: Results, listed: Mapping[float, runs.Result]) -> dict[str, dict[str, Any]]:
    """What is proven, and checked on random priors: {claim: values}.

    Args:
        checked: of :func:`response_study.priors`. listed: of the part "enumerations".
    """
    sums = totals(checked)
    spends = {"spends_more_than_epsilon_by_at_most": sums["excess"]}
    return {
        "C.def2.1": {
            "largest_excess_over_all_sets_at_most": sums["all_outputs"],
            "least_excess_at_0.99_epsilon": sums["excess_at_99"],
            "two_computations_apart_by_at_most": sums["other_loss"],
        },
        "C.lemma1": {**spends, "differs_from_the_proof_by_at_most": sums["lemma"]},
        "C.cor2": {
            **spends,
            "delta_if_k_looks_at_the_label": min(case["broken"]["k"] for case in listed.values()),
        },
        "C.thm3": {
            "differs_from_LP1_by_at_most": sums["lp1"],
            "differs_from_LP2_by_at_most": sums["lp2"],
            "differs_from_the_dual_bound_by_at_most": sums["dual"],
            "dual_constraints_violated_by_at_most": sums["violation"],
        },
        "C.lp1": {
            "differs_from_max_w_by_at_most": sums["lp1"],
            "as_printed_given_up": sums["printed_unsolved"],
            "as_printed_others_differ_by_at_most": sums["lp1_as_printed"],
        },
        "C.lp2": {"below_LP1_by_at_most": sums["lp2_below_lp1"], "differs_from_max_w_by_at_most": sums["lp2"]},
        "C.s-lp2-vertices": {
            "polytopes_with_other_vertices": sum(case["corners"]["differ"] for case in listed.values()),
            "best_set_differs_from_max_w_by_at_most": sums["sets"],
        },
        "C.def-obj": {"differs_from_the_table_by_at_most": sums["w"]},
        "C.s-wk-is-accuracy": {"differs_by_at_most": sums["w"]},
        "C.s-pruning-helps": {
            "cases": sums["priors"],
            "dropping_one_label_helps_cases": sums["cut_helps"],
            "dropping_one_label_hurts_cases": sums["cut_hurts"],
            "cases_that_the_bound_decides_wrongly": sums["cut_decided_wrongly"],
            "least_gain_of_RRWithPrior_over_RR": sums["least_gain"],
            "largest_gain_where_k_is_2_or_more": sums["most_gain"],
        },
        "C.s-snr": {
            "cases_above_epsilon_0": sum(result["counts"]["priors"] for result in checked if result["epsilon"] > 0),
            "cases_where_another_k_tells_more": sums["other_tells_more"],
            "most_bits_lost": sums["bits_lost"],
            "k_star_is_short_of_the_best_chance_by_at_most": sums["sets"],
        },
        "C.s-uniform-prior-recovers-rr": {"budgets_and_sizes_with_another_table": _other_tables()},
        "C.s-running-time": {"percent_of_40_epochs_at_1000_labels": 100 * _work(1000)},
    }


def drawn(checked: Results, sampled: Results, listed: Mapping[float, runs.Result]) -> dict[str, dict[str, Any]]:
    """The mechanisms as programs: {claim: values}; ``sampled`` of :func:`response_study.samplers`."""
    sums, plain = totals(checked), response.log_table(np.ones(10, dtype=bool), 1.0)
    least = {name: family_p(sampled, name) for name in ("RR", "RRTop-3", "RRWithPrior")}
    return {
        "C.eq1": {
            "epsilon_asked": 1.0,
            "epsilon_spent": float(response.max_log_ratio(plain)),
            "program_spends_more_than_epsilon_by_at_most": max(
                response_runs.ROUNDING, *(abs(response_runs.program_excess(10, e)[1]) for e in PROGRAMS)
            ),
            "sampler_least_p_of_all_tests": least["RR"],
        },
        "C.alg1": {
            "row_sums_differ_from_1_by_at_most": sums["sums"],
            "sampler_least_p_of_all_tests": least["RRTop-3"],
            "delta_if_a_tie_favours_the_true_label": min(case["broken"]["tie"] for case in listed.values()),
        },
        "C.alg2": {
            "differs_from_all_sets_by_at_most": sums["sets"],
            "sampler_least_p_of_all_tests": least["RRWithPrior"],
            "answers_that_the_table_does_not_allow": sum(result["impossible"] for result in sampled),
        },
    }


def data_sets(checked: Results, listed: Mapping[float, runs.Result]) -> dict[str, dict[str, Any]]:
    """Labels of whole data sets: {claim: values}."""
    apart = [
        case["distance"][differ - 1] - epsilon * min(differ, case["answering"])
        for epsilon, case in listed.items()
        for differ in (1, 2, 3)
    ]
    return {
        "C.def2.2": {
            "largest_difference_from_epsilon_a_label": max(apart, key=abs),
            "two_stages_minus_epsilon": max(case["staged"] - epsilon for epsilon, case in listed.items()),
            "delta_of_two_stages_that_peek": max(case["peeking"] for case in listed.values()),
        },
        "C.s-labels-queried-once": {
            "training_raises_the_loss_by_at_most": totals(checked)["processed"],
            "loss_of_four_draws_in_epsilons": max(case["draws"][3] / epsilon for epsilon, case in listed.items()),
        },
    }


def programs() -> pd.DataFrame:
    """What two programs for plain RR over ten labels spend beyond epsilon, by budget."""
    excesses = [response_runs.program_excess(10, epsilon) for epsilon in PROGRAMS]
    return pd.DataFrame(excesses, index=pd.Index(PROGRAMS, name="ε"), columns=["53 bits: loss − ε", "ours: loss − ε"])


def leaky_pairs(listed: Mapping[float, runs.Result]) -> pd.DataFrame:
    """By budget and source of the prior: neighbouring data sets with infinite loss, in percent of all pairs."""
    shares = {e: {name: 100 * leak["infinite"] for name, leak in case["leaks"].items()} for e, case in listed.items()}
    return pd.DataFrame(shares).T.rename_axis("ε")


def released_code(checked: Results, most: float = 4.0) -> pd.DataFrame:
    """By budget: how often the released code takes another k, and what that loses by kind of prior, in points."""
    cases = [
        {
            "ε": result["epsilon"],
            "another k, %": 100 * result["counts"]["code_differs"] / result["counts"]["priors"],
            **{
                name: 100 * (result["kinds"][kind]["ours"] - result["kinds"][kind]["code"])
                for kind, name in KINDS.items()
            },
            "all kinds": 100 * np.mean([kind["ours"] - kind["code"] for kind in result["kinds"].values()]),
            "most": 100 * result["extremes"]["code_lost"],
        }
        for result in checked
        if 0 < result["epsilon"] <= most
    ]
    by = pd.DataFrame(cases).groupby("ε")
    return by.mean().assign(most=by["most"].max())


def compared(sets: Mapping[str, np.ndarray], prior: np.ndarray, epsilon: float) -> pd.DataFrame:
    """RRTop-k for each of several sets of labels, where labels follow the prior: four exact numbers, one row a set."""
    tables = {name: response.log_table(kept, epsilon) for name, kept in sets.items()}
    return pd.DataFrame(
        {
            name: {
                "labels kept": kept.sum(),
                "right with probability": response.objective(tables[name], prior),
                "bits told": max(0.0, float(response.information(kept, epsilon, prior))),  # and not -0 or -1e-17
                "ε spent": response.max_log_ratio(tables[name]),
            }
            for name, kept in sets.items()
        }
    ).T


def _other_tables() -> int:
    cells = product(SIZES, BUDGETS)
    return sum(not response.kept(np.full(size, 1 / size), budget).all() for size, budget in cells)


def _work(labels: int) -> float:
    """Operations of RRWithPrior on one record as a share of those of training on it."""
    inputs, hidden = NETWORK
    sorting = labels * (np.log2(labels) + 4)  # comparisons; running sum, w_k, largest, draw
    return float(sorting / (EPOCHS * 6 * hidden * (inputs + labels)))  # two operations a weight, three passes
