"""Pieces that go wrong in every way, for the processes of first light: quick, without PyTorch."""

import os
import time
from pathlib import Path

from book.evidence import first_light, first_light_process


def pieces(asked):
    out = Path(asked["out"])

    def raises():
        if not (out / "mended").exists():
            raise ValueError("a fault of this piece")
        return {"mended": True}

    def hangs():
        if not (out / "mended").exists():
            time.sleep(600)
        return {}

    def needs():
        raise first_light_process.NotHere("no such data")

    def dies():
        os._exit(3)

    return {
        "good": lambda: {"value": 1.23456, "none": float("nan")},
        "raises": raises,
        "off": lambda: {"wrong": ["a number"]},
        "needs": needs,
        **({"dies": dies} if asked["stage"] == "sums" else {}),
        **({"hangs": hangs} if asked["stage"] == "speed" else {}),
        "last": lambda: {"long": "x" * 200_000},
    }


def main(text):
    first_light_process.STAGES = dict.fromkeys(first_light.STAGES, (__name__, "pieces"))
    return first_light_process.main(text)
