"""Scale on paper: what 10^2, 10^4 and 10^6 runs cost, reckoned from measured seconds and bytes of a run.

``tests/benchmarks/bench_sweep.py`` measures them (``book/results/bench_sweep.json``); nothing here is typed in but the
limits, each with its reason.
"""

import json
import math
from pathlib import Path
from typing import Any

from dplib.claims import RESULTS

GRIDS = (100, 10_000, 1_000_000)
CORES = (2, 64, 1024)
# What one file of text still serves: a person opens it, pandas reads it in seconds.
TABLE_BYTES = 500e6
# What a slurmctld holds by default (MaxJobCount).
QUEUE = 10_000


def measured(results: Path = RESULTS) -> dict[str, Any]:
    """What the benchmark measured; the keys that are used here are under ``a_run``."""
    return json.loads((results / "bench_sweep.json").read_text(encoding="utf-8"))


def cost(runs: int, run: dict[str, float], batch: int) -> dict[str, str]:
    """What ``runs`` runs cost, in words, by what it is.

    Args:
        run: of one run: core ``seconds`` all in, ``bytes`` and ``files`` of the store, ``table_bytes`` and
            ``table_seconds`` of the table, ``scheduler_seconds`` of Snakemake; and the ``batch_seconds`` of each batch.
        batch: runs that Snakemake is given at once.
    """
    batches = math.ceil(runs / batch)
    return {
        **{f"wall time on {cores} cores": _time(runs * run["seconds"] / min(cores, runs)) for cores in CORES},
        "disk": _size(runs * run["bytes"]),
        "files": f"{round(runs * run['files']):,}",
        "table as CSV": _size(runs * run["table_bytes"]),
        "time to write the tables": _time(runs * run["table_seconds"]),
        "starts of Snakemake": f"{batches:,}",
        "its own processor time": _time(runs * run["scheduler_seconds"] + batches * run["batch_seconds"]),
        f"jobs to submit a second for {CORES[-1]} cores": _rounded(min(CORES[-1], runs) / run["seconds"]),
    }


def markdown(benchmark: dict[str, Any]) -> str:
    """The costs as a table and the places where something gives way as sentences."""
    run = benchmark["a_run"]
    costs = [cost(runs, run, benchmark["batch"]) for runs in GRIDS]
    lines = ["|  | " + " | ".join(f"$10^{round(math.log10(runs))}$ runs" for runs in GRIDS) + " |"]
    lines += ["|---|" + "---:|" * len(GRIDS)]
    lines += [f"| {name} | {' | '.join(one[name] for one in costs)} |" for name in costs[0]]
    ends = int(TABLE_BYTES / run["table_bytes"])
    return (
        f"A run of the benchmark takes {run['seconds']:.2g} core-seconds all in; the start of its kernel takes "
        f"{run['kernel_seconds']:.2g}; {_size(run['bytes'])} on disk; and {_size(run['table_bytes'])} in the table. A "
        "chapter takes longer and fills more: wall time and disk grow with it, the other rows do not.\n\n"
        + "\n".join(lines)
        + f"\n\nThe CSV passes {_size(TABLE_BYTES)} at about {_rounded(ends)} runs. SLURM's controller keeps {QUEUE:,} "
        f"jobs by default (`MaxJobCount`), which is why `--jobs` limits how many are queued at once.\n"
    )


def _rounded(value: float) -> str:
    """Two significant digits, without an exponent: more is not known."""
    return f"{float(f'{value:.2g}'):,.10g}"


def _time(seconds: float) -> str:
    for size, unit in ((24 * 365, "years"), (24, "days"), (1, "hours"), (1 / 60, "minutes")):
        if seconds / 3600 >= 2 * size:
            return f"{_rounded(seconds / 3600 / size)} {unit}"
    return f"{_rounded(seconds)} s"


def _size(size: float) -> str:
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= factor:
            return f"{_rounded(size / factor)} {unit}"
    return f"{size:.0f} bytes"
