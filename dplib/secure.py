"""Randomness of private releases, which nobody can draw again: bytes, normals, and trials.

The operating system gives a key of 32 bytes for each batch and for every half megabyte of noise, and a cryptographic
stream stretches it: AES-256 in counter mode where the package ``cryptography`` is installed, else SHAKE128 (FIPS 202)
of Python's own ``hashlib``, with which a normal takes twice as long. Nothing is kept between two calls: no seed repeats
a draw, forked processes and threads share nothing, and who reads the memory later learns no earlier draw.

What a stream cannot mend: noise and sums are floating-point numbers, in a network of 24 bits, and low bits can betray
what was added (Mironov 2012). Accounting is of exact numbers. Where a record alone has some feature of a layer, the
weights of that feature got one addend beside the noise, and whether there was one may be read off their last digits: do
not release weights to all their digits where records may be so.
"""

import hashlib
import math
import secrets
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

try:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
except ImportError:
    Cipher = None

KEY = 32  # bytes
_SUMMED = 4  # normals in one: what they were is not to be searched for by one's sum (Holohan and Braghin 2021)
_PAIRS = 2**13  # of normals made at once: their words take 64 bytes a pair, and are to stay in a core's cache
_POSITIVE = 2**63 - 1


def random_bytes(n: int) -> bytearray:
    """n bytes under a key of their own.

    Args:
        n: at least 0.
    """
    return _stretch(secrets.token_bytes(KEY), n)


def normal(n: int) -> Tensor:
    """(n,) independent N(0, 1) in float64: each half the sum of four, which Box and Muller's method makes in pairs.

    A radius has 63 random bits and reaches 9.4, an angle has 53, so that a sum reaches 18 standard deviations.

    Args:
        n: at least 0.
    """
    out = torch.empty(2, -(-n // 2), dtype=torch.float64)
    for piece in out.split(_PAIRS, 1) if n else ():
        words = torch.frombuffer(random_bytes(2 * _SUMMED * 8 * piece.shape[1]), dtype=torch.int64)
        first, angle = words.view(2, _SUMMED, -1)
        u = first.bitwise_and_(_POSITIVE).double().mul_(2.0**-63).add_(2.0**-64)  # in (0, 1]
        radius, angle = u.log_().mul_(-2).sqrt_(), angle.double().mul_(math.pi * 2.0**-63)
        for normals, turned in zip(piece, (torch.cos(angle), angle.sin_()), strict=True):
            torch.sum(turned.mul_(radius), 0, out=normals).mul_(_SUMMED**-0.5)
    return out.view(-1)[:n]


def successes(n: int, p: float) -> np.ndarray:
    """Positions (b,) of the successes among n independent trials, increasing.

    16 bits decide nearly every trial: only where they equal those of p are 53 more drawn.

    Args:
        n: trials, at least 0.
        p: chance of each, in [0, 1]; it is kept to 2^-69.
    """
    leading, rest = divmod(p * 2.0**16, 1)
    if leading == 2**16:
        return np.arange(n)
    words = np.frombuffer(random_bytes(2 * n), np.uint16)
    hits = words < np.uint16(leading)
    ties = np.flatnonzero(words == np.uint16(leading))
    hits[ties] = (np.frombuffer(random_bytes(8 * len(ties)), np.uint64) >> np.uint64(11)) * 2.0**-53 < rest
    return np.flatnonzero(hits)


def _by_aes(key: bytes, n: int) -> bytearray:
    """AES-256 of 0, 1, 2, ...: as many blocks as n bytes need."""
    out = bytearray(n)
    Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update_into(bytes(n), out)
    return out


def _by_shake(key: bytes, n: int) -> bytearray:
    return bytearray(hashlib.shake_128(key).digest(n))


_stretch: Callable[[bytes, int], bytearray] = _by_shake if Cipher is None else _by_aes
