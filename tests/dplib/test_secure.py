"""Randomness that nobody can draw again: the streams' published values, the laws, and what no two draws share.

What is drawn here is another draw each time; each test fails by chance once in 10^9 times.
"""

import math
import os
import random

import numpy as np
import pytest
import torch
from scipy import stats

from dplib import examples, secure

ERROR_RATE = 1e-9


def test_shake_has_its_published_values():
    """NIST's examples for SHAKE128: the empty message, and 1,600 bits of 0xA3."""
    assert secure._by_shake(b"", 32).hex() == "7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26"
    assert secure._by_shake(b"\xa3" * 200, 16).hex() == "131ab8d2b594946b9c81333f9bb6e0ce"


def test_aes_has_its_published_values():
    """AES-256 of 0 and of 1 under key 0: the hash key and the tag of test case 13 of McGrew and Viega's GCM."""
    pytest.importorskip("cryptography")
    stream = secure._by_aes(bytes(32), 40)
    assert stream[:16].hex() == "dc95c078a2408989ad48a21492842087"
    assert stream[16:32].hex() == "530f8afbc74536b9a963b4f1c4cb738b"
    assert secure._by_aes(bytes(32), 7) == stream[:7]


STREAMS = ["_by_shake", "_by_aes"]


@pytest.fixture(params=STREAMS)
def stream(request, monkeypatch):
    """Each stream by turns, whichever is taken here."""
    if request.param == "_by_aes":
        pytest.importorskip("cryptography")
    monkeypatch.setattr(secure, "_stretch", getattr(secure, request.param))


@pytest.mark.usefixtures("stream")
def test_normals_have_the_law_and_its_tails():
    z = secure.normal(2_000_001).numpy()
    assert stats.kstest(z[::4], stats.norm.cdf).pvalue > ERROR_RATE
    low, high = stats.chi2.ppf([ERROR_RATE / 2, 1 - ERROR_RATE / 2], len(z))
    assert low < (z**2).sum() < high
    for least in (3, 4, 4.5):
        fewest, most = stats.binom.ppf([ERROR_RATE / 2, 1 - ERROR_RATE / 2], len(z), stats.norm.sf(least))
        assert fewest <= (z > least).sum() <= most
        assert fewest <= (z < -least).sum() <= most


@pytest.mark.usefixtures("stream")
def test_normals_are_independent_of_those_made_with_them():
    """Of one pair, of neighbours in a block, of two blocks: neither they nor their squares are correlated."""
    n = 4 * secure._PAIRS
    z = secure.normal(n).numpy()
    for apart in (1, 2, secure._PAIRS, n // 2):
        for power in (1, 2):
            r = np.corrcoef(z[:-apart] ** power, z[apart:] ** power)[0, 1]
            assert abs(r) < stats.norm.isf(ERROR_RATE / 2) / (n - apart) ** 0.5


def test_a_normal_reaches_eighteen_deviations(monkeypatch):
    """All words 0: the smallest u, 2^-64, and angle 0, four times."""
    monkeypatch.setattr(secure, "random_bytes", bytearray)
    one, other = secure.normal(2).tolist()
    assert one == pytest.approx(2 * math.sqrt(2 * 64 * math.log(2)), rel=1e-12)
    assert other == 0
    monkeypatch.setattr(secure, "random_bytes", lambda n: bytearray(b"\xff" * n))  # u is 1, whose logarithm is 0
    assert secure.normal(2).abs().tolist() == [0, 0]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 2 * secure._PAIRS - 1, 2 * secure._PAIRS, 2 * secure._PAIRS + 1])
def test_there_are_as_many_as_asked_for(n):
    z = secure.normal(n)
    assert z.shape == (n,)
    assert z.dtype == torch.float64
    assert len(set(z.tolist())) == n
    assert len(secure.random_bytes(n)) == n


@pytest.mark.parametrize("rest", [0.0, 0.25, 1 - 2.0**-30])
def test_a_trial_succeeds_as_often_as_it_should(rest, monkeypatch):
    """All words of 16 bits, once each: those below p always, the one that equals it with the chance that is left."""
    for second, tie in ((0.0, rest > 0), (rest - 2.0**-50, rest > 0), (rest, False)):
        draws = [np.arange(2**16, dtype=np.uint16), np.array([int(max(second, 0) * 2**53) << 11], np.uint64)]
        monkeypatch.setattr(secure, "random_bytes", lambda n, draws=draws: bytearray(draws.pop(0).tobytes()))
        assert secure.successes(2**16, (1000 + rest) / 2**16).tolist() == list(range(1000 + tie))
    assert secure.successes(3, 1.0).tolist() == [0, 1, 2]
    monkeypatch.undo()
    assert not len(secure.successes(1000, 0.0))


def drawn():
    """What a training would take: bytes, noise, a batch."""
    noise = examples.fill_normal(torch.empty(8), 1.0, None)
    return bytes(secure.random_bytes(16)) + noise.numpy().tobytes() + examples.poisson(400, 0.5, None).tobytes()


def test_no_seed_repeats_a_draw():
    values = set()
    for _ in range(20):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        torch.manual_seed(0)
        values.add(drawn())
    assert len(values) == 20


def test_forked_processes_share_no_stream():
    """Two children, made when the parent has drawn already, and the parent itself: what they draw next differs."""
    drawn()
    values = []
    for _ in range(2):
        reads, writes = os.pipe()
        child = os.fork()
        if not child:
            os.write(writes, bytes(secure.random_bytes(16)) + secure.normal(4).numpy().tobytes())
            os._exit(0)
        os.close(writes)
        values.append(os.read(reads, 1000))
        os.close(reads)
        assert os.waitpid(child, 0)[1] == 0
    values.append(bytes(secure.random_bytes(16)) + secure.normal(4).numpy().tobytes())
    assert {len(value) for value in values} == {48}
    assert len({value[:16] for value in values}) == len({value[16:] for value in values}) == 3
