"""The mechanisms that the first chapter writes by hand, against OpenDP where that is installed, and against attacks."""

import ast

import numpy as np
import pytest
from scipy.stats import norm

from book.evidence import sources

FUNCTIONS = {"ceiling", "coin_survey", "gauss", "gauss_delta", "laplace", "laplace_delta", "share_of_yes"}


@pytest.fixture(scope="module")
def chapter():
    """The functions of the chapter by name, without running its cells."""
    names = {"np": np, "norm": norm}
    tree = ast.parse(sources.code_of(sources.source("00a_why_noise")))
    wanted = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in FUNCTIONS]
    exec(compile(ast.Module(wanted, []), "00a_why_noise", "exec"), names)
    return names


def test_opendp_says_the_same(chapter):
    """Laplace noise and the coins exactly; normal noise is never above OpenDP's bound by way of zCDP."""
    opendp = pytest.importorskip("opendp.prelude", reason="pip install opendp")
    opendp.enable_features("contrib")
    space = opendp.atom_domain(T=float, nan=False), opendp.absolute_distance(T=float)
    for width in (0.5, 1.0, 4.0):
        epsilon = opendp.m.make_laplace(*space, scale=width).map(1.0)
        assert chapter["laplace_delta"](width, epsilon) == 0
        assert chapter["laplace_delta"](width, epsilon * 0.99) > 0
        profile = opendp.c.make_zCDP_to_approxDP(opendp.m.make_gaussian(*space, scale=width)).map(1.0)
        for epsilon in (0.1, 1.0, 3.0):
            assert 0 < chapter["gauss_delta"](width, epsilon) <= profile.delta(epsilon)
    assert opendp.m.make_randomized_response_bool(prob=0.75).map(1) == pytest.approx(np.log(3))


def test_the_coins_give_back_the_share(chapter):
    rng = np.random.default_rng(0)
    truth = np.arange(200_000) < 60_000
    answers = chapter["coin_survey"](truth, rng)
    assert answers[truth].mean() == pytest.approx(0.75, abs=0.01)
    assert answers[~truth].mean() == pytest.approx(0.25, abs=0.01)
    assert chapter["share_of_yes"](answers) == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_threshold_on_laplace_noise_gets_above_the_ceiling(chapter, epsilon):
    rng = np.random.default_rng(1)
    present, absent = (np.array([chapter["laplace"](m, 1, epsilon, rng) for _ in range(20_000)]) for m in (1, 0))
    for threshold in (-1.0, 0.5, 1.0, 3.0):
        alarms, hits = (absent > threshold).mean(), (present > threshold).mean()
        assert hits <= chapter["ceiling"](alarms, epsilon, 0.0) + 0.02
    alarms, hits = (absent > 2).mean(), (present > 2).mean()
    assert hits > 0.9 * chapter["ceiling"](alarms, epsilon, 0.0), "this one reaches it"
