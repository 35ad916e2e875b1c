"""Readers of the published file layouts: bytes in, arrays out, every size and magic number checked.

Nothing here touches the network. Every function raises :class:`FormatError` with a reason in words; the caller
adds which file it was.
"""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dplib.data.archives import FormatError, tar_members

if TYPE_CHECKING:  # loaded where it is needed
    from scipy.sparse import csr_matrix

IDX_IMAGES, IDX_LABELS = 2051, 2049  # unsigned bytes with three dimensions, and with one
CIFAR_PIXELS = 3 * 32 * 32
ADULT_FIELDS = 15
RCV1_TERMS, RCV1_TOPICS = 47_236, 103


def idx_images(content: bytes) -> np.ndarray:
    """IDX images (MNIST and its kin), ``(n, rows, columns)`` uint8.

    Args:
        content: the bytes of the file.

    Raises:
        FormatError: for another layout.
    """
    count, rows, columns = _idx_header(content, IDX_IMAGES, "images")
    return np.frombuffer(content, np.uint8, offset=16).reshape(count, rows, columns)


def idx_labels(content: bytes) -> np.ndarray:
    """IDX labels, ``(n,)`` int64.

    Args:
        content: the bytes of the file.

    Raises:
        FormatError: for another layout.
    """
    _idx_header(content, IDX_LABELS, "labels")
    return np.frombuffer(content, np.uint8, offset=8).astype(np.int64)


def _idx_header(content: bytes, magic: int, what: str) -> tuple[int, ...]:
    size = 4 * (1 + magic % 256)  # the last byte of the magic number counts the dimensions
    if len(content) < size:
        raise FormatError(f"it has {len(content)} bytes, too few for the header of IDX {what}")
    number, *shape = (int(value) for value in np.frombuffer(content, ">i4", size // 4))
    if number != magic:
        kind = {IDX_IMAGES: " (images)", IDX_LABELS: " (labels)"}.get(number, "")
        raise FormatError(f"its magic number is {number}{kind} where IDX {what} have {magic}")
    expected = size + int(np.prod(shape, dtype=np.int64))
    if min(shape) < 0 or len(content) != expected:
        raise FormatError(f"it holds {len(content):,} bytes where its header asks for {expected:,}")
    return tuple(shape)


def cifar(content: bytes, label_bytes: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """CIFAR binary records: label bytes, and 3,072 pixel bytes (red, green, blue planes, row by row).

    Args:
        content: the bytes of the file.
        label_bytes: 1 for CIFAR-10; 2, coarse then fine, for CIFAR-100.
        n_classes: labels are below it.

    Returns:
        images ``(n, 3, 32, 32)`` uint8 and the last label byte of each record, ``(n,)`` int64.

    Raises:
        FormatError: for another layout, or a label that is too large.
    """
    size = label_bytes + CIFAR_PIXELS
    if not content or len(content) % size:
        raise FormatError(f"it holds {len(content):,} bytes, not a whole number of {size}-byte records")
    records = np.frombuffer(content, np.uint8).reshape(-1, size)
    labels = records[:, label_bytes - 1].astype(np.int64)
    if labels.max() >= n_classes:
        raise FormatError(f"it has the label {labels.max()} where labels are 0 to {n_classes - 1}")
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), labels


def svhn(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """SVHN digits: images ``(n, 3, 32, 32)`` uint8, labels ``(n,)`` int64 (published label 10 is digit 0).

    Args:
        path: of the MATLAB file.

    Raises:
        FormatError: for another layout.
    """
    from scipy.io import loadmat

    try:
        content = loadmat(path, variable_names=["X", "y"])
    except Exception as error:  # a damaged file makes SciPy raise nearly anything
        raise FormatError(f"it is not a sound MATLAB file ({error})") from None
    if not {"X", "y"} <= content.keys():
        raise FormatError("it has no variables X and y")
    images, labels = content["X"], content["y"].ravel().astype(np.int64)
    if images.shape != (32, 32, 3, len(labels)) or images.dtype != np.uint8:
        raise FormatError(f"its images have shape {images.shape} and its labels {labels.shape}")
    if len(labels) and not 1 <= labels.min() <= labels.max() <= 10:
        raise FormatError("it has labels outside 1 to 10")
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), labels % 10


def jpeg_folder(path: Path, split: str, classes: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """JPEG images ``split/class/NNNN.jpg`` of a tar archive: ``(n, 3, 32, 32)`` uint8 and ``(n,)`` int64.

    The records are put in an order fixed by a seed, because the archive is sorted by class.

    Args:
        path: of the tar archive.
        split: "train" or "test".
        classes: names of the folders, in the order of the labels.

    Raises:
        FormatError: for an image that cannot be decoded or has another size, or none at all.
    """
    from PIL import Image, UnidentifiedImageError

    images, labels = [], []
    for name, content in tar_members(path, rf"{split}/({'|'.join(classes)})/\d+\.jpg", limit=2**20):
        try:
            with Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
                if image.size != (32, 32):  # known before any pixel is decoded
                    raise FormatError(f"its image {name} is {image.size[0]} by {image.size[1]}, not 32 by 32")
                images.append(np.asarray(image.convert("RGB")))
        except (UnidentifiedImageError, OSError) as error:
            raise FormatError(f"its image {name} cannot be decoded ({error})") from None
        labels.append(classes.index(name.split("/")[1]))
    if not images:
        raise FormatError(f"it holds no images named {split}/class/NNNN.jpg")
    order = np.random.default_rng(0).permutation(len(images))
    return np.stack(images).transpose(0, 3, 1, 2)[order], np.array(labels, np.int64)[order]


def adult(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Adult records: ``(n, 14)`` strings as in the file, and ``(n,)`` int64, 1 for an income above 50K.

    The test file opens with a comment and ends each label with a full stop; both end with an empty line.

    Args:
        content: the bytes of the file.

    Raises:
        FormatError: for another layout.
    """
    lines = [line for line in _text(content).splitlines() if line.strip() and not line.startswith("|")]
    rows = _table([[field.strip() for field in line.split(",")] for line in lines], ADULT_FIELDS)
    return rows[:, :-1], _binary(np.char.rstrip(rows[:, -1], "."), "<=50K", ">50K")


def breast_cancer(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Breast Cancer (Ljubljana): ``(n, 9)`` strings as in the file; ``(n,)`` int64, 1 for a recurrence.

    Args:
        content: the bytes of the file.

    Raises:
        FormatError: for another layout.
    """
    rows = _table([line.split(",") for line in _text(content).split()], 10)
    return rows[:, 1:], _binary(rows[:, 0], "no-recurrence-events", "recurrence-events")


def medical_cost(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Medical Cost: ``(n, 6)`` strings as in the file, and the charges in dollars, ``(n,)`` float32.

    Args:
        content: the bytes of the file.

    Raises:
        FormatError: for another layout.
    """
    header, *rows = csv.reader(io.StringIO(_text(content)))
    if header != ["age", "sex", "bmi", "children", "smoker", "region", "charges"]:
        raise FormatError(f"its header is {','.join(header)[:80]}")
    rows = _table(rows, 7)
    return rows[:, :-1], _numbers(rows[:, -1])


def sms(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """SMS collection: the messages, ``(n,)`` Python strings, and ``(n,)`` int64, 1 for spam.

    Args:
        content: the bytes of the file.

    Raises:
        FormatError: for another layout.
    """
    rows = [line.split("\t", 1) for line in _text(content).rstrip("\n").split("\n")]
    if any(len(row) != 2 for row in rows):
        raise FormatError("it has a line without a label and a tab")
    messages = np.array([row[1] for row in rows], dtype=object)
    return messages, _binary(np.array([row[0] for row in rows]), "ham", "spam")


def binary_rows(content: bytes, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Purchase-100 and Location rows ``label,0,1,...``: ``(n, n_features)`` uint8, ``(n,)`` int64 from 0.

    Args:
        content: the bytes of the file.
        n_features: numbers of 0 and 1 in a row.

    Raises:
        FormatError: for another layout.
    """
    rows, labels = [], []
    for number, line in enumerate(content.split(), start=1):
        label, _, bits = line.partition(b",")
        if len(bits) != 2 * n_features - 1:
            raise FormatError(f"its line {number} does not have {n_features} binary features")
        rows.append(np.frombuffer(bits, np.uint8)[::2])
        labels.append(label.strip(b'"'))
    features = np.stack(rows) - ord("0")
    if features.max() > 1:
        raise FormatError("it has a feature that is neither 0 nor 1")
    return features, _numbers(labels).astype(np.int64) - 1


def ratings(content: bytes, separator: str, header: bool) -> tuple[np.ndarray, np.ndarray]:
    """MovieLens rows ``user, movie, rating, time``: published ids ``(n, 2)`` int64, ratings ``(n,)`` float32.

    Args:
        content: the bytes of the file.
        separator: between the fields.
        header: the first line has names.

    Raises:
        FormatError: for another layout.
    """
    lines = _text(content).splitlines()[int(header) :]
    rows = _table([line.split(separator) for line in lines], 4)
    return _numbers(rows[:, :2], np.int64), _numbers(rows[:, 2])


def rcv1_vectors(content: bytes) -> "tuple[csr_matrix, np.ndarray]":
    """LYRL2004 vectors ``document  term:weight ...``: ``(n, 47236)`` float32 CSR, document numbers ``(n,)``.

    Args:
        content: the bytes of the file.

    Raises:
        FormatError: for another layout.
    """
    from sklearn.datasets import load_svmlight_file

    try:
        vectors, documents = load_svmlight_file(
            io.BytesIO(content), n_features=RCV1_TERMS, dtype=np.float32, zero_based=False
        )
    except ValueError as error:
        raise FormatError(f"it does not hold document vectors ({error})") from None
    return vectors, documents.astype(np.int64)


def rcv1_topics(content: bytes, documents: np.ndarray) -> "tuple[csr_matrix, tuple[str, ...]]":
    """Topic assignments ``topic document 1``: an ``(n, topics)`` uint8 CSR matrix, and the topics in alphabetical
    order.

    Args:
        content: the bytes of the file.
        documents: numbers of the n documents, in the order of the rows.

    Raises:
        FormatError: for another layout.
    """
    from scipy.sparse import csr_matrix

    row_of = {document: row for row, document in enumerate(documents.tolist())}
    rows, names, all_names = [], [], set()
    for number, line in enumerate(content.splitlines(), start=1):
        fields = line.split()
        if len(fields) != 3 or not fields[1].isdigit():
            raise FormatError(f"its line {number} is not of the form: topic document 1")
        all_names.add(fields[0])
        row = row_of.get(int(fields[1]))
        if row is not None:
            rows.append(row)
            names.append(fields[0])
    if len(all_names) > RCV1_TOPICS:
        raise FormatError(f"it names {len(all_names)} topics where there are {RCV1_TOPICS}")
    topics = sorted(all_names)
    column_of = {name: column for column, name in enumerate(topics)}
    cells = (np.ones(len(rows), np.uint8), (rows, [column_of[name] for name in names]))
    return csr_matrix(cells, shape=(len(documents), len(topics))), tuple(name.decode() for name in topics)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"it is not text ({error.reason} at byte {error.start})") from None


def _table(rows: list[list[str]], width: int) -> np.ndarray:
    """Equal rows as an ``(n, width)`` array of strings."""
    wrong = next((row for row in rows if len(row) != width), None)
    if wrong is not None or not rows:
        raise FormatError(f"it has a row of {len(wrong or [])} fields where rows have {width}")
    return np.array(rows)


def _numbers(values, dtype=np.float32) -> np.ndarray:
    try:
        return np.asarray(values).astype(dtype)
    except ValueError as error:
        raise FormatError(f"it has a field that is no number ({error})") from None


def _binary(labels: np.ndarray, zeroth: str, first: str) -> np.ndarray:
    unknown = set(labels.tolist()) - {zeroth, first}
    if unknown:
        raise FormatError(f"it has the label {min(unknown)[:40]!r} where labels are {zeroth} and {first}")
    return (labels == first).astype(np.int64)
