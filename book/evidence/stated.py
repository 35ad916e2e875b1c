"""Numbers of a chapter that no row of the ledger has, for slides and pages that type them.

A chapter records them beside the sentences that state them; ``book.press.typed`` holds other pages against them.
"""

from typing import Any

STATED = "dplib_stated"  # key of the output metadata in which an executed notebook carries them


def record(**values: Any) -> None:
    """Keep numbers, or lists of numbers, under their names; the page shows nothing of it."""
    from IPython.display import display

    plain = {
        name: [float(number) for number in value] if _many(value) else float(value) for name, value in values.items()
    }
    # A comment, as an output without any content would leave an empty box on the page.
    display({"text/html": "<!-- -->", "text/plain": ""}, metadata={STATED: plain}, raw=True)


def _many(value: Any) -> bool:
    return hasattr(value, "__iter__")
