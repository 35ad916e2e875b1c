"""Measure and write: what the scripts beside it do with their figures."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write(name: str, about: str, measure: Callable[[], Any]) -> None:
    """Measure, and write the result into book/results, or where ``--output`` says; ``about``: for ``--help``."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(f"book/results/{name}.json"))
    output = parser.parse_args().output
    text = json.dumps(measure(), indent=1)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text + "\n", encoding="utf-8")
    print(text)
