"""What does a sweep cost beyond its notebooks? On two cores and on one, and in the driver's memory?

    python -m tests.benchmarks.bench_sweep [--runs 200] [--seconds 3] [--output book/results/bench_sweep.json]

A notebook that computes for some seconds (a sum of squares in Python, one thread) is swept over seeds: on two cores,
then on one. Overhead is the time of the cores (wall time times cores) that is neither the cells' own nor a kernel's
start, as a share of the cells' own. The start of a kernel is from papermill's begin to the first cell. The notebook's
own time is how long its cells took in that very sweep. Driver memory is the peak of its resident memory and of
Snakemake's, at fifty runs and at all of them, without the figure.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from book.evidence.sweeps import sweep
from tests import toys
from tests.benchmarks.written import parser, report, row, save

VALUE = '{"value": total, "low": 0.0, "high": 1.0, "n": 5}'
OVERHEAD, TWO_CORES, MEMORY = 1.15, 0.6, 1.1


class Sweep:
    """A sweep of the notebook in a folder of its own, with what it took."""

    def __init__(self, folder: Path, runs: int, cores: int):
        out, store = folder / f"out-{runs}-{cores}", folder / f"store-{runs}-{cores}"
        words = ["-m", "book", "sweep", str(folder / "short.md"), "-p", f"seed=0:{runs}", "--cores", str(cores)]
        words += ["--no-summary", "--out", str(out), "--store", str(store)]
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.peaks: dict[str, float] = {"driver": 0.0, "snakemake": 0.0}
        watch = threading.Thread(target=self._watch, args=(process,))
        watch.start()
        if process.wait():
            raise SystemExit(f"the sweep ended with status {process.returncode}")
        self.wall = time.perf_counter() - start
        watch.join()
        self.cores, self.runs = cores, runs
        self.results = [json.loads(path.read_text()) for path in store.rglob("*.json")]

    @property
    def own(self) -> float:
        """Seconds of all cells."""
        return sum(result["cell_seconds"] for result in self.results)

    @property
    def kernels(self) -> float:
        """Seconds of all starts of kernels."""
        return sum(result["kernel_seconds"] for result in self.results)

    @property
    def overhead(self) -> float:
        """Core-seconds that are neither, over those of the cells."""
        return (self.wall * self.cores - self.kernels - self.own) / self.own

    def _watch(self, process: subprocess.Popen) -> None:
        driver = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                engines = [("snakemake", child) for child in driver.children() if "snakemake" in child.cmdline()]
                for name, one in [("driver", driver), *engines]:
                    self.peaks[name] = max(self.peaks[name], one.memory_info().rss / 1e6)
            except psutil.Error:
                pass
            time.sleep(0.2)


def steps_for(seconds: float) -> int:
    """How many steps of the notebook's loop take so long here."""
    start = time.perf_counter()
    sum((i ^ 1) ** 2 for i in range(1_000_000))
    return int(1_000_000 * seconds / (time.perf_counter() - start))


def measure(runs: int, seconds: float) -> dict:
    """Sweep on two cores, on one, and a quarter of the runs for the memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sums = f"total = sum((i ^ seed) ** 2 for i in range({steps_for(seconds)}))"
        record = toys.recorded(**{f"value_{i}": VALUE for i in range(10)})
        text = toys.chapter("seed = 0", "globals(), seed=checks.integer(0)", sums, record)
        (folder / "short.md").write_text(text, encoding="utf-8")
        one = Sweep(folder, runs, 1)
        two = Sweep(folder, runs, 2)
        few = Sweep(folder, runs // 4, 2)
    memory = two.peaks["driver"] / few.peaks["driver"]
    what = f"{runs} runs of {two.own / runs:.2g} s"
    rows = [
        row(f"{what}: {part}", of, ratio, at_most=most)
        for part, of, ratio, most in (
            ("time of two cores without kernel starts", "sweep / cells", 1 + two.overhead, OVERHEAD),
            ("wall time", "two cores / one core", two.wall / one.wall, TWO_CORES),
            ("driver's memory", f"{runs} runs / {runs // 4} runs", memory, MEMORY),
        )
    ]
    sweeps = [
        {"runs": s.runs, "cores": s.cores, "wall_seconds": s.wall, "overhead": s.overhead, "megabytes": s.peaks}
        for s in (few, two, one)
    ]
    return report("sweep", rows, "snakemake", "papermill", runs=runs, batch=sweep.BATCH, sweeps=sweeps)


def main() -> None:
    options = parser("bench_sweep", __doc__)
    options.add_argument("--runs", type=int, default=200)
    options.add_argument("--seconds", type=float, default=3.0)
    given = options.parse_args()
    save(given.output, measure(given.runs, given.seconds))


if __name__ == "__main__":
    main()
