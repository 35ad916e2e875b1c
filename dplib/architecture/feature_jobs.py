"""Runs of the chapter on feature selection, as plain values for :mod:`dplib.study`: accuracy of subsets after training.

Every model is one logistic regression by objective perturbation (:mod:`dplib.objpert`). Its norm bound is the one that
the columns in use have by construction (``Features.norm_bound``), so a subset of few attributes needs less noise.
"""

import zlib

import numpy as np

from dplib import objpert
from dplib.architecture import feature_data
from dplib.checks import integer, one_of

PARTS = ("validation", "test")
REGULARISATION = 1.0  # C = 1, the default of diffprivlib and of scikit-learn


def measure(
    dataset: str,
    split: int,
    held: int,
    part: str,
    variant: str,
    epsilon: float | None,
    subsets: list[str],
    repeats: int,
    seed: int,
) -> dict[str, list[float]]:
    """Mean accuracy of each subset over ``repeats`` private trainings, each with noise of its own.

    Args:
        dataset, split: of :func:`dplib.architecture.feature_data.load`.
        held: training records that are set aside; with 0 there is no validation part.
        part: "validation" or "test": where accuracy is measured.
        variant: of :func:`dplib.objpert.calibrate`. epsilon: of each training; None for no privacy.
        subsets: as :func:`packed`.
        seed: with the subsets it decides the noise.

    Returns:
        accuracy and sd, each with a number for each subset: mean and standard deviation over the trainings.
    """
    one_of(*PARTS).check("part", part)
    integer(1).check("repeats", repeats)
    table = feature_data.load(dataset, split, held)
    chosen = np.array([unpacked(text, table.d) for text in subsets])
    masks = np.repeat(chosen, repeats, axis=0)
    rng = np.random.default_rng([seed, zlib.crc32(",".join(subsets).encode())])
    models = fitted(table, masks, np.inf if epsilon is None else epsilon, variant, rng)
    x, y = (table.x_valid, table.y_valid) if part == "validation" else (table.x_test, table.y_test)
    shares = models.accuracy(x, y).reshape(len(chosen), repeats)
    return {"accuracy": shares.mean(axis=1).tolist(), "sd": shares.std(axis=1).tolist()}


def fitted(table, masks, epsilon, variant, rng) -> objpert.Fit:
    """One private model for each row of masks, (problems, d), on the training part."""
    return objpert.fit(
        table.x_train,
        table.y_train,
        epsilon=epsilon,
        regularisation=REGULARISATION,
        norm_bound=table.norm_bound(masks),
        rng=rng,
        masks=masks,
        variant=variant,
        device="cpu",
    )


def packed(S) -> str:
    """A subset, bool (m,), as text for jobs and tables: hexadecimal, the first feature in the highest bit."""
    return np.packbits(np.asarray(S, dtype=bool)).tobytes().hex()


def unpacked(text: str, m: int) -> np.ndarray:
    """The subset of :func:`packed`, bool (m,)."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), dtype=np.uint8), count=m).astype(bool)
