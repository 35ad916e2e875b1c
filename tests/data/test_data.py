"""Loading: every set in its published layout, the table, and the real files where DPLIB_DATA has them."""

import gzip
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dplib import data
from dplib.checks import ParameterError
from dplib.data import DataError, fetch, loaders, registry
from tests.data.layouts import cifar_records, mnist_files, publish, tar_gz, write, zipped

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


def test_no_two_files_share_a_checksum():
    sums = [file.checksum for entry in registry.registry().values() for file in entry.files]
    assert len(set(sums)) == len(sums)


def test_stand_ins_say_what_they_stand_in_for():
    stands = {entry.name: entry.stand_in_for for entry in registry.registry().values() if entry.stand_in_for}
    assert stands == {"location": "Purchase-100", "movielens-latest-small": "MovieLens-1M", "cifar10-jpeg": "CIFAR-10"}


@pytest.mark.parametrize(
    ("wrong", "near"), [("minst", "mnist"), ("CIFAR-10", "cifar10"), ("zzz", None), (3, None), ([], None)]
)
def test_an_unknown_set_is_refused_with_the_nearest_name(wrong, near):
    with pytest.raises(ParameterError, match=f"did you mean {near}" if near else "is not known: it must be one of"):
        data.load(wrong)


def test_unknown_options_are_refused():
    with pytest.raises(ParameterError, match="extra is not an option of the data set digits: it takes none"):
        data.load("digits", extra=1)
    with pytest.raises(ParameterError, match="it takes only test_parts"):
        data.load("rcv1", parts=1)
    with pytest.raises(ParameterError, match="test_parts = 9"):
        data.load("rcv1", test_parts=9)
    with pytest.raises(ParameterError, match="split_seed = -1"):
        data.load("digits", split_seed=-1)


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


def test_kmnist_comes_from_the_cache_as_well(folders, rng, monkeypatch):
    files = mnist_files(rng)
    publish(monkeypatch, "kmnist", files)
    write(folders / "cache", "kmnist", files)
    read = data.load("kmnist")
    assert read.source == "cache"
    assert read.classes[0] == "お"
    assert read.licence == "CC BY-SA 4.0"


@pytest.mark.parametrize(("name", "label_bytes"), [("cifar10", 1), ("cifar100", 2)])
def test_cifar_binary(folders, rng, monkeypatch, name, label_bytes):
    from tests.data.layouts import CIFAR10

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
    files = {registry.registry()[name].files[0].name: tar_gz(members)}
    publish(monkeypatch, name, files)
    write(folders / "given", name, files)
    read = data.load(name)
    assert np.array_equal(read.x_train * 255, np.concatenate(images[:-1]).astype(np.float32))
    assert read.y_train.tolist() == np.concatenate(labels[:-1])[:, -1].tolist()
    assert read.y_test.tolist() == labels[-1][:, -1].tolist()
    assert read.classes == tuple(classes)
    assert not list(folders.rglob("evil.bin"))


def test_svhn(folders, rng, monkeypatch):
    import io

    from scipy.io import savemat

    files = {}
    for part, n in (("train", 6), ("test", 3)):
        out = io.BytesIO()
        images = rng.integers(0, 256, (32, 32, 3, n)).astype(np.uint8)
        savemat(out, {"X": images, "y": np.arange(n).reshape(-1, 1) % 10 + 1})
        files[f"{part}_32x32.mat"] = out.getvalue()
    publish(monkeypatch, "svhn", files)
    write(folders / "given", "svhn", files)
    read = data.load("svhn")
    assert read.x_train.shape == (6, 3, 32, 32)
    assert read.y_test.tolist() == [1, 2, 3]
    assert read.notes == ("for non-commercial use only (ufldl.stanford.edu/housenumbers)",)


def test_purchase_100_is_verified_by_its_git_blob_id(folders, rng, monkeypatch):
    bits = rng.integers(0, 2, (30, 600))
    rows = "".join(f"{i % 3 + 1},{','.join(map(str, row))}\n" for i, row in enumerate(bits.tolist()))
    content = tar_gz({"dataset_purchase": rows.encode()})
    entry = publish(monkeypatch, "purchase-100", {"dataset_purchase.tgz": content}, test_records=5)
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    file = replace(entry.files[0], sha256=None, bytes=None, git_sha1=blob)
    monkeypatch.setattr(registry, "registry", lambda: {"purchase-100": replace(entry, files=(file,))})
    path = write(folders / "given", "purchase-100", {"dataset_purchase.tgz": content}) / "dataset_purchase.tgz"
    read = data.load("purchase-100")
    assert (read.x_train.shape, read.x_test.shape) == ((25, 600), (5, 600))
    assert set(np.unique(read.x_train)) == {0, 1}
    assert len(read.classes) == 3
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DataError, match=rf"its Git blob id is [0-9a-f]+, not {blob}"):
        data.load("purchase-100")


def test_rcv1(folders, monkeypatch):
    files = {
        "lyrl2004_vectors_train.dat.gz": gzip.compress(b"2286  1:0.5 3:0.5\n2287  2:1\n"),
        "lyrl2004_vectors_test_pt0.dat.gz": gzip.compress(b"26151  47236:0.25\n"),
        "rcv1v2.topics.qrels.gz": gzip.compress(b"E11 2286 1\nCCAT 2286 1\nCCAT 26151 1\nM11 2287 1\nGCAT 26152 1\n"),
    }
    publish(monkeypatch, "rcv1", files)
    write(folders / "given", "rcv1", files)
    read = data.load("rcv1")
    assert read.x_train.shape == (2, 47_236)
    assert read.x_test.shape == (1, 47_236)
    assert read.classes == ("CCAT", "E11", "GCAT", "M11")
    assert read.y_train.toarray().tolist() == [[1, 1, 0, 0], [0, 0, 0, 1]]
    assert read.y_test.toarray().tolist() == [[1, 0, 0, 0]]


def test_movielens_1m(folders, monkeypatch):
    rows = "".join(f"{user}::{movie}::{stars}::978300760\n" for user, movie, stars in [(1, 9, 5), (3, 9, 1), (3, 4, 3)])
    files = {"ml-1m.zip": zipped({"ml-1m/ratings.dat": rows.encode(), "../evil": b"x"})}
    publish(monkeypatch, "movielens-1m", files, test_records=1)
    write(folders / "given", "movielens-1m", files)
    read = data.load("movielens-1m")
    together = np.column_stack(
        [np.concatenate([read.x_train, read.x_test]), np.concatenate([read.y_train, read.y_test])]
    )
    assert sorted(together.tolist()) == [[0, 1, 4], [1, 0, 2], [1, 1, 0]]
    assert read.classes == ("1", "2", "3", "4", "5")
    assert read.feature_names == ("user", "movie")


def test_half_a_star_is_no_rating_of_movielens_1m(folders, monkeypatch):
    files = {"ml-1m.zip": zipped({"ml-1m/ratings.dat": b"1::9::0.5::978300760\n"})}
    publish(monkeypatch, "movielens-1m", files)
    write(folders / "given", "movielens-1m", files)
    with pytest.raises(DataError, match="a rating other than 1, 2, 3, 4, 5"):
        data.load("movielens-1m")


# The decoded JPEG images


def jpeg_archives() -> dict[str, bytes]:
    import io

    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (32, 32), (200, 100, 50)).save(out, "JPEG")
    return {
        f"{part}.tar.gz": tar_gz(
            {f"{part}/{name}/{i:04d}.jpg": out.getvalue() for i in range(n) for name in ("cat", "dog")}
        )
        for part, n in (("train", 4), ("test", 2))
    }


def test_jpeg_images_are_decoded_once_and_a_damaged_copy_is_not_used(folders, monkeypatch):
    files = jpeg_archives()
    publish(monkeypatch, "cifar10-jpeg", files)
    write(folders / "given", "cifar10-jpeg", files)
    first = data.load("cifar10-jpeg")
    assert first.x_train.shape == (8, 3, 32, 32)
    assert first.stand_in_for == "CIFAR-10"
    assert "JPEG re-encodings: not the published pixels" in first.notes
    kept = sorted((folders / "cache" / "decoded").iterdir())
    assert len(kept) == 2
    assert all(path.suffix == ".npy" for path in kept)
    with monkeypatch.context() as patch:
        patch.setattr("dplib.data.formats.jpeg_folder", None)  # a call would fail
        again = data.load("cifar10-jpeg")
    assert np.array_equal(again.x_train, first.x_train)
    assert np.array_equal(again.y_train, first.y_train)
    whole = {path: path.read_bytes() for path in kept}
    for damage in (lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]), lambda raw: raw[:-50], lambda raw: b""):
        for path in kept:
            path.write_bytes(damage(whole[path]))
        read = data.load("cifar10-jpeg")
        assert np.array_equal(read.x_train, first.x_train)
        assert np.array_equal(read.x_test, first.x_test)
    assert {path: path.read_bytes() for path in (folders / "cache" / "decoded").iterdir()} == whole  # mended


def test_a_cache_that_cannot_be_written_costs_only_time(folders, monkeypatch):
    files = jpeg_archives()
    publish(monkeypatch, "cifar10-jpeg", files)
    write(folders / "given", "cifar10-jpeg", files)
    (folders / "cache").write_bytes(b"a file where the folder should be")
    assert data.load("cifar10-jpeg").x_train.shape == (8, 3, 32, 32)


# The table


def test_the_table_has_a_row_for_each_set_and_reads_no_file(mnist, monkeypatch):
    monkeypatch.setattr(Path, "read_bytes", None)
    (row,) = data.table()
    assert (row.name, row.present, row.verified, row.embedded) == ("mnist", True, None, False)
    assert row.papers == ("B", "C", "D")
    assert row.where == str(mnist[0])
    assert row.bytes == sum(map(len, mnist[1].values()))
    (mnist[0] / IMAGES).unlink()
    assert not data.table()[0].present


def test_the_listing_names_every_set(folders):
    lines = data.listing().splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(data.names())
    rows = {row.name: row for row in data.table()}
    assert rows["digits"].present
    assert rows["digits"].verified
    assert not rows["mnist"].present
    assert rows["mnist"].where == str(folders / "cache" / "mnist")
    assert rows["mnist"].bytes == 9912422 + 28881 + 1648877 + 4542
    assert rows["purchase-100"].bytes is None


def test_the_listing_says_what_is_sound_and_what_is_not(mnist):
    assert " verified " in data.listing()
    path = mnist[0] / IMAGES
    path.write_bytes(path.read_bytes()[:-1])
    listing = data.listing()
    assert " FAULTY " in listing
    assert IMAGES in listing.splitlines()[-1]


def test_verify_finds_what_load_would_find(mnist):
    assert data.verify("mnist").verified
    (mnist[0] / IMAGES).write_bytes(b"x")
    with pytest.raises(DataError, match="cut short"):
        data.verify("mnist")
    with pytest.raises(ParameterError, match="is not known"):
        data.verify("nothing")


def test_verify_never_downloads(mnist, monkeypatch):
    monkeypatch.setattr(fetch, "download", None)
    (mnist[0] / IMAGES).unlink()
    with pytest.raises(DataError, match="downloading is switched off"):
        data.verify("mnist")


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
    assert data.verify(name).verified
    if read.classes:
        counts = np.bincount(np.concatenate([read.y_train, read.y_test]), minlength=len(read.classes))
        assert len(counts) == len(read.classes)
        assert counts.min() > 0
        known = {"mnist": 6_313, "fashion-mnist": 7_000, "cifar10-jpeg": 6_000, "adult": 11_687, "breast-cancer": 85}
        known |= {"sms-spam": 747}
        assert counts.min() == known.get(name, counts.min())
    if read.x_train.ndim == 4:
        assert read.x_train.dtype == np.float32
        assert (read.x_train.min(), read.x_train.max()) == (0, 1)
