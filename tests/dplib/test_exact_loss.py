"""Exact losses: enumeration and quadrature against closed forms; divisors that depend on the data."""

import itertools

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy import optimize, stats

from dplib import accounting, exact_loss, mechanisms
from dplib.checks import ParameterError

RESPONSE = np.array([[0.75, 0.25], [0.25, 0.75]])  # randomised response with epsilon = log 3


# ---- exact losses by enumeration ----


def test_randomised_response_is_enumerated():
    assert exact_loss.discrete_epsilon(RESPONSE) == pytest.approx(np.log(3), rel=1e-14)
    epsilon = np.array([[0, 0.5], [np.log(3), 2]])
    expected = np.maximum(0, 0.75 - 0.25 * np.exp(epsilon))
    assert exact_loss.discrete_delta(RESPONSE, epsilon) == pytest.approx(expected, abs=1e-15)
    assert exact_loss.discrete_epsilon(RESPONSE, 0.25) == pytest.approx(np.log(2))
    assert exact_loss.discrete_epsilon(RESPONSE, 0.5) == 0


def test_enumeration_against_all_subsets():
    """Random tables: the supremum over all 2^6 sets of outputs, and epsilon as its inverse."""
    rng = np.random.default_rng(1)
    subsets = np.array(list(itertools.product([0, 1], repeat=6)))
    for _ in range(20):
        table = rng.dirichlet(np.full(6, 0.5), size=3)
        for epsilon in (0.0, 0.3, 2.0):
            pairs = itertools.permutations(range(3), 2)
            worst = max((subsets @ (table[i] - np.exp(epsilon) * table[j])).max() for i, j in pairs)
            assert exact_loss.discrete_delta(table, epsilon) == pytest.approx(worst, abs=1e-13)
        for delta in (0.01, 0.2):
            epsilon = exact_loss.discrete_epsilon(table, delta)
            assert exact_loss.discrete_delta(table, epsilon) == pytest.approx(delta, abs=1e-12) or epsilon == 0
            assert exact_loss.discrete_delta(table, epsilon) <= delta + 1e-12


def test_enumeration_against_dp_accounting():
    table = np.array([[0.6, 0.3, 0.1, 0.0], [0.2, 0.3, 0.4, 0.1]])
    masses = [{k: np.log(p) for k, p in enumerate(row) if p > 0} for row in table]
    reference = privacy_loss_distribution.from_two_probability_mass_functions(
        *masses, value_discretization_interval=1e-5, symmetric=False
    )
    for epsilon in (0.0, 0.5, 1.2):
        theirs = reference.get_delta_for_epsilon(epsilon)
        assert exact_loss.discrete_delta(table, epsilon) == pytest.approx(theirs, abs=2e-5)


def test_outputs_that_only_one_input_has():
    table = [[1.0, 0.0], [0.5, 0.5]]
    assert exact_loss.discrete_epsilon(table) == np.inf
    assert exact_loss.discrete_epsilon(table, 0.499) == np.inf
    assert exact_loss.discrete_epsilon(table, 0.5) == 0
    assert exact_loss.discrete_delta(table, 1000.0) == 0.5


def test_neighbours_are_the_callers():
    chain = [[0.8, 0.1, 0.1], [0.4, 0.3, 0.3], [0.1, 0.1, 0.8]]
    assert exact_loss.discrete_epsilon(chain) == pytest.approx(np.log(8))
    assert exact_loss.discrete_epsilon(chain, neighbours=[(0, 1)]) == pytest.approx(np.log(3))


# ---- exact losses by quadrature ----


def test_gaussian_and_laplace_by_quadrature():
    for sigma, epsilon in [(1.0, 0.0), (0.5, 3.0), (2.0, 0.4)]:
        p, q = (stats.norm(centre, sigma).logpdf for centre in (0, 1))
        value, error = exact_loss.density_delta(p, q, epsilon, (-12 * sigma, 1 + 12 * sigma))
        assert error < 1e-10
        assert value == pytest.approx(mechanisms.gaussian_delta(sigma, 1, epsilon), abs=error)
    p, q = (stats.laplace(centre, 2).logpdf for centre in (0, 1))
    low, high = exact_loss.density_epsilon(p, q, 1e-3, (-70, 71), kinks=(0, 1))
    assert low <= 0.5 + 2 * np.log1p(-1e-3) <= high
    assert high - low < 1e-6
    assert exact_loss.density_max_log_ratio(p, q, (-70, 71), (0, 1)) == pytest.approx(0.5)


def test_both_directions_count():
    """Noise of two scales: mechanisms.two_gaussians_delta one way and the other."""
    p, q = stats.norm(0, 1).logpdf, stats.norm(0.5, 2).logpdf
    one, other = (mechanisms.two_gaussians_delta(0.5, *sds, 1, 0.8) for sds in ((1, 2), (2, 1)))
    assert abs(one - other) > 0.01
    value, error = exact_loss.density_delta(p, q, 0.8, (-20, 20))
    assert value == pytest.approx(max(one, other), abs=error + 1e-12)


def test_what_lies_beyond_the_limits_is_error():
    p, q = stats.norm(0, 1).logpdf, stats.norm(1, 1).logpdf
    value, error = exact_loss.density_delta(p, q, 1.0, (-1, 12))
    assert abs(value - mechanisms.gaussian_delta(1, 1, 1.0)) <= error
    assert error > 0.1
    low, high = exact_loss.density_epsilon(p, q, 1e-5, (-12, 4))
    assert low < mechanisms.gaussian_epsilon(1, 1, 1e-5) < high == np.inf


def test_disjoint_supports():
    p, q = stats.uniform(0, 1).logpdf, stats.uniform(0.1, 1).logpdf
    value, error = exact_loss.density_delta(p, q, 1.0, (-1, 2), kinks=(0, 0.1, 1, 1.1))
    assert value == pytest.approx(0.1, abs=error + 1e-9)
    assert exact_loss.density_max_log_ratio(p, q, (-1, 2)) == np.inf


# ---- quotients ----


@pytest.mark.parametrize("n", [2, 5, 40, 10_000])
def test_full_batches_have_closed_forms(n):
    """Constant: one Gaussian. Divided by n: Gaussians of two widths, two clipping norms over n apart."""
    sigma, delta = 2.5, 1e-3
    assert exact_loss.quotient_epsilon(n, 1.0, sigma, delta, "constant") == pytest.approx(
        mechanisms.gaussian_epsilon(sigma, 1.0, delta), rel=3e-4
    )
    widths = sigma / n, sigma / (n - 1)
    due = max(
        optimize.brentq(lambda e, x=x, y=y: mechanisms.two_gaussians_delta(2 / n, x, y, 1, e) - delta, 0, 100)
        for x, y in (widths, widths[::-1])
    )
    values = {name: exact_loss.quotient_epsilon(n, 1.0, sigma, delta, name) for name in ("records", "batch")}
    assert values == pytest.approx({"records": due, "batch": due}, rel=3e-4)
    assert due > mechanisms.gaussian_epsilon(sigma / 2, 1.0, delta) * 0.999  # more than half the noise


def test_a_random_batch_against_adaptive_quadrature():
    def log(present):
        return lambda z: np.log(exact_loss._quotient_density(z, 4, 0.3, 1.2, "batch", present))

    low, high = exact_loss.density_epsilon(log(True), log(False), 1e-2, (-14, 14))
    assert exact_loss.quotient_epsilon(4, 0.3, 1.2, 1e-2, "batch") == pytest.approx((low + high) / 2, rel=1e-3)


def test_a_constant_never_exceeds_the_accountant_and_the_others_do():
    spent = accounting.epsilon(1.7, 0.5, 1, 1e-3, "pld")
    values = {d: [exact_loss.quotient_epsilon(n, 0.5, 1.7, 1e-3, d) for n in (3, 10, 40)] for d in exact_loss.DIVISORS}
    assert max(values["constant"]) <= spent
    assert max(values["records"]) > spent
    assert max(values["batch"]) > spent


def test_noise_counts_records():
    n, coordinates = 60_000, 2e7
    distance = (2 * coordinates) ** 0.5 / n  # two scales, as one Gaussian in the limit of many coordinates
    near = mechanisms.gaussian_epsilon(1.0, distance, 1e-5)
    assert exact_loss.count_epsilon(n, coordinates, 1e-5) == pytest.approx(near, rel=5e-3)
    assert exact_loss.count_epsilon(n, 1, 1e-5) == 0.0


@pytest.mark.parametrize(("n", "coordinates"), [(10, 1), (60_000, 2.2e10)])
def test_noise_counts_records_in_both_directions(n, coordinates):
    """Few numbers tell more of a record that is missing, many of one that is there; chi-squares of scipy.stats."""

    def delta(e, wide, narrow):
        beyond = (e + coordinates * np.log(wide / narrow)) / ((1 / narrow**2 - 1 / wide**2) / 2)
        return np.array([stats.chi2.sf(beyond / sd**2, coordinates) for sd in (wide, narrow)]) @ [1, -np.exp(e)]

    def inverse(e, wide, narrow):
        below = (coordinates * np.log(wide / narrow) - e) / ((1 / narrow**2 - 1 / wide**2) / 2)
        return np.array([stats.chi2.cdf(below / sd**2, coordinates) for sd in (narrow, wide)]) @ [1, -np.exp(e)]

    due = [optimize.brentq(lambda e, f=f: f(e, n / (n - 1), 1.0) - 1e-5, 1e-9, 100) for f in (delta, inverse)]
    assert exact_loss.count_epsilon(n, coordinates, 1e-5) == pytest.approx(max(due), rel=1e-4)
    assert max(due) > 1.02 * min(due)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: exact_loss.discrete_delta([[0.5, 0.6], [0.5, 0.5]], 1.0), "outputs"),
        (lambda: exact_loss.discrete_delta([[np.nan, 1], [0, 1]], 1.0), "outputs"),
        (lambda: exact_loss.discrete_delta(RESPONSE, -1.0), "epsilon"),
        (lambda: exact_loss.discrete_epsilon(RESPONSE, neighbours=[(0, 2)]), "neighbours"),
        (lambda: exact_loss.density_delta(np.log, np.log, 1.0, (0, np.inf)), "limits"),
        (lambda: exact_loss.density_delta(lambda x: 0 * x + np.log(2), stats.uniform.logpdf, 1.0, (0, 1)), "mass 2"),
        (lambda: exact_loss.quotient_epsilon(3, 0.5, 1.0, 1e-5, "n"), "divisor = 'n'"),
    ],
)
def test_exact_losses_refuse(call, named):
    with pytest.raises(ParameterError, match=named):
        call()


def test_masses_that_add_up_to_delta_do_not_exceed_it():
    """0.1 + 0.2 is 5e-17 above 0.3: epsilon was inf."""
    assert exact_loss.discrete_epsilon([[0.1, 0.2, 0.7], [0, 0, 1.0]], 0.3) == 0
    assert exact_loss.discrete_epsilon([[0.1, 0.2, 0.7], [0, 0, 1.0]], 0.3 - 1e-12) == np.inf
    assert exact_loss.discrete_epsilon([[1e-300, 1.0], [0, 1.0]], 0.0) == np.inf


@pytest.mark.parametrize("neighbours", [(0, 1), [(0.0, 1)], [(0, 2)], [(0, 1, 1)], [0], 5, [], [(-1, 0)], ["01"]])
def test_what_is_no_pair_of_rows_is_refused(neighbours):
    with pytest.raises(ParameterError, match=r"neighbours must be pairs of rows from 0 to 1, such as \[\(0, 1\)\]"):
        exact_loss.discrete_epsilon([[0.7, 0.3], [0.3, 0.7]], 0.0, neighbours)
