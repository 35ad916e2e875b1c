"""The checks of RRWithPrior find what they are for, and their small parts agree with closed forms."""

import numpy as np
import pytest

from dplib import randomised_response as response
from papers.labels import response_rows as rows
from papers.labels import response_runs as study


def test_the_checks_pass_on_a_few_priors_and_would_not_pass_anything(monkeypatch):
    checks_ = study.check_priors(epsilon=1.0, seed=0, rounds=1, most_labels=4)
    assert set(checks_["worst"].values()) == {study.ROUNDING}
    assert checks_["counts"]["priors"] == 3 * len(study.KINDS)
    assert checks_["extremes"]["excess_at_99"] > 0
    proper = response.kept  # one label too few where two or more are kept

    def broken(prior, epsilon):
        k = np.count_nonzero(proper(prior, epsilon), axis=-1)
        return response.top(prior, np.maximum(1, k - 1))

    monkeypatch.setattr(response, "kept", broken)
    checks_ = study.check_priors(epsilon=1.0, seed=0, rounds=1, most_labels=4)
    for name in ("sets", "lp1", "lp2", "dual"):
        assert checks_["worst"][name] > 0.01
    assert checks_["worst"]["excess"] == study.ROUNDING, "it is private all the same"


def test_the_released_code_acts_on_a_smaller_budget():
    """It keeps more than k labels where e^epsilon > 2 + D_k / p_(k+1); Algorithm 2 where e^epsilon >= 1 + ..."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        prior = rng.dirichlet(np.ones(6))
        switches = np.log1p(np.exp(response.switch_points(prior)))
        for epsilon in rng.uniform(0.01, 8, 20):
            assert study.released_k(prior, epsilon) == 1 + (switches < epsilon).sum()
    assert study.released_k(np.full(5, 0.2), 0.69) == 1
    assert study.released_k(np.full(5, 0.2), 0.70) == 5


def test_all_small_data_sets():
    counts = study.enumerate_all(epsilon=1.0)
    assert counts["distance"] == [1.0, 2.0, 3.0]
    assert counts["staged"] == 1.0
    assert counts["peeking"] > 0.5
    assert counts["leaks"]["fixed in advance"] == {"infinite": 0.0, "finite": 1.0, "delta": 0.0}
    assert counts["leaks"]["histogram of all labels"]["infinite"] == pytest.approx(0.641975, abs=1e-6)
    assert counts["broken"]["tie"] == 1.0
    assert counts["corners"] == {"polytopes": 4, "vertices": 60, "differ": 0}


@pytest.mark.parametrize("seed", [0, 1])
def test_a_sampler_passes_and_a_wrong_one_does_not(seed, monkeypatch):
    checks_ = study.check_samplers(epsilon=1.0, seed=seed, labels=4, draws=5000)
    assert rows.family_p([checks_], "RR") > 1e-6
    proper = response.rr
    monkeypatch.setattr(response, "rr", lambda y, labels, epsilon, rng: proper(y, labels, 1.2 * epsilon, rng))
    checks_ = study.check_samplers(epsilon=1.0, seed=seed, labels=4, draws=5000)
    assert rows.family_p([checks_], "RR") < 1e-6
    assert rows.family_p([checks_], "RRTop-3") > 1e-6


def test_information_is_that_of_the_table():
    rng = np.random.default_rng(0)
    for epsilon in (0.0, 0.3, 2.0, 40.0):
        prior = rng.dirichlet(np.ones(5))
        for k in range(1, 6):
            members = response.top(prior, k)
            joint = prior[:, None] * np.exp(response.log_table(members, epsilon))
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = joint * np.log2(joint / np.outer(prior, joint.sum(axis=0)))
            assert response.information(members, epsilon, prior) == pytest.approx(np.nansum(terms), abs=1e-12)
