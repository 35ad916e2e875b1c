"""The bar of long trainings: tqdm's own, a widget in notebooks that have widgets, and a line of text elsewhere."""

import warnings

with warnings.catch_warnings():
    # A notebook without widgets gets the line of text, which needs no warning.
    warnings.filterwarnings("ignore", message="IProgress not found")
    from tqdm.auto import tqdm

__all__ = ["tqdm"]
