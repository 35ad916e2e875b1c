"""What ``count`` epsilon-DP mechanisms cost together: equation (8) of paper B, and better answers.

Each mechanism is epsilon-DP (delta = 0) for one neighbouring relation, whichever it is as long as it is symmetric; the
total holds for the same relation. Later mechanisms may be chosen by looking at earlier outputs, but ``count`` and
epsilon are fixed in advance. A number that depends on the data, such as the distinct candidates c' that a search with
memoisation happened to train, may not be put in afterwards: none of these theorems covers it. A cap does: fix it in
advance, and stop the search when it is reached. All outputs may be published; publishing only some costs no more.

Rules:

- ``basic``: count * epsilon, at any delta.
- ``printed``: equation (8) as printed, with the second term under the root. It is no bound: see :func:`violations`.
- ``corrected``: equation (8) with the bracket closed before it, which is advanced composition (Dwork, Rothblum and
  Vadhan 2010, Theorem III.3).
- ``zcdp``: epsilon-DP is (epsilon^2 / 2)-zCDP, and that converts to rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke
  2016, Propositions 1.4 and 1.3).
- ``rdp``: the Rényi divergences of randomised response, which no epsilon-DP mechanism exceeds, with the improved
  conversion of ``dplib.rdp``.
- ``optimal``: the least epsilon that holds for all epsilon-DP mechanisms (Kairouz, Oh and Viswanath 2015,
  Theorem 3.3); randomised response attains it.
"""

import numpy as np
import pandas as pd
from scipy import special

from dplib import rdp
from dplib.checks import one_of


def composed_epsilon(epsilon, count, delta, rule="optimal"):
    """Epsilon at ``delta`` of ``count`` mechanisms, each epsilon-DP, by a rule of the module; arrays broadcast.

    "corrected", "zcdp" and "rdp" may exceed "basic": take the least, they all hold. "optimal" never exceeds another.
    """
    one_of(*_RULE).check("rule", rule)
    return np.vectorize(_RULE[rule], otypes=[float])(epsilon, count, delta)[()]


def optimal_delta(epsilon, count, total_epsilon):
    """The exact delta at ``total_epsilon`` of ``count`` randomised responses: the sum of equation (5) of Kairouz et al.

    With l false answers the privacy loss is (count - 2 l) epsilon; each l adds P(l) (1 - e^(total - loss)) above it.
    """
    log_p, _ = _log_masses(epsilon, count)
    excess = total_epsilon - (count - 2 * np.arange(count + 1)) * epsilon
    above = excess < 0
    return float(np.exp(special.logsumexp(log_p[above] + np.log(-np.expm1(excess[above]))))) if above.any() else 0.0


def pure_rdp(epsilon, orders=rdp.ORDERS):
    """Rényi divergences (k,) of randomised response, the largest that an epsilon-DP mechanism can have.

    Every pair of output distributions of an epsilon-DP mechanism is a post-processing of randomised response's
    (Kairouz et al. 2015), and divergences only fall under post-processing.
    """
    orders = np.asarray(orders, dtype=float)
    log_p, log_q = -np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)
    terms = orders * log_p + (1 - orders) * log_q, orders * log_q + (1 - orders) * log_p
    return np.maximum(0.0, np.logaddexp(*terms)) / (orders - 1)


def violations(settings) -> pd.DataFrame:
    """Where the printed equation (8) promises less than randomised response really costs: proof that it is no bound.

    One row for each (epsilon, count, delta) that violates it: printed, exact, and delta_at_printed, the exact delta of
    randomised response at the printed epsilon, above the delta that was promised.
    """
    rows = []
    for setting in settings:
        printed, exact = (composed_epsilon(*setting, rule) for rule in ("printed", "optimal"))
        if printed < exact:
            rows.append((*setting, printed, exact, optimal_delta(*setting[:2], printed)))
    return pd.DataFrame(rows, columns=["epsilon", "count", "delta", "printed", "exact", "delta_at_printed"])


def _basic(epsilon, count, delta):
    return count * epsilon


def _printed(epsilon, count, delta):
    return epsilon * np.sqrt(-2 * count * np.log(delta) + count * epsilon * np.expm1(epsilon))


def _corrected(epsilon, count, delta):
    return epsilon * np.sqrt(-2 * count * np.log(delta)) + count * epsilon * np.expm1(epsilon)


def _zcdp(epsilon, count, delta):
    rho = count * epsilon**2 / 2
    return rho + 2 * np.sqrt(-rho * np.log(delta))


def _rdp(epsilon, count, delta):
    return rdp.to_epsilon(count * pure_rdp(epsilon), rdp.ORDERS, delta).min()


def _optimal(epsilon, count, delta):
    """The worst set of outputs holds all with at most m false answers; epsilon is the largest ln((P - delta) / Q)."""
    log_p, log_q = (np.logaddexp.accumulate(part) for part in _log_masses(epsilon, count))
    above = log_p > np.log(delta)
    ratios = log_p[above] + np.log(-np.expm1(np.log(delta) - log_p[above])) - log_q[above]
    return float(np.clip(ratios.max(initial=0.0), 0.0, count * epsilon))


def _log_masses(epsilon, count):
    """Logarithms of P(l) and Q(l), each (count + 1,): l false answers of ``count``, on the data and on its neighbour.
    Sums of logarithms: neither the binomial coefficients nor the powers of e^epsilon ever overflow.
    """
    l = np.arange(count + 1)  # noqa: E741
    log_binomial = special.gammaln(count + 1) - special.gammaln(l + 1) - special.gammaln(count - l + 1)
    log_true, log_false = -np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)
    return log_binomial + (count - l) * log_true + l * log_false, log_binomial + l * log_true + (count - l) * log_false


_RULE = {
    "basic": _basic,
    "printed": _printed,
    "corrected": _corrected,
    "zcdp": _zcdp,
    "rdp": _rdp,
    "optimal": _optimal,
}
