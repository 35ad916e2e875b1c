"""Cells of chapters at values that a reader may give, without the rest of the page."""

import ast
import warnings

import numpy as np
import pytest

from book.evidence import sources
from dplib import accounting, checks, mechanisms
from dplib.checks import ParameterError


def checked(number, **values):
    """The names that a chapter has after its check of parameters, these values among them."""
    notebook = sources.as_notebook(sources.source(sources.resolve(number)))
    first, second, *_ = (cell.source for cell in notebook.cells if cell.cell_type == "code")
    names, asked = {}, False
    exec(first, names)
    names |= values
    for node in ast.parse(second).body:
        if asked and isinstance(node, ast.Import | ast.ImportFrom):
            break
        exec(compile(ast.Module([node], []), number, "exec"), names)
        asked |= "checks.parameters" in ast.unparse(node)
    return names


def function(number, name, names):
    """A function of a chapter among some names."""
    tree = ast.parse(sources.code_of(sources.source(sources.resolve(number))))
    (node,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    exec(compile(ast.Module([node], []), number, "exec"), names)
    return names[name]


@pytest.mark.parametrize("number", ["05", "06", "07", "09", "09b", "12", "14"])
def test_a_chapter_without_a_small_plan_refuses_it_in_its_check(number):
    with pytest.raises(ParameterError, match="plan = 'quick' is not allowed: it must be published, the only plan"):
        checked(number, plan="quick")


def test_chapter_10_refuses_a_budget_that_its_methods_would_refuse_late():
    checked("10", epsilon=30.0)
    with pytest.raises(ParameterError, match=r"epsilon = 50.0 is not allowed: .* in \[0.01, 30\]"):
        checked("10", epsilon=50.0)


def test_chapter_13_has_a_number_where_delta_is_left_to_it():
    assert checked("13", delta=None, n=10**6)["delta"] == pytest.approx(1e-7)


@pytest.mark.parametrize(("sample_rate", "steps"), [(0.15, 400), (1, 400), (1, 1), (0.001, 400), (0.01, 20)])
def test_chapter_0_keeps_its_trainings_where_the_second_program_has_no_figure(sample_rate, steps):
    noise = float(accounting.noise_multiplier(1.0, sample_rate, steps, 1e-5, "rdp"))
    names = {"accounting": accounting, "checks": checks, "mechanisms": mechanisms, "noise": noise, "steps": steps}
    names |= {"sample_rate": sample_rate, "delta": 1e-5, "budget": (1.0, sample_rate, steps, 1e-5)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = function("0", "by_a_second_program", names)()
    if sample_rate in (0.15, 1):
        assert 0.9 < second <= 1.0
    else:
        assert second == "none: its integral needs more steps, or larger batches"


def test_a_flat_prior_switches_at_zero_and_not_below():
    text = sources.source(sources.resolve("08")).read_text(encoding="utf-8")
    assert 'pd.DataFrame(grows, index=labels).style.format("{:z.3f}")' in text
    assert f"{np.float64(-1e-17):z.3f}" == "0.000"


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 10.0])
def test_the_last_game_against_a_network_is_the_one_at_the_readers_budget(epsilon):
    tree = ast.parse(sources.code_of(sources.source(sources.resolve("00a"))))
    texts = {ast.unparse(node): node for node in tree.body}
    nodes = [node for text, node in texts.items() if text.startswith(("games = ", "for budget in")) and "games" in text]
    names = {"accounting": accounting, "epsilon": epsilon, "delta": 1e-5, "sample_rate": 0.1, "steps": 250}
    names["worlds"] = lambda rate, **privacy: privacy.get("noise_multiplier")
    exec(compile(ast.Module(nodes, []), "00a", "exec"), names)
    name, noise = list(names["games"].items())[-1]
    assert name == f"ε = {epsilon:g}", "the answer takes the last one"
    assert noise == pytest.approx(accounting.noise_multiplier(epsilon, 0.1, 250, 1e-5, "rdp"))
