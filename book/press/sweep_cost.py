"""Scale on paper: what 10^2, 10^4 and 10^6 runs cost, reckoned from measured seconds and bytes of a run.

``tests/benchmarks/bench_sweep.py`` measures them (``book/results/bench_sweep.json``); nothing here is typed in but the
limits, each with its reason.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dplib.claims import RESULTS

GRIDS = (100, 10_000, 1_000_000)
CORES = (2, 64, 1024)
# What one file of text still serves: a person opens it, pandas reads it in seconds.
TABLE_BYTES = 500e6
# What a slurmctld holds by default (MaxJobCount).
QUEUE = 10_000


@dataclass(frozen=True)
class Cost:
    """What a grid costs.

    Attributes:
        runs: of the grid.
        hours: cores to wall-clock hours.
        gigabytes: of executed notebooks and results.
        files: of the store.
        table_megabytes: of the CSV.
        table_seconds: to write the tables once.
        batches: how often Snakemake is started.
        scheduler_hours: of processor time that Snakemake spends on the machine of the driver.
        submissions_a_second: that keep the largest number of cores busy, one job a run.
    """

    runs: int
    hours: dict[int, float]
    gigabytes: float
    files: int
    table_megabytes: float
    table_seconds: float
    batches: int
    scheduler_hours: float
    submissions_a_second: float


def measured(results: Path = RESULTS) -> dict[str, Any]:
    """What the benchmark measured; the keys that are used here are under ``a_run``."""
    return json.loads((results / "bench_sweep.json").read_text(encoding="utf-8"))


def cost(runs: int, run: dict[str, float], batch: int) -> Cost:
    """What ``runs`` runs cost.

    Args:
        runs: at least 1.
        run: of one run: core ``seconds`` all in, ``bytes`` and ``files`` of the store, ``table_bytes`` and
            ``table_seconds`` of the table, ``scheduler_seconds`` of Snakemake; and the ``batch_seconds`` of each batch.
        batch: runs that Snakemake is given at once.
    """
    batches = math.ceil(runs / batch)
    return Cost(
        runs=runs,
        hours={cores: runs * run["seconds"] / min(cores, runs) / 3600 for cores in CORES},
        gigabytes=runs * run["bytes"] / 1e9,
        files=round(runs * run["files"]),
        table_megabytes=runs * run["table_bytes"] / 1e6,
        table_seconds=runs * run["table_seconds"],
        batches=batches,
        scheduler_hours=(runs * run["scheduler_seconds"] + batches * run["batch_seconds"]) / 3600,
        submissions_a_second=min(CORES[-1], runs) / run["seconds"],
    )


def table_ends_at(run: dict[str, float]) -> int:
    """The number of runs at which the CSV grows over TABLE_BYTES."""
    return int(TABLE_BYTES / run["table_bytes"])


def markdown(benchmark: dict[str, Any]) -> str:
    """The costs as a table and the places where something gives way as sentences."""
    run, batch = benchmark["a_run"], benchmark["batch"]
    costs = [cost(runs, run, batch) for runs in GRIDS]
    rows = [("", [f"$10^{round(math.log10(c.runs))}$ runs" for c in costs])]
    rows += [(f"wall time on {cores} cores", [_time(c.hours[cores]) for c in costs]) for cores in CORES]
    rows += [
        ("disk", [_size(c.gigabytes * 1e9) for c in costs]),
        ("files", [f"{c.files:,}" for c in costs]),
        ("table as CSV", [_size(c.table_megabytes * 1e6) for c in costs]),
        ("time to write the tables", [_time(c.table_seconds / 3600) for c in costs]),
        ("starts of Snakemake", [f"{c.batches:,}" for c in costs]),
        ("its own processor time", [_time(c.scheduler_hours) for c in costs]),
        (f"jobs to submit a second for {CORES[-1]} cores", [_rounded(c.submissions_a_second) for c in costs]),
    ]
    lines = [f"| {name} | {' | '.join(cells)} |" for name, cells in rows]
    lines.insert(1, "|---|" + "---:|" * len(costs))
    ends = table_ends_at(run)
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


def _time(hours: float) -> str:
    for size, unit in ((24 * 365, "years"), (24, "days"), (1, "hours"), (1 / 60, "minutes")):
        if hours >= 2 * size:
            return f"{_rounded(hours / size)} {unit}"
    return f"{_rounded(hours * 3600)} s"


def _size(size: float) -> str:
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= factor:
            return f"{_rounded(size / factor)} {unit}"
    return f"{size:.0f} bytes"
