"""Archives that are damaged or hostile: refused or ignored, and nothing is ever written to disk."""

import gzip
import random
import stat
import zipfile

import pytest

from dplib.data import archives
from dplib.data.archives import FormatError
from tests.dplib.data.layouts import flipped, tar_gz, zipped

NAME, LIMIT = "data/a.bin", 10_000
NOISE = gzip.compress(random.Random(0).randbytes(5000))
ZIP, LARGE = zipped({NAME: b"0123456789" * 50}), zipped({NAME: bytes(3_000_000)})
LIE = LARGE.replace((3_000_000).to_bytes(4, "little"), (900).to_bytes(4, "little"))  # in both headers


def gunzip(path):
    return archives.gunzip(path.read_bytes(), LIMIT)


def from_zip(path):
    return archives.zip_member(path, NAME, LIMIT)


def from_tar(path):
    return archives.tar_files(path, [NAME], LIMIT)[NAME]


def linked_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo(NAME)
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    return from_zip(path)


@pytest.mark.parametrize(
    ("read", "content", "reason"),
    [
        (gunzip, NOISE[:1500], "ends early"),
        (gunzip, NOISE[:4500], "ends early"),
        (gunzip, flipped(NOISE, 2500), "not a sound gzip"),
        (gunzip, b"<html>", "not a sound gzip"),
        (gunzip, gzip.compress(bytes(10**7)), "more than 10,000 bytes"),
        (from_zip, ZIP[: len(ZIP) // 2], "not a sound zip"),
        (from_zip, flipped(ZIP, 42), "not a sound zip"),
        (from_zip, LARGE, "too large"),
        (from_zip, LIE, "not a sound zip"),
        (from_zip, zipped({"../" + NAME: b"evil", "/" + NAME: b"evil"}), f"no member named {NAME}"),
        (linked_zip, b"", "a link or a folder"),
        (from_tar, b"", "not a sound tar"),
        (from_tar, b"<html>not found</html>", "not a sound tar"),
        (from_tar, tar_gz({NAME: NOISE})[:2000], "not a sound tar"),
        (from_tar, tar_gz({NAME: bytes(LIMIT + 1)}), "too large"),
        (from_tar, tar_gz({"../" + NAME: b"evil", "/" + NAME: b"evil"}), f"no member named {NAME}"),
        (from_tar, tar_gz({"other": b"x"}, links={NAME: "/etc/passwd"}), "a link or a folder"),
    ],
    ids=lambda one: "file" if isinstance(one, bytes) else getattr(one, "__name__", one),  # a zip has the time in it
)
def test_what_is_damaged_or_hostile_is_refused(tmp_path, read, content, reason):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_bytes(content)
    with pytest.raises(FormatError, match=reason):
        read(tmp_path / "in" / "file")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "in"]


def test_what_is_sound_is_read_by_name_and_what_climbs_is_ignored(tmp_path):
    path, members = tmp_path / "file", {"../../evil": b"evil", "./" + NAME: b"a"}
    path.write_bytes(tar_gz(members))
    assert from_tar(path) == b"a"
    assert list(archives.tar_members(path, ".*")) == [(NAME, b"a")]
    path.write_bytes(zipped({"../../evil": b"evil", NAME: b"a"}))
    assert from_zip(path) == b"a"
    assert archives.gunzip(gzip.compress(b"a")) == b"a"


def test_line_ends_are_restored():
    assert archives.crlf(b"a\nb\r\n") == b"a\r\nb\r\n"  # the other repair: test_errors
