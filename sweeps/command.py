"""What ``python -m dplib sweep`` does with its options."""

from collections.abc import Sequence
from pathlib import Path

from dplib.checks import ParameterError
from sweeps import grid as sweep_grid
from sweeps import store as sweep_store
from sweeps import sweep


def run(
    chapter: str,
    axes: Sequence[str],
    *,
    out: Path | None,
    store: Path | None,
    dry_run: bool,
    retry_failed: bool,
    no_summary: bool,
    **resources,
) -> int:
    """Make a sweep, or say what it would do; returns the exit status: 0 when every run of the grid is done, else 1.

    Args:
        chapter: name, number, path of a MyST notebook, or a YAML file that holds the grid.
        axes: ``NAME=VALUES``, as on the command line.
        out, store, dry_run, retry_failed, no_summary: as on the command line.
        resources: fields of :class:`sweeps.sweep.Resources`.

    Raises:
        ParameterError, RunError: as :func:`sweeps.sweep.run`.
    """
    if chapter.endswith((".yml", ".yaml")):
        if axes:
            raise ParameterError("-p has no place beside a file: the grid is what the file says.")
        grid = sweep_grid.from_file(Path(chapter))
    else:
        grid = sweep_grid.from_words(chapter, axes)
    plan = sweep.plan(grid, (store or sweep_store.FOLDER).resolve())
    given = sweep.Resources(**resources)
    print(sweep.describe(plan, given, retry_failed=retry_failed), flush=True)
    if dry_run:
        return 0
    folder = (out or sweep.default_folder(grid)).resolve()
    counts = sweep.run(plan, folder, given, retry_failed=retry_failed, summary=not no_summary)
    bad = {status: number for status, number in sorted(counts.items()) if status != "done"}
    print("; ".join(f"{number} {status}" for status, number in [("done", counts.get("done", 0)), *bad.items()]) + ".")
    print(f"Index: {(folder / 'index.html').as_uri()}")
    if bad:
        print("The table says why; --retry-failed tries them again.")
    return 1 if bad else 0
