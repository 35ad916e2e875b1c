"""A table as CSV and Parquet, side by side, neither of which is written over what somebody has made of it."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from dplib.files import publish


def write(table: pd.DataFrame, csv: Path, text: Callable[[pd.DataFrame], str]) -> str:
    """Write a table's two files, each in one step. Those that are there are moved to a name beside where the CSV is not
    what its Parquet says: somebody has edited one of them, or they are something else. A sentence that says where they
    are then, else "".

    Args:
        csv: where the CSV goes; the Parquet has its name with another suffix.
        text: the CSV of a table.

    Raises:
        OSError: where that cannot be.
    """
    pair = csv, csv.with_suffix(".parquet")
    moved = ""
    if pair[0].exists() and not _untouched(*pair, text):
        names = (csv.with_name(f"{csv.stem}-{i}.csv") for i in itertools.count(1))
        aside = next(name for name in names if not (name.exists() or name.with_suffix(".parquet").exists()))
        for path in pair:
            if path.exists():
                path.rename(aside.with_suffix(path.suffix))
        moved = f"{csv} was there, and not as it was written: it is {aside.name} now."
    publish(csv, text(table))
    part = csv.with_name(f".{csv.stem}.{os.getpid()}.parquet")
    try:
        table.to_parquet(part, index=False)
        os.replace(part, pair[1])
    finally:
        part.unlink(missing_ok=True)
    return moved


def _untouched(csv: Path, parquet: Path, text: Callable[[pd.DataFrame], str]) -> bool:
    try:
        return text(pd.read_parquet(parquet)).encode() == csv.read_bytes()
    except (OSError, ValueError, LookupError, TypeError):  # of a file that is missing, or something else
        return False
