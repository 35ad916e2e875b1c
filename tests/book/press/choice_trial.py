"""The printed programs of "Choose a model", run as they stand."""

import contextlib
import io
import re
import secrets
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from book.press import choice
from book.press.choice import Answer
from papers.architecture import advice_tables

SHORT = {r"DPSGD\(\d+,": "DPSGD(3,", r'"epochs": \d+': '"epochs": 1', r"range\(3\)": "range(1)"}


def run(
    answer: Answer, arrays: Mapping[str, object], library: str = "dplib", seed: int = 0, short: bool = False
) -> float:
    """Percent that a printed program prints; programs for other libraries go on from that for dplib.

    Args:
        arrays: what the program takes as given: x (n, ...), y (n,), x_test and y_test; of tables also low, high and
            categories.
        short: with a few steps only, to see that it runs.
    """
    programs, space = choice.code(answer), dict(arrays)
    for name in dict.fromkeys(("dplib", library)):
        text = programs[name].replace("default_rng()", f"default_rng({seed})")
        for long, few in SHORT.items() if short else ():
            text = re.sub(long, few, text)
        with (
            torch.random.fork_rng(),
            contextlib.redirect_stdout(io.StringIO()) as said,
            pytest.MonkeyPatch.context() as patch,
        ):
            torch.manual_seed(seed)
            patch.setattr(secrets, "token_bytes", np.random.default_rng(seed).bytes)  # so that a trial can be repeated
            exec(compile(text, f"{answer.method}, {name}", "exec"), space)
    return 100 * float(said.getvalue())


def constant(arrays: Mapping[str, object]) -> float:
    """Percent of always naming the most frequent class of the training part."""
    return 100 * float((arrays["y_test"] == np.bincount(arrays["y"]).argmax()).mean())


def of_table(name: str, seed: int = 0) -> dict[str, object]:
    """What a program for tables takes as given, of a table of :mod:`papers.architecture.advice_tables`."""
    train, test = advice_tables.split(name, seed, "report")
    public = {"low": train.columns.low, "high": train.columns.high, "categories": train.columns.categories}
    return {"x": train.x, "y": train.y, "x_test": test.x, "y_test": test.y, **public}
