"""A Sphinx extension for the library's reference: docstrings are plain text, in which ``|x|`` is a norm."""

import re
from typing import Any

_BAR = re.compile(r"(?<!`)\|(?!`)")


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("autodoc-process-docstring", _as_it_reads)
    return {"parallel_read_safe": True}


def _as_it_reads(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """A bar is a bar, and no substitution of reStructuredText's; inside of double backticks it is one anyway."""
    for number, line in enumerate(lines):
        parts = re.split(r"(``.*?``)", line)
        lines[number] = "".join(part if part.startswith("``") else _BAR.sub(r"\\|", part) for part in parts)
