"""Parts of the study of searches, on trainings that are made up; what leads from them to the ledger's rows."""

import numpy as np
import pytest

from dplib import claims, rules
from dplib.architecture import search_rows
from dplib.architecture.search_replays import TARGET, known_fitness
from dplib.architecture.search_study import table_8, table_9, workflows
from dplib.architecture.search_trainings import training_seed

COMMON = {"dataset": "digits", "features": "flat", "batch": 64}
SIZES = {"generations": 2, "population": 4, "k": 6, "mgrs": [3, 2], "p_mutate": 0.7, "noise_scale": 0.01}
TUNING = {"units": [64, 64, 16], "tuning_seeds": 3, "splits": 2, "fresh": 2}


class Fake:
    """Accuracies drawn by the job's seed; it notes every job."""

    def __init__(self):
        self.jobs = []

    def __call__(self, function, jobs):
        self.jobs += jobs
        drawn = [np.random.default_rng([j["seed"], j.get("split_seed", 0)]).random() for j in jobs]
        return [{"validation": v, "test": v / 2, "parameters": 1, "trained": 1} for v in drawn]


def test_searches_share_a_split_and_reports_are_trained_afresh():
    get = Fake()
    rows = table_8(get, common=COMMON, how={"epsilon": 2.0}, rates=[1.0, 2.0], paas_searches=2, **TUNING, **SIZES)
    assert {name: len(found) for name, found in rows.items()} == {"paas": 2, "rs": 2, "mgrs": 2}
    tuning = [j for j in get.jobs if j.get("part") == "tune"]
    assert {j["seed"] for j in tuning} == {1000, 1001, 1002}
    assert all("split_seed" not in j for j in tuning)  # splits of tuning are drawn by its own seeds
    assert {j["split_seed"] for j in get.jobs if j.get("part") != "tune"} == {0, 1}
    assert rows["rs"][0]["trainings"] <= SIZES["k"]
    assert rows["rs"][0]["by_draws"][-1] == pytest.approx(rows["rs"][0]["own"])  # the best of all draws is the winner
    found = search_rows.table_8(rows, SIZES)
    assert found["B.paas-memo"]["trainings_less_distinct"] == 0
    assert found["B.search-comparison"]["rs_minus_mgrs"].n == 2


def test_a_winner_is_reported_by_either_optimiser():
    get = Fake()
    how = {"dp": {"epsilon": 2.0}, "sgd": {"epsilon": None, "max_grad_norm": None}}
    rates = {"dp": [1.0, 2.0], "sgd": [0.1, 0.2]}
    rows = workflows(get, common=COMMON, optimisers=how, rates=rates, **TUNING, **SIZES)
    assert {inside: set(found) for inside, found in rows.items()} == {"dp": {"dp", "sgd"}, "sgd": {"dp", "sgd"}}
    for found in rows.values():  # a search's winner is one network, whatever trains it for the report
        assert [r["network"] for r in found["dp"]] == [r["network"] for r in found["sgd"]]
    values = search_rows.workflows(rows)
    gain = values["B.paw"]["acc_dpsgd"].value - values["B.stw"]["acc_dpsgd"].value
    assert values["B.paw-search-better"]["paw_minus_stw_dpsgd"].value == pytest.approx(gain)


def test_table_9_trains_what_is_printed_and_draws_with_frozen_layers_and_without():
    get = Fake()
    how = {"dp": {"epsilon": 2.11}, "small": {"epsilon": 0.34}, "sgd": {"epsilon": None}}
    settings = {
        "optimisers": how,
        "rates": {name: [1.0, 2.0] for name in how},
        "units": [64, 64, 16],
        "tuning_seeds": 3,
    }
    found = table_9(get, common=COMMON, **settings, splits=2, draws=12)
    trained = {(repr(j["model"]), repr(j.get("frozen")), j["epsilon"]) for j in get.jobs if j.get("part") != "tune"}
    assert {("[1024]", "[0]", 0.34), ("[1024]", "[0]", None), ("[128]", "None", 2.11)} <= trained
    rows = search_rows.table_9(found)
    cell = rows["B.table9.eps0.34-paw"]
    assert cell["acc_dpsgd_less_printed"].value == pytest.approx(cell["acc_dpsgd"].value - 91.61)
    better = [one["with"] > one["without"] for one in found["drawn"]]  # the fake's test accuracy is half its validation
    assert better == ["frozen" in one["network"] for one in found["drawn"]]
    for claim_id, values in rows.items():
        rules.decide(claims.get(claim_id).rule, values, claims.get(claim_id).published)


def test_replays_are_compared_in_points():
    mean = {"noise": 0.90, "plain": 0.93, "random": 0.93, "clean_pick": 0.92}
    found = [{"mean": {k: v + i for k, v in mean.items()}, "sd": mean, "best": 0.94 + i} for i in (0, 0.01)]
    rows = search_rows.replays(found)
    assert rows["B.paas-noise-robust"]["accuracy_with_minus_without"].value == pytest.approx(-3)
    assert rows["B.evolution-beats-random"]["best_of_the_table_minus_random"].value == pytest.approx(1)


@pytest.mark.parametrize(
    ("private", "plain", "says"), [([8.0, 16.0], [0.1, 0.4], None), ([8.0, 16.0], [0.4, 2.0], False)]
)
def test_learning_rates_count_momentum(private, plain, says):
    kinds = [f"kind {i}" for i in range(9)]
    rates = {name: dict(zip(kinds, some * 5, strict=False)) for name, some in (("dp", private), ("sgd", plain))}
    values = search_rows.learning_rates(rates, 0.9)
    row = claims.get("B.learning-rates")
    assert rules.decide(row.rule, values, row.published) is says


def test_other_networks_and_repeats_have_other_seeds():
    seeds = {training_seed(n, r) for n in (TARGET, {**TARGET, "frozen": [0]}) for r in (0, 1, 1000)}
    assert len(seeds) == 6


def test_longer_searches_find_the_known_best_more_often():
    short, long = (
        known_fitness(generations=g, population=p, searches=15, distinct=False, seed=1) for g, p in ((2, 4), (20, 20))
    )
    assert short["paas"] < long["paas"]
    assert short["most_trainings"] <= 8


def test_budgets_of_random_numbers_fall_with_the_shape():
    """The geometric, logarithmic and -1/2 cases: 5.86, 4.56 and 3.92 for RS (an outside audit computed them too)."""
    found = search_rows.budgets()["B.rs-budget"]
    names = ("epsilon_geometric", "epsilon_logarithmic", "epsilon_shape_minus_half")
    assert [found[name] for name in names] == pytest.approx([5.858, 4.562, 3.922], abs=1e-3)
    assert found["epsilon"] > 90


def test_a_budget_of_one_training_gives_table_8():
    assert search_rows.overall(2.11)["paas_cap_60"] == pytest.approx(search_rows.proven()["paas"]["fixed"], rel=0.01)


def test_printed_spaces_and_counts():
    rows = search_rows.spaces()
    for name, values in rows.items():
        if ".table" in name:
            assert values["possible_values"] == claims.get(name).published["possible_values"]
    assert rows["B.cnn-search-setup"]["counts_with_correction"] == 6
    assert 64 in search_rows.possible_inputs(9610)
    assert search_rows.perceptron_parameters(64, [128]) == 9610
