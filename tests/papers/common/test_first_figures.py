"""The figures of chapter 0, at budgets of a reader."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from papers.common import first_figures


@pytest.mark.parametrize("claimed", [0.05, 1.0, 20.0])
def test_what_a_broken_program_spends_is_written_in_the_axes(claimed):
    """At epsilon 20 the number 0.4 stood on the name of its bar."""
    first_figures.spent({"no end": np.inf, "large": 21.0, "small": 0.36, "none": 0.0}, claimed)
    axes = plt.gca()
    left, right = axes.get_xlim()
    numbers = [text.get_position()[0] for text in axes.texts if not text.get_text().startswith("claimed")]
    assert len(numbers) == 4
    assert left < min(claimed, *numbers)
    assert max(claimed, *numbers) < right
    plt.close()
