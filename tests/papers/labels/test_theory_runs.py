"""The studies behind the chapter on label-private optimisation, in small, and what its ledger makes of them."""

from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from book.evidence import claims, rules
from dplib import debiased
from dplib import randomised_response as response
from papers.labels import bounds, theory_rows
from papers.labels import theory_checks as checks
from papers.labels import theory_runs as study
from tests.toys import in_memory


@pytest.fixture(scope="module")
def check():
    return study.checks(in_memory, cases=20, epsilon=1.0, delta=1e-6, seeds=2)


def test_step_sizes_are_those_of_the_theorems():
    assert study.printed_rate("rr", 2, 1.0, 1e-3) == pytest.approx(1 / 6)  # D eps / (6 K L)
    assert study._scale("rr", 100, 2, 8, 1.0, 1e-3) == pytest.approx(2 * np.tanh(0.5))


def test_exact_rows_of_the_ledger_hold_and_can_fail(check):
    values_ = theory_rows.algorithms(check, 1e-6)
    for claim, values in values_.items():
        one = claims.get(claim)
        assert rules.verdict(asdict(one), values, one.published) == one.expects
    worse = {**values_["C.alg5"], "epsilon_of_the_last_iterate_less_epsilon": 1e-3}
    assert rules.verdict(asdict(claims.get("C.alg5")), worse, {}) == "fails"


@pytest.mark.parametrize("epsilon", [0.2, 0.6, 0.8, 2.0])
def test_plain_training_on_answers_ends_at_the_worst_weights_below_ln_2(epsilon):
    """The proposition's example: three labels, losses |w - 1|, |w + 1|, |w + 1|, every true label the first."""
    chances = np.exp(response.log_table(np.ones(3, dtype=bool), epsilon))[0]
    w = np.linspace(-1, 1, 201)
    losses = np.abs(w[:, None] - np.array([1.0, -1.0, -1.0]))
    assert w[(losses @ chances).argmin()] == (-1 if epsilon < np.log(2) else 1)
    gradients = np.array([[[-1.0], [1.0], [1.0]]])
    steps = [debiased.debiased_gradient(gradients, np.array([answer]), epsilon).item() for answer in range(3)]
    assert chances @ steps == pytest.approx(-1)


def test_a_prior_helps_the_bound_where_it_seldom_misses():
    good, poor = theory_rows.by_prior()["C.s-good-prior-nonconvex"].values()
    assert poor < 1 < good
    rare = theory_rows.by_prior(epsilon=0.01, n=10**6)["C.s-good-prior-nonconvex"]
    assert min(rare.values()) > poor  # the noisier the answers, the less a miss weighs


def test_normal_noise_gains_the_root_of_the_number_of_labels_in_the_bound():
    assert theory_rows.gain_in_labels((2, 8, 32), 1.0, 1e-6) == pytest.approx(0.5, abs=0.01)
    assert theory_rows.gain_in_labels((2, 8, 32), 60.0, 0.1) > 0.8  # hardly any noise, and so nothing that grows with K


@pytest.mark.parametrize(("n", "epsilon"), [(4, 0.7), (30, 0.7), (30, 4.0)])
def test_in_one_dimension_a_private_choice_keeps_its_promises(n, epsilon):
    """The proposition's mechanism on random absolute losses, D = 2 and L = 1: its bound, and its exact loss."""
    rng = np.random.default_rng(n)
    middles, grid = (2 * np.arange(n) + 1) / n - 1, np.linspace(-1, 1, 2001)
    kinks = rng.uniform(-1, 1, (2, n))
    kinks[1, 1:] = kinks[0, 1:]  # neighbours: another label has another loss

    def chances(b):
        total = (abs(middles[:, None] - b) - abs(b)).sum(axis=1)
        odds = np.exp(-epsilon * (total - total.min()) / 4)
        return odds / odds.sum()

    first, second = map(chances, kinks)
    assert abs(np.log(first / second)).max() <= epsilon
    excess = abs(middles[:, None] - kinks[0]).mean(axis=1) - abs(grid[:, None] - kinks[0]).mean(axis=1).min()
    assert first @ excess <= 2 / n * (2 * (1 + np.log(n)) / epsilon + 0.5)


def test_many_copies_of_an_example_are_as_rare_as_lemma_16_needs():
    delta = np.geomspace(1e-12, 1, 200)
    most = np.floor(4 * np.log(2 / delta))
    assert (stats.binom.sf(most, 10**6, 1e-6) <= delta / 2).all()
    inner = 1.0 / (4 * np.log(2 / delta)), np.exp(-1.0) * delta / (8 * np.log(2 / delta))
    assert (bounds.group_delta(*inner, most) <= delta / 2).all()


def test_moving_labels():
    nine, ten = checks.moving_labels(30, np.random.default_rng(4))
    assert 0 < ten <= nine <= 1
    assert checks.moving_labels_at_worst(0.2) == pytest.approx(0.4, rel=1e-5)


def test_lemma_20_is_an_inequality_that_can_be_reached():
    assert 0.5 < checks.lemma_20(400, np.random.default_rng(5)) <= 1 + 1e-12


def test_generalisation_runs_and_its_mean():
    line = debiased.LabelsOnLine(4, 2, 0.7)
    risks = checks.generalisation(line, 400, 0.8, 200, np.random.default_rng(6))
    assert all(v.shape == (200,) for v in risks.values())
    single, members = risks["single"], line.members
    inside = np.take_along_axis(line.chances, members, axis=1)
    of_members = line.loss[0][members]
    answered = (inside * of_members).sum(axis=1) + (1 - inside.sum(axis=1)) * of_members.mean(axis=1)
    moved = answered.mean() - line.population_risk(1.0)  # labels outside Y_k are answered at random from it
    assert 0 < abs(moved) <= line.miss
    assert abs(single.mean() - moved) < 5 * single.std() / np.sqrt(200)
    assert (risks["deviation"] >= abs(risks["regret"]) / 2 - 1e-12).all()


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_remarks_of_the_appendices(k, epsilon):
    """(a), (c) and (e) of chapter 10b's five: a plain gradient leans, two labels are the known case, and k* is k."""
    rng = np.random.default_rng(k)
    q, gradients = 1 / (np.exp(epsilon) + k - 1), rng.standard_normal((k, 3))
    law = np.full(k, q)
    law[0] = np.exp(epsilon) * q
    mean = law @ gradients  # of the plain gradient at the answer, the true label being the first
    assert np.allclose(mean, (np.exp(epsilon) - 1) * q * gradients[0] + q * gradients.sum(axis=0))
    assert (abs(mean - gradients[0]).max() > 1e-3) == (k > 1)
    prior = rng.permutation([1 / k] * k + [0.0] * (9 - k))
    assert response.best_k(prior, epsilon) == k
    assert (response.kept(prior, epsilon) == (prior > 0)).all()
    if k == 2:
        losses, flip = np.array([0.3, 0.9]), 1 / (1 + np.exp(epsilon))
        known = ((1 - flip) * losses - flip * losses[::-1]) / (1 - 2 * flip)  # Natarajan and others (2013), Lemma 1
        assert np.allclose(debiased.debiased_loss(losses, epsilon), known)
