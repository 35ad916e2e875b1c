"""Many linear classifiers at once, on the same features and batches, each with evidence of its own about the labels.

Every loss of :mod:`dplib.releases` has the gradient p - r in the logits: r is fixed for a target and Bayes'
posterior for a likelihood. So one loop serves all methods. Heads that share batches are not independent runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dplib import checks
from dplib.devices import find_device, whole_float32
from dplib.releases import Evidence


@dataclass(frozen=True, eq=False)
class Heads:
    """m linear classifiers: weights (d, m * K), bias (m * K,), and the number of classes K."""

    weights: Tensor
    bias: Tensor
    classes: int

    @whole_float32()
    def log_probabilities(self, x: np.ndarray, rows: int = 5000) -> np.ndarray:
        """ln p(y | x), shape (m, n, K), float32. x: shape (n, d)."""
        parts = [
            torch.addmm(self.bias, torch.from_numpy(x[start : start + rows]).to(self.bias.device), self.weights)
            .view(-1, len(self.bias) // self.classes, self.classes)
            .log_softmax(2)
            .cpu()
            for start in range(0, len(x), rows)
        ]
        return torch.cat(parts).transpose(0, 1).contiguous().numpy()

    def accuracy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Share of the records that each head labels rightly, shape (m,)."""
        return (self.log_probabilities(x).argmax(axis=2) == np.asarray(y)).mean(axis=1)


@whole_float32()
def fit(
    x: np.ndarray,
    evidence: Sequence[Evidence],
    rates: Sequence[float],
    rng: np.random.Generator,
    *,
    epochs: int,
    batch: int = 500,
    weight_decay: float = 0.01,
    device: str = "cpu",
) -> Heads:
    """Train one head for each evidence by AdamW, whose rate falls linearly to 0, all from zero weights.

    x: (n, d), float32. evidence: m of them, each of n records. rates: m learning rates, of the first step. rng: decides
    the order of the records. ParameterError for numbers that do not fit together.
    """
    checks.integer(1).check("epochs", epochs)
    classes = evidence[0].values.shape[1]
    if len(rates) != len(evidence) or any(told.values.shape != (len(x), classes) for told in evidence):
        raise checks.ParameterError("each head needs a rate, and evidence about every record, with the same classes.")
    order = sorted(range(len(evidence)), key=lambda i: evidence[i].kind != "target")  # targets first
    targets = sum(told.kind == "target" for told in evidence)
    place = find_device(device)
    told = torch.from_numpy(np.stack([evidence[i].values for i in order], axis=1)).to(place)  # (n, m, K)
    first_rates = torch.tensor([rates[i] for i in order], dtype=torch.float32, device=place).repeat_interleave(classes)
    shape = (x.shape[1] + 1, len(evidence) * classes)
    weights, first, second = torch.zeros((3, *shape), device=place)
    x = torch.from_numpy(x).to(place)
    steps = epochs * -(-len(x) // batch)
    step = 0
    with torch.inference_mode():
        for _ in range(epochs):
            for rows in torch.from_numpy(rng.permutation(len(x))).to(place).split(batch):
                rate = first_rates * (1 - step / steps)
                step += 1
                gradient = _gradient(x[rows], told[rows], targets, weights)
                first.lerp_(gradient, 0.1)
                second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
                weights[:-1] *= 1 - weight_decay * rate
                move = first / (second / (1 - 0.999**step)).sqrt_().add_(1e-8)
                weights -= move.mul_(rate / (1 - 0.9**step))
    back = torch.from_numpy(np.argsort(order)).to(place)
    ordered = weights.view(shape[0], len(evidence), classes)[:, back].reshape(shape)
    return Heads(ordered[:-1].contiguous(), ordered[-1].contiguous(), classes)


def _gradient(x: Tensor, told: Tensor, targets: int, weights: Tensor) -> Tensor:
    """Mean gradient of the losses: (d + 1, m K), for x (b, d) and what is told of its labels (b, m, K)."""
    logits = torch.addmm(weights[-1], x, weights[:-1]).view(told.shape)
    error = logits.softmax(2)
    left_out = told[:, :targets].sum(2, keepdim=True)  # 1, or 0 for a record that a target leaves out
    error[:, :targets].mul_(left_out)
    error[:, :targets] -= told[:, :targets]
    error[:, targets:] -= (logits[:, targets:] + told[:, targets:]).softmax(2)
    error = error.flatten(1) / len(x)
    return torch.cat([x.t() @ error, error.sum(0, keepdim=True)])
