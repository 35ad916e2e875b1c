"""The crossover estimator on curves whose crossing is known."""

import numpy as np
import pytest

from dplib.checks import ParameterError
from papers.architecture import crossover

EPSILONS = np.array([0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
AT = np.log(EPSILONS)


def curves(crossing, noise, seeds, rng, slope=0.02):
    """Two increasing curves whose difference is linear in log epsilon with a zero at ``crossing``; normal noise."""
    base = 0.8 + 0.02 * AT
    gap = slope * (np.log(crossing) - AT)
    shared = rng.normal(0, noise, (seeds, 1))  # the split of a seed, common to both models
    return [base + part + shared + rng.normal(0, noise, (seeds, len(AT))) for part in (gap / 2, -gap / 2)]


def test_known_crossing_without_noise():
    rng = np.random.default_rng(0)
    for crossing in (0.2, 2.0, 30.0, 71.0):
        crossing_ = crossover.estimate(EPSILONS, *curves(crossing, 0, 3, rng), rng=rng, resamples=100)
        assert crossing_.value == pytest.approx(crossing, rel=1e-9)
        assert crossing_.low == pytest.approx(crossing)
        assert crossing_.high == pytest.approx(crossing)


def test_interval_covers_the_crossing():
    """200 repeats with 5 seeds: a true 95% interval would cover 180 or fewer times with probability 0.0027.

    At 93% (the stretched percentile interval is approximate) that probability is 0.07; the seed is fixed.
    """
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        crossing = crossover.estimate(EPSILONS, *curves(2.0, 0.01, 5, rng), rng=rng, resamples=200, smooth=False)
        covered += crossing.low <= 2.0 <= crossing.high
    assert covered > 180


def test_interval_is_not_useless():
    """It narrows with the noise, and excludes a crossing a decade away."""
    rng = np.random.default_rng(2)
    rough = crossover.estimate(EPSILONS, *curves(2.0, 0.01, 8, rng), rng=rng, resamples=400)
    fine = crossover.estimate(EPSILONS, *curves(2.0, 0.002, 8, rng), rng=rng, resamples=400)
    assert 0.2 < fine.low < 2.0 < fine.high < 20
    assert fine.high / fine.low < rough.high / rough.low


def test_no_crossing_is_an_answer():
    rng = np.random.default_rng(3)
    always = crossover.estimate(EPSILONS, *curves(1e6, 0.001, 4, rng), rng=rng, resamples=200)
    assert always.value == np.inf
    assert str(always) == "above 100, if there is one [above 100, above 100]"
    never = crossover.estimate(EPSILONS, *curves(1e-6, 0.001, 4, rng), rng=rng, resamples=200)
    assert never.value == 0
    assert "leads nowhere" in str(never)


def test_the_last_of_several_crossings_is_taken():
    base = 0.5 + 0.05 * AT
    gap = 0.01 * np.array([1, -1, -1, 1, 1, -1, -1])
    simple, complex_ = (np.tile(base + part, (3, 1)) for part in (gap, 0 * gap))
    crossing = crossover.estimate(EPSILONS, simple, complex_, rng=np.random.default_rng(0), resamples=100)
    assert crossing.value == pytest.approx(np.sqrt(10 * 30))


def test_smoothing_repairs_a_dip():
    """A dip of the complex model alone must not make the simple one the winner above the true crossing."""
    simple = np.tile([0.5, 0.6, 0.65, 0.66, 0.67, 0.68, 0.69], (3, 1))
    complex_ = np.tile([0.3, 0.5, 0.70, 0.75, 0.76, 0.675, 0.80], (3, 1))
    rng = np.random.default_rng(0)
    raw = crossover.estimate(EPSILONS, simple, complex_, rng=rng, resamples=100, smooth=False)
    smoothed = crossover.estimate(EPSILONS, simple, complex_, rng=rng, resamples=100)
    assert raw.value > 30
    assert 0.3 < smoothed.value < 1
    assert (np.diff(crossover.monotone(complex_[0])) >= 0).all()


def test_signs_hold_their_error_rate_without_a_difference():
    """500 null data sets: with a family-wise error of 5% more than 44 have any sign with probability 3e-5."""
    rng = np.random.default_rng(4)
    wrong = 0
    for _ in range(500):
        a, b = rng.normal(0, 1, (2, 6, 5))
        wrong += bool(crossover.significant_signs(a, b).any())
    assert wrong <= 44


def test_signs_find_clear_differences():
    rng = np.random.default_rng(5)
    simple, complex_ = curves(2.0, 0.002, 8, rng)
    signs = crossover.significant_signs(simple, complex_)
    assert signs[0] == 1
    assert signs[-1] == -1
    assert crossover.sign_changes(signs) == 1
    assert crossover.sign_changes([1, 0, -1, 0, 1]) == 2
    constant = np.tile([0.9, 0.5], (3, 1)), np.tile([0.8, 0.5], (3, 1))
    assert crossover.significant_signs(*constant).tolist() == [1, 0]


def test_the_definition_as_printed():
    simple, complex_ = curves(2.0, 0, 2, np.random.default_rng(0))
    assert crossover.literal(EPSILONS, simple, complex_) == pytest.approx(1.0)
    assert crossover.literal(EPSILONS, simple - 1, complex_) == np.inf  # the paper's value for an empty S


@pytest.mark.parametrize(
    ("epsilons", "shapes", "message"),
    [
        ([1.0, 1.0], [(2, 2), (2, 2)], "increase"),
        ([-1.0, 1.0], [(2, 2), (2, 2)], "above 0"),
        ([1.0, 2.0], [(1, 2), (1, 2)], "by pairs"),
        ([1.0, 2.0], [(2, 3), (2, 3)], "by pairs"),
        ([1.0, 2.0], [(3, 2), (2, 2)], "by pairs"),
    ],
)
def test_bad_input(epsilons, shapes, message):
    with pytest.raises(ParameterError, match=message):
        crossover.estimate(epsilons, *map(np.ones, shapes), rng=np.random.default_rng(0))
