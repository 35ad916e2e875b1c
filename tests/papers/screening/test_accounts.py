"""The paper's equations against accountants, its budgets, and instances whose exact loss is known."""

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.rdp import RdpAccountant

from dplib import accounting, mechanisms, rdp
from dplib.checks import ParameterError
from papers.screening import accounts, instances, one_update
from papers.screening.accounts import DELTA, ORDERS, SETTINGS

MNIST = SETTINGS[0]


def steps_allowed(setting, method):
    count = accounts.METHODS[method]
    return accounts.steps_allowed(3.0, setting.noise_multiplier, setting.sample_rate, DELTA, count)


def test_equation_8_against_an_accountant_and_the_integral():
    for sigma, q in ((1.23, 512 / 60_000), (0.8, 0.3), (3.0, 1.0)):
        ours = accounts.log_moment(sigma, q, ORDERS)
        assert ours / (ORDERS - 1) == pytest.approx(rdp.rdp(sigma, q, 1, ORDERS), rel=1e-8, abs=1e-13)
        for order in (2, 7, 20):
            log_a, log_b = accounts.log_moments_by_quadrature(sigma, q, order)
            assert log_a == pytest.approx(ours[order - 2], rel=1e-7, abs=1e-10)
            assert log_b <= log_a + 1e-10


def test_the_missing_logarithm():
    """As printed, no epsilon is below steps / 63; with the logarithm the ledger's numbers come out."""
    allowed = [[steps_allowed(setting, method) for setting in SETTINGS] for method in ("printed", "lemma 2")]
    assert allowed == [[27, 63, 37], [4698, 1157, 1435]]
    for setting, steps, printed in zip(SETTINGS, allowed[1], (365.6, 47.9, 89.7), strict=True):
        arguments = steps, setting.noise_multiplier, setting.sample_rate
        epsilon_ = accounts.epsilon(*arguments)[0]
        assert epsilon_ == pytest.approx(accounts.paper_epsilon(*arguments[1:], steps, DELTA), rel=1e-9)
        assert epsilon_ <= 3 < accounts.epsilon(steps + 1, *arguments[1:])[0]
        assert accounts.epsilon(*arguments, logarithm=False)[0] == pytest.approx(printed, abs=0.05)
    nothing = accounts.renyi(100, 1.0, 1e-9, ORDERS[:20], logarithm=False)
    assert nothing == pytest.approx(100 / (ORDERS[:20] - 1), rel=1e-3)


def test_conversions():
    """Lemma 3 is never above Lemma 2, and both are above the exact epsilon of the Gaussian mechanism."""
    for sigma in (0.7, 1.5, 4.0):
        lemma2, lemma3 = (accounts.epsilon(1, sigma, 1.0, conversion=name)[0] for name in ("classical", "improved"))
        assert mechanisms.gaussian_epsilon(sigma, 1.0, DELTA) <= lemma3 <= lemma2


def test_counts_of_queries():
    """Against simulation, exact for the mean; and the two ends: nothing accepted by merit, everything."""
    accepted, acceptance, limit, runs = 40, 0.3, 3, 20_000
    counts_ = accounts.query_counts(accepted, acceptance, limit)
    rng = np.random.default_rng(0)
    first = rng.geometric(acceptance, size=(runs, accepted))  # the candidate that is accepted by merit
    counts = np.minimum(first, limit + 1).sum(axis=1)
    mean = counts_ @ np.arange(len(counts_))
    assert mean == pytest.approx(accepted * accounts.candidates_per_update(1 - acceptance, limit), rel=1e-12)
    assert abs(counts.mean() - mean) < 4 * counts.std() / np.sqrt(runs)
    for most in (70, 90, 110):
        share = counts_[: most + 1].sum()
        assert abs((counts <= most).mean() - share) < 4 * np.sqrt(share * (1 - share) / runs) + 1e-12
    assert accounts.query_counts(12, 0.0, 2)[36] == pytest.approx(1.0)
    assert accounts.query_counts(12, 1.0, 2)[12] == pytest.approx(1.0)
    assert accounts.candidates_per_update(0.5, 2) == pytest.approx(1.75)


def counted_one_by_one(queries, acceptance, limit):
    """The distribution of accepted updates, candidate by candidate: states are (accepted, rejections in a row)."""
    now = {(0, 0): 1.0}
    for _ in range(queries):
        then = {}
        for (n, r), chance in now.items():
            passes = 1.0 if r >= limit else acceptance
            for state, share in (((n + 1, 0), passes), ((n, r + 1), 1 - passes)):
                then[state] = then.get(state, 0.0) + chance * share
        now = then
    return [sum(chance for (n, _), chance in now.items() if n == k) for k in range(queries + 1)]


@pytest.mark.parametrize(
    ("queries", "acceptance", "limit"), [(30, 0.3, 3), (5, 0.9, 2), (200, 0.05, 10), (7, 1.0, 3), (3, 0.2, 0)]
)
def test_accepted_updates_of_a_known_number_of_candidates(queries, acceptance, limit):
    counts = accounts.accepted_counts(queries, acceptance, limit)
    assert counts == pytest.approx(counted_one_by_one(queries, acceptance, limit), abs=1e-11)
    with pytest.raises(ParameterError, match="queries = 0"):
        accounts.accepted_counts(0, acceptance, limit)


# ---- instances ----


def test_exact_loss_at_the_papers_settings_exceeds_the_claim():
    """Adaptive screening of a linear energy at the paper's B, N, sigma and mu_0: more than 1.4 times the claim."""
    for setting, steps in zip(SETTINGS, (4698, 1157, 1435), strict=True):
        instance = instances.linear(setting, 1.5, setting.limit)
        spent = instances.epsilon(instance.cells, steps)
        quick = instances.linear(setting, 1.5, setting.limit, constant=True)
        assert instances.epsilon(quick.cells, steps) == pytest.approx(spent, rel=0.02)
        claimed, _ = accounts.epsilon(steps, setting.noise_multiplier, setting.sample_rate)
        assert spent > 1.4 * claimed
        assert spent < accounts.all_queries(setting, steps, instance.acceptance_rate)


def test_keeping_the_batch_and_never_giving_up_is_covered():
    """The theorem's conditions in the same instance: no more than plain DP-SGD with as many updates."""
    steps = 4698
    plain = accounting.inverted_epsilon(MNIST.noise_multiplier, MNIST.sample_rate, steps, DELTA)
    assert instances.epsilon(instances.kept(MNIST, 1.5), steps) < plain


def test_the_others_are_a_binomial_batch():
    """Moments of the candidate without the example: mean -least, variance 1 + least^2 (1 - q) / (q (N - 1))."""
    weights, centres = instances.others(MNIST, 1.5)
    assert weights @ centres == pytest.approx(-1.5, rel=1e-12)
    q, others = MNIST.sample_rate, MNIST.records - 1
    assert weights @ (centres + 1.5) ** 2 == pytest.approx(1.5**2 * (1 - q) / (q * others), rel=1e-9)


def test_replacement_costs_more():
    steps = 200
    plain = accounting.inverted_epsilon(MNIST.noise_multiplier, MNIST.sample_rate, steps, DELTA)
    replaced = instances.replacement_epsilon(MNIST, steps)
    assert plain < replaced < 2.2 * plain


def test_dpsur_exceeds_its_theorem():
    """The accepted updates alone, at its own MNIST setting, for a convex energy: above the claimed 3."""
    setting = instances.DPSUR[0]
    steps = accounts.most_steps(setting.claimed, setting.target, 1000)
    assert setting.claimed(steps) <= 3 < setting.claimed(steps + 1)
    assert setting.exact(steps, 2.0) > 3.6
    # With a test that says nothing the updates are plain DP-SGD.
    silent = instances.NoisyTest("none", 60_000, 1024, 1.35, 256, 1e6, 3.0, 0.0)
    assert silent.exact(500, 2.0) == pytest.approx(
        accounting.inverted_epsilon(1.35, 1024 / 60_000, 500, DELTA), rel=1e-3
    )


def test_one_step_of_the_renyi_theorem_is_exceeded():
    """Theorem 2 with the logarithm, T = 1 accepted update: the exact Rényi divergence is larger at every order."""
    instance = instances.linear(MNIST, 1.5, MNIST.limit)
    for order in (2, 5, 9):
        claimed = accounts.renyi(1, MNIST.noise_multiplier, MNIST.sample_rate, np.array([order]))[0]
        assert one_update.renyi(instance.cells, order) > claimed


TABLE_2 = [(512 / 60_000, 1.23, 4698), (2048 / 60_000, 2.15, 1157), (1024 / 50_000, 1.54, 1435)]
QUICK = 0.1, 3.0  # sample rate and noise for which PLD takes a moment


@pytest.mark.parametrize(("q", "sigma", "steps"), TABLE_2)
def test_the_paper_counts_as_an_independent_accountant_does(q, sigma, steps):
    """dp_accounting's RDP over the same orders, converted by Lemma 2."""
    accountant = RdpAccountant(list(range(2, 65)))
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(q, GaussianDpEvent(sigma)), steps))
    theirs = (np.array(accountant._rdp) + np.log(1 / DELTA) / (np.arange(2, 65) - 1)).min()
    assert accounts.paper_epsilon(sigma, q, steps, DELTA) == pytest.approx(theirs, rel=1e-9)
    assert accounts.steps_allowed(3, sigma, q, DELTA) == steps


def test_the_search():
    for answer in (0, 1, 2, 57, 1000):
        for guess in (1, 50, 1000, 4000):
            assert accounts.most_steps(lambda n, a=answer: 3.0 if n <= a else 3.1, 3.0, guess) == answer


@pytest.mark.parametrize("count", accounts.COUNTS)
def test_steps_allowed_are_the_most(count):
    q, sigma = QUICK
    steps = accounts.steps_allowed(1.5, sigma, q, DELTA, count)
    if count == "paper":
        spent = [accounts.paper_epsilon(sigma, q, steps + i, DELTA) for i in (0, 1)]
    else:
        spent = [accounting.epsilon(sigma, q, steps + i, DELTA, count) for i in (0, 1)]
    assert spent[0] <= 1.5 < spent[1]
    assert accounts.steps_allowed(0.001, sigma, q, DELTA, count) == 0
