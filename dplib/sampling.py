"""Randomness of DP-SGD: which records a step sees, and its Gaussian noise.

Every function takes its generator. With ``rng=None`` or ``generator=None`` the bits come from the operating system's
cryptographic source instead. Seeded noise is reproducible, and therefore not a private release: whoever knows the seed
subtracts the noise. Use it for experiments only.

Even the cryptographic source leaves the holes of floating-point noise (Mironov, CCS 2012): a sum of doubles reveals
something of its terms in the last bits. Adding four normal variables (Holohan and Braghin 2021, as Opacus does) makes
that attack impractical; it is no proof.
"""

import secrets

import numpy as np
import torch
from torch import Tensor

SAMPLING = ("poisson", "shuffled")
_UNIT = 2.0**-53  # distance of neighbouring doubles just below 1


def poisson(n: int, sample_rate: float, rng: np.random.Generator | None) -> np.ndarray:
    """Rows of one Poisson sample, (b,) in increasing order: each of n records by itself with probability
    ``sample_rate``.

    The gaps between successes of independent trials are geometric, so drawing the gaps gives the same law as n trials
    at the cost of b of them.
    """
    if rng is None:
        return np.flatnonzero(_secure_uniform(n) < sample_rate)
    mean = n * sample_rate
    size = int(mean + 6 * mean**0.5) + 8
    ends = rng.geometric(sample_rate, size).cumsum()
    while ends[-1] <= n:  # six standard deviations away; trials have no memory, so the sequence just goes on
        ends = np.concatenate([ends, ends[-1] + rng.geometric(sample_rate, size).cumsum()])
    return ends[: np.searchsorted(ends, n, side="right")] - 1


class Sampler:
    """The rows of one batch after another, by a rule of ``SAMPLING``.

    "poisson" takes each record by itself with probability ``sample_rate``, and is what privacy accounting is about.
    "shuffled" goes through random orders of the n records in batches of round(sample_rate * n), and leaves out the
    last, incomplete one: for training without privacy.
    """

    def __init__(self, kind: str, n: int, sample_rate: float, rng: np.random.Generator | None):
        self.kind, self.n, self.sample_rate, self.rng = kind, n, sample_rate, rng
        self.batch_size = max(1, round(sample_rate * n))
        self._order = np.empty(0, np.int64)

    def draw(self) -> np.ndarray:
        """(b,) rows of the next batch."""
        if self.kind == "poisson":
            return poisson(self.n, self.sample_rate, self.rng)
        if len(self._order) < self.batch_size:
            self._order = self.rng.permutation(self.n)
        rows, self._order = self._order[: self.batch_size], self._order[self.batch_size :]
        return rows


def fill_normal(out: Tensor, sd: float, generator: torch.Generator | None) -> Tensor:
    """Fill ``out`` with independent N(0, sd^2), and return it. PyTorch's float32 normals are Box-Muller on 24 bits:
    none lies beyond 5.8 standard deviations.
    """
    if generator is None:
        return out.copy_(torch.from_numpy(_secure_normal(out.numel())).mul_(sd).view(out.shape))
    return out.normal_(0.0, sd, generator=generator)


def _secure_normal(n: int) -> np.ndarray:
    """(n,) independent standard normals in float64: half the sum of four, by Box-Muller."""
    pairs = -(-n // 2)
    u, v = _secure_uniform(4 * pairs), _secure_uniform(4 * pairs)
    radius, angle = np.sqrt(-2 * np.log(u + _UNIT)), 2 * np.pi * v  # u + _UNIT is in (0, 1]
    return (np.concatenate([radius * np.cos(angle), radius * np.sin(angle)]).reshape(4, -1).sum(0) / 2)[:n]


def _secure_uniform(n: int) -> np.ndarray:
    """(n,) independent uniforms on the multiples of 2^-53 in [0, 1)."""
    return (np.frombuffer(secrets.token_bytes(8 * n), np.uint64) >> np.uint64(11)) * _UNIT
