"""The proposition on page 6: under DP-SGD, too, two neurons with softmax are logistic regression."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dplib import dpsgd, examples


def logistic(outputs, labels):
    return F.binary_cross_entropy_with_logits(outputs[:, 0], labels.to(outputs.dtype), reduction="none")


@pytest.mark.parametrize("norm", [0.3, 1.0, 100.0])  # nearly all records clipped, some, none
def test_the_difference_of_two_neurons_moves_as_one(norm):
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.standard_normal((40, 5)) * rng.uniform(0.1, 2, (40, 1)), dtype=torch.float32)
    labels = torch.tensor(rng.integers(0, 2, 40))
    data = examples.Examples((x, labels), "train", torch.device("cpu"), torch.float32)
    two, one = nn.Linear(5, 2), nn.Linear(5, 1)
    with torch.no_grad():
        one.weight.copy_(two.weight[1:] - two.weight[:1])
        one.bias.copy_(two.bias[1:] - two.bias[:1])

    def gradient(net, clipping_norm, **loss):
        settings = dpsgd.DPSGD(steps=1, sample_rate=1.0, learning_rate=1.0, max_grad_norm=clipping_norm)
        return dpsgd.Engine(net, settings, data, **loss).gradient(torch.arange(40)).clone()

    pair = gradient(two, norm)  # weights (2, 5), then biases (2,)
    difference = torch.cat([pair[5:10] - pair[:5], pair[11:] - pair[10:11]])
    alone = gradient(one, norm / math.sqrt(2), loss=logistic)
    assert torch.allclose(difference, 2 * alone, atol=1e-6)
    if norm == 0.3:  # another clipping norm would not do
        assert not torch.allclose(difference, 2 * gradient(one, norm, loss=logistic), atol=1e-3)
