"""The map of best widths and its law: on accuracies that are written down."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dplib.stats import Measured
from papers.sizes import map_figures, map_rows

NOISE = np.array([-0.2, -0.1, 0.0, 0.1, 0.2])


def test_a_width_is_worse_only_where_its_interval_says_so():
    comparison = map_rows.compared(
        {4: 80 + NOISE, 16: 89.7 + NOISE, 64: 90 + NOISE, 256: 88.0 + 20 * NOISE, 1024: 89.0 + NOISE}
    )
    assert comparison.best == 64
    assert comparison.good == (16, 64, 256)  # 256: too noisy to tell; 1024: one point, without doubt
    assert comparison.losses[1024].value == pytest.approx(1.0)


def test_a_diverged_training_counts_as_a_fixed_class():
    comparison = map_rows.compared({4: 80 + NOISE, 16: np.array([90, 90, 90, 90, np.nan])})
    assert comparison.means[16].value == 74
    assert comparison.best == 4


SIZES, EPSILONS, WIDTHS = (500, 5000, 50000), (0.1, 1.0, 10.0), (0, 16, 64, 256, 1024)
#                    1     u     v     uu   vv    uv     s     ss    us     vs
NETWORKS = np.array([0.2, -0.1, -0.1, -0.02, 0.01, -0.01, 0.1, 0.1, -0.1, -0.05])
LAW = map_rows.Law("log error", NETWORKS, NETWORKS[:6] - [0.1, 0, 0, 0, 0, 0])


def private():
    return {
        (n, e): map_rows.compared({w: LAW.accuracy(n, e, w) + NOISE for w in WIDTHS}) for n in SIZES for e in EPSILONS
    }


@pytest.mark.parametrize("link", map_rows.LINKS)
def test_the_fit_finds_the_law_that_made_the_accuracies(link):
    law = map_rows.Law(link, LAW.networks, LAW.linear)
    fitted = map_rows.fit([(n, e, w, law.accuracy(n, e, w)) for n in SIZES for e in EPSILONS for w in WIDTHS], link)
    np.testing.assert_allclose(fitted.networks, LAW.networks, atol=1e-8)
    np.testing.assert_allclose(fitted.linear, LAW.linear, atol=1e-8)
    assert len({fitted.best((n, e), WIDTHS) for n in SIZES for e in EPSILONS}) > 1


def test_held_out_cells_are_a_third_and_the_fit_does_not_see_them():
    cells = private()
    held = map_rows.held_out(SIZES, EPSILONS)
    assert len(held) == 3
    verdicts = map_rows.judged(cells | {(500, None): map_rows.compared({0: 99 + NOISE, 16: 99.5 + NOISE})})
    assert verdicts["held"] == held
    assert verdicts["error"]["log error"] < 0.1 < verdicts["error"]["without width"] < verdicts["error"]["constant"]
    assert verdicts["regret"]["log error"] < 0.05 < max(verdicts["regret"].values())
    worse = {at: map_rows.compared(dict.fromkeys(WIDTHS, 50 + NOISE)) if at in held else c for at, c in cells.items()}
    again = map_rows.judged(worse)
    np.testing.assert_array_equal(again["laws"]["log error"].networks, verdicts["laws"]["log error"].networks)
    assert again["error"]["log error"] > 1


def two_models(ahead):
    """A linear model at 80%, and a network that is ahead by so much at budgets 0.1, 1 and 10."""
    values = {(500, e, 0): {"test": np.full(5, 80.0)} for e in EPSILONS}
    return values | {(500, e, 64): {"test": 80 + a + NOISE} for e, a in zip(EPSILONS, ahead, strict=True)}


def test_the_crossover_is_where_the_network_comes_ahead():
    crossing = map_rows.crossover(two_models([-2, -1, 1]), 500, 64)
    assert crossing.value == pytest.approx(10**0.5)
    assert crossing.low < crossing.value < crossing.high
    assert crossing.high / crossing.low < 2


@pytest.mark.parametrize("ahead", [(-2, -1, -1), (1, 2, 3)])
def test_there_is_no_crossover_where_one_is_always_ahead(ahead):
    assert map_rows.crossover(two_models(ahead), 500, 64) is None


# ---- figures

CELLS = {
    (n, e): map_rows.compared({w: a + NOISE / 2 for w, a in zip((0, 16, 1024), accuracies, strict=True)})
    for (n, e), accuracies in {
        (500, 0.1): (70, 60, 60),
        (500, None): (80, 85, 88),
        (5000, 0.1): (80, 82, 84),
        (5000, None): (90, 93, 95),
    }.items()
}


@pytest.mark.parametrize(
    ("good", "text"),
    [((0,), "linear"), ((64, 256, 1024), "64–1,024"), ((0, 64), "linear, 64"), ((4, 64, 256), "4, 64–256"),
     ((0, 4, 16), "linear, 4–16")],
)  # fmt: skip
def test_a_set_in_short(good, text):
    assert map_figures.sizes(good, (0, 4, 16, 64, 256, 1024)) == text


def test_a_cell_names_what_is_not_worse_in_few_letters():
    """Six columns stand beside each other on a phone: "64+" is all sizes from 64 to the largest tried."""
    cell = map_rows.compared({w: np.array([80.0, 80.1, 79.9]) for w in (0, 64, 256)})
    assert map_figures.named(cell) == "linear\n64+"
    assert map_figures.named(map_rows.Compared(cell.means, 0, cell.losses, (0, 64))) == "linear\n64"
    assert map_figures.named(map_rows.Compared(cell.means, 256, cell.losses, (256,))) == "256"


def test_a_size_that_was_not_run_is_no_number():
    """The table said "+nan" where 4,096 units had not been run."""
    values = {(500, 1.0, 16): {"by_steps": {50: 80.0, 200: 81.0}}, (500, None, 64): {"by_steps": {50: 80.0, 200: 79.0}}}
    table = map_figures.steps_gained(values, (500,), (16, 64))
    assert table.loc["500 records, ε = 1", "16"] == 1.0
    shown = table.style.format("{:+.1f}", na_rep="–").to_html()
    assert "nan" not in shown
    assert shown.count("–") == 2


def test_the_map_says_the_best_and_marks_the_crossover():
    map_figures.draw(CELLS, {500: Measured(0.1, 0.1, 0.1), 5000: None}, 1024, your=(500, 0.1))
    axes = plt.gca()
    assert [text.get_text() for text in axes.texts] == [
        "linear\n70.0%", "1,024\n88.0%", "1,024\n84.0%", "1,024\n95.0%",
    ]  # fmt: skip
    crossing, your_epsilon, your_n = axes.lines
    assert list(crossing.get_xdata()) == [0]
    assert your_epsilon.get_xdata()[0] == your_n.get_ydata()[0] == 0
    assert your_epsilon.get_ydata()[0] == your_n.get_xdata()[0] == -0.5, "on the axes, where no words stand"
    assert -0.5 < crossing.get_ydata()[0] < -0.25, "below the words of its row"
    plt.close()


def test_the_map_names_the_network_of_its_line_and_marks_no_n_that_it_does_not_have():
    """With width 16 the line was that of 16 units, and with n = 777 the mark stood at the row of 5,000 records."""
    for n, marked in ((499, False), (500, True), (5000, True), (5001, False)):
        map_figures.draw(CELLS, {500: Measured(0.1, 0.1, 0.1), 5000: None}, 16, your=(n, 0.1))
        axes = plt.gca()
        assert [line.get_marker() for line in axes.lines] == ["o", "^", *[">"] * marked]
        assert "right of it 16 units win" in [text.get_text() for text in axes.get_legend().get_texts()]
        plt.close()


@pytest.mark.filterwarnings("error")
def test_a_crossover_beyond_the_columns_lies_at_their_end():
    """An interval that reaches down to a budget of 0 warned of a logarithm."""
    assert [map_figures.place(epsilon, [0.1, 1.0, 10.0]) for epsilon in (0.0, 0.1, 1.0, np.inf)] == [0, 0, 1, 2]


def test_the_cost_of_width_is_a_mean_over_the_cells_with_little_data_for_their_noise():
    def one(tests):
        return {"test": np.array(tests, dtype=float)}

    values = {(500, 1.0, 64): one([60, 62]), (500, 1.0, 1024): one([58, 59]), (500, 0.1, 64): one([20, 21]),
             (500, 0.1, 1024): one([19, 19]), (500, None, 64): one([90, 90]), (5000, 1.0, 64): one([80, 80]),
             (5000, 1.0, 1024): one([90, 90])}  # fmt: skip
    cost = map_rows.cost_of_width(values, 500)
    assert cost.value == pytest.approx(2.0)
    assert cost.n == 2


def test_the_rule_of_one_line_is_judged_beside_the_laws():
    cells = private()
    verdicts = map_rows.judged(cells)
    lost = [cells[n, e].losses[0 if n * e < map_rows.BORDER else 1024].value for n, e in verdicts["held"]]
    assert verdicts["regret"]["border"] == pytest.approx(np.mean(lost))
