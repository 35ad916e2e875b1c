"""Errors of the private Gaussian mixture from whole training sets: what the fast draws are compared with."""

import numpy as np

from dplib import gmm


def draw_the_long_way(setting: gmm.Mixture, replicates: int, rng: np.random.Generator) -> gmm.Draws:
    """As :func:`dplib.gmm.draw`, from whole training sets: the reference for its law and its speed."""
    n, p = setting.n_per_class, setting.p
    sums = np.empty((5, replicates))
    distance = setting.alpha / np.sqrt(setting.released)
    share = setting.variances / setting.released
    x = np.empty((2, n, p))  # in units of each feature's standard deviation, from each class's own mean
    for r in range(replicates):
        rng.standard_normal(out=x)
        means = x.sum(axis=1) / n
        variances = (np.einsum("kij,kij->j", x, x) - n * (means**2).sum(axis=0)) / (2 * n - 2)
        t = means[0] - means[1] + distance
        w = t / variances
        sums[:, r] = w @ distance / 2, w @ (means[0] + means[1]) / 2, w @ w, (w * w) @ share, w @ t
    return gmm.Draws(*sums)
