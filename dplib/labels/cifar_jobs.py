"""One run of LP-MST on images or their features: for Table 1, Figures 1(a), 3, 4 and 5 of paper C."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dplib.labels import cifar
from dplib.labels import stages as label_stages
from dplib.labels import variants as label_variants
from dplib.labels.variants import VariantLearner
from dplib.sgd import find_device

Settings = Mapping[str, Any]


def train(
    *,
    dataset: str,
    representation: str,
    model: Sequence[int] | str,
    epsilon: float | None,
    shares: Sequence[float],
    settings: Settings | Sequence[Settings],
    seed: int,
    variants: Sequence[Mapping[str, Any]] = ({},),
    validation: int = 0,
    n_train: int | None = None,
    top: int = 3,
    curve: bool = False,
    width: int = 64,
    pretraining: Settings | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """LP-MST once for each variant, all with one first stage.

    Args:
        dataset, representation, validation: of :func:`dplib.labels.cifar.load`; with ``validation`` the accuracies are
            on these training examples instead of the test part.
        model: hidden units of a perceptron on features, or "resnet18" on images.
        epsilon: None: no privacy. shares: of the training examples in each stage; one: LP-1ST.
        settings: of :func:`dplib.labels.training.fit`, for all stages or one for each.
        seed: of subset, parts, answers, weights and order.
        variants: of :func:`dplib.labels.variants.run`.
        n_train: a random subset of the training examples; None: all.
        top, curve: of :class:`dplib.labels.learner.NetworkLearner`.
        width: of the ResNet. pretraining: {"dataset": ..., "seed": ..., "settings": {...}} of
            :func:`dplib.labels.cifar.pretrained`, for a ResNet that begins there.
        device: "cpu", "cuda", or "auto" for a GPU where there is one.

    Returns:
        "variants": for each its stages, with an "evaluation" whose "top" are top-1, top-2, ... accuracies.
    """
    place = find_device(device)
    found = cifar.load(dataset, representation, validation)
    n = len(found.y_train)
    subset = np.random.default_rng([seed, 0]).permutation(n)[:n_train]
    parts = [subset[p] for p in label_stages.split(len(subset), shares, np.random.default_rng([seed, 1]))]
    if model == "resnet18":
        start = None
        if pretraining is not None:
            start = cifar.pretrained(**pretraining, width=width, device=place)
        build = cifar.resnet(found.classes, width, start)
    else:
        build = cifar.head(found.x_train.shape[1], list(model), found.classes)
    learner = VariantLearner(
        build,
        found.x_train.to(place),
        found.x_test.to(place),
        found.y_test,
        settings,
        seed=seed,
        top=top,
        curve=curve,
    )
    stages = label_variants.run(found.y_train, parts, learner, epsilon, variants, classes=found.classes, seed=(seed, 2))
    return {"variants": stages, "n": len(subset), "parameters": sum(p.numel() for p in build().parameters())}
