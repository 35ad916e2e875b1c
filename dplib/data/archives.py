"""Reading inside archives: members by name, in memory, up to a limit; nothing is ever unpacked to disk.

Every function raises :class:`FormatError` with a reason in words; the caller adds which file it was.
"""

import gzip
import io
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

GIGABYTE = 2**30


class FormatError(ValueError):
    """The bytes are not in the layout that they should be in; the message says what was found."""


def gunzip(data: bytes, limit: int = 2 * GIGABYTE) -> bytes:
    """The decompressed content of gzip data.

    Args:
        data: the bytes of the file.
        limit: the most bytes that a file may have: above, it is a decompression bomb.

    Raises:
        FormatError: for what is not sound, or holds more than the limit.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            content = stream.read(limit + 1)
    except EOFError:
        raise FormatError("its gzip stream ends early, so the file is cut short") from None
    except (OSError, zlib.error) as error:
        raise FormatError(f"it is not a sound gzip file ({error})") from None
    if len(content) > limit:
        raise FormatError(f"it decompresses to more than {limit:,} bytes")
    return content


def zip_member(path: Path, member: str, limit: int = GIGABYTE) -> bytes:
    """The bytes of one member of a zip archive; other members are never looked at.

    Args:
        path: of the archive.
        member: its whole name.
        limit: the most bytes that a file may have: above, it is a decompression bomb.

    Raises:
        FormatError: for what is not sound, has no such file, or holds more than the limit.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(member)
            if info.is_dir() or stat.S_ISLNK(info.external_attr >> 16):
                raise FormatError(f"its member {member} is a link or a folder, not a file")
            if info.file_size > limit:
                raise FormatError(f"its member {member} is too large ({info.file_size:,} > {limit:,} bytes)")
            with archive.open(info) as stream:
                content = stream.read(limit + 1)
    except KeyError:
        raise FormatError(f"it has no member named {member}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise FormatError(f"it is not a sound zip archive ({error})") from None
    if len(content) > limit:  # the size that the archive declares may be a lie
        raise FormatError(f"its member {member} is larger than the archive says")
    return content


def tar_members(path: Path, wanted: str, limit: int = GIGABYTE) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of the regular members of a tar archive whose names match, in order.

    Names that climb out of the archive never match.

    Args:
        path: of the archive.
        wanted: a regular expression that the whole name must match.
        limit: the most bytes that a file may have: above, it is a decompression bomb.

    Raises:
        FormatError: for what is not sound, a link under a wanted name, or a member above the limit.
    """
    pattern = re.compile(wanted)
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if not pattern.fullmatch(name) or ".." in name.split("/"):
                    continue
                if not member.isreg():
                    raise FormatError(f"its member {name} is a link or a folder, not a file")
                if member.size > limit:
                    raise FormatError(f"its member {name} is too large ({member.size:,} > {limit:,} bytes)")
                yield name, archive.extractfile(member).read()
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise FormatError(f"it is not a sound tar archive ({error})") from None


def tar_files(path: Path, names: Iterable[str], limit: int = GIGABYTE) -> dict[str, bytes]:
    """The bytes of each of the given members of a tar archive.

    Args:
        path: of the archive.
        names: their whole names.
        limit: the most bytes that a file may have: above, it is a decompression bomb.

    Raises:
        FormatError: for a member that is missing, and as :func:`tar_members`.
    """
    names = list(names)
    contents = dict(tar_members(path, "|".join(map(re.escape, names)), limit))
    missing = [name for name in names if name not in contents]
    if missing:
        raise FormatError(f"it has no member named {missing[0]}")
    return contents


def join_lines(text: bytes) -> bytes:
    """Undo breaks inside a message of the SMS collection: a record starts with its label and a tab.

    Args:
        text: the file.
    """
    return re.sub(rb"\n(?!ham\t|spam\t|\Z)", b"", text)


def crlf(text: bytes) -> bytes:
    """Restore the carriage returns of a file that was published with them.

    Args:
        text: the file.
    """
    return re.sub(rb"\r?\n", b"\r\n", text)


REPAIRS = {"join_lines": join_lines, "crlf": crlf}
