"""Values on the command line."""

import ast
from typing import Any

import yaml


def value(text: str) -> Any:
    """A parameter from the command line: a Python literal, nan or inf, true or false, else the text itself.

    A list may have bare words, ``[mnist, digits]``: a shell takes quotation marks away.
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return float(text) if text.lower().strip("+-") in ("nan", "inf") else ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _words(text) if text.startswith("[") else text


def _words(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
