"""Archives that are damaged or hostile: refused or ignored, and nothing is ever written to disk."""

import gzip
import random
import stat
import zipfile

import pytest

from dplib.data import archives
from dplib.data.archives import FormatError
from tests.data.layouts import tar_gz, zipped


def test_gunzip_gives_the_content_back_and_stops_at_the_limit():
    assert archives.gunzip(gzip.compress(b"abc")) == b"abc"
    bomb = gzip.compress(bytes(10_000_000))
    assert len(bomb) < 20_000
    with pytest.raises(FormatError, match="more than 1,000 bytes"):
        archives.gunzip(bomb, limit=1000)


NOISE = gzip.compress(random.Random(0).randbytes(5000))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (NOISE[:1500], "ends early"),
        (NOISE[:4500], "ends early"),
        (NOISE[:2500] + bytes([NOISE[2500] ^ 1]) + NOISE[2501:], "not a sound gzip"),
        (b"<html>", "not a sound gzip"),
    ],
)
def test_a_damaged_gzip_file_is_refused(content, reason):
    with pytest.raises(FormatError, match=reason):
        archives.gunzip(content)


def test_zip_members_are_read_by_name_and_a_climbing_one_is_ignored(tmp_path):
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.zip"
    path.write_bytes(zipped({"../../evil.txt": b"evil", "/etc/evil": b"evil", "folder/data.csv": b"1,2"}))
    assert archives.zip_member(path, "folder/data.csv") == b"1,2"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.zip", "in"]
    with pytest.raises(FormatError, match=r"no member named data\.csv"):
        archives.zip_member(path, "data.csv")


def test_zip_symlinks_and_folders_are_refused(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo("data.csv")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("folder/", b"")
    for name in ("data.csv", "folder/"):
        with pytest.raises(FormatError, match="a link or a folder"):
            archives.zip_member(path, name)


def test_zip_bombs_are_refused_whatever_size_they_declare(tmp_path):
    path = tmp_path / "a.zip"
    content = zipped({"data.csv": bytes(3_000_000)})
    path.write_bytes(content)
    with pytest.raises(FormatError, match="too large"):
        archives.zip_member(path, "data.csv", limit=1000)
    size = (3_000_000).to_bytes(4, "little")
    path.write_bytes(content.replace(size, (900).to_bytes(4, "little")))  # a lie, in both headers
    with pytest.raises(FormatError):
        archives.zip_member(path, "data.csv", limit=1000)


def test_a_damaged_zip_is_refused(tmp_path):
    path = tmp_path / "a.zip"
    content = bytearray(zipped({"data.csv": b"0123456789" * 50}))
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FormatError, match="not a sound zip"):
        archives.zip_member(path, "data.csv")
    content[40] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(FormatError, match="not a sound zip"):
        archives.zip_member(path, "data.csv")


def test_tar_members_are_read_by_name_and_a_climbing_one_is_ignored(tmp_path):
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.tar.gz"
    members = {"../../evil": b"evil", "/etc/evil": b"evil", "./data/a.bin": b"a", "data/b.bin": b"b"}
    path.write_bytes(tar_gz(members))
    assert archives.tar_files(path, ["data/a.bin", "data/b.bin"]) == {"data/a.bin": b"a", "data/b.bin": b"b"}
    assert list(archives.tar_members(path, r"(.*/)?evil")) == [("/etc/evil", b"evil")]  # in memory, and only asked for
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.tar.gz", "in"]
    with pytest.raises(FormatError, match=r"no member named data/c\.bin"):
        archives.tar_files(path, ["data/a.bin", "data/c.bin"])


def test_tar_links_and_large_members_are_refused(tmp_path):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(tar_gz({"other": b"x"}, links={"data/a.bin": "/etc/passwd"}))
    with pytest.raises(FormatError, match="a link or a folder"):
        archives.tar_files(path, ["data/a.bin"])
    path.write_bytes(tar_gz({"data/a.bin": bytes(5000)}))
    with pytest.raises(FormatError, match="too large"):
        archives.tar_files(path, ["data/a.bin"], limit=4999)


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", tar_gz({"data/a.bin": b"a" * 10**5})[:150]])
def test_a_damaged_tar_is_refused(tmp_path, content):
    (tmp_path / "a.tar.gz").write_bytes(content)
    with pytest.raises(FormatError, match=r"not a sound tar|no member"):
        archives.tar_files(tmp_path / "a.tar.gz", ["data/a.bin"])


def test_line_ends_are_restored():
    assert archives.crlf(b"a\nb\r\n") == b"a\r\nb\r\n"  # the other repair: test_errors
