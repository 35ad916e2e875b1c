"""What chapter 11 shows: tables whose cells fit a page, lines that carry their names."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from papers.screening import annealed_figures as figures
from papers.screening import annealed_rows


def curve(slope):
    """Accuracy that rises with the steps, on records that J saw and on those that it did not."""
    steps = list(range(100, 6000, 100))
    accuracy = [0.5 + slope * n for n in steps]
    return {"accepted": steps, "queries": steps, "accuracy": accuracy, "unseen": accuracy, "seen": accuracy}


def run(slope=5e-5):
    setting = {"noise_multiplier": 1.23, "sample_rate": 512 / 60_000, "accepted": 4698, "queries": 4698}
    return {**setting, "accuracy": 0.9, "curve": curve(slope)}


@pytest.fixture
def trained():
    return {"mnist": {"ours": [run(5e-5), run(6e-5)], "dpsgd_tanh": [run(6e-5), run(8e-5)]}}


def test_a_difference_has_a_true_minus_and_one_line(trained):
    cells = figures.three_leads(trained).iloc[0].tolist()
    assert cells[:2] == ["MNIST", "DPSGD (tanh)"]
    assert all("−" in cell and "±" in cell and "[" not in cell for cell in cells[2:]), cells


def test_a_table_has_at_most_six_columns(trained):
    for table in (figures.accuracy_and_cost(trained), figures.three_leads(trained), figures.ahead(trained)):
        assert table.shape[1] <= 6
        assert not table.astype(str).apply(lambda column: column.str.contains("nan")).any(axis=None)


def test_lines_of_the_lead_carry_their_names(trained):
    printed = {"mnist": {"ours": 98.35, "dpsgd_tanh": 98.05}}
    figures.leads(trained, printed, ["kept", "lemma2"])
    drawn = {text.get_text() for text in plt.gcf().axes[-1].get_legend().get_texts()}
    assert drawn >= {"kept steps", "every gradient", "unseen records"}
    dashed = [line for line in plt.gcf().axes[0].get_lines() if line.get_linestyle() == "--" and len(line.get_xdata())]
    assert len(dashed) == 2  # one for each account
    plt.close("all")


def test_figure_4_has_a_panel_with_momentum_and_one_without():
    rows = [
        (part, given, account, how, 97.0 + given / 2000, 96.5, 97.5)
        for part, grid in (("rates", (0.1, 0.5)), ("batches", (256, 512)))
        for account in ("kept", "lemma2")
        for how in ("momentum", "still")
        for given in grid
    ]
    levels = pd.DataFrame(rows, columns=["part", "given", "account", "momentum", "accuracy", "low", "high"])
    figures.figure_4(levels, "batches", (256, 98.89))
    moving, still = plt.gcf().axes
    assert [text.get_text() for text in still.get_xticklabels()] == ["256", "512"]
    assert (moving.get_title(), still.get_title()) == ("Momentum 0.9", "No momentum")
    assert moving.get_legend() is None
    assert len(still.get_legend().get_texts()) == 3  # two accounts and the ring
    figures.figure_4(levels, "rates", (1.5, 98.81), floor=96.5)
    still = plt.gcf().axes[-1]
    assert still.get_xlabel() == "learning rate"
    assert len(still.get_legend().get_texts()) == 4  # and the floor
    plt.close("all")
    figures.figure_4(levels[levels["part"] == "rates"], "batches", (256, 98.89))
    assert not plt.get_fignums()  # nothing to draw


def test_the_bands_of_two_seeds_end_where_an_accuracy_does():
    """At epsilon 0.37 with two seeds they made an axis from -100% to 250%."""
    figures.yours({"ours": [run(1e-6), run(8e-5)], "dpsgd_tanh": [run(1e-6), run(8e-5)]}, "digits", 0.37)
    (axes,) = plt.gcf().axes
    ends = [patch.get_datalim(axes.transData).intervaly for patch in axes.collections]
    assert [tuple(end) for end in ends] == [(0, 100), (0, 100)]
    plt.close("all")


def test_a_warm_walk_leaves_the_poor_minimum_and_a_cold_one_stays():
    assert annealed_rows.leaves_a_valley(1e-6, seeds=1).tolist() == [False]
    assert annealed_rows.leaves_a_valley(2.0, seeds=1).tolist() == [True]


def test_table_2_has_a_value_for_each_data_set():
    table = annealed_rows.table_2()
    assert len(table) == 7
    assert {tuple(row) for row in table.values()} == {("mnist", "fashion_mnist", "cifar10")}
