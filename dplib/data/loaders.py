"""One function for each data set: which files it reads, and which part of them is training and which is test.

A loader gets ``files``, whose ``content(name, parse)`` and ``path(name, parse)`` hand the verified bytes or path of a
file to a parser of :mod:`dplib.data.formats`, and returns the fields of :class:`dplib.data.Dataset` that it fills. A
set that is published as one table is returned as its training part; ``load`` then draws the test part.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dplib import cache
from dplib.data import archives, fetch, formats

DIGITS = tuple("0123456789")
FASHION = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
KUZUSHIJI = tuple("おきすつなはまやれを")
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ADULT = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
)
BREAST_CANCER = (
    *("age", "menopause", "tumor-size", "inv-nodes", "node-caps"),
    *("deg-malig", "breast", "breast-quad", "irradiat"),
)
MEDICAL_COST = ("age", "sex", "bmi", "children", "smoker", "region")

Parts = dict[str, Any]


def mnist(files: Sequence[bytes], classes: tuple[str, ...] = DIGITS) -> Parts:
    """60,000 training and 10,000 test images of 28 by 28 grey pixels: ``(n, 1, 28, 28)``.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
        classes: names of the labels.

    Raises:
        DataError: where images and labels differ in number.
    """
    parts = {"classes": classes}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        images = files.content(f"{prefix}-images-idx3-ubyte.gz", formats.idx_images)
        labels = files.content(f"{prefix}-labels-idx1-ubyte.gz", formats.idx_labels)
        if len(images) != len(labels):
            raise fetch.DataError(f"{files.entry.name}: {len(images)} {part} images have {len(labels)} labels.")
        parts |= {f"x_{part}": unit_interval(images[:, None]), f"y_{part}": labels}
    return parts


def fashion_mnist(files: Sequence[bytes]) -> Parts:
    """As :func:`mnist`, with ten kinds of clothing.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
    """
    return mnist(files, FASHION)


def kmnist(files: Sequence[bytes]) -> Parts:
    """As :func:`mnist`, with ten hiragana.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
    """
    return mnist(files, KUZUSHIJI)


def cifar10(files: Sequence[bytes]) -> Parts:
    """50,000 training and 10,000 test images ``(n, 3, 32, 32)``, in the published order.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
    """
    return _cifar(files, "cifar-10-batches-bin", [f"data_batch_{i}.bin" for i in range(1, 6)], "test_batch.bin", 1)


def cifar100(files: Sequence[bytes]) -> Parts:
    """50,000 training and 10,000 test images ``(n, 3, 32, 32)`` with the 100 fine labels.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
    """
    return _cifar(files, "cifar-100-binary", ["train.bin"], "test.bin", 2)


def cifar10_jpeg(files: Sequence[bytes]) -> Parts:
    """As :func:`cifar10`, but the pixels are those of JPEG re-encodings and the order is ours (fixed by a seed).

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
    """
    parts = {"classes": CIFAR10}
    for part in ("train", "test"):
        images, labels = files.path(f"{part}.tar.gz", lambda path, part=part: _decoded(path, part))
        parts |= {f"x_{part}": unit_interval(images), f"y_{part}": labels}
    return parts


def svhn(files: Sequence[bytes]) -> Parts:
    """73,257 training and 26,032 test images ``(n, 3, 32, 32)``; the published label 10 is the digit 0.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
    """
    parts = {"classes": DIGITS}
    for part in ("train", "test"):
        images, labels = files.path(f"{part}_32x32.mat", formats.svhn)
        parts |= {f"x_{part}": unit_interval(images), f"y_{part}": labels}
    return parts


def adult(files: Sequence[bytes]) -> Parts:
    """32,561 training and 16,281 test records: ``(n, 14)`` strings as published, ``?`` where a value is missing.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
    """
    parts = {"feature_names": ADULT, "classes": ("<=50K", ">50K")}
    for part, name in (("train", "adult.data"), ("test", "adult.test")):
        parts[f"x_{part}"], parts[f"y_{part}"] = files.content(name, formats.adult)
    return parts


def breast_cancer(files: Sequence[bytes]) -> Parts:
    """286 records in one table: ``(286, 9)`` strings as published, ``?`` where a value is missing.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
    """
    x, y = files.content("breast-cancer.data", formats.breast_cancer)
    return {"x_train": x, "y_train": y, "feature_names": BREAST_CANCER, "classes": ("no recurrence", "recurrence")}


def sms_spam(files: Sequence[bytes]) -> Parts:
    """5,574 messages in one table: ``(5574,)`` Python strings.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
    """
    x, y = files.content("SMSSpamCollection", formats.sms)
    return {"x_train": x, "y_train": y, "classes": ("ham", "spam")}


def medical_cost(files: Sequence[bytes]) -> Parts:
    """1,338 records in one table: ``(1338, 6)`` strings as published; the target is the yearly charge in dollars.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
    """
    x, y = files.content("insurance.csv", formats.medical_cost)
    return {"x_train": x, "y_train": y, "feature_names": MEDICAL_COST}


def purchase_100(files: Sequence[bytes]) -> Parts:
    """197,324 records in one table: ``(n, 600)`` float32 of 0 and 1, 100 classes.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
    """
    return _binary_table(files, "dataset_purchase.tgz", "dataset_purchase", 600)


def location(files: Sequence[bytes]) -> Parts:
    """5,010 records in one table: ``(5010, 446)`` float32 of 0 and 1, 30 classes.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
    """
    return _binary_table(files, "dataset_location.tgz", "bangkok", 446)


def rcv1(files: Sequence[bytes]) -> Parts:
    """23,149 training documents, and of 781,265 test documents those of the first of four files.

    ``x`` is an ``(n, 47236)`` float32 CSR matrix of cosine-normalised log TF-IDF, ``y`` an ``(n, 103)`` uint8 CSR
    matrix: a document has one topic or more.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.
    """
    (train, first), (test, second) = (
        files.content(f"lyrl2004_vectors_{part}.dat.gz", formats.rcv1_vectors) for part in ("train", "test_pt0")
    )
    numbers = np.concatenate([first, second])
    y, topics = files.content("rcv1v2.topics.qrels.gz", lambda raw: formats.rcv1_topics(raw, numbers))
    n_train = len(first)
    return {"x_train": train, "y_train": y[:n_train], "x_test": test, "y_test": y[n_train:], "classes": topics}


def movielens_1m(files: Sequence[bytes]) -> Parts:
    """1,000,209 ratings in one table: ``(n, 2)`` int64 of user and movie, counted from 0; classes 1 to 5 stars.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.

    Raises:
        DataError: for a rating that is none of these.
    """

    def parse(path: Path):
        return formats.ratings(archives.zip_member(path, "ml-1m/ratings.dat"), "::", header=False)

    return _ratings(files.entry.name, *files.path("ml-1m.zip", parse), stars=np.arange(1, 6))


def movielens_latest_small(files: Sequence[bytes]) -> Parts:
    """100,836 ratings in one table, as :func:`movielens_1m`; ten classes, 0.5 to 5 stars.

    Args:
        files: hands out the verified content or path of a file of the set, parsed.

    Raises:
        DataError: for a rating that is none of these.
    """
    ids, values = files.content("ratings.csv", lambda raw: formats.ratings(raw, ",", header=True))
    return _ratings(files.entry.name, ids, values, stars=np.arange(1, 11) / 2)


def digits(files: Sequence[bytes]) -> Parts:
    """1,797 images of 8 by 8 grey pixels in one table, ``(n, 1, 8, 8)``, inside scikit-learn.

    Args:
        files: not used: it comes inside scikit-learn.
    """
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return {"x_train": x.astype(np.float32).reshape(-1, 1, 8, 8) / 16, "y_train": y.astype(np.int64), "classes": DIGITS}


LOADERS = {
    "mnist": mnist,
    "fashion-mnist": fashion_mnist,
    "kmnist": kmnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "svhn": svhn,
    "adult": adult,
    "breast-cancer": breast_cancer,
    "sms-spam": sms_spam,
    "medical-cost": medical_cost,
    "purchase-100": purchase_100,
    "location": location,
    "rcv1": rcv1,
    "movielens-1m": movielens_1m,
    "movielens-latest-small": movielens_latest_small,
    "cifar10-jpeg": cifar10_jpeg,
    "digits": digits,
}


def unit_interval(images: np.ndarray) -> np.ndarray:
    """uint8 pixels as float32 in [0, 1].

    Args:
        images: uint8, of any shape, which the result has.
    """
    return np.divide(images, np.float32(255), dtype=np.float32)


def _cifar(files, folder: str, train: list[str], test: str, label_bytes: int) -> Parts:
    meta = "batches.meta.txt" if label_bytes == 1 else "fine_label_names.txt"
    members = [f"{folder}/{name}" for name in (*train, test, meta)]
    content = files.path(files.entry.files[0].name, lambda path: archives.tar_files(path, members, limit=2**28))
    classes = tuple(content[f"{folder}/{meta}"].decode().split())
    parts = {"classes": classes}
    for part, names in (("train", train), ("test", [test])):
        batches = [formats.cifar(content[f"{folder}/{name}"], label_bytes, len(classes)) for name in names]
        parts[f"x_{part}"] = unit_interval(np.concatenate([images for images, _ in batches]))
        parts[f"y_{part}"] = np.concatenate([labels for _, labels in batches])
    return parts


def _binary_table(files, name: str, member: str, n_features: int) -> Parts:
    def parse(path: Path):
        return formats.binary_rows(archives.tar_files(path, [member])[member], n_features)

    x, y = files.path(name, parse)
    classes = tuple(map(str, range(1, int(y.max()) + 2)))
    return {"x_train": x.astype(np.float32), "y_train": y, "classes": classes}


def _ratings(name: str, ids: np.ndarray, values: np.ndarray, stars: np.ndarray) -> Parts:
    """Ids counted from 0 in the order of the published ones; each rating as the index of its number of stars."""
    x = np.stack([np.unique(column, return_inverse=True)[1] for column in ids.T], axis=1)
    y = np.searchsorted(stars, values)
    if (y == len(stars)).any() or (stars[y] != values).any():
        raise fetch.DataError(f"{name}: there is a rating other than {', '.join(f'{s:g}' for s in stars)}.")
    classes = tuple(f"{value:g}" for value in stars)
    return {"x_train": x, "y_train": y.astype(np.int64), "feature_names": ("user", "movie"), "classes": classes}


def _decoded(path: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """The JPEG images of an archive, decoded once: kept in the cache under the archive's checksum and Pillow's version,
    since another decoder may round otherwise.
    """
    import PIL

    with open(path, "rb") as stream:
        archive = hashlib.file_digest(stream, "sha256").hexdigest()
    return cache.memory("decoded").cache(_decode, ignore=["path"])(path, split, archive, PIL.__version__)


def _decode(path: Path, split: str, archive: str, pillow: str) -> tuple[np.ndarray, np.ndarray]:
    return formats.jpeg_folder(path, split, CIFAR10)
