"""Measure and write: what the scripts beside it do with their figures."""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from book.evidence import execution


def timed(call: Callable[..., Any], *values: Any) -> tuple[float, Any]:
    """Seconds of a call, and what it returned."""
    start = time.perf_counter()
    results = call(*values)
    return time.perf_counter() - start, results


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each side's times."""
    return {name: statistics.median(values) for name, values in seconds.items()}


def row(what: str, ratio_of: str, ratio: float, seconds: Any = None, **limit: float) -> dict[str, Any]:
    """A row of a benchmark; ``limit`` is ``at_most``, ``at_least`` or nothing."""
    values = {"what": what, "ratio_of": ratio_of, "ratio": ratio, **limit}
    for kind, value in limit.items():
        values["met"] = ratio <= value if kind == "at_most" else ratio >= value
    print(values, flush=True)
    return values | ({"seconds": seconds} if seconds else {})


def report(name: str, rows: list[dict[str, Any]], *packages: str, **more: Any) -> dict[str, Any]:
    """What a file of ratios says: its rows, and threads, load, hardware and versions of the machine."""
    return {
        "benchmark": name,
        "rows": rows,
        **more,
        "threads": 1,
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "hardware": execution.hardware(),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
    }


def parser(name: str, about: str) -> argparse.ArgumentParser:
    """``--help`` and ``--output``."""
    made = argparse.ArgumentParser(description=about.splitlines()[0])
    made.add_argument("--output", type=Path, default=Path(f"book/results/{name}.json"))
    return made


def save(output: Path, result: Any) -> None:
    """Write the result, and print it."""
    text = json.dumps(result, indent=1)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text + "\n", encoding="utf-8")
    print(text)


def write(name: str, about: str, measure: Callable[[], Any]) -> None:
    """Measure, and write the result into book/results, or where ``--output`` says; ``about``: for ``--help``."""
    output = parser(name, about).parse_args().output
    save(output, measure())
