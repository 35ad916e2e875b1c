"""Free screening: the training against what its parts must be."""

from dataclasses import replace

import numpy as np
import pytest

from dplib.checks import ParameterError
from papers.screening import free_runs

SETTINGS = {"updates": 30, "sample_rate": 0.2, "noise_multiplier": 2.0, "learning_rate": 4.0, "seed": 1}


@pytest.fixture(scope="module")
def parts():
    return free_runs.records("digits", 600, 200, 0)


def test_parts_are_disjoint_and_of_length_one(parts):
    rows = np.concatenate([part[0] for part in (parts.private, parts.public, parts.validation, parts.test)])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    assert len(np.unique(rows, axis=0)) > 0.99 * len(rows)
    with pytest.raises(ParameterError, match="digits has"):
        free_runs.records("digits", 6000, 200, 0)


def test_without_a_temperature_screening_is_plain_training(parts):
    plain, drawn = free_runs.screened_training(parts, "plain", strength=0.0, **SETTINGS)
    screened, candidates = free_runs.screened_training(parts, "screened", strength=0.0, **SETTINGS)
    np.testing.assert_array_equal(plain, screened)
    assert drawn == candidates == SETTINGS["updates"]


def test_a_steep_rule_never_lets_the_public_loss_rise(parts):
    settings = {**SETTINGS, "learning_rate": 8.0, "noise_multiplier": 10.0}
    weights, candidates = free_runs.screened_training(parts, "screened", strength=1e9, **settings)
    plain, _ = free_runs.screened_training(parts, "plain", strength=0.0, **settings)
    assert candidates > settings["updates"]
    assert free_runs.energy(weights, *parts.public) < min(np.log(10), free_runs.energy(plain, *parts.public))


def test_one_plain_step_is_the_clipped_sum_and_its_noise(parts):
    values = {**SETTINGS, "updates": 1, "sample_rate": 1.0}
    exact, _ = free_runs.screened_training(
        parts, "plain", strength=0.0, **{**values, "noise_multiplier": 0.0}, max_grad_norm=0.5
    )
    x, y = parts.private
    errors = np.full((len(y), 10), 0.1) - np.eye(10)[y]  # of uniform predictions; their norms are above 1/2
    clipped = errors / np.linalg.norm(errors, axis=1, keepdims=True) * 0.5
    np.testing.assert_allclose(exact, -4.0 / len(y) * x.T @ clipped, atol=1e-6)
    noisy, _ = free_runs.screened_training(parts, "plain", strength=0.0, **values, max_grad_norm=0.5)
    assert (noisy - exact).std() == pytest.approx(4.0 * 2.0 * 0.5 / len(y), rel=0.1)


def test_without_a_learning_rate_no_private_record_is_used(parts):
    settings = {**SETTINGS, "learning_rate": 0.0, "strength": 4.0}
    other = replace(parts, private=(parts.private[0], parts.private[1][::-1]))
    np.testing.assert_array_equal(
        free_runs.screened_training(parts, "public", **settings)[0],
        free_runs.screened_training(other, "public", **settings)[0],
    )
