"""A network as the learner of :func:`dplib.labels.stages.run`: settings for each stage, and curves on test data."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dplib import layout
from dplib.labels import training
from dplib.sgd import seeded

Curve = list[list[float]]


class NetworkLearner:
    """Trains a network by :func:`dplib.labels.training.fit`.

    Args:
        build: makes a network with fresh weights from PyTorch's CPU generator.
        inputs: of all training examples (n, ...). test_inputs, test_labels: for :meth:`evaluate` alone.
        settings: arguments of ``fit`` without the seed: one mapping for all stages, or one for each.
        seed: of the weights, and of the order of the examples; each stage has streams of its own.
        top: evaluate top-k accuracies for k = 1 to this.
        curve: whether to evaluate after every epoch, too.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        inputs: Tensor,
        test_inputs: Tensor,
        test_labels: np.ndarray,
        settings: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        seed: int,
        top: int = 3,
        curve: bool = False,
    ):
        self.build, self.inputs, self.settings, self.seed = build, inputs, settings, seed
        self.test_inputs, self.test_labels = test_inputs, np.asarray(test_labels)
        self.top, self.curve = top, curve
        self._points: Curve = []

    def train(self, rows: np.ndarray, labels: np.ndarray, stage: int, start: nn.Module | None) -> nn.Module:
        """A network trained on examples ``rows`` with ``labels``, from a copy of ``start`` or from fresh weights."""
        settings = self.settings if isinstance(self.settings, Mapping) else self.settings[stage - 1]
        seed = int(np.random.SeedSequence([self.seed, stage]).generate_state(1)[0])
        net = seeded(self.build, seed) if start is None else copy.deepcopy(start)
        kept = layout.of(net, self.inputs)
        self._points = []
        where = torch.as_tensor(rows)
        training.fit(
            net.to(self.inputs.device, memory_format=kept),
            layout.follow(self.inputs[where], kept),
            labels,
            seed=seed,
            on_epoch=(lambda _: self._points.append(self._accuracies(net))) if self.curve else None,
            **settings,
        )
        return net

    def logits(self, model: nn.Module, rows: np.ndarray) -> np.ndarray:
        """Scores (m, K) of the training examples ``rows``."""
        return training.logits(model, self.inputs[torch.as_tensor(rows)])

    def evaluate(self, model: nn.Module) -> dict[str, Any]:
        """Top-k accuracies on the test data, k = 1, 2, ...; and after each epoch of the last training, if asked."""
        result = {"top": self._accuracies(model)}
        return result | {"curve": list(self._points)} if self.curve else result

    def _accuracies(self, model: nn.Module) -> list[float]:
        scores = training.logits(model, self.test_inputs)
        return [training.top_k_accuracy(scores, self.test_labels, k) for k in range(1, self.top + 1)]
