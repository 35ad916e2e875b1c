import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant

from book.evidence import claims
from dplib import accounting, mechanisms
from dplib.checks import ParameterError
from papers.architecture import printed_budgets
from papers.architecture.printed_budgets import ROWS, PrintedTraining

TUTORIAL = PrintedTraining(60_000, 250, 15, 1.3)  # the setting of tensorflow-privacy's tutorial
FIT = {row.epsilon: row.fit for row in ROWS if row.epsilon != "2.11"}


def test_the_tool_reports_the_tutorials_value_by_the_classical_conversion():
    assert printed_budgets.rounds_to(printed_budgets.tool_epsilon(TUTORIAL, "classical"), "1.18")
    assert printed_budgets.tool_epsilon(TUTORIAL) < 1.0  # version 0.6.2 gives less


@pytest.mark.parametrize("setting", [TUTORIAL, FIT["4.87"], FIT["0.391"], FIT["0.0196"]])
def test_the_tool_is_googles_accountant_at_its_orders(setting):
    """The accountant that took over the tool's code."""
    accountant = RdpAccountant(printed_budgets.TOOL_ORDERS)
    step = dp_event.PoissonSampledDpEvent(setting.sample_rate, dp_event.GaussianDpEvent(setting.noise_multiplier))
    accountant.compose(dp_event.SelfComposedDpEvent(step, setting.steps))
    assert printed_budgets.tool_epsilon(setting) == pytest.approx(accountant.get_epsilon(setting.delta), rel=1e-6)


def test_the_tool_by_hand():
    """A full batch: order a costs steps a / (2 noise^2), and the price of the conversion; least over orders."""
    setting = PrintedTraining(191, 191, 40, 100.0)
    by_hand = min(
        40 * a / 2e4 + math.log(1 - 1 / a) - (math.log(1e-5) + math.log(a)) / (a - 1)
        for a in printed_budgets.TOOL_ORDERS
    )
    assert setting.steps == 40
    assert printed_budgets.tool_epsilon(setting) == pytest.approx(by_hand, rel=1e-12)
    assert math.isnan(printed_budgets.tool_epsilon(PrintedTraining(191, 250, 40, 100.0)))  # the tool refuses


def test_a_little_noise_costs_what_the_least_order_says():
    """With noise 1e-4 two batches never overlap: order 5/4 costs (a log q + a (a - 1) / (2 noise^2)) / (a - 1)."""
    setting = FIT["1.47e11"]
    one_step = (1.25 * math.log(100 / 4700) + 1.25 * 0.25 / 2e-8) / 0.25
    assert printed_budgets.tool_epsilon(setting) == pytest.approx(2350 * one_step, rel=1e-9)


def test_the_floor_of_the_tool():
    """No order above 512: 0.00837 at delta 1e-5, above one printed value; 0 where the noise is beyond all use."""
    floor = printed_budgets.tool_floor(1e-5)
    assert floor == pytest.approx(math.log(511 / 512) - math.log(512e-5) / 511, rel=1e-12)
    noisy = [printed_budgets.tool_epsilon(PrintedTraining(22_750, 250, 40, noise)) for noise in (1e2, 1e3, 1e4)]
    assert noisy[0] > noisy[1] > noisy[2] > floor > 0.00817
    assert printed_budgets.tool_epsilon(PrintedTraining(22_750, 250, 40, 1e7)) == 0


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.epsilon}-{row.claims[0]}")
def test_rows_quote_the_ledger_and_settled_settings_give_the_printed_digits(row):
    assert row.fit is None or printed_budgets.rounds_to(printed_budgets.tool_epsilon(row.fit), row.epsilon)
    for id_ in row.claims:
        published = claims.get(id_).published
        numbers = [value for value in published.values() if isinstance(value, int | float)]
        assert not numbers or any(math.isclose(value, float(row.epsilon), rel_tol=0.006) for value in numbers)
        if row.stated:
            for name in {"epochs", "batch_size", "noise_multiplier"} & set(published):
                assert getattr(row.fit, name) == published[name]


def test_rounding():
    low, high = printed_budgets.rounding_interval("1.47e11")
    assert (low, high) == pytest.approx((1.465e11, 1.475e11))
    assert printed_budgets.rounding_interval("0.0196") == pytest.approx((0.01955, 0.01965))
    assert printed_budgets.rounds_to(2.105, "2.11")
    assert not printed_budgets.rounds_to(2.3304, "2.34")  # 500 epochs of batch 100, which nearly fits CIFAR-10


def test_fits_are_those_of_an_exhaustive_search():
    grid = {"noises": [1.0, 1.5, 2.0], "batches": [100, 250], "epochs": np.arange(150, 260)}
    expected = {
        one
        for one in itertools.product(*grid.values())
        if printed_budgets.rounds_to(
            printed_budgets.tool_epsilon(PrintedTraining(50_000, one[1], one[2], one[0])), "2.34"
        )
    }
    assert printed_budgets.fits("2.34", 50_000, 1e-5, **grid) == expected
    assert (2.0, 250, 200) in expected


def test_families_share_one_setting():
    cnns, fcns, mnist, sms = ROWS[:3], ROWS[3:7], ROWS[12:15], ROWS[15:18]
    assert (1.0, 100, 300) in printed_budgets.common_fits(cnns)
    fits = printed_budgets.common_fits(fcns)
    assert {(2.0, 250, 200), (2.0, 200, 250)} <= set(fits)
    assert (2.0, 100, 500) not in fits
    assert printed_budgets.common_fits(mnist, own_noise=True) == [(250, 200)]
    assert printed_budgets.common_fits(sms, own_noise=True, epochs=np.arange(1, 1001)) == [(100, 50)]


def test_shuffled_bounds():
    setting = FIT["2.34"]
    exact = mechanisms.gaussian_epsilon(2.0, math.sqrt(200), 1e-5)
    assert printed_budgets.shuffled_epsilon(setting) == pytest.approx(exact)
    assert printed_budgets.shuffled_lower_bound(setting) < accounting.inverted_epsilon(2.0, 1 / 200, 40_000, 1e-5)
    one_batch = PrintedTraining(100, 100, 30, 5.0)  # a full batch leaves nothing open: the two bounds meet
    assert printed_budgets.shuffled_lower_bound(one_batch) == pytest.approx(printed_budgets.shuffled_epsilon(one_batch))


SMALL_SETTINGS = [(1.0, 0.02, 100, 1e-5), (2.0, 0.2, 20, 1e-6), (8.0, 0.5, 9, 1e-3)]


@pytest.mark.parametrize(("sigma", "q", "steps", "delta"), SMALL_SETTINGS)
def test_inversion_lies_between_proven_bounds(sigma, q, steps, delta):
    """Privacy losses rounded up and down to a grid: epsilon lies between, whatever the grid."""
    bounds = [
        privacy_loss_distribution.from_gaussian_mechanism(
            sigma,
            sampling_prob=q,
            value_discretization_interval=2e-4,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        )
        .self_compose(steps)
        .get_epsilon_for_delta(delta)
        for pessimistic in (False, True)
    ]
    epsilon_ = accounting.inverted_epsilon(sigma, q, steps, delta)
    assert bounds[0] <= epsilon_ <= bounds[1] * (1 + 1e-6)
    assert bounds[1] - bounds[0] < 0.03


def test_inversion_of_nearly_full_batches_is_the_gaussian_mechanism():
    nearly = accounting.inverted_epsilon(10.0, 1 - 1e-12, 40, 1e-5)
    assert nearly == pytest.approx(mechanisms.gaussian_epsilon(10.0, math.sqrt(40), 1e-5), rel=1e-8)


# Where epsilon is large, the integral at budgets far below it is a difference of nearly equal terms. A search that
# began there gave 0 and 70.7 of the first two, 181.6 of the third.
@pytest.mark.parametrize("setting", [
    (9.740391611830479, 0.27294128508718773, 86465, 1.1e-10),
    (0.8114637496321656, 0.015182798677631847, 80706, 6.7e-10),
    (0.2583170527483965, 0.01967868074491237, 11000, 3.4620839387146965e-05),
])  # fmt: skip
def test_inversion_where_epsilon_is_large(setting):
    bounds = accounting.bounds([setting[:3]], setting[3])
    assert bounds.low * (1 - 1e-3) <= accounting.inverted_epsilon(*setting) <= bounds.high


def test_inversion_refuses_what_it_cannot_do():
    for bad in ((0.0, 0.1, 10, 1e-5), (1.0, 1.0, 10, 1e-5), (1.0, 0.1, 0, 1e-5), (1.0, 0.1, 10, 0.0)):
        with pytest.raises(ParameterError):
            accounting.inverted_epsilon(*bad)
