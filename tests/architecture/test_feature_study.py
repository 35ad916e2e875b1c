"""The parts of the study: how jobs are split, chosen and put together, on made-up results."""

from dplib.architecture import feature_study as study


def made_up(function, jobs):
    """Accuracy of a size at a budget is 10 size + epsilon, and most at regularisation 3 or rate 0.1."""
    found = []
    for job in jobs:
        if function is study.curves:
            lost = abs(job.get("regularisation", 3.0) - 3.0)
            percent = [[10 * k + e - lost for e in job["epsilons"]] for k in job["sizes"]]
        else:
            percent = [10 * job["size"] + (e or 0) - abs(rate - 0.1) for e, rate in job["models"]]
        found.append({"percent": percent, "constant": 70.0, "columns": [], "noise": [1.0] * len(percent)})
    return found


def test_curves_join_the_blocks_of_each_split():
    asked = []

    def get(function, jobs):
        asked.extend(jobs)
        return made_up(function, jobs)

    found = study.by_size(get, dataset="adult", sizes=[1, 12, 13], epsilons=[1.0, 2.0], seeds=3, draws=[40, 6])
    assert [(job["seed"], job["sizes"], job["draws"]) for job in asked[:2]] == [(0, [1, 12], 40), (0, [13], 6)]
    assert found.values.shape == (3, 3, 2)
    assert found.at(13, 2.0).tolist() == [132.0] * 3
    assert found.of(1.0)[:, 0].tolist() == [11.0, 121.0, 131.0]


def test_regularisation_is_chosen_on_validation_records_of_other_splits():
    asked = []

    def get(function, jobs):
        asked.extend(jobs)
        return made_up(function, jobs)

    settings = {"dataset": "breast-cancer", "sizes": [1, 43], "epsilons": [1.0], "draws": [2, 2]}
    found, chosen = study.tuned(get, **settings, regularisations=[1.0, 3.0, 9.0], seeds=4, tuning_seeds=3)
    assert (chosen == 3.0).all()
    assert found.at(43, 1.0).tolist() == [431.0] * 4
    tuning = {job["seed"] for job in asked if job.get("report") == "validation"}
    assert tuning == {1000, 1001, 1002}
    assert {job["seed"] for job in asked if "report" not in job} == {0, 1, 2, 3}


def test_learning_rates_are_chosen_for_each_cell():
    settings = {"dataset": "breast-cancer", "sizes": [2], "epsilons": [0.5], "draws": 1}
    found = study.by_sgd(made_up, **settings, rates=[0.01, 0.1, 1.0], seeds=2, tuning_seeds=3)
    assert set(found.rates.values()) == {0.1}
    assert found.sizes == [2, 43]
    assert found.values[2, 0.5].tolist() == [20.5, 20.5]
    assert found.values[43, None].tolist() == [430.0, 430.0]
