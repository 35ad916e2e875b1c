"""What chapter 1 runs: a scale that tells on the data, fresh points, Example 1, real images."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from dplib import gmm, mechanisms
from dplib.checks import ParameterError

# Standard deviation of the noise, with tau = ln(1/delta)/epsilon: 0, tau, and 2 tau times the largest norm in the data.
NOISES = {
    "none": "no noise",
    "unit": "sensitivity one",
    "L2": "largest ℓ₂ norm",
    "L1": "largest ℓ₁ norm (Definition 3)",
}


# ---------------------------------------------------------------------------------- a scale that depends on the data


def worst_delta(move: float, c_before: float, c_after: float, coordinates: int, epsilon: float, delta: float) -> float:
    """Exact delta at epsilon between two releases under Definition 3, in the worse direction.

    Args:
        move: L2 distance of the record that was substituted. c_before, c_after: C_p of the two data sets.
        coordinates: noisy numbers released. epsilon, delta: the budget that set the noise.
    """
    scales = mechanisms.paper_sigma(epsilon, delta, 2 * np.array([c_before, c_after]))
    return max(mechanisms.two_gaussians_delta(move, a, b, coordinates, epsilon) for a, b in (scales, scales[::-1]))


def replace_the_longest(
    setting: gmm.Mixture, epsilon: float, delta: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Replace the longest record of a clean data set by a fresh point: relative change of C_p, and exact delta."""
    x = np.vstack(gmm.draw_samples(replace(setting, noise_sd=0.0), rng))
    norms = np.abs(x).sum(axis=1)
    longest, fresh = norms.argmax(), setting.mu1 + np.sqrt(setting.variances) * rng.standard_normal(setting.p)
    after = max(np.delete(norms, longest).max(), np.abs(fresh).sum())
    move = np.linalg.norm(x[longest] - fresh)
    return norms[longest] / after - 1, worst_delta(move, norms[longest], after, x.size, epsilon, delta)


def released_variance_ratio(setting: gmm.Mixture, epsilon: float, delta: float, rng: np.random.Generator) -> float:
    """Definition 3 to the letter, C_p from the data: mean over features of estimated variance / (Sigma + s^2)."""
    clean = gmm.draw_samples(replace(setting, noise_sd=0.0), rng)
    noise_sd = mechanisms.paper_sigma(epsilon, delta, 2 * max(np.abs(x).sum(axis=1).max() for x in clean))
    released = [x + noise_sd * rng.standard_normal(x.shape) for x in clean]
    return float(np.mean(gmm.fit(*released).variances / (setting.variances + noise_sd**2)))


# ------------------------------------------------------------------------------------------ estimates and their error


def count_errors(setting: gmm.Mixture, fresh: int, rng: np.random.Generator):
    """Fit one classifier and classify ``fresh`` noisy points of each class.

    Returns points misclassified, exact errors, and errors by eq. (8) as printed; for class 1 and 2, each of shape (2,).
    """
    fisher = gmm.fit(*gmm.draw_samples(setting, rng))
    x1, x2 = gmm.draw_samples(replace(setting, n_per_class=fresh), rng)
    wrong = np.array([np.sum(~fisher.is_class1(x1)), np.sum(fisher.is_class1(x2))])
    return wrong, fisher.errors(setting), norm.cdf(-fisher.printed_psi(setting))


def setting_with_psi_one(p: int, n_per_class: int, informative: int, noise_sd: float) -> gmm.Mixture:
    """A sparse signal of the strength at which Theorem 6, with o(1) = 0, says Psi = 1: Gamma^2 = 4 (4p/n + Gamma)."""
    informative = min(informative, p)
    gamma = 2 + np.sqrt(4 + 8 * p / n_per_class)
    return gmm.two_classes(p, n_per_class, np.sqrt(gamma * (1 + noise_sd**2) / informative), informative, noise_sd)


def bias_z_scores(setting: gmm.Mixture, rng: np.random.Generator) -> np.ndarray:
    """Mean errors over the features of mu_hat_1, mu_hat_2 and Sigma_hat in one data set, in standard errors: (3,)."""
    x1, x2 = gmm.draw_samples(setting, rng)
    sd, n = np.sqrt(setting.released), setting.n_per_class
    means = [np.sum((x.mean(axis=0) - mu) / sd) * np.sqrt(n) for x, mu in ((x1, setting.mu1), (x2, setting.mu2))]
    variances = np.sum(gmm.fit(x1, x2).variances / setting.released - 1) * np.sqrt(n - 1)
    return np.array([*means, variances]) / np.sqrt(setting.p)


# ------------------------------------------------------------------------------------------------------- Example 1


EXAMPLE1 = gmm.Mixture(np.zeros(2), np.array([5.0, 10.0]), np.array([1.0, 10.0]), 200)


def draw_example1(noise_sd: float, draws: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The tables of Example 1 in many data sets, from sufficient statistics: "distance", "variance" (pooled) and "t",
    eq. (15), of the two features, each (draws, 2)."""
    n, released = EXAMPLE1.n_per_class, EXAMPLE1.variances + noise_sd**2
    distance = -EXAMPLE1.alpha + np.sqrt(2 * released / n) * rng.standard_normal((draws, 2))
    variance = released * rng.gamma(n - 1, 1 / (n - 1), (draws, 2))
    return {"distance": distance, "variance": variance, "t": distance / np.sqrt(2 * variance / n)}


# ----------------------------------------------------------------------------------------------------- real images


@dataclass(frozen=True)
class Images:
    """All points of two classes, (n_k, pixels) in [0, 1], and the pixels with a within-class variance above 0.02.

    A pixel that is nearly always blank has no variance to estimate; the choice reads the data without noise.
    """

    pools: tuple[np.ndarray, np.ndarray]
    variances: np.ndarray
    kept: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, classes) -> "Images":
        """From images x of shape (n, ...) and labels y; ``classes`` names two labels."""
        pools = tuple(x[y == k].reshape(np.sum(y == k), -1).astype(float) for k in classes)
        variances = sum(pool.var(axis=0, ddof=1) for pool in pools) / 2
        return cls(pools, variances, np.flatnonzero(variances > 0.02))

    def shuffled(self, rng: np.random.Generator) -> "Images":
        """Each pixel permuted within its class: every pixel keeps its distribution, pixels become independent."""
        return replace(self, pools=tuple(rng.permuted(pool, axis=0) for pool in self.pools))


def image_errors(
    images: Images, m: int, n_per_class: int, noise_sd: float, rng: np.random.Generator, test_points: int = 1000
) -> np.ndarray:
    """Train on n_per_class random noisy points of m random pixels, test on up to ``test_points`` others of each class.

    Returns:
        Error on noisy and on clean test points, and the formula's for both from all points' means and variances: (4,).
    """
    if 2 * n_per_class > min(map(len, images.pools)):
        raise ParameterError(
            f"{n_per_class} training points of each class are too many: there are {min(map(len, images.pools))} in one."
        )
    pixels = rng.permutation(images.kept)[:m]
    mixed = [pool[rng.permutation(len(pool))[: n_per_class + test_points]][:, pixels] for pool in images.pools]
    train, test = [x[:n_per_class] for x in mixed], [x[n_per_class:] for x in mixed]
    fisher = gmm.fit(*[x + noise_sd * rng.standard_normal(x.shape) for x in train])

    def error(sd):
        x1, x2 = (x + sd * rng.standard_normal(x.shape) for x in test)
        return (np.mean(~fisher.is_class1(x1)) + np.mean(fisher.is_class1(x2))) / 2

    means = [pool[:, pixels].mean(axis=0) for pool in images.pools]
    setting = gmm.Mixture(*means, images.variances[pixels], n_per_class, noise_sd)
    formula = [gmm.predicted_error(setting, test) for test in ("noisy", "clean")]
    return np.array([error(noise_sd), error(0.0), *formula])
