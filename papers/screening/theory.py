"""What one screened step is worth, in a model of one step, and how strict the printed temperature is."""

import math

from scipy.stats import norm

from dplib import checks


def progress(drift: float, reliability: float) -> dict[str, float]:
    """Expected fall of the true loss, where a candidate is kept if a *measured* change is not above 0.

    True changes of candidates are normal, and so is the error of the measurement, independent of them. Unit: the
    standard deviation of the measured change.

    Args:
        drift: the mean fall of the loss by a candidate, m.
        reliability: the share of the measured change's variance that is of the true change, in [0, 1].

    Returns "accepted": the probability of acceptance; "per_query", "per_accepted": with screening; "plain": without.
    """
    checks.number(-8, 8).check("drift", drift)
    checks.number(0, 1).check("reliability", reliability)
    accepted = float(norm.cdf(drift))
    per_query = drift * accepted + reliability * float(norm.pdf(drift))
    return {"accepted": accepted, "per_query": per_query, "per_accepted": per_query / accepted, "plain": drift}


def reliability_needed(drift: float) -> float:
    """The least reliability at which screening pays for each *query*: m (1 - Phi(m)) / phi(m), 0 for m <= 0."""
    return max(0.0, drift * math.exp(norm.logsf(drift) - norm.logpdf(drift)))


def most_queries(accepted: int, limit: int) -> int:
    """The most queries T with ``accepted`` >= 1 updates, by Algorithm 2: (mu0 + 1) tau + 1, and tau for mu0 = 0.

    Before each update, and after the last, there are at most mu0 rejections; before the first at most one, because a
    first rejection sets Q = Q0 * 0.
    """
    return (limit + 1) * accepted + min(limit, 1)
