"""Measure and write: what the scripts beside it do with their figures."""

import argparse
import json
import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dplib import execution


def surroundings(*packages: str, **versions: str) -> dict[str, Any]:
    """Threads, load, hardware and versions: what a file of ratios says of the machine."""
    return {
        "threads": 1,
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "hardware": execution.hardware(),
        "versions": {"python": platform.python_version(), **versions} | {name: version(name) for name in packages},
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
