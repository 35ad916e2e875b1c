"""Differential privacy for machine learning: accounting, DP-SGD, label privacy, audits, and what four papers propose.

One topic a file. The names below come from there when they are first asked for, so that ``import dplib`` costs nothing;
``dplib/__init__.pyi`` says the same to type checkers. Data sets are behind a door of their own, :mod:`dplib.data`.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "accounting": ("Bounds", "bounds", "epsilon", "noise_multiplier", "selection_epsilon"),
    "annealing": ("Annealing",),
    "audit": ("LowerBound", "audit_guesses", "audit_scores"),
    "checks": ("ParameterError",),
    "dpsgd": ("DPSGD", "Run", "train"),
    "exact_loss": ("discrete_epsilon",),
    "examples": ("Data", "evaluate"),
    "mechanisms": ("analytic_sigma", "clip_rows", "gaussian_epsilon"),
    "models": ("mlp", "small_cnn"),
    "randomised_response": ("Response", "rr", "rr_top_k", "rr_with_prior"),
    "selection": ("dfs", "private_dfs"),
    "stats": ("Measured", "mean_interval"),
}
_FROM = {name: module for module, names in _HOME.items() for name in names}
__all__ = ["__version__", *sorted(_FROM)]


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module dplib has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dplib.{_FROM[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_FROM})
