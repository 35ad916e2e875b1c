"""Objective perturbation: the minimisers, the noise, and the exact privacy loss, against independent computations.

Statistical tests fix their seeds; each rejects a true hypothesis with probability 1e-4.
"""

import re

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from dplib import newton, objpert
from dplib.checks import ParameterError
from dplib.objpert import calibrate, draw_noise, fit, privacy_loss

LEVEL = 1e-4


def log_density(w, x, y, noise_rate, l2, counts=1.0):
    """Logarithm (m,) of the density of the released w, up to a constant of beta and d: -beta |b_D(w)| + log det H_D(w).

    The difference for two neighbouring data sets is the privacy loss at w, of shape (m, d).
    """
    w, x, y = (np.asarray(a, dtype=float) for a in (w, x, y))
    prices = np.broadcast_to(np.asarray(l2, dtype=float), w.shape[1:])
    away = special.expit(np.where(y > 0, -1.0, 1.0) * (w @ x.T))  # |s - y|: 1 - s would drown for large margins
    b = (counts * away * np.where(y > 0, 1.0, -1.0)) @ x - prices * w
    hessian = np.einsum("mi,ij,ik->mjk", counts * away * (1 - away), x, x) + np.diag(prices)
    return -noise_rate * np.linalg.norm(b, axis=1) + np.linalg.slogdet(hessian)[1]


def rows_and_labels(rng, n=60, d=5, bound=1.0):
    x = rng.standard_normal((n, d))
    x *= bound * rng.uniform(0.2, 1, (n, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    return x, (x[:, 0] + 0.3 * bound * rng.standard_normal(n) > 0).astype(int)


def one_hot(rng, n=120, levels=(3, 4, 2, 5)):
    """Rows with as many ones as attributes: many equal rows, and columns that are linearly dependent."""
    x = np.hstack([np.eye(k)[rng.integers(k, size=n)] for k in levels])
    return x, (x[:, 0] + x[:, 4] + rng.random(n) > 1).astype(int)


def reference(x, y, noise, prices):
    """The minimiser of the perturbed objective by scipy, polished by Newton steps in numpy."""

    def value(w):
        z = x @ w
        return (np.logaddexp(0, z) - y * z).sum() + (prices * w**2).sum() / 2 + noise @ w

    def gradient(w):
        return (special.expit(x @ w) - y) @ x + prices * w + noise

    def hessian(w):
        s = special.expit(x @ w)
        return (x.T * (s * (1 - s))) @ x + np.diag(prices)

    w = optimize.minimize(value, np.zeros(x.shape[1]), jac=gradient, hess=hessian, method="trust-exact").x
    for _ in range(5):
        w = w - np.linalg.solve(hessian(w), gradient(w))
    return w


# The minimiser


@pytest.mark.parametrize("variant", objpert.VARIANTS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("data", ["dense", "one-hot"])
def test_minimisers_equal_scipys(variant, intercept, data):
    rng = np.random.default_rng(1)
    x, y = rows_and_labels(rng) if data == "dense" else one_hot(rng)
    bound = np.linalg.norm(x, axis=1).max()
    epsilon = np.array([0.1, 1.0, 4.0, 30.0, np.inf, 0.5, 2.0])
    regularisation = np.array([1.0, 0.1, 3.0, 1.0, 0.5, 10.0, 20.0])
    d = x.shape[1] + intercept
    noise = rng.standard_normal((7, d)) * np.array([50, 10, 3, 1, 0, 20, 5])[:, None]
    models = fit(
        x,
        y,
        epsilon=epsilon,
        regularisation=regularisation,
        norm_bound=bound,
        rng=rng,
        noise=noise,
        variant=variant,
        intercept=intercept,
    )
    assert models.converged.all()
    assert (models.gradient_norm < 1e-7).all()
    extra = calibrate(epsilon, regularisation, np.hypot(bound, intercept), variant=variant).extra
    rows = np.hstack([x, np.ones((len(x), 1))]) if intercept else x
    for p in range(7):
        prices = np.full(d, regularisation[p] + extra[p])
        if intercept and variant == "diffprivlib":
            prices[-1] = extra[p]
        expected = reference(rows, y, noise[p], prices)
        w = np.append(models.coef[p], models.intercept[p]) if intercept else models.coef[p]
        np.testing.assert_allclose(w, expected, rtol=1e-8, atol=1e-8)


def test_the_diffprivlib_variant_minimises_diffprivlibs_function():
    """Written down as in its source (0.6.6): ``Vector.randomise`` around the mean loss with penalty 1/(C n)."""
    rng = np.random.default_rng(2)
    x, y = one_hot(rng)
    n, big_c, data_norm, epsilon = len(x), 2.0, 2.0, 3.0
    alpha, sensitivity = 1 / big_c, np.sqrt(data_norm**2 + 1)
    for epsilon in (0.7, 3.0):
        epsilon_p, delta = epsilon - 2 * np.log(1 + 0.25 * sensitivity / alpha), 0.0
        if epsilon_p <= 0:
            delta = (0.25 * sensitivity / np.expm1(epsilon / 4) - alpha) / n
            epsilon_p = epsilon / 2
        noise = rng.standard_normal(x.shape[1] + 1)

        def function(w, delta=delta, noise=noise):
            z = x @ w[:-1] + w[-1]
            loss = (np.logaddexp(0, z) - y * z).mean() + w[:-1] @ w[:-1] / (2 * big_c * n)
            return loss + noise @ w / n + delta / 2 * w @ w

        models = fit(
            x,
            y,
            epsilon=epsilon,
            regularisation=alpha,
            norm_bound=data_norm,
            rng=rng,
            noise=noise[None],
            variant="diffprivlib",
        )
        assert models.noise_rate[0] == pytest.approx(epsilon_p / (2 * sensitivity), rel=1e-14)
        w = np.append(models.coef[0], models.intercept[0])
        numeric = optimize.approx_fprime(w, function, 1e-6)
        assert np.abs(numeric).max() < 1e-6
        assert all(function(w) < function(w + 1e-3 * rng.standard_normal(len(w))) for _ in range(50))


def test_masks_equal_separate_fits():
    rng = np.random.default_rng(3)
    x, y = one_hot(rng)
    d = x.shape[1]
    masks = (
        np.vstack([np.repeat(rng.random((3, d)) < 0.5, 40, axis=0), rng.random((70, d)) < 0.4, np.zeros((1, d))]) > 0
    )
    assert (np.unique(masks, axis=0, return_counts=True)[1] >= newton.SHARED).sum() == 3
    count = len(masks)
    epsilon, regularisation = rng.uniform(0.1, 20, count), rng.uniform(0.2, 5, count)
    settings = {"norm_bound": 2.0, "rng": rng}
    noise = draw_noise(np.full(count, 0.2), np.hstack([masks, np.ones((count, 1), bool)]), rng)
    many = fit(x, y, epsilon=epsilon, regularisation=regularisation, masks=masks, noise=noise, **settings)
    assert many.converged.all()
    assert (many.coef[~masks] == 0).all()
    for p in (0, 45, 100, 125, 150, count - 1):
        columns = np.append(masks[p], True)
        fitted = fit(
            np.hstack([x, np.zeros((len(x), 1))])[:, columns],  # a column of 0: d >= 1
            y,
            epsilon=epsilon[p],
            regularisation=regularisation[p],
            noise=np.append(np.append(noise[p, :-1][masks[p]], 0), noise[p, -1])[None],
            **settings,
        )
        found = np.append(many.coef[p], many.intercept[p])[columns]
        np.testing.assert_allclose(found, np.append(fitted.coef[0, :-1], fitted.intercept), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("scale", [0, 1, 100, 1e4])
@pytest.mark.parametrize("price", [1e-3, 1.0, 1e6])
def test_it_converges_on_separable_data_with_much_noise(scale, price):
    rng = np.random.default_rng(5)
    x, _ = rows_and_labels(rng, n=200, d=20)
    linear = scale * rng.standard_normal((50, 20)) - (x[:, 0] > 0) @ x
    w, norm, converged = newton.minimise(x, linear, np.full((50, 20), price))
    assert converged.all()
    gradient = special.expit(w @ x.T) @ x + linear + price * w
    np.testing.assert_allclose(np.linalg.norm(gradient, axis=1), norm, atol=1e-9 * (1 + scale))
    size = np.maximum(1, np.linalg.norm(w, axis=1))
    assert (norm / size < 1e-9 * max(1, price)).all()


@pytest.mark.parametrize("bound", [1e-12, 1.0, 1e6, 1e9, 1e12])
@pytest.mark.parametrize(("price", "epsilon"), [(1.0, 1.0), (1e12, 10.0), (1e-3, 1e9)])
def test_a_release_is_the_minimiser_in_units_of_its_noise(bound, price, epsilon):
    """Also where the whole solution is within the tolerance: one that stays 0 there, or the minimiser without any row,
    tells which of the two the records made lower."""
    rng = np.random.default_rng(8)
    x, y = rows_and_labels(rng, n=200)
    x *= 0.999 * bound / np.linalg.norm(x, axis=1, keepdims=True)
    fitted = fit(x, y, epsilon=epsilon, regularisation=price, norm_bound=bound, rng=rng, problems=50)
    assert fitted.converged.all()
    assert fitted.coef.any(axis=1).all()
    assert (fitted.gradient_norm * fitted.noise_rate <= np.maximum(1e-6, 1e-10 * epsilon)).all()


def test_without_a_minimiser_the_intercept_runs_to_infinity():
    rng = np.random.default_rng(7)
    x, y = rows_and_labels(rng)
    ones = y.sum()
    slopes = np.array([-(len(y) - ones) - 0.5, ones + 0.5, ones - 0.5, 0.0])
    noise = np.hstack([np.zeros((4, 5)), slopes[:, None]])
    free = fit(x, y, epsilon=50, rng=rng, noise=noise, variant="diffprivlib")
    assert free.intercept[0] == np.inf
    assert free.intercept[1] == -np.inf
    assert np.isfinite(free.intercept[2:]).all()
    assert free.converged.tolist() == [False, False, True, True]
    np.testing.assert_allclose(free.coef[1], y @ x / free.l2[1])  # all sigmoids are 0
    assert (free.decision(x)[0] > 0).all()
    assert (free.decision(x)[1] < 0).all()
    sound = fit(x, y, epsilon=50, rng=rng, noise=noise)
    assert sound.converged.all()
    assert np.isfinite(sound.intercept).all()


# The noise


@pytest.mark.parametrize("source", ["seeded", "operating system"])
def test_noise_has_a_gamma_norm_and_a_uniform_direction(source):
    rng = np.random.default_rng(9) if source == "seeded" else None
    used = np.ones((4000, 6), dtype=bool)
    used[:, 1:3] = False
    noise = draw_noise(np.full(4000, 2.5), used, rng)
    assert (noise[~used] == 0).all()
    norm = np.linalg.norm(noise, axis=1)
    assert stats.kstest(norm, stats.gamma(4, scale=1 / 2.5).cdf).pvalue > LEVEL
    for j in (0, 5):  # one coordinate of a uniform direction in 4 dimensions: its square is Beta(1/2, 3/2)
        share = noise[:, j] / norm
        assert stats.kstest(share**2, stats.beta(0.5, 1.5).cdf).pvalue > LEVEL
        assert stats.binomtest(int((share > 0).sum()), 4000).pvalue > LEVEL
    assert abs(stats.pearsonr(norm, noise[:, 0] / norm).statistic) < 4 / np.sqrt(4000)


@pytest.mark.parametrize("word", [0, 2**63 - 1, 2**63, 2**64 - 1])
def test_no_word_of_the_operating_system_gives_noise_that_is_0_or_infinite(word, monkeypatch):
    """The last word gave a uniform of 1, and an infinite norm; the one in the middle 1/2, and no noise."""
    monkeypatch.setattr(objpert.secrets, "token_bytes", lambda size: np.full(size // 8, word, np.uint64).tobytes())
    (uniform,) = objpert._uniform((1,))
    assert 0 < uniform < 1
    assert uniform == pytest.approx((word + 0.5) / 2**64, rel=1e-9, abs=2.0**-53)
    noise = draw_noise(np.ones(1), np.ones((1, 1), dtype=bool), None)
    assert np.isfinite(noise).all()
    assert noise.all()


# Privacy: constants


def random_settings(rng, count=2000):
    return (10 ** rng.uniform(low, high, count) for low, high in ((-3, 2.5), (-3, 4), (-2, 2)))


@pytest.mark.parametrize("neighbours", objpert.NEIGHBOURS)
def test_the_sound_variant_spends_exactly_its_budget(neighbours):
    epsilon, l2, r = random_settings(np.random.default_rng(11))
    constants = calibrate(epsilon, l2, r, neighbours=neighbours)
    assert (constants.extra >= 0).all()
    spent = privacy_loss(constants.noise_rate, r, r**2 / (l2 + constants.extra), neighbours=neighbours)
    np.testing.assert_allclose(spent, epsilon, rtol=1e-12)
    half = epsilon / 2 / (2 if neighbours == "replace" else 1)
    assert (constants.noise_rate * r >= half * (1 - 1e-12)).all()
    np.testing.assert_allclose((constants.noise_rate * r)[constants.extra > 0], half[constants.extra > 0])


def test_the_loss_is_the_maximum_over_how_far_a_record_is_off():
    rng = np.random.default_rng(12)
    pull, k = 10 ** rng.uniform(-4, 3, 300), 10 ** rng.uniform(-4, 4, 300)
    u = np.linspace(0, 1, 10_001)
    brute = (pull[:, None] * u + np.log1p(u * (1 - u) * k[:, None])).max(axis=1)
    exact = privacy_loss(pull, 1.0, k, neighbours="add_remove")
    assert (exact >= brute - 1e-12).all()
    np.testing.assert_allclose(exact, brute, rtol=1e-4)
    np.testing.assert_allclose(privacy_loss(pull, 1.0, k), exact + pull)
    assert privacy_loss(1.0, 1.0, np.inf) == np.inf


def test_constants_broadcast_or_are_refused():
    for call in (
        lambda: calibrate([1.0, 2.0], [1.0, 2.0, 3.0], 1.0),
        lambda: privacy_loss([1.0, 2.0], 1.0, [1.0, 2.0, 3.0]),
    ):
        with pytest.raises(ParameterError, match="do not fit together"):
            call()
    assert privacy_loss([1.0, 2.0], 1.0, [[1.0], [3.0], [np.inf]]).shape == (3, 2)


def test_the_papers_constants_are_sound_and_never_better():
    epsilon, l2, r = random_settings(np.random.default_rng(13))
    paper, ours = calibrate(epsilon, l2, r, variant="cms"), calibrate(epsilon, l2, r)
    spent = privacy_loss(paper.noise_rate, r, r**2 / (l2 + paper.extra))
    assert (spent <= epsilon * (1 + 1e-12)).all()
    assert (ours.noise_rate >= paper.noise_rate * (1 - 1e-12)).all()
    left = epsilon - 2 * np.log(1 + r**2 / 4 / l2)  # Algorithm 2, step 1, times n where it has means
    np.testing.assert_allclose(2 * r * paper.noise_rate, np.where(left > 0, left, epsilon / 2))
    grown = l2 + paper.extra
    np.testing.assert_allclose(2 * np.log1p(r**2 / 4 / grown)[left <= 0], (epsilon / 2)[left <= 0], rtol=1e-9)


# Privacy: densities


def loss_at(w, one, other, rate, l2):
    """log p_one(w) - log p_other(w), shape (m,)."""
    return log_density(w, *one, rate, l2) - log_density(w, *other, rate, l2)


@pytest.mark.parametrize("d", [1, 2])
def test_the_released_model_has_the_stated_density(d):
    """Its integral is 1, and 4,000 releases follow it."""
    rng = np.random.default_rng(14)
    x, y = rows_and_labels(rng, n=8, d=d)
    models = fit(x, y, epsilon=2.0, regularisation=0.7, problems=4000, rng=rng, intercept=False)
    rate, l2 = models.noise_rate[0], models.l2[0]
    # The density of the noise is constant * exp(-rate |b|): its integral over R^d is area * Gamma(d) / rate^d.
    area = 2 * np.pi ** (d / 2) / special.gamma(d / 2)
    constant = rate**d / (area * special.gamma(d))
    if d == 1:
        grid = np.linspace(-80, 80, 160_001)[:, None]
        cdf = integrate.cumulative_simpson(
            constant * np.exp(log_density(grid, x, y, rate, l2)), x=grid[:, 0], initial=0
        )
        assert cdf[-1] == pytest.approx(1, abs=1e-6)
        assert stats.kstest(models.coef[:, 0], lambda w: np.interp(w, grid[:, 0], cdf)).pvalue > LEVEL
        return
    axis = np.linspace(-60, 60, 801)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    density = constant * np.exp(log_density(points, x, y, rate, l2)).reshape(801, 801)
    marginal = integrate.simpson(density, x=axis, axis=1)
    cdf = integrate.cumulative_simpson(marginal, x=axis, initial=0)
    assert cdf[-1] == pytest.approx(1, abs=2e-3)
    assert stats.kstest(models.coef[:, 0], lambda w: np.interp(w, axis, cdf / cdf[-1])).pvalue > LEVEL


@pytest.mark.parametrize(("variant", "neighbours"), [("sound", "replace"), ("sound", "add_remove"), ("cms", "replace")])
@pytest.mark.parametrize("d", [1, 2])
def test_no_pair_of_neighbours_loses_more_than_epsilon(variant, neighbours, d):
    """Random pairs at random outputs, then uphill from the worst of them."""
    rng = np.random.default_rng(15)
    worst = 0.0
    for _ in range(40):
        epsilon, l2, r = 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-0.5, 1.0)
        constants = calibrate(epsilon, l2, r, variant=variant, neighbours=neighbours)
        rate, price = float(constants.noise_rate), float(l2 + constants.extra)
        x, y = rows_and_labels(rng, n=int(rng.integers(1, 6)), d=d, bound=r)
        w = rng.standard_normal((400, d)) * 10 ** rng.uniform(-2, 1.5, (400, 1)) / r

        def pair(extra, x=x, y=y, r=r, neighbours=neighbours):
            """The records with the first one off, and with it replaced by (r * direction, label)."""
            new = r * extra / max(np.linalg.norm(extra), 1e-12)
            other = (x[1:], y[1:]) if neighbours == "add_remove" else (x, y)
            return [((np.vstack([x[1:], new]), np.append(y[1:], label)), other) for label in (0, 1)]

        best = (0.0, None)
        for _ in range(10):
            extra = rng.standard_normal(d)
            for k, (one, other) in enumerate(pair(extra)):
                loss = loss_at(w, one, other, rate, price)
                top = np.abs(loss).argmax()
                if abs(loss[top]) > best[0]:
                    best = (abs(loss[top]), (k, np.sign(loss[top]), np.append(extra, w[top])))
        k, sign, start = best[1]

        def negative(v, k=k, sign=sign, rate=rate, price=price, pair=pair):
            return -sign * loss_at(v[None, d:], *pair(v[:d])[k], rate, price)[0]

        top = max(best[0], -optimize.minimize(negative, start, method="Nelder-Mead", options={"maxiter": 150}).fun)
        assert top <= epsilon * (1 + 1e-9)
        worst = max(worst, top / epsilon)
    assert worst > 0.3, "the pairs are too harmless to tell anything"


def most_off(rate, r, k):
    u = np.linspace(0, 1 - 1e-5, 100_001)
    return u[(rate * r * u + np.log1p(u * (1 - u) * k)).argmax()]


SMALL = 1e-6  # rows of such norm, very many of them, pull with hardly any curvature


def pair_added(rate, r, l2):
    """One dimension: with and without a record that is off by the worst u at w; a crowd makes b large against it."""
    u = most_off(rate, r, r**2 / l2)
    w = np.array([[-special.logit(u) / r]])
    crowd = (r + l2 * abs(w[0, 0]) + 1) / (SMALL / 2)
    x, y = np.array([[SMALL], [r]]), np.array([0, 1])
    return w, (x, y), (x, y), np.array([crowd, 1]), np.array([crowd, 0])


def pair_replaced(rate, r, l2):
    """Two dimensions: a record off by 1 leaves, one off by the worst u comes, and they pull in opposite directions."""
    u = most_off(rate, r, r**2 / l2)
    far = 2000 / r
    tilt = np.arcsin(-special.logit(u) / (far * r))
    leaves = r * np.array([np.cos(0.02), -np.sin(0.02)])  # label 1, margin -40
    comes = r * np.array([-np.cos(tilt), np.sin(tilt)])
    many = 100
    crowd = (l2 * far + many * r * np.sin(0.02)) / (SMALL / 2)  # so that b points along the first axis
    x, y = np.array([leaves, [0, SMALL], comes]), np.ones(3)
    return np.array([[0.0, far]]), (x, y), (x, y), np.array([many, crowd, 1]), np.array([many + 1, crowd, 0])


def attained(build, rate, r, l2):
    w, one, other, counts, before = build(rate, r, l2)
    return (log_density(w, *one, rate, l2, counts) - log_density(w, *other, rate, l2, before))[0]


@pytest.mark.parametrize(("epsilon", "l2", "r"), [(1.0, 1.0, 1.0), (0.2, 0.5, 2.0), (5.0, 0.3, 1.0), (3.0, 10.0, 1.5)])
def test_the_loss_is_attained(epsilon, l2, r):
    """So the noise cannot be less: the pairs catch 2% too little of it, with the same regularisation."""
    for neighbours, build in (("add_remove", pair_added), ("replace", pair_replaced)):
        constants = calibrate(epsilon, l2, r, neighbours=neighbours)
        rate, price = float(constants.noise_rate), float(l2 + constants.extra)
        loss = attained(build, rate, r, price)
        assert 0.998 * epsilon < loss <= epsilon * (1 + 1e-9)
        weak = 1.02 * rate
        assert attained(build, weak, r, price) > epsilon


# Privacy: what is wrong with diffprivlib's constants


def test_diffprivlibs_curvature_is_too_small_for_rows_longer_than_one():
    """One record of norm 10 for one of norm 0, at w = 0: the densities differ by e^0.21 where epsilon is 0.1."""
    r, epsilon, l2 = 10.0, 0.1, 1.0
    for variant, broken in (("diffprivlib", True), ("sound", False), ("cms", False)):
        constants = calibrate(epsilon, l2, r, variant=variant)
        rate, price = float(constants.noise_rate), float(l2 + constants.extra)
        loss = loss_at(np.zeros((1, 1)), ([[r]], [1]), ([[0.0]], [1]), rate, price)[0]
        assert (loss > epsilon) == broken
        supremum = privacy_loss(rate, r, r**2 / price)
        assert (supremum > epsilon * (1 + 1e-9)) == broken
        if broken:
            assert loss == pytest.approx(0.2132, abs=1e-4)
            assert supremum == pytest.approx(0.2634, abs=1e-4)
            assert attained(pair_replaced, rate, r, price) == pytest.approx(supremum, rel=0.002)
    small = calibrate(epsilon, l2, 1.0, variant="diffprivlib")
    assert privacy_loss(small.noise_rate, 1.0, 1 / (l2 + small.extra)) <= epsilon


def test_a_free_intercept_has_no_epsilon():
    """One of three records replaced: densities e^30 apart at epsilon 5, and the further out the more."""
    rng = np.random.default_rng(16)
    x, y = np.ones((3, 1)), np.ones(3)
    model = fit(x, y, epsilon=5.0, rng=rng, variant="diffprivlib", noise=np.zeros((1, 2)))
    assert model.epsilon[0] == np.inf
    rows = np.hstack([x, np.ones((3, 1))])
    other = np.vstack([rows[:2], [[-1.0, 1.0]]])
    prices = np.array([model.l2[0], 0.0])
    losses = [loss_at(np.full((1, 2), t), (other, y), (rows, y), model.noise_rate[0], prices)[0] for t in (10, 15, 20)]
    assert losses[0] > 5
    assert losses[2] > 30
    assert losses[0] < losses[1] < losses[2]
    sound = fit(x, y, epsilon=5.0, rng=rng, noise=np.zeros((1, 2)))
    assert sound.epsilon[0] == pytest.approx(5.0)
    assert loss_at(np.full((1, 2), 20.0), (other, y), (rows, y), sound.noise_rate[0], sound.l2[0])[0] <= 5.0


# Bad settings


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"epsilon": 0}, "epsilon = 0"),
        ({"epsilon": [1.0, np.nan]}, "epsilon = nan"),
        ({"regularisation": 0.0}, "regularisation = 0"),
        ({"norm_bound": 0.5}, "norm_bound = 0.5"),
        ({"neighbours": "add_remove", "variant": "cms"}, "variant = 'cms'"),
        ({"problems": 3, "epsilon": [1.0, 2.0]}, "epsilon has 2 rows"),
        ({"masks": np.ones((2, 4), dtype=bool)}, "masks of shape"),
        ({"noise": np.zeros((1, 5))}, "noise of shape"),
        ({"noise": [["a"] * 6]}, "noise = "),
        ({"noise": [[1, 2], [3]]}, "noise = "),
        ({"noise": np.full((1, 6), 1j)}, "noise = complex128"),
        ({"epsilon": [[1.0, 2.0]]}, "epsilon of shape (1, 2)"),
        ({"regularisation": [[1.0, 2.0]]}, "regularisation of shape (1, 2)"),
        ({"norm_bound": [[1.0], [2.0, 3.0]]}, "norm_bound = "),
        ({"epsilon": np.ma.masked_array([1.0, 2.0], [True, False])}, "masked"),
        ({"masks": np.ma.masked_array(np.ones((2, 5), dtype=bool), True)}, "masked"),
        ({"masks": [[True], [True, False]]}, "masks of shape"),
    ],
)
def test_bad_settings_are_refused(settings, named):
    x, y = rows_and_labels(np.random.default_rng(17))
    x[0] *= 1 / np.linalg.norm(x[0])
    with pytest.raises(ParameterError, match=re.escape(named)):
        fit(x, y, **{"epsilon": 1.0, "rng": np.random.default_rng(0)} | settings)


def test_models_are_asked_about_rows_and_labels_of_their_shape():
    """One label for all rows counted as theirs."""
    x, y = rows_and_labels(np.random.default_rng(17))
    model = fit(x, y, epsilon=1.0, rng=np.random.default_rng(0), problems=2)
    assert model.accuracy(x, y.astype(bool)).tolist() == ((model.decision(x) > 0) == y).mean(axis=1).tolist()
    for rows, labels, said in ((x[:, :2], y, "x = "), (x, y[:1], "y = "), (x, y + 1, "y = "), (x * np.nan, y, "x = ")):
        with pytest.raises(ParameterError, match=said):
            model.accuracy(rows, labels)


def test_bad_data_are_refused():
    x, y = rows_and_labels(np.random.default_rng(18))
    rng = np.random.default_rng(0)
    for wrong in (2, np.nan):
        labels = y.astype(float)
        labels[7] = wrong
        with pytest.raises(ParameterError, match="labels must be 0 or 1"):
            fit(x, labels, epsilon=1.0, rng=rng)
    for wrong in (np.nan, np.inf):
        rows = x.copy()
        rows[3, 1] = wrong
        with pytest.raises(ParameterError, match="row 3 is not"):
            fit(rows, y, epsilon=1.0, rng=rng)
    long = x.copy()
    long[5] *= 1.001 / np.linalg.norm(long[5])
    with pytest.raises(ParameterError, match=r"norm_bound = 1 is not allowed: a row is longer \(problem 0\)"):
        fit(long, y, epsilon=1.0, rng=rng)
    assert fit(x, np.ones(len(x)), epsilon=1.0, rng=rng).converged.all(), "which labels occur must not show"


def test_no_value_of_a_record_stands_in_a_message():
    x, y = rows_and_labels(np.random.default_rng(18))
    rng, named = np.random.default_rng(0), x.astype(object)
    named[3, 0] = "Alice"
    hidden = np.ma.masked_array(x, x > 0.9)
    for rows, labels, said in (
        (named, y, "x = "), (x, np.where(y == 1, -77, y), "y = "), (77 * x, y, "norm_bound"), (hidden, y, "masked"),
        (x, np.ma.masked_array(y, y == 0), "masked"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=said) as refused:
            fit(rows, labels, epsilon=1.0, rng=rng)
        assert "Alice" not in str(refused.value)
        assert "77" not in str(refused.value)
    with pytest.raises(ParameterError, match="rng = 0 is not allowed"):
        fit(x, y, epsilon=1.0, rng=0)
