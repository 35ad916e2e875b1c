"""Budgets of searches: dp_accounting's events, own sums, and exact enumeration of small searches."""

import math

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy import optimize, special, stats

from dplib import accounting, exact_loss, rdp, search_budgets
from dplib.checks import ParameterError
from dplib.search_budgets import Search, composed_epsilon, dpsgd_epsilon, equation_9, noise_for, pure_epsilon

TRAINING = (2.0, 0.01, 400)  # noise multiplier, sample rate, steps
FULL_BATCHES = (30.0, 1.0, 100)
DELTA = 1e-5
MGRS = Search(selections=((40, 1.0), (20, 1.0), (10, 1.0)))
SHAPES = (0.0, 0.5, 1.0, 3.0)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DPLIB_CACHE", str(tmp_path))


# ---- selections ----


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [1.0, 7.5, 400.0])
def test_selection_equals_dp_accounting(shape, mean):
    """With full batches both start from the same divergences; subsampled, theirs are larger at orders below 2."""
    search = Search(selections=((mean, shape),))
    for training, rel in ((FULL_BATCHES, 1e-8), (TRAINING, 1e-4)):
        theirs = accounting.selection_epsilon([training], DELTA, mean, shape)
        ours = dpsgd_epsilon(search, *training, DELTA)
        assert ours == pytest.approx(theirs, rel=rel)
        assert ours <= theirs * (1 + 1e-8)


def test_generations_equal_dp_accountings_composition():
    step = dp_event.PoissonSampledDpEvent(TRAINING[1], dp_event.GaussianDpEvent(TRAINING[0]))
    training = dp_event.SelfComposedDpEvent(step, TRAINING[2])
    accountant = RdpAccountant(rdp.ORDERS)
    accountant.compose(
        dp_event.ComposedDpEvent([dp_event.RepeatAndSelectDpEvent(training, *s) for s in MGRS.selections] + [training])
    )
    with_final = Search(1, MGRS.selections)
    assert dpsgd_epsilon(with_final, *TRAINING, DELTA) == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-6)
    assert dpsgd_epsilon(MGRS, *TRAINING, DELTA) < dpsgd_epsilon(with_final, *TRAINING, DELTA)


@pytest.mark.parametrize("shape", [-0.5, 0.0, 0.5, 1.0, 4.0])
def test_theorem_2_order_by_order(shape):
    """Two loops, gamma from the mean of the probabilities summed one by one."""
    mean, orders = 12.0, np.array([1.5, 2, 4, 8, 16, 64])
    divergence = orders * 0.02
    gamma = optimize.brentq(lambda g: _mean_by_summing(g, shape) - mean, 1e-3, 0.9, xtol=1e-13)
    expected = []
    for i, order in enumerate(orders):
        candidates = [
            divergence[i]
            + (1 + shape) * (1 - 1 / other) * divergence[j]
            + (1 + shape) * math.log(1 / gamma) / other
            + math.log(mean) / (order - 1)
            for j, other in enumerate(orders)
        ]
        expected.append(min(candidates))
    expected = [min(expected[i:]) for i in range(len(orders))]
    assert search_budgets.selection_rdp(divergence, mean, shape, orders) == pytest.approx(expected, rel=1e-8)


def test_orders_that_do_not_increase_are_refused():
    """Taken from the largest order down, small divergences of small orders would count as those of large ones."""
    orders = np.array([2.0, 8.0, 64.0])
    divergence = rdp.rdp(1.0, 0.01, 1000, orders)
    for wrong, of in ((orders[::-1], divergence[::-1]), (orders, divergence[:1]), (orders[[0, 1, 1]], divergence)):
        with pytest.raises(ParameterError, match="orders"):
            search_budgets.selection_rdp(of, 10, 1.0, wrong)


def _mean_by_summing(gamma, shape):
    """Definition 1 of Papernot and Steinke, term by term: weights prod (l + shape)/(l + 1), l from 0 (from 1 for 0)."""
    k = np.arange(1, 20_000)
    factors = np.log((k + shape) / (k + 1))
    log_weight = k * np.log1p(-gamma) + np.concatenate([[0.0], np.cumsum(factors)[:-1]])
    weight = np.exp(log_weight - log_weight.max())
    return (k * weight).sum() / weight.sum()


@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_of_runs(shape):
    probabilities = search_budgets.run_probabilities(9.0, shape, 3000)
    assert probabilities.sum() == pytest.approx(1)
    assert probabilities @ np.arange(3001) == pytest.approx(9.0, rel=1e-9)


def best_of(rows, probabilities):
    """Exact output distribution of the best of a random number of runs; outputs in order of score, none at all last.

    P(best is at most output j) is the sum over k of P(k) F_j^k, F the distribution function of one run.
    """
    below = np.cumsum(rows, axis=1)
    k = np.arange(1, len(probabilities))
    powers = (below[:, :, None] ** k) @ probabilities[1:]
    return np.concatenate([np.diff(powers, axis=1, prepend=0), np.full((len(rows), 1), probabilities[0])], axis=1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [3.0, 30.0])
def test_bounds_hold_for_searches_that_can_be_enumerated(shape, mean):
    """Randomised response with the best score on either answer, and three outputs of which a rare one is best."""
    epsilon = 0.4
    rare = np.array([[0.6, 0.39, 0.01], [0.6, 0.39, 0.01]])
    rare[1, 2] *= math.exp(epsilon)
    rare[1, 1] -= rare[1, 2] - rare[0, 2]
    true = 1 / (1 + math.exp(-epsilon))
    answers = np.array([[true, 1 - true], [1 - true, true]])
    # No epsilon-DP mechanism has larger divergences than randomised response.
    there, back = (rdp.ORDERS * np.log(a) + (1 - rdp.ORDERS) * np.log(1 - a) for a in answers[0])
    largest = np.logaddexp(there, back) / (rdp.ORDERS - 1)
    probabilities = search_budgets.run_probabilities(mean, shape, 2000)
    orders = np.array([1.5, 2, 4, 8, 32])
    search = Search(selections=((mean, shape),))
    for one_run in (answers, rare):
        assert exact_loss.discrete_epsilon(one_run) <= epsilon + 1e-12
        p, q = best_of(one_run, probabilities)
        bound = search_budgets.selection_rdp(largest, mean, shape)
        used = (p > 0) & (q > 0)
        for order in orders:
            logs = np.log(p[used]), np.log(q[used])
            exact = [special.logsumexp(order * a + (1 - order) * b) / (order - 1) for a, b in (logs, logs[::-1])]
            assert max(exact) <= np.interp(order, rdp.ORDERS, bound) * (1 + 1e-9)
        rows = np.stack([p, q]) / np.stack([p, q]).sum(axis=1, keepdims=True)
        assert exact_loss.discrete_epsilon(rows) <= pure_epsilon(search, epsilon) + 1e-9


def test_the_pure_factor_is_nearly_reached():
    """Geometric number: 3 epsilon is the limit of a rare best output among many runs, and 2 epsilon would be wrong."""
    epsilon, mean = 0.5, 1e6
    one_run = np.array([[1 - 1e-3, 1e-3], [1 - 1e-3 * math.exp(-epsilon), 1e-3 * math.exp(-epsilon)]])
    k_free = [mean_power(below, 1 / mean) for below in one_run[:, 0]]
    assert math.log(k_free[1] / k_free[0]) == pytest.approx(epsilon, abs=0.01)  # the lower output of the two
    middle = np.array([[0.5, 1e-9, 1e-3], [0.5, 1e-9 * math.exp(epsilon), 1e-3 * math.exp(-epsilon)]])
    chances = []
    for low, here, above in middle / middle[0].sum():
        total = 1 - above  # every run stays at or below the middle output
        chances.append(mean_power(total, 1 / mean) - mean_power(total - here, 1 / mean))
        assert low > here
    assert 2.9 * epsilon < math.log(chances[1] / chances[0]) <= pure_epsilon(Search(selections=((mean, 1.0),)), epsilon)


def mean_power(x, gamma):
    """E[x^K] of a geometric number of runs."""
    return gamma * x / (1 - (1 - gamma) * x)


def test_stopping_early_costs_what_the_docstring_says():
    epsilon, mean, most = 0.3, 5.0, 12
    kept = search_budgets.run_probabilities(mean, 1.0, most)
    missing = 1 - kept.sum()
    kept[most] += missing
    true = 1 / (1 + math.exp(-epsilon))
    rows = best_of(np.array([[true, 1 - true], [1 - true, true]]), kept)
    total = pure_epsilon(Search(selections=((mean, 1.0),)), epsilon)
    assert exact_loss.discrete_delta(rows, total) <= (1 + math.exp(total)) * missing
    assert missing == pytest.approx((1 - 1 / mean) ** most)


# ---- trainings composed ----


@pytest.mark.parametrize(
    "search", [Search(1), Search(60), Search(selections=((400, 1.0),)), MGRS, Search(1, ((9, 0.0),))]
)
def test_noise_for_a_total(search):
    noise = noise_for(search, 2.0, DELTA, *TRAINING[1:])
    spent, less = (dpsgd_epsilon(search, s, *TRAINING[1:], DELTA) for s in (noise, noise * (1 - 1e-5)))
    assert spent <= 2.0 < less
    assert spent == pytest.approx(2.0, rel=1e-4)


# ---- pure mechanisms and scores ----


def test_pure_budgets():
    assert pure_epsilon(Search(selections=((30, 1.0),)), 0.1) == pytest.approx(0.3)
    assert pure_epsilon(Search(2, ((30, 0.0), (10, 1.0))), 0.1) == pytest.approx(0.1 * (2 + 2 + 3))


def test_disjoint_records_cost_the_larger_budget():
    """An adaptive search, enumerated: the score of a first model decides whether a second training answers.

    Inputs are a training bit and a validation bit; neighbours differ in one of them.
    """
    epsilon_model, epsilon_score = 0.3, 0.5

    def answers(bit, epsilon):
        true = 1 / (1 + math.exp(-epsilon))
        return {bit: true, 1 - bit: 1 - true}

    def outputs(training, validation):
        found = np.zeros((2, 2, 2))
        for model, p in answers(training, epsilon_model).items():
            for score, q in answers(int(model == validation), epsilon_score).items():
                for second, r in answers(training if score else 1 - training, epsilon_model).items():
                    found[model, score, second] = p * q * r
        return found.ravel()

    rows = np.stack([outputs(t, v) for t in (0, 1) for v in (0, 1)])
    exact = exact_loss.discrete_epsilon(rows, neighbours=[(0, 2), (1, 3), (0, 1), (2, 3)])
    budget = max(pure_epsilon(Search(2), epsilon_model), epsilon_score)  # disjoint records: the larger of the two
    assert exact == pytest.approx(budget)
    assert exact < 2 * epsilon_model + epsilon_score


@pytest.mark.parametrize("form", search_budgets.FORMS)
@pytest.mark.parametrize("count", [10, 400])
def test_equation_9_is_solved(form, count):
    loss, validation, failure = 0.05, 5000, 1e-4
    inside = count / failure if form == "corrected" else 1 / (count * failure)

    def gap(e):
        return loss * validation - 4 / e * math.log(inside / e)

    expected = optimize.brentq(gap, 1e-6, 10)
    assert equation_9(loss, validation, count, failure, form) == pytest.approx(expected, rel=1e-9)
    assert gap(expected * 1.01) > 0 > gap(expected * 0.99)


def test_the_example_of_abadi_et_al():
    """Epsilon' = 0.5 and failure 0.05 lose 100 of 10,000 records with up to 6,700 settings."""
    loss = 8 * math.log(6700 / (0.5 * 0.05))
    assert loss == pytest.approx(100, abs=0.1)
    assert equation_9((loss + 1e-6) / 10_000, 10_000, 6700, 0.05) == pytest.approx(0.5, rel=1e-6)
    assert search_budgets.theorem_runs(0.5, 0.05, 1 / 6700) > 1e11


@pytest.mark.parametrize("form", search_budgets.FORMS)
def test_no_setting_gives_both_rs_and_mgrs_their_printed_budgets(form):
    values = []
    for failure in np.geomspace(1e-15, 0.5, 50):  # the line by a root in the records, not in closed form

        def excess(records, failure=failure):
            return equation_9(1.0, records, 400, failure, form) - 0.175

        if excess(1.001) > 0 > excess(1e5):
            records = optimize.brentq(lambda n, excess=excess: min(excess(n), 1.0), 1.001, 1e5)
            values.append(sum(2.11 + 8 * equation_9(1.0, records, k, failure, form) for k in (40, 20, 10)))
    assert 8.53 < search_budgets.least_mgrs(form) <= min(values) * (1 + 1e-3)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((0,), "search"), ((-1,), "trainings"), ((0, ((0.5, 1.0),)), "mean_runs"), ((0, ((5, -1.0),)), "shape")],
)
def test_senseless_searches_are_refused(arguments, named):
    with pytest.raises(ParameterError, match=named):
        Search(*arguments)


# ---- equation (8): enumeration, multi-precision sums, dp_accounting's privacy loss distributions ----

SETTINGS = [(0.5, 7, 1e-3), (0.1, 40, 1e-5), (2.0, 5, 0.1), (1.0, 20, 1e-2)]


def response(epsilon, count):
    """Randomised response on two neighbouring inputs, ``count`` times: rows of probabilities of the false answers."""
    true = 1 / (1 + math.exp(-epsilon))
    false_answers = np.arange(count + 1)
    return np.stack([stats.binom.pmf(false_answers, count, 1 - true), stats.binom.pmf(false_answers, count, true)])


@pytest.mark.parametrize(("epsilon", "count", "delta"), SETTINGS)
def test_optimal_composition_is_that_of_randomised_response(epsilon, count, delta):
    exact = exact_loss.discrete_epsilon(response(epsilon, count), delta)
    assert composed_epsilon(epsilon, count, delta) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize(
    ("epsilon", "count", "i"), [(0.1, 60, 20), (0.1, 6000, 2900), (0.01, 10_000, 4900), (3.0, 9, 2)]
)
def test_closed_form_of_kairouz_oh_and_viswanath(epsilon, count, i):
    """Theorem 3.3 at epsilon_i = (count - 2 i) epsilon, in 60 digits."""
    with mpmath.workdps(60):
        e = mpmath.exp(mpmath.mpf(epsilon))
        terms = (
            mpmath.binomial(count, k) * (e ** (count - k) - e ** (count - 2 * i + k)) / (1 + e) ** count
            for k in range(i)
        )
        delta = float(mpmath.fsum(terms))
    assert composed_epsilon(epsilon, count, delta) == pytest.approx((count - 2 * i) * epsilon, rel=1e-8)


def test_every_valid_rule_is_above_the_optimum():
    rng = np.random.default_rng(0)
    epsilon, count = np.exp(rng.uniform(-5, 1, 60)), np.ceil(np.exp(rng.uniform(0, 8, 60)))
    delta = 10 ** rng.uniform(-9, -1, 60)
    best = composed_epsilon(epsilon, count, delta)
    for rule in ("basic", "corrected"):
        assert (composed_epsilon(epsilon, count, delta, rule) >= best * (1 - 1e-12)).all(), rule


def test_equation_8_by_hand():
    """c = 4, epsilon = 1, delta = e^-2: the root is of 16, and the second term 4 (e - 1)."""
    assert composed_epsilon(1.0, 4, math.exp(-2), "corrected") == pytest.approx(4 + 4 * (math.e - 1))
    assert composed_epsilon(1.0, 4, math.exp(-2), "printed") == pytest.approx(math.sqrt(16 + 4 * (math.e - 1)))


def test_the_printed_equation_is_no_bound():
    """At the epsilon that it gives, randomised response has more than ten times the delta that was promised."""
    for epsilon, count, broken in ((0.1, 10, False), (0.5, 10, False), (0.1, 6000, True), (0.5, 50, True)):
        printed = composed_epsilon(epsilon, count, 1e-5, "printed")
        assert (printed < composed_epsilon(epsilon, count, 1e-5)) == broken
    assert composed_epsilon(0.5, 50, 1e-5, "printed") == pytest.approx(17.084, abs=1e-3)
    assert exact_loss.discrete_delta(response(0.5, 50), 17.084) > 10 * 1e-5


def test_extremes_neither_overflow_nor_leave_the_range():
    assert composed_epsilon(800.0, 3, 1e-5) == pytest.approx(2400)
    assert composed_epsilon(1e-6, 1, 0.5) == 0.0
    assert composed_epsilon(0.01, 10_000, 1e-300) <= 100


def test_forms_and_means_that_are_none_are_refused():
    for call in (lambda: search_budgets.least_mgrs("foo"), lambda: search_budgets.equation_9(0.1, 1e4, 10, 0.1, "foo")):
        with pytest.raises(ParameterError, match="form = 'foo'"):
            call()
    with pytest.raises(ParameterError, match=r"out of reach with shape = -0\.999"):
        search_budgets.run_probabilities(10, -0.999, 5)


@pytest.mark.parametrize(
    ("mean", "shape"), [(1 + 1e-13, 0.0), (1 + 1e-12, 2.0), (1 + 1e-8, 1e6), (1 + 3e-16, 0.0), (1 + 1e-11, 1e6)]
)
def test_a_mean_of_nearly_one_run_is_reached_and_costs_something(mean, shape):
    """The mean is 1 + (1 + shape)/2 ln(1/gamma) to first order. A gamma that rounds to 1 would be free of charge."""
    gamma = search_budgets.stopping(mean, shape)
    assert 0 < gamma < 1
    assert 1 - gamma == pytest.approx(2 * (mean - 1) / (1 + shape), rel=0.01, abs=4e-16)
    assert search_budgets.run_probabilities(mean, shape, 3) == pytest.approx([0, 1, 0, 0], abs=0.01)


def test_selections_without_noise_cost_infinitely_much():
    for search in (Search(3), Search(selections=((10, 1),)), Search(2, ((10, 1),))):
        assert dpsgd_epsilon(search, 0.0, 0.1, 10, DELTA) == np.inf


@pytest.mark.parametrize("search", [Search(3), Search(selections=((10, 1),))])
def test_several_settings_are_refused_where_one_epsilon_is_given(search):
    """The least over settings was returned: that of the most noise, or of the largest delta."""
    for noise, rate, steps, delta in (
        ([0.5, 5.0], 0.1, 10, DELTA), (5.0, [0.1, 0.01], 10, DELTA), (5.0, 0.1, [10, 1], DELTA),
        (5.0, 0.1, 10, [DELTA, 0.5]),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match="it must be one of the"):
            dpsgd_epsilon(search, noise, rate, steps, delta)
    for delta, rate in (([DELTA, 0.5], 0.1), (DELTA, [0.1, 0.01])):
        with pytest.raises(ParameterError, match="it must be one of the numbers"):
            noise_for(search, 1.0, delta, rate, 10)


def test_the_theorem_has_no_trainings_beyond_its_range():
    """At epsilon' = 2 it would make -0.17 of them."""
    assert search_budgets.theorem_runs(0.5, 1, 1) == pytest.approx(4 * math.log(2))
    with pytest.raises(ParameterError, match="selection_epsilon = 2 "):
        search_budgets.theorem_runs(2, 1, 1)


@pytest.mark.parametrize("selections", [5, None, "ab", ((1,),), ((5, 1, 1),), (5, 1), np.ones((2, 2))])
def test_selections_that_are_no_pairs_are_refused(selections):
    with pytest.raises(ParameterError, match="it must be a list of pairs"):
        Search(1, selections)


def test_selections_can_be_walked_again_and_do_not_change():
    """Of a generator nothing was left once it was checked: its selections cost nothing."""
    with pytest.raises(ParameterError, match="it must be a list of pairs"):
        Search(1, (pair for pair in [(10, 1.0)]))
    given = [[10, 1.0]]
    search = Search(1, given)
    given.clear()
    assert search == Search(1, ((10, 1.0),))
    assert hash(search) == hash(Search(1, ((10, 1.0),)))


def test_shapes_that_do_not_fit_are_refused_and_lists_broadcast():
    for call in (
        lambda: composed_epsilon([1.0, 2.0], [3, 4, 5], 0.1),
        lambda: equation_9([0.1, 0.2], [1e4, 1e4, 1e4], 10, 0.1),
        lambda: equation_9(0.1, 1e4, [10, 20], [0.1, 0.2, 0.3]),
    ):
        with pytest.raises(ParameterError, match="do not fit together"):
            call()
    assert equation_9(0.1, 1e4, [10, 20], 0.1).tolist() == [equation_9(0.1, 1e4, count, 0.1) for count in (10, 20)]


@pytest.mark.parametrize("divergence", [np.ones((2, 3)) * [[1.0], [0.0]], np.ones(0)])
def test_divergences_of_several_runs_are_refused(divergence):
    """The least over both bounded neither."""
    with pytest.raises(ParameterError, match=r"it must be of shape \(k,\)"):
        search_budgets.selection_rdp(divergence, 10, 1.0, [2.0, 3.0, 4.0][: divergence.shape[-1]])
