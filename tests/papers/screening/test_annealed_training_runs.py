"""The experiment of chapter 11: its budget, what it keeps of a trace, and the parts of its study."""

import numpy as np
import pytest

from book.evidence import agreement, runs
from book.evidence.plans import FIRST
from dplib.annealing import Annealing
from dplib.checks import ParameterError
from papers.screening import accounts, annealed_runs, annealed_training_runs

pytestmark = pytest.mark.usefixtures("tried_once")
SMALL = {"dataset": "digits", "scheme": "annealed", "energy": "held", "held": 225, "seed": 3}
# Some hundred queries, of which all four things become.
BUSY = {**SMALL, "updates": 120, "learning_rate": 2.0, "initial_temperature": 30.0, "rejection_limit": 3}


@pytest.fixture(scope="module")
def busy():
    return annealed_training_runs.annealed_training(**BUSY, trace=True)


def test_the_budget_is_spent_and_no_more():
    setting = 1.23, 256 / (20_000 - 225)
    last = annealed_training_runs.budget(*setting, 1.5, 1e-5, 7)[-1]
    spent = accounts.paper_epsilon(*setting, np.array([last, last + 1]), 1e-5)
    assert spent[0] <= 1.5 < spent[1]
    with pytest.raises(ParameterError, match=r"epsilon = 0\.3 is not allowed"):
        annealed_training_runs.budget(*setting, 0.3, 1e-5, 7)


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 3.0, 20.0])
def test_the_noise_spends_the_budget_on_the_updates_asked_for(epsilon):
    noise = annealed_training_runs.noise_for(256 / 20_000, epsilon, 1e-5, 300)
    spent = [float(accounts.paper_epsilon(n, 256 / 20_000, 300, 1e-5)) for n in (noise, noise - 2e-4)]
    assert spent[0] <= epsilon < spent[1]


def test_counts_by_tenth_are_those_of_the_run(busy):
    tenths = busy["tenths"]
    assert sum(tenths["queries"]) == busy["queries"]
    for kind in ("lower", "by_chance", "forced", "rejected"):
        assert sum(tenths[kind]) == busy[kind] > 0, kind
    for queries, *kinds in zip(
        *(tenths[k] for k in ("queries", "lower", "by_chance", "forced", "rejected")), strict=True
    ):
        assert queries == sum(kinds)
    assert all(kept <= rises for kept, rises in zip(tenths["kept_rises"], tenths["rises"], strict=True))


def test_what_chance_decided_is_that_of_the_trace(busy):
    rule = Annealing(30.0, 3)
    rises, _ = annealed_training_runs.replayed(busy, rule)
    chance = busy["chance"]
    assert chance["passed"] == rises["passed"].sum() == busy["by_chance"]
    assert chance["expected"] == pytest.approx(rises["probability"].sum(), rel=1e-5)
    assert chance["contradictions"] == 0
    assert chance["longest"] <= 3
    assert sum(chance["near"]) == rises["change"].between(chance["median"] / 2, 2 * chance["median"]).sum()
    wrong = annealed_training_runs.by_chance({**busy, "outcomes": "0" * len(busy["outcomes"])}, rule)
    assert wrong["contradictions"] > 0


def test_parts_pair_their_arms_by_seed():
    asked = []

    def get(function, jobs):
        asked.extend(runs.job_of(function, job) for job in jobs)
        return [{"job": job} for job in jobs]

    by_arm = annealed_runs.table_1(get, datasets=["mnist"], arms=["ours", "dpsgd_tanh"], seeds=7)["mnist"]
    assert (
        [r["job"]["seed"] for r in by_arm["ours"]] == [r["job"]["seed"] for r in by_arm["dpsgd_tanh"]] == list(range(7))
    )
    assert [job["trace"] for job in asked if job["scheme"] == "annealed"] == [True] + 6 * [False]
    assert [job["energy"] for job in asked if job["scheme"] == "dpsgd-tanh"] == 5 * ["train"] + 2 * [None]


def test_tuning_chooses_by_validation_records_and_reports_on_test_records():
    def get(function, jobs):
        aside = [job.get("report") == "validation" for job in jobs]
        assert all(not t or (job["seed"] >= FIRST and job.get("energy") != "test")
                   for t, job in zip(aside, jobs, strict=True))  # fmt: skip
        return [{"accuracy": 0.9 if job.get("batch") == 256 else None, "job": job} for job in jobs]

    candidates = {"mnist": [{}, {"batch": 256}]}
    by_arm = annealed_runs.tuned(get, candidates=candidates, arms=["ours", "dpsgd"], seeds=2, tuning_seeds=3, held=6000)
    ours = by_arm["mnist"]["ours"]
    assert ours["chosen"] == {"batch": 256}
    assert ours["tried"] == [-1.0, 0.9]
    assert all(r["job"]["energy"] == "test" and "report" not in r["job"] for r in ours["results"])


ANNEALED = [
    {},
    {"rejection_limit": 1, "trace": True},
    {"initial_temperature": 1e9},
    {"learning_rate": 1.0, "momentum": 0.0},
]
PLAIN = [{"scheme": "auto-s", "seed": 4}, {"scheme": "auto-s", "seed": 5, "max_grad_norm": 0.2}]


@pytest.mark.parametrize("cells", [ANNEALED, PLAIN])
def test_side_by_side_each_is_what_it_is_alone(cells):
    function = annealed_training_runs.annealed_training
    together = function.experiment.together
    jobs = [runs.as_called(runs.job_of(function, {**BUSY, "updates": 20, "queries": 40} | cell)) for cell in cells]
    assert len({together.alike(job) for job in jobs}) == 1
    for result, job in zip(together.results(jobs, "cpu"), jobs, strict=True):
        alone = function(**job)
        assert result["curve"]["queries"] == alone["curve"]["queries"]
        assert list(result) == list(alone)
        assert list(agreement.differences(alone, result, 1e-2)) == []  # rounding, after forty steps


def test_what_is_not_alike_is_not_put_side_by_side():
    function = annealed_training_runs.annealed_training
    alike = function.experiment.together.alike
    job = runs.job_of(function, BUSY)
    for change in ({"batch": 64}, {"epsilon": 1.0}, {"energy": "test"}, {"scheme": "dpsgd-tanh"}, {"queries": 7}):
        assert alike({**job, **change}) != alike(job), change
    for alone in ({"scheme": "non-private"}, {"witness_every": 5}, {"rejection_limit": None}):
        assert alike({**job, **alone}) is None, alone
