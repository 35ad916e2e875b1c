"""The dials of the book: one interactive figure for each part, written for the pages that embed them."""

from collections.abc import Callable
from pathlib import Path

from press import dials_models, dials_page, dials_privacy
from press.dials_page import Dial

DIALS: tuple[Callable[[], Dial], ...] = (
    dials_models.gmm,
    dials_models.crossover,
    dials_privacy.prior,
    dials_privacy.screening,
)


def build(generated: Path, static: Path) -> None:
    """Write every dial for the site: what pages embed into ``generated``, pictures and the script into ``static``."""
    dials_page.write([make() for make in DIALS], generated, static)
