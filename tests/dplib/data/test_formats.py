"""Parsers against rows written in the published layouts, and against files that only look like them.

What test_data loads in its published layout (IDX, CIFAR, SVHN, ratings, RCV1, JPEG folders) is not read again here.
"""

import io

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from dplib.data import formats
from dplib.data.archives import FormatError
from tests.dplib.data.layouts import CIFAR10, cifar_records, idx, tar_gz

ADULT = (
    b"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, ?, "
)
COSTS = b"age,sex,bmi,children,smoker,region,charges\n"
PICTURES = np.zeros((5, 3, 32, 32))
IMAGES = np.zeros((3, 28, 28))


def test_adult_reads_both_its_files_alike():
    x, y = formats.adult(ADULT + b"<=50K\n" + ADULT + b">50K\n\n")
    assert x.shape == (2, 14)
    assert x[0, 1] == "State-gov"
    assert x[1, 13] == "?"
    assert y.tolist() == [0, 1]
    other_x, other_y = formats.adult(b"|1x3 Cross validator\n" + ADULT + b"<=50K.\n" + ADULT + b">50K.\n\n")
    assert np.array_equal(other_x, x)
    assert np.array_equal(other_y, y)


def test_breast_cancer_has_its_class_first():
    x, y = formats.breast_cancer(b"recurrence-events,30-39,premeno,30-34,0-2,?,3,left,left_low,no\n" * 2)
    assert x[0].tolist() == ["30-39", "premeno", "30-34", "0-2", "?", "3", "left", "left_low", "no"]
    assert y.tolist() == [1, 1]


def test_medical_cost_has_the_charges_last():
    x, y = formats.medical_cost(COSTS + b"19,female,27.9,0,yes,southwest,16884.924\r\n")
    assert x.tolist() == [["19", "female", "27.9", "0", "yes", "southwest"]]
    assert y.tolist() == [np.float32(16884.924)]


def test_sms_messages_keep_their_tabs_and_quotes():
    x, y = formats.sms('ham\tHe said "hi\nspam\tWIN\t£1000\n'.encode())
    assert x.tolist() == ['He said "hi', "WIN\t£1000"]
    assert y.tolist() == [0, 1]


def test_binary_rows_count_labels_from_zero_with_and_without_quotes():
    for content in (b"3,0,1,1\n1,1,0,0\n", b'"3",0,1,1\n"1",1,0,0\n'):
        x, y = formats.binary_rows(content, 3)
        assert x.tolist() == [[0, 1, 1], [1, 0, 0]]
        assert y.tolist() == [2, 0]


def test_ratings_with_a_header_and_half_stars():
    ids, stars = formats.ratings(b"userId,movieId,rating,timestamp\n1,1193,0.5,9\n", ",", header=True)
    assert (ids.tolist(), stars.tolist()) == ([[1, 1193]], [0.5])


@pytest.mark.parametrize(
    ("read", "content", "reason"),
    [
        (formats.idx_images, idx(np.arange(50)), "magic number is 2049 .labels. where IDX images have 2051"),
        (formats.idx_labels, idx(IMAGES), "2051 .images. where IDX labels have 2049"),
        (formats.idx_images, idx(IMAGES)[:-1], "2,367 bytes where its header asks for 2,368"),
        (formats.idx_images, idx(IMAGES) + b"x", "2,369 bytes where its header asks for 2,368"),
        (formats.idx_images, b"\x00\x00\x08", "too few for the header"),
        (formats.idx_images, idx(IMAGES)[:4] + b"\xff" * 12, "where its header asks for"),
        (
            lambda raw: formats.cifar(raw, 1, 10),
            cifar_records(np.full((5, 2), 9), PICTURES),
            "not a whole number of 3073-byte records",
        ),
        (lambda raw: formats.cifar(raw, 1, 10), cifar_records(np.full((5, 1), 11), PICTURES), "label 11"),
        (lambda raw: formats.cifar(raw, 1, 10), b"", "0 bytes"),
        (formats.adult, ADULT + b"rich\n", "label 'rich'"),
        (formats.adult, ADULT[:-3] + b"<=50K\n", "row of 14 fields where rows have 15"),
        (formats.adult, b"\n", "row of 0 fields"),
        (formats.adult, b"\xff\xfe", "not text"),
        (formats.medical_cost, b"a,b\n1,2\n", "its header is a,b"),
        (formats.medical_cost, COSTS + b"19,female,27.9,0,yes,southwest,much\n", "no number"),
        (formats.sms, b"ham\tone\ntwo\n", "without a label"),
        (lambda raw: formats.binary_rows(raw, 3), b"1,0,1,1\n2,0,1\n", "line 2 does not have 3 binary features"),
        (lambda raw: formats.binary_rows(raw, 3), b"1,0,1,2\n", "neither 0 nor 1"),
        (formats.rcv1_vectors, b"E11 2286 1\n", "document vectors"),
        (lambda raw: formats.rcv1_topics(raw, np.array([2286])), b"E11 2286 1\nE11\n", "line 2"),
    ],
)
def test_what_only_looks_like_a_file_is_refused(read, content, reason):
    with pytest.raises(FormatError, match=reason):
        read(content)


def matlab(**variables):
    out = io.BytesIO()
    savemat(out, variables)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (matlab(X=np.zeros((32, 32, 3, 2), np.uint8)), "no variables X and y"),
        (matlab(X=np.zeros((32, 32, 3, 2), np.uint8), y=np.ones(3)), "shape"),
        (matlab(X=np.zeros((32, 32, 3, 2), np.uint8), y=np.array([1, 11])), "outside 1 to 10"),
        (matlab(X=np.zeros((32, 32, 3, 2)), y=np.ones(2)), "shape"),
        (b"<html>Not found</html>" * 20, "not a sound MATLAB file"),
    ],
)
def test_svhn_with_other_content_is_refused(tmp_path, content, reason):
    (tmp_path / "svhn.mat").write_bytes(content)
    with pytest.raises(FormatError, match=reason):
        formats.svhn(tmp_path / "svhn.mat")


def picture(size=(32, 32), kind="JPEG") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, (1, 2, 3)).save(out, kind)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (picture((64, 32)), "64 by 32, not 32 by 32"),
        (picture(kind="PNG"), "cannot be decoded"),
        (picture()[:300], "cannot be decoded"),
    ],
)
def test_jpeg_folder_with_other_images_is_refused(tmp_path, content, reason):
    (tmp_path / "a.tar.gz").write_bytes(tar_gz({"test/cat/0000.jpg": content}))
    with pytest.raises(FormatError, match=reason):
        formats.jpeg_folder(tmp_path / "a.tar.gz", "test", CIFAR10)
