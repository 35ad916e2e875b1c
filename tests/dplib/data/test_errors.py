"""Every way in which a data file can be wrong or missing: one message that names it and says what to do."""

import gzip
import os
from dataclasses import replace

import numpy as np
import pytest

from dplib import data
from dplib.data import DataError, registry
from tests.dplib.data.layouts import flipped, idx, mnist_files, publish, sha256, write, zipped

pytestmark = pytest.mark.usefixtures("folders")


def load_error(name="mnist") -> str:
    with pytest.raises(DataError) as caught:
        data.load(name, allow_download=False)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    return text


IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path, files: path.write_bytes(files[IMAGES][:4000]), "cut short (4,000 of "),
        (lambda path, files: path.write_bytes(flipped(files[IMAGES], 4000)), "its SHA-256 is"),
        (lambda path, files: path.write_bytes(files[LABELS]), f"its content is that of mnist/{LABELS}"),
        (lambda path, files: path.write_bytes(b""), "it is empty"),
        (lambda path, files: path.unlink() or path.mkdir(), "it is a folder, not a file"),
        (lambda path, files: path.unlink() or path.symlink_to("/nowhere"), "a link that leads nowhere"),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong_and_what_to_do(mnist, damage, reason):
    folder, files = mnist
    damage(folder / IMAGES, files)
    text = load_error()
    assert str(folder / IMAGES) in text
    assert reason in text
    assert "replace it by the published file, or unset DPLIB_DATA" in text


def test_a_checksum_is_compared_before_anything_is_parsed(mnist, monkeypatch):
    def parse(content):
        raise AssertionError("parsed before it was verified")

    monkeypatch.setattr("dplib.data.formats.idx_images", parse)
    (mnist[0] / IMAGES).write_bytes(gzip.compress(idx(np.zeros((1, 28, 28)))))
    load_error()


def test_a_verified_file_in_a_wrong_layout(given, rng):
    files = mnist_files(rng)
    folder = given("mnist", files | {IMAGES: gzip.compress(b"nonsense")})
    assert f"{folder / IMAGES} is not the published {IMAGES}: it has 8 bytes, too few" in load_error()
    given("mnist", files | {LABELS: gzip.compress(idx(np.zeros(3)))})
    assert "20 train images have 3 labels" in load_error()


def test_a_missing_file(mnist, folders, monkeypatch):
    (mnist[0] / LABELS).unlink()
    text = load_error()
    assert f"mnist: {LABELS} is neither in DPLIB_DATA ({mnist[0]}) nor in the cache" in text
    assert "downloading is switched off" in text
    assert str(folders / "cache" / "mnist") in text
    monkeypatch.delenv("DPLIB_DATA")
    text = load_error()
    assert "is not in the cache" in text
    assert f"set DPLIB_DATA to a folder that has it as mnist/{IMAGES}" in text


def test_a_set_without_an_address_says_so_without_asking_the_network():
    with pytest.raises(DataError, match="has no published address") as caught:
        data.load("cifar10-jpeg")
    assert "--download" not in str(caught.value)


def test_dplib_data_pointing_nowhere(monkeypatch):
    monkeypatch.setenv("DPLIB_DATA", "/nowhere/at/all")
    assert "DPLIB_DATA = /nowhere/at/all is not a folder: set it to" in load_error()
    monkeypatch.setenv("DPLIB_DATA", "")  # as good as unset
    assert "is not in the cache" in load_error()


def test_a_damaged_file_in_the_cache_says_how_to_mend_it(folders, rng, monkeypatch):
    files = mnist_files(rng)
    publish(monkeypatch, "mnist", files)
    write(folders / "cache", "mnist", files | {IMAGES: b"x" * len(files[IMAGES])})
    assert "delete it, and it will be downloaded again" in load_error()


def test_a_file_that_changes_after_it_was_verified_is_verified_again(given):
    content = zipped({"ml-1m/ratings.dat": b"1::9::5::978300760\n2::9::5::978300760\n"})
    path = given("movielens-1m", {"ml-1m.zip": content}, test_records=1) / "ml-1m.zip"
    data.load("movielens-1m")
    path.write_bytes(flipped(content, 45))
    os.utime(path, ns=(1, 1))  # the same size; only time and content differ
    assert "its SHA-256 is" in load_error("movielens-1m")


# Other wrappers of the same content


def test_another_gzip_wrapper_of_the_same_content_is_as_good(mnist, monkeypatch):
    folder, files = mnist
    entry = registry.registry()["mnist"]
    contents = {name: gzip.decompress(content) for name, content in files.items()}
    known = tuple(
        replace(file, content_sha256=sha256(contents[file.name]), content_bytes=len(contents[file.name]))
        for file in entry.files
    )
    monkeypatch.setattr(registry, "registry", lambda: {"mnist": replace(entry, files=known)})
    published = data.load("mnist")
    for name, content in contents.items():
        (folder / name).write_bytes(gzip.compress(content, 1, mtime=7))
    rewrapped = data.load("mnist")
    assert np.array_equal(rewrapped.x_train, published.x_train)
    assert rewrapped.checksum == published.checksum
    (folder / IMAGES).write_bytes(gzip.compress(contents[IMAGES] + bytes(10**7)))
    assert "decompresses to more than 15,696 bytes" in load_error()
    (folder / IMAGES).write_bytes(gzip.compress(contents[IMAGES][:-1] + b"\0"))
    assert "its SHA-256 is" in load_error()
    (folder / LABELS).write_bytes(gzip.compress(contents["t10k-labels-idx1-ubyte.gz"], 1))
    (folder / IMAGES).write_bytes(files[IMAGES])
    assert "its content is that of mnist/t10k-labels-idx1-ubyte.gz" in load_error()


SMS = b"ham\tone here\nspam\ttwo\nham\tthree\n"


def sms_registry(monkeypatch, archive: dict) -> None:
    entry = registry.registry()["sms-spam"]
    holder = replace(entry.files[0].archive, urls=(), **archive)
    file = replace(entry.files[0], bytes=len(SMS), sha256=sha256(SMS), archive=holder)
    monkeypatch.setattr(registry, "registry", lambda: {"sms-spam": replace(entry, files=(file,), test_records=1)})


def test_changed_line_ends_are_restored_to_the_published_text(folders, monkeypatch):
    sms_registry(monkeypatch, {})
    read = []
    for text in (b"here", b"he\nre"):
        write(folders / "given", "sms-spam", {"SMSSpamCollection": SMS.replace(b"here", text)})
        read.append(data.load("sms-spam"))
    assert read[0].x_train.tolist() == read[1].x_train.tolist()
    assert read[0].checksum == read[1].checksum
    write(folders / "given", "sms-spam", {"SMSSpamCollection": SMS.replace(b"here", b"he\nrE")})
    assert "its SHA-256 is" in load_error("sms-spam")


@pytest.mark.parametrize("archive_has_checksum", [True, False])
def test_a_member_is_read_out_of_the_publishers_archive(folders, monkeypatch, archive_has_checksum):
    content = zipped({"../SMSSpamCollection": b"evil", "SMSSpamCollection": SMS, "readme": b"x"})
    sums = (len(content), sha256(content)) if archive_has_checksum else (None, None)
    sms_registry(monkeypatch, dict(zip(("bytes", "sha256"), sums, strict=True)))
    folder = write(folders / "given", "sms-spam", {"sms+spam+collection.zip": content})
    assert len(data.load("sms-spam").x_train) == 2
    data.verify("sms-spam")
    changed = zipped({"SMSSpamCollection": SMS.replace(b"one", b"two")})
    (folder / "sms+spam+collection.zip").write_bytes(changed)
    text = load_error("sms-spam")
    assert ("cut short" if archive_has_checksum else "its SHA-256 is") in text
    assert "sms+spam+collection.zip is not the published" in text
