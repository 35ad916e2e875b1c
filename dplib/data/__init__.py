"""Data sets: ``load(name)`` gives arrays with a documented split, whose files were verified before they were read.

Images are float32 in [0, 1] of shape ``(n, channels, height, width)`` with int64 labels from 0. Tables keep their
published form (strings for the categorical ones): what the papers do with them is in :mod:`dplib.data.preprocess`. The
split is the publisher's; where there is none, a fixed number of records is drawn for the test part by a fixed seed.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dplib.cache import cache_folder
from dplib.checks import integer
from dplib.data import fetch, loaders, registry
from dplib.data.archives import FormatError
from dplib.data.fetch import DataError

__all__ = ["DataError", "Dataset", "Listed", "download", "listing", "load", "names", "table", "verify"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """One data set.

    Features are ``(n, ...)``, labels ``(n,)`` int64 from 0 (float32 targets for a regression; an ``(n, topics)`` 0/1
    CSR matrix for RCV1). The test part is the published one, or the one that we draw where none is published; the
    validation part is None until :mod:`dplib.data.preprocess` makes one.

    Args:
        name: as in ``datasets.toml``.
        x_train: features of the training part, shape (n, ...).
        y_train: their labels, shape (n,).
        x_test: features of the test part.
        y_test: their labels.
        x_valid: features of the validation part, or None.
        y_valid: their labels, or None.
        feature_names: one name for each column of ``x`` where columns have names.
        classes: the name of each label.
        source: where it was read: "embedded" (inside scikit-learn), "DPLIB_DATA" or "cache".
        licence: in short.
        stand_in_for: the set that it takes the place of, such as "CIFAR-10", or None. Every table must say so.
        checksum: SHA-256 of the content that was read; alike for the same content in other wrappers.
        notes: what was done to the data since, in order.
    """

    name: str
    x_train: Any
    y_train: Any
    x_test: Any
    y_test: Any
    x_valid: Any = None
    y_valid: Any = None
    feature_names: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    source: str = "embedded"
    licence: str = ""
    stand_in_for: str | None = None
    checksum: str = ""
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        parts = (("train", self.x_train), ("valid", self.x_valid), ("test", self.x_test))
        shapes = ", ".join(f"{part} {x.shape}" for part, x in parts if x is not None)
        stand_in = f", stand-in for {self.stand_in_for}" if self.stand_in_for else ""
        return f"<{self.name}{stand_in}: {shapes}, from {self.source}>"


@dataclass(frozen=True)
class Listed:
    """One line of :func:`table`.

    Args:
        name: of the data set.
        papers: letters of the papers that use it.
        where: the folder that it is in, or would be.
        bytes: size of the files as published; None where nobody says.
        licence: in short.
        stand_in_for: the set that it takes the place of, or None.
        embedded: it comes inside scikit-learn.
        present: its files exist.
    """

    name: str
    papers: tuple[str, ...]
    where: str  # where it is, or would be
    bytes: int | None  # as published; None where nobody says
    licence: str
    stand_in_for: str | None
    embedded: bool
    present: bool


def names() -> tuple[str, ...]:
    """The names of all data sets."""
    return tuple(registry.registry())


def load(name: str, *, split_seed: int = 0, allow_download: bool = True) -> Dataset:
    """Load a data set, verified against its published checksums.

    Args:
        name: one of :func:`names`.
        split_seed: decides which records are the test part of a set that is published as one table; as many as
            ``test_records`` in ``datasets.toml`` says, drawn without replacement and without regard to the class.
        allow_download: False to fail where neither ``$DPLIB_DATA`` nor the cache has it.

    Raises:
        ParameterError: for an unknown set.
        DataError: for a file that is missing or is not the published one.
    """
    entry = registry.entry(name)
    files = _Files(entry, allow_download)
    parts = loaders.LOADERS[name](files)
    checksum = files.checksum or _array_checksum(parts)
    notes = (entry.notice,) if entry.notice else ()
    if entry.test_records:
        parts = _draw_test_part(parts, entry.test_records, split_seed)
        notes += (f"test part drawn by us (seed {split_seed}): none is published",)
    return Dataset(
        name=name,
        source=files.source,
        licence=entry.licence,
        stand_in_for=entry.stand_in_for,
        checksum=checksum,
        notes=notes,
        **parts,
    )


def download(name: str) -> None:
    """Bring every file of a set into the cache, unless it is there already, and verify it.

    Args:
        name: one of :func:`names`.

    Raises:
        DataError: for a file that cannot be had or is not the published one.
    """
    entry = registry.entry(name)
    for file in entry.files:
        fetch.verify(fetch.obtain(entry, file))


def verify(name: str) -> None:
    """Compare every file of a set that is present with its published checksum; never downloads.

    Args:
        name: one of :func:`names`.

    Raises:
        DataError: for a file that is missing or is not the published one.
    """
    entry = registry.entry(name)
    for file in entry.files:
        fetch.verify(fetch.obtain(entry, file, allow_download=False))


def table() -> list[Listed]:
    """One row for each data set, without reading any file: ``present`` says that the files exist, not that they are
    sound (see :func:`verify`)."""
    return [_row(entry) for entry in registry.registry().values()]


def listing() -> str:
    """The table as text, one data set a line, with what is present compared with its checksums now."""
    rows = [("data set", "papers", "size", "state", "stand-in for", "where", "licence")]
    faults = []
    for row in table():
        size = f"{row.bytes / 1e6:,.1f} MB" if row.bytes else "-"
        state = "embedded" if row.embedded else "verified" if row.present else "not here"
        if row.present and not row.embedded:
            try:
                verify(row.name)
            except DataError as error:
                state = "FAULTY"
                faults.append(str(error))
        rows.append(
            (row.name, "".join(row.papers) or "-", size, state, row.stand_in_for or "-", row.where, row.licence)
        )
    widths = [max(len(row[i]) for row in rows) for i in range(6)] + [0]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([*lines, *faults])


def _row(entry: registry.Entry) -> Listed:
    places = [fetch.find(entry, file) for file in entry.files]
    sizes = [file.bytes for file in entry.files]
    if entry.embedded:
        where = "inside scikit-learn"
    else:
        where = str(places[0].path.parent if places[0] else cache_folder() / entry.name)
    return Listed(
        name=entry.name,
        papers=entry.papers,
        where=where,
        bytes=sum(sizes) if sizes and all(sizes) else None,
        licence=entry.licence,
        stand_in_for=entry.stand_in_for,
        embedded=entry.embedded,
        present=all(places),
    )


@dataclass
class _Files:
    """The files of one set as its loader asks for them: where they came from and what they contain is kept."""

    entry: registry.Entry
    allow_download: bool
    sources: set[str] = field(default_factory=set)
    digests: list[str] = field(default_factory=list)

    def content(self, name: str, parse: Callable[[bytes], Any]) -> Any:
        """``parse`` of the verified, decompressed content of a file."""
        place = fetch.obtain(self.entry, self.entry.file(name), self.allow_download)
        raw = fetch.content(place)
        self._note(place, hashlib.sha256(raw).hexdigest())
        return _parsed(place, parse, raw)

    def path(self, name: str, parse: Callable[[Path], Any]) -> Any:
        """``parse`` of the path of a verified file."""
        place = fetch.obtain(self.entry, self.entry.file(name), self.allow_download)
        path = fetch.verify(place)
        self._note(place, place.holder.checksum[1])
        return _parsed(place, parse, path)

    def _note(self, place: fetch.Found, digest: str) -> None:
        self.sources.add(place.source)
        self.digests.append(f"{place.file.name} {digest}\n")

    @property
    def source(self) -> str:
        return " and ".join(sorted(self.sources)) or "embedded"

    @property
    def checksum(self) -> str:
        return hashlib.sha256("".join(self.digests).encode()).hexdigest() if self.digests else ""


def _parsed(place: fetch.Found, parse: Callable, argument: Any) -> Any:
    try:
        return parse(argument)
    except FormatError as error:
        raise fetch.wrong(place, str(error)) from None


def _draw_test_part(parts: dict[str, Any], n_test: int, seed: int) -> dict[str, Any]:
    """The records in an order drawn from the seed; the first ``n_test`` of them are the test part."""
    integer(0).check("split_seed", seed)
    x, y = parts["x_train"], parts["y_train"]
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = order[:n_test], order[n_test:]
    return parts | {"x_train": x[train], "y_train": y[train], "x_test": x[test], "y_test": y[test]}


def _array_checksum(parts: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in ("x_train", "y_train"):
        array = np.ascontiguousarray(parts[name])
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode() + array.tobytes())
    return digest.hexdigest()
