"""The closed forms of chapter 3, checked: paper B's definitions, noise, Lemma 1 and Corollary 1, by row of the ledger.

Sections II and III and Appendix A. Draws are seeded; intervals are of means over draws.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from scipy import stats as sps

from dplib import mechanisms
from dplib.data import preprocess
from dplib.stats import mean_interval
from papers.architecture.privacy_cost_runs import DELTA

# --- two linear models that differ in one feature (Section III-B and Appendix A) -------------------------------------

# h has coefficients theta (m,) and noise N(0, sigma^2) on each; h' drops feature m and has noise N(0, sigma'^2) on the
# others. At a record (x, y) write c = y - theta'x for the signed error without noise, u = theta_m x_m for what feature
# m adds to the prediction, and d = sigma^2 |x|^2 - sigma'^2 |x'|^2 for the noise variance that dropping it saves. Then
# E err(h) = c^2 + sigma^2 |x|^2 and E err(h') = (c + u)^2 + sigma'^2 |x'|^2, so that h' is at least as good exactly
# when u^2 + 2 c u <= d (eq. 11). The predicates use only +, * and <=: on whole numbers they decide without rounding.


def expected_errors(theta, x, y, sigma, sigma_small) -> tuple[float, float]:
    """Expected squared errors of h and of h' at one record, eq. (10) with c^2 in place of its c.

    ``sigma`` and ``sigma_small`` are the standard deviations of the noise on each coefficient of h and of h'.
    """
    theta, x = np.asarray(theta, dtype=float), np.asarray(x, dtype=float)
    c, u = y - theta @ x, theta[-1] * x[-1]
    return float(c**2 + sigma**2 * x @ x), float((c + u) ** 2 + sigma_small**2 * x[:-1] @ x[:-1])


def simulate_errors(theta, x, y, sigma, sigma_small, draws: int, rng: np.random.Generator):
    """Squared errors of h and of h' under ``draws`` draws of the noise: two arrays (draws,), independent of each other.

    Every coefficient gets its own noise, as the mechanism does it; nothing of the derivation is used.
    """
    theta, x = np.asarray(theta, dtype=float), np.asarray(x, dtype=float)
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
    with np.errstate(invalid="ignore"):
        root = np.sqrt(c**2 + d)
    return -root - c, root - c


def count_agreement(largest: int) -> dict[str, int]:
    """Both conditions for all whole numbers |u|, |c| <= ``largest`` and |d| <= 3 ``largest``^2, in exact arithmetic.

    Both conditions stay as they are when u and c are multiplied by s and d by s^2, so that this settles every fraction
    with such numerators as well. "only exact": h' is as good, and the lemma's bound is broken. "off interval": h' is as
    good and u not in :func:`exact_interval`, or the other way round; its roots are rounded, not past a whole number.
    """
    u = np.arange(-largest, largest + 1, dtype=np.int64)
    d = np.arange(-3 * largest**2, 3 * largest**2 + 1, dtype=np.int64)
    names = ("both", "neither", "only exact", "only printed", "only exact, c = 0", "only exact, d < 0", "off interval")
    counts = np.zeros(len(names), dtype=int)
    for c in u:  # a slice at a time: memory
        exact = smaller_is_as_good(u[:, None], c, d)
        printed = printed_condition(u[:, None], c, d)
        low, high = exact_interval(float(c), d)
        off = exact != ((low <= u[:, None]) & (u[:, None] <= high))
        missed = exact & ~printed
        agree = exact & printed, ~exact & ~printed
        cases = (*agree, missed, printed & ~exact, missed & (c == 0), missed[:, d < 0], off)
        counts += [case.sum() for case in cases]
    return dict(zip(names, counts.tolist(), strict=True))


def gain_of_dropping(theta, second_moments, sigma) -> tuple[np.ndarray, np.ndarray]:
    """By how much the expected error, averaged over records, falls when feature j is dropped: two arrays (m,).

    ``theta`` must be the least-squares optimum for records with E[x x'] = ``second_moments``, M: then E[c x] = 0, and
    the term 2 c u of eq. (11) averages out. With coefficient j set to 0 and the others kept, as the paper has it, the
    gain is (sigma^2 - theta_j^2) M_jj; with the others fitted again, sigma^2 M_jj - theta_j^2 / (M^-1)_jj.
    """
    saved = sigma**2 * np.diag(second_moments)
    return saved - theta**2 * np.diag(second_moments), saved - theta**2 / np.diag(np.linalg.inv(second_moments))


Values = dict[str, dict[str, Any]]


# --- definitions, and the noise ---------------------------------------------------------------------------------------


def definitions() -> Values:
    """Section II: privacy, sensitivity, delta and DP-SGD, each checked against what it says."""
    sigma = mechanisms.analytic_sigma(1.0, DELTA)
    edges = np.concatenate([[-np.inf], np.linspace(-9 * sigma, 9 * sigma + 1, 20_001), [np.inf]])

    def excess(sd: float) -> float:
        """The largest P(F(d0) in S) - e P(F(d1) in S) over all unions S of cells, at epsilon = 1."""
        cells = np.diff(sps.norm.cdf(edges, 1, sd) - np.e * sps.norm.cdf(edges, 0, sd))
        return float(cells[cells > 0].sum())

    grid = np.array(list(product(np.linspace(0, 1, 5), repeat=3)))  # every data set of three records on a grid
    counts = np.stack([(grid == v).sum(1) for v in np.linspace(0, 1, 5)], 1)
    changed = (grid[:, None] != grid[None]).sum(2) == 1
    n = preprocess.PAPER_B["mnist"][0]
    return {
        "B.def1": {
            "worst_excess_over_delta": excess(sigma) / DELTA,
            "with_one_percent_less_noise": excess(0.99 * sigma) / DELTA,
            "epsilon_if_replaced": mechanisms.gaussian_epsilon(sigma, 2.0, DELTA),
        },
        "B.sensitivity": {
            "mean_of_3": np.abs(grid.mean(1)[:, None] - grid.mean(1)[None])[changed].max(),
            "histogram": np.linalg.norm(counts[:, None] - counts[None], axis=2)[changed].max(),
        },
        "B.delta-size": {
            "exposed_at_1_over_n": -np.expm1(n * np.log1p(-1 / n)),
            "exposed_at_1_over_100_n": -np.expm1(n * np.log1p(-0.01 / n)),
            "exposed_mnist": -np.expm1(n * np.log1p(-DELTA)),
        },
        "B.dpsgd": _one_step(),
    }


def _one_step() -> dict[str, float]:
    """A clipped step against gradients written out by hand, and the size of its noise."""
    from dplib import dpsgd
    from papers.common import networks

    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(64, 400)).astype(np.float32), rng.integers(3, size=64)
    settings = {"steps": 1, "sample_rate": 1.0, "learning_rate": 0.7, "max_grad_norm": 0.5}
    after = []
    for noise in (0.0, 3.0):
        net = networks.network([], (400,), 3, "relu", 0.0, 1)
        start = np.column_stack([p.detach().numpy().reshape(3, -1).copy() for p in net.parameters()])
        how = dpsgd.DPSGD(**settings, noise_multiplier=noise)
        dpsgd.train(net, dpsgd.Data((x, y)), how, np.random.default_rng(9), progress=False)
        after.append(np.column_stack([p.detach().numpy().reshape(3, -1) for p in net.parameters()]))
    with_bias = np.column_stack([x, np.ones(64)])
    likely = np.exp(with_bias @ start.T)
    gradients = (likely / likely.sum(1, keepdims=True) - np.eye(3)[y])[:, :, None] * with_bias[:, None]
    gradients *= np.minimum(1, 0.5 / np.linalg.norm(gradients, axis=(1, 2)))[:, None, None]
    drawn = (after[1] - after[0]).ravel() / (0.7 * 3.0 * 0.5 / 64)
    tail = sps.chi2(drawn.size).cdf((drawn**2).sum())
    return {
        "largest_gap": np.abs(after[0] - (start - 0.7 * gradients.mean(0))).max(),
        "p_value_of_the_noise": 2 * min(tail, 1 - tail),
    }


def noise() -> Values:
    """Section III-B: equation (3), and how long the noise is."""
    claimed, at_delta = np.meshgrid(np.geomspace(0.01, 100, 121), np.geomspace(1e-10, 0.1, 60), indexing="ij")
    broken = mechanisms.gaussian_delta(np.sqrt(2 * np.log(1.25 / at_delta)) / claimed, 1.0, claimed) > at_delta
    root = np.sqrt(2 * np.log(1.25 / DELTA))
    fine = np.geomspace(1, 1000, 3000)
    kept = mechanisms.gaussian_delta(root / fine, 1.0, fine) <= DELTA
    dims, sd, rng = np.array([3, 10, 30, 100, 300, 1000]), 1.7, np.random.default_rng(4)
    norms = {m: np.linalg.norm(sd * rng.standard_normal((4000, m)), axis=1) for m in dims}
    mean = np.log([norms[m].mean() for m in dims])
    older = {m: sps.gamma(m, scale=2.0) for m in dims}  # density exp(-epsilon |b| / Delta), at epsilon = 0.5

    def slope(logs: np.ndarray) -> float:
        return float(np.polyfit(np.log(dims), logs, 1)[0])

    def least_p(law: Any) -> float:
        return min(sps.kstest(norms[m] ** 2, law(m).cdf).pvalue for m in dims)

    slope_older = slope(np.log([older[m].mean() for m in dims]))
    return {
        "B.eq3": {
            "share_broken_below_1": broken[claimed < 1].mean(),
            "share_broken_above_1": broken[claimed > 1].mean(),
            "largest_private_epsilon": float(fine[np.argmin(kept) - 1]),
            "noise_over_least_at_epsilon_1": root / mechanisms.analytic_sigma(1.0, DELTA),
        },
        "B.noise-norm": {
            "mean_over_m_sigma2": mean_interval(norms[1000] ** 2 / (1000 * sd**2)),
            "slope_of_norm": slope(mean),
            "least_p_gamma": least_p(lambda m: sps.gamma(m / 2, scale=2 * sd**2)),
            "least_p_chi2_as_printed": least_p(sps.chi2),
        },
        "B.objpert-noise-dimension": {
            "slope_mean": slope_older,
            "slope_of_m_ln_m": slope(np.log(dims * np.log(dims))),
            "slope_less_gaussian": slope_older - slope(mean),
            "gaussian_smaller_from_m": root**2,  # m / epsilon is sqrt(m) root / epsilon
        },
    }


# --- two linear models ------------------------------------------------------------------------------------------------

EXAMPLE = ([0.0, -2.0], [1.0, 1.0], -1.0, np.sqrt(2.0), 1.0)  # c = 1, u = -2, d = 3: theta, x, y, both noises


def lemma(counted: Mapping[str, int]) -> Values:
    """Lemma 1, from :func:`count_agreement` and one mechanism in which it errs."""
    drawn = simulate_errors(*EXAMPLE, 200_000, np.random.default_rng(5))
    full, small = map(mean_interval, drawn)
    flat = [0.4, -1.2, 0.7, 1.7], [1.0, -0.5, 2.0, 0.0], 0.4, 1.1  # the last feature is 0 in this record
    equal, less = (expected_errors(*flat, other) for other in (1.1, 0.9))
    return {
        "B.lemma1": {
            "counterexamples_if": counted["only printed"],
            "counterexamples_only_if": counted["only exact"],
            "counterexamples_interval": counted["off interval"],
            "cases": sum(counted[key] for key in ("both", "neither", "only exact", "only printed")),
            "example_full_model": full,
            "example_smaller_model": small,
        },
        "B.lemma1-irrelevant-feature": {
            "gap_at_equal_noise": equal[0] - equal[1],
            "gap_at_less_noise": less[0] - less[1],
        },
    }


def proof(cases: int = 2000) -> Values:
    """Appendix A and the hypothesis for linear models at random cases, m = 5, the smaller model's noise no larger."""
    rng = np.random.default_rng(6)
    theta, x = rng.normal(size=(2, cases, 5))
    y, more = rng.normal(size=cases) * 2, rng.random(cases) * 2
    less = more * rng.random(cases)
    c, u = y - (theta * x).sum(1), theta[:, 4] * x[:, 4]
    both = list(zip(theta, x, y, strict=True))
    pairs = np.array([expected_errors(*problem, a, b) for problem, a, b in zip(both, more, less, strict=True)])
    noisier = np.array([expected_errors(*problem, b, a) for problem, a, b in zip(both, more, less, strict=True)])
    d = more**2 * (x**2).sum(1) - less**2 * (x[:, :4] ** 2).sum(1)
    without = np.column_stack([c**2, (c + u) ** 2])
    case = (theta[0], x[0], float(y[0]), 1.3, 0.9)
    exact, drawn = expected_errors(*case), simulate_errors(*case, 400_000, rng)
    printed = exact[0] - c[0] ** 2 + c[0]
    wide = np.repeat(theta[0], 10), np.repeat(x[0] / 10, 10)  # each feature in ten pieces
    narrow_cost, wide_cost = (
        expected_errors(*problem, y[0], 1.0, 1.0)[0] - c[0] ** 2 for problem in ((theta[0], x[0]), wide)
    )
    return {
        "B.eq10": {
            "simulated_over_c_squared_form": mean_interval(drawn[0] / exact[0]),
            "simulated_over_printed_form": mean_interval(drawn[0] / printed),
        },
        "B.eq11": {
            "cases": cases,
            "cases_agreeing": int(((u**2 + 2 * c * u <= d) == (pairs[:, 1] <= pairs[:, 0])).sum()),
        },
        "B.linear-pair": {
            "full_model_simulated_over_exact": mean_interval(drawn[0] / exact[0]),
            "smaller_model_simulated_over_exact": mean_interval(drawn[1] / exact[1]),
        },
        "B.hypothesis-linear": {
            "cases": cases,
            "cost_grows_with_a_feature": int((np.diff(pairs - without, axis=1) <= 1e-9).sum()),
            "cost_grows_with_a_feature_and_less_noise": int((np.diff(noisier - without, axis=1) <= 1e-9).sum()),
            "cost_of_ten_pieces_over_one": wide_cost / narrow_cost,
        },
    }


def corollary(noise_sd: float = 0.5, m: int = 20) -> Values:
    """Corollary 1 in exact arithmetic, and its reading averaged over a regression with errors far from 0."""
    t, s, xm = np.meshgrid(np.arange(-60, 61), np.arange(61), [*range(-5, 0), *range(1, 6)], indexing="ij")
    agree = smaller_is_as_good(t * xm, 0, (s * xm) ** 2) == (np.abs(t) <= s)
    rng = np.random.default_rng(7)
    coefficients = noise_sd * np.linspace(0.1, 2.0, m) * rng.choice([-1, 1], m)
    x = rng.normal(size=(3000, m)) @ (np.eye(m) + 0.6 * rng.normal(size=(m, m)) / np.sqrt(m))  # correlated features
    y = x @ coefficients + 2.0 * rng.normal(size=3000)
    fitted = np.linalg.lstsq(x, y, rcond=None)[0]
    zeroed, refitted = gain_of_dropping(fitted, x.T @ x / 3000, noise_sd)
    below = np.abs(fitted) <= noise_sd
    single = smaller_is_as_good(fitted * x, (y - x @ fitted)[:, None], noise_sd**2 * x**2)
    draws = fitted + noise_sd * rng.standard_normal((400, m))
    losses = ((y[:, None] - x @ draws.T) ** 2).mean(0)
    without = [((y[:, None] - x @ (draws * (np.arange(m) != j)).T) ** 2).mean(0) for j in range(m)]
    gaps = [mean_interval(losses - other) for other in without]
    wrong = sum((g.low > 0 > z) or (g.high < 0 < z) for g, z in zip(gaps, zeroed, strict=True))
    return {
        "B.corollary1": {"cases": agree.size, "disagreements": int((~agree).sum())},
        "B.corollary1-reading": {
            "features": m,
            "rule_agrees_on_average": int(((zeroed >= 0) == below).sum()),
            "simulated_contradictions": int(wrong),
            "kept_though_smaller_when_refitted": int(((refitted < 0) & below).sum()),
            "dropped_though_larger_when_refitted": int(((refitted >= 0) & ~below).sum()),
            "records_misjudged_percent": 100 * np.mean(single != below),
            "records_where_a_smaller_coefficient_pays_percent": 100 * np.mean(~single & below),
        },
    }
