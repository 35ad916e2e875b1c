"""Parts of the study of searches, on trainings that are made up; what leads from them to the ledger's rows."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

from dplib import claims, rdp, rules
from dplib.architecture import search_rows, search_study
from dplib.architecture.search import key
from dplib.architecture.search_budgets import Search
from dplib.architecture.search_study import Sizes, arms, expected_release, one_budget, table_8, table_9, workflows

COMMON = {"dataset": "digits", "features": "flat", "batch": 64}
GENETIC = {"generations": 2, "population": 4, "noise_scale": 0.01}
SIZES = {"k": 6, "mgrs": [3, 2], "p_mutate": 0.7}
TUNING = {"units": [64, 64, 16], "tuning_seeds": 3}


def trained(rates=(1.0, 2.0), **optimisers):
    """Arguments of trainers: an epsilon for each optimiser."""
    how = {name: {"epsilon": epsilon} for name, epsilon in optimisers.items()}
    return {"common": COMMON, "optimisers": how, "rates": dict.fromkeys(how, rates), "splits": 2, **TUNING}


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
    rows = table_8(get, trained=trained(dp=2.0), fresh=2, paas_searches=2, **SIZES, **GENETIC)
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
    rows = workflows(get, trained=trained(dp=2.0, sgd=None), fresh=2, **GENETIC)
    assert {inside: set(found) for inside, found in rows.items()} == {"dp": {"dp", "sgd"}, "sgd": {"dp", "sgd"}}
    for found in rows.values():  # a search's winner is one network, whatever trains it for the report
        assert [r["network"] for r in found["dp"]] == [r["network"] for r in found["sgd"]]
    values = search_rows.workflows(rows)
    gain = values["B.paw"]["acc_dpsgd"].value - values["B.stw"]["acc_dpsgd"].value
    assert values["B.paw-search-better"]["paw_minus_stw_dpsgd"].value == pytest.approx(gain)


def test_table_9_trains_what_is_printed_and_draws_with_frozen_layers_and_without():
    get = Fake()
    found = table_9(get, trained=trained(dp=2.11, small=0.34, sgd=None), draws=12)
    made = {(repr(j["model"]), repr(j.get("frozen")), j["epsilon"]) for j in get.jobs if j.get("part") != "tune"}
    assert {("[1024]", "[0]", 0.34), ("[1024]", "[0]", None), ("[128]", "None", 2.11)} <= made
    rows = search_rows.table_9(found)
    cell = rows["B.table9.eps0.34-paw"]
    assert cell["acc_dpsgd_less_printed"].value == pytest.approx(cell["acc_dpsgd"].value - 91.61)
    better = [one["with"] > one["without"] for one in found["drawn"]]  # the fake's test accuracy is half its validation
    assert better == ["frozen" in one["network"] for one in found["drawn"]]
    for claim_id, values in rows.items():
        rules.decide(claims.get(claim_id).rule, values, claims.get(claim_id).published)


def test_arms_share_a_total_and_train_at_the_rates_of_the_nearest_noise():
    get = Fake()
    how = {name: {"epsilon": epsilon, "steps": 5} for name, epsilon in (("dp", 2.0), ("small", 0.1))}
    sizes = {"rs_mean": 2.0, "rs_drawn": 4, "mgrs": [2, 1], "p_mutate": 0.7, "generations": 2, "population": 3}
    found = one_budget(
        get, common={**COMMON, "delta": 1e-5}, optimisers=how, splits=2, totals=[0.1, 2.0], steps=5,
        tuned={"rates": {"dp": [1.0, 2.0], "small": [1000.0, 2000.0]}, **TUNING},
        records={"train": 6400, "validation": 500}, **sizes,
    )  # fmt: skip
    reported = [j for j in get.jobs if j.get("part") != "tune"]
    noises = {
        tuned: {j["noise_multiplier"] for j in reported if (j["learning_rate"] > 100) is tuned}
        for tuned in (True, False)
    }
    low, high = min(noises[True]), max(noises[False])
    assert low > high  # the small total has more noise, and the rates that were tuned near it
    assert set(search_rows.one_budget(found)) >= {"total_0.1_rs_minus_fixed", "total_2_rs_fixed_minus_random"}
    assert found[2.0]["paas"].shape == (2,)


@pytest.mark.parametrize(
    ("private", "plain", "says"), [([8.0, 16.0], [0.1, 0.4], None), ([8.0, 16.0], [0.4, 2.0], False)]
)
def test_learning_rates_count_momentum(private, plain, says):
    kinds = [f"kind {i}" for i in range(9)]
    rates = {name: dict(zip(kinds, some * 5, strict=False)) for name, some in (("dp", private), ("sgd", plain))}
    values = search_rows.learning_rates(rates, 0.9)
    row = claims.get("B.learning-rates")
    assert rules.decide(row.rule, values, row.published) is says


def test_budgets_of_random_numbers_fall_with_the_shape():
    """The geometric, logarithmic and -1/2 cases: 5.86, 4.56 and 3.92 for RS (an outside audit computed them too)."""
    found = search_rows.budgets({"geometric": (4.0, 5.0)})["B.rs-budget"]
    names = ("epsilon_geometric", "epsilon_logarithmic", "epsilon_shape_minus_half")
    assert [found[name] for name in names] == pytest.approx([5.858, 4.562, 3.922], abs=1e-3)
    assert found["epsilon"] > 90


def test_printed_spaces_and_counts():
    rows = search_rows.spaces()
    for name, values in rows.items():
        if ".table" in name:
            assert values["possible_values"] == claims.get(name).published["possible_values"]
    assert rows["B.cnn-search-setup"]["counts_with_correction"] == 6
    assert 64 in search_rows.possible_inputs(9610)
    assert search_rows.perceptron_parameters(64, [128]) == 9610


# --- one budget ---

FEW = Sizes(rs_mean=4.0, rs_drawn=8, mgrs=[3, 2], p_mutate=0.7, generations=2, population=3)
DELTA, RATE, STEPS = 1e-5, 0.01, 100
SCORES = np.array([0.3, 0.9, 0.1, 0.7, 0.5, 0.8])
VALUES = np.array([3.0, 1.0, 4.0, 1.5, 9.0, 2.6])


@dataclass(frozen=True)
class Accuracies:
    """A trainer whose accuracies are those of its seeds, and that notes what it was asked for."""

    split_seed: int = 0
    asked: list = field(default_factory=list)

    def __call__(self, asked):
        self.asked.extend((key(network), repeat) for network, repeat in asked)
        drawn = [np.random.default_rng([len(key(n)), n["model"][0], repeat]).random() for n, repeat in asked]
        return [{"validation": v, "test": v / 2} for v in drawn]

    def fresh(self, network, count):
        return self([(network, 1000 + i) for i in range(count)])


@pytest.fixture(scope="module")
def found():
    return arms(2.0, DELTA, RATE, STEPS, 5000, FEW)


def budget(noise, composed=None, mean_runs=None):
    """By dp_accounting's own events."""
    step = dp_event.PoissonSampledDpEvent(RATE, dp_event.GaussianDpEvent(noise))
    training = dp_event.SelfComposedDpEvent(step, STEPS)
    accountant = RdpAccountant(rdp.ORDERS)
    several = dp_event.RepeatAndSelectDpEvent(training, mean_runs, 1) if mean_runs else None
    accountant.compose(several or dp_event.SelfComposedDpEvent(training, composed))
    return accountant.get_epsilon(DELTA)


def test_every_arm_spends_the_total_and_no_more_by_another_accountant(found):
    trained = {"fixed": 1, "random": 1, "mgrs": 5, "paas": 6}
    for arm, count in trained.items():
        assert budget(found[arm].noise_multiplier, count) == pytest.approx(2.0, rel=1e-3)
    assert budget(found["rs"].noise_multiplier, mean_runs=4.0) == pytest.approx(2.0, rel=1e-3)
    noise, count = found["rs_fixed"].noise_multiplier, found["rs_fixed"].search.trainings
    assert noise == found["rs"].noise_multiplier
    assert budget(noise, count) <= 2.0 * (1 + 1e-3)
    assert budget(noise, count + 1) > 2.0
    assert search_study.affordable(noise, 2, 2.0, DELTA, RATE, STEPS) == 2
    assert search_study.affordable(found["fixed"].noise_multiplier / 2, 8, 2.0, DELTA, RATE, STEPS) == 0


def test_scores_are_paid_for_within_the_total(found):
    for arm, count in [("mgrs", 5), ("paas", 6), ("rs", 3)]:  # a geometric selection costs three scores
        assert found[arm].noise_scale == pytest.approx(1 / (5000 * 2.0 / count), rel=1e-6)
    assert found["fixed"].noise_scale == found["random"].noise_scale == 0


@pytest.mark.parametrize(
    ("arm", "least", "most"),
    [("fixed", 3, 3), ("random", 8, 8), ("rs", 8, 8), ("rs_fixed", 8, 8), ("mgrs", 1, 5), ("paas", 1, 6)],
)
def test_arms_train_with_their_noise_and_within_their_cap(found, arm, least, most):
    trainer = Accuracies()
    value = search_study.released(trainer, arm, found[arm], FEW, 1)
    assert 0 <= value <= 50
    assert least <= len(trainer.asked) <= most
    assert len(set(trainer.asked)) == len(trainer.asked)


def test_release_of_a_random_number_of_candidates_by_simulation():
    search, rng = Search(selections=((2.0, 1),)), np.random.default_rng(4)
    runs = np.minimum(rng.geometric(0.5, 40_000), 6)
    orders = [rng.permutation(6)[:k] for k in runs]
    simulated = [VALUES[rows[SCORES[rows].argmax()]] for rows in orders]
    expected = expected_release(SCORES, VALUES, search)
    assert expected == pytest.approx(np.mean(simulated), abs=5 * np.std(simulated) / 200)
