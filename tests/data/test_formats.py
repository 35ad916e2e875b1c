"""Parsers against files written in the published layouts, and against files that only look like them."""

import io

import numpy as np
import pytest
from scipy.io import savemat

from dplib.data import formats
from dplib.data.archives import FormatError
from tests.data.layouts import cifar_records, idx


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def test_idx_images_and_labels_come_back(rng):
    images, labels = rng.integers(0, 256, (7, 28, 28)), np.arange(7)
    assert np.array_equal(formats.idx_images(idx(images)), images)
    read = formats.idx_labels(idx(labels))
    assert np.array_equal(read, labels)
    assert read.dtype == np.int64


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (idx(np.arange(50)), "magic number is 2049 .labels. where IDX images have 2051"),
        (idx(np.zeros((3, 28, 28)))[:-1], "2,367 bytes where its header asks for 2,368"),
        (idx(np.zeros((3, 28, 28))) + b"x", "2,369 bytes where its header asks for 2,368"),
        (b"\x00\x00\x08", "too few for the header"),
        (b"", "too few for the header"),
        (idx(np.zeros((3, 28, 28)))[:4] + b"\xff" * 12, "where its header asks for"),
    ],
)
def test_idx_that_is_something_else_is_refused(content, reason):
    with pytest.raises(FormatError, match=reason):
        formats.idx_images(content)


def test_images_under_the_name_of_labels_are_refused():
    with pytest.raises(FormatError, match=r"2051 .images. where IDX labels have 2049"):
        formats.idx_labels(idx(np.zeros((3, 28, 28))))


@pytest.mark.parametrize(("label_bytes", "n_classes"), [(1, 10), (2, 100)])
def test_cifar_records_come_back(rng, label_bytes, n_classes):
    images = rng.integers(0, 256, (5, 3, 32, 32))
    labels = rng.integers(0, 10, (5, label_bytes))
    labels[:, -1] = [0, 1, 2, 3, n_classes - 1]  # the fine label is the last byte
    read, read_labels = formats.cifar(cifar_records(labels, images), label_bytes, n_classes)
    assert np.array_equal(read, images)
    assert read_labels.tolist() == [0, 1, 2, 3, n_classes - 1]


def test_cifar_of_another_record_size_or_label_is_refused(rng):
    images = rng.integers(0, 256, (5, 3, 32, 32))
    hundred = cifar_records(np.full((5, 2), 9), images)
    with pytest.raises(FormatError, match="not a whole number of 3073-byte records"):
        formats.cifar(hundred, 1, 10)
    with pytest.raises(FormatError, match="label 11"):
        formats.cifar(cifar_records(np.full((5, 1), 11), images), 1, 10)
    with pytest.raises(FormatError, match="0 bytes"):
        formats.cifar(b"", 1, 10)


def test_svhn_label_ten_is_the_digit_zero(tmp_path, rng):
    images, labels = rng.integers(0, 256, (32, 32, 3, 4)).astype(np.uint8), np.array([[1], [10], [9], [10]])
    savemat(tmp_path / "svhn.mat", {"X": images, "y": labels.astype(np.uint8)})
    read, read_labels = formats.svhn(tmp_path / "svhn.mat")
    assert read_labels.tolist() == [1, 0, 9, 0]
    assert np.array_equal(read[2, 1], images[:, :, 1, 2])  # image 2, green


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"X": np.zeros((32, 32, 3, 2), np.uint8)}, "no variables X and y"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.ones(3)}, "shape"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([1, 11])}, "outside 1 to 10"),
        ({"X": np.zeros((32, 32, 3, 2)), "y": np.ones(2)}, "shape"),
    ],
)
def test_svhn_with_other_content_is_refused(tmp_path, variables, reason):
    savemat(tmp_path / "svhn.mat", variables)
    with pytest.raises(FormatError, match=reason):
        formats.svhn(tmp_path / "svhn.mat")


def test_a_file_that_is_no_matlab_file_is_refused(tmp_path):
    (tmp_path / "svhn.mat").write_bytes(b"<html>Not found</html>" * 20)
    with pytest.raises(FormatError, match="not a sound MATLAB file"):
        formats.svhn(tmp_path / "svhn.mat")


ADULT = (
    b"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, ?, "
)


def test_adult_reads_both_its_files_alike():
    x, y = formats.adult(ADULT + b"<=50K\n" + ADULT + b">50K\n\n")
    assert x.shape == (2, 14)
    assert x[0, 1] == "State-gov"
    assert x[1, 13] == "?"
    assert y.tolist() == [0, 1]
    other_x, other_y = formats.adult(b"|1x3 Cross validator\n" + ADULT + b"<=50K.\n" + ADULT + b">50K.\n\n")
    assert np.array_equal(other_x, x)
    assert np.array_equal(other_y, y)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (ADULT + b"rich\n", "label 'rich'"),
        (ADULT[:-3] + b"<=50K\n", "row of 14 fields where rows have 15"),
        (b"\n", "row of 0 fields"),
        (b"\xff\xfe", "not text"),
    ],
)
def test_adult_with_other_content_is_refused(content, reason):
    with pytest.raises(FormatError, match=reason):
        formats.adult(content)


def test_breast_cancer_has_its_class_first():
    x, y = formats.breast_cancer(b"recurrence-events,30-39,premeno,30-34,0-2,?,3,left,left_low,no\n" * 2)
    assert x.shape == (2, 9)
    assert x[0].tolist() == ["30-39", "premeno", "30-34", "0-2", "?", "3", "left", "left_low", "no"]
    assert y.tolist() == [1, 1]


def test_medical_cost_has_the_charges_last():
    header = b"age,sex,bmi,children,smoker,region,charges\n"
    x, y = formats.medical_cost(header + b"19,female,27.9,0,yes,southwest,16884.924\r\n")
    assert x.tolist() == [["19", "female", "27.9", "0", "yes", "southwest"]]
    assert y.tolist() == [np.float32(16884.924)]
    with pytest.raises(FormatError, match="its header is a,b"):
        formats.medical_cost(b"a,b\n1,2\n")
    with pytest.raises(FormatError, match="no number"):
        formats.medical_cost(header + b"19,female,27.9,0,yes,southwest,much\n")


def test_sms_messages_keep_their_tabs_and_quotes():
    x, y = formats.sms('ham\tHe said "hi\nspam\tWIN\t£1000\n'.encode())
    assert x.tolist() == ['He said "hi', "WIN\t£1000"]
    assert y.tolist() == [0, 1]
    with pytest.raises(FormatError, match="without a label"):
        formats.sms(b"ham\tone\ntwo\n")


def test_binary_rows_count_labels_from_zero_with_and_without_quotes():
    for content in (b"3,0,1,1\n1,1,0,0\n", b'"3",0,1,1\n"1",1,0,0\n'):
        x, y = formats.binary_rows(content, 3)
        assert x.tolist() == [[0, 1, 1], [1, 0, 0]]
        assert y.tolist() == [2, 0]
    with pytest.raises(FormatError, match="line 2 does not have 3"):
        formats.binary_rows(b"3,0,1,1\n1,1,0\n", 3)
    with pytest.raises(FormatError, match="neither 0 nor 1"):
        formats.binary_rows(b"3,0,1,7\n", 3)


def test_ratings_of_both_movielens_layouts():
    old, new = b"1::1193::5::978300760\n2::661::3::978302109\n", b"userId,movieId,rating,timestamp\r\n1,1193,0.5,9\r\n"
    ids, stars = formats.ratings(old, "::", header=False)
    assert ids.tolist() == [[1, 1193], [2, 661]]
    assert stars.tolist() == [5, 3]
    ids, stars = formats.ratings(new, ",", header=True)
    assert ids.tolist() == [[1, 1193]]
    assert stars.tolist() == [0.5]


def test_rcv1_vectors_and_topics():
    x, documents = formats.rcv1_vectors(b"2286  864:0.05 47236:0.25\n2287  1:1e-3\n")
    assert x.shape == (2, 47_236)
    assert documents.tolist() == [2286, 2287]
    assert x[0, 863] == np.float32(0.05)  # terms count from 1
    assert x[0, 47_235] == np.float32(0.25)
    y, topics = formats.rcv1_topics(b"E11 2286 1\nECAT 2286 1\nCCAT 2287 1\nM11 9999 1\n", documents)
    assert topics == ("CCAT", "E11", "ECAT", "M11")
    assert y.toarray().tolist() == [[0, 1, 1, 0], [1, 0, 0, 0]]
    with pytest.raises(FormatError, match="line 2"):
        formats.rcv1_topics(b"E11 2286 1\nE11\n", documents)
    with pytest.raises(FormatError, match="document vectors"):
        formats.rcv1_vectors(b"E11 2286 1\n")


def _jpeg(colour: tuple[int, int, int], size=(32, 32), kind="JPEG") -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, kind)
    return out.getvalue()


def test_jpeg_images_are_read_by_class_and_shuffled_by_a_seed(tmp_path):
    from tests.data.layouts import CIFAR10, tar_gz

    colours = {"airplane": (250, 10, 10), "truck": (10, 10, 250)}
    members = {f"test/{name}/{i:04d}.jpg": _jpeg(c) for name, c in colours.items() for i in range(10)}
    (tmp_path / "a.tar.gz").write_bytes(tar_gz(members | {"../test/cat/0001.jpg": b"", "test/readme.txt": b"x"}))
    x, y = formats.jpeg_folder(tmp_path / "a.tar.gz", "test", CIFAR10)
    assert x.shape == (20, 3, 32, 32)
    assert sorted(y.tolist()) == [0] * 10 + [9] * 10
    assert y.tolist() != sorted(y.tolist())
    assert np.abs(x[y == 0][:, 0].astype(int) - 250).max() <= 6  # red, up to what JPEG loses
    again, _ = formats.jpeg_folder(tmp_path / "a.tar.gz", "test", CIFAR10)
    assert np.array_equal(again, x)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (_jpeg((1, 2, 3), (64, 32)), "64 by 32, not 32 by 32"),
        (_jpeg((1, 2, 3), kind="PNG"), "cannot be decoded"),
        (_jpeg((1, 2, 3))[:300], "cannot be decoded"),
    ],
)
def test_jpeg_folder_with_other_images_is_refused(tmp_path, content, reason):
    from tests.data.layouts import CIFAR10, tar_gz

    (tmp_path / "a.tar.gz").write_bytes(tar_gz({"test/cat/0000.jpg": content}))
    with pytest.raises(FormatError, match=reason):
        formats.jpeg_folder(tmp_path / "a.tar.gz", "test", CIFAR10)
