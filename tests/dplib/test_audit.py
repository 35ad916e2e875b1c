"""Audits: coverage by simulation, what they can find and what not; tests/test_audit_dpsgd.py audits dplib.dpsgd.

Seeds are fixed. Where a test rests on chance its docstring says how often a correct implementation would fail it over
random seeds.
"""

import itertools

import numpy as np
import pytest
import torch
from scipy import special, stats

from dplib import accounting, audit, mechanisms
from dplib.checks import ParameterError

# ---- bounds by repetition ----


def test_lower_bound_by_hand():
    """90 of 100 and 5 of 100: Clopper-Pearson limits are beta quantiles at 2.5%."""
    rate, alarm = stats.beta.ppf(0.025, 90, 11), stats.beta.ppf(0.975, 6, 95)
    assert audit.epsilon_lower_bound(90, 100, 5, 100, 0) == pytest.approx(np.log(rate / alarm))
    perfect = audit.epsilon_lower_bound(100, 100, 0, 100, 0.01)
    assert perfect == pytest.approx(np.log((0.025**0.01 - 0.01) / (1 - 0.025**0.01)))
    # Chance level proves nothing, and guesses that are all wrong are not turned round.
    assert audit.epsilon_lower_bound([50, 0, 100, 0], 100, [50, 100, 100, 0], 100, 0).tolist() == [0, 0, 0, 0]


def test_bound_by_repetition_holds_as_often_as_it_says():
    """5,000 audits of randomised response with 90% confidence: too large a bound in at most 10% of them.

    A procedure that errs at exactly 10% fails this with probability 1e-4.
    """
    rng, runs, audits = np.random.default_rng(2), 200, 5000
    hits, alarms = rng.binomial(runs, 0.75, audits), rng.binomial(runs, 0.25, audits)
    bounds = audit.epsilon_lower_bound(hits, runs, alarms, runs, 0.0, confidence=0.9)
    assert (bounds > np.log(3)).sum() <= stats.binom.isf(1e-4, audits, 0.1)
    assert np.median(bounds) > 0.6


def test_thresholds_chosen_on_other_runs_keep_the_confidence():
    """600 audits of the Gaussian mechanism with 90% confidence; a correct procedure fails with probability 1e-4."""
    rng, audits, delta = np.random.default_rng(3), 600, 0.01
    truth = mechanisms.gaussian_epsilon(1.0, 1.0, delta)

    def scores(present, runs, rng):
        return present + rng.standard_normal(runs)

    bounds = [audit.audit_by_repetition(scores, 400, delta, rng, 0.9).epsilon for _ in range(audits)]
    assert (np.array(bounds) > truth).sum() <= stats.binom.isf(1e-4, audits, 0.1)
    assert np.mean(bounds) > 0.25 * truth


# ---- one run ----


def test_one_run_reproduces_the_printed_values():
    """Steinke et al. 2023: p = 0.553 for 75 of 100 at epsilon = log 3; 0.673 (Appendix D) and 2.675 (Section 7)."""
    assert audit.one_run_p_value(100, 100, 75, np.log(3), 0) == pytest.approx(0.553, abs=5e-4)
    assert audit.one_run_epsilon(1000, 100, 75, 1e-4) == pytest.approx(0.673, abs=1e-3)
    assert audit.one_run_epsilon(100_000, 1510, 1439, 1e-5) == pytest.approx(2.675, abs=1e-3)


def test_one_run_bound_inverts_its_p_value():
    for canaries, guesses, correct, delta in [(200, 50, 45, 0), (1000, 300, 250, 1e-5), (60, 60, 50, 1e-3)]:
        epsilon = audit.one_run_epsilon(canaries, guesses, correct, delta, 0.95)
        assert audit.one_run_p_value(canaries, guesses, correct, epsilon, delta) <= 0.05
        assert audit.one_run_p_value(canaries, guesses, correct, epsilon + 1e-6, delta) > 0.05
    assert audit.one_run_epsilon(100, 100, 52, 0) == 0
    assert audit.one_run_epsilon(100, 0, 0, 0) == 0


def in_one_run(train, canaries, guesses, delta, rng, confidence=0.95):
    """Flip a coin for each canary, train once, guess (Steinke et al. 2023, Algorithm 1)."""
    included = rng.random(canaries) < 0.5
    return audit.audit_guesses(train(included, rng), included, guesses, delta, confidence)


def leaky_response(epsilon, delta):
    """Randomised response for each canary, which gives itself away with probability delta: (epsilon, delta)-DP."""

    def train(included, rng):
        kept = rng.random(len(included)) < special.expit(epsilon)
        answer = np.where(kept, included, ~included) * 2.0 - 1
        sure = np.where(included, 10.0, -10.0)
        return np.where(rng.random(len(included)) < delta, sure, answer + 0.1 * rng.random(len(included)))

    return train


@pytest.mark.parametrize(("epsilon", "delta", "guesses"), [(1.0, 0.0, 100), (1.0, 0.0, 40), (0.5, 0.02, 20)])
def test_one_run_bound_holds_as_often_as_it_says(epsilon, delta, guesses):
    """400 audits with 90% confidence and 100 canaries; a correct procedure fails with probability 1e-4, and one that is
    wrong in a fifth of its audits instead of a tenth is seen with probability 0.98.
    """
    rng = np.random.default_rng(4)
    train = leaky_response(epsilon, delta)
    bounds = [in_one_run(train, 100, guesses, delta, rng, 0.9).epsilon for _ in range(400)]
    assert (np.array(bounds) > epsilon).sum() <= stats.binom.isf(1e-4, 400, 0.1)


def test_forgetting_delta_would_be_caught():
    """A leak with delta 0.1 audited as if delta were 0 breaks the coverage: the test above can fail."""
    rng = np.random.default_rng(5)
    train = leaky_response(0.5, 0.1)
    bounds = [in_one_run(train, 100, 20, 0.0, rng, 0.9).epsilon for _ in range(300)]
    assert (np.array(bounds) > 0.5).sum() > stats.binom.isf(1e-4, 300, 0.1)


def test_one_run_has_power():
    """Randomised response with epsilon = 3 and 2,000 canaries: the bound comes close."""
    audit_ = in_one_run(leaky_response(3.0, 0.0), 2000, [500, 2000], 0.0, np.random.default_rng(6))
    assert 2.6 < audit_.epsilon < 3
    assert audit_.guesses in (500, 2000)
    assert audit_.correct <= audit_.guesses


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: audit.epsilon_lower_bound(5, 4, 1, 4, 0), "counts"),
        (lambda: audit.epsilon_lower_bound(1, 4, 1, 4, 1.0), "delta"),
        (lambda: audit.audit_scores([1, 2, 3, np.nan], [1, 2, 3, 4], 0, np.random.default_rng(0)), "nan"),
        (lambda: audit.choose_threshold([1, np.nan], [1, 2], 0), "nan"),
        (lambda: audit.choose_threshold([], [1, 2], 0), "scores_with of shape"),
        (lambda: audit.choose_threshold([1, 2], [], 0), "scores_without of shape"),
        (lambda: audit.audit_guesses(np.arange(10.0), np.arange(10) % 2 == 0, 3, 0), "guesses"),
        (lambda: audit.one_run_p_value(10, 4, 5, 1.0, 0), "correct = 5"),
        (lambda: audit.one_run_epsilon(10, 4, 3, 0, confidence=1), "confidence"),
    ],
)
def test_audits_refuse(call, named):
    with pytest.raises(ParameterError, match=named):
        call()


# ---- what an audit can find, and what not ----


def shuffled_ratio(present, runs, noise, batches, rng):
    """Likelihood ratio of one shuffled pass where other gradients lie elsewhere: the canary is in exactly one batch."""
    x = noise * rng.standard_normal((runs, batches))
    x[:, 0] += present
    return special.logsumexp((2 * x - 1) / (2 * noise**2), axis=1) - np.log(batches)


def test_where_shuffling_can_be_seen_and_where_not():
    """Other gradients elsewhere. Poisson sampling may leave the canary out of a whole pass, shuffling never does:
    little noise and a large delta show it. At a small delta what counts is a canary that Poisson sampling draws several
    times, which shuffling never does: the shuffled loss is below the accounted one, and no audit can find anything.

    The second part is a Monte Carlo estimate of the best attack's delta with 200,000 draws, within four standard
    errors (both directions: error rate 6e-5).
    """
    batches, noise, delta = 10, 0.3, 0.5
    claimed = accounting.epsilon(noise, 1 / batches, batches, delta, "pld")

    def scores(present, runs, rng):
        return shuffled_ratio(present, runs, noise, batches, rng)

    audit_ = audit.audit_by_repetition(scores, 4000, delta, np.random.default_rng(7), 0.999)
    assert audit_.epsilon > claimed

    for noise, delta in [(1.0, 1e-2), (1.0, 1e-3), (0.5, 1e-2)]:
        claimed = accounting.epsilon(noise, 1 / batches, batches, delta, "pld")
        for sign in (1, -1):
            loss = sign * shuffled_ratio(sign > 0, 200_000, noise, batches, np.random.default_rng(8))
            excess = np.maximum(0, -np.expm1(claimed - loss))
            assert excess.mean() + 4 * excess.std() / np.sqrt(len(loss)) < delta


def test_half_the_noise_is_caught_in_one_run_of_many_canaries():
    """One run finds about half of epsilon: a factor of two in the noise takes 100,000 canaries. Five seeds of five."""
    claimed = mechanisms.gaussian_epsilon(3.0, 1.0, 1e-6)
    for noise, caught in [(1.5, True), (3.0, False)]:
        for seed in range(5):
            audit_ = in_one_run(
                lambda included, rng, noise=noise: included + noise * rng.standard_normal(len(included)),
                100_000, [100, 300, 1000], 1e-6, np.random.default_rng(seed),
            )  # fmt: skip
            assert (audit_.epsilon > claimed) == caught


def test_one_run_shows_less_than_is_spent_and_more_with_more_canaries():
    some, more = (audit.one_run_limit(0.5, 1e-5, canaries=n) for n in (1000, 100_000))
    assert some < audit.one_run_limit(0.5, 1e-5) < mechanisms.gaussian_epsilon(1.0, 0.5, 1e-5)
    assert some < more < mechanisms.gaussian_epsilon(1.0, 0.5, 1e-5)


def test_the_p_value_of_one_run_is_the_sum_that_its_theorem_has():
    """Term by term, over few and many canaries, tiny and large epsilons: it was computed so before."""
    rng = np.random.default_rng(11)
    for _ in range(2000):
        canaries = int(10 ** rng.uniform(0, 4.5))
        guesses = int(rng.integers(0, canaries + 1))
        correct = int(rng.integers(0, guesses + 1))
        epsilon, delta = float(10 ** rng.uniform(-4, 1.3)) * (rng.random() < 0.9), float(10 ** rng.uniform(-12, 0))
        success = 1 / (1 + np.exp(-epsilon))
        fewer = np.cumsum(stats.binom.pmf(np.arange(correct - 1, -1, -1), guesses, success))
        most = (fewer / np.arange(1, correct + 1)).max(initial=0.0)
        term_by_term = min(1.0, stats.binom.sf(correct - 1, guesses, success) + 2 * canaries * delta * most)
        assert audit.one_run_p_value(canaries, guesses, correct, epsilon, delta) == pytest.approx(term_by_term, 1e-9)


def test_a_billion_canaries_are_reckoned_too():
    """Term by term this took eight gigabytes, and did not end in ten minutes."""
    assert audit.one_run_limit(1.0, 1e-3, 1e9, 0.9) == pytest.approx(
        audit.one_run_limit(1.0, 1e-3, np.inf, 0.9), rel=1e-3
    )


def test_the_share_of_right_guesses_is_that_of_a_simulation():
    rng, shift, share = np.random.default_rng(0), 1.0, 0.1
    included = rng.random(400_000) < 0.5
    order = included[np.argsort(rng.standard_normal(400_000) + shift * included)]
    right = (order[-20_000:].sum() + (~order[:20_000]).sum()) / 40_000
    assert abs(right - audit._share_right(shift, share)) < 4 * 0.5 / 200


def test_scores_without_a_bound_separate_as_large_ones_do():
    rng = np.random.default_rng
    large, endless = (
        audit.audit_scores(np.full(400, size), np.full(400, -size), 1e-5, rng(0)) for size in (9.0, np.inf)
    )
    assert endless.epsilon == large.epsilon > 3.9


@pytest.mark.parametrize(
    ("included", "guesses", "said"),
    [([np.nan, 5, -1, 0], 2, "included of float64"), ([True, False] * 2, [], r"guesses = \[\]")],
)
def test_coin_flips_and_guesses_that_are_none_are_refused(included, guesses, said):
    with pytest.raises(ParameterError, match=said):
        audit.audit_guesses([0.1, 0.2, 0.3, 0.4], included, guesses, 1e-5)


@pytest.mark.parametrize("guesses", [2, 200, 1000])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_scores_without_information_prove_nothing_in_whatever_order_the_canaries_stand(guesses, share):
    rng = np.random.default_rng(0)
    scores, included = (rng.random(1000) < share).astype(float), np.sort(rng.random(1000) < 0.5)
    for coins in (included, included[::-1]):
        assert audit.audit_guesses(scores, coins, guesses, 1e-5).epsilon == 0


def test_equal_scores_count_as_in_their_worst_order_and_others_as_they_are():
    """By all orders of six canaries of three scores, and where no two are equal."""
    rng = np.random.default_rng(1)
    for _ in range(30):
        scores, included = rng.integers(0, 3, 6).astype(float), rng.random(6) < 0.5
        orders = (np.array(order) for order in itertools.permutations(range(6)))
        ranked = [included[order] for order in orders if (np.diff(scores[order]) >= 0).all()]
        for guesses in (2, 4, 6):
            fewest = min(row[-guesses // 2 :].sum() + (~row[: guesses // 2]).sum() for row in ranked)
            assert audit.audit_guesses(scores, included, guesses, 0.0).correct == fewest
    scores, included = rng.standard_normal(100), rng.random(100) < 0.5
    ranked = included[np.argsort(scores)]
    assert audit.audit_guesses(scores, included, 40, 0.0).correct == ranked[-20:].sum() + (~ranked[:20]).sum()


def test_scores_generators_and_counts_that_are_none_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ParameterError, match="rng = 0"):
        audit.audit_scores([1, 2, 3, 4], [1, 2, 3, 4], 0, 0)
    with pytest.raises(ParameterError, match="scores gives 5 and 5 of runs = 10"):
        audit.audit_by_repetition(lambda present, runs, rng: np.arange(5.0), 10, 0.0, rng)
    with pytest.raises(ParameterError, match="correct = "):
        audit.one_run_epsilon(10, 4, np.array([1, 2]), 0.0)
    with pytest.raises(ParameterError, match="masked"):
        audit.audit_scores(np.ma.masked_array([1, 2, 3, 4], [0, 0, 0, 1]), [1, 2, 3, 4], 0, rng)
    with pytest.raises(ParameterError, match="real numbers") as refused:
        audit.audit_guesses(["Alice", "Bob", "Carol", "Dan"], [True, False] * 2, 2, 0.0)
    assert "Alice" not in str(refused.value)
    assert audit.audit_guesses(torch.arange(4.0, requires_grad=True), [True, False] * 2, 2, 0.0).guesses == 2
