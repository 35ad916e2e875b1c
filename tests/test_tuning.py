"""Tuning on a grid that grows: what it asks for, and what it chooses."""

import pytest

from dplib import plans
from dplib.checks import ParameterError


def train(**job):
    raise AssertionError("only get computes")


class Answers:
    """A ``get`` with a known best rate; keeps what was asked for."""

    def __init__(self, best, diverges_at=float("inf")):
        self.best, self.diverges_at, self.asked = best, diverges_at, []

    def __call__(self, function, jobs):
        self.asked.append([job["learning_rate"] for job in jobs])
        return [
            {"validation": None if job["learning_rate"] >= self.diverges_at else -abs(job["learning_rate"] - self.best)}
            for job in jobs
        ]


def test_the_best_value_inside_the_grid_needs_no_extension():
    get = Answers(2.0)
    found = plans.tune(get, train, {"cell": {}}, [1.0, 2.0, 4.0], seeds=3)["cell"]
    assert (found.value, found.at_edge) == (2.0, False)
    assert get.asked == [[1.0] * 3 + [2.0] * 3 + [4.0] * 3]


@pytest.mark.parametrize(("best", "chosen", "grid"), [(9.0, 8.0, [1, 2, 4, 8, 16]), (0.2, 0.25, [0.25, 0.5, 1, 2, 4])])
def test_a_grid_grows_by_its_ratio_at_the_end_where_the_best_value_lies(best, chosen, grid):
    found = plans.tune(Answers(best), train, {"cell": {}}, [1.0, 2.0, 4.0])["cell"]
    assert found.value == chosen
    assert sorted(found.tried) == grid
    assert found.at_edge == (chosen == 0.25)


def test_only_the_cells_that_need_it_grow():
    get = Answers(3.0)
    plans.tune(get, train, {"a": {}, "b": {}}, [1.0, 2.0], seeds=1, extensions=1)
    assert get.asked == [[1.0, 2.0] * 2, [1.0, 2.0, 4.0] * 2]


def test_a_value_at_which_a_run_diverged_is_the_worst():
    found = plans.tune(Answers(4.0, diverges_at=4.0), train, {"cell": {}}, [1.0, 2.0, 4.0], seeds=1)["cell"]
    assert found.value == 2.0
    assert found.tried[4.0] == float("-inf")


def test_the_smallest_score_may_be_the_best():
    class Steps(Answers):
        def __call__(self, function, jobs):
            return [{"validation": -one["validation"]} for one in super().__call__(function, jobs)]

    found = plans.tune(Steps(2.0), train, {"cell": {}}, [1.0, 2.0, 4.0], smaller=True)["cell"]
    assert found.value == 2.0
    assert found.tried == {1.0: 1.0, 2.0: 0.0, 4.0: 2.0}


@pytest.mark.parametrize("values", [[1.0], [2.0, 1.0], [0.0, 1.0]])
def test_a_grid_that_does_not_increase_is_refused(values):
    with pytest.raises(ParameterError, match="values"):
        plans.tune(Answers(1.0), train, {"cell": {}}, values)
