"""The linear program that reads a table: exact sums give everything away, noise does not, and nonsense is refused."""

import itertools

import numpy as np
import pytest
from scipy import optimize

from dplib import reconstruction
from dplib.checks import ParameterError


def school(seed, n, m):
    rng = np.random.default_rng(seed)
    return rng.random(n) < 0.4, (rng.random((m, n)) < 0.5).astype(int), rng


@pytest.mark.parametrize("seed", range(3))
def test_as_many_exact_sums_as_people_give_everybody_away(seed):
    secret, groups, _ = school(seed, 40, 44)
    assert (reconstruction.from_sums(groups, groups @ secret) == secret).all()


def test_noise_of_the_root_of_the_table_does_not_give_it_away():
    secret, groups, rng = school(0, 100, 100)
    read = reconstruction.from_sums(groups, groups @ secret + 10 * rng.normal(size=100))
    assert (read == secret).mean() < 0.85


def test_no_other_table_misses_the_sums_by_less():
    """Against all 2^7 tables: where the program's own table is whole, none is nearer."""
    secret, groups, rng = school(5, 7, 12)
    sums = groups @ secret + 0.2 * rng.normal(size=12)
    missed = [abs(sums - groups @ np.array(table)).sum() for table in itertools.product((0, 1), repeat=7)]
    assert abs(sums - groups @ reconstruction.from_sums(groups, sums)).sum() == pytest.approx(min(missed))


@pytest.mark.parametrize(
    ("groups", "sums", "name"),
    [
        ([1, 0], [1], "groups"),
        ([[0.5, 1]], [1], "groups"),
        ([[1, 0]], [1, 2], "sums"),
        ([[1, 0]], [np.nan], "sums"),
        (np.eye(3), [1e21, 0, 0], "sums"),  # to the solver, no bound at all
        (np.eye(3), [0, -1e300, 0], "sums"),
    ],
)
def test_nonsense_is_refused(groups, sums, name):
    with pytest.raises(ParameterError, match=f"^{name} "):
        reconstruction.from_sums(groups, sums)


def test_the_largest_sums_are_still_read():
    assert reconstruction.from_sums(np.eye(3), [1e15, -1e15, 1]).tolist() == [True, False, True]


def test_a_program_that_fails_is_no_answer(monkeypatch):
    failed = optimize.OptimizeResult(success=False, x=None, message="No bound.")
    monkeypatch.setattr(reconstruction.optimize, "linprog", lambda **_: failed)
    with pytest.raises(ParameterError, match=r"found no table \(No bound\.\)"):
        reconstruction.from_sums(np.eye(3), np.ones(3))
