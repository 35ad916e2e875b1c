"""The registry of data sets (``datasets.toml``): what each file is called, where it is published, its checksum.

``published`` decides whether bytes are a published file; it knows nothing of folders and networks (see ``fetch``).
"""

import difflib
import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dplib import files
from dplib.checks import ParameterError
from dplib.data import archives
from dplib.data.archives import FormatError

CHECKSUMS = {"sha256": "SHA-256", "md5": "MD5", "git_sha1": "Git blob id"}  # the strongest first
LARGE = 2 * archives.GIGABYTE


@dataclass(frozen=True)
class File:
    """One published file; the fields are explained at the top of ``datasets.toml``."""

    name: str
    urls: tuple[str, ...] = ()
    bytes: int | None = None
    sha256: str | None = None
    md5: str | None = None
    git_sha1: str | None = None
    content_bytes: int | None = None
    content_sha256: str | None = None
    archive: "File | None" = None
    member: str | None = None
    repair: str | None = None

    @property
    def checksum(self) -> tuple[str, str] | None:
        """(kind, value) of the strongest published checksum, or None where none is known."""
        return next(((kind, value) for kind in CHECKSUMS if (value := getattr(self, kind))), None)


@dataclass(frozen=True)
class Entry:
    """One data set."""

    name: str
    title: str
    task: str
    papers: tuple[str, ...]
    licence: str
    citation: str
    files: tuple[File, ...] = ()
    embedded: bool = False
    stand_in_for: str | None = None
    notice: str | None = None
    test_records: int | None = None

    def file(self, name: str) -> File:
        """The file of this name."""
        return next(file for file in self.files if file.name == name)


@functools.cache
def registry() -> Mapping[str, Entry]:
    """All data sets, by name."""
    found = {}
    for name, table in files.read(path := Path(__file__).with_name("datasets.toml")).items():
        try:
            found[name] = _entry(name, table)
        except (TypeError, LookupError, AttributeError) as error:
            raise ParameterError(f"{path}: {name} is no data set ({error!r:.100}).") from None
    return found


def entry(name: str) -> Entry:
    """The data set of this name; ParameterError, with the nearest known name, for an unknown one."""
    known = registry()
    if not isinstance(name, str) or name not in known:
        near = difflib.get_close_matches(str(name).lower(), known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ParameterError(f"dataset = {name!r} is not known{hint}: it must be one of {', '.join(known)}.")
    return known[name]


def published(raw: bytes, file: File) -> bytes:
    """The published content that ``raw`` holds, decompressed where the file is a ``.gz``, or a FormatError.

    Three forms are as good as each other: the published bytes, the same content in another gzip wrapper (where
    ``content_sha256`` is known), and the published text with its line ends changed (where ``repair`` says how).
    """
    kind, value = file.checksum
    found = digest(kind, raw)
    if found == value:
        return archives.gunzip(raw) if file.name.endswith(".gz") else raw
    if file.repair:
        repaired = archives.REPAIRS[file.repair](raw)
        if digest(kind, repaired) == value:
            return repaired
    if owner(found):
        raise FormatError(f"its content is that of {owner(found)}")
    if file.content_sha256:
        content = archives.gunzip(raw, file.content_bytes or LARGE)
        kind, value, found = "sha256", file.content_sha256, digest("sha256", content)
        if found == value:
            return content
    elif file.bytes and len(raw) < file.bytes:
        raise FormatError(f"it is cut short ({len(raw):,} of {file.bytes:,} bytes)")
    raise difference(kind, found, value)


def digest(kind: str, raw: bytes) -> str:
    """The checksum of ``raw``, in hexadecimal."""
    return hasher(kind, len(raw), raw).hexdigest()


def hasher(kind: str, size: int, start: bytes = b"") -> "hashlib._Hash":
    """A hash object for content of ``size`` bytes that begins with ``start``."""
    if kind == "git_sha1":  # Git's id of a file: a header with the size goes first
        return hashlib.sha1(b"blob %d\0" % size + start, usedforsecurity=False)
    return hashlib.new(kind, start, usedforsecurity=False)


def owner(sha256: str) -> str | None:
    """Which file of the registry has this SHA-256, to recognise a file under a wrong name."""
    for dataset in registry().values():
        for file in dataset.files:
            if sha256 in (file.sha256, file.content_sha256):
                return f"{dataset.name}/{file.name}"
    return None


def difference(kind: str, found: str, wanted: str) -> FormatError:
    """The error for a checksum that is not the published one."""
    if owner(found):
        return FormatError(f"its content is that of {owner(found)}")
    return FormatError(f"its {CHECKSUMS[kind]} is {found}, not {wanted}")


def _entry(name: str, table: dict) -> Entry:
    shared = table.pop("urls", ())
    holders = {key: _file({"name": key, **value}) for key, value in table.pop("archives", {}).items()}
    files = tuple(_file({"urls": shared, **file}, holders) for file in table.pop("files", ()))
    return Entry(name=name, files=files, papers=tuple(table.pop("papers")), **table)


def _file(table: dict, holders: Mapping[str, File] | None = None) -> File:
    urls = tuple(url + table["name"] if url.endswith("/") else url for url in table.get("urls", ()))
    archive = holders[table["archive"]] if "archive" in table else None
    return File(**{**table, "urls": urls, "archive": archive})
