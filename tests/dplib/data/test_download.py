"""Downloads from a local server: all of a file, verified, or nothing that bears its name."""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dplib import data
from dplib.data import DataError, fetch, registry
from tests.conftest import ROOT
from tests.dplib.data.layouts import flipped, publish, sha256, zipped

NAME = "ml-1m.zip"
ROWS = "".join(f"{i}::{i % 7}::{i % 5 + 1}::0\n" for i in range(100)).encode()
ARCHIVE = zipped({"ml-1m/ratings.dat": ROWS, "ml-1m/other": random.Random(0).randbytes(500_000)})


@contextmanager
def server(answer):
    """A server on 127.0.0.1; ``answer(handler, path)`` writes the response. Yields (address, list of paths)."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            with suppress(BrokenPipeError, ConnectionResetError):
                answer(self, self.path)

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}", asked
    finally:
        httpd.shutdown()
        httpd.server_close()


def send(handler, content: bytes, length: int | None = None, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content) if length is None else length))
    handler.end_headers()
    handler.wfile.write(content)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A scratch cache, no DPLIB_DATA, no proxy, no long waits."""
    monkeypatch.delenv("DPLIB_DATA", raising=False)
    monkeypatch.setenv("DPLIB_CACHE", str(tmp_path / "cache"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(fetch.time, "sleep", lambda seconds: None)
    return tmp_path / "cache"


def offer(monkeypatch, *urls: str, content: bytes = ARCHIVE) -> None:
    publish(monkeypatch, "movielens-1m", {NAME: content}, urls={NAME: urls}, test_records=1)


def left(cache) -> list[str]:
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())


def failure() -> str:
    with pytest.raises(DataError) as caught:
        data.download("movielens-1m")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_is_downloaded_once_and_verified(cache, monkeypatch):
    with server(lambda handler, path: send(handler, ARCHIVE)) as (address, asked):
        offer(monkeypatch, f"{address}/{NAME}")
        read = data.load("movielens-1m")
        data.load("movielens-1m")
    assert (read.source, len(read.y_train)) == ("cache", 99)
    assert asked == [f"/{NAME}"]
    assert left(cache) == [f"movielens-1m/{NAME}"]
    assert (cache / "movielens-1m" / NAME).read_bytes() == ARCHIVE


def test_the_next_mirror_is_asked_when_one_fails_and_a_busy_one_again(cache, monkeypatch):
    busy = iter([503, 503, 200])

    def answer(handler, path):
        folder = path.split("/")[1]
        if folder == "login":
            send(handler, b"<html>Please log in</html>")
        else:
            send(handler, ARCHIVE, status=404 if folder == "gone" else next(busy))

    with server(answer) as (address, asked):
        offer(monkeypatch, *(f"{address}/{folder}/{NAME}" for folder in ("gone", "login", "busy")))
        data.download("movielens-1m")
    assert asked == [f"/{folder}/{NAME}" for folder in ("gone", "login", *["busy"] * 3)]
    assert left(cache) == [f"movielens-1m/{NAME}"]


FLIPPED = flipped(ARCHIVE, 1000)


@pytest.mark.parametrize(
    ("content", "length", "reason", "tries"),
    [
        (FLIPPED, None, f"its SHA-256 is {sha256(FLIPPED)}, not {sha256(ARCHIVE)}", 1),
        (ARCHIVE[:5000], None, "it is cut short", 1),
        (ARCHIVE[:5000], len(ARCHIVE), "the connection failed", fetch.ATTEMPTS),
        (b"", None, "it is empty", 1),
        (ARCHIVE + b"x", None, "it is longer than it should be", 1),
    ],
    ids=["flipped", "half", "interrupted", "empty", "longer"],
)
def test_a_wrong_download_leaves_nothing(cache, monkeypatch, content, length, reason, tries):
    with server(lambda handler, path: send(handler, content, length)) as (address, asked):
        offer(monkeypatch, f"{address}/{NAME}")
        text = failure()
    assert reason in text
    assert f"{address}/{NAME}" in text
    assert f"set DPLIB_DATA to a folder that has it as movielens-1m/{NAME}" in text
    assert len(asked) == tries
    assert left(cache) == []


def test_a_server_that_sends_without_end_is_cut_off(cache, monkeypatch):
    def answer(handler, path):
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(bytes(2**16))

    with server(answer) as (address, _):
        offer(monkeypatch, f"{address}/{NAME}")
        assert "longer than it should be" in failure()
    assert left(cache) == []


def stall(handler, path):
    """Half of the file, then silence."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(ARCHIVE)))
    handler.end_headers()
    handler.wfile.write(ARCHIVE[: len(ARCHIVE) // 2])
    handler.wfile.flush()
    threading.Event().wait(60)


def test_a_server_that_falls_silent_is_given_up(cache, monkeypatch):
    monkeypatch.setattr(fetch, "TIMEOUT", (1, 0.3))
    with server(stall) as (address, _):
        offer(monkeypatch, f"{address}/{NAME}")
        assert f"/{NAME}: no answer)" in failure()
    assert left(cache) == []


KILLED = """
import signal
import sys
from dataclasses import replace
from dplib import data
from dplib.data import registry

# A shell's background jobs ignore interrupts, and so would this child of one.
signal.signal(signal.SIGINT, signal.default_int_handler)
entry = registry.registry()["movielens-1m"]
file = replace(entry.files[0], urls=(sys.argv[1],), bytes=int(sys.argv[2]), sha256=sys.argv[3])
registry.registry = lambda: {"movielens-1m": replace(entry, files=(file,))}
data.download("movielens-1m")
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_download_that_dies_midway_leaves_nothing_that_passes_for_the_file(cache, monkeypatch, how):
    with server(stall) as (address, _):
        command = [sys.executable, "-c", KILLED, f"{address}/{NAME}", str(len(ARCHIVE)), sha256(ARCHIVE)]
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 20
            while not any(path.stat().st_size for path in cache.rglob("*.part")):
                assert time.monotonic() < deadline, "the download never began"
                assert child.poll() is None, "the download ended by itself"
                threading.Event().wait(0.02)
            child.send_signal(how)
            assert child.wait(20) != 0
        finally:
            child.kill()
    assert not (cache / "movielens-1m" / NAME).exists()
    assert all(name.endswith(".part") for name in left(cache))
    if how == signal.SIGINT:
        assert left(cache) == []
    with server(lambda handler, path: send(handler, ARCHIVE)) as (address, _):
        offer(monkeypatch, f"{address}/{NAME}")
        assert not data.table()[0].present
        for part in cache.rglob("*.part"):  # as if the kill had been long ago
            os.utime(part, (0, 0))
        data.download("movielens-1m")
    assert left(cache) == [f"movielens-1m/{NAME}"]


@pytest.mark.parametrize("hours", [-100, 2])
def test_a_clock_that_jumps_removes_no_live_download(cache, monkeypatch, hours):
    """Another download sweeps the folder in the middle of this one, by a clock that was set since."""
    swept = []

    def answer(handler, path):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(ARCHIVE)))
        handler.end_headers()
        handler.wfile.write(ARCHIVE[:300_000])
        deadline = time.monotonic() + 20
        while not any(part.stat().st_size for part in cache.rglob("*.part")) and time.monotonic() < deadline:
            threading.Event().wait(0.02)
        now = time.time()
        with monkeypatch.context() as patch:
            patch.setattr(fetch.time, "time", lambda: now + 3600 * hours)
            fetch._sweep(cache / "movielens-1m")
        swept.append(left(cache))
        handler.wfile.write(ARCHIVE[300_000:])

    with server(answer) as (address, _):
        offer(monkeypatch, f"{address}/{NAME}")
        data.download("movielens-1m")
    assert len(swept) == 1, "it was asked for again"
    assert left(cache) == [f"movielens-1m/{NAME}"]
    assert (cache / "movielens-1m" / NAME).read_bytes() == ARCHIVE


def test_without_a_network_each_address_is_tried_once(monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        offer(monkeypatch, f"http://127.0.0.1:{unused.getsockname()[1]}/{NAME}")
        waits = []
        monkeypatch.setattr(time, "sleep", waits.append)  # what would try again waits before
        text = failure()
    assert sum(waits) == 0
    assert f"/{NAME}: no answer)" in text
    assert "run `python -m book data --download movielens-1m` where there is a network" in text


def test_a_cache_that_cannot_be_written(cache, monkeypatch):
    cache.write_bytes(b"a file where the folder should be")
    with server(lambda handler, path: send(handler, ARCHIVE)) as (address, _):
        offer(monkeypatch, f"{address}/{NAME}")
        assert f"the cache {cache} cannot be written" in failure()


def test_an_archive_without_a_checksum_is_verified_through_its_member(cache, monkeypatch):
    text = b"ham\tone\nspam\ttwo\n"
    good, bad = zipped({"SMSSpamCollection": text}), zipped({"SMSSpamCollection": text + b"ham\tmore\n"})
    entry = registry.registry()["sms-spam"]
    with server(lambda handler, path: send(handler, good if "good" in path else bad)) as (address, asked):
        urls = (f"{address}/bad.zip", f"{address}/good.zip")
        holder = replace(entry.files[0].archive, urls=urls, bytes=None, sha256=None)
        file = replace(entry.files[0], bytes=len(text), sha256=sha256(text), archive=holder)
        monkeypatch.setattr(registry, "registry", lambda: {"sms-spam": replace(entry, files=(file,), test_records=1)})
        read = data.load("sms-spam")
    assert asked == ["/bad.zip", "/good.zip"]
    assert sorted([*read.x_train, *read.x_test]) == ["one", "two"]
    assert left(cache) == ["sms-spam/sms+spam+collection.zip"]
