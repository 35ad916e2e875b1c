"""A process of first light, started by :mod:`book.evidence.first_light`: it does pieces of a stage, and says what came
of each.

A piece returns facts, plain values; a list "wrong" among them says what did not hold.
"""

import importlib
import json
import math
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from book.evidence import first_light, runs

Facts = dict[str, Any]
Pieces = dict[str, Callable[[], Facts]]

STAGES = {  # module and function of each, imported by the process that needs it
    "machine": ("book.evidence.first_light_sums", "machine"),
    "sums": ("book.evidence.first_light_sums", "sums"),
    "experiments": ("book.evidence.first_light_pages", "experiments"),
    "speed": ("book.evidence.first_light_speed", "pieces"),
    "plan": ("book.evidence.first_light_pages", "plan"),
}


class NotHere(LookupError):
    """What a piece needs is not on this machine."""


def main(text: str) -> int:
    """Do the pieces that are asked for, and say through the pipe what begins and what became of it; exit status."""
    asked = json.loads(text)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def tell(event: Any) -> None:
        os.write(asked["pipe"], json.dumps(event, ensure_ascii=False).encode() + b"\n")

    if not runs.has(asked["device"]):
        return first_light.NO_DEVICE
    module, function = STAGES[asked["stage"]]
    warnings.simplefilter("ignore")
    known: Pieces = getattr(importlib.import_module(module), function)(asked)
    i, count = asked["share"]
    names = [name for name in list(known)[i::count] if asked["only"] is None or name in asked["only"]]
    tell({"pieces": names})
    for name in names:
        if name in asked["done"]:
            continue
        if time.monotonic() > asked["until"]:
            break
        tell({"begin": name})
        tell(outcome(known[name]))
        if asked["device"] == "cuda" and _broken():
            return first_light.BROKEN
    return 0


def outcome(piece: Callable[[], Facts]) -> dict[str, Any]:
    """What became of a piece: its state, its facts, and an error where it raised one."""
    try:
        facts = plain(piece())
        return {"state": "wrong" if facts.get("wrong") else "ok", "facts": facts}
    except Exception as error:
        said = f"{type(error).__name__}: {error}"[:600]
        missing = isinstance(error, NotHere | runs.MissingRuns) or type(error).__name__ == "DataError"
        if missing or _is_package(error):
            return {"state": "skipped", "facts": {}, "error": said}
        traceback.print_exc()
        where = traceback.extract_tb(error.__traceback__)[-1]
        return {"state": "failed", "facts": {}, "error": f"{said} ({Path(where.filename).name}:{where.lineno})"}


def _is_package(error: Exception) -> bool:
    """Whether somebody else's package is missing."""
    name = error.name or "" if isinstance(error, ModuleNotFoundError) else "dplib"
    return name.partition(".")[0] not in ("dplib", "papers", "book")


def plain(value: Any) -> Any:
    """A value as JSON holds it, with numbers to four digits; None for what is no number."""
    if isinstance(value, Mapping):
        return {str(key): plain(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [plain(of) for of in value]
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _broken() -> bool:
    """Whether the GPU answers with errors: one that sticks is every later call's, too, until the process ends."""
    import torch

    try:
        return torch.ones(2, device="cuda").sum().item() != 2
    except RuntimeError:
        return True


def _end_with_parent() -> None:
    """The other end of the standard input is the parent's; it is closed when that ends, however it does."""
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)
