"""A notebook that behaves as it is told, and sweeps of it, for the tests of sweeps."""

import csv
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from book import __main__
from tests import toys

PARAMETERS = """
epsilon = 1.0  # refused unless positive
seed = 0
action = "fine"
texts = []
folder = "."
"""
RULES = "globals(), epsilon=checks.positive(), seed=checks.integer(0), action=ANY, texts=ANY, folder=ANY"
ACT = """
import hashlib
import json
import os
import signal
import time
from pathlib import Path

if action == "refuse":
    raise checks.ParameterError("action = refuse is not allowed")
if not (Path(folder) / "mended").exists():
    if action == "raise":
        raise ValueError("as it was told")
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
if action == "slow":
    time.sleep(0.3)
if action == "edit":
    with (Path(folder) / "toy.md").open("a") as source:
        source.write("An edit under the sweep.")
"""
RISK = '{"value": 1 / epsilon + seed, "low": 0.0, "high": 1.0, "n": 5}'
RECORD = toys.recorded(risk=RISK, sha="hashlib.sha256(json.dumps(texts).encode()).hexdigest()")
NOTEBOOK = toys.chapter(PARAMETERS, RULES, ACT, RECORD)


def notebook(folder: Path) -> Path:
    """Write the toy notebook to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "toy.md"
    path.write_text(NOTEBOOK, encoding="utf-8")
    return path


def command(source: Path, *words: str, out: str = "out") -> list[str]:
    """The command of a sweep whose folder lies beside the notebook."""
    return [sys.executable, "-m", "book", "sweep", str(source), "--out", str(source.parent / out), *words]


def sweep(source: Path, *words: str, **folders: str) -> subprocess.CompletedProcess:
    """Run a sweep to its end."""
    return subprocess.run(command(source, *words, **folders), capture_output=True, text=True, env=env(), check=False)


def dry_run(source: Path, *words: str) -> str:
    """What a sweep would do; that needs no process of its own."""
    return CliRunner().invoke(__main__.main, [*command(source, *words)[3:], "--dry-run"]).output


def env(**more: str) -> dict[str, str]:
    """This environment; no test needs more than one thread a notebook."""
    return {**os.environ, "OMP_NUM_THREADS": "1", **more}


def table(source: Path, out: str = "out") -> list[dict[str, str]]:
    """The rows of a sweep's CSV."""
    with (source.parent / out / "table.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def lasting(source: Path, out: str = "out") -> list[dict[str, str]]:
    """The rows without what differs between two undisturbed sweeps."""
    return [{name: cell for name, cell in row.items() if name != "seconds"} for row in table(source, out)]
