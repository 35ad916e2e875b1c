"""The study of what drives the cost: grids, exactness of frozen layers, data of the census, and values of its rows."""

import numpy as np
import pytest
import torch

from book.evidence.plans import Tuned
from dplib.checks import ParameterError
from dplib.data import tasks
from papers.architecture import cost_network_rows, cost_rows, cost_runs, feature_data
from papers.architecture.cost_runs import CLIPPED, SGD
from papers.common import networks
from tests.toys import Asked, in_memory


def test_every_cell_gets_a_rate_of_its_own_and_paired_seeds():
    budgets = (SGD, CLIPPED, 1.0)
    cells = {b: cost_runs.cell("digits", [8], b, features="flat", batch=256, steps=3) for b in budgets}
    rates = {"sgd": [0.1, 0.5], "dp": [0.2, 1.0]}
    values_ = cost_runs.measured(in_memory, cells, rates, seeds=2, tuning_seeds=1, extensions=0)
    assert list(values_) == list(budgets)
    assert values_[SGD].rate in rates["sgd"]
    assert {values_[CLIPPED].rate, values_[1.0].rate} <= set(rates["dp"])
    assert [value.runs[0]["noise_multiplier"] > 0 for value in values_.values()] == [False, False, True]
    assert values_[1.0].values().shape == (2,)


def test_a_diverged_run_counts_as_a_constant_prediction():
    run = {"test": None, "constant": 0.76, "parameters": 1}
    outcome_ = cost_runs.Outcome({"dataset": "digits"}, 1.0, None, [run, run | {"test": 0.8}])
    assert outcome_.values().tolist() == [76.0, 80.0]


def test_frozen_layers_keep_their_weights_and_the_rest_is_trained():
    get = Asked(lambda job: {"validation": 0.5, "test": 0.5, "constant": 0.1, "parameters": 9})
    settings = {"batch": 256, "steps": 5, "small": 0.3, "untuned": [0.03]}
    by_cell = cost_runs.random_weights(
        get, dataset="digits", model=[16, 8, 8], epsilons=[0.3, 2.0], others={"linear": []}, seeds=2, **settings
    )
    assert len(by_cell) == 2 * 3 + 2 + 2
    assert {tuple(job.get("frozen", ())) for job in get.jobs} == {(), (0, 1)}
    assert by_cell["complex", "last two", ("rate", 0.03)].rate == 0.03


@pytest.mark.parametrize("depth", [2, 4, 12])
def test_partners_have_nearly_the_same_number_of_parameters(depth):
    deep = cost_runs.perceptron_parameters(64, [128] * depth, 10)
    width = cost_runs.partner_width(64, [128] * depth, 10)
    assert abs(cost_runs.perceptron_parameters(64, [width], 10) - deep) <= (64 + 10 + 1) / 2


def test_printed_regression_counts():
    assert cost_runs.perceptron_parameters(6, [60] * 12, 1) == 40_741
    assert cost_runs.perceptron_parameters(6, [120] * 6, 1) == 73_561


class Errors:
    """An outcome of which only the values are asked."""

    def __init__(self, *errors: float) -> None:
        self.errors = np.array(errors)

    def values(self) -> np.ndarray:
        return self.errors


def test_what_units_and_layers_gain_with_sgd():
    """Errors of two splits, (layers, units): units gain 0.2 and 0.4, layers lose a tenth of that."""
    errors = {(2, 10): (0.5, 0.6), (2, 40): (0.3, 0.2), (4, 10): (0.52, 0.64), (4, 40): (0.32, 0.24)}
    gains = cost_network_rows.sgd_gains({(*key, SGD): Errors(*e) for key, e in errors.items()}, [2, 4], [10, 40])
    assert {name: round(gain.value, 9) for name, gain in gains.items()} == {
        "sgd_gain_by_units": 0.3,
        "sgd_gain_by_layers": -0.03,
        "sgd_units_less_layers": 0.33,
        "sgd_units_less_layers_per_doubling": 0.18,
    }


def test_pairs_must_be_rungs():
    inputs = {"dataset": "digits", "features": "flat", "inputs": 64, "widths": [4], "depths": [1, 2], "units": 8}
    with pytest.raises(ParameterError, match="pairs"):
        cost_runs.ladders(in_memory, **inputs, pairs=[3], epsilon=1.0, seeds=2)


@pytest.mark.parametrize("encoding", ["without", "one-hot"])
def test_public_scaling_keeps_every_row_within_its_bound(encoding):
    columns = feature_data.census("synthetic-census", encoding, 0)
    train, test, bound = feature_data.scaled(columns, "public")
    assert bound == pytest.approx(np.sqrt(7 if encoding == "without" else 14))
    assert max(np.linalg.norm(x, axis=1).max() for x in (train, test)) <= bound
    assert train.shape[1] == (7 if encoding == "without" else 108)
    # It looks at no record: any one of them alone gives the same row.
    scaled_ = feature_data.scaled(type(columns)(**{**vars(columns), "x_train": columns.x_train[:1]}), "public")[0]
    assert np.array_equal(scaled_[0], train[0])


def test_releases_spend_no_more_than_asked_and_noise_makes_them_differ():
    asked = {"dataset": "synthetic-census", "encoding": "without", "draws": 5, "seed": 0}
    run = cost_runs.release(**asked, epsilon=0.1)
    assert run["spent"] <= 0.1 * (1 + 1e-9)
    assert len(set(run["accuracies"])) > 1
    free = cost_runs.release(**asked, epsilon=None)
    assert len(free["accuracies"]) == 1
    assert free["accuracies"][0] > free["constant"]


def test_who_is_ahead_and_where_the_encodings_cross_come_out_as_they_were_drawn():
    rng = np.random.default_rng(0)
    level = {("without", 0.1): 0.7, ("one-hot", 0.1): 0.6, ("without", 10.0): 0.8, ("one-hot", 10.0): 0.9}
    values_ = {
        key: [{"accuracies": list(mean + 0.001 * rng.standard_normal(4)), "constant": 0.75, "features": 7}] * 1
        + [{"accuracies": list(mean + 0.001 * rng.standard_normal(4)), "constant": 0.75, "features": 7} for _ in "abcd"]
        for key, mean in level.items()
    }
    values = cost_rows.one_hot(values_)
    assert values["without_minus_one_hot_at_0.1"].low > 9
    assert values["without_minus_one_hot_at_10"].high < -9
    assert 0.5 < values["crossover"].value < 2
    assert values["smallest_epsilon_without_codes_above_constant"] == 10.0


def test_equal_sizes_counts_unequal_and_equal_costs():
    around = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    sizes = cost_network_rows.equal_sizes({"apart": 3 + around / 2, "same": around / 4, "open": 5 * around})
    assert (sizes["unequal_cost"], sizes["equal_cost"], sizes["pairs_where_sgd_is_trained"]) == (1, 1, 3)
    assert cost_network_rows.equal_sizes({}) == {"pairs_where_sgd_is_trained": 0, "unequal_cost": 0, "equal_cost": 0}


def outcome(mean, trained=100, **more):
    tuned = Tuned(1.0, {1.0: mean}, False)
    runs_ = [{"test": mean / 100 + s, "parameters": trained, "trained": trained, **more} for s in (0, 0.01, 0.02)]
    return cost_runs.Outcome({"dataset": "digits"}, 1.0, tuned, runs_)


def test_differences_are_paired_and_simple_less_complex():
    """Equal seeds move together, so the interval of a difference is a point."""
    simple, wide = outcome(90), outcome(88)
    values_ = {("simple", 7.21): simple, ("complex", 7.21): wide, ("simple", SGD): wide, ("complex", SGD): wide}
    for value_ in values_.values():
        for run in value_.runs:
            run |= {"balanced": 0.5, "constant": 0.87}
    rows = cost_network_rows.messages(values_)
    assert rows["B.rnn"]["simple_minus_complex_same_steps"].value == pytest.approx(2.0)
    assert rows["B.rnn"]["simple_minus_complex_same_steps"].low == pytest.approx(2.0)
    assert rows["B.table13.complex"]["balanced_above_half"].value == 0.0  # a constant agrees with nothing


def test_two_trained_layers_are_compared_at_the_small_and_the_large_budget():
    full, two = outcome(90, 400), outcome(89, 100)
    values = {("complex", name, e): one for e in (0.341, 2.0) for name, one in (("all", full), ("last two", two))}
    small, large = cost_network_rows.extremes(values)
    assert (small.value, large.value) == pytest.approx((-1.0, -1.0))
    signals = {(name, after): np.full(3, 0.5) for name in ("all", "last two") for after in (0, 40)}
    ratio = cost_network_rows.feature_extractor(values, signals, values)["B.rwt-feature-extractor"][
        "snr_ratio_at_start"
    ]
    assert ratio.value == pytest.approx(2.0)  # the square root of 400 / 100


def test_the_signal_of_a_step_is_that_of_all_records_clipped_one_by_one():
    asked = {"dataset": "digits", "model": [8], "epsilon": 2.0, "learning_rate": 0.5, "seed": 0}
    signal = cost_runs.gradient_signal(**asked, after=0)
    task = tasks.task("digits", "flat", None, 0, "report")
    seed = int(np.random.SeedSequence([0, 1]).spawn(2)[0].generate_state(1)[0])
    net = networks.network([8], (64,), 10, "relu", 0.0, seed, "keras")
    total = 0
    for x, y in zip(task.x_train[:400], task.y_train[:400], strict=True):
        net.zero_grad()
        torch.nn.functional.cross_entropy(net(torch.as_tensor(x)[None].float()), torch.tensor([y])).backward()
        gradient = torch.cat([p.grad.ravel() for p in net.parameters()])
        total = total + gradient * min(1.0, 1.0 / float(gradient.norm()))
    assert signal["length"] == pytest.approx(float(total.norm()) / 400, rel=0.1)  # 400 of all records


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: feature_data.census("adult2", "without", 0), "adult2"),
        (lambda: feature_data.scaled(feature_data.census("synthetic-census", "without", 0), "max"), "scaling = 'max'"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_the_signal_of_a_cnn_is_taken_on_images_and_of_the_layers_that_are_trained():
    asked = {"dataset": "digits", "model": "cnn", "epsilon": 2.0, "learning_rate": 0.5, "seed": 0, "steps": 3}
    every, two = (cost_runs.gradient_signal(**asked, after=2, frozen=frozen) for frozen in (None, [0, 1]))
    assert every["trained"] - two["trained"] == 9 * 8 + 8 + 4 * 8 * 16 + 16  # two convolutions
    assert 0 < two["length"] < 1


def test_the_reason_is_tested_by_signal_over_noise_and_by_the_layers_without_what_is_frozen():
    two, alone = outcome(93, 100), outcome(90, 100)
    for run in two.runs:
        run["parameters"] = 400
    signals = {
        (name, after): np.full(3, length) for name, length in (("all", 0.5), ("last two", 0.25)) for after in (0, 200)
    }
    signals["last two", 200] = np.full(3, 1.0)
    extractor = cost_network_rows.image_extractor(
        signals, {("complex", "last two", 0.341): two}, {("complex", "all", 0.341): alone}
    )["B.rwt-feature-extractor"]
    assert extractor["snr_ratio_cnn"].value == pytest.approx(2.0)  # ratios of 1/2 and 2, times the root of 400 / 100
    assert extractor["frozen_less_none_cnn"].value == pytest.approx(3.0)


def test_one_kind_of_training_on_its_registered_seeds():
    get = Asked(lambda job: {"validation": 0.5, "test": 0.5, "constant": 0.1, "parameters": 9, "trained": 9})
    by_cell = cost_runs.random_weights(
        get, dataset="digits", model=[8, 8, 8], epsilons=[0.3], trained=["last two"], plain=False, seeds=2, first=100
    )
    assert list(by_cell) == [("complex", "last two", 0.3)]
    assert {job["seed"] for job in get.reported()} == {100, 101}
