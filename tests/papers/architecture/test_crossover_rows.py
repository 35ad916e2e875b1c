"""Chapter 4's study and rows: what is tuned and paired, and what is said of it."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from book.evidence import claims, plans, rules
from dplib import models
from dplib.checks import ParameterError
from dplib.stats import Measured
from papers.architecture import crossover_model_rows as models_rows
from papers.architecture import crossover_rows as rows
from papers.architecture import crossover_runs as study_of
from papers.architecture.crossover_runs import COMPLEX, SIMPLE
from papers.common import networks
from tests.toys import Asked


def fake(plain=0.3):
    """Results without training: the best rate is 9 with privacy and ``plain`` without."""

    def result(job):
        best = plain if job["epsilon"] is None else 9.0
        score = 0.9 - 0.1 * abs(np.log(job["learning_rate"] / best)) + 0.001 * (job["seed"] % 1000)
        return {"validation": score, "test": score, "parameters": 10}

    return Asked(result)


def test_rates_are_tuned_on_seeds_of_their_own_and_runs_are_paired():
    get = fake()
    by_network = study_of.pair(
        get, dataset="digits", epsilons=[1.0, None], rates=[1.0, 3.0], seeds=2, batch=64, steps=5
    )
    assert {name: list(one) for name, one in by_network.items()} == {name: [1.0, np.inf] for name in (SIMPLE, COMPLEX)}
    tuning, reported = get.tuning(), get.reported()
    assert {job["seed"] for job in tuning} == {1000, 1001, 1002}
    assert {job["seed"] for job in reported} == {0, 1}
    assert {job["learning_rate"] for job in reported if job["epsilon"]} == {9.0}  # the grid grew
    assert {job["learning_rate"] for job in reported if not job["epsilon"]} == {0.3}
    assert all((job["epsilon"] is None) == ("max_grad_norm" in job) for job in reported)  # plain SGD does not clip
    assert len(by_network[SIMPLE][1.0]) == len(by_network[COMPLEX][np.inf]) == 2


def test_what_is_not_allowed():
    with pytest.raises(ParameterError, match="dataset = 'kmnist'"):
        study_of.pair(fake(), dataset="kmnist", epsilons=[1.0], rates=[1.0, 3.0])


def test_networks_of_the_pairs_have_the_printed_sizes():
    for name in ("mnist", "fashion-mnist", "cifar10-jpeg"):
        pair = study_of.PAIRS[name]
        inputs = (int(pair["features"].partition("-")[2]),)
        row = f"fcn-{name.removesuffix('-jpeg')}"
        for kind, suffix in (("simple", "paw"), ("complex", "stw")):
            net = networks.network(pair[kind], inputs, 10, "relu", 0.0, 0)
            assert models.parameter_count(net) == claims.get(f"B.table1.{row}-{suffix}").published["parameters"]


@pytest.mark.parametrize(
    ("shift", "use"), [(0.05, "the simple one"), (-0.05, "the complex one"), (0.0, "the simple one: no difference")]
)
def test_advice_comes_out_every_way(shift, use):
    noise = [0.001, -0.001, 0.002, -0.002, 0.0]
    runs = {SIMPLE: [{"test": 0.8 + shift + x} for x in noise], COMPLEX: [{"test": 0.8 - x} for x in noise]}
    for constant, said in ((0.1, use), (0.9, "neither: no network is surely above a constant")):  # as at a tiny budget
        answer = rows.yours({name: [{**run, "constant": constant} for run in of] for name, of in runs.items()})
        assert answer["use"].startswith(said)
        assert answer["constant_prediction"] == 100 * constant


def test_the_repaired_definition_loses_nothing_where_the_simple_model_never_wins():
    epsilons, simple, complex_ = np.array([0.1, 1.0]), np.array([0.5, 0.8]), np.array([0.6, 0.9])
    assert rows.definition(np.inf, epsilons, simple, complex_) == pytest.approx(10)
    assert rows.definition(0.0, epsilons, simple, complex_) == 0


def made_up(simple, complex_, sgd=(90.0, 90.0)):
    """A pair whose networks have these mean accuracies at budgets 0.1, 2.11, 1000 and 10^7, with little noise."""
    rng, at = np.random.default_rng(0), (0.1, 2.11, 1000.0, 1e7, np.inf)
    values = {}
    for name, means in zip((SIMPLE, COMPLEX), ((*simple, sgd[0]), (*complex_, sgd[1])), strict=True):
        noise = 0.01 * rng.standard_normal((len(at), 5))
        values[name] = {
            e: [{"test": (m + x) / 100, "validation": (m - x) / 100, "learning_rate": 1.0} for x in own]
            for e, m, own in zip(at, means, noise, strict=True)
        }
    return rows.of_runs(values, 2.11)


def test_leads_on_both_sides_are_ordered_or_contrary():
    crossing = made_up((70, 80, 90, 90), (60, 75, 91, 92))
    assert (crossing.order, crossing.leads) == (1, (1, 1, -1, -1))
    assert 2.11 < crossing.crossing[1] < crossing.crossing[0] < 1000
    assert made_up((60, 75, 91, 92), (70, 80, 90, 90)).order == -1  # the large network first
    assert made_up((70, 80, 90, 92), (60, 75, 89, 91)).order == -1  # the small one still leads at the right end
    assert made_up((70, 80, 90, 91), (60, 75, 90, 91)).order == 0


def test_what_privacy_costs_more_is_the_difference_of_two_gaps():
    values = made_up((70, 80, 90, 90), (60, 75, 91, 92), sgd=(93, 95))
    assert values.dp_gap.value == pytest.approx(5, abs=0.05)
    assert values.sgd_gap.value == pytest.approx(-2, abs=0.05)
    assert values.cost_gap.value == pytest.approx(values.dp_gap.value - values.sgd_gap.value)


def test_a_later_lead_is_larger_or_smaller_than_the_first():
    later = made_up((61, 80, 89, 90), (60, 70, 90, 92))
    first = made_up((70, 71, 89, 90), (60, 70, 90, 92))
    assert (later.later_larger, later.first_largest) == (True, False)
    assert (first.later_larger, first.first_largest) == (False, True)


def test_a_printed_cell_agrees_differs_or_is_open():
    row = "B.table1.fcn-mnist-paw"  # prints 94.94 and 96.34
    near, far = Measured(95.0, 94.8, 95.2, 5), Measured(98.0, 97.8, 98.2, 5)
    measured = {"acc_dpsgd": near, "acc_sgd": far}
    assert rows.cells(row, measured) == {"cells_that_agree": 1, "cells_that_differ": 0}
    assert rows.cells(row, measured, settled=True) == {"cells_that_agree": 1, "cells_that_differ": 1}
    assert rows.cells(row, measured, agree=False)["cells_that_agree"] == 0
    assert rows.cells(row, {"acc_sgd": Measured(97.0, 96.0, 98.0, 5)}, settled=True)["cells_that_differ"] == 0


def test_choosing_by_the_crossing_loses_nothing_where_it_is_clear():
    by_seed = rows.of_seeds({"mnist": made_up((70, 80, 90, 90), (60, 75, 91, 92))})
    assert by_seed["B.crossover-rule"]["rule_less_always_simple"].value == pytest.approx(3 / 4, abs=0.05)
    assert by_seed["B.crossover-rule"]["rule_less_always_complex"].value == pytest.approx(15 / 4, abs=0.05)
    assert by_seed["B.eq4"]["comparisons"] == 4 * 5


def on_plan(*names):
    """Plans of chapter 4 together, whose runs are made up."""
    parts = {name: part for plan in names for name, part in plans.load("04", plan).parts.items()}
    return SimpleNamespace(parts=parts, read=lambda part: parts[part].function(fake(plain=1.0), **parts[part].inputs))


@pytest.mark.parametrize(("names", "differ"), [(["published", "wanted"], 0), (["paper"], 2)])
def test_table_4_leads_to_what_its_rules_ask_for(names, differ):
    values = models_rows.table_4(on_plan(*names))
    assert len(values) == 12 + 3 + 2  # Table I repeats two of Table IV
    for row, own in values.items():
        assert set(rules.names(claims.get(row).rule)) <= set(own), row
    # An accuracy of 90% differs from print, but only a training as long as the paper's says so.
    assert values["B.table4.eps4.39-lenet"]["cells_that_differ"] == differ


def test_the_paper_plan_reaches_every_pair_of_table_1():
    values = rows.table_1(on_plan("paper"), {})
    assert {row.rpartition("-")[0] for row in values} == {f"B.table1.{name}" for name in rows.AS_PRINTED}
    assert all(own["cells_that_differ"] for own in values.values())


def test_rates_at_which_both_networks_are_well_served():
    given = plans.load("04").parts
    made = {part: given[part].function(fake(plain=1.0), **given[part].inputs) for part in ("rates", "mnist")}
    values = models_rows.rates(SimpleNamespace(parts=given, read=made.__getitem__))[1]
    assert values["B.learning-rate"]["they_are"] == "9"
    assert values["B.fig9"]["losses_at_shared_rates"] == 6


def test_sizes_of_data_sets_follow_from_their_files():
    for row, own in models_rows.data_sets().items():
        assert rules.verdict(vars(claims.get(row)), own, claims.get(row).published) == claims.get(row).expects


def test_best_of_is_the_mean_over_all_choices():
    values = np.random.default_rng(0).normal(size=7)
    by_hand = np.mean([max(combination) for combination in itertools.combinations(values, 3)])
    assert rows.best_of(values) == pytest.approx(by_hand)
    assert rows.best_of([1.0, 2.0, 3.0]) == 3.0
    with pytest.raises(ParameterError, match="too few"):
        rows.best_of([1.0, 2.0])


def widths_with(peak, seeds):
    """Widths without training: with privacy the last but one leads the last by ``peak`` points, without it does not."""
    private = (0.80, 0.85, 0.90, 0.92, 0.92 - peak / 100)
    plain = (0.80, 0.85, 0.90, 0.92, 0.95)

    def run(width, by_width, seed):
        score = by_width[width] + 1e-4 * (seed % 5) * (width == 3)
        return {"validation": score, "test": score, "parameters": 10**width}

    return {
        str(width): {
            e: [run(width, by_width, seed) for seed in seeds] for e, by_width in ((2.11, private), (np.inf, plain))
        }
        for width in range(5)
    }


def test_figure_1_is_decided_by_the_added_seeds_alone():
    """A peak on the seeds that were looked at decides nothing; its absence on the new ones refutes it."""
    looked_at, added = widths_with(1.0, range(20)), widths_with(-0.5, range(100, 160))
    study = SimpleNamespace(parts={"sizes": 0, "sizes_more": 0}, read={"sizes": looked_at, "sizes_more": added}.get)
    row = claims.get("B.fig1")
    values = models_rows.best_size(study)
    assert values["best_smaller_less_largest"].n == 60
    assert rules.decide(row.rule, values, row.published) is False
    before = models_rows.best_size(SimpleNamespace(parts={"sizes": 0}, read={"sizes": looked_at}.get))
    assert rules.decide(row.rule, before, row.published) is None
    assert rules.verdict(vars(row), values, row.published) == rules.UNDECIDED  # so short trainings decide nothing
