"""Downloads: all of a file, checked, or nothing; several addresses, several tries, and no wait without a network.

Pooch's downloader moves the bytes. What is added here is a limit on them, a partial file that never bears the name of
the whole one, and a quick answer where no host can be reached.
"""

import os
import queue
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dplib.data.archives import FormatError

TIMEOUT = (5, 30)  # seconds to connect, and between two pieces of a file
ATTEMPTS = 3
PROBE = 4  # seconds in which one host must answer, or there is no network
STALE = 3600  # seconds after which a partial file belongs to a download that was killed


class TransferError(Exception):
    """No address gave the file; the message says why, for each address."""


@dataclass(frozen=True)
class Source:
    """An address, where its file goes, its greatest size, and a check that raises FormatError for a wrong file."""

    url: str
    target: Path
    limit: int
    check: Callable[[Path], None]


def download(sources: Sequence[Source]) -> Path:
    """Download from the first of the sources that gives a file which passes its check; where the file now is.

    Raises TransferError without a network (within ``PROBE`` seconds), or where every source failed, and OSError where
    the folder of a target cannot be written.
    """
    import requests

    _require_network([source.url for source in sources])
    left, failures = list(sources), {}
    for attempt in range(ATTEMPTS):
        time.sleep(attempt)
        for source in list(left):
            try:
                return _transfer(source)
            except FormatError as error:
                failures[source.url] = f"not the published file, {error}"
                left.remove(source)
            except requests.HTTPError as error:
                failures[source.url] = f"HTTP status {error.response.status_code}"
                if error.response.status_code < 500:  # asking again would not help
                    left.remove(source)
            except requests.RequestException as error:
                late = isinstance(error, requests.Timeout)
                failures[source.url] = "no answer in time" if late else "the connection failed"
        if not left:
            break
    raise TransferError("it could not be downloaded (" + "; ".join(f"{u}: {why}" for u, why in failures.items()) + ")")


def _transfer(source: Source) -> Path:
    """One try, into a file of another name, which takes the target's name only after the check."""
    from pooch import HTTPDownloader
    from tqdm.auto import tqdm

    target = source.target
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target.parent)
    part = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.part")
    # A server that declares gzip as a transfer encoding would otherwise have the file decompressed on the way.
    options = {"chunk_size": 2**16, "timeout": TIMEOUT, "headers": {"Accept-Encoding": "identity"}}
    try:
        with open(part, "xb") as out, tqdm(desc=target.name, total=1, unit="B", unit_scale=True, leave=False) as bar:
            HTTPDownloader(progressbar=bar, **options)(source.url, _Bounded(out, source.limit), None)
            os.fsync(out.fileno())
        source.check(part)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return target


class _Bounded:
    """A file that takes no more bytes than expected: a server may send without end."""

    def __init__(self, out, limit: int):
        self.out, self.left = out, limit

    def write(self, block: bytes) -> None:
        self.left -= len(block)
        if self.left < 0:
            raise FormatError("it is longer than it should be")
        self.out.write(block)

    def flush(self) -> None:
        self.out.flush()


def _sweep(folder: Path) -> None:
    """Remove what killed downloads left behind; a live one writes at least every half minute."""
    for part in folder.glob("*.part"):
        try:
            if time.time() - part.stat().st_mtime > STALE:
                part.unlink()
        except OSError:  # another process was faster
            continue


def _require_network(urls: Sequence[str]) -> None:
    """Fail within seconds where no host answers: a name server that is away would make each try wait for long."""
    endpoints = sorted({_endpoint(url) for url in urls})
    answers = queue.Queue()
    for endpoint in endpoints:  # daemon threads: one that waits for a name server does not keep the process alive
        threading.Thread(target=_probe, args=(endpoint, answers), daemon=True).start()
    end = time.monotonic() + PROBE
    for _ in endpoints:
        try:
            if answers.get(timeout=max(0.0, end - time.monotonic())):
                return
        except queue.Empty:
            break
    names = ", ".join(host for host, _ in endpoints)
    raise TransferError(f"there is no network to download it over (no answer from {names})")


def _endpoint(url: str) -> tuple[str, int]:
    """(host, port) that a request for ``url`` connects to: the proxy's, where the environment names one."""
    from requests.utils import get_environ_proxies, select_proxy

    parts = urllib.parse.urlsplit(select_proxy(url, get_environ_proxies(url)) or url)
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _probe(endpoint: tuple[str, int], answers: queue.Queue) -> None:
    import socket

    try:
        socket.create_connection(endpoint, timeout=PROBE).close()
    except OSError:
        answers.put(False)
    else:
        answers.put(True)
