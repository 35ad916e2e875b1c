"""What a training that diverged counts as."""

import math

import pytest

from dplib.checks import ParameterError
from papers.common.diverged import accuracies


def test_a_run_that_diverged_counts_as_a_fixed_class():
    assert accuracies([{"accuracy": None}, {"accuracy": 0.5}, {"accuracy": math.nan}]).tolist() == [10.0, 50.0, 10.0]
    assert accuracies([{"test": None}, {"test": 0.0}], "test", classes=4).tolist() == [25.0, 0.0]


def test_there_must_be_a_run():
    with pytest.raises(ParameterError, match="results"):
        accuracies([])
