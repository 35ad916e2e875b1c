"""The three epsilons of an annealed training, against an independent accountant and against each other."""

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.rdp import RdpAccountant

from dplib import accounting
from dplib.checks import ParameterError
from dplib.screening import annealing_accounts

DELTA = 1e-5
TABLE_2 = [(512 / 60_000, 1.23, 4698), (2048 / 60_000, 2.15, 1157), (1024 / 50_000, 1.54, 1435)]
QUICK = 0.1, 3.0  # sample rate and noise for which PLD takes a moment


@pytest.mark.parametrize(("q", "sigma", "steps"), TABLE_2)
def test_the_paper_counts_as_an_independent_accountant_does(q, sigma, steps):
    """dp_accounting's RDP over the same orders, converted by Lemma 2."""
    accountant = RdpAccountant(list(range(2, 65)))
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(q, GaussianDpEvent(sigma)), steps))
    theirs = (np.array(accountant._rdp) + np.log(1 / DELTA) / (np.arange(2, 65) - 1)).min()
    assert annealing_accounts.paper_epsilon(sigma, q, steps, DELTA) == pytest.approx(theirs, rel=1e-9)
    assert annealing_accounts.steps_allowed(3, sigma, q, DELTA) == steps


def test_the_three_epsilons_are_ordered():
    q, sigma = QUICK
    spent = annealing_accounts.epsilons(50, 120, sigma, q, DELTA)
    assert spent["accepted"] == annealing_accounts.paper_epsilon(sigma, q, 50, DELTA)
    assert spent["accepted"] < spent["queries_pld"] < spent["queries_rdp"]
    assert spent["queries_rdp"] < annealing_accounts.paper_epsilon(sigma, q, 120, DELTA)


def test_the_search():
    for answer in (0, 1, 2, 57, 1000):
        for guess in (1, 50, 1000, 4000):
            assert annealing_accounts.most_steps(lambda n, a=answer: 3.0 if n <= a else 3.1, 3.0, guess) == answer


def test_any_count_will_do():
    q, sigma = QUICK
    own = annealing_accounts.steps_allowed(1.5, sigma, q, DELTA, annealing_accounts.paper_epsilon)
    assert own == annealing_accounts.steps_allowed(1.5, sigma, q, DELTA)
    with pytest.raises(ParameterError, match="count"):
        annealing_accounts.steps_allowed(1.5, sigma, q, DELTA, "lemma 4")


@pytest.mark.parametrize("count", [*annealing_accounts.COUNTS, "prv"])
def test_steps_allowed_are_the_most(count):
    q, sigma = QUICK
    steps = annealing_accounts.steps_allowed(1.5, sigma, q, DELTA, count)
    if count == "paper":
        spent = [annealing_accounts.paper_epsilon(sigma, q, steps + i, DELTA) for i in (0, 1)]
    else:
        spent = [accounting.epsilon(sigma, q, steps + i, DELTA, count) for i in (0, 1)]
    assert spent[0] <= 1.5 < spent[1]
    assert annealing_accounts.steps_allowed(0.001, sigma, q, DELTA, count) == 0


def test_curves_agree_with_the_accountants():
    q, sigma = QUICK
    counts = [0, 1, 60, 120]
    for count in annealing_accounts.COUNTS:
        curve = annealing_accounts.curve(counts, sigma, q, DELTA, count)
        assert curve[0] == 0
        assert (np.diff(curve) > 0).all()
    tight = annealing_accounts.curve([120], sigma, q, DELTA, "pld")[0]
    assert tight == pytest.approx(accounting.epsilon(sigma, q, 120, DELTA, "pld"), rel=5e-3)
