"""What the benchmarks measured: ratios of run times, as a table and a chart for the book.

``make bench`` runs ``tests/benchmarks``; each script measures both sides alternately in one process and writes
``book/results/bench_*.json`` with rows of ``what``, ``ratio_of``, ``ratio``, and ``at_most`` or ``at_least``.
"""

import json
import textwrap
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import seaborn as sns

from dplib import plotting
from dplib.claims import RESULTS


def load(results: Path = RESULTS) -> list[dict[str, Any]]:
    """The committed benchmarks, in the order of their names."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("bench_*.json"))]


def rows(benchmarks: list[dict[str, Any]], bound: str) -> list[dict[str, Any]]:
    """Rows with a limit of one kind: "at_most" or "at_least"."""
    return [row for benchmark in benchmarks for row in benchmark["rows"] if bound in row]


def markdown(benchmarks: list[dict[str, Any]]) -> str:
    """Tables of slow-downs, of speed-ups and of ratios without a limit; the machine and versions of each benchmark."""
    parts = []
    for bound, words in (("at_most", "at most"), ("at_least", "at least")):
        if found := rows(benchmarks, bound):
            parts.append(f"| what | ratio of | measured | {words} | |\n|---|---|---:|---:|---|")
            for row in found:
                met = "met" if row["met"] else "**missed**"
                parts[-1] += f"\n| {row['what']} | {row['ratio_of']} | {row['ratio']:.3g} | {row[bound]:g} | {met} |"
    if free := [row for one in benchmarks for row in one["rows"] if not {"at_most", "at_least"} & row.keys()]:
        parts.append("| what, for comparison | ratio of | measured |\n|---|---|---:|")
        parts[-1] += "".join(f"\n| {row['what']} | {row['ratio_of']} | {row['ratio']:.3g} |" for row in free)
    machines = []
    for benchmark in benchmarks:
        versions = ", ".join(f"{name} {version}" for name, version in benchmark["versions"].items() if version)
        hardware = benchmark["hardware"]
        machines.append(f"- *{benchmark['benchmark']}*: {hardware['processor']}, {hardware['cores']} cores; {versions}")
    return "\n\n".join([*parts, "\n".join(machines)]) + "\n"


def draw(benchmarks: list[dict[str, Any]], path: Path) -> None:
    """Bars of both kinds of ratio, each with its limit as a black line."""
    plotting.theme()
    kinds = {
        "at_most": "ratio of times, or of memory (shorter is better)",
        "at_least": "times as fast (longer is better)",
    }
    found = {bound: rows(benchmarks, bound) for bound in kinds}
    heights = [max(1, len(part)) for part in found.values()]
    # Narrow, with the names above their bars: a telephone shows the whole width, and the names can be read on it.
    figure, panels = plt.subplots(2, 1, figsize=(5, 1.6 + 0.66 * sum(heights)), height_ratios=heights)
    for axes, (bound, title), colour in zip(panels, kinds.items(), sns.color_palette("colorblind", 2), strict=True):
        places = range(len(found[bound]))
        limits = [row[bound] for row in found[bound]]
        axes.barh(places, [row["ratio"] for row in found[bound]], color=colour, height=0.26)
        axes.vlines(limits, [i - 0.2 for i in places], [i + 0.2 for i in places], "black")
        for i, row in enumerate(found[bound]):
            name = textwrap.fill(f"{row['what']}: {row['ratio_of']}", 64)
            style = {"fontsize": 9, "va": "bottom", "linespacing": 1, "bbox": {"color": "white", "pad": 0}}
            axes.text(0.01, i - 0.2, name, transform=axes.get_yaxis_transform(), **style)
        axes.set_yticks([])
        axes.set_ylim(len(found[bound]) - 0.6, -0.75)
        axes.set_xlabel(title, fontsize=10)
        axes.set_xscale("log" if bound == "at_least" else "linear")
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)
