"""Parts of the study of searches, on trainings that are made up; what leads from them to the ledger's rows."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

from book.evidence import claims, plans, rules
from dplib import rdp
from dplib.search_budgets import Search
from papers.architecture import search_rows, search_runs
from papers.architecture.search import key
from papers.architecture.search_runs import Sizes, arms, expected_release, one_budget, table_8
from tests.toys import Asked

COMMON = {"dataset": "digits", "features": "flat", "batch": 64}
GENETIC = {"generations": 2, "population": 4, "noise_scale": 0.01}
SIZES = {"k": 6, "mgrs": [3, 2], "p_mutate": 0.7}
TUNING = {"units": [64, 64, 16], "tuning_seeds": 3}


def trained(rates=(1.0, 2.0), **optimisers):
    """Arguments of trainers: an epsilon for each optimiser."""
    how = {name: {"epsilon": epsilon} for name, epsilon in optimisers.items()}
    return {"common": COMMON, "optimisers": how, "rates": dict.fromkeys(how, rates), "splits": 2, **TUNING}


def drawn(job):
    """Accuracies drawn by the job's seed."""
    value = np.random.default_rng([job["seed"], job.get("split_seed", 0)]).random()
    return {"validation": value, "test": value / 2, "parameters": 1, "trained": 1}


def test_searches_share_a_split_and_reports_are_trained_afresh():
    get = Asked(drawn)
    rows = table_8(get, trained=trained(dp=2.0), fresh=2, paas_searches=2, **SIZES, **GENETIC)
    assert {name: len(found) for name, found in rows.items()} == {"paas": 2, "rs": 2, "mgrs": 2}
    assert {j["seed"] for j in get.tuning()} == {1000, 1001, 1002}
    assert all("split_seed" not in j for j in get.tuning())  # splits of tuning are drawn by its own seeds
    assert {j["split_seed"] for j in get.reported()} == {0, 1}
    assert rows["rs"][0]["trainings"] <= SIZES["k"]
    assert rows["rs"][0]["by_draws"][-1] == pytest.approx(rows["rs"][0]["own"])  # the best of all draws is the winner


def test_arms_share_a_total_and_train_at_the_rates_of_the_nearest_noise():
    get = Asked(drawn)
    how = {name: {"epsilon": epsilon, "steps": 5} for name, epsilon in (("dp", 2.0), ("small", 0.1))}
    sizes = {"rs_mean": 2.0, "rs_drawn": 4, "mgrs": [2, 1], "p_mutate": 0.7, "generations": 2, "population": 3}
    by_method = one_budget(
        get, common={**COMMON, "delta": 1e-5}, optimisers=how, splits=2, totals=[0.1, 2.0], steps=5,
        tuned={"rates": {"dp": [1.0, 2.0], "small": [1000.0, 2000.0]}, **TUNING},
        records={"train": 6400, "validation": 500}, **sizes,
    )  # fmt: skip
    noises = {
        tuned: {j["noise_multiplier"] for j in get.reported() if (j["learning_rate"] > 100) is tuned}
        for tuned in (True, False)
    }
    low, high = min(noises[True]), max(noises[False])
    assert low > high  # the small total has more noise, and the rates that were tuned near it
    assert by_method[2.0]["paas"].shape == (2,)


def test_budgets_of_random_numbers_fall_with_the_shape():
    """The geometric, logarithmic and -1/2 cases: 5.86, 4.56 and 3.92 for RS (an outside audit computed them too)."""
    by_budget = search_rows.budgets({"geometric": (4.0, 5.0)})["B.rs-budget"]
    names = ("epsilon_geometric", "epsilon_logarithmic", "epsilon_shape_minus_half")
    assert [by_budget[name] for name in names] == pytest.approx([5.858, 4.562, 3.922], abs=1e-3)
    assert by_budget["epsilon"] > 90


def test_numbers_of_inputs_that_give_a_printed_count():
    assert 64 in search_rows.possible_inputs(9610)
    assert search_rows.perceptron_parameters(64, [128], 10) == 9610


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
    assert search_runs.affordable(noise, 2, 2.0, DELTA, RATE, STEPS) == 2
    assert search_runs.affordable(found["fixed"].noise_multiplier / 2, 8, 2.0, DELTA, RATE, STEPS) == 0


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
    value = search_runs.released(trainer, arm, found[arm], FEW, 1)
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


PARTS = plans.load("07", "published").parts


@pytest.mark.parametrize("name", ["same_guarantee_large", "same_guarantee_small"])
def test_the_registered_splits_are_searched_and_the_rules_have_their_values(name):
    get = Asked(drawn)
    part = PARTS[name]
    result = part.function(get, **{**part.inputs, "splits": 2})
    assert {job["split_seed"] for job in get.reported()} == {100, 101}
    values = search_rows.same_guarantee(result)
    (total,) = part.inputs["totals"]
    for row in ("B.search-same-guarantee", "B.rs-tight-budget"):
        asked = {name for name in rules.names(claims.get(row).rule) if name.startswith(f"total_{total:g}_")}
        assert asked
        assert asked <= set(values[row])
    arms_ = result[total]
    lead = values["B.rs-tight-budget"][f"total_{total:g}_rs_minus_paas"]
    assert lead.value == pytest.approx((arms_["rs"] - arms_["paas"]).mean())


def test_printed_networks_are_trained_on_new_splits():
    get = Asked(drawn)
    part = PARTS["printed_networks"]
    result = part.function(get, **part.inputs)
    assert {job["split_seed"] for job in get.reported()} == {100 + i for i in range(20)}
    assert len(result["eps0.34-paw"]["sgd"]) == 20


def test_a_printed_network_is_trained_for_the_printed_length_at_a_rate_of_its_own():
    get = Asked(drawn)
    part = PARTS["printed_length"]
    result = part.function(get, **part.inputs)
    assert {job["split_seed"] for job in get.reported()} == {200, 201, 202, 203, 204}
    assert {(job["steps"], job["batch"], job["epsilon"]) for job in get.jobs} == {(300 * 60_000 // 100, 100, None)}
    assert all("split_seed" not in job for job in get.tuning())
    (row,) = (
        search_rows.printed_length({name: [one | {"steps": 3} for one in all_] for name, all_ in result.items()})
    ).items()
    assert row[0] == "B.table9.eps0.34-paw"
    assert set(rules.names(claims.get(row[0]).rule)) & set(row[1]) == {"acc_sgd_at_length_less_printed"}
