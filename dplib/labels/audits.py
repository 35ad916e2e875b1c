"""What an audit in one run can show of label privacy, where the attacker sees as much as there is to see: exactly.

Canaries are records whose label is one of two, by a fair coin; the attacker knows all else and guesses the coins. The
bound is that of :func:`dplib.audit.one_run_epsilon` (Steinke, Nasr and Jagielski 2023), here for the replacement of a
label: under epsilon-label-DP a coin is guessed with probability e^epsilon / (1 + e^epsilon) at most.
"""

import numpy as np
import pandas as pd
from scipy import stats

from dplib import audit, mechanisms

NUMBERS = (100, 1000, 10_000)  # of canaries; a sum of 2,570 numbers has no room for the last


def of_answers(epsilon: float, canaries: int, classes: int, confidence: float = 0.95) -> float:
    """What an audit of randomised response certifies, with the expected number of answers and the median of right ones.

    An answer that is one of a canary's two labels is a guess; else the attacker abstains. Of the guesses a share
    e^epsilon / (1 + e^epsilon) is right: as many as any epsilon-DP release allows.
    """
    either = (np.exp(epsilon) + 1) / (np.exp(epsilon) + classes - 1)
    guesses = round(canaries * either)
    correct = int(stats.binom.median(guesses, 1 / (1 + np.exp(-epsilon))))
    return audit.one_run_epsilon(canaries, guesses, correct, 0.0, confidence)


def of_a_sum(epsilon: float, canaries: int, delta: float = 1e-5, confidence: float = 0.95) -> float:
    """The same of a Gaussian release with the noise for (epsilon, delta), if no canary hides another.

    A canary's score is normal, with mean 1/2 or -1/2 of 1/sigma; those nearest to 0 are abstained from, as many as
    serves the attacker best.
    """
    shift = 1 / float(mechanisms.analytic_sigma(epsilon, delta))
    best = 0.0
    for least in np.linspace(0, 5, 26):
        right, wrong = (round(canaries * stats.norm.sf(least + sign * shift / 2)) for sign in (-1, 1))
        best = max(best, audit.one_run_epsilon(canaries, right + wrong, right, delta, confidence))
    return best


def table(epsilons=(0.1, 0.5, 1.0, 2.0)) -> pd.DataFrame:
    """Certified epsilon, a row for each release and number of canaries, a column for each true epsilon."""
    cells = [(f"answers, {k} labels", n, lambda e, n, k=k: of_answers(e, n, k)) for k in (2, 10) for n in NUMBERS]
    cells += [("one noisy sum", n, of_a_sum) for n in NUMBERS[:2]]
    rows = {(kind, n): {f"ε = {e:g}": found(e, n) for e in epsilons} for kind, n, found in cells}
    return pd.DataFrame(rows).T.rename_axis(["what is seen", "canaries"])
