"""Two linear models that differ in one feature, released with Gaussian noise (paper B, Section III-B and Appendix A).

h has coefficients theta (m,) and noise N(0, sigma^2) on each; h' drops feature m and has noise N(0, sigma'^2) on the
others. At a record (x, y) write c = y - theta'x for the signed error without noise, u = theta_m x_m for what feature m
adds to the prediction, and d = sigma^2 |x|^2 - sigma'^2 |x'|^2 for the noise variance that dropping it saves. Then

    E err(h) = c^2 + sigma^2 |x|^2,    E err(h') = (c + u)^2 + sigma'^2 |x'|^2,

so that h' is at least as good exactly when u^2 + 2 c u <= d (eq. 11). The predicates below use only +, * and <=: on
whole numbers or fractions they decide without rounding.
"""

import numpy as np

from dplib.checks import ParameterError


def expected_errors(theta, x, y, sigma, sigma_small) -> tuple[float, float]:
    """Expected squared errors of h and of h' at one record, eq. (10) with c^2 in place of its c.

    Args:
        theta, x: (m,), m >= 2; the last feature is the one that h' drops.
        y: a number. sigma, sigma_small: standard deviations of the noise on each coefficient of h and of h', >= 0.

    Raises:
        ParameterError: for other shapes, or negative noise.
    """
    theta, x = _pair(theta, x, sigma, sigma_small)
    c, u = y - theta @ x, theta[-1] * x[-1]
    return float(c**2 + sigma**2 * x @ x), float((c + u) ** 2 + sigma_small**2 * x[:-1] @ x[:-1])


def simulate_errors(theta, x, y, sigma, sigma_small, draws: int, rng: np.random.Generator):
    """Squared errors of h and of h' under ``draws`` draws of the noise: two arrays (draws,), independent of each other.

    Every coefficient gets its own noise, as the mechanism does it; nothing of the derivation is used.
    """
    theta, x = _pair(theta, x, sigma, sigma_small)
    noisy = theta + sigma * rng.standard_normal((draws, len(theta)))
    small = theta[:-1] + sigma_small * rng.standard_normal((draws, len(theta) - 1))
    return (y - noisy @ x) ** 2, (y - small @ x[:-1]) ** 2


def smaller_is_as_good(u, c, d):
    """Eq. (11): E err(h') <= E err(h). Numbers or arrays."""
    return u * u + 2 * c * u <= d


def printed_condition(u, c, d):
    """Lemma 1's right-hand side, |theta_m| <= (sqrt(c^2 + d) - |c|) / |x_m|, without its root and its quotient.

    Times |x_m| it says |u| + |c| <= sqrt(c^2 + d); squaring both sides, neither negative, leaves u^2 + 2 |c| |u| <= d.
    Where c^2 + d < 0 the root does not exist, and this says False.
    """
    return u * u + 2 * abs(c) * abs(u) <= d


def exact_interval(c, d):
    """The u for which h' is at least as good: -sqrt(c^2 + d) - c to sqrt(c^2 + d) - c; nan where there is none."""
    c, d = np.asarray(c, dtype=float), np.asarray(d, dtype=float)
    with np.errstate(invalid="ignore"):
        root = np.sqrt(c**2 + d)
    return -root - c, root - c


def missed_share(c, d):
    """Which part of the exact interval the printed one leaves out: |c| / sqrt(c^2 + d), for d >= 0 and c^2 + d > 0.

    The printed interval has length 2 (sqrt(c^2 + d) - |c|) and lies in the exact one, of length 2 sqrt(c^2 + d).
    """
    c, d = np.asarray(c, dtype=float), np.asarray(d, dtype=float)
    if np.any(d < 0) or np.any(c**2 + d <= 0):
        raise ParameterError("c and d are not allowed: d must be at least 0, and c^2 + d greater than 0.")
    return np.abs(c) / np.sqrt(c**2 + d)


def count_agreement(largest: int) -> dict[str, int]:
    """Both conditions for all whole numbers |u|, |c| <= ``largest`` and |d| <= 3 ``largest``^2, in exact arithmetic.

    Both conditions stay as they are when u and c are multiplied by s and d by s^2, so that this settles every fraction
    with such numerators as well.

    Returns:
        How often "both" hold, "neither", "only exact" (h' is as good, and the lemma's bound is broken) and
        "only printed"; and "only exact, c = 0" and "only exact, d < 0".
    """
    u, c = (np.arange(-largest, largest + 1, dtype=np.int64) for _ in range(2))
    d = np.arange(-3 * largest**2, 3 * largest**2 + 1, dtype=np.int64)
    counts = dict.fromkeys(
        ("both", "neither", "only exact", "only printed", "only exact, c = 0", "only exact, d < 0"), 0
    )
    for one in c:  # a slice at a time: memory
        exact = smaller_is_as_good(u[:, None], one, d)
        printed = printed_condition(u[:, None], one, d)
        missed = exact & ~printed
        counts["both"] += int((exact & printed).sum())
        counts["neither"] += int((~exact & ~printed).sum())
        counts["only exact"] += int(missed.sum())
        counts["only printed"] += int((printed & ~exact).sum())
        counts["only exact, c = 0"] += int(missed.sum()) if one == 0 else 0
        counts["only exact, d < 0"] += int(missed[:, d < 0].sum())
    return counts


def gain_of_dropping(theta, second_moments, sigma) -> tuple[np.ndarray, np.ndarray]:
    """By how much the expected error, averaged over records, falls when feature j is dropped, for every j.

    ``theta`` must be the least-squares optimum for records with E[x x'] = ``second_moments``: then E[c x] = 0, and the
    term 2 c u of eq. (11) averages out.

    Args:
        theta: (m,). second_moments: (m, m), symmetric, positive definite. sigma: of the noise, the same for h and h'.

    Returns:
        Two arrays (m,). With coefficient j set to 0 and the others kept, as the paper has it:
        (sigma^2 - theta_j^2) M_jj. With the others fitted again: sigma^2 M_jj - theta_j^2 / (M^-1)_jj.

    Raises:
        ParameterError: for shapes that do not fit, or a matrix that is not positive definite.
    """
    theta, moments = np.asarray(theta, dtype=float), np.asarray(second_moments, dtype=float)
    if moments.shape != (len(theta), len(theta)) or np.linalg.eigvalsh(moments)[0] <= 0:
        raise ParameterError(f"second_moments of shape {moments.shape} are not allowed: (m, m), positive definite.")
    saved = sigma**2 * np.diag(moments)
    return saved - theta**2 * np.diag(moments), saved - theta**2 / np.diag(np.linalg.inv(moments))


def _pair(theta, x, sigma, sigma_small) -> tuple[np.ndarray, np.ndarray]:
    theta, x = np.asarray(theta, dtype=float), np.asarray(x, dtype=float)
    if theta.ndim != 1 or theta.shape != x.shape or len(theta) < 2:
        raise ParameterError(
            f"theta of shape {theta.shape} and x of shape {x.shape} are not allowed: both (m,), m >= 2."
        )
    if sigma < 0 or sigma_small < 0:
        raise ParameterError(f"sigma = {sigma:g}, sigma_small = {sigma_small:g} are not allowed: at least 0.")
    return theta, x
