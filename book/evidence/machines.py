"""What runs were made on: said once beside the files of ``book/runs``, and referred to by their lines.

A line that was just made says all of it itself: the processor, a GPU with its driver, the versions of libraries. That
is a fifth of its bytes, and few machines make all the runs. So :func:`folded` puts it into ``machine-DIGEST.json``, and
the line has ``"machine": DIGEST`` in its place; :func:`whole` gives the line back. A file is named by what it holds: it
never changes, two processes or two branches that write it write the same, and nobody takes one away.

Part of :mod:`book.evidence.runs`.
"""

import functools
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from book.evidence.jobs import Line
from dplib.checks import ParameterError
from dplib.files import publish

REFERENCE = "machine"
FACTS = ("processor", "capability", "gpu", "driver", "cuda", "cudnn", "threads", "versions", "precision")
FILES = "machine-*.json"


def folded(lines: Iterable[Line], folder: Path) -> Iterator[Line]:
    """Lines as a file of this folder has them; what they refer to is in the folder before one of them is given.

    OSError where that cannot be.
    """
    known: dict[str, str] = {}
    for line in lines:
        facts = {name: value for name, value in line["made"].items() if name in FACTS}
        if not facts:
            yield line
            continue
        text = json.dumps(facts, ensure_ascii=False, allow_nan=False)
        if text not in known:
            known[text] = _published(text, folder)
        made = {}
        for name, value in line["made"].items():  # the reference stands where the first of the facts does
            made |= {REFERENCE: known[text]} if name in FACTS else {name: value}
        yield {**line, "made": made}


def whole(line: Line, folder: Path) -> Line:
    """A line as it was made, of one as a file of this folder has it; an older one is whole. Lines of one machine share
    what is nested in it, which is to be read only. ParameterError where the folder does not tell the machine.
    """
    if REFERENCE not in line["made"]:
        return line
    made: dict[str, Any] = {}
    for name, value in line["made"].items():
        if name == REFERENCE:
            made |= _facts(folder, value)
        else:
            made[name] = value
    return {**line, "made": made}


def _published(text: str, folder: Path) -> str:
    """Put a text of facts into its file, if it is not there; its digest."""
    path = _path(folder, digest := _digest(text))
    if _read(path) != text:
        publish(path, f"{text}\n")
    return digest


@functools.cache
def _facts(folder: Path, digest: str) -> dict[str, Any]:
    path = _path(folder, digest)
    if (text := _read(path)) is None or _digest(text) != digest:
        raise ParameterError(f"it refers to {path}, which is not there, or not what its name says.")
    return json.loads(text)


def _path(folder: Path, digest: str) -> Path:
    return folder / FILES.replace("*", digest)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, ValueError):
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
