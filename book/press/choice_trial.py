"""The printed programs of "Choose a model", run as they stand, and a table that no result was learned from."""

import contextlib
import io
import math
import re
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_breast_cancer

from book.press import choice
from book.press.choice import Answer
from dplib import stats


def run(
    answer: Answer, arrays: Mapping[str, np.ndarray], library: str = "dplib", noiseless: bool = False, seed: int = 0
) -> float:
    """Percent that a printed program prints; programs for other libraries go on from that for dplib.

    ``arrays``: the program's x (n, ...), y (n,), x_test and y_test. noiseless: with noise_multiplier 0 (of DP-SGD).
    """
    programs = choice.code(answer)
    space = {**arrays, "bound": math.sqrt(arrays["x"].shape[1])}
    for name in dict.fromkeys(("dplib", library)):
        text = programs[name].replace("default_rng()", f"default_rng({seed})")
        text = re.sub(r"noise_multiplier=[\d.]+", "noise_multiplier=0.0", text) if noiseless else text
        with torch.random.fork_rng(), contextlib.redirect_stdout(io.StringIO()) as said:
            torch.manual_seed(seed)
            exec(compile(text, f"{answer.method}, {name}", "exec"), space)
    return 100 * float(said.getvalue())


def constant(arrays: Mapping[str, np.ndarray]) -> float:
    """Percent of always naming the most frequent class of the training part."""
    return 100 * float((arrays["y_test"] == np.bincount(arrays["y"]).argmax()).mean())


def tumours(seed: int = 0) -> dict[str, np.ndarray]:
    """scikit-learn's table of tumours, split by the seed: 427 training rows of 30 numbers, and 142 test rows.

    Numbers are over the largest of their column, which stands for a range that is known without the records.
    """
    x, y = load_breast_cancer(return_X_y=True)
    order, x = np.random.default_rng(seed).permutation(len(x)), x / x.max(axis=0)
    train, test = order[142:], order[:142]
    return {"x": x[train], "y": y[train], "x_test": x[test], "y_test": y[test]}


def splits(answer: Answer, seeds: Iterable[int]) -> pd.DataFrame:
    """A DP-SGD program on some splits of the tumours: "a constant", "private" and "without noise", in percent."""
    rows = []
    for seed in seeds:
        arrays = tumours(seed)
        both = [run(answer, arrays, noiseless=noiseless, seed=seed) for noiseless in (False, True)]
        rows.append([constant(arrays), *both])
    return pd.DataFrame(rows, columns=["a constant", "private", "without noise"])


def kept(found: pd.DataFrame) -> stats.Measured:
    """Of :func:`splits`, the share of the mean gain over a constant that privacy leaves, with its 95% interval."""
    whole = (found["without noise"] - found["a constant"]).mean()
    return stats.mean_interval(((found["private"] - found["a constant"]) / whole).to_numpy())
