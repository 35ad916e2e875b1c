"""Values on the command line."""

import ast
from typing import Any


def value(text: str) -> Any:
    """A parameter from the command line: a Python literal, nan or inf, true or false, else the text itself."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return float(text) if text.lower().strip("+-") in ("nan", "inf") else ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
