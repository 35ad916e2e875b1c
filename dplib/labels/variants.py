"""Variants of LP-2ST that share their first stage: same parts, same answers, same stage-1 model, other second stages.

The ablations of Appendices B and E differ in what comes after stage 1. :class:`VariantLearner` trains equal stages
once, so a row of variants costs one stage 1, and its variants differ by their second stage only. The answers of stage 2
come from equal random words, too.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from torch import nn

from dplib import checks
from dplib.labels import stages
from dplib.labels.learner import NetworkLearner
from dplib.labels.stages import tempered

LEAST = 1e-9  # of an unmixed probability, so that its logarithm is finite and the order of classes stays


class VariantLearner(NetworkLearner):
    """A network learner that remembers the stages it has trained, and can unmix its priors.

    Args:
        unmix: the budget of the answers that stage 1 is trained on: then priors are those of the labels instead of
            the answers (:func:`unmixed`). It may be set anew before each variant. None: as the network says.
    """

    def __init__(self, *arguments, unmix: float | None = None, **named):
        super().__init__(*arguments, **named)
        self.unmix = unmix
        self._trained: dict[tuple, nn.Module] = {}

    def train(self, rows: np.ndarray, labels: np.ndarray, stage: int, start: nn.Module | None) -> nn.Module:
        """As :meth:`NetworkLearner.train`, but once for each set of arguments and settings."""
        settings = self.settings if isinstance(self.settings, Mapping) else self.settings[stage - 1]
        key = (stage, id(start), _digest(rows), _digest(labels), repr(sorted(settings.items())))
        if key not in self._trained:
            self._trained[key] = super().train(rows, labels, stage, start)
        return self._trained[key]

    def logits(self, model: nn.Module, rows: np.ndarray) -> np.ndarray:
        """Scores (m, K) of the training examples ``rows``; logarithms of unmixed probabilities where asked for."""
        scores = super().logits(model, rows)
        return scores if self.unmix is None else np.log(unmixed(tempered(scores, 1.0), self.unmix))


def unmixed(answers: np.ndarray, epsilon: float) -> np.ndarray:
    """Probabilities of labels from those of their answers under RR, both (n, K).

    A network trained on answers estimates q = a p + (1 - a) / K with a = (e^eps - 1) / (e^eps + K - 1). Solved for p;
    what is negative becomes almost 0, without a change in the order of the classes.
    """
    checks.positive().check("epsilon", epsilon)
    classes = answers.shape[1]
    a = -np.expm1(-epsilon) / (1 + (classes - 1) * np.exp(-epsilon))
    labels = np.maximum((answers - (1 - a) / classes) / a, LEAST * answers)
    return labels / labels.sum(axis=1, keepdims=True)


def run(
    labels: np.ndarray,
    parts: Sequence[np.ndarray],
    learner: VariantLearner,
    epsilon: float | None,
    variants: Sequence[Mapping[str, Any]],
    *,
    classes: int,
    seed: Sequence[int],
) -> list[list[dict[str, Any]]]:
    """LP-MST (:func:`dplib.labels.stages.run`) once for each variant, always with the same answers to stage 1.

    Args:
        variants: mappings with some of: ``temperature``, ``warm_start``, ``reuse``, ``filtered`` (of
            :func:`dplib.labels.stages.run`); ``unmix``, True or False; ``settings``, of the learner, one for each
            stage. To publish several variants would cost epsilon for *each*: they are for comparison.
        seed: of the answers.

    Returns:
        For each variant its stages, each as a dictionary of the fields of :class:`dplib.labels.stages.Stage`.
    """
    usual, results = learner.settings, []
    for variant in variants:
        options = dict(variant)
        learner.unmix = epsilon if options.pop("unmix", False) else None
        learner.settings = options.pop("settings", usual)
        rng = np.random.default_rng(list(seed))
        outcome = stages.run(labels, parts, learner, epsilon, classes=classes, rng=rng, **options)
        results.append([asdict(stage) for stage in outcome.stages])
    learner.settings = usual
    return results


def _digest(values: np.ndarray) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).digest()
