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
    """One published file; the fields are explained at the top of ``datasets.toml``.

    Args:
        name: of the file in the folder of its set.
        urls: addresses it is published at.
        bytes: its size as published.
        sha256: of the file as published.
        md5: of the file as published, where the publisher gives no better one.
        git_sha1: its id in a git repository, where the publisher gives no better one.
        content_bytes: size of what its gzip wrapper holds.
        content_sha256: of what its gzip wrapper holds.
        archive: the file that it is a member of.
        member: its name there.
        repair: a key of ``archives.REPAIRS``: how other line ends are undone.
    """

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
    """One data set.

    Args:
        name: as ``load`` takes it.
        title: as pages call it.
        task: "classification", or another one, as the registry says.
        papers: letters of the papers that use it.
        licence: in short.
        citation: of its publication.
        files: that it is made of.
        embedded: it comes inside scikit-learn.
        stand_in_for: the set that it takes the place of, or None.
        notice: what every user of it should know, or None.
        test_records: how many we draw for a test part; None where one is published.
    """

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
        """The file of this name.

        Args:
            name: of a file that it has.
        """
        return next(file for file in self.files if file.name == name)


@functools.cache
def registry() -> Mapping[str, Entry]:
    """All data sets, by name.

    Raises:
        ParameterError: where ``datasets.toml`` cannot be read, naming the place.
    """
    entries = {}
    for name, table in files.read(path := Path(__file__).with_name("datasets.toml")).items():
        try:
            entries[name] = _entry(name, table)
        except (TypeError, LookupError, AttributeError) as error:
            raise ParameterError(f"{path}: {name} is no data set ({error!r:.100}).") from None
    return entries


def entry(name: str) -> Entry:
    """The data set of a name.

    Args:
        name: as in ``datasets.toml``.

    Raises:
        ParameterError: for an unknown one, with the nearest known name.
    """
    known = registry()
    if not isinstance(name, str) or name not in known:
        near = difflib.get_close_matches(str(name).lower(), known, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ParameterError(f"dataset = {name!r} is not known{hint}: it must be one of {', '.join(known)}.")
    return known[name]


def published(raw: bytes, file: File) -> bytes:
    """The published content that some bytes hold, decompressed where the file is a ``.gz``.

    Three forms are as good as each other: the published bytes, the same content in another gzip wrapper (where
    ``content_sha256`` is known), and the published text with its line ends changed (where ``repair`` says how).

    Args:
        raw: the bytes.
        file: that they should be.

    Raises:
        FormatError: where they are not.
    """
    kind, value = file.checksum
    checksum = digest(kind, raw)
    if checksum == value:
        return archives.gunzip(raw) if file.name.endswith(".gz") else raw
    if file.repair:
        repaired = archives.REPAIRS[file.repair](raw)
        if digest(kind, repaired) == value:
            return repaired
    if owner(checksum):
        raise FormatError(f"its content is that of {owner(checksum)}")
    if file.content_sha256:
        content = archives.gunzip(raw, file.content_bytes or LARGE)
        kind, value, checksum = "sha256", file.content_sha256, digest("sha256", content)
        if checksum == value:
            return content
    elif file.bytes and len(raw) < file.bytes:
        raise FormatError(f"it is cut short ({len(raw):,} of {file.bytes:,} bytes)")
    raise difference(kind, checksum, value)


def digest(kind: str, raw: bytes) -> str:
    """A checksum, in hexadecimal.

    Args:
        kind: a key of :data:`CHECKSUMS`.
        raw: the bytes.
    """
    return hasher(kind, len(raw), raw).hexdigest()


def hasher(kind: str, size: int, start: bytes = b"") -> "hashlib._Hash":
    """A hash object for content whose beginning is known.

    Args:
        kind: a key of :data:`CHECKSUMS`.
        size: of the whole content, in bytes.
        start: its beginning.
    """
    if kind == "git_sha1":  # Git's id of a file: a header with the size goes first
        return hashlib.sha1(b"blob %d\0" % size + start, usedforsecurity=False)
    return hashlib.new(kind, start, usedforsecurity=False)


def owner(sha256: str) -> str | None:
    """Which file of the registry has a checksum, to recognise a file under a wrong name.

    Args:
        sha256: in hexadecimal.
    """
    for dataset in registry().values():
        for file in dataset.files:
            if sha256 in (file.sha256, file.content_sha256):
                return f"{dataset.name}/{file.name}"
    return None


def difference(kind: str, checksum: str, wanted: str) -> FormatError:
    """The error for a checksum that is not the published one.

    Args:
        kind: a key of :data:`CHECKSUMS`.
        checksum: the checksum of what is there.
        wanted: the published one.
    """
    if owner(checksum):
        return FormatError(f"its content is that of {owner(checksum)}")
    return FormatError(f"its {CHECKSUMS[kind]} is {checksum}, not {wanted}")


def _entry(name: str, table: dict) -> Entry:
    shared = table.pop("urls", ())
    holders = {key: _file({"name": key, **value}) for key, value in table.pop("archives", {}).items()}
    files = tuple(_file({"urls": shared, **file}, holders) for file in table.pop("files", ()))
    return Entry(name=name, files=files, papers=tuple(table.pop("papers")), **table)


def _file(table: dict, holders: Mapping[str, File] | None = None) -> File:
    urls = tuple(url + table["name"] if url.endswith("/") else url for url in table.get("urls", ()))
    archive = holders[table["archive"]] if "archive" in table else None
    return File(**{**table, "urls": urls, "archive": archive})
