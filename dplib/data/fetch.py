"""Where a data file is, and proof that it is the published one before anything reads it.

A file is looked for in the folder ``$DPLIB_DATA`` (laid out as ``set/file``), then in the cache (``$DPLIB_CACHE``, or
the user's cache folder), and is then downloaded into the cache. Its checksum is verified each time, before parsing.
Pooch's downloader moves the bytes; added here are a limit on them, and a partial file that never bears the name of the
whole one.
"""

import contextlib
import fcntl
import functools
import os
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from dplib.cache import cache_folder
from dplib.checks import ParameterError
from dplib.data import archives, registry
from dplib.data.archives import FormatError
from dplib.data.registry import Entry, File

STREAMED = (".tar.gz", ".tgz", ".zip", ".mat")  # verified by streaming and read from disk, all others in memory
TIMEOUT = (5, 30)  # seconds to connect, and between two pieces of a file
ATTEMPTS = 3
STALE = 3600  # seconds after which a partial file belongs to a download that was killed


class DataError(ParameterError):
    """A data file is missing or is not the published one; the message is one sentence that says what to do."""

    def _render_traceback_(self) -> list[str]:
        return [f"DataError: {self}"]


@dataclass(frozen=True)
class Found:
    """Where a file lies: itself, or the archive it is a member of.

    Args:
        path: where it is on disk.
        file: what is wanted.
        holder: what lies at ``path``: the file itself or its archive.
        source: "DPLIB_DATA" or "cache".
    """

    path: Path
    file: File  # what is wanted
    holder: File  # what lies at ``path``: the file itself or its archive
    source: str  # "DPLIB_DATA" or "cache"


def folders() -> dict[str, Path]:
    """The folders in which files are looked for, in order, by what they are.

    Raises:
        DataError: where DPLIB_DATA is set and is no folder.
    """
    given = os.environ.get("DPLIB_DATA")
    if not given:
        return {"cache": cache_folder()}
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise DataError(
            f"DPLIB_DATA = {given} is not a folder: set it to a folder that holds the data sets as name/file, "
            "or unset it to use the cache."
        )
    return {"DPLIB_DATA": folder, "cache": cache_folder()}


def find(dataset: Entry, file: File) -> Found | None:
    """The first place that has the file or its archive, whatever is in it; None where no place has it.

    Args:
        dataset: of the registry.
        file: one of its files.
    """
    for source, folder in folders().items():
        for holder in (file, file.archive):
            if holder and os.path.lexists(path := folder / dataset.name / holder.name):
                return Found(path, file, holder, source)
    return None


def obtain(dataset: Entry, file: File, allow_download: bool = True) -> Found:
    """Find a file (not verified yet), or download it into the cache.

    Args:
        dataset: of the registry.
        file: one of its files.
        allow_download: False to fail where no place has it.

    Raises:
        DataError: where it cannot be had.
    """
    place = find(dataset, file)
    if place:
        return place
    if not allow_download:
        raise missing(dataset, file, "downloading is switched off")
    return download(dataset, file)


def content(place: Found) -> bytes:
    """The published content of a file (decompressed where it is a ``.gz``), verified in memory.

    Args:
        place: where it lies.

    Raises:
        DataError: where it is not the published one.
    """
    try:
        return _content(place)
    except FormatError as error:
        raise wrong(place, str(error)) from None


def verify(place: Found) -> Path:
    """The path of a file, or of the archive that holds it, once its checksum is the published one.

    Args:
        place: where it lies.

    Raises:
        DataError: where it is not the published one.
    """
    try:
        _verify(place)
    except FormatError as error:
        raise wrong(place, str(error)) from None
    return place.path


def download(dataset: Entry, file: File) -> Found:
    """Download a file, or its archive, into the cache: all of it, verified, or nothing.

    Each address is asked in turn; one that is busy, or breaks off midway, up to ATTEMPTS times.

    Args:
        dataset: of the registry.
        file: one of its files.

    Raises:
        DataError: where no address gives the published file.
    """
    holders = [holder for holder in (file, file.archive) if holder]
    left = {url: holder for holder in holders for url in holder.urls}
    if not left:
        raise missing(dataset, file, "it has no published address")
    failures: dict[str, str] = {}
    for attempt in range(ATTEMPTS):
        time.sleep(attempt if left else 0)
        for url, holder in list(left.items()):
            place = Found(cache_folder() / dataset.name / holder.name, file, holder, "cache")
            failures[url], again = _failure(url, place)
            if not failures[url]:
                return place
            if not again:
                del left[url]
    why = "; ".join(f"{url}: {reason}" for url, reason in failures.items())
    raise missing(dataset, file, f"it could not be downloaded ({why})")


def _failure(url: str, place: Found) -> tuple[str, bool]:
    """Download from one address: why that failed, "" where it did not, and whether to ask again."""
    import requests

    try:
        _transfer(url, place)
    except FormatError as error:
        return f"not the published file, {error}", False
    except requests.HTTPError as error:
        return f"HTTP status {error.response.status_code}", error.response.status_code >= 500
    except requests.ConnectionError:  # most likely there is no network
        return "no answer", False
    except requests.RequestException:
        return "the connection failed", True
    except OSError as error:
        raise DataError(
            f"the cache {cache_folder()} cannot be written ({error.strerror or error}); set DPLIB_CACHE to a folder "
            "with room that you may write to."
        ) from None
    return "", False


def _transfer(url: str, place: Found) -> None:
    """One try, into a file of another name, which takes the name of the whole one only after it was verified."""
    from pooch import HTTPDownloader

    from dplib.progress import tqdm

    place.path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(place.path.parent)
    part = place.path.with_name(f"{place.path.name}.{uuid.uuid4().hex[:8]}.part")
    # A server that declares gzip as a transfer encoding would otherwise have the file decompressed on the way.
    options = {"chunk_size": 2**16, "timeout": TIMEOUT, "headers": {"Accept-Encoding": "identity"}}
    try:
        with (
            open(part, "xb") as out,
            tqdm(desc=place.path.name, total=1, unit="B", unit_scale=True, leave=False) as bar,
        ):
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
            bounded = _Bounded(out, place.holder.bytes or registry.LARGE)
            HTTPDownloader(progressbar=bar, **options)(url, bounded, None)
            out.flush()
            os.fsync(out.fileno())
            _verify(replace(place, path=part))
            os.replace(part, place.path)
    finally:
        part.unlink(missing_ok=True)


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
    """Remove what killed downloads left behind. A live one writes at least every half minute; and it holds its file,
    should the clock be set forward, or a server of files have another one.
    """
    for part in folder.glob("*.part"):
        with contextlib.suppress(OSError), part.open("rb+") as file:  # held, or another process was faster
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - part.stat().st_mtime > STALE:
                part.unlink()


def missing(dataset: Entry, file: File, why: str) -> DataError:
    """The error for a file that no place has.

    Args:
        dataset: of the registry.
        file: one of its files.
        why: how the sentence goes on.
    """
    known = folders()
    if "DPLIB_DATA" in known:
        places = f"neither in DPLIB_DATA ({known['DPLIB_DATA'] / dataset.name})"
        places += f" nor in the cache ({known['cache'] / dataset.name})"
        advice = f"put it into one of these folders as {file.name}"
    else:
        places = f"not in the cache ({known['cache'] / dataset.name})"
        advice = f"set DPLIB_DATA to a folder that has it as {dataset.name}/{file.name}"
    if file.urls or file.archive:
        advice += f", or run `python -m book data --download {dataset.name}` where there is a network"
    return DataError(f"{dataset.name}: {file.name} is {places}, and {why}; {advice}.")


def wrong(place: Found, reason: str) -> DataError:
    """The error for a file that is not the published one.

    Args:
        place: where it lies.
        reason: what is wrong with it.
    """
    advice = "delete it, and it will be downloaded again"
    if place.source == "DPLIB_DATA":
        advice = "replace it by the published file, or unset DPLIB_DATA to have it downloaded"
    return DataError(f"{place.path} is not the published {place.holder.name}: {reason}; {advice}.")


def _content(place: Found) -> bytes:
    if place.holder is place.file:
        raw = _read(place.path, place.file)
    else:
        if place.holder.checksum:
            _verify_stream(place.path, *_state(place.path), place.holder)
        limit = 2 * place.file.bytes if place.file.bytes else archives.GIGABYTE
        _state(place.path)
        raw = archives.zip_member(place.path, place.file.member or place.file.name, limit)
    return registry.published(raw, place.file)


def _verify(place: Found) -> None:
    if place.holder.name.endswith(STREAMED) and place.holder.checksum:
        _verify_stream(place.path, *_state(place.path), place.holder)
    else:  # small enough for memory, or an archive that is known by the checksum of its member only
        _content(place)


@functools.lru_cache(maxsize=256)
def _verify_stream(path: Path, size: int, time_ns: int, file: File) -> None:
    """Compare a file with its checksum; remembered in this process for as long as size and time stay the same."""
    if file.bytes and size != file.bytes:
        state = "cut short" if size < file.bytes else "too long"
        raise FormatError(f"it is {state} ({size:,} of {file.bytes:,} bytes)")
    kind, value = file.checksum
    hasher = registry.hasher(kind, size)
    with open(path, "rb") as stream:
        while block := stream.read(2**20):
            hasher.update(block)
    if hasher.hexdigest() != value:
        raise registry.difference(kind, hasher.hexdigest(), value)


def _state(path: Path) -> tuple[int, int]:
    """(size, time of last change), or a FormatError for what is not a readable, filled file."""
    if path.is_dir():
        raise FormatError("it is a folder, not a file")
    if not path.is_file():
        raise FormatError("it is a link that leads nowhere, or a device")
    if not os.access(path, os.R_OK):
        raise FormatError("you may not read it")
    state = path.stat()
    if state.st_size == 0:
        raise FormatError("it is empty")
    return state.st_size, state.st_mtime_ns


def _read(path: Path, file: File) -> bytes:
    size, _ = _state(path)
    if size > (2 * file.bytes + 2**20 if file.bytes else registry.LARGE):
        raise FormatError(f"it is far too large ({size:,} bytes)")
    return path.read_bytes()
