"""Where the book lies: its root, from which every other folder follows, and the kept runs."""

import os
from pathlib import Path

from dplib.checks import ParameterError

# The repository, where the modules lie in one. An installed wheel has neither pages nor runs: they lie in the folder
# from which a chapter is run, as one that was downloaded has them, or where it is told.
_HERE = Path(__file__).resolve().parents[2]
ROOT = Path(os.environ.get("DPBOOK_ROOT") or (_HERE if (_HERE / "_toc.yml").exists() else Path.cwd())).resolve()
RUNS = Path(os.environ.get("DPBOOK_RUNS") or ROOT / "book" / "runs").resolve()
CLAIMS = ROOT / "book" / "claims"
# A paper is a letter: its rows are in the file of that name, and their ids begin with it, "A.thm6".
PAPERS = tuple(sorted(path.stem for path in CLAIMS.glob("[A-Z].yml")))
ROW = r"[A-Z]\.[a-z0-9]"  # how the id of a row begins
RESULTS = ROOT / "book" / "results"


def check() -> None:
    """ParameterError where DPBOOK_ROOT or DPBOOK_RUNS names no folder: all kept runs would be missing."""
    for name in ("DPBOOK_ROOT", "DPBOOK_RUNS"):
        if (folder := os.environ.get(name)) and not os.path.isdir(folder):
            raise ParameterError(f"{name} = {folder} is not a folder: set it to one that is there, or unset it.")
