"""An accepted update whose test looks elsewhere: against plain noise, exact instances and simulated updates."""

import numpy as np
import pytest
from scipy import special

from dplib import annealing
from papers.screening import accounts, aligned, alignment_runs, composition, instances, leak_rows, one_update

MNIST = accounts.SETTINGS[0]


def spent(alignment: float, push: float, steps: int = 2000) -> float:
    cells = aligned.accepted_update(1 / MNIST.noise_multiplier, alignment, push, MNIST.sample_rate, MNIST.limit)
    return composition.epsilon([(cells, steps)], 1e-5)


def test_a_record_that_does_not_move_the_test_loses_what_plain_noise_costs():
    plain = accounts.tight(MNIST.noise_multiplier, MNIST.sample_rate, 2000, 1e-5)
    assert spent(0.0, 1.0) == pytest.approx(plain, rel=1e-3)


@pytest.mark.parametrize("push", [0.0, 1.5])
def test_a_record_along_the_slope_loses_what_the_exact_instance_does(push):
    exact = instances.epsilon(instances.linear(MNIST, push, MNIST.limit, constant=True).cells, 2000)
    assert spent(1.0, push) == pytest.approx(exact, rel=1e-2)
    assert spent(0.999, push) == pytest.approx(exact, rel=1e-2)


def test_without_rejections_there_is_nothing_to_tell():
    free = aligned.accepted_update(0.8, 0.5, 1.0, 0.1, 0)
    plain = one_update.cells(*one_update.pair(0.8, one_update.always(), 0, 0.1), 0.04)
    found, exact = (composition.epsilon([(cells, 50)], 1e-5) for cells in (free, plain))
    assert found == pytest.approx(exact, rel=1e-3)


def test_against_simulated_updates():
    """Candidates in two dimensions, drawn until one passes; shares within five standard errors and half a cell."""
    shift, alignment, push, q, limit, draws = 0.9, -0.6, 0.4, 0.5, 3, 200_000
    cells = aligned.accepted_update(shift, alignment, push, q, limit)
    half = len(cells.p) // 2
    rng = np.random.default_rng(0)
    for masses, rate in ((cells.p, q), (cells.q, 0.0)):
        step, passed = np.zeros(draws), np.zeros(draws, bool)
        for _ in range(limit + 1):
            t = rng.normal(size=draws) + shift * (rng.random(draws) < rate)
            u = alignment * t + np.sqrt(1 - alignment**2) * rng.normal(size=draws)
            step, passed = np.where(passed, step, t), passed | (u >= push)
        for kind, part in ((passed, masses[:half]), (~passed, masses[half:])):
            assert kind.mean() == pytest.approx(part.sum(), abs=5 * np.sqrt(0.25 / draws))
            above = part[half // 2 :].sum()  # of t > 0
            assert (kind & (step > 0)).mean() == pytest.approx(above, abs=0.006 + 0.2 * aligned.CELL)


def test_shares_of_a_training_by_part():
    outcomes = np.array([annealing.LOWER, annealing.REJECTED, annealing.FORCED, annealing.BY_CHANCE, annealing.REJECTED,
                         annealing.REJECTED, annealing.LOWER])  # fmt: skip
    shares = alignment_runs.shares_passed(outcomes, np.array([0, 2, 4]))
    assert shares == pytest.approx([(1 + 0.5) / (3 + 1), (2 + 0.5) / (4 + 1)])


@pytest.mark.parametrize(
    ("most", "off", "said"),
    [
        (2.4, 0.0, "next to nothing"),
        (2.7, 0.0, "something, within the claim"),
        (3.2, 0.0, "more than it may"),
        (2.4, 0.5, "the model does not hold"),
    ],
)
def test_what_is_said_of_records_can_come_out_each_way(most, off, said):
    """The rule that plan 12 registers, on made-up trainings with two watched records and one look."""
    shift, cosine, spread, passed = 0.8, 0.3, 2.0, 0.5
    moved = special.ndtr(cosine / spread * shift) - 0.5
    run = {"ordinary": 1, "plain": 2.37, "claimed": 3.0, "epsilon": [2.3, most], "spread": [spread],
           "drawn_passed": [passed], "shift": [[shift, shift]], "cosine": [[cosine, -cosine]],
           "moved": [[moved * (1 - off), -moved]]}  # fmt: skip
    records = leak_rows.of_records({"mnist": [run]})["MNIST"]
    assert records["verdict"] == said
    assert (list(records["ordinary"]), list(records["wrong"])) == ([2.3], [most])
