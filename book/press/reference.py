"""A Sphinx extension for the library's reference: docstrings are plain text, ``|x|`` a norm and * a product."""

import re
from typing import Any

# What reStructuredText reads as the beginning of something: a substitution, emphasis, a link by its last underscore.
_MARKS = re.compile(r"[|*]|_(?=\W|$)")
_CODE = re.compile(r"(``.*?``|:\w+:`[^`]*`)")


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect(
        "autodoc-process-docstring", _as_it_reads, priority=100
    )  # before napoleon, which writes marks of its own
    return {"parallel_read_safe": True}


def _as_it_reads(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Every mark stands for itself, but inside of code and of roles."""
    for number, line in enumerate(lines):
        parts = _CODE.split(line)
        lines[number] = "".join(part if _CODE.fullmatch(part) else _MARKS.sub(r"\\\g<0>", part) for part in parts)
