"""How much faster is one model by objective perturbation here than in diffprivlib, on paper B's Breast Cancer?

    python tests/benchmarks/bench_objpert.py [--output book/results/bench_objpert.json]

All 286 records, 43 features and an intercept, C = 1, at the 13 budgets of paper B's Table X. For each budget, the
same 1,000 problems (diffprivlib's noise, its constants, its free intercept): ours in one call, diffprivlib fits 40
of them in each round, another 40 each time. The two alternate; one thread each. diffprivlib times its own calls of
``fit`` in its own process, since it needs older libraries: an environment is made for it, once, in the cache folder.
Problems without a minimiser are left out. A figure is the ratio of the medians of the time per model.

diffprivlib stops where its solver's last steps change the objective by less than 1.4e-14, relatively; nothing can make
it go on. Its mean objective is then far within 1e-8 of the minimum, though not its coefficients. Ours are as well.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np
import torch
from scipy import special
from written import medians, report, row, timed, write

from dplib import data
from dplib.architecture import objpert
from dplib.data import fetch, preprocess

PINS = ("diffprivlib==0.6.6", "scikit-learn==1.5.2", "numpy==2.0.2", "scipy==1.17.1")
BUDGETS = (0.01, 0.1, 0.5, 1, 1.5, 2, 5, 10, 20, 25, 30, 35, 40)  # paper B, Table X
PROBLEMS, EACH, ROUNDS, LEAST, WITHIN, TOL = 1000, 40, 7, 10, 1e-8, 1e-12
NORM_BOUND = 3.0  # nine one-hot attributes


class UnavailableError(RuntimeError):
    """The other side, or the data, cannot be had here."""


def environment() -> Path:
    """The Python of an environment with diffprivlib, made in the cache folder unless it is there."""
    folder = fetch.cache_folder() / "-".join(["environment", *PINS, platform.python_version()]).replace("==", "-")
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        print(f"making {folder}", file=sys.stderr)
        try:
            venv.create(folder, clear=True, with_pip=True)
            command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PINS]
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UnavailableError(f"No environment with {', '.join(PINS)} could be made ({error}).") from None
        ready.touch()
    return python


class Diffprivlib:
    """The process that fits with diffprivlib: one line of JSON there, one back."""

    def __init__(self, x: np.ndarray, y: np.ndarray, folder: Path):
        np.savez(folder / "records.npz", x=x, y=y, norm_bound=NORM_BOUND)
        worker = Path(__file__).with_name("diffprivlib_fits.py")
        command = [environment(), worker, folder / "records.npz"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **task):
        """The answer to one task."""
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise UnavailableError("diffprivlib's process ended: see above.")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()


def records() -> tuple[np.ndarray, np.ndarray]:
    """All 286 records, one-hot."""
    try:
        table = preprocess.breast_cancer_one_hot(data.load("breast-cancer"))
    except data.DataError as error:
        raise UnavailableError(str(error)) from None
    x, y = np.concatenate([table.x_train, table.x_test]), np.concatenate([table.y_train, table.y_test])
    return x.astype(float), y


def problems(other: Diffprivlib, y: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """PROBLEMS seeds whose problem has a minimiser, and their noise."""
    seeds = np.arange(2 * PROBLEMS)
    noise = np.array(other.ask(noise=seeds.tolist(), epsilon=epsilon))
    constants = objpert.calibrate(epsilon, 1.0, np.hypot(NORM_BOUND, 1), variant="diffprivlib")
    ones = y.sum()
    has = (constants.extra > 0) | ((noise[:, -1] > -(len(y) - ones)) & (noise[:, -1] < ones))
    return seeds[has][:PROBLEMS], noise[has][:PROBLEMS]


def ours(x: np.ndarray, y: np.ndarray, epsilon: float, noise: np.ndarray) -> tuple[float, objpert.Fit]:
    """Seconds per model, with the time that drawing noise would take, and the models."""
    drawn = np.ones(len(noise)), np.ones(noise.shape, dtype=bool), np.random.default_rng(0)
    took, _ = timed(objpert.draw_noise, *drawn)
    more, models = timed(fitted, x, y, epsilon, noise, TOL)
    return (took + more) / len(noise), models


def fitted(x: np.ndarray, y: np.ndarray, epsilon: float, noise: np.ndarray, tol: float) -> objpert.Fit:
    """Our models, with diffprivlib's constants."""
    return objpert.fit(
        x, y, epsilon=epsilon, norm_bound=NORM_BOUND, noise=noise, rng=None, variant="diffprivlib", tol=tol,
        device="cpu",
    )  # fmt: skip


def above_minimum(w: np.ndarray, best: np.ndarray, x: np.ndarray, y: np.ndarray, noise: np.ndarray, epsilon) -> float:
    """The most by which the mean objective at a row of w exceeds that at the same row of ``best``.

    By Newton's second-order term, (w - best) H (w - best) / 2n, which does not drown in the objective's rounding; it
    leaves out third-order terms only.
    """
    extra = float(objpert.calibrate(epsilon, 1.0, np.hypot(NORM_BOUND, 1), variant="diffprivlib").extra)
    rows, prices = np.hstack([x, np.ones((len(x), 1))]), np.append(np.full(x.shape[1], 1 + extra), extra)
    s, away = special.expit(best @ rows.T), w - best
    return float((((away @ rows.T) ** 2 * s * (1 - s)).sum(1) + (prices * away**2).sum(1)).max() / 2 / len(x))


def measure() -> dict:
    """Median times per model of each side at each budget, their ratios, and how near each is to the minimum."""
    torch.set_num_threads(1)
    x, y = records()
    with tempfile.TemporaryDirectory() as folder:
        other = Diffprivlib(x, y, Path(folder))
        tasks = {epsilon: problems(other, y, epsilon) for epsilon in BUDGETS}
        seconds = {epsilon: {"diffprivlib": [], "dplib": []} for epsilon in BUDGETS}
        above = {"diffprivlib": 0.0, "dplib": 0.0}
        for epsilon, (_, noise) in tasks.items():
            ours(x, y, epsilon, noise[:200])
        for k in range(ROUNDS):
            part = slice(k * EACH, (k + 1) * EACH)
            for epsilon, (seeds, noise) in tasks.items():
                took, models = ours(x, y, epsilon, noise)
                assert models.converged.all()
                answers = other.ask(fit=seeds[part].tolist(), epsilon=epsilon)
                seconds[epsilon]["dplib"].append(took)
                seconds[epsilon]["diffprivlib"].append(statistics.median(a[0] for a in answers))
                exact = fitted(x, y, epsilon, noise[part], 1e-13)
                best, mine = (np.hstack([m.coef, m.intercept[:, None]]) for m in (exact, models))
                for name, w in (("diffprivlib", np.array([a[1] for a in answers])), ("dplib", mine[part])):
                    above[name] = max(above[name], above_minimum(w, best, x, y, noise[part], epsilon))
        other.close()
    by_budget = {epsilon: medians(both) for epsilon, both in seconds.items()}
    total = {name: sum(one[name] for one in by_budget.values()) for name in above}
    what = "objective perturbation on Breast Cancer, one model at each budget of Table X"
    ratio_of = "diffprivlib 0.6.6, one by one / dplib, 1,000 at once"
    one = row(what, ratio_of, total["diffprivlib"] / total["dplib"], total, at_least=LEAST)
    more = {"seconds_by_budget": by_budget, "above_minimum": above, "both_within": max(above.values()) <= WITHIN}
    found = report("objpert", [one], "numpy", "scipy", "torch", problems=PROBLEMS, blocks=ROUNDS, **more)
    found["versions"]["diffprivlib's"] = ", ".join(PINS)
    return found


def main() -> None:
    try:
        write("bench_objpert", __doc__, measure)
    except UnavailableError as error:
        print(f"Left out: {error}")


if __name__ == "__main__":
    main()
