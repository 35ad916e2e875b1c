"""Where the book lies: its root, from which every other folder follows, and the kept runs."""

import os
from pathlib import Path

# A copy of the modules without pages and runs, such as an installed wheel, is told where those are.
ROOT = Path(os.environ.get("DPBOOK_ROOT") or Path(__file__).resolve().parents[2]).resolve()
RUNS = Path(os.environ.get("DPBOOK_RUNS") or ROOT / "book" / "runs").resolve()
