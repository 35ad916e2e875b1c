"""Loading: every set in its published layout, the table, and the real files where DPLIB_DATA has them."""

import gzip
import hashlib
import io
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from dplib import data
from dplib.checks import ParameterError
from dplib.data import DataError, fetch, loaders, registry
from tests.dplib.data.layouts import CIFAR10, cifar_records, flipped, tar_gz, zipped

REAL = os.environ.get("DPLIB_DATA", "")
pytestmark = pytest.mark.usefixtures("folders")
IMAGES = "train-images-idx3-ubyte.gz"


# The registry


def test_the_registry_is_complete():
    assert set(loaders.LOADERS) == set(data.names())
    for entry in registry.registry().values():
        assert entry.licence
        assert entry.citation
        assert bool(entry.files) != entry.embedded
        for file in entry.files:
            assert file.checksum or (file.archive and file.archive.checksum), f"{entry.name}/{file.name}"
            assert all(url.startswith(("http://", "https://")) for url in file.urls)
            lengths = {"sha256": 64, "md5": 32, "git_sha1": 40, "content_sha256": 64}
            assert all(len(getattr(file, kind) or "0" * n) == n for kind, n in lengths.items())
    sums = [file.checksum for entry in registry.registry().values() for file in entry.files]
    assert len(set(sums)) == len(sums), "two files share a checksum"


@pytest.mark.parametrize(
    ("wrong", "near"), [("minst", "mnist"), ("CIFAR-10", "cifar10"), ("zzz", None), (3, None), ([], None)]
)
def test_an_unknown_set_is_refused_with_the_nearest_name(wrong, near):
    with pytest.raises(ParameterError, match=f"did you mean {near}" if near else "is not known: it must be one of"):
        data.load(wrong)


def test_digits_are_inside_scikit_learn(monkeypatch):
    monkeypatch.setenv("DPLIB_DATA", "/nowhere")
    read = data.load("digits")
    assert (read.x_train.shape, read.x_test.shape) == ((1347, 1, 8, 8), (450, 1, 8, 8))
    assert (read.x_train.dtype, read.x_train.min(), read.x_train.max()) == (np.float32, 0, 1)
    assert (read.source, read.stand_in_for, len(read.checksum)) == ("embedded", None, 64)


def test_the_drawn_test_part_depends_on_the_seed_alone_and_loses_no_record():
    first, again, other = data.load("digits"), data.load("digits"), data.load("digits", split_seed=1)
    assert np.array_equal(first.x_test, again.x_test)
    assert not np.array_equal(first.x_test, other.x_test)
    assert first.checksum == other.checksum  # the same data, split in another way
    with pytest.raises(ParameterError, match="split_seed = -1"):
        data.load("digits", split_seed=-1)
    both = [np.sort(np.concatenate([d.x_train, d.x_test]), axis=0) for d in (first, other)]
    assert np.array_equal(*both)
    assert "drawn by us (seed 1)" in other.notes[0]


# Every other set, from small files in the published layout


def test_mnist(mnist):
    read = data.load("mnist")
    assert read.x_train.shape == (20, 1, 28, 28)
    assert read.x_train.dtype == np.float32
    content = gzip.decompress(mnist[1]["t10k-images-idx3-ubyte.gz"])[16:]
    assert np.array_equal(read.x_test.ravel(), np.frombuffer(content, np.uint8) / np.float32(255))
    assert read.y_test.tolist() == list(range(8))
    assert read.source == "DPLIB_DATA"


@pytest.mark.parametrize(("name", "label_bytes"), [("cifar10", 1), ("cifar100", 2)])
def test_cifar_binary(folders, given, rng, name, label_bytes):
    if name == "cifar10":
        folder, parts, classes = "cifar-10-batches-bin", [f"data_batch_{i}" for i in range(1, 6)], CIFAR10
        meta, test = "batches.meta.txt", "test_batch"
    else:
        folder, parts, classes = "cifar-100-binary", ["train"], [f"kind{i}" for i in range(100)]
        meta, test = "fine_label_names.txt", "test"
    members, images, labels = {f"{folder}/{meta}": "\n".join(classes).encode() + b"\n\n"}, [], []
    for part in (*parts, test):
        images.append(rng.integers(0, 256, (4, 3, 32, 32)))
        labels.append(rng.integers(0, 10, (4, label_bytes)))
        members[f"{folder}/{part}.bin"] = cifar_records(labels[-1], images[-1])
    members = dict(reversed(members.items())) | {"../evil.bin": b"x"}  # the order inside the archive must not matter
    given(name, {registry.registry()[name].files[0].name: tar_gz(members)})
    read = data.load(name)
    assert np.array_equal(read.x_train * 255, np.concatenate(images[:-1]).astype(np.float32))
    assert read.y_train.tolist() == np.concatenate(labels[:-1])[:, -1].tolist()
    assert read.y_test.tolist() == labels[-1][:, -1].tolist()
    assert read.classes == tuple(classes)
    assert not list(folders.rglob("evil.bin"))


def test_svhn_label_ten_is_the_digit_zero(given, rng):
    files = {}
    for part, labels in (("train", [1, 10, 9, 10]), ("test", [1, 2, 3])):
        out, n = io.BytesIO(), len(labels)
        images = rng.integers(0, 256, (32, 32, 3, n)).astype(np.uint8)
        savemat(out, {"X": images, "y": np.array(labels).reshape(-1, 1)})
        files[f"{part}_32x32.mat"] = out.getvalue()
    given("svhn", files)
    read = data.load("svhn")
    assert np.allclose(255 * read.x_test[2, 1], images[:, :, 1, 2])  # image 2, green
    assert (read.y_train.tolist(), read.y_test.tolist()) == ([1, 0, 9, 0], [1, 2, 3])
    assert read.notes == ("for non-commercial use only (ufldl.stanford.edu/housenumbers)",)


def test_purchase_100_is_verified_by_its_git_blob_id(given, rng, monkeypatch):
    bits = rng.integers(0, 2, (30, 600))
    rows = "".join(f"{i % 3 + 1},{','.join(map(str, row))}\n" for i, row in enumerate(bits.tolist()))
    content = tar_gz({"dataset_purchase": rows.encode()})
    path = given("purchase-100", {"dataset_purchase.tgz": content}, test_records=5) / "dataset_purchase.tgz"
    blob, entry = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest(), registry.entry("purchase-100")
    file = replace(entry.files[0], sha256=None, bytes=None, git_sha1=blob)
    monkeypatch.setattr(registry, "registry", lambda: {"purchase-100": replace(entry, files=(file,))})
    read = data.load("purchase-100")
    assert (read.x_train.shape, read.x_test.shape) == ((25, 600), (5, 600))
    assert set(np.unique(read.x_train)) == {0, 1}
    assert len(read.classes) == 3
    path.write_bytes(flipped(content, len(content) - 1))
    with pytest.raises(DataError, match=rf"its Git blob id is [0-9a-f]+, not {blob}"):
        data.load("purchase-100")


def test_rcv1(given):
    files = {
        "lyrl2004_vectors_train.dat.gz": gzip.compress(b"2286  1:0.5 3:0.5\n2287  2:1\n"),
        "lyrl2004_vectors_test_pt0.dat.gz": gzip.compress(b"26151  47236:0.25\n"),
        "rcv1v2.topics.qrels.gz": gzip.compress(b"E11 2286 1\nCCAT 2286 1\nCCAT 26151 1\nM11 2287 1\nGCAT 26152 1\n"),
    }
    given("rcv1", files)
    read = data.load("rcv1")
    assert (read.x_train.shape, read.x_test.shape) == ((2, 47_236), (1, 47_236))
    assert (read.x_train[0, 2], read.x_test[0, 47_235]) == (0.5, 0.25)  # terms count from 1
    assert read.classes == ("CCAT", "E11", "GCAT", "M11")
    assert read.y_train.toarray().tolist() == [[1, 1, 0, 0], [0, 0, 0, 1]]
    assert read.y_test.toarray().tolist() == [[1, 0, 0, 0]]


def test_movielens_1m(given):
    rows = "".join(f"{user}::{movie}::{stars}::978300760\n" for user, movie, stars in [(1, 9, 5), (3, 9, 1), (3, 4, 3)])
    given("movielens-1m", {"ml-1m.zip": zipped({"ml-1m/ratings.dat": rows.encode(), "../evil": b"x"})}, test_records=1)
    read = data.load("movielens-1m")
    x, y = np.concatenate([read.x_train, read.x_test]), np.concatenate([read.y_train, read.y_test])
    assert sorted(np.column_stack([x, y]).tolist()) == [[0, 1, 4], [1, 0, 2], [1, 1, 0]]
    assert read.classes == ("1", "2", "3", "4", "5")
    assert read.feature_names == ("user", "movie")


def test_half_a_star_is_no_rating_of_movielens_1m(given):
    given("movielens-1m", {"ml-1m.zip": zipped({"ml-1m/ratings.dat": b"1::9::0.5::978300760\n"})})
    with pytest.raises(DataError, match="a rating other than 1, 2, 3, 4, 5"):
        data.load("movielens-1m")


# The decoded JPEG images


def jpeg(colour) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (32, 32), colour).save(out, "JPEG")
    return out.getvalue()


@pytest.fixture
def jpegs(given):
    """Red aeroplanes and blue trucks, in the order of their classes."""
    colours = {"airplane": (250, 10, 10), "truck": (10, 10, 250)}
    given(
        "cifar10-jpeg",
        {
            f"{part}.tar.gz": tar_gz(
                {f"{part}/{name}/{i:04d}.jpg": jpeg(c) for name, c in colours.items() for i in range(n)}
                | {f"../{part}/cat/0001.jpg": b"", f"{part}/readme.txt": b"x"}
            )
            for part, n in (("train", 10), ("test", 2))
        },
    )


def test_jpeg_images_are_decoded_once_shuffled_by_a_seed_and_a_damaged_copy_is_not_used(folders, jpegs, monkeypatch):
    first = data.load("cifar10-jpeg")
    assert first.x_train.shape == (20, 3, 32, 32)
    assert sorted(first.y_train.tolist()) == [0] * 10 + [9] * 10 != first.y_train.tolist()
    assert np.abs(255 * first.x_train[first.y_train == 0][:, 0] - 250).max() <= 6  # red, up to what JPEG loses
    assert first.stand_in_for == "CIFAR-10"
    assert "JPEG re-encodings: not the published pixels" in first.notes

    def same():
        read = data.load("cifar10-jpeg")
        names = ("x_train", "y_train", "x_test")
        return all(np.array_equal(getattr(read, name), getattr(first, name)) for name in names)

    with monkeypatch.context() as patch:
        patch.setattr("dplib.data.formats.jpeg_folder", None)  # a call would fail
        assert same()
    whole = {path: path.read_bytes() for path in (folders / "cache" / "decoded").rglob("*.pkl")}
    assert len(whole) == 2
    for damage in (lambda raw: flipped(raw, len(raw) - 9), lambda raw: raw[:-50], lambda raw: b""):
        for path in whole:
            path.write_bytes(damage(whole[path]))
        assert same()
    assert same()


def test_a_cache_that_cannot_be_written_costs_only_time(folders, jpegs):
    (folders / "cache").write_bytes(b"a file where the folder should be")
    assert data.load("cifar10-jpeg").x_train.shape == (20, 3, 32, 32)


# The table


def test_the_table_has_a_row_for_each_set_and_reads_no_file(mnist, monkeypatch):
    monkeypatch.setattr(Path, "read_bytes", None)
    (row,) = data.table()
    assert (row.name, row.present, row.embedded) == ("mnist", True, False)
    assert row.papers == ("B", "C", "D")
    assert row.where == str(mnist[0])
    assert row.bytes == sum(map(len, mnist[1].values()))
    (mnist[0] / IMAGES).unlink()
    assert not data.table()[0].present


def test_the_listing_names_every_set_and_says_what_is_sound(folders, mnist, monkeypatch):
    path = mnist[0] / IMAGES
    assert " verified " in data.listing()
    path.write_bytes(path.read_bytes()[:-1])
    assert " FAULTY " in data.listing()
    assert IMAGES in data.listing().splitlines()[-1]
    monkeypatch.undo()
    assert [line.split()[0] for line in data.listing().splitlines()[1:]] == list(data.names())


def test_verify_finds_what_load_would_find_and_never_downloads(mnist, monkeypatch):
    monkeypatch.setattr(fetch, "download", None)
    data.verify("mnist")
    (mnist[0] / IMAGES).write_bytes(b"x")
    with pytest.raises(DataError, match="cut short"):
        data.verify("mnist")
    (mnist[0] / IMAGES).unlink()
    with pytest.raises(DataError, match="downloading is switched off"):
        data.verify("mnist")
    with pytest.raises(ParameterError, match="is not known"):
        data.verify("nothing")


# The real files

PRESENT = {
    "mnist": ((60_000, 1, 28, 28), (10_000, 1, 28, 28)),
    "fashion-mnist": ((60_000, 1, 28, 28), (10_000, 1, 28, 28)),
    "adult": ((32_561, 14), (16_281, 14)),
    "breast-cancer": ((191, 9), (95, 9)),
    "sms-spam": ((4_738,), (836,)),
    "medical-cost": ((1_038, 6), (300, 6)),
    "location": ((4_010, 446), (1_000, 446)),
    "movielens-latest-small": ((80_669, 2), (20_167, 2)),
    "cifar10-jpeg": ((50_000, 3, 32, 32), (10_000, 3, 32, 32)),
}


LEAST = {"mnist": 6_313, "fashion-mnist": 7_000, "cifar10-jpeg": 6_000, "adult": 11_687, "breast-cancer": 85}
LEAST["sms-spam"] = 747  # records of the smallest class


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name == "cifar10-jpeg" else ()) for name in PRESENT]
)
def test_the_real_files(name, monkeypatch):
    if not (Path(REAL) / name).is_dir() or not REAL:
        pytest.skip(f"DPLIB_DATA is not set to a folder with {name}")
    monkeypatch.setenv("DPLIB_DATA", REAL)
    read = data.load(name, allow_download=False)
    assert (read.x_train.shape, read.x_test.shape) == PRESENT[name]
    assert read.source == "DPLIB_DATA"
    data.verify(name)
    if read.classes:
        counts = np.bincount(np.concatenate([read.y_train, read.y_test]), minlength=len(read.classes))
        assert len(counts) == len(read.classes)
        assert counts.min() > 0
        assert counts.min() == LEAST.get(name, counts.min())
    if read.x_train.ndim == 4:
        assert read.x_train.dtype == np.float32
        assert (read.x_train.min(), read.x_train.max()) == (0, 1)
