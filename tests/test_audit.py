"""Audits: coverage by simulation, and broken versions of DP-SGD that must be caught.

Seeds are fixed. Where a test rests on chance its docstring says how often a correct implementation would fail it over
random seeds. The loop audited here is a reference of a few lines; tests/test_audit_dpsgd.py audits dplib.dpsgd.
"""

import numpy as np
import pytest
from scipy import special, stats

from dplib import accounting, audit, exact_loss, mechanisms
from dplib.checks import ParameterError

# ---- bounds by repetition ----


def test_lower_bound_by_hand():
    """90 of 100 and 5 of 100: Clopper-Pearson limits are beta quantiles at 2.5%."""
    rate, alarm = stats.beta.ppf(0.025, 90, 11), stats.beta.ppf(0.975, 6, 95)
    assert audit.epsilon_lower_bound(90, 100, 5, 100, 0) == pytest.approx(np.log(rate / alarm))
    mu = stats.norm.ppf(rate) - stats.norm.ppf(alarm)
    exact = mechanisms.gaussian_epsilon(1 / mu, 1, 1e-5)
    assert audit.epsilon_lower_bound(90, 100, 5, 100, 1e-5, method="gdp") == pytest.approx(exact)
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


@pytest.mark.parametrize("method", audit.METHODS)
def test_thresholds_chosen_on_other_runs_keep_the_confidence(method):
    """600 audits of the Gaussian mechanism with 90% confidence; a correct procedure fails with probability 1e-4."""
    rng, audits, delta = np.random.default_rng(3), 600, 0.01
    truth = mechanisms.gaussian_epsilon(1.0, 1.0, delta)

    def scores(present, runs, rng):
        return present + rng.standard_normal(runs)

    bounds = [audit.audit_by_repetition(scores, 400, delta, rng, 0.9, method).epsilon for _ in range(audits)]
    assert (np.array(bounds) > truth).sum() <= stats.binom.isf(1e-4, audits, 0.1)
    assert np.mean(bounds) > (0.5 if method == "gdp" else 0.25) * truth


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
    """1,000 audits with 90% confidence and 100 canaries; a correct procedure fails with probability 1e-4."""
    rng = np.random.default_rng(4)
    train = leaky_response(epsilon, delta)
    bounds = [in_one_run(train, 100, guesses, delta, rng, 0.9).epsilon for _ in range(1000)]
    assert (np.array(bounds) > epsilon).sum() <= stats.binom.isf(1e-4, 1000, 0.1)


def test_forgetting_delta_would_be_caught():
    """A leak with delta 0.1 audited as if delta were 0 breaks the coverage: the test above can fail."""
    rng = np.random.default_rng(5)
    train = leaky_response(0.5, 0.1)
    bounds = [in_one_run(train, 100, 20, 0.0, rng, 0.9).epsilon for _ in range(300)]
    assert (np.array(bounds) > 0.5).sum() > stats.binom.isf(1e-4, 300, 0.1)


def test_one_run_has_power():
    """Randomised response with epsilon = 3 and 2,000 canaries: the bound comes close."""
    found = in_one_run(leaky_response(3.0, 0.0), 2000, [500, 2000], 0.0, np.random.default_rng(6))
    assert 2.6 < found.epsilon < 3
    assert found.guesses in (500, 2000)
    assert found.correct <= found.guesses


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: audit.epsilon_lower_bound(5, 4, 1, 4, 0), "counts"),
        (lambda: audit.epsilon_lower_bound(1, 4, 1, 4, 1.0), "delta"),
        (lambda: audit.epsilon_lower_bound(1, 4, 1, 4, 0, method="best"), "method = 'best'"),
        (lambda: audit.audit_scores([1, 2, 3, np.nan], [1, 2, 3, 4], 0, np.random.default_rng(0)), "nan"),
        (lambda: audit.audit_guesses(np.arange(10.0), np.arange(10) % 2 == 0, 3, 0), "guesses"),
        (lambda: audit.one_run_p_value(10, 4, 5, 1.0, 0), "correct = 5"),
        (lambda: audit.one_run_epsilon(10, 4, 3, 0, confidence=1), "confidence"),
    ],
)
def test_audits_refuse(call, named):
    with pytest.raises(ParameterError, match=named):
        call()


# ---- a reference DP-SGD, and what is wrong with versions of it ----

Q, STEPS, NOISE, DELTA, ORDINARY = 0.5, 10, 2.0, 1e-3, 99
EXPECTED = Q * (ORDINARY + 1)


def poisson(n, runs, rng):
    return (rng.random((runs, n)) < Q for _ in range(STEPS))


def shuffled(n, runs, rng):
    """Passes over the data in random order, in batches of EXPECTED examples; the last one may be smaller."""
    for _ in range(round(STEPS * Q)):
        place = rng.random((runs, n)).argsort(axis=1).argsort(axis=1)
        yield from (place // int(EXPECTED) == batch for batch in range(round(1 / Q)))


def to_norm_one(gradients):
    return gradients / np.maximum(1, np.linalg.norm(gradients, axis=1, keepdims=True))


def expected_size(batch):
    return EXPECTED


def realised_size(batch):
    return np.maximum(1, batch.sum(axis=1, keepdims=True))


def reference(gradients, runs, rng, noise=NOISE, sample=poisson, clip=to_norm_one, divide=expected_size):
    """Noisy gradients of a linear loss, shape (runs, STEPS, d), from the gradients of each example, (n, d)."""
    clipped, releases = clip(gradients), []
    for batch in sample(len(gradients), runs, rng):
        sums = batch @ clipped + noise * rng.standard_normal((runs, gradients.shape[1]))
        releases.append(sums / divide(batch))
    return np.stack(releases, axis=1)


ELSEWHERE, OPPOSITE = np.array([0.0, -5.0]), np.array([-5.0, 0.0])


def sampled(x):
    """Log likelihood ratio of noisy sums in which the canary adds 1 with probability Q at each step."""
    return np.log1p(Q * np.expm1((x - 0.5) / NOISE**2)).sum(axis=1)


def replacing(x):
    """The same where a canary takes the place of an ordinary -1 in a batch whose size does not show: it adds 2."""
    return np.log1p(Q * np.expm1((2 * (x + EXPECTED) - 2) / NOISE**2)).sum(axis=1)


def in_one_batch(x):
    """The same for passes of two batches: without the canary the last one is short of a -1, with it either has +1."""
    x = (x + EXPECTED).reshape(len(x), -1, 2)
    first, last, without = (-((x - centre) ** 2).sum(axis=2) / (2 * NOISE**2) for centre in ([2, 0], [0, 2], [0, 1]))
    return (np.logaddexp(first, last) - without).sum(axis=1)


def one_canary(ordinary_gradient, log_ratio, **broken):
    """Scores of runs with and without a canary of gradient (5, 0) among equal ordinary examples."""

    def scores(present, runs, rng):
        ordinary = np.tile(ordinary_gradient, (ORDINARY, 1))
        gradients = np.vstack([ordinary, [[5.0, 0.0]]]) if present else ordinary
        return log_ratio(reference(gradients, runs, rng, **broken)[:, :, 0] * EXPECTED)

    return scores


def accounted(delta=DELTA):
    return accounting.epsilon(NOISE, Q, STEPS, delta, "pld")


@pytest.mark.parametrize(
    ("ordinary", "log_ratio"), [(ELSEWHERE, sampled), (OPPOSITE, replacing)], ids=["elsewhere", "opposite"]
)
def test_a_correct_loop_never_exceeds_the_accountant(ordinary, log_ratio):
    """20 seeds, confidence 99.9% each: fails with probability below 2% over random seeds."""
    bounds = [
        audit.audit_by_repetition(one_canary(ordinary, log_ratio), 3000, DELTA, np.random.default_rng(seed), 0.999)
        for seed in range(20)
    ]
    assert max(bound.epsilon for bound in bounds) <= accounted()


@pytest.mark.parametrize(
    ("ordinary", "log_ratio", "broken"),
    [
        (ELSEWHERE, sampled, {"noise": NOISE / 2}),
        (ELSEWHERE, sampled, {"clip": lambda gradients: gradients}),
        (OPPOSITE, replacing, {"divide": realised_size}),
        (OPPOSITE, in_one_batch, {"sample": shuffled}),
    ],
    ids=["half the noise", "no clipping", "divided by the realised batch size", "shuffled batches"],
)
def test_a_broken_loop_is_caught(ordinary, log_ratio, broken):
    """With 99.9% confidence, on five seeds of five."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        found = audit.audit_by_repetition(one_canary(ordinary, log_ratio, **broken), 20_000, DELTA, rng, 0.999)
        assert found.epsilon > accounted()


def test_dividing_by_the_realised_batch_size_is_a_violation_not_a_matter_of_scale():
    """Exact, one step: ordinary gradients are all +1, the canary's is -1, the release is the noisy sum over the batch.

    Without the canary the mean is 1 whatever the batch; with it, it is off by 2 over the batch: twice what the noise
    was made for. Where the sum is divided by a constant the random number of ordinary examples hides that.
    The ratio to what is accounted grows with the batch towards that of a sensitivity of 2.
    """
    q, noise, n = 0.1, 1.0, 1000
    others = np.arange(1, n)
    weight = stats.binom.pmf(others, n - 1, q)
    others, weight = others[weight > 1e-18], weight[weight > 1e-18]

    def mixture(parts):
        weights, means, sds = (np.concatenate(part) for part in zip(*parts, strict=True))

        def log_density(y):
            return special.logsumexp(stats.norm.logpdf(y[:, None], means, sds) + np.log(weights), axis=1)

        return log_density

    ones = np.ones(len(others))
    without = mixture([(weight, ones, noise / others)])
    included = (q * weight, (others - 1) / (others + 1), noise / (others + 1))
    with_canary = mixture([((1 - q) * weight, ones, noise / others), included])
    epsilon = 2.0
    value, error = exact_loss.density_delta(without, with_canary, epsilon, (0.6, 1.4))
    one_step, doubled = (sampled_gaussian_delta(q, noise, shift, epsilon) for shift in (1.0, 2.0))
    assert value - error > 1000 * one_step
    assert 0.5 * doubled < value < doubled


def sampled_gaussian_delta(q, noise, shift, epsilon):
    def mixed(x):
        return np.logaddexp(
            np.log1p(-q) + stats.norm.logpdf(x, 0, noise), np.log(q) + stats.norm.logpdf(x, shift, noise)
        )

    return exact_loss.density_delta(mixed, stats.norm(0, noise).logpdf, epsilon, (-12 * noise, shift + 12 * noise))[0]


def test_a_private_number_of_examples_shows_in_the_noise():
    """Noise divided by q n: with 1,000 or 1,001 examples, 7,850 parameters and 500 steps, the scale alone tells n.

    Exact, without any gradient. Hence the number of examples counts as public wherever a sum is divided by q n.
    """
    delta = mechanisms.two_gaussians_delta(0.0, 1.0, 1000 / 1001, 7850 * 500, epsilon=3.0)
    assert delta > 0.4
    assert mechanisms.two_gaussians_delta(0.0, 1.0, 60_000 / 60_001, 7850 * 500, epsilon=1.0) < 1e-10


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

    found = audit.audit_by_repetition(scores, 4000, delta, np.random.default_rng(7), 0.999)
    assert found.epsilon > claimed

    for noise, delta in [(1.0, 1e-2), (1.0, 1e-3), (0.5, 1e-2)]:
        claimed = accounting.epsilon(noise, 1 / batches, batches, delta, "pld")
        for sign in (1, -1):
            loss = sign * shuffled_ratio(sign > 0, 200_000, noise, batches, np.random.default_rng(8))
            excess = np.maximum(0, -np.expm1(claimed - loss))
            assert excess.mean() + 4 * excess.std() / np.sqrt(len(loss)) < delta


# ---- one run of a logistic regression with a thousand canaries ----


def logistic_dpsgd(included, rng, noise, clip=to_norm_one, q=0.2, steps=20):
    """White-box scores of canaries, each with a feature of its own, in DP-SGD beside 100 ordinary examples."""
    canaries = len(included)
    x = np.zeros((canaries + 100, canaries + 5))
    x[np.arange(canaries), np.arange(canaries)] = 100.0
    x[canaries:, canaries:] = rng.standard_normal((100, 5))
    y = rng.random(len(x)) < 0.5
    keep = np.concatenate([included, np.ones(100, bool)])
    weights, total = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for _ in range(steps):
        batch = keep & (rng.random(len(x)) < q)
        gradients = clip((special.expit(x[batch] @ weights) - y[batch])[:, None] * x[batch])
        noisy = gradients.sum(axis=0) + noise * rng.standard_normal(len(weights))
        weights -= 1e-3 * noisy / (q * len(x))
        total += noisy
    return total[:canaries] * np.where(y[:canaries], -1, 1)


def test_logistic_regression_in_one_run():
    """20 seeds, 1,000 canaries, 99.9% confidence each (fails with probability below 2%), and not for want of power."""
    noise, delta = 0.8, 1e-5
    claimed = accounting.epsilon(noise, 0.2, 20, delta, "pld")
    bounds = [
        in_one_run(
            lambda included, rng: logistic_dpsgd(included, rng, noise),
            1000,
            [50, 200],
            delta,
            np.random.default_rng(s),
            0.999,
        ).epsilon
        for s in range(20)
    ]
    assert max(bounds) <= claimed
    assert np.mean(bounds) > 0.5


def test_a_forgotten_clip_is_caught_in_one_run():
    claimed = accounting.epsilon(2.0, 0.2, 20, 1e-5, "pld")
    for seed in range(3):
        found = in_one_run(
            lambda included, rng: logistic_dpsgd(included, rng, 2.0, clip=lambda gradients: gradients),
            1000, 300, 1e-5, np.random.default_rng(seed),
        )  # fmt: skip
        assert found.epsilon > claimed


def test_half_the_noise_is_caught_in_one_run_of_many_canaries():
    """One run finds about half of epsilon: a factor of two in the noise takes 100,000 canaries. Five seeds of five."""
    claimed = mechanisms.gaussian_epsilon(3.0, 1.0, 1e-6)
    for noise, caught in [(1.5, True), (3.0, False)]:
        for seed in range(5):
            found = in_one_run(
                lambda included, rng, noise=noise: included + noise * rng.standard_normal(len(included)),
                100_000, [100, 300, 1000], 1e-6, np.random.default_rng(seed),
            )  # fmt: skip
            assert (found.epsilon > claimed) == caught


def test_one_run_shows_less_than_is_spent_and_more_with_more_canaries():
    some, more = (audit.one_run_limit(0.5, 1e-5, canaries=n) for n in (1000, 100_000))
    assert some < audit.one_run_limit(0.5, 1e-5) < mechanisms.gaussian_epsilon(1.0, 0.5, 1e-5)
    assert some < more < mechanisms.gaussian_epsilon(1.0, 0.5, 1e-5)


def test_the_share_of_right_guesses_is_that_of_a_simulation():
    rng, shift, share = np.random.default_rng(0), 1.0, 0.1
    included = rng.random(400_000) < 0.5
    order = included[np.argsort(rng.standard_normal(400_000) + shift * included)]
    right = (order[-20_000:].sum() + (~order[:20_000]).sum()) / 40_000
    assert abs(right - audit._share_right(shift, share)) < 4 * 0.5 / 200
