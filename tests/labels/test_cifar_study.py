"""The studies behind Table 1 and Figures 1(a), 3, 4 and 5, on digits and with few epochs."""

import numpy as np
import pytest

from dplib import study
from dplib.labels import cifar_study, maps
from dplib.labels.cifar_study import Bench

BENCH = Bench(
    {"dataset": "digits", "representation": "pixels", "model": [], "n_train": 300},
    {"epochs": 2, "batch_size": 64},
    0.6,
    {},
)
CHOSEN = {"learning_rate": 0.1, "mixup": 0.0, "temperature": 0.5}
SEEDS = [1, 2]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(study, "FOLDER", tmp_path)


def remembered(monkeypatch):
    """The jobs that are run from here on."""
    jobs = []
    run = study.run
    monkeypatch.setattr(study, "run", lambda f, j, **named: jobs.extend(j) or run(f, j, **named))
    return jobs


def test_tuning_takes_the_best_of_the_validation_accuracies(monkeypatch):
    jobs = remembered(monkeypatch)
    tuned = cifar_study.tune(BENCH, [2.0, None], [1e-4, 0.1], [0.0], [0.1, 1.0], seed=77, validation=300)
    assert {(job["seed"], job["validation"]) for job in jobs} == {(77, 300)}
    assert tuned["learning_rate"].tolist() == [0.1, 0.1]
    assert list(tuned.index) == [2.0, np.inf]
    assert np.isnan(tuned.loc[np.inf, "two"])
    again, _ = BENCH.run([job for job in jobs if len(job["shares"]) == 2], "again")
    assert tuned.loc[2.0, "two"] == again["final"].max()
    assert tuned.loc[2.0, "temperature"] == again.loc[again["final"].idxmax(), "temperature"]


def test_stages_are_compared_at_what_was_chosen_and_curves_end_where_the_runs_end(monkeypatch):
    tuned = cifar_study.tune(BENCH, [3.0, 4.0, None], [0.1], [0.0], [0.3], seed=77, validation=300)
    jobs = remembered(monkeypatch)
    table, curves = cifar_study.compare(BENCH, tuned, [1, 2], SEEDS, detail_at=4.0, more_stages=[3])
    assert len(table) == 2 * (2 + 3 + 1)
    assert [job["shares"] for job in jobs[2:6]] == [[1.0], [0.6, 0.4], [0.6, 0.2, 0.2], [1.0]]
    assert all("validation" not in job for job in jobs)
    found = maps.paired(table, "final", {"epsilon": 4.0, "stages": 2}, {"epsilon": 4.0, "stages": 1})
    assert found.difference.n == 2
    assert len(curves) == 2 * 3 * 2
    for seed in SEEDS:
        one, two = (table[(table.epsilon == 4) & (table.seed == seed) & (table.stages == t)].iloc[0] for t in (1, 2))
        at = curves[curves["seed"] == seed].set_index(["method", "epoch"])["top_1"]
        assert at["LP-1ST", 2] == one["final"]
        assert at["stage 1", 2] == two["first"]
        assert at["stage 2", 4] == two["final"]


def test_maps_have_every_cell_once_for_each_seed():
    table = cifar_study.share_map(BENCH, CHOSEN, 3.0, [0.3, 0.6], [0.1, 1.0], SEEDS)
    assert len(table.groupby(["seed", "share", "temperature"])) == len(table) == 8
    # One stage 1 for both temperatures.
    assert (table.groupby(["seed", "share"])["first"].nunique() == 1).all()
    mixed = cifar_study.mixup_map(BENCH, CHOSEN, 3.0, [0.0, 2.0], SEEDS)
    assert len(mixed.groupby(["seed", "mixup_1", "mixup_2"])) == len(mixed) == 8
    assert (mixed.groupby(["seed", "mixup_1"])["first"].nunique() == 1).all()
    # The cell without any mixup is the run at the chosen settings.
    plain = maps.by_seed(mixed, "final", {"mixup_1": 0.0, "mixup_2": 0.0})
    usual = [BENCH.job(3.0, [0.6, 0.4], CHOSEN, seed, variants=[{"temperature": 0.5}]) for seed in SEEDS]
    assert plain.tolist() == BENCH.run(usual, "usual")[0]["final"].tolist()


def test_ablations_change_one_thing_each():
    table = cifar_study.ablations(BENCH, CHOSEN, 3.0, SEEDS)
    usual = table[table["change"] == "as in the paper"].set_index("seed")
    for name, wanted in {
        "stage 2 starts afresh": ("right", "kept", "first"),
        "stage-1 labels not filtered": ("right", "mean_k", "first"),
        "prior of labels, not answers": ("first",),
    }.items():
        changed = table[table["change"] == name].set_index("seed")
        for column in wanted:
            assert changed[column].tolist() == usual[column].tolist(), (name, column)
    none = table[table["change"] == "no prior"]
    assert (none["mean_k"] == 10).all()
    assert (none["kept"] == 1).all()
    assert (table[table["change"] == "stage-1 labels not filtered"]["kept"] == 1).all()
    assert table[table["change"] == "stage-1 labels not reused"]["kept"].isna().all()
