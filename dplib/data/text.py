"""Messages as numbers: word sequences for recurrent networks.

As in :mod:`dplib.data.preprocess`, vocabularies are fitted on the training part only, and that fitting is not
differentially private.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from dplib.checks import integer
from dplib.data import Dataset
from dplib.data.preprocess import mapped

SMS_WORDS, SMS_LENGTH = 1_000, 150  # a table of 1,000 x 50 has the 50,000 parameters of Tables XXVII and XXVIII
PUNCTUATION = re.compile(r"[!\"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~\t\n]")


def words(message: str) -> list[str]:
    """Lower-case words of a message; punctuation other than the apostrophe separates."""
    return PUNCTUATION.sub(" ", message.lower()).split()


def vocabulary(messages: Sequence[str], n_words: int) -> dict[str, int]:
    """The ``n_words - 1`` most frequent words, numbered from 1 by frequency (ties by spelling); 0 is padding."""
    counts = Counter(word for message in messages for word in words(message))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: number for number, word in enumerate(ranked[: n_words - 1], start=1)}


def sequences(messages: Sequence[str], numbers: dict[str, int], length: int) -> np.ndarray:
    """Messages as ``(n, length)`` int64 word numbers: unknown words are left out, the last ``length`` words are kept,
    and shorter messages are padded with 0 on the left."""
    rows = np.zeros((len(messages), length), np.int64)
    for row, message in zip(rows, messages, strict=True):
        known = [numbers[word] for word in words(message) if word in numbers][-length:]
        if known:
            row[-len(known) :] = known
    return rows


def tokens(dataset: Dataset, n_words: int = SMS_WORDS, length: int = SMS_LENGTH) -> Dataset:
    """Messages as word sequences for paper B's recurrent networks (Appendix C-A), ``(n, length)`` int64 in
    [0, n_words).

    The paper gives neither; its Tables XXVII and XXVIII do: the embedding's 50,000 parameters and the LSTM's 314,368
    (256 units, hence 50 inputs) need 1,000 words in 50 dimensions, and the embedding's "150" is the sequence length.
    """
    integer(2).check("n_words", n_words)
    integer(1).check("length", length)
    numbers = vocabulary(dataset.x_train, n_words)
    note = f"the {len(numbers)} most frequent words of the training part (not private), last {length} of a message"
    return mapped(dataset, lambda messages: sequences(messages, numbers, length), note)
