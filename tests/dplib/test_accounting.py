"""Accounting: multi-precision arithmetic, closed forms, Opacus, dp_accounting, the accountants against each other.

Random settings come from fixed seeds; the tests are deterministic.
"""

import inspect
import itertools
import subprocess
import sys
import warnings

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from opacus.accountants import RDPAccountant
from opacus.accountants.analysis import rdp as opacus_rdp
from opacus.accountants.utils import get_noise_multiplier
from scipy import fft, integrate, stats

from dplib import accounting, exact_loss, mechanisms, rdp
from dplib.checks import ParameterError

DELTA = 1e-5


def numbers(few, many):
    """So many settings each time, and so many in ``make test-long``."""
    return pytest.mark.parametrize("n", [few, pytest.param(many, marks=pytest.mark.long)])


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Results are computed, not read from an earlier run's cache."""
    monkeypatch.setenv("DPLIB_CACHE", str(tmp_path))
    return tmp_path


def settings(n, seed, sigma=(0.4, 20), q=(1e-4, 0.9), steps=(1, 10_000)):
    """n random settings, each part log-uniform between its ends: noise multipliers, sample rates, steps."""
    rng = np.random.default_rng(seed)
    sigma, q, steps = (np.exp(rng.uniform(np.log(a), np.log(b), n)) for a, b in (sigma, q, steps))
    return sigma, q, np.ceil(steps)


# ---- Rényi DP ----


@numbers(12, 40)
def test_moments_against_thirty_digits(n):
    """The definition itself, integrated or summed in multi-precision, also where the divergence is tiny."""
    sigma, q, _ = settings(n, seed=1, sigma=(0.15, 50), q=(1e-6, 0.99))
    order = np.random.default_rng(2).choice(rdp.ORDERS[rdp.ORDERS < 100], n)
    moments = rdp.log_moment(sigma, q, order)
    for i in range(n):
        assert moments[i] == pytest.approx(exact_moment(sigma[i], q[i], order[i]), rel=1e-9, abs=0)


def test_with_hardly_any_noise_fractional_orders_go_on_from_whole_ones():
    """Below 0.05 two bumps are added up in place of an integral; of whole orders it is a sum."""
    sigma, q, order = np.array(list(itertools.product((1e-3, 0.049), (1e-6, 0.9), (2.0, 9.0)))).T
    assert rdp.log_moment(sigma, q, order + 1e-10) == pytest.approx(rdp.log_moment(sigma, q, order), rel=1e-7)


def exact_moment(sigma, q, order):
    with mpmath.workdps(30):
        s, q = mpmath.mpf(float(sigma)), mpmath.mpf(float(q))
        if order == int(order):
            k = range(int(order) + 1)
            terms = [mpmath.binomial(int(order), i) * q**i * (1 - q) ** (int(order) - i) for i in k]
            total = mpmath.fsum(
                t * mpmath.exp(mpmath.mpf(i * i - i) / (2 * s * s)) for t, i in zip(terms, k, strict=True)
            )
            return float(mpmath.log(total))
        order = mpmath.mpf(float(order))

        def density(u):
            ratio = mpmath.exp(u / s - 1 / (2 * s * s))
            return mpmath.npdf(u) * (1 - q + q * ratio) ** order

        kink = s * mpmath.log(1 / q - 1) + 1 / (2 * s)
        ends = -16, order / s + 16
        inner = (-5, 0, 5, 2 / s, order / s - 5, order / s, order / s + 5, kink - 2 * s, kink, kink + 2 * s)
        points = sorted({mpmath.mpf(p) for p in (*ends, *inner) if ends[0] <= p <= ends[1]})
        return float(mpmath.log(mpmath.quad(density, points, maxdegree=7)))


@numbers(1000, 10000)
def test_divergences_equal_opacus(n):
    """Equal to 1e-9 relative, or to the 5e-13 at which Opacus ends its series and loses digits of log A near 0."""
    sigma, q, steps = settings(n, seed=3)
    order = np.random.default_rng(4).choice(rdp.OPACUS_ORDERS, n)
    ours = rdp.log_moment(sigma, q, order)
    theirs = [opacus_rdp._compute_log_a(*setting) for setting in zip(q, sigma, order, strict=True)]
    assert ours == pytest.approx(np.array(theirs), rel=1e-9, abs=5e-13)
    one_by_one = [rdp.rdp(sigma[i], q[i], steps[i], order[i : i + 1])[0] for i in range(20)]
    assert one_by_one == pytest.approx(ours[:20] * steps[:20] / (order[:20] - 1), rel=1e-14)


@numbers(20, 100)
def test_epsilon_equals_opacus(n):
    """All of Opacus's orders: 1e-9 relative, in one call."""
    sigma, q, steps = settings(n, seed=5, q=(1e-3, 0.5))
    ours = rdp.epsilon(sigma, q, steps, DELTA, orders=rdp.OPACUS_ORDERS)
    assert ours == pytest.approx([opacus_epsilon(*s) for s in zip(sigma, q, steps, strict=True)], rel=1e-9)
    assert (rdp.epsilon(sigma, q, steps, DELTA) <= ours).all(), "more orders, never a worse bound"


def opacus_epsilon(sigma, q, steps):
    accountant = RDPAccountant()
    accountant.history = [(sigma, q, steps)]
    with warnings.catch_warnings(action="ignore"):  # that the best order is the last one
        return accountant.get_epsilon(DELTA)


def test_the_best_order_is_found_without_trying_all():
    sigma, q, steps = settings(500, seed=6, sigma=(0.2, 50), q=(1e-5, 1))
    for conversion in ("improved", "classical"):
        divergence = rdp.rdp(sigma, q, steps)
        tried = rdp.to_epsilon(divergence, rdp.ORDERS, np.full(500, DELTA), conversion).min(axis=1)
        assert rdp.epsilon(sigma, q, steps, DELTA, conversion) == pytest.approx(tried, rel=1e-12)


@pytest.mark.parametrize("sigma", [0.0, 1e-100, 0.7, 3.0])
def test_a_curve_over_steps_is_what_each_setting_has(sigma):
    """One setting at few numbers of steps takes all orders at once; beside another setting, the best one is sought."""
    steps = np.array([0, 1, 7, 5000])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curve = rdp.epsilon(sigma, 0.02, steps, 1e-5)
        assert [rdp.epsilon(sigma, 0.02, n, 1e-5) for n in steps] == curve.tolist()
        beside = rdp.epsilon(np.array([sigma] * 4 + [5.0]), 0.02, np.append(steps, 1), 1e-5)[:4]
    assert curve[0] == 0
    assert curve == pytest.approx(beside, rel=1e-12)


def test_conversions():
    """Classical: Mironov 2017, Proposition 3. Improved: dp_accounting's, and never worse."""
    orders, divergence = np.array([1.5, 3, 10, 64]), np.array([0.2, 0.5, 2, 15])
    classical = rdp.to_epsilon(divergence, orders, DELTA, "classical")
    improved = rdp.to_epsilon(divergence, orders, DELTA, "improved")
    assert classical == pytest.approx(divergence + np.log(1e5) / (orders - 1))
    reference = [
        rdp_privacy_accountant.compute_epsilon([a], [r], DELTA)[0] for a, r in zip(orders, divergence, strict=True)
    ]
    assert improved == pytest.approx(reference)
    assert (improved < classical).all()


@pytest.mark.parametrize(
    ("divergences", "orders", "match"),
    [
        ([0.1], [2.0, 1000.0], "one an order"),  # the order that 0.1 was not computed at would give epsilon 0.1
        ([0.1, 0.2], 2.0, "one an order"),
        ([1.0], [0.5], "orders = 0.5 is not allowed"),  # classically, epsilon 0
        ([-9.0, 0.2], [2.0, 3.0], "no divergence"),
        ([np.nan, 0.2], [2.0, 3.0], "no divergence"),
    ],
)
def test_divergences_that_are_not_those_of_the_orders_are_refused(divergences, orders, match):
    for conversion in ("classical", "improved"):
        with pytest.raises(ParameterError, match=match):
            rdp.to_epsilon(divergences, orders, DELTA, conversion)


# ---- accountants against each other and against the exact value ----


def test_rdp_bounds_the_gaussian_mechanism_from_above():
    """Ten thousand full-batch settings against the exact epsilon, both conversions."""
    sigma, _, steps = settings(10_000, seed=7, sigma=(0.3, 100))
    delta = 10 ** np.random.default_rng(8).uniform(-10, -1, 10_000)
    exact = mechanisms.gaussian_epsilon(sigma / np.sqrt(steps), 1.0, delta)
    improved, classical = (rdp.epsilon(sigma, 1.0, steps, delta, c) for c in ("improved", "classical"))
    assert (improved >= exact * (1 - 1e-12)).all()
    assert (classical >= improved).all()


@numbers(10, 30)
def test_pld_bounds_the_gaussian_mechanism_from_above(n):
    """Full-batch settings that go through the grid: never below the exact value, and within the stated error."""
    sigma, _, steps = settings(n, seed=9, sigma=(1, 50), steps=(1, 200))
    for s, t in zip(sigma, steps, strict=True):
        phases = ((float(s), 1.0, int(t)),)
        exact = mechanisms.gaussian_epsilon(s / np.sqrt(t), 1.0, DELTA)
        low, high, _ = accounting._pld(phases, DELTA, rdp.epsilon(s, 1.0, t, DELTA), "")
        assert low <= exact <= high
        assert accounting.bounds(list(phases), DELTA, "pld").high == pytest.approx(exact, rel=1e-12)


@numbers(12, 60)
def test_rdp_is_above_pld(n):
    sigma, q, steps = settings(n, seed=10, sigma=(0.6, 10), q=(1e-3, 0.5), steps=(1, 1000))
    pld = accounting.epsilon(sigma, q, steps, DELTA, "pld")
    assert (pld > 0).mean() > 0.75
    assert (accounting.epsilon(sigma, q, steps, DELTA, "rdp") >= pld).all()


@numbers(4, 16)
def test_prv_and_pld_agree_within_their_errors(n):
    """Random settings, two phases in every third."""
    sigma, q, steps = settings(n, seed=11, sigma=(0.7, 8), q=(1e-3, 0.3), steps=(10, 1000))
    for i, phase in enumerate(zip(sigma, q, steps, strict=True)):
        phases = [phase, (1.3, 0.02, 100)] if i % 3 == 0 else [phase]
        prv, pld = (accounting.bounds(phases, DELTA, accountant) for accountant in ("prv", "pld"))
        assert prv.low <= pld.high
        assert pld.low <= prv.high
        assert pld.high - pld.low <= 0.0034 * pld.high + 1e-5
        assert prv.high - prv.low <= 0.045 * prv.high + 0.003


@pytest.mark.parametrize(("phase", "delta"), [((29.66, 0.0107, 8035), 6.9e-10), ((0.73, 4.4e-5, 3286), 1.2e-6)])
def test_a_coarser_grid_is_still_an_upper_bound(phase, delta, monkeypatch):
    """Settings that took 10 to 40 s: what few points give is above what more give, and above the other accountant."""
    values_ = {"prv": [], "pld": []}
    for share in (16, 4):
        monkeypatch.setattr(accounting, "_POINTS", 1_500_000 // share)
        monkeypatch.setattr(accounting, "_LOSSES", 60_000 // share)
        for accountant, compute in (("prv", accounting._prv), ("pld", accounting._pld)):
            values_[accountant].append(compute((phase,), delta, rdp.epsilon(*phase, delta), "")[:2])
    for (_, coarse), (_, fine) in values_.values():
        assert rdp.epsilon(*phase, delta) >= coarse >= fine > 0
    assert max(low for bounds in values_.values() for low, _ in bounds) <= min(
        high for bounds in values_.values() for _, high in bounds
    )


def test_a_bound_has_at_most_some_million_points(monkeypatch):
    """What takes long is the grid: 526 s at worst for one of PRV, 30 GB for one of PLD."""
    from opacus.accountants.analysis.prv import prvs

    sizes, discretize = [], prvs.discretize
    monkeypatch.setattr("opacus.accountants.prv.discretize", lambda p, d: sizes.append(d.size) or discretize(p, d))
    composed = accounting._loss_distribution
    monkeypatch.setattr(
        accounting,
        "_loss_distribution",
        lambda *a: [one := composed(*a), sizes.append(max(one._pmf_remove.size, one._pmf_add.size))][0],
    )
    phase, delta = (1.84, 1.1e-5, 190_804), 8.6e-4
    for accountant in ("prv", "pld"):
        assert 0 < accounting.epsilon(*phase, delta, accountant) < rdp.epsilon(*phase, delta)
    assert len(sizes) > 4
    assert max(sizes) < 2_000_000


def test_what_rdp_shows_to_be_nothing_is_nothing():
    """At delta = 0.062 the exact epsilon is 0; the grids took half a minute to say so."""
    assert accounting.bounds([(7.8, 1.5e-4, 962_187)], 0.062, "prv") == accounting.Bounds(0.0, 0.0)


@pytest.mark.parametrize("accountant", accounting.ACCOUNTANTS)
def test_epsilon_is_monotone(accountant):
    noise = accounting.epsilon([4.0, 2.0, 1.0, 0.7], 0.02, 500, DELTA, accountant)
    rate = accounting.epsilon(1.0, [0.001, 0.01, 0.1, 1.0], 100, DELTA, accountant)
    steps = accounting.epsilon(1.0, 0.02, [0, 1, 10, 100, 1000], DELTA, accountant)
    delta = accounting.epsilon(1.0, 0.02, 500, [1e-2, 1e-4, 1e-6], accountant)
    for values in (noise, rate, steps, delta):
        assert (np.diff(values) > 0).all()
    assert steps[0] == 0


# ---- calibration ----


def test_a_thousand_calibrations_come_back_to_their_targets():
    rng = np.random.default_rng(12)
    _, q, steps = settings(1000, seed=13, q=(1e-4, 1.0))
    target = np.exp(rng.uniform(np.log(0.1), np.log(50), 1000))
    for conversion in ("improved", "classical"):
        noise = rdp.noise_multiplier(target, q, steps, DELTA, conversion)
        assert (rdp.epsilon(noise, q, steps, DELTA, conversion) <= target * (1 + 1e-12)).all()
        assert (rdp.epsilon(noise * (1 - 2e-6), q, steps, DELTA, conversion) > target).all()


@pytest.mark.filterwarnings("ignore:Optimal order")
def test_calibration_against_opacus():
    """Opacus stops at most 0.01 below the target; ours is never more noise than its answer."""
    for target, q, steps in [(0.5, 0.01, 1000), (3.0, 0.02, 500), (8.0, 0.004, 5000)]:
        theirs = get_noise_multiplier(target_epsilon=target, target_delta=DELTA, sample_rate=q, steps=steps)
        ours = rdp.noise_multiplier(target, q, steps, DELTA, orders=rdp.OPACUS_ORDERS)
        assert opacus_epsilon(ours, q, steps) <= target * (1 + 1e-9)
        assert theirs * 0.95 < ours <= theirs


@pytest.mark.parametrize("accountant", accounting.ACCOUNTANTS)
def test_calibration_round_trip(accountant):
    for target, q, steps in [(0.3, 0.01, 200), (2.0, 0.05, 100), (1.0, 1.0, 10)]:
        noise = accounting.noise_multiplier(target, q, steps, DELTA, accountant)
        assert target * 0.999 < accounting.epsilon(noise, q, steps, DELTA, accountant) <= target
        assert accounting.epsilon(noise * 0.999, q, steps, DELTA, accountant) > target


@pytest.mark.parametrize(
    ("target", "q", "steps", "delta"),
    [(0.001, 0.01, 1000, 1e-5), (300, 0.1, 1000, 1e-5), pytest.param(0.05, 1e-4, 10**6, 1e-8, marks=pytest.mark.long)],
)
def test_a_calibration_takes_few_grids(target, q, steps, delta, monkeypatch):
    """Forty seconds by PRV once, in a bracket that widened by steps of 0.3; a million points take half a second."""
    from opacus.accountants.analysis.prv import prvs

    sizes, discretize = [], prvs.discretize
    monkeypatch.setattr("opacus.accountants.prv.discretize", lambda p, d: sizes.append(d.size) or discretize(p, d))
    noise = accounting.noise_multiplier(target, q, steps, delta, "prv")
    assert len(sizes) <= 10
    assert sum(sizes) < 8_000_000
    spent = [accounting.epsilon(sigma, q, steps, delta, "prv") for sigma in (noise, noise * 0.999)]
    assert spent[0] <= target < spent[1]


def test_a_calibration_by_pld_ends_where_its_work_does(monkeypatch):
    """A setting that took twelve evaluations and eight seconds, since refined grids and others take turns."""
    target, q, steps, delta = 1.0, 1e-6, 10**6, 1e-5
    works, bounds = [], accounting._bounds
    monkeypatch.setattr(accounting, "_bounds", lambda *a: [one := bounds(*a), works.append(one[1])][0])
    noise = accounting.noise_multiplier(target, q, steps, delta)
    assert accounting._WORK < sum(works) < 1.5 * accounting._WORK
    spent = [accounting.epsilon(sigma, q, steps, delta) for sigma in (noise, noise * 0.985)]
    assert spent[0] <= target < spent[1]


def test_the_default_does_without_opacus():
    """Whose import takes seconds."""
    program = (
        "import sys, dplib; how = dict(sample_rate=0.1, steps=10, delta=1e-5);"
        "dplib.epsilon(1.0, **how), dplib.noise_multiplier(1.0, **how), dplib.bounds([(1.0, 0.1, 10)], 1e-5);"
        "sys.exit('opacus' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    signatures = (inspect.signature(f) for f in (accounting.epsilon, accounting.noise_multiplier, accounting.bounds))
    assert {s.parameters["accountant"].default for s in signatures} == {"pld"}


def test_a_calibration_that_ends_early_has_enough_noise(monkeypatch):
    noise = [accounting.noise_multiplier(2.0, 0.05, 100, DELTA)]
    for evaluations in (4, 3, 2):
        monkeypatch.setattr(accounting, "_EVALUATIONS", evaluations)
        noise.append(accounting.noise_multiplier(2.0, 0.05, 100, DELTA))
    assert noise == sorted(noise)
    assert noise[-1] < 1.2 * noise[0]
    assert accounting.epsilon(noise[-1], 0.05, 100, DELTA) <= 2


def test_targets_out_of_reach_are_refused():
    with pytest.raises(ParameterError, match=r"target_epsilon = 0.001 is not allowed.*orders up to 1024"):
        rdp.noise_multiplier(0.001, 0.1, 100, DELTA)
    with pytest.raises(ParameterError, match="no noise is needed"):
        accounting.noise_multiplier(1.0, 4.9e-6, 2, DELTA, "pld")
    for wrong in (0, -1, np.nan, np.inf):
        for accountant in ("pld", "rdp"):
            with pytest.raises(ParameterError, match="target_epsilon"):
                accounting.noise_multiplier(wrong, 0.1, 100, DELTA, accountant)


# ---- phases, edges, refusals ----


def test_phases_compose():
    """Split phases are one; full batches add their squared 1/noise; unequal phases are below the sum of epsilons."""
    for accountant in accounting.ACCOUNTANTS:
        whole = accounting.bounds([(1.2, 0.02, 300)], DELTA, accountant).high
        split = accounting.bounds([(1.2, 0.02, 100), (9.0, 0.5, 0), (1.2, 0.02, 200)], DELTA, accountant).high
        assert split == whole == accounting.epsilon(1.2, 0.02, 300, DELTA, accountant)
        both = accounting.bounds([(1.2, 0.02, 300), (2.0, 0.1, 50)], DELTA, accountant).high
        second = accounting.epsilon(2.0, 0.1, 50, DELTA, accountant)
        assert max(whole, second) < both < whole + second
    full = accounting.bounds([(2.0, 1.0, 3), (4.0, 1.0, 8)], DELTA)
    exact = mechanisms.gaussian_epsilon((3 / 4 + 8 / 16) ** -0.5, 1.0, DELTA)
    assert full.low == full.high == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("accountant", accounting.ACCOUNTANTS)
def test_edges(accountant):
    assert accounting.epsilon(0.0, 0.1, 10, DELTA, accountant) == np.inf
    assert accounting.epsilon(0.0, 1.0, 10, DELTA, accountant) == np.inf
    assert accounting.epsilon(1.0, 0.1, 0, DELTA, accountant) == 0
    assert accounting.epsilon(0.0, 0.1, 0, DELTA, accountant) == 0
    assert accounting.bounds([], DELTA, accountant).high == 0
    assert accounting.bounds([(1.0, 0.1, 10), (0.0, 0.1, 1)], DELTA, accountant).high == np.inf
    assert isinstance(accounting.epsilon(1.0, 0.1, 10, DELTA, accountant), float)
    assert accounting.epsilon([[1.0], [2.0]], 0.1, [5, 10], DELTA, accountant).shape == (2, 2)


def test_many_phases_are_bounded_by_rdp():
    phases = [(1 + i / 1000, 0.01, 10) for i in range(201)]
    assert accounting.bounds(phases, DELTA, "pld") == accounting.bounds(phases, DELTA, "rdp")


@pytest.mark.parametrize("accountant", accounting.ACCOUNTANTS)
@pytest.mark.parametrize("q", [0.5, 1.0])
@pytest.mark.parametrize("sigma", [1e-300, 1e-150])
def test_noise_too_small_to_square_is_none(sigma, q, accountant):
    assert accounting.epsilon(sigma, q, 10, DELTA, accountant) == np.inf


@pytest.mark.parametrize("accountant", accounting.ACCOUNTANTS)
def test_bad_settings_are_refused(accountant):
    good = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 10, "delta": DELTA}
    wrong = {"noise_multiplier": (-1, np.nan, None, [None]), "sample_rate": (0, 1.01), "steps": (2.5,), "delta": (0, 1)}
    for name, value in ((name, value) for name, values in wrong.items() for value in values):
        with pytest.raises(ParameterError, match=f"{name} = .*must be"):
            accounting.epsilon(**good | {name: value}, accountant=accountant)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: accounting.epsilon(1.0, 0.1, 10, DELTA, "magic"), r"accountant = 'magic'.*pld, prv, rdp"),
        (lambda: accounting.bounds([(1.0, 0.1)], DELTA), "phases must be a list"),
        (lambda: rdp.epsilon(1.0, 0.1, 10, DELTA, orders=[1, 2]), r"orders = 1 .*greater than 1"),
        (lambda: accounting.epsilon(0.1, 0.5, 20, DELTA, "prv"), r"cannot compute.*use 'pld'"),
        (lambda: accounting.selection_epsilon([(1.0, 0.1, 10)], DELTA, 0.5), "mean_runs"),
        (lambda: accounting.selection_epsilon([(1.0, 0.1, 10)], DELTA, 3, np.nan), "shape"),
        (lambda: accounting.selection_epsilon([(1.0, 0.1, 10)], DELTA, 3, "x"), "shape = 'x'"),
        (lambda: accounting.epsilon(1.0, 0.1, 10**400, DELTA), "steps = .* is not allowed: it must be a number"),
        (lambda: accounting.epsilon("1", 0.1, 10, DELTA), "noise_multiplier = '1' is not allowed"),
        (lambda: accounting.epsilon(1.0, 0.1, 10, "a"), "delta = 'a' is not allowed"),
        (lambda: accounting.epsilon([1, 2], [0.1, 0.2, 0.3], 1, DELTA), r"shapes \(2,\), \(3,\), \(\) do not fit"),
        (lambda: accounting.epsilon([1, 2], 0.1, 1, [DELTA] * 3), r"shapes .*\(3,\) do not fit together"),
        (lambda: rdp.epsilon([1, 2], 0.1, 1, [DELTA] * 3), r"shapes .*\(3,\) do not fit together"),
        (lambda: accounting.noise_multiplier("a", 0.1, 10, DELTA), "target_epsilon = 'a' is not allowed"),
        (lambda: accounting.noise_multiplier([1, 2], 0.1, 10, [DELTA] * 3), r"\(2,\).* do not fit together"),
        (lambda: mechanisms.gaussian_epsilon("a", 1, DELTA), "sigma = 'a' is not allowed"),
        (lambda: mechanisms.gaussian_delta([1, 2], [1, 2, 3], 1), r"\(2,\), \(3,\), \(\) do not fit together"),
    ],
)
def test_other_refusals(call, words):
    with pytest.raises(ParameterError, match=words):
        call()


def test_results_are_kept_on_disk(cache, monkeypatch):
    first = accounting.epsilon(1.1, 0.03, 70, DELTA, "pld")
    assert any((cache / "accounting").rglob("*.pkl"))
    monkeypatch.setattr(accounting, "_loss_distribution", lambda *_: pytest.fail("computed again"))
    assert accounting.epsilon(1.1, 0.03, 70, DELTA, "pld") == first


# ---- selection among runs ----


def test_poisson_selection_is_the_papers_theorem():
    """Papernot and Steinke (2022), Theorem 6, written out for one Gaussian step on a full batch."""
    sigma, mean, orders = 3.0, 5.0, rdp.ORDERS[rdp.ORDERS > 1.01]
    curve = rdp.rdp(sigma, 1.0, 1, orders)
    epsilon_hat = np.log1p(1 / (orders - 1))[:, None]
    log_delta_hat = (orders - 1) * (curve - epsilon_hat + np.log1p(-1 / orders)) - np.log(orders)
    total = curve + mean * np.exp(log_delta_hat.min(axis=1)) + np.log(mean) / (orders - 1)
    expected = rdp.to_epsilon(total, orders, DELTA).min()
    ours = accounting.selection_epsilon([(sigma, 1.0, 1)], DELTA, mean)
    assert expected * 0.99 <= ours <= expected * (1 + 1e-9), "dp_accounting may bound delta_hat better for small orders"


@pytest.mark.parametrize("shape", [np.inf, 1.0])
def test_selection_bounds_the_exact_loss_of_a_maximum(shape):
    """The best of K noisy values, K Poisson or geometric, is one real number: its exact loss is an integral."""
    sigma, mean, delta = 2.0, 4.0, 1e-3

    def log_density(centre):
        def log_p(x):
            below, density = stats.norm.cdf(x, centre, sigma), stats.norm.logpdf(x, centre, sigma)
            if shape == 1:  # derivative of F p / (1 - (1 - p) F)
                return density + np.log(1 / mean) - 2 * np.log1p(-(1 - 1 / mean) * below)
            return density + np.log(mean) + mean * (below - 1)  # of e^(mean (F - 1)); no run at all else

        return log_p

    limits = (-12 * sigma, 1 + 12 * sigma)
    epsilon = accounting.selection_epsilon([(sigma, 1.0, 1)], delta, mean, shape)
    exact = optimal_epsilon(log_density(0.0), log_density(1.0), delta, limits)
    assert mechanisms.gaussian_epsilon(sigma, 1.0, delta) < exact < epsilon


def optimal_epsilon(log_p, log_q, delta, limits):
    """Smallest epsilon at delta; the event of no run has the same chance on both sides and costs nothing."""
    low, high = 0.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        below = exact_loss.density_delta(log_p, log_q, middle, limits)[0] <= delta
        low, high = (low, middle) if below else (middle, high)
    return high


@pytest.mark.parametrize("accountant", ["pld", "prv"])
@pytest.mark.parametrize("delta", [1e-12, 1e-14])
def test_small_deltas_are_bounded_from_above(accountant, delta):
    """There the Fourier transforms of a composed distribution have no digits: by inversion no epsilon is smaller."""
    exact = accounting.inverted_epsilon(2.0, 0.02, 5000, delta)
    assert exact < accounting.epsilon(2.0, 0.02, 5000, delta, accountant) < 1.1 * exact


# From accounting.inverted, on lines through several points that agree.
MANY_STEPS = {
    (1.0, 1e-5, 10**8, 1e-7): 0.59553,  # of the Gaussian mechanism to which it tends 0.5952; "prv" said 0
    (1.0, 2.58e-6, 15 * 10**6, 1e-6): 0.04508,  # "prv" said 0
    (1.0, 3e-5, 10**8, 1e-9): 2.2538,  # 0.877, and "pld" 2.220
    (1.0, 3.16e-4, 10**7, 1e-9): 8.35327,  # "pld" said 8.3445
    (2.0, 1e-3, 10**6, 1e-9): 3.12044,
}


@pytest.mark.parametrize("accountant", ["pld", "prv"])
@pytest.mark.parametrize(("setting", "exact"), MANY_STEPS.items())
def test_many_steps_are_bounded_from_above(accountant, setting, exact):
    spent = accounting.epsilon(*setting, accountant)
    assert exact * (1 - 1e-5) < spent <= rdp.epsilon(*setting)


@pytest.mark.parametrize("accountant", ["pld", "prv"])
def test_rounding_is_taken_off_delta_before_there_is_nothing_left_of_it(accountant):
    """Here it is a third of delta: the bound is above the exact value, by more than the grid's share, and below that
    of Rényi accounting; the lower one is below."""
    sigma, q, steps, delta = setting = 4.45, 0.00585, 227_394, 1.4e-9
    assert delta / 4 < accounting._rounding([(sigma, q, steps)], delta) < delta / 2
    spent = accounting.bounds([(sigma, q, steps)], delta, accountant)
    exact = accounting.inverted_epsilon(*setting)
    assert spent.low < exact
    assert 1.005 * exact < spent.high < 0.99 * rdp.epsilon(*setting)


def test_few_steps_are_computed_at_delta_itself():
    assert accounting._rounding([(1.0, 0.01, 50_000), (2.0, 0.01, 50_000)], 1e-6) == 0
    assert accounting._rounding([(1.0, 0.01, 100_000), (2.0, 0.01, 50_000)], 1e-6) > 0


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no extended precision to compare with")
def test_the_rounding_of_transforms_is_bounded():
    """As both libraries compose: what is off in delta at any epsilon, against transforms of more digits."""
    loss, loss_squared = np.arange(-2000, 2001) / 1000, np.linspace(-2, 2, 4001) ** 2
    for scale, steps in [(0.3, 1), (0.1, 20), (1e-2, 3000), (1e-3, 10**6), (1e-4, 10**8)]:
        masses = np.exp(-loss_squared / (2 * scale**2)) + 1e-9 * np.exp(-(loss**2))
        masses /= masses.sum()
        composed = [
            fft.ifft(fft.fft(masses.astype(precision), 8192) ** steps).real for precision in (float, np.longdouble)
        ]
        off = np.roll(composed[0] - composed[1], 4096)
        grid = (np.arange(8192, dtype=np.longdouble) - 4096) / 1000
        above = off[::-1].cumsum()[::-1] - np.exp(grid) * (off * np.exp(-grid))[::-1].cumsum()[::-1]
        assert np.abs(above).max() < accounting._STEP_ROUNDING * steps / 2


def test_the_mean_of_a_step():
    """E[r log r] without the example, by Simpson's rule; q^2 (e^(1/sigma^2) - 1) / 2 for tiny rates."""
    for sigma, q in [(0.5, 0.3), (1.0, 0.01), (4.0, 1e-3)]:
        u = np.linspace(-12, 14, 100_001)
        ratio = 1 + q * np.expm1(u / sigma - 1 / (2 * sigma**2))
        mean = integrate.simpson(stats.norm.pdf(u) * ratio * np.log(ratio), x=u)
        assert accounting._mean_loss(sigma, q) == pytest.approx(mean, rel=1e-6)
    assert accounting._mean_loss(1.0, 1e-7) == pytest.approx(1e-14 * np.expm1(1) / 2, rel=1e-5)


@pytest.mark.parametrize(("off", "wider"), [(5e-4, 0.0), (0.003, 0.003), (0.5, np.inf)])
def test_a_composed_loss_off_its_mean_widens_the_proven_bounds(off, wider, monkeypatch):
    """The error is 0.01: it covers a tenth of it; what is more is added; of more than all of it nothing is left."""
    phases, spent = ((1.0, 0.02, 500),), rdp.epsilon(1.0, 0.02, 500, DELTA)
    low, high = accounting._prv(phases, DELTA, spent, "")
    mean = accounting._mean_loss
    monkeypatch.setattr(accounting, "_mean_loss", lambda *of: mean(*of) + off / 500)
    now = accounting._prv(phases, DELTA, spent, "")
    assert now == pytest.approx((low - wider, high + wider) if np.isfinite(wider) else (0.0, spent), abs=1e-6)


def test_an_estimate_above_a_bound_is_no_lower_bound():
    """bounds() of 5 x 10^7 steps at delta 2e-9 said 8.572 twice, of 8.172: the grid's rounding was above Rényi's."""
    assert accounting._pld(((1.0, 0.02, 500),), DELTA, 1.0, "")[:2] == (0.0, 1.0)
    assert accounting.bounds([(1.0, 1.41e-4, 5 * 10**7)], 2e-9).low <= 8.172


def test_the_estimate_from_below_leaves_out_the_rounding_of_adding():
    """Fine grids make 8% too much of its delta: what that adds to epsilon is no reason to raise the lower end."""
    sigma, q, steps, delta = 1.54, 1.8e-4, 6_600_000, 1e-5
    spent = accounting.bounds([(sigma, q, steps)], delta)
    assert 0 < spent.low <= accounting.inverted_epsilon(sigma, q, steps, delta) <= spent.high
