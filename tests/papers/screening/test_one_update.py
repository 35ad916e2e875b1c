"""The exact loss of screened updates: the counterexample, the theorems on random instances, and simulations.

Seeds are fixed; docstrings say how often a correct implementation would fail a test that rests on chance.
"""

import numpy as np
import pytest
from scipy import integrate, special, stats

from dplib import exact_loss, mechanisms, rdp
from papers.screening import one_update

DELTA = 1e-5


def cells(shift, acceptance, q=1.0, limit=None, width=one_update.WIDTH):
    return one_update.cells(*one_update.pair(shift, acceptance, limit, q), width)


def epsilon(shift, acceptance, limit=None):
    return one_update.epsilon(*one_update.pair(shift, acceptance, limit), DELTA)


def deltas(both, epsilon):
    """Hockey-stick divergences of cells from below: of removing the example, and of adding it."""
    return [np.maximum(0, p - np.exp(epsilon) * q).sum() for p, q in ((both.p, both.q), (both.q, both.p))]


def plain_deltas(shift, q, epsilon):
    """The same of one plain update, in closed form: where one density is e^epsilon times the other begins a ray."""
    ratios = (np.exp(epsilon) - 1 + q) / q, (np.exp(-epsilon) - 1 + q) / q  # of N(s, 1) to N(0, 1), at their ends
    s = abs(shift)
    above, below = (np.log(r) / s + s / 2 if r > 0 else -np.inf for r in ratios)
    phi = stats.norm.cdf
    removing = (1 - q) * phi(-above) + q * phi(s - above) - np.exp(epsilon) * phi(-above)
    adding = phi(below) - np.exp(epsilon) * ((1 - q) * phi(below) + q * phi(below - s))
    return [removing, adding]


def convex_acceptance(rng):
    """Equation (3) for a random convex, piecewise linear energy: log-concave."""
    steps = np.sort(rng.normal(0, 2, 5))
    energies = np.concatenate([[0], np.cumsum(np.sort(rng.normal(0, 1, 4)) * np.diff(steps))])
    return one_update.annealed(steps, energies, rng.choice([0.5, 3.0, 50.0]))


def any_acceptance(rng):
    steps = np.sort(rng.normal(0, 2, 6))
    return one_update.annealed(steps, rng.normal(0, 1, 6), rng.choice([0.5, 3.0, 20.0]))


def public_test_bound(shift: float, rate: float, delta: float) -> float:
    """The most that one update can cost that a public test chose, redrawn until accepted, whatever the test.

    With Z the acceptance rate with the example and Z' without it, delta'(epsilon) <= delta(epsilon + log(Z/Z'))/Z,
    where delta is that of the Gaussian mechanism, and Z' <= Phi(Phi^-1(Z) + shift) by Neyman and Pearson.

    Args:
        shift: sensitivity over noise, > 0. rate: the smaller acceptance rate Z, in (0, 1]. delta: in (0, 1).
    """
    ratio = np.log(special.ndtr(special.ndtri(rate) + shift) / rate)
    return float(mechanisms.gaussian_epsilon(1.0, shift, rate * delta) + ratio)


# ---- the counterexample ----


def test_one_rejection_costs_more_than_one_update():
    """One parameter, one example, one update, at most one rejection: the loss exceeds the claimed one.

    Algorithm 2 as printed, first update: after a rejection line 22 sets Q = 0, so that the second candidate is taken.
    Sigma = 1, every example in every batch, energy -w with a steep slope; with the example or without it.
    """
    claimed_exact = mechanisms.gaussian_epsilon(1.0, 1.0, DELTA)
    orders = np.arange(2, 65)
    claimed = rdp.to_epsilon(rdp.rdp(1.0, 1.0, 1, orders), orders, DELTA, "classical").min()
    assert claimed > claimed_exact
    low = epsilon(1.0, one_update.threshold(0.0), limit=1)
    assert 5.36 < low < 5.361
    assert low > claimed > claimed_exact
    # The same from the normal distribution function alone. Without the example, half of the first candidates are
    # rejected, with it Phi(-1); an update below 0 must be a second candidate.
    rejected = {0: 0.5, 1: stats.norm.cdf(-1)}

    def delta(epsilon):
        cut = 0.5 - (epsilon - np.log(rejected[0] / rejected[1]))  # where the loss of u < 0 is epsilon
        assert cut < 0
        return rejected[0] * stats.norm.cdf(cut) - np.exp(epsilon) * rejected[1] * stats.norm.cdf(cut - 1)

    assert delta(low) == pytest.approx(DELTA, rel=1e-3)
    assert delta(claimed) > 1.2 * DELTA

    # And by adaptive quadrature of the two densities.
    def log_density(centre):
        def log_p(u):
            tries = np.where(u >= 0, 1 + rejected[centre], rejected[centre])
            return stats.norm.logpdf(u, centre) + np.log(tries)

        return log_p

    epsilon_ = exact_loss.density_epsilon(log_density(1), log_density(0), DELTA, (-12, 13), kinks=(0.0,))
    assert low <= epsilon_[1]
    assert epsilon_[0] < low + 1e-4


def test_the_paper_allows_ten_rejections():
    """mu_0 = 10: more than three times the claimed epsilon, with a convex energy on public data."""
    epsilon_ = epsilon(1.0, one_update.threshold(0.0), limit=10)
    assert 13.8 > epsilon_ > 13.78 > 3 * mechanisms.gaussian_epsilon(1.0, 1.0, DELTA)


def test_finite_temperature_of_the_printed_rule():
    """exp(-10 Delta E) with an energy of slope 1 per standard deviation: the excess stays."""
    acceptance = one_update.annealed([-1.0, 1.0], [1.0, -1.0], temperature=10.0)
    assert epsilon(1.0, acceptance, limit=10) > 2.9 * mechanisms.gaussian_epsilon(1.0, 1.0, DELTA)


def test_two_wells_have_no_bound():
    """Public energy, unlimited rejections: the loss grows with the distance of the valleys."""
    values = [epsilon(1.0, one_update.wells(0.5 - k, 0.5 + k)) for k in (0.01, 1, 3, 6, 8)]
    assert values[0] == pytest.approx(mechanisms.gaussian_epsilon(1.0, 1.0, DELTA), abs=0.01)
    assert (np.diff(values) > 0).all()
    assert values[-1] > 8


def test_energy_on_private_data_leaks_without_any_gradient():
    """The example moves no gradient at all, only the energy: without it the other half of the line is accepted."""
    up, down = one_update.threshold(2.0), one_update.Acceptance((2.0,), (0.0, 0.0), (0.0, -np.inf))
    trials = [one_update.trial(0.0, rule) for rule in (up, down)]
    assert one_update.epsilon(*(one_update.released(trial_, 10) for trial_ in trials), DELTA) > 30
    assert one_update.epsilon(*map(one_update.released, trials), DELTA) == np.inf


# ---- theorems on random instances ----


def test_convex_public_energy_and_unlimited_rejections_cost_no_more_than_one_update():
    """Theorem: the screened pair is dominated by the Gaussian one, at every epsilon; for every batch drawn once."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        acceptance, shift = convex_acceptance(rng), rng.choice([-2.0, -0.5, 0.3, 1.0, 3.0])
        q = rng.uniform(0.05, 0.9)
        with_it, without = one_update.pair(shift, acceptance, None)
        screened = one_update.cells(with_it, without)
        once = one_update.cells(one_update.mixture([1 - q, q], [without, with_it]), without)
        for e in (0.0, 0.2, 1.0, 3.0):
            assert max(deltas(screened, e)) <= mechanisms.gaussian_delta(1, abs(shift), e)
            assert max(deltas(once, e)) <= max(plain_deltas(shift, q, e)) + 1e-15


def test_isoperimetry_behind_the_theorem():
    """Its two steps on a grid: the density at every quantile, and the shift of the normal scores."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        acceptance = convex_acceptance(rng)
        with_it, without = one_update.pair(1.0, acceptance, None)
        grid = np.linspace(-6, 6, 201)
        edges = np.unique(np.concatenate([[-np.inf], grid, without.ends[1:-1], with_it.ends[1:-1]]))
        below = np.array([density.masses(edges).cumsum() for density in (without, with_it)])
        used = (below > 1e-9).all(axis=0) & (below < 1 - 1e-9).all(axis=0)
        scores = stats.norm.ppf(below[:, used])
        assert (scores[0] - scores[1] <= 1.0 + 1e-6).all()
        at = edges[1:][used]
        assert (np.exp(without.log_density(at)) >= stats.norm.pdf(scores[0]) - 1e-9).all()


def test_price_of_a_public_test():
    """Theorem: delta'(epsilon) <= delta(epsilon + log(Z1/Z0)) / Z1, in both directions, for any public test."""
    rng = np.random.default_rng(3)
    for _ in range(25):
        acceptance, q, shift = any_acceptance(rng), rng.choice([1.0, 0.2]), rng.choice([0.4, 1.0, 2.0])
        rates = [one_update.acceptance_rate(one_update.trial(shift, acceptance, q, p)) for p in (True, False)]
        screened = cells(shift, acceptance, q)
        for side, (own, other) in enumerate((rates, rates[::-1])):
            for e in (0.0, 0.5, 2.0):
                moved = e + np.log(own / other)
                if moved >= 0:
                    assert deltas(screened, e)[side] <= plain_deltas(shift, q, moved)[side] / own * (1 + 1e-9) + 1e-15


def test_a_random_limit():
    """Stop with probability gamma after each rejection: the outcome, "nothing" included, obeys the theorem's bound."""
    rng = np.random.default_rng(9)
    gamma, shift = 0.1, 1.0
    for _ in range(10):
        acceptance = any_acceptance(rng)
        trials = [one_update.trial(shift, acceptance, 1.0, present) for present in (True, False)]
        rates = np.array([one_update.acceptance_rate(trial) for trial in trials])
        ends = gamma + (1 - gamma) * rates
        accepted = one_update.cells(*(one_update.released(trial) for trial in trials), 0.02)
        masses = [
            np.append(mass * z / end, gamma * (1 - z) / end)
            for mass, z, end in zip((accepted.p, accepted.q), rates, ends, strict=True)
        ]
        # Simulated: the share of searches that end with nothing.
        accepts = rng.random((2000, 300)) < rates[0]
        first = np.where(accepts.any(axis=1), accepts.argmax(axis=1), 300)
        stops = rng.geometric(gamma, 2000)  # stopped after this many rejections
        nothing = (stops <= first).mean()
        assert abs(nothing - masses[0][-1]) < 5 * np.sqrt(0.25 / 2000)
        for (p, q), (own, other) in (((masses[0], masses[1]), ends), ((masses[1], masses[0]), ends[::-1])):
            for epsilon in (0.3, 1.0, 3.0):
                found = np.maximum(0, p - np.exp(epsilon) * q).sum()
                moved = epsilon + np.log(own / other)
                if moved >= 0:
                    assert found <= mechanisms.gaussian_delta(1.0, shift, moved) / own + 1e-12


def test_screening_changes_the_sampling_rate():
    """The accepted batch holds the example with probability q Z_s / ((1 - q) Z_0 + q Z_s)."""
    acceptance, q, shift = one_update.threshold(1.5), 0.1, 1.0
    zs, z0 = (one_update.acceptance_rate(one_update.trial(shift, acceptance, 1.0, p)) for p in (True, False))
    rate = q * zs / ((1 - q) * z0 + q * zs)
    assert rate > 3 * q
    own, rest = one_update.pair(shift, acceptance, None)
    mixed = one_update.mixture([1 - rate, rate], [rest, own])
    direct = one_update.released(one_update.trial(shift, acceptance, q, True))
    u = np.linspace(1.6, 6, 50)
    assert mixed.log_density(u) == pytest.approx(direct.log_density(u), abs=1e-12)
    # So that accepted-only accounting at rate q is exceeded, convex energy or not.
    assert max(deltas(cells(shift, acceptance, q), 1.0)) > max(plain_deltas(shift, q, 1.0))


def test_bound_of_any_public_test():
    """Two wells, half-lines and random energies stay below it; without a test it is the Gaussian's."""
    assert public_test_bound(1.0, 1.0, DELTA) == pytest.approx(mechanisms.gaussian_epsilon(1, 1, DELTA))
    rng = np.random.default_rng(8)
    tests = [one_update.wells(0.5 - k, 0.5 + k) for k in (0.5, 2, 4)] + [any_acceptance(rng) for _ in range(10)]
    for acceptance in tests:
        rate = min(one_update.acceptance_rate(one_update.trial(1.0, acceptance, 1.0, p)) for p in (True, False))
        assert epsilon(1.0, acceptance) <= public_test_bound(1.0, rate, DELTA)


# ---- the machinery ----


@pytest.mark.parametrize("shift", [0.3, 1.0, 2.5])
def test_plain_update_is_the_gaussian_mechanism(shift):
    exact = mechanisms.gaussian_epsilon(1.0, shift, DELTA)
    assert exact - 1e-3 < epsilon(shift, one_update.always(), 0) <= exact
    assert plain_deltas(shift, 1.0, 0.7)[0] == pytest.approx(mechanisms.gaussian_delta(1.0, shift, 0.7))
    assert deltas(cells(shift, one_update.always(), 0.2), 0.4) == pytest.approx(plain_deltas(shift, 0.2, 0.4), rel=1e-3)


def test_cells_are_below_quadrature_and_near_it():
    rng = np.random.default_rng(4)
    for _ in range(4):
        acceptance, limit, q = any_acceptance(rng), int(rng.choice([1, 5, 10])), rng.choice([1.0, 0.1])
        both = one_update.pair(1.0, acceptance, limit, q)
        logs = [part.log_density for part in both]
        value, error = exact_loss.density_delta(*logs, 0.7, (-13, 14), tuple(both[0].ends[1:-1]))
        wide, narrow = (max(deltas(one_update.cells(*both, width), 0.7)) for width in (0.1, 0.01))
        assert wide <= narrow <= value + error
        assert value - narrow < 1e-4


def test_renyi_divergence_against_an_accountant():
    for q, sigma in ((1.0, 1.0), (0.1, 1.3)):
        plain = cells(1 / sigma, one_update.always(), q)
        for order in (2, 5, 8):
            exact = rdp.rdp(sigma, q, 1, [order])[0]
            assert 0.999 * exact < one_update.renyi(plain, order) <= exact * (1 + 1e-12)


def test_released_densities_against_simulated_loops():
    """A correct implementation fails about once in 10^5 seeds (four chi-square tests)."""
    rng = np.random.default_rng(5)
    runs = 100_000
    for limit, q, acceptance in (
        (0, 0.3, one_update.threshold(0.5)),
        (1, 1.0, any_acceptance(rng)),
        (4, 0.3, any_acceptance(rng)),
        (60, 0.5, one_update.threshold(0.5)),
    ):
        accepted, waiting = np.full(runs, np.nan), np.arange(runs)
        for rejections in range(limit + 1):
            u = rng.normal(size=len(waiting)) + (rng.random(len(waiting)) < q) * 1.2
            taken = (rng.random(len(waiting)) <= acceptance(u)) | (rejections >= limit)
            accepted[waiting[taken]] = u[taken]
            waiting = waiting[~taken]
        assert len(waiting) == 0
        density = one_update.released(one_update.trial(1.2, acceptance, q), limit)
        edges = np.unique(np.concatenate([[-np.inf], np.linspace(-2, 3, 21), density.ends[1:-1], [np.inf]]))
        expected = runs * density.masses(edges)
        counts = np.histogram(accepted, edges)[0]
        big = expected > 10
        assert counts[~big].sum() <= 60
        chi2 = ((counts - expected)[big] ** 2 / expected[big]).sum()
        assert stats.chi2.sf(chi2, big.sum()) > 2e-6


def test_masses_sum_to_one_and_match_the_density():
    rng = np.random.default_rng(6)
    for limit in (None, 0, 3):
        weights = rng.dirichlet(np.ones(4))
        density = one_update.released(
            one_update.trial(0.8, any_acceptance(rng), 0.4, True, (weights, rng.normal(0, 0.5, 4))), limit
        )
        assert density.masses(np.array([-np.inf, *density.ends[1:-1], np.inf])).sum() == pytest.approx(1, abs=1e-12)
        low, high = density.ends[1] + 0.01, density.ends[2]
        inside = integrate.quad(lambda u, d=density: np.exp(d.log_density(np.array(u))), low, high)[0]
        assert inside == pytest.approx(density.masses(np.array([low, high]))[0], abs=1e-10)


def test_equation_3():
    """min(1, exp(-(J(u) - J(0)) Q)) for a piecewise linear energy, against the formula itself."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        steps = np.sort(rng.normal(0, 2, 6))
        energies, temperature = rng.normal(0, 1, 6), rng.uniform(0, 20)
        slopes = np.diff(energies) / np.diff(steps)

        def energy(u, steps=steps, energies=energies, slopes=slopes):
            k = np.clip(np.searchsorted(steps, u, side="right") - 1, 0, 4)
            return energies[k] + slopes[k] * (u - steps[k])

        u = rng.normal(0, 4, 500)
        expected = np.exp(-temperature * np.maximum(0, energy(u) - energy(0.0)))
        assert one_update.annealed(steps, energies, temperature)(u) == pytest.approx(expected, abs=1e-12)
