"""What chapter 0 trains side by side at a reader's budget is what it would train one by one."""

import ast

import numpy as np
import pytest
import torch
from torch import nn

from book.evidence import sources
from dplib import data, dpsgd, many, models
from dplib.data import preprocess

SEEDS, STEPS, RATE = 5, 40, 0.15
PRIVATE = {"noise_multiplier": 2.0, "max_grad_norm": 1.0}


@pytest.fixture(scope="module")
def digits():
    return preprocess.flatten(data.load("digits"))


@pytest.fixture
def chapter(digits):
    """The chapter's function, and what it reads: accuracies in %, (seeds,)."""
    names = {"np": np, "torch": torch, "nn": nn, "dpsgd": dpsgd, "many": many, "models": models}
    names |= {"yours": digits, "parts": parts(digits), "seeds": SEEDS, "steps": STEPS, "sample_rate": RATE}
    tree = ast.parse(sources.code_of(sources.source("00_dp_sgd")))
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "accuracies")
    exec(compile(ast.Module([function], []), "00_dp_sgd", "exec"), names)
    return names


def parts(digits):
    return dpsgd.Data((digits.x_train, digits.y_train), None, (digits.x_test, digits.y_test))


@pytest.mark.parametrize(
    ("learning_rate", "privacy"), [(0.25, PRIVATE), (0.25, {}), (1e6, PRIVATE)], ids=["private", "plain", "far off"]
)
def test_each_seed_ends_as_by_itself(chapter, digits, learning_rate, privacy):
    """Weights agree but for rounding, which may turn one test record round."""
    alone = []
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        net = models.mlp([64, 64, 10], nn.ReLU)
        settings = dpsgd.DPSGD(STEPS, RATE, learning_rate, **privacy)
        run = dpsgd.train(net, parts(digits), settings, np.random.default_rng(seed), progress=False)
        alone.append(100 * run.final["test"]["metric"])
    chapter["learning_rate"] = learning_rate
    beside = chapter["accuracies"](**privacy)
    assert beside.shape == (SEEDS,)
    assert len(set(alone)) > 1
    np.testing.assert_allclose(beside, alone, rtol=0, atol=100.01 / len(digits.y_test))
