"""From the runs of chapter 12 to the values of its rows in the ledger, by claim, and to its tables."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from dplib import accounting, mechanisms, rdp, runs, stats
from dplib.screening import accounts, composition, instances, leak_study, network, one_update
from dplib.screening.accounts import DELTA

Results = Sequence[runs.Result]
Values = dict[str, dict[str, Any]]
GRID = tuple(product((0.6, 1.0, 1.23, 2.15, 5.0), (0.001, 0.01, 0.1, 0.5, 1.0), (2, 3, 8, 20)))  # sigma, q, order
PUSHES = (1.0, 1.5, 2.0)  # at a reader's budget
NOISES = np.geomspace(0.5, 20, 25)  # of Gaussian releases, against the lemmas


def formulas(budgets: Mapping[str, runs.Result], sums: Results) -> Values:
    """Paper D's accounting of plain DP-SGD: {claim: values}.

    Args:
        budgets: of :func:`leak_study.budgets`. sums: of :func:`leak_study.sums`.
    """
    integrals = np.array([_moments(*cell) for cell in GRID])  # log A, log B by quadrature; equation (8); an accountant
    log_a, log_b, eq8, other = integrals.T
    scale = np.maximum(1.0, other)  # of log A, from 1e-8 to hundreds
    by_formula = float((np.abs(eq8 - other) / scale).max())
    mnist = budgets["MNIST"]
    allowed = mnist["allowed"]
    finer = max(one["allowed"]["lemma 2, finer orders"] / one["allowed"]["lemma 2"] for one in budgets.values())
    two = rdp.rdp(1.5, 1.0, 1, accounts.ORDERS) * 2
    combined = accounts.ORDERS * (2 / 1.5**2) / 2  # one Gaussian release of both signals, sensitivity sqrt(2)
    keys = [name.lower().replace("-", "_").replace("cifar_10", "cifar10") for name in budgets]
    return {
        "D.def1": {
            "mnist_add_or_remove_epsilon": mnist["pld"],
            "mnist_replace_epsilon": mnist["replacement"],
            "smallest_counterexample_epsilon": one_update_losses()["one_update_one_rejection_exact"],
        },
        "D.def2": {
            "mean": stats.mean_interval(np.array([one["mean"] for one in sums])),
            "mean_expected": -3.0,
            "variance": stats.mean_interval(np.array([one["variance"] for one in sums])),
            "variance_expected_with_sigma_C": 2.05,
            "variance_expected_with_sigma": 5.05,
        },
        "D.def3": {"largest_difference_of_log_A": float((np.abs(log_a - other) / scale).max()), "settings": len(GRID)},
        "D.s-a-dominates-b": {"least_log_A_minus_log_B": float((log_a - log_b).min()), "settings": len(GRID)},
        "D.eq8": {"largest_difference_of_log_A": by_formula, "settings": len(GRID)},
        "D.lemma1": {
            "two_releases_order_2": float(two[0]),
            "one_of_the_combined_signal": float(combined[0]),
            "largest_difference_at_orders_2_to_64": float(np.abs(two - combined).max()),
        },
        **_lemmas(),
        "D.s-lemma2-for-comparison": {
            **{
                f"epsilon_saved_by_lemma_3_percent_{key}": 100 * (1 - one["lemma 3"] / one["lemma 2"])
                for key, one in zip(keys, budgets.values(), strict=True)
            },
            "steps_lemma_3_mnist": allowed["lemma 3"],
            "steps_lemma_2_mnist": allowed["lemma 2"],
            **{
                f"steps_{name}_{key}": one["allowed"][account]
                for name, account in (("proven_by_pld", "pld"), ("the_most", "most"))
                for key, one in zip(keys, budgets.values(), strict=True)
            },
        },
        "D.s-alpha-grid": {
            "alpha_min": int(accounts.ORDERS[0]),
            "alpha_max": int(accounts.ORDERS[-1]),
            **{f"best_order_{key}": one["order"] for key, one in zip(keys, budgets.values(), strict=True)},
            "steps_gained_by_finer_orders_percent": 100 * (finer - 1),
        },
        "D.eq9": {
            "with_logarithm_largest_difference": by_formula,
            "printed_order_2_at_q_0_for_1_step": float(accounts.renyi(1, 1.23, 1e-9, [2], logarithm=False)[0]),
        },
        "D.eq4": {
            "mnist_as_printed_epsilon": mnist["printed"],
            "mnist_with_logarithm_epsilon": mnist["lemma 2"],
            "mnist_pld_epsilon": mnist["pld"],
            "as_printed_over_an_accountant": mnist["printed"] / mnist["rdp"],
            "with_logarithm_over_an_accountant": mnist["lemma 2"] / mnist["rdp"],
            "steps_as_printed": allowed["printed"],
            "steps_with_logarithm": allowed["lemma 2"],
        },
    }


def _moments(sigma: float, q: float, order: int) -> tuple[float, float, float, float]:
    both = accounts.log_moments_by_quadrature(sigma, q, order)
    return (
        *both,
        float(accounts.log_moment(sigma, q, [order])[0]),
        float(rdp.rdp(sigma, q, 1, [order])[0]) * (order - 1),
    )


def _lemmas() -> Values:
    """Both conversions against the exact epsilon of Gaussian releases."""
    exact = mechanisms.gaussian_epsilon(NOISES, 1.0, DELTA)
    lemma2, lemma3 = (
        np.array([accounts.epsilon(1, s, 1.0, DELTA, conversion=kind)[0] for s in NOISES])
        for kind in ("classical", "improved")
    )
    other = rdp.epsilon(NOISES, 1.0, 1, DELTA, "improved", orders=accounts.ORDERS)
    return {
        "D.lemma2": {
            "least_excess_over_exact": float((lemma2 - exact).min()),
            "largest_excess": float((lemma2 - exact).max()),
        },
        "D.lemma3": {
            "least_excess_over_exact": float((lemma3 - exact).min()),
            "largest_share_of_lemma_2": float((lemma3 / lemma2).max()),
            "difference_from_an_accountant": float(np.abs(lemma3 - other).max()),
        },
    }


def one_update_losses(noise_multiplier: float = 1.0, limit: int = 10, delta: float = DELTA) -> dict[str, float]:
    """One accepted update of the smallest counterexample: full batches, a steep linear public energy."""
    shift = 1 / noise_multiplier

    def exact(most):
        return instances.one_epsilon(instances.pair(instances.UP, most, shift), delta)[0]

    return {
        "one_update_claimed": accounts.epsilon(1, noise_multiplier, 1.0, delta)[0],
        "one_update_as_printed": accounts.epsilon(1, noise_multiplier, 1.0, delta, logarithm=False)[0],
        "one_update_without_screening_exact": float(mechanisms.gaussian_epsilon(noise_multiplier, 1.0, delta)),
        "one_update_one_rejection_exact": exact(1),
        f"one_update_limit_{limit}_exact": exact(limit),
        "free_screening_exact": exact(None),
    }


def screening(
    budgets: Mapping[str, runs.Result],
    trained: Mapping[str, Results],
    worst: Mapping[str, runs.Result],
    audits: Mapping[str, Results],
    networks: Mapping[str, Results],
    energies: Mapping[str, Results],
    spent: Mapping[str, Mapping[str, Any]] | None = None,
) -> Values:
    """What accepted updates tell: {claim: values}.

    Args:
        budgets to networks: of the parts of :mod:`leak_study` by these names; ``trained`` of its ``trainings``,
            ``energies`` of its ``random_energies``.
        spent: of its ``spent``, if the plan has it.
    """
    mnist, steps = worst["MNIST"], budgets["MNIST"]["steps"]
    at_worst = {name: next(row for row in rows if row["push"] == worst[name]["push"]) for name, rows in trained.items()}
    found = {task: min(one["found"] for one in results) for task, results in audits.items()}
    public, private = network.row(networks["test"], DELTA), network.row(networks["training"], DELTA)
    no_gradient = next(v for k, v in instances.conditions().items() if k.startswith("(i), (ii)"))[1]
    # A formula without mu_0 in it, as printed, without the logarithm: two updates, the second with a generous limit.
    generous = instances.one_epsilon(instances.pair(one_update.threshold(2.0), 200))[0]
    orders = next(row for row in trained["MNIST"] if row["push"] == 1.5)["orders"]["2"]
    keys = {"MNIST": "mnist", "Fashion-MNIST": "fashion_mnist", "CIFAR-10": "cifar10"}
    final = {name: one["final"] for name, one in worst.items()}
    return {
        "D.s-postprocessing": {
            "public_energy_MNIST_all_queries_epsilon": mnist["all"],
            "public_energy_MNIST_exact_epsilon": mnist["exact"],
            "private_energy_zero_gradient_exact_epsilon": no_gradient,
            "private_energy_audit_at_least": found["training"],
            "private_energy_audit_claimed": _claimed("training"),
            "network_with_private_energy_at_least": private["found, at least"],
            "network_with_private_energy_claimed": private["claimed"],
        },
        "D.s-accepted-only": {
            **one_update_losses(),
            "audit_claimed": _claimed("public"),
            "audit_at_least": found["public"],
            "network_audit_at_least": public["found, at least"],
            "network_audit_claimed": public["claimed"],
            "free_screening_convex_energies": sum(one["count"] for one in energies["convex"]),
            "free_screening_convex_energies_beyond_a_Gaussian": sum(one["exceed"] for one in energies["convex"]),
            "other_energies": sum(one["count"] for one in energies["other"]),
            "other_energies_beyond_a_Gaussian": sum(one["exceed"] for one in energies["other"]),
        },
        "D.thm1": {
            **{f"claimed_epsilon_{keys[name]}": one["claimed"] for name, one in worst.items()},
            **{f"exact_epsilon_{keys[name]}": one["exact"] for name, one in worst.items()},
            **{f"exact_epsilon_{keys[name]}_from_below": one["below"] for name, one in worst.items()},
            **{f"final_weights_only_epsilon_{keys[name]}": value for name, value in final.items()},
            "private_energy_one_update_exact": no_gradient,
            "as_printed_two_updates_claimed": accounts.epsilon(2, 1.0, 1.0, logarithm=False)[0],
            "as_printed_two_updates_limit_200_exact": generous,
        },
        "D.thm2": {
            "order_2_claimed_mnist": orders[0],
            "order_2_exact_mnist": orders[1],
            "exact_over_claimed": orders[1] / orders[0],
            "plain_steps_largest_difference": float(max(abs(m[2] - m[3]) / max(1, m[3]) for m in
                                                        (_moments(*cell) for cell in GRID))),
        },
        "D.s-epsilon-after-training": {
            "claimed": max(one["claimed"] for one in worst.values()),
            **{f"number_alone_{name}": row["number"] for name, row in at_worst.items()},
        },
        "D.s-proved": {
            "claimed": max(one["claimed"] for one in worst.values()),
            "built_worst_case_final_weights_only": max(final.values()),
        },
        "D.s-budget-3": {
            "built_worst_case_epsilon_mnist": mnist["exact"],
            "the_same_final_weights_only": mnist["final"],
            "delta": DELTA,
            "accepted_updates_mnist": steps,
            "all_queries_epsilon_mnist": mnist["all"],
            "all_queries_at_half_accepted_mnist": accounts.all_queries(accounts.SETTINGS[0], steps, 0.5),
            **{
                f"{name.replace('-', '_')}_trainings_all_queries_epsilon": stats.mean_interval(np.array(one["all"]))
                for name, one in (spent or {}).items()
            },
        },
    }  # fmt: skip


def _claimed(task: str) -> float:
    """What the paper claims for an audited task of one parameter: full batches, Lemma 2."""
    one, updates = leak_study.TASKS[task]
    return accounts.epsilon(updates, one.noise_multiplier, 1.0)[0]


def at_epsilon(setting: str, epsilon: float, delta: float = DELTA) -> pd.DataFrame:
    """What the accepted updates that a budget pays for spend, in the instance of whole trainings (constant push).

    Returns:
        A row for Lemma 2, the paper's count, and one for the tightest account; columns "accepted updates", "exact" at
        the push of :data:`PUSHES` that costs most, "final weights only" there, and "all queries". nan where no update
        is paid for, and for final weights where "exact" exceeds ``composition.RELIABLE``.
    """
    one = leak_study.setting_of(setting)
    cell = one.noise_multiplier, one.sample_rate, delta

    def quickly(steps):  # imprecise for a few steps
        return float(accounts.curve([steps], *cell, "pld")[0])

    guess = accounts.most_steps(quickly, epsilon)
    paid = {
        "Lemma 2, the paper's count": accounts.steps_allowed(epsilon, *cell),
        "the tightest account": accounts.most_steps(lambda n: accounts.tight(one, n, delta), epsilon, max(1, guess)),
    }
    made = [instances.linear(one, push, one.limit, constant=True) for push in PUSHES]
    table = {}
    for name, steps in paid.items():
        cells = {"accepted updates": steps, "exact": np.nan, "final weights only": np.nan, "all queries": np.nan}
        if steps:
            exact = [instances.epsilon(instance, steps, delta) for instance in made]
            worst = made[int(np.argmax(exact))]
            known = max(exact) < composition.RELIABLE
            cells |= {
                "exact": max(exact),
                "final weights only": composition.final_epsilon(worst.cells, steps, delta) if known else np.nan,
                "all queries": accounts.all_queries(one, steps, worst.acceptance_rate, delta),
            }
        table[name] = cells
    return pd.DataFrame(table).T


# ---- tables ----


def conditions() -> pd.DataFrame:
    """One row for each way to break a condition of the theorem on free screening."""
    rows = [[name, *both] for name, both in instances.conditions().items()]
    return pd.DataFrame(rows, columns=["", "one plain update, ε", "one accepted update, ε"]).set_index("")


def steps_allowed(budgets: Mapping[str, runs.Result]) -> pd.DataFrame:
    """Steps of plain DP-SGD that epsilon 3 allows by each account, a row a setting."""
    return _titled({name: one["allowed"] for name, one in budgets.items()}, {
        "printed": "as printed", "lemma 2": "Lemma 2", "lemma 3": "Lemma 3", "prv": "PRV", "pld": "PLD",
        "most": "the most"})  # fmt: skip


def same_steps(budgets: Mapping[str, runs.Result]) -> pd.DataFrame:
    """Epsilon of the steps that Lemma 2 allows by each account, a row a setting."""
    return _titled(budgets, {"printed": "as printed", "lemma 2": "Lemma 2", "lemma 3": "Lemma 3",
                             "inversion": "exact", "replacement": "exact, a record replaced"})  # fmt: skip


def spent_at_worst(worst: Mapping[str, runs.Result]) -> pd.DataFrame:
    """Claimed against exact epsilon of whole trainings at the push that costs most, a row a setting."""
    return _titled(worst, {"steps": "accepted updates", "rate": "accepted / drawn", "claimed": "claimed",
                           "exact": "exact", "final": "final weights only", "all": "all queries"})  # fmt: skip


def _titled(found: Mapping[str, Mapping[str, Any]], titles: Mapping[str, str]) -> pd.DataFrame:
    return pd.DataFrame(found).T[list(titles)].rename(columns=titles).astype(float)


def attacks(audits: Mapping[str, Results], networks: Mapping[str, Results]) -> pd.DataFrame:
    """What attacks find, beside the claim; the least of the audits of a task, all of a network's trainings together."""
    titles = {
        "public": "one parameter, public J",
        "control": "the same without screening",
        "training": "one parameter, J on the training set",
        "held-out": "the same, the record in J's held-out set only",
    }
    rows = [
        [titles[task], np.nan if task == "held-out" else _claimed(task), min(one["found"] for one in results),
         f"{len(results)} audits, the least"]
        for task, results in audits.items()
    ]  # fmt: skip
    names = {"test": "a network, J on test records", "training": "a network, J on 40 training records",
             "held-out": "the same, the records in J's held-out set only"}  # fmt: skip
    for judged, results in networks.items():
        one = network.row(results, DELTA, judged != "held-out")
        said = f"{one['canaries']:,} canaries, {one['trainings']} trainings"
        rows.append([names[judged], one["claimed"], one["found, at least"], said])
    return pd.DataFrame(rows, columns=["", "claimed", "found, at least", "from"]).set_index("")


def noisy_tests(found: Mapping[str, runs.Result]) -> pd.DataFrame:
    """DPSUR: what its theorem claims for updates and tests, what the updates alone can spend, and a corrected rate."""
    cases = {case.name: case for case in instances.DPSUR}

    def row(one, case):
        rate = one["ratio"] * case.batch / case.records
        return {
            "accepted updates": one["steps"],
            "claimed, tests included": one["claimed"],
            "exact, updates alone": one["exact"],
            "second computation, from below": one["below"],
            "charged at rate ρq": float(accounting.epsilon(case.noise_multiplier, rate, one["steps"], DELTA, "rdp")),
        }

    return pd.DataFrame({name: row(one, cases[name]) for name, one in found.items()}).T


def freely(found: Mapping[float, Mapping[str, Mapping[str, Any]]]) -> pd.DataFrame:
    """Free screening, of :func:`leak_study.screened_freely`: accuracies, and paired differences, a row a budget."""
    names = {"alone": "public records alone", "plain": "DP-SGD", "screened": "DP-SGD, screened",
             "public": "DP-SGD, steps on J"}  # fmt: skip
    rows = {}
    for epsilon, arms in found.items():
        row = {title: str(stats.mean_interval(arms[name]["test"])) for name, title in names.items()}
        for name, title in (("screened", "screening gains"), ("public", "steps on J gain")):
            row[title] = str(stats.paired(arms[name]["test"], arms["plain"]["test"]).difference)
        row["candidates an update"] = (
            f"{arms['screened']['candidates'].mean() / arms['plain']['candidates'].mean():.1f}"
        )
        rows[f"{epsilon:g}"] = row
    return pd.DataFrame(rows).rename_axis("ε", axis="columns")
