"""What the papers do to the data before they train: splits, one-hot codes, scaling, projections, words.

Every function takes a :class:`dplib.data.Dataset` and returns another one whose ``notes`` say what was done. Whatever
is fitted (a range, a mean, a projection, a vocabulary) is fitted on the training part only, so nothing leaks from the
validation and test parts. That fitting reads private records without noise: *it is not differentially private*, and
no privacy figure of the book covers it. One-hot levels, splits and norm clipping are fitted on nothing.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from dplib.checks import ParameterError, integer
from dplib.data import Dataset
from dplib.data.levels import ADULT_LEVELS, ADULT_NUMERIC, BREAST_CANCER_LEVELS

# Paper B, Section IV-A: training, validation and test records. Its own sums are short of the published tables: it
# leaves out 61 records of adult.data and all of adult.test, 29,574 of Purchase-100, 38 messages, 38 patients. SVHN's
# 42,000 training images are those of a grey-scale copy; we draw as many from the published training part.
PAPER_B = {
    "cifar10": (50_000, 5_000, 5_000),
    "cifar10-jpeg": (50_000, 5_000, 5_000),
    "mnist": (60_000, 5_000, 5_000),
    "fashion-mnist": (60_000, 5_000, 5_000),
    "svhn": (42_000, 5_000, 5_000),
    "adult": (22_750, 0, 9_750),
    "purchase-100": (157_750, 5_000, 5_000),
    "breast-cancer": (191, 0, 95),
    "sms-spam": (4_700, 0, 836),
    "medical-cost": (1_000, 0, 300),
}
TEST_HALVED = ("cifar10", "cifar10-jpeg", "mnist", "fashion-mnist", "svhn")  # validation from the published test part
GREY = np.array([0.299, 0.587, 0.114], np.float32)  # luma of red, green, blue (ITU-R BT.601)
SMS_WORDS, SMS_LENGTH = 1_000, 150  # a table of 1,000 x 50 has the 50,000 parameters of Tables XXVII and XXVIII
PUNCTUATION = re.compile(r"[!\"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~\t\n]")


def paper_b_split(dataset: Dataset, rng: np.random.Generator | int) -> Dataset:
    """Training, validation and test parts of the sizes that paper B gives (Section IV-A), drawn at random.

    Images: the whole published training part (42,000 records of SVHN's), and validation and test drawn from the
    published test part. Adult: from ``adult.data`` only. The other tables: from all records.

    Args:
        dataset: one of those that paper B uses.
        rng: a generator, or its seed.

    Raises:
        ParameterError: for a set that paper B does not split, or one that is too small.
    """
    if dataset.name not in PAPER_B:
        raise ParameterError(f"dataset = {dataset.name!r} has no split in paper B: it splits {', '.join(PAPER_B)}.")
    n_train, n_valid, n_test = PAPER_B[dataset.name]
    rng = np.random.default_rng(rng)
    if dataset.name in TEST_HALVED:
        train = disjoint(len(dataset.y_train), (n_train,), rng)[0]
        valid, test = disjoint(len(dataset.y_test), (n_valid, n_test), rng, "test")
        pool, x, y = (dataset.x_test, dataset.y_test), dataset.x_train, dataset.y_train
    else:
        parts = [(dataset.x_train, dataset.y_train), (dataset.x_test, dataset.y_test)]
        x, y = parts[0] if dataset.name == "adult" else (np.concatenate(both) for both in zip(*parts, strict=True))
        train, valid, test = disjoint(len(y), (n_train, n_valid, n_test), rng, "all")
        pool = (x, y)
    return replace(
        dataset,
        x_train=x if n_train == len(x) else x[train],  # no copy of all training images
        y_train=y if n_train == len(y) else y[train],
        x_valid=pool[0][valid] if n_valid else None,
        y_valid=pool[1][valid] if n_valid else None,
        x_test=pool[0][test],
        y_test=pool[1][test],
        notes=(*dataset.notes, f"split as in paper B: {n_train}/{n_valid}/{n_test} records"),
    )


def hold_out(dataset: Dataset, n_valid: int, rng: np.random.Generator | int) -> Dataset:
    """Move random training records to the validation part: choices are made there, never on the test part.

    Args:
        dataset: the data set; it stays as it is.
        n_valid: how many, at least 1 and fewer than there are.
        rng: a generator, or its seed.

    Raises:
        ParameterError: for a value outside its range.
    """
    n = dataset.x_train.shape[0]
    integer(1, n - 1).check("n_valid", n_valid)
    valid, train = disjoint(n, (n_valid, n - n_valid), np.random.default_rng(rng))
    return replace(
        dataset,
        x_train=dataset.x_train[train],
        y_train=dataset.y_train[train],
        x_valid=dataset.x_train[valid],
        y_valid=dataset.y_train[valid],
        notes=(*dataset.notes, f"{n_valid} training records held out for validation"),
    )


def subsample(dataset: Dataset, n_train: int, rng: np.random.Generator | int) -> Dataset:
    """Keep random training records (for smaller runs).

    Args:
        dataset: the data set; it stays as it is.
        n_train: how many, from 1 to all.
        rng: a generator, or its seed.

    Raises:
        ParameterError: for a value outside its range.
    """
    integer(1, dataset.x_train.shape[0]).check("n_train", n_train)
    keep = disjoint(dataset.x_train.shape[0], (n_train,), np.random.default_rng(rng))[0]
    note = f"{n_train} training records drawn"
    return replace(dataset, x_train=dataset.x_train[keep], y_train=dataset.y_train[keep], notes=(*dataset.notes, note))


def adult_one_hot(dataset: Dataset) -> Dataset:
    """Adult as ``(n, 108)`` float32: paper B's 108 features (Section IV-A).

    They are the 6 numeric attributes as they stand (``fnlwgt`` among them) and a 0/1 column for each of the 102
    published levels of the 8 categorical ones, where ``?`` counts as a level of its own in workclass, occupation and
    native-country: 9 + 16 + 7 + 15 + 6 + 5 + 2 + 42. No record is dropped. (Without the ``?`` columns there are 105.)
    The levels are written down in :mod:`dplib.data.levels`, not learnt from the records.

    Args:
        dataset: Adult, as loaded.

    Raises:
        ParameterError: for a level that the publisher does not list.
    """
    return _one_hot(dataset, ADULT_LEVELS, 108)


def adult_numeric(dataset: Dataset) -> Dataset:
    """Adult without its categorical attributes (paper B, Table XVI): ``(n, 7)`` float32.

    Paper B counts 7 features and says that it drops ``fnlwgt`` and keeps sex as one 0/1 column (here 1 for male). Both
    cannot be: the other numeric attributes are 5, so that 7 columns need ``fnlwgt``. We keep it, for the count.

    Args:
        dataset: Adult, as loaded.

    Raises:
        ParameterError: for an attribute that is no number.
    """
    names = (*ADULT_NUMERIC, "sex")
    columns = [dataset.feature_names.index(name) for name in names]

    def encode(x: np.ndarray) -> np.ndarray:
        return np.column_stack([_numbers(x[:, columns[:-1]]), x[:, columns[-1]] == "Male"]).astype(np.float32)

    return mapped(dataset, encode, "numeric attributes and sex, 7 features", feature_names=names)


def breast_cancer_one_hot(dataset: Dataset) -> Dataset:
    """Breast Cancer (Ljubljana) as ``(n, 43)`` float32 of 0 and 1: paper B's 43 features (Section IV-A).

    They are the levels that occur in the 286 records, of all 9 attributes (the degree of malignancy among them), where
    ``?`` counts as a level of its own in node-caps and breast-quad: 6 + 3 + 11 + 7 + 3 + 3 + 2 + 6 + 2. No record is
    dropped. (The publisher's description lists 51 levels; without the ``?`` columns 41 occur.) Which levels occur is
    known from the records; the list is written down in :mod:`dplib.data.levels`, and no privacy figure covers the
    choice.

    Args:
        dataset: Breast Cancer, as loaded.

    Raises:
        ParameterError: for a level that the publisher does not list.
    """
    return _one_hot(dataset, BREAST_CANCER_LEVELS, 43)


def medical_cost_numeric(dataset: Dataset) -> Dataset:
    """Medical Cost as ``(n, 6)`` float32: age, sex (1 male), BMI, children, smoker (1 yes), region (0 to 3 by name).

    Paper B does not say how it codes the three categorical attributes. Its parameter counts do: 40,741 for 12 layers of
    60 units and 73,561 for 6 of 120 (Appendix C-B) are those of 6 input features. Scale with :func:`min_max` and
    :func:`min_max_target` ("rescaled (i.e., normalized)" there).

    Args:
        dataset: Medical Cost, as loaded.

    Raises:
        ParameterError: for an attribute that is no number.
    """
    codes = {"female": 0, "male": 1, "no": 0, "yes": 1, "northeast": 0, "northwest": 1, "southeast": 2, "southwest": 3}

    def encode(x: np.ndarray) -> np.ndarray:
        return _numbers([[codes.get(value, value) for value in row] for row in x.tolist()])

    return mapped(dataset, encode, "categories as whole numbers, 6 features")


def grey(dataset: Dataset) -> Dataset:
    """Colour images ``(n, 3, h, w)`` as grey ones ``(n, 1, h, w)``: paper B uses SVHN so. Weights: BT.601 luma.

    Args:
        dataset: the data set; it stays as it is.
    """
    return mapped(dataset, lambda x: np.tensordot(GREY, x, (0, 1))[:, None], "grey-scale")


def flatten(dataset: Dataset) -> Dataset:
    """Each record as one row: ``(n, features)``.

    Args:
        dataset: the data set; it stays as it is.
    """
    return mapped(dataset, lambda x: x.reshape(len(x), -1))


def min_max(dataset: Dataset) -> Dataset:
    """Each feature scaled to [0, 1] by the range it has in the training part; other parts are clipped to it.

    Args:
        dataset: the data set; it stays as it is.
    """
    low, high = dataset.x_train.min(axis=0), dataset.x_train.max(axis=0)
    width = np.where(high > low, high - low, 1)  # a constant feature becomes 0
    note = "features scaled by the range of the training part (not private)"
    return mapped(dataset, lambda x: ((x - low) / width).clip(0, 1).astype(np.float32), note)


def min_max_target(dataset: Dataset) -> Dataset:
    """A regression's target scaled so that the training part spans [0, 1]; other parts are not clipped.

    Args:
        dataset: the data set; it stays as it is.
    """
    low, high = dataset.y_train.min(), dataset.y_train.max()
    scaled = {
        name: ((y - low) / (high - low)).astype(np.float32)
        for name in ("y_train", "y_valid", "y_test")
        if (y := getattr(dataset, name)) is not None
    }
    note = f"target scaled by the range of the training part, {low:.2f} to {high:.2f} (not private)"
    return replace(dataset, **scaled, notes=(*dataset.notes, note))


def pca(dataset: Dataset, n_components: int = 300) -> Dataset:
    """The first principal components of the training part, ``(n, n_components)`` float32. Paper B keeps 300 of SVHN's
    1,024 grey pixels (Section VII-B, Table V).

    Args:
        dataset: the data set; it stays as it is.
        n_components: how many, at most as many as the training part has records or features.

    Raises:
        ParameterError: for a value outside its range.
    """
    from sklearn.decomposition import PCA

    flat = flatten(dataset)
    integer(1, min(flat.x_train.shape)).check("n_components", n_components)
    fitted = PCA(n_components, svd_solver="covariance_eigh").fit(flat.x_train)
    note = f"PCA to {n_components} components fitted on the training part (not private)"
    names = tuple(f"component {i}" for i in range(1, n_components + 1))
    return mapped(flat, lambda x: fitted.transform(x).astype(np.float32), note, feature_names=names)


def _one_hot(dataset: Dataset, levels: dict[str, tuple[str, ...] | None], expected: int) -> Dataset:
    """One column for each level of each attribute, in the published order; numeric attributes (None) as they are."""
    if dataset.feature_names != tuple(levels):
        raise ParameterError(f"dataset = {dataset.name!r} must have the columns {', '.join(levels)}.")
    names = [f"{name}={level}" if level else name for name, known in levels.items() for level in known or ("",)]
    assert len(names) == expected, f"{len(names)} columns where paper B has {expected}"

    def encode(x: np.ndarray) -> np.ndarray:
        columns = []
        for column, (name, known) in zip(x.T, levels.items(), strict=True):
            if known is None:
                columns.append(_numbers(column)[:, None])
                continue
            unknown = sorted(set(column.tolist()) - set(known))
            if unknown:
                raise ParameterError(f"{name} = {unknown[0]!r} is not a level of {dataset.name}: {', '.join(known)}.")
            columns.append(column[:, None] == np.array(known))
        return np.concatenate(columns, axis=1).astype(np.float32)

    return mapped(dataset, encode, f"one-hot, {expected} features", feature_names=tuple(names))


def _numbers(values: Any) -> np.ndarray:
    try:
        return np.asarray(values).astype(np.float32)
    except ValueError as error:
        raise ParameterError(f"A numeric column holds something else ({error}).") from None


def disjoint(n: int, sizes: Sequence[int], rng: np.random.Generator, part: str = "training") -> list[np.ndarray]:
    """Disjoint random index sets of n records, each in increasing order.

    Args:
        n: how many records there are.
        sizes: of each set.
        rng: draws them.
        part: what an error calls the records.

    Raises:
        ParameterError: where there are not so many records.
    """
    if sum(sizes) > n:
        raise ParameterError(f"A split into {'/'.join(map(str, sizes))} needs more than the {n} {part} records.")
    order = rng.permutation(n)
    ends = np.cumsum((0, *sizes))
    return [np.sort(order[start:end]) for start, end in pairwise(ends)]


def mapped(dataset: Dataset, change: Callable[[np.ndarray], np.ndarray], *notes: str, **fields: Any) -> Dataset:
    """The data set with a change applied to the features of each part that it has.

    Args:
        dataset: the data set; it stays as it is.
        change: features (n, ...) to features (n, ...).
        notes: what was done, added to the notes.
        fields: of the data set that change as well, such as ``feature_names``.
    """
    parts = {name: change(x) for name in ("x_train", "x_valid", "x_test") if (x := getattr(dataset, name)) is not None}
    return replace(dataset, **parts, **fields, notes=(*dataset.notes, *notes))


def words(message: str) -> list[str]:
    """Lower-case words of a message; punctuation other than the apostrophe separates.

    Args:
        message: a text.
    """
    return PUNCTUATION.sub(" ", message.lower()).split()


def vocabulary(messages: Sequence[str], n_words: int) -> dict[str, int]:
    """The most frequent words, numbered from 1 by frequency (ties by spelling); 0 is padding.

    Args:
        messages: texts.
        n_words: one more than the words that are kept.
    """
    counts = Counter(word for message in messages for word in words(message))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: number for number, word in enumerate(ranked[: n_words - 1], start=1)}


def sequences(messages: Sequence[str], numbers: dict[str, int], length: int) -> np.ndarray:
    """Messages as ``(n, length)`` int64 word numbers: unknown words are left out, the last words are kept, and shorter
    messages are padded with 0 on the left.

    Args:
        messages: n texts.
        numbers: of each word that is known.
        length: words kept of a message.
    """
    rows = np.zeros((len(messages), length), np.int64)
    for row, message in zip(rows, messages, strict=True):
        known = [numbers[word] for word in words(message) if word in numbers][-length:]
        if known:
            row[-len(known) :] = known
    return rows


def tokens(dataset: Dataset, n_words: int = SMS_WORDS, length: int = SMS_LENGTH) -> Dataset:
    """Messages as word sequences for paper B's recurrent networks (Appendix C-A), ``(n, length)`` int64 in [0,
    n_words).

    The paper gives neither; its Tables XXVII and XXVIII do: the embedding's 50,000 parameters and the LSTM's 314,368
    (256 units, hence 50 inputs) need 1,000 words in 50 dimensions, and the embedding's "150" is the sequence length.

    Args:
        dataset: with messages for features.
        n_words: word numbers are below it, at least 2.
        length: words kept of a message, at least 1.

    Raises:
        ParameterError: for a value outside its range.
    """
    integer(2).check("n_words", n_words)
    integer(1).check("length", length)
    numbers = vocabulary(dataset.x_train, n_words)
    note = f"the {len(numbers)} most frequent words of the training part (not private), last {length} of a message"
    return mapped(dataset, lambda messages: sequences(messages, numbers, length), note)
