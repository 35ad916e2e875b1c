"""The learner of paper A's Table 1: one hidden layer, its learning rate chosen on held-out records."""

from dataclasses import dataclass, field, replace

import numpy as np
from torch import nn

from dplib import checks, sgd


@dataclass(frozen=True)
class Perceptron:
    """One hidden layer; the learning rate is the best of several on a held-out share of the noisy training features."""

    hidden: int = 64
    training: sgd.Sgd = field(default_factory=lambda: sgd.Sgd(epochs=15, batch_size=128, weight_decay=1e-3))
    learning_rates: tuple[float, ...] = (0.01, 0.1)
    validation_share: float = 0.1

    def __post_init__(self):
        checks.integer(1).check("hidden", self.hidden)
        checks.list_of(checks.positive()).check("learning_rates", self.learning_rates)
        checks.fraction().check("validation_share", self.validation_share)


def perceptron_labels(
    x: np.ndarray, y: np.ndarray, test: np.ndarray, perceptron: Perceptron, rng: np.random.Generator, device: str
) -> tuple[np.ndarray, float]:
    """Train on x (n, m) and y (n,), then label ``test`` (n', m).

    Features are centred and scaled by those it learns from. Each learning rate starts from the same weights and sees
    the same batches; the best on the held-out examples wins, the first of equals.

    Returns:
        The labels (n',) and the learning rate.
    """
    device = sgd.find_device(device)
    held_out, fit = np.split(rng.permutation(len(x)), [max(1, round(perceptron.validation_share * len(x)))])
    mean, scale = x[fit].mean(0), nonzero(x[fit].std(0))
    x, test = (((values - mean) / scale).astype(np.float32) for values in (x, test))
    into, out, seed = x.shape[1], int(y.max()) + 1, draw_seed(rng)
    best = (-1.0, None, None)
    for learning_rate in perceptron.learning_rates:
        net = sgd.seeded(lambda: _perceptron(into, perceptron.hidden, out), seed)
        sgd.train(net, x[fit], y[fit], replace(perceptron.training, learning_rate=learning_rate), seed, device)
        accuracy = (sgd.outputs(net, x[held_out], device).argmax(1) == y[held_out]).mean()
        if accuracy > best[0]:
            best = (accuracy, net, learning_rate)
    return sgd.outputs(best[1], test, device).argmax(1), best[2]


def _perceptron(into: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(into, hidden), nn.ReLU(), nn.Linear(hidden, out))


def nonzero(scale: np.ndarray) -> np.ndarray:
    """Scales to divide by: 1 where a feature does not vary."""
    return np.where(scale > 0, scale, 1)


def draw_seed(rng: np.random.Generator) -> int:
    """A seed for PyTorch, drawn from NumPy's generator."""
    return int(rng.integers(2**63))
