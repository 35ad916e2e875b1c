"""diffprivlib's side of bench_objpert.py, run by the Python of an environment that has it.

Reads one line of JSON for each task from standard input and answers with one line:

    {"noise": [seeds], "epsilon": e}    the noise vectors that diffprivlib draws for these seeds, without a fit
    {"fit": [seeds], "epsilon": e}      seconds of each fit, and what it found
"""

import json
import sys
import time
import warnings

import numpy as np
from diffprivlib.models import LogisticRegression

TOL, MAX_ITER = 1e-8, 5000


def noise(seed: int, epsilon: float, data_norm: float, d: int) -> np.ndarray:
    """``Vector.randomise`` for C = 1 with the generator of ``random_state=seed``."""
    sensitivity = np.sqrt(data_norm**2 + 1)
    left = epsilon - 2 * np.log(1 + 0.25 * sensitivity)
    scale = sensitivity * 2 / (left if left > 0 else epsilon / 2)
    rng = np.random.RandomState(seed)  # as diffprivlib does
    direction = rng.standard_normal((d, 4)).sum(axis=1) / 2
    return direction / np.linalg.norm(direction) * rng.gamma(d / 4, scale, 4).sum()


def fit(x: np.ndarray, y: np.ndarray, seed: int, epsilon: float, data_norm: float) -> tuple[float, np.ndarray]:
    """Seconds of one fit with C = 1, and the coefficients with the intercept last."""
    model = LogisticRegression(
        epsilon=epsilon, data_norm=data_norm, tol=TOL, max_iter=MAX_ITER, random_state=seed, C=1.0
    )
    start = time.perf_counter()
    model.fit(x, y)
    seconds = time.perf_counter() - start
    return seconds, np.append(model.coef_[0], model.intercept_[0])


def main() -> None:
    warnings.simplefilter("ignore")
    data = np.load(sys.argv[1])
    x, y, data_norm = data["x"], data["y"], float(data["norm_bound"])
    fit(x, y, 0, 1.0, data_norm)
    for line in sys.stdin:
        task = json.loads(line)
        if "noise" in task:
            answer = [noise(seed, task["epsilon"], data_norm, x.shape[1] + 1).tolist() for seed in task["noise"]]
        else:
            fits = [fit(x, y, seed, task["epsilon"], data_norm) for seed in task["fit"]]
            answer = [[seconds, w.tolist()] for seconds, w in fits]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
