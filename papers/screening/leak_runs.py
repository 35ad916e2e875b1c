"""What screening leaks, as kept runs: the accounts, exact losses of whole trainings, random energies and attacks.

A part is a function of ``get`` (:func:`book.evidence.runs.read`, or what makes the runs) and of what a plan says
(``notebooks/plans/12.yml``). Neighbours differ by adding or removing one record; batches are Poisson samples.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from book.evidence import runs
from book.evidence.plans import FIRST, Get, by_seed, repeated
from dplib import accounting, checks, exact_loss, mechanisms
from dplib.checks import ParameterError
from papers.screening import accounts, annealed_runs, composition, instances, one_parameter_audit, one_update
from papers.screening.accounts import DELTA, PrintedTraining
from papers.screening.alignment_runs import aligned_training
from papers.screening.free_runs import compare as free_compare
from papers.screening.network_audit_runs import audited_training

NAMES = tuple(setting.name for setting in accounts.SETTINGS)
LEVELS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)  # of epsilon, at which random energies are looked at
ORDERS = (2, 5, 9)  # of Renyi divergences


def setting_of(name: str) -> PrintedTraining:
    """A column of paper D's Table 2 by the name of its data set."""
    checks.one_of(*NAMES).check("setting", name)
    return accounts.SETTINGS[NAMES.index(name)]


def updates(setting: PrintedTraining, epsilon: float, delta: float = DELTA) -> int:
    """Accepted updates that a budget pays for by Lemma 2."""
    steps = accounts.steps_allowed(epsilon, setting.noise_multiplier, setting.sample_rate, delta)
    if steps < 1:
        raise ParameterError(f"epsilon = {epsilon:g} is not allowed: on {setting.name} it does not pay for one update.")
    return steps


# ---- the accounts ----


@runs.experiment("screening_budget", version=1, probe={"setting": "MNIST", "proven": False})
def budget(*, setting: str, epsilon: float = 3.0, delta: float = DELTA, proven: bool = True) -> runs.Result:
    """What a budget buys of plain DP-SGD by every account, and what the steps that Lemma 2 allows cost by each.

    ``proven`` looks for the proven upper ends of PRV and PLD too, in seconds. Returns "allowed", steps by each of
    :data:`papers.screening.accounts.METHODS` and "most" by transform inversion; "steps", those by Lemma 2, at which
    "order"; and of these epsilon by "printed", "lemma 2", "lemma 3", "pld", "inversion", "replacement" and "rdp".
    """
    case = setting_of(setting)
    cell = case.noise_multiplier, case.sample_rate
    steps = updates(case, epsilon, delta)
    allowed = {
        name: accounts.steps_allowed(epsilon, *cell, delta, count)
        for name, count in accounts.METHODS.items()
        if proven or name not in ("prv", "pld")
    }
    most = accounts.most_steps(lambda n: accounts.tight(*cell, n, delta), epsilon, steps)
    lemma2, order = accounts.epsilon(steps, *cell, delta)
    spent = {
        "printed": accounts.epsilon(steps, *cell, delta, logarithm=False)[0],
        "lemma 2": lemma2,
        "rdp": float(accounts.paper_epsilon(*cell, steps, delta)),
        "lemma 3": accounts.epsilon(steps, *cell, delta, conversion="improved")[0],
        "pld": accounting.epsilon(*cell, steps, delta, "pld"),
        "inversion": accounts.tight(*cell, steps, delta),
        "replacement": instances.replacement_epsilon(case, steps, delta),
    }
    return {
        "allowed": {**allowed, "most": most},
        "steps": steps,
        "order": order,
        **{name: _short(value) for name, value in spent.items()},
    }


@runs.experiment("screening_sum", version=1, probe={"seed": 3})
def noisy_sum(*, seed: int, draws: int = 20_000) -> runs.Result:
    """Noisy sums of 20 clipped gradients at q = 0.3, sigma = 2, C = 1/2, as Algorithm 2 draws them.

    Returns "mean" and "variance" of the draws.
    """
    task = one_parameter_audit.Task((0.5,) * 19, 1.0, noise_multiplier=2.0, sample_rate=0.3, limit=0, clipping_norm=0.5)
    rng = np.random.default_rng(np.random.SeedSequence([12, 1, seed]))
    sums = -one_parameter_audit.one_parameter_trainings(task, True, draws, 1, rng).iterates[:, 1] * task.batch
    return {"mean": _short(sums.mean()), "variance": _short(sums.var(ddof=1))}


# ---- one accepted update ----


@runs.experiment("screening_energies", version=1, probe={"seed": 3, "convex": False, "count": 10})
def energies(*, seed: int, convex: bool, count: int = 50) -> runs.Result:
    """Random piecewise linear public energies, no limit: does an accepted update cost more than a Gaussian release?

    Returns:
        "count"; "excess", the largest delta beyond the Gaussian's, over energies and :data:`LEVELS`; "exceed", how many
        energies exceed it by more than 1e-9.
    """
    rng = np.random.default_rng(np.random.SeedSequence([12, 2 + convex, seed]))
    excess = []
    for _ in range(count):
        rule, size = random_rule(rng, convex), rng.choice([0.3, 1.0, 2.5])
        screened = one_update.cells(*one_update.pair(size, rule, None))
        plain = mechanisms.gaussian_delta(1.0, size, np.array(LEVELS))
        excess.append((exact_loss.discrete_delta(screened[1:], LEVELS) - plain).max())
    return {"count": count, "excess": _short(max(excess)), "exceed": int(np.sum(np.array(excess) > 1e-9))}


def random_rule(rng: np.random.Generator, convex: bool) -> one_update.Acceptance:
    """Equation (3) for a random piecewise linear energy of six knots."""
    steps, slopes = np.sort(rng.normal(0, 2, 6)), rng.normal(0, 1, 5)
    slopes = np.sort(slopes) if convex else slopes
    heights = np.concatenate([[0.0], np.cumsum(slopes * np.diff(steps))])
    return one_update.annealed(steps, heights, rng.choice([0.5, 3.0, 20.0]))


# ---- whole trainings ----


@runs.experiment("screening_training", version=1, probe={"setting": "MNIST", "push": 1.5, "epsilon": 1.0})
def training(*, setting: str, push: float, epsilon: float = 3.0, delta: float = DELTA) -> runs.Result:
    """The exact loss of an honest instance of Algorithm 2 (:mod:`papers.screening.instances`), constant push.

    Args:
        setting: of :data:`NAMES`. push: of the other records against the energy, in standard deviations of the noise.
        epsilon: by Lemma 2, which says how many updates are accepted.

    Returns:
        "steps"; epsilon as "claimed" by Lemma 2, of as many "plain" updates, "exact" as printed, "kept" with the batch
        kept and no limit, of "all" queries, and of the "number" of queries alone; "rate", accepted over drawn, and
        "passing", the chance that a candidate passes, both without the record; "queries" behind an update, with and
        without it; "orders": for each of :data:`ORDERS` Theorem 2's divergence of one update and the exact one.
    """
    case = setting_of(setting)
    cell = case.noise_multiplier, case.sample_rate
    steps = updates(case, epsilon, delta)
    printed = instances.linear(case, push, case.limit, constant=True)
    kept = instances.kept(case, push, constant=True)
    counts = np.array([accounts.query_counts(steps, rate, case.limit) for rate in printed.rates])
    orders = {}
    for order in ORDERS:
        claimed = float(accounts.renyi(1, *cell, [order])[0])
        orders[order] = [_short(claimed), _short(one_update.renyi(printed.cells, order))]
    return {
        "steps": steps,
        "claimed": _short(accounts.epsilon(steps, *cell, delta)[0]),
        "plain": _short(accounts.tight(*cell, steps, delta)),
        "exact": _short(instances.epsilon(printed.cells, steps, delta)),
        "kept": _short(instances.epsilon(kept, steps, delta)),
        "all": _short(accounts.all_queries(case, steps, printed.acceptance_rate, delta)),
        "number": _short(exact_loss.discrete_epsilon(counts, delta)),
        "rate": _short(printed.acceptance_rate),
        "passing": _short(printed.rates[1]),
        "queries": [_short(count) for count in printed.queries],
        "orders": orders,
    }


@runs.experiment(
    "screening_worst", version=1, probe={"setting": "CIFAR-10", "push": 1.5, "epsilon": 1.0, "interval": 1e-3}
)
def binomial_training(
    *, setting: str, push: float, epsilon: float = 3.0, delta: float = DELTA, interval: float = 1e-5
) -> runs.Result:
    """:func:`training` with every batch as it is drawn, the others' push binomial, and by a second computation.

    "exact" is by transform inversion, "below" and "above" from privacy loss distributions on a grid of ``interval``,
    "final" of the final weights alone.
    """
    case = setting_of(setting)
    cell = case.noise_multiplier, case.sample_rate
    steps = updates(case, epsilon, delta)
    full = instances.linear(case, push, case.limit)
    below, above = composition.by_pld([(full.cells, steps)], delta, interval)
    return {
        "push": push,
        "steps": steps,
        "claimed": _short(accounts.epsilon(steps, *cell, delta)[0]),
        "rate": _short(full.acceptance_rate),
        "exact": _short(instances.epsilon(full.cells, steps, delta)),
        "below": _short(below),
        "above": _short(above),
        "final": _short(composition.final_epsilon(full.cells, steps, delta)),
        "all": _short(accounts.all_queries(case, steps, full.acceptance_rate, delta)),
    }


def trainings(get: Get, *, pushes: Sequence[float]) -> dict[str, list[runs.Result]]:
    """{setting: results of :func:`training`, each with its "push", by push}."""
    results = iter(get(training, [{"setting": name, "push": push} for name in NAMES for push in pushes]))
    return {name: [{"push": push, **next(results)} for push in pushes] for name in NAMES}


def worst(get: Get, *, pushes: Sequence[float]) -> dict[str, runs.Result]:
    """{setting: :func:`binomial_training` at the push at which :func:`trainings` spend most}."""
    results = trainings(get, pushes=pushes).items()
    most = {name: max(rows, key=lambda row: row["exact"])["push"] for name, rows in results}
    results = get(binomial_training, [{"setting": name, "push": push} for name, push in most.items()])
    return dict(zip(most, results, strict=True))


@runs.experiment(
    "screening_dpsur", version=1, probe={"setting": "MNIST", "epsilon": 2.0, "interval": 1e-3, "pushes": [0.0, 1.0]}
)
def noisy_test(
    *,
    setting: str,
    epsilon: float = 3.0,
    delta: float = DELTA,
    pushes: list[float] = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5),
    interval: float = 1e-5,
) -> runs.Result:
    """The accepted updates of DPSUR where the test is a linear energy that the record hardly enters; tests left out.

    Args:
        setting: of its table. pushes: least updates that lower the energy, in standard deviations of the noise.

    Returns:
        "steps" that its Theorem 5.6 allows, epsilon as "claimed" by it for updates and tests, "ratio" of passing when
        better and when worse, and, at the "push" that costs most, "exact", and "below" and "above" by PLD.
    """
    test = {case.name: case for case in instances.DPSUR}[setting]
    steps = accounts.most_steps(lambda n: test.claimed(n, delta), epsilon, 1000)
    values = [test.exact(steps, push, delta) for push in pushes]
    push = pushes[int(np.argmax(values))]
    below, above = composition.by_pld([(test.cells(push), steps)], delta, interval)
    no, yes = test.accepts()
    epsilons = {"claimed": test.claimed(steps, delta), "ratio": yes / no, "exact": max(values)}
    epsilons |= {"below": below, "above": above}
    return {"steps": steps, "push": push, **{name: _short(value) for name, value in epsilons.items()}}


# ---- attacks ----

AUDIT_NOISE, AUDIT_UPDATES = 1.5, 2  # of the tasks with a public energy
TEN = tuple(float(x) for x in np.linspace(-1, 1, 9))  # nine records; the canary is the tenth
MEAN: dict[str, Any] = {"records": TEN, "canary": 3.0, "loss": "squared", "judges": (*TEN, 0.5), "start": 0.5,
                        "learning_rate": 0.2, "noise_multiplier": 10.0, "steepness": 1.0}  # fmt: skip
TASKS: dict[str, tuple[one_parameter_audit.Task, int]] = {  # with the number of updates
    "public": (one_parameter_audit.Task((-0.75,), 1.0, noise_multiplier=AUDIT_NOISE), AUDIT_UPDATES),
    "control": (one_parameter_audit.Task((-0.75,), 1.0, noise_multiplier=AUDIT_NOISE, limit=0), AUDIT_UPDATES),
    "training": (one_parameter_audit.Task(**MEAN, energy=one_parameter_audit.TRAINING), 20),
    "held-out": (one_parameter_audit.Task(**MEAN, energy=one_parameter_audit.HELD_OUT), 20),
}


@runs.experiment("screening_audit", version=1, probe={"task": "public", "seed": 3, "runs_each": 20_000})
def attacked(*, task: str, seed: int, runs_each: int, delta: float = DELTA) -> runs.Result:
    """An audit of Algorithm 2 itself on one parameter, from ``runs_each`` runs with the canary and as many without.

    Args:
        task: of :data:`TASKS`.

    Returns "found", the lower bound of epsilon with 95% confidence; "right" of "guesses".
    """
    checks.one_of(*TASKS).check("task", task)
    test, updates = TASKS[task]
    rng = np.random.default_rng(np.random.SeedSequence([12, 4, list(TASKS).index(task), seed]))
    attack = one_parameter_audit.attack(test, runs_each, updates, delta, rng)
    return {"found": _short(attack.epsilon), "right": attack.correct, "guesses": attack.guesses}


def audits(get: Get, *, seeds: int, runs_each: dict[str, int]) -> dict[str, list[runs.Result]]:
    """{task: results of :func:`attacked` by seed}."""
    return by_seed(get, attacked, {task: {"task": task, "runs_each": n} for task, n in runs_each.items()}, seeds)


def networks(get: Get, *, kinds: dict[str, dict[str, Any]], seeds: int) -> dict[str, list[runs.Result]]:
    """{"test", "training", "held-out"}: audited trainings of a network by seed, by where J looks."""
    return by_seed(get, audited_training, {judged: {"judged": judged, **how} for judged, how in kinds.items()}, seeds)


def aligned_trainings(get: Get, *, datasets: Sequence[str], seeds: int, first: int = 0) -> dict[str, list[runs.Result]]:
    """{data set: trainings by seed}, with what single records do to the test on the way."""
    return by_seed(get, aligned_training, {name: {"dataset": name} for name in datasets}, seeds, first)


def spent(get: Get, *, datasets: Sequence[str], seeds: int) -> dict[str, list[float]]:
    """Epsilon of all noisy gradients by PLD, from above, of chapter 11's trainings: {data set: by seed}."""
    done = annealed_runs.table_1(get, datasets=datasets, arms=["ours", "dpsgd_tanh"], seeds=seeds)
    return {
        name: [
            float(accounting.epsilon(r["noise_multiplier"], r["sample_rate"], r["queries"], DELTA, "pld"))
            for r in arms["ours"]
        ]
        for name, arms in done.items()
    }


def screened_freely(
    get: Get,
    *,
    dataset: str,
    epsilons: Sequence[float],
    rates: Sequence[float],
    strengths: dict[str, Sequence[float]],
    seeds: int,
    tuning_seeds: int,
) -> dict[float, dict[str, dict[str, Any]]]:
    """Free screening against DP-SGD, and against other uses of the public records, at equal budgets.

    rates: learning rates of every arm. strengths: of "screened" (Q) and "public" (the step on J). A pair is chosen for
    each arm and budget by mean accuracy on validation records. Returns budget to arm to "pair", "test" accuracies in
    percent and "candidates", by seed; "alone" is "public" with learning rate 0, for which no budget is spent.
    """
    grids = {"plain": [[rate, 0.0] for rate in rates], "alone": [[0.0, s] for s in strengths["public"]]}
    grids |= {arm: [[rate, s] for rate in rates for s in strengths[arm]] for arm in ("screened", "public")}
    by_epsilon: dict[float, dict[str, dict[str, Any]]] = {}
    for epsilon in epsilons:
        by_epsilon[epsilon] = {}
        for name, pairs in grids.items():
            job = {"dataset": dataset, "epsilon": epsilon, "arm": "public" if name == "alone" else name}
            tried = repeated(get, function=free_compare, **job, pairs=pairs, seeds=tuning_seeds, first=FIRST)
            scores = np.array([result["validation"] for result in tried], dtype=float).mean(axis=0)  # nan: given up
            pair_ = pairs[int(np.nanargmax(scores))]
            done = repeated(get, function=free_compare, **job, pairs=[pair_], seeds=seeds)
            by_epsilon[epsilon][name] = {
                "pair": pair_,
                "test": 100 * np.array([result["test"][0] for result in done], dtype=float),
                "candidates": np.array([result["candidates"][0] for result in done]),
                "epsilon_prv": done[0]["epsilon_prv"],
            }
    return by_epsilon


_short = functools.partial(runs.to_figures, figures=8)
