"""Theorem 6 takes classes of one size; the proposition on page 1 says what other sizes do."""

import numpy as np


def errors_by_class(sizes: tuple[int, int], p: int, gamma: float, rng: np.random.Generator) -> list[float]:
    """Shares of wrong answers of the plug-in rule with known variances, 200 test points a class."""
    means = np.zeros((2, p))
    means[0, :20] = np.sqrt(gamma / 20)
    centres = [mean + rng.standard_normal(p) / np.sqrt(n) for mean, n in zip(means, sizes, strict=True)]
    weights, middle = centres[0] - centres[1], (centres[0] + centres[1]) / 2
    scores = [(mean + rng.standard_normal((200, p)) - middle) @ weights for mean in means]
    return [float((scores[0] <= 0).mean()), float((scores[1] > 0).mean())]


def test_the_smaller_class_is_always_wrong_and_the_larger_never():
    rng = np.random.default_rng(0)
    small, large = errors_by_class((40, 80), 20_000, 20.0, rng)
    assert small > 0.99
    assert large < 0.01
    equal = errors_by_class((60, 60), 20_000, 20.0, rng)
    assert max(equal) < 0.6
