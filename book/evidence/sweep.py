"""A grid of runs: ``python -m book sweep 01_gmm_theory -p epsilon=0.1,1 -p seed=0:20 --cores 2``.

Snakemake makes the runs, each a notebook through papermill (``book/cluster/sweep.smk``), on this machine or a cluster.
A sweep's folder has ``grid.json``, a result and a notebook for each run under ``runs/``, the table and the figure. A
run's name is a hash of all that decides it: the same command goes on where it was, and after an edit makes anew what
was edited.
"""

import collections
import csv
import hashlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from book.evidence import alone, places, sources, sweep_run, table_files
from book.evidence import grid as grids
from book.evidence.execution import RunError
from book.evidence.grid import Grid
from dplib.checks import ParameterError, shown
from dplib.files import publish

CLUSTER = places.ROOT / "book" / "cluster"
FOLDER = places.ROOT / "_build" / "sweeps"
CODE = str(Path(__file__).resolve().parents[2])  # a job finds the packages whatever folder it works in
FIRST = ("key", "status", "reason", "seconds")
FILES = ("table.csv", "table.parquet", "summary.png", "grid.json")


def command(
    chapter: str,
    axes: Sequence[str],
    engine: Sequence[str],
    *,
    out: Path | None,
    cores: int,
    profile: str | None,
    dry_run: bool,
    retry: bool,
) -> int:
    """Make a sweep, or say what it would do; returns the exit status: 0 where every run of the grid is done, else 1.

    Args:
        chapter: name, number, path of a MyST notebook, or a YAML file that holds the grid.
        axes: ``NAME=VALUES``, as on the command line.
        engine: further options of Snakemake, such as ``--jobs 100``.
        out: the sweep's folder; by default one for each grid.
        cores: of this machine, at most.
        profile: of Snakemake, for a cluster: a folder, or "slurm" for ours.
        dry_run: whether only to say how many runs there are, and how long they may take.
        retry: whether to make those that failed again.

    Raises:
        ParameterError: for a grid, a folder or a profile that cannot be, or where a source behind the notebook changed
            during the sweep.
        RunError: where Snakemake began no run, another sweep is at work in the folder, or the disk is full.
    """
    from book.evidence import sweep_figure  # which draws, and takes seconds to import

    if not chapter.endswith((".yml", ".yaml")):
        grid = grids.from_words(chapter, axes)
    elif axes:
        raise ParameterError("-p has no place beside a file: the grid is what the file says.")
    else:
        grid = grids.from_file(Path(chapter))
    folder = (out or default_folder(grid)).resolve()
    if (files := [name for name in FILES if (folder / name).exists()]) and not _is_sweep(folder):
        raise ParameterError(
            f"out = {folder} is not allowed: its {files[0]} is of no sweep, and would be written over."
        )
    engine = [*place(profile, cores), *engine]
    runs = named(grid)
    print(describe(folder, runs, cores, retry=retry), flush=True)
    if dry_run:
        return 0
    try:
        make(grid, folder, runs, engine, retry=retry)
        results = table(folder, runs)
        moved = write(results, folder, grid.varied)
    except OSError as error:
        raise RunError(f"{error}: what has finished is kept, and the same command goes on.") from error
    counts = results["status"].value_counts().to_dict()
    print("; ".join(f"{counts[status]} {status}" for status in sorted(counts, key=lambda name: (name != "done", name))))
    if "done" in counts and not sweep_figure.answer_columns(results):
        print(f"{grid.name} records no answer at its parameters: the table has these alone, and the figure is empty.")
    print(f"Table: {folder / 'table.csv'}; figure: {folder / 'summary.png'}")
    if moved:
        print(moved)
    return 0 if set(counts) == {"done"} else 1


def default_folder(grid: Grid) -> Path:
    """One folder for each grid: the same command finds it again."""
    axes = {name: list(values) for name, values in grid.axes.items()}
    return FOLDER / f"{grid.name}-{_hash(grid.chapter, axes)[:8]}"


def named(grid: Grid) -> dict[str, dict[str, Any]]:
    """The parameters of each run, under a hash of these and of the sources behind the notebook."""
    digest = sources.digest(grid.chapter)
    return {_hash(digest, point)[:32]: point for point in grid.points()}


def place(profile: str | None, cores: int) -> list[str]:
    """Snakemake's options for where the runs are made; ParameterError for a profile that does not exist."""
    if profile is None:
        return ["--profile", "none", "--cores", str(cores)]
    folder = CLUSTER / profile if profile == "slurm" else Path(profile).resolve()
    if not os.path.isfile(folder / "config.yaml"):
        raise ParameterError(
            f"profile = {shown(profile)} is not allowed: it must be slurm, or a folder with the config.yaml of a "
            "profile for Snakemake."
        )
    return ["--profile", str(folder)]


def make(grid: Grid, folder: Path, runs: Mapping[str, Mapping], engine: Sequence[str], *, retry: bool) -> None:
    """Let Snakemake make the runs that are not there; raises as :func:`command`."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    for key in runs if retry else ():
        if _read(folder, key).get("status", "done") != "done":
            (folder / "runs" / f"{key}.json").unlink()
    sweep = {"chapter": grid.chapter, "digest": sources.digest(grid.chapter), "runs": runs}
    todo = [key for key in runs if not _read(folder, key)]
    if not todo:
        return
    publish(folder / "grid.json", json.dumps(sweep))
    before = {path.name for path in (folder / "runs").iterdir()}
    ended = subprocess.run(
        [sys.executable, "-m", "book.evidence.alone", "--snakefile", str(CLUSTER / "sweep.smk"), "--keep-going",
         "--rerun-incomplete", "--rerun-triggers", "mtime", "--quiet", "rules", "host", "reason", *engine],
        cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join([CODE, os.environ.get("PYTHONPATH", "")])},
        check=False,
    )  # fmt: skip
    sweep_run.check_sources(sweep)
    begun = {path.name for path in (folder / "runs").iterdir()} - before
    # Another sweep in this folder may have begun runs meanwhile.
    if ended.returncode == alone.NOT_BEGUN or (ended.returncode and not begun):
        raise RunError(f"No run was begun in {folder}: the lines above say why.")


def describe(folder: Path, runs: Mapping[str, Mapping], cores: int, *, retry: bool) -> str:
    """What a sweep would do: runs, how many are done, and roughly how long the others take on this machine."""
    results = [_read(folder, key) for key in runs]
    counts = collections.Counter(result.get("status", "to do") for result in results)
    failed = sum(counts.values()) - counts["done"] - counts["to do"]
    todo = counts["to do"] + (failed if retry else 0)
    text = f"{len(runs)} runs: {counts['done']} done, {failed} failed before, {todo} to do"
    seconds = [result["seconds"] for result in results if result.get("status") == "done"]
    if not todo or not seconds:
        return f"{text}."
    usual = statistics.median(seconds)
    return f"{text}; some {todo * usual / min(cores, todo) / 60:.1f} minutes at {usual:.0f} s a run, {cores} at once."


def table(folder: Path, runs: Mapping[str, Mapping]) -> pd.DataFrame:
    """A row for each run, in the order of the grid: key, status, reason, seconds, parameters, what it found."""
    rows = []
    for key, parameters in runs.items():
        result = _read(folder, key)
        if not result:
            killed = (folder / "runs" / f"{key}.ipynb").exists()
            result = {
                "status": "killed" if killed else "not run",
                "reason": "its process ended: memory, time?" * killed,
            }
        # A parameter that is called as a column of ours gets a prefix.
        given = {f"parameter.{name}" if name in FIRST else name: value for name, value in parameters.items()}
        about = {name: result.get(name) for name in FIRST[1:]}
        rows.append({"key": key, **about, **given, **result.get("results", {})})
    names = dict.fromkeys(name for row in rows for name in row)
    return pd.DataFrame({name: column([row.get(name) for row in rows]) for name in names})


def column(values: Sequence[Any]) -> pd.Series:
    """Values, None where there is none, as a column of one type: numbers, truth values, or else texts, JSON of what is
    none."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int} and all(abs(value or 0) < 2**63 for value in values):
        return pd.Series(values, dtype="Int64")
    if kinds == {bool}:
        return pd.Series(values, dtype="boolean")
    if kinds and kinds <= {int, float} and float in kinds:
        return pd.Series(values, dtype=float)
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pd.Series(texts, dtype=object)


def write(results: pd.DataFrame, folder: Path, varied: Sequence[str]) -> str:
    """Write ``table.csv``, in which texts alone are quoted, ``table.parquet`` and ``summary.png``; a sentence that says
    where an edited table is now, if there was one.
    """
    from book.evidence import sweep_figure  # it takes seconds to import, and no dry run draws

    moved = table_files.write(results, folder / "table.csv", _csv)
    sweep_figure.draw(results, varied).savefig(folder / "summary.png", dpi=130)
    return moved


def _csv(results: pd.DataFrame) -> str:
    truths = results.select_dtypes("boolean").columns
    lines = results.assign(
        **{name: results[name].map(json.dumps, na_action="ignore").astype(object) for name in truths}
    )
    return lines.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")


def _is_sweep(folder: Path) -> bool:
    """Whether a folder is a sweep's, by its grid."""
    try:
        return set(json.loads((folder / "grid.json").read_text(encoding="utf-8"))) == {"chapter", "digest", "runs"}
    except (OSError, ValueError, TypeError):
        return False


def _read(folder: Path, key: str) -> dict[str, Any]:
    """What became of a run; empty where it has not ended."""
    path = folder / "runs" / f"{key}.json"
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        return {**result, "status": result["status"], "seconds": result["seconds"]}
    except FileNotFoundError:
        return {}
    except (ValueError, LookupError, TypeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise ParameterError(f"{path} is damaged ({what}): remove it, and the run will be made again.") from None


def _hash(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
