"""From the runs of chapter 12 to the values of its rows in the ledger, by claim, and to its tables."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from book.evidence import claims, runs
from dplib import accounting, exact_loss, mechanisms, rdp, stats
from papers.screening import accounts, composition, instances, leak_runs, network_audit_runs, one_update
from papers.screening.accounts import DELTA

Results = Sequence[runs.Result]
Values = dict[str, dict[str, Any]]
GRID = tuple(product((0.6, 1.0, 1.23, 2.15, 5.0), (0.001, 0.01, 0.1, 0.5, 1.0), (2, 3, 8, 20)))  # sigma, q, order
PUSHES = (1.0, 1.5, 2.0)  # at a reader's budget
NOISES = np.geomspace(0.5, 20, 25)  # of Gaussian releases, against the lemmas


def formulas(budgets: Mapping[str, runs.Result], sums: Results) -> Values:
    """Values of paper D's accounting of plain DP-SGD by claim, from those parts of the plan."""
    # log A, log B by quadrature; equation (8); an accountant. From 1e-8 to hundreds: differences are relative above 1.
    log_a, log_b, eq8, other = np.array([_moments(*cell) for cell in GRID]).T
    scale = np.maximum(1.0, other)
    by_formula = float((np.abs(eq8 - other) / scale).max())
    mnist = budgets["MNIST"]
    finer = max(
        budget["allowed"]["lemma 2, finer orders"] / budget["allowed"]["lemma 2"] for budget in budgets.values()
    )
    two = rdp.rdp(1.5, 1.0, 1, accounts.ORDERS) * 2
    combined = accounts.ORDERS * (2 / 1.5**2) / 2  # one Gaussian release of both signals, sensitivity sqrt(2)
    by_key = {_key(name): budget for name, budget in budgets.items()}
    return {
        "D.def1": {"mnist_add_or_remove_epsilon": mnist["pld"], "mnist_replace_epsilon": mnist["replacement"]},
        "D.def2": {
            what: stats.mean_interval(np.array([moments[what] for moments in sums])) for what in ("mean", "variance")
        },
        "D.def3": {"largest_difference_of_log_A": float((np.abs(log_a - other) / scale).max())},
        "D.s-a-dominates-b": {"least_log_A_minus_log_B": float((log_a - log_b).min())},
        "D.eq8": {"largest_difference_of_log_A": by_formula},
        "D.lemma1": {"largest_difference_at_orders_2_to_64": float(np.abs(two - combined).max())},
        **_lemmas(),
        "D.s-lemma2-for-comparison": {
            f"epsilon_saved_by_lemma_3_percent_{key}": 100 * (1 - budget["lemma 3"] / budget["lemma 2"])
            for key, budget in by_key.items()
        },
        "D.s-batch-fewer-steps": {
            f"steps_at_batch_{batch}": accounts.steps_allowed(3.0, 1.23, batch / 60_000, 1e-5)
            for batch in (128, 256, 512, 1024, 2048)
        },
        "D.s-small-batch-noise": _noise_by_batch(),
        "D.s-not-significant": _power(),
        "D.s-q0-inferior": {},
        "D.s-alpha-grid": {
            "alpha_min": int(accounts.ORDERS[0]),
            "alpha_max": int(accounts.ORDERS[-1]),
            **{f"best_order_{key}": budget["order"] for key, budget in by_key.items()},
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
        },
    }


def _noise_by_batch() -> dict[str, float]:
    """Noise over the clipping norm at MNIST's N and σ, by batch: of one averaged gradient, and of the sum of all that
    (3, 1e-5) pays for, over their number.
    """
    noise = {}
    for batch in (128, 256, 512, 1024, 2048):
        step, steps = 1.23 / batch, accounts.steps_allowed(3.0, 1.23, batch / 60_000, DELTA)
        noise |= {f"one_step_at_batch_{batch}": step, f"whole_training_at_batch_{batch}": step / steps**0.5}
    return noise


def most_power(level: float, epsilon: float, delta: float) -> float:
    """The power that a test of a level may have between neighbours, under Definition 1."""
    return min(1.0, np.exp(epsilon) * level + delta, 1 - np.exp(-epsilon) * (1 - delta - level))


def power_of_worst(level: float, epsilon: float, delta: float) -> float:
    """The same for a mechanism of four outputs: with probability δ the record is told, else answered as by coins.

    The best test takes outputs in the order of their likelihood ratio, a part of the last one.
    """
    coin = np.exp(epsilon) / (1 + np.exp(epsilon))
    there = np.array([delta, (1 - delta) * coin, (1 - delta) * (1 - coin), 0.0])
    power, left = 0.0, level
    for present, absent in zip(there, there[::-1], strict=True):
        taken = 1.0 if absent == 0 else min(1.0, left / absent)
        power, left = power + taken * present, left - taken * absent
    return float(power)


def _power(level: float = 0.05) -> dict[str, float]:
    """What a test may see: by Definition 1 at two ε, and of the steps that Lemma 2 prices at 3 on MNIST."""
    bounds = {name: float(most_power(level, e, DELTA)) for name, e in (("3", 3.0), ("0.5", 0.5))}
    apart = max(abs(bounds[name] - power_of_worst(level, float(name), DELTA)) for name in bounds)
    mnist = accounts.SETTINGS[0]
    setting = mnist.noise_multiplier, mnist.sample_rate
    steps = accounts.steps_allowed(3.0, *setting, DELTA)
    exact = [(accounts.tight(*setting, steps, delta), delta) for delta in np.geomspace(1e-3, 0.3, 15)]
    return {
        **{f"power_beyond_the_level_at_epsilon_{name}": bound - level for name, bound in bounds.items()},
        **{f"power_percent_at_epsilon_{name}": 100 * bound for name, bound in bounds.items()},
        "power_percent_of_the_mnist_steps_at_most": float(100 * min(most_power(level, *pair) for pair in exact)),
        "bound_and_mechanism_apart_by_at_most": apart,
    }


def _key(name: str) -> str:
    """A data set in the names of values: "mnist", "fashion_mnist", "cifar10"."""
    return name.lower().replace("cifar-10", "cifar10").replace("-", "_")


def _moments(sigma: float, q: float, order: int) -> tuple[float, float, float, float]:
    return (
        *accounts.log_moments_by_quadrature(sigma, q, order),
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


def one_update_losses() -> dict[str, float]:
    """One accepted update of the smallest counterexample: noise 1, full batches, a steep linear public energy."""

    def exact(limit):
        return one_update.epsilon(*one_update.pair(1.0, instances.UP, limit), DELTA)

    return {
        "one_update_claimed": accounts.epsilon(1, 1.0, 1.0)[0],
        "one_update_without_screening_exact": float(mechanisms.gaussian_epsilon(1.0, 1.0, DELTA)),
        "one_update_one_rejection_exact": exact(1),
        "one_update_limit_10_exact": exact(10),
        "one_update_one_rejection_proved": _all_draws(2),
    }


def _all_draws(draws: int) -> float:
    """Epsilon of so many full batches with noise 1, each of them shown: what screening on public data cannot exceed."""
    return float(mechanisms.gaussian_epsilon(1.0, draws**0.5, DELTA))


def proved(setting: str, updates: int) -> float:
    """Epsilon, from above and rounded up, of a training with so many accepted updates and any public energy, by
    post-processing: every candidate that the limit allows behind each is paid for.
    """
    case = leak_runs.setting_of(setting)
    draws = updates * (case.limit + 1)
    epsilon = accounting.epsilon(case.noise_multiplier, case.sample_rate, draws, DELTA, "pld")
    return math.ceil(100 * float(epsilon)) / 100


def screening(
    trained: Mapping[str, Results],
    worst: Mapping[str, runs.Result],
    audits: Mapping[str, Results],
    networks: Mapping[str, Results],
    energies: Mapping[bool, Results],
    spent: Mapping[str, Sequence[float]],
) -> Values:
    """What accepted updates tell: {claim: values}; from the plan's parts by these names, ``trained`` of "trainings",
    ``energies`` of "random_energies", by whether they are convex, ``spent`` empty where the plan has none.
    """
    mnist, claimed = worst["MNIST"], max(case["claimed"] for case in worst.values())
    at_worst = {name: next(row for row in rows if row["push"] == worst[name]["push"]) for name, rows in trained.items()}
    most = {name: proved(name, case["steps"]) for name, case in worst.items()}
    by_task = {task: min(result["found"] for result in results) for task, results in audits.items()}
    no_gradient = next(v for k, v in instances.conditions().items() if k.startswith("(i), (ii)"))[1]
    # A formula without mu_0 in it, as printed, without the logarithm: two updates, the second with a generous limit.
    generous = one_update.epsilon(*one_update.pair(1.0, one_update.threshold(2.0), 200), DELTA)
    as_printed = {
        "as_printed_two_updates_claimed": accounts.epsilon(2, 1.0, 1.0, logarithm=False)[0],
        "as_printed_two_updates_limit_200_exact": generous,
        "as_printed_two_updates_limit_200_proved": _all_draws(2 * (200 + 1)),
    }
    orders = next(row for row in trained["MNIST"] if row["push"] == 1.5)["orders"]["2"]
    by_key = {_key(name): case for name, case in worst.items()}
    return {
        "D.s-postprocessing": {
            "public_energy_MNIST_all_queries_epsilon": mnist["all"],
            "public_energy_MNIST_exact_epsilon": mnist["exact"],
            "private_energy_zero_gradient_exact_epsilon": no_gradient,
            "private_energy_audit_at_least": by_task["training"],
            "private_energy_audit_claimed": _claimed("training"),
            "private_energy_proved": math.inf,  # of no finite epsilon
            "network_with_private_energy_at_least": network_audit_runs.lower_bound(networks["training"], DELTA).epsilon,
            "network_with_private_energy_claimed": network_audit_runs.claimed(networks["training"], DELTA),
        },
        "D.s-accepted-only": {
            **one_update_losses(),
            "audit_claimed": _claimed("public"),
            "audit_at_least": by_task["public"],
            "free_screening_convex_energies": sum(energy["count"] for energy in energies[True]),
            "free_screening_convex_energies_beyond_a_Gaussian": sum(energy["exceed"] for energy in energies[True]),
            "other_energies": sum(energy["count"] for energy in energies[False]),
            "other_energies_beyond_a_Gaussian": sum(case["exceed"] for case in energies[False]),
        },
        "D.thm1": {
            **{f"claimed_epsilon_{key}": case["claimed"] for key, case in by_key.items()},
            **{f"exact_epsilon_{key}": case["exact"] for key, case in by_key.items()},
            **{f"exact_epsilon_{key}_from_below": case["below"] for key, case in by_key.items()},
            **{f"final_weights_only_epsilon_{key}": case["final"] for key, case in by_key.items()},
            **{f"proved_epsilon_{_key(name)}": epsilon for name, epsilon in most.items()},
            **as_printed,
        },
        "D.thm2": {
            "order_2_claimed_mnist": orders[0],
            "order_2_exact_mnist": orders[1],
            "order_2_proved_mnist": (leak_runs.setting_of("MNIST").limit + 1) * orders[0],
            "exact_over_claimed": orders[1] / orders[0],
            **as_printed,
        },
        "D.s-epsilon-after-training": {
            "claimed": claimed,
            **{f"number_alone_{name}": accepted_alone(name, row) for name, row in at_worst.items()},
            **{f"proved_{name}": epsilon for name, epsilon in most.items()},
        },
        "D.s-proved": {
            "claimed": claimed,
            "built_worst_case_final_weights_only": max(case["final"] for case in worst.values()),
            "proved": max(most.values()),
        },
        "D.s-budget-3": {
            "built_worst_case_epsilon_mnist": mnist["exact"],
            "the_same_final_weights_only": mnist["final"],
            "proved": most["MNIST"],
            "claimed": float(claims.get("D.s-budget-3").published["epsilon"]),
            "all_queries_epsilon_mnist": mnist["all"],
            **{
                f"{_key(name)}_trainings_all_queries_epsilon": stats.mean_interval(np.array(by_seed))
                for name, by_seed in spent.items()
            },
        },
    }


def accepted_alone(setting: str, row: runs.Result) -> float:
    """Epsilon of the number of accepted updates alone, after a known number of candidates: as many as the training of
    ``row`` (:func:`papers.screening.leak_runs.training` and its "push") is expected to draw without the record.
    """
    training = leak_runs.setting_of(setting)
    candidates = round(row["steps"] * row["queries"][1])
    rates = instances.linear(training, row["push"], training.limit, constant=True).rates
    counts = [accounts.accepted_counts(candidates, rate, training.limit) for rate in rates]
    return exact_loss.discrete_epsilon(np.array(counts), DELTA)


def _claimed(task: str) -> float:
    """What the paper claims for an audited task of one parameter: full batches, Lemma 2."""
    test, updates = leak_runs.TASKS[task]
    return accounts.epsilon(updates, test.noise_multiplier, 1.0)[0]


def at_epsilon(setting: str, epsilon: float, delta: float = DELTA) -> pd.DataFrame:
    """What the accepted updates that a budget pays for spend, in the instance of whole trainings (constant push).

    Returns:
        A row for Lemma 2, the paper's count, and one for the tightest account; columns "accepted updates", "exact" at
        the push of :data:`PUSHES` that costs most, "final weights only" there, and "all queries". nan where no update
        is paid for, and for final weights where "exact" exceeds ``composition.RELIABLE``.
    """
    training = leak_runs.setting_of(setting)
    cell = training.noise_multiplier, training.sample_rate
    paid = {
        "Lemma 2, the paper's count": accounts.steps_allowed(epsilon, *cell, delta),
        "the tightest account": accounts.most_steps(lambda n: accounts.tight(*cell, n, delta), epsilon),
    }
    made = [instances.linear(training, push, training.limit, constant=True) for push in PUSHES]
    table = {}
    for name, steps in paid.items():
        cells = {"accepted updates": steps, "exact": np.nan, "final weights only": np.nan, "all queries": np.nan}
        if steps:
            exact = [instances.epsilon(instance.cells, steps, delta) for instance in made]
            worst = made[int(np.argmax(exact))]
            known = max(exact) < composition.RELIABLE
            cells |= {
                "exact": max(exact),
                "final weights only": composition.final_epsilon(worst.cells, steps, delta) if known else np.nan,
                "all queries": accounts.all_queries(training, steps, worst.acceptance_rate, delta),
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
    return _titled({name: budget["allowed"] for name, budget in budgets.items()}, {
        "printed": "without the logarithm", "lemma 2": "Lemma 2", "lemma 3": "Lemma 3", "prv": "PRV", "pld": "PLD",
        "most": "the most"})  # fmt: skip


def same_steps(budgets: Mapping[str, runs.Result]) -> pd.DataFrame:
    """Epsilon of the steps that Lemma 2 allows by each account, a row a setting."""
    return _titled(budgets, {"printed": "without the logarithm", "lemma 2": "Lemma 2", "lemma 3": "Lemma 3",
                             "inversion": "exact", "replacement": "exact, a record replaced"})  # fmt: skip


def spent_at_worst(worst: Mapping[str, runs.Result]) -> pd.DataFrame:
    """Claimed against exact epsilon of whole trainings at the push that costs most, a row a setting."""
    return _titled(worst, {"steps": "accepted updates", "rate": "accepted / drawn", "claimed": "claimed",
                           "exact": "exact", "final": "final weights only", "all": "all queries"})  # fmt: skip


def _titled(by_name: Mapping[str, Mapping[str, Any]], titles: Mapping[str, str]) -> pd.DataFrame:
    return pd.DataFrame(by_name).T[list(titles)].rename(columns=titles).astype(float)


def attacks(audits: Mapping[str, Results], networks: Mapping[str, Results]) -> pd.DataFrame:
    """What attacks find, beside the claim; the least of the audits of a task, all of a network's trainings together."""
    titles = {
        "public": "one parameter, public J",
        "control": "the same without screening",
        "training": "one parameter, J on the training set",
        "held-out": "the same, the record in J's held-out set only",
    }
    rows = [
        [titles[task], np.nan if task == "held-out" else _claimed(task), min(result["found"] for result in results),
         f"{len(results)} audits, the least"]
        for task, results in audits.items()
    ]  # fmt: skip
    names = {"test": "a network, J on test records", "training": "a network, J on 40 training records",
             "held-out": "the same, the records in J's held-out set only"}  # fmt: skip
    for judged, results in networks.items():
        claim = np.nan if judged == "held-out" else network_audit_runs.claimed(results, DELTA)
        said = f"{sum(len(result['scores']) for result in results):,} canaries, {len(results)} trainings"
        rows.append([names[judged], claim, network_audit_runs.lower_bound(results, DELTA).epsilon, said])
    return pd.DataFrame(rows, columns=["", "claimed", "found, at least", "from"]).set_index("")


MATTERS = 0.1  # of epsilon, as in book/claims/margins.yml
HOLDS = 0.1  # of the largest move, on average: by so much may the model differ from candidates drawn afresh


def of_records(trained: Mapping[str, Results]) -> dict[str, dict[str, Any]]:
    """What screening tells of the watched records, by data set, by the rule that plan 12 registers.

    Args:
        trained: results of :func:`papers.screening.alignment_runs.aligned_training` by data set.

    Returns:
        By the name of Table 2: "plain" and "claimed" epsilon; "ordinary" and "wrong", epsilon of these records in
        rising order; "cosines" of all; "error", the mean difference of what the model and what fresh candidates say
        that a record moves, as a share of the largest move; "verdict".
    """
    names = {name.lower(): name for name in (setting.name for setting in accounts.SETTINGS)}
    return {names[name]: _of_records(results) for name, results in trained.items()}


def watched(records: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Epsilon of the watched records of :func:`of_records`, a row a data set and kind of label."""
    kinds = {"ordinary": "own label", "wrong": "wrong label"}
    return pd.DataFrame(
        {
            (name, label): {
                "the middle one": np.median(told[kind]), "the most": told[kind].max(),
                "plain steps": told["plain"],
            }
            for name, told in records.items()
            for kind, label in kinds.items()
        }
    ).T  # fmt: skip


def _of_records(results: Results) -> dict[str, Any]:
    count = results[0]["ordinary"]
    epsilon = np.array([run["epsilon"] for run in results])
    plain, claimed, most = results[0]["plain"], results[0]["claimed"], float(epsilon.max())
    drawn = np.concatenate([run["moved"] for run in results])
    model = np.concatenate([_moved_by_the_model(run) for run in results])
    error = float(np.abs(drawn - model).mean() / np.abs(drawn).max())
    if error > HOLDS:
        verdict = "the model does not hold"
    elif most <= plain + MATTERS:
        verdict = "next to nothing"
    else:
        verdict = "more than it may" if most > claimed + MATTERS else "something, within the claim"
    return {
        "plain": plain,
        "claimed": claimed,
        "ordinary": np.sort(epsilon[:, :count], axis=None),
        "wrong": np.sort(epsilon[:, count:], axis=None),
        "cosines": np.concatenate([np.ravel(run["cosine"]) for run in results]),
        "error": error,
        "verdict": verdict,
    }


def _moved_by_the_model(run: runs.Result) -> np.ndarray:
    """What each watched record adds to the probability that a candidate passes, at each stop: (stops, records)."""
    push = -special.ndtri(np.clip(run["drawn_passed"], 1e-6, 1 - 1e-6))[:, None]
    shift, alignment = np.array(run["shift"]), np.array(run["cosine"]) / np.array(run["spread"])[:, None]
    return special.ndtr(alignment * shift - push) - special.ndtr(-push)


def noisy_tests(results: Mapping[str, runs.Result]) -> pd.DataFrame:
    """DPSUR: what its theorem claims for updates and tests, what the updates alone can spend, and a corrected rate."""
    cases = {case.name: case for case in instances.DPSUR}

    def row(result, case):
        rate = result["ratio"] * case.batch / case.records
        return {
            "accepted updates": result["steps"],
            "claimed, tests included": result["claimed"],
            "exact, updates alone": result["exact"],
            "second computation, from below": result["below"],
            "charged at rate ρq": float(accounting.epsilon(case.noise_multiplier, rate, result["steps"], DELTA, "rdp")),
        }

    return pd.DataFrame({name: row(result, cases[name]) for name, result in results.items()}).T


def _points(difference: stats.Measured) -> str:
    return f"{difference:.2f}".replace("-", "−")


def rounded(row: pd.Series, decimals: int = 4) -> dict[str, float]:
    """A row of :func:`at_epsilon` under the names of an answer, without what is not known."""
    return {name.replace(" ", "_"): round(float(value), decimals) for name, value in row.dropna().items()}


def freely(by_epsilon: Mapping[float, Mapping[str, Mapping[str, Any]]]) -> pd.DataFrame:
    """Free screening, of :func:`leak_study.screened_freely`: accuracies, and paired differences, a row a budget."""
    names = {"alone": "public records alone", "plain": "DP-SGD", "screened": "DP-SGD, screened",
             "public": "DP-SGD, steps on J"}  # fmt: skip
    rows = {}
    for epsilon, arms in by_epsilon.items():
        row = {title: f"{stats.mean_interval(arms[name]['test']):.2f}" for name, title in names.items()}
        for name, title in (("screened", "screening gains"), ("public", "steps on J gain")):
            row[title] = _points(stats.paired(arms[name]["test"], arms["plain"]["test"]).difference)
        row["steps on J less screening"] = _points(
            stats.paired(arms["public"]["test"], arms["screened"]["test"]).difference
        )
        row["candidates an update"] = (
            f"{arms['screened']['candidates'].mean() / arms['plain']['candidates'].mean():.1f}"
        )
        rows[f"{epsilon:g}"] = row
    return pd.DataFrame(rows).rename_axis("ε", axis="columns")
