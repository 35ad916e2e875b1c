"""Parameter checks: what passes, what is refused, and that the message names the thing, the value, the allowed."""

import math

import numpy as np
import pytest
import torch

from dplib import checks
from dplib.checks import ParameterError


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (checks.positive(), [0.5, 3, np.float64(2)], [0, -1, math.nan, math.inf, "1", True, None, 10**400]),
        (checks.fraction(), [1e-9, 0.5], [0, 1, 1.5, -0.1, math.nan, "0.5"]),
        (checks.number(0, 2), [0, 1.5, 2], [-0.1, 2.1, math.inf, [1]]),
        (checks.number(), [-1e308], [10**400, 10**5000]),
        (checks.integer(0), [2**63 - 1], [2**63, 10**400, 10**5000]),
        (checks.integer(2, 5), [2, 5, np.int64(3)], [1, 6, 2.0, True, "3"]),
        (checks.boolean(), [True, False], [0, 1, "true"]),
        (checks.one_of("digits", "mnist"), ["digits"], ["Digits", 1, None, ["digits"]]),
        (checks.one_of(1, 2), [1], [True, 1.0, "1"]),
        (checks.list_of(checks.positive(), least=2), [[1, 2.5], (1, 2)], [[1], [1, -1], 3, "12"]),
    ],
)
def test_rules_accept_and_refuse(rule, good, bad):
    for value in good:
        rule.check("x", value)
    for value in bad:
        with pytest.raises(ParameterError, match=r"^x = .* is not allowed: it must be "):
            rule.check("x", value)


def test_a_missing_parameter_is_named():
    with pytest.raises(ParameterError, match="delta is missing"):
        checks.parameters({"epsilon": 1}, epsilon=checks.positive(), delta=checks.fraction())


def test_an_injected_unknown_name_is_refused_with_the_nearest_known():
    namespace = {"epsilon": 1.0, "epsilonn": 0.5, "In": ["", "epsilon = 1.0", "# Parameters\nepsilonn = 0.5\n"]}
    with pytest.raises(
        ParameterError, match=r"epsilonn is not a parameter of this notebook \(did you mean epsilon\?\)"
    ):
        checks.parameters(namespace, epsilon=checks.positive())


def test_a_live_notebook_may_run_the_check_again():
    namespace = {"epsilon": 1.0, "result": 3, "In": ["", "epsilon = 1.0", "result = 3"]}
    checks.parameters(namespace, epsilon=checks.positive())


NO_PLACES = [-1, [-1], [3], [0.5], [np.nan], [[0]], [[0], [1, 2]], ["0"], [True], [None], np.array([2**64 - 1], "u8")]


@pytest.mark.parametrize("values", NO_PLACES)
def test_what_is_no_list_of_places_is_refused_without_its_values(values):
    with pytest.raises(checks.ParameterError, match=r"labels = .* whole numbers from 0 to 2, shape \(n,\)") as refused:
        checks.indices("labels", values, 3)
    assert "184467" not in str(refused.value)
    with pytest.raises(checks.ParameterError, match=r"whole numbers from 0, shape"):
        checks.indices("labels", [-1])


@pytest.mark.parametrize("values", [[], [0, 2], [0.0, 2.0], (1,), np.array([0, 1], np.uint8), np.array([], np.float32)])
def test_places_come_as_whole_numbers_of_64_bits(values):
    places = checks.indices("labels", values, 3)
    assert places.dtype == np.int64
    assert places.tolist() == [int(value) for value in values]


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(ParameterError) as caught:
        checks.one_of("a").check("dataset", "x" * 10_000)
    assert len(str(caught.value)) < 200


NAMES = ["Alice", "Bob"]


@pytest.mark.parametrize("values", [NAMES, [1, "Alice"], np.array(NAMES, object), [[1.0], [2.0, 3.0]], [1j, 2j], None])
def test_what_is_no_array_of_real_numbers_is_refused_without_its_values(values):
    with pytest.raises(ParameterError, match=r"x = .* must be ") as refused:
        checks.reals("x", values)
    assert "Alice" not in str(refused.value)
    assert refused.value.__suppress_context__, "a traceback shows no other error, in which a value may stand"


@pytest.mark.parametrize("check", [checks.array, checks.reals, checks.indices])
def test_hidden_values_never_count(check):
    masked = np.ma.masked_array([1, 0], [False, True])
    for values in (masked, [masked, masked]):
        with pytest.raises(ParameterError, match="x: a masked array is not allowed"):
            check("x", values)
    assert not checks.numbers().accepts(masked)


def test_rows_of_different_lengths_are_no_array():
    for check in (checks.reals, checks.indices):
        with pytest.raises(ParameterError, match=r"x = a list of 2 is not allowed"):
            check("x", [[0], [1, 2]])


def test_numbers_come_as_floats_whatever_holds_them():
    for values in ([True, False], np.array([1, 0], object), torch.tensor([1.0, 0.0], requires_grad=True), [1, 0]):
        assert checks.reals("x", values, 1).tolist() == [1.0, 0.0]
    with pytest.raises(ParameterError, match=r"real numbers, shape \(n, d\)"):
        checks.reals("x", [1.0], 2)


def test_one_number_is_no_array_and_a_seed_no_generator():
    checks.single(checks.numbers(0, 9, whole=True)).check("n", 3.0)
    with pytest.raises(ParameterError, match="one of the whole numbers in"):
        checks.single(checks.numbers(0, 9, whole=True)).check("n", [3])
    checks.generator().check("rng", np.random.default_rng(0))
    for wrong in (0, None, np.random.RandomState(0)):
        with pytest.raises(ParameterError, match=r"it must be a numpy\.random\.Generator"):
            checks.generator().check("rng", wrong)
