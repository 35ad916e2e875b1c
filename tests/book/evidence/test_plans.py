"""Plans: what is missing wave by wave, what is reached, what is made in which order, and what tuning asks for."""

import copy
import functools
import itertools
import math
import random

import pytest
import yaml

from book.evidence import claims, places, plans, runs
from dplib import rdp
from dplib.checks import ParameterError
from tests import run_toys

train = run_toys.train


@pytest.fixture(autouse=True)
def folder(run_folder):
    return run_folder


def sizes(wanted):
    return [(run.job["size"], run.job["seed"]) for run in wanted]


def budgets(value):
    """The values of epsilon that stand anywhere in a plan."""
    if isinstance(value, list):
        return {budget for item in value for budget in budgets(item)}
    found = set()
    for key, inner in value.items() if isinstance(value, dict) else ():
        listed = inner if isinstance(inner, list) else [inner]
        if key in ("epsilon", "epsilons"):
            found |= {float(budget) for budget in listed if isinstance(budget, int | float)}
        found |= budgets(listed)
    return found


def test_every_budget_of_a_plan_has_its_noise():
    """A bound of the library that refuses a plan's own budget is found here, and not by whoever makes its runs."""
    files = (places.ROOT / "notebooks" / "plans").glob("*.yml")
    asked = set().union(*(budgets(yaml.safe_load(file.read_text())) for file in files))
    assert len(asked) > 20
    # Below 0.01 the orders of Renyi DP certify nothing in general.
    large = [budget for budget in asked if 0.01 <= budget < math.inf]
    assert (rdp.noise_multiplier(large, 0.01, 100, 1e-5) > 0).all()


def test_missing_stops_at_the_first_wave_and_goes_on_after_it():
    plan = plans.load("toy")
    grid, tuning = [(1, 0), (1, 1), (2, 0), (2, 1)], [(1, 1000), (2, 1000), (4, 1000)]
    assert sizes(plan.missing()) == grid + tuning
    runs.make(train, [one.job for one in plan.missing()][1:])
    assert sizes(plan.missing()) == [(1, 0), (1, 0)]
    assert plan.missing()[1].job["scheme"] == "chosen"
    with pytest.raises(runs.MissingRuns):
        plan.read("tuned")
    assert len(plan.reached()) == 6
    runs.make(train, [one.job for one in plan.missing()])
    assert plan.missing() == []
    assert len(plan.reached()) == 8
    assert plan.read("tuned")[0] == 1
    assert list(plan.read("grid")) == [1, 2]


def test_a_look_at_a_plan_takes_each_job_once_and_files_are_told_by_their_text(folder, monkeypatch):
    """What `python -m book runs` shows, no more: it took half a minute, and a gigabyte."""
    plan, asked = plans.load("toy"), []
    runs.make(train, [run.job for run in plan.missing()][1:])
    runs.keep()
    of_key = runs.of_key
    monkeypatch.setattr(runs, "of_key", lambda *call: asked.append(call) or of_key(*call))
    reached, missing = plan.look()
    assert (len(reached), len(missing), len(asked)) == (6, 2, 8)
    assert (reached, missing) == (plan.reached(), plan.missing())
    monkeypatch.setattr(runs, "_parsed", lambda *_: pytest.fail("parsed"))
    assert runs.summary("toy") == (6, sorted({line["made"]["commit"] for line in reached}))


def test_a_run_that_two_parts_ask_for_counts_once():
    run_toys.settle(plans.PLANS.parent, run_toys.PLANS + "twice: {grid: {sizes: [1], seeds: 1}, "
                    "again: {call: grid, sizes: [1.0], seeds: 1}}\n")  # fmt: skip
    plan = plans.load("toy", "twice")
    assert sizes(plan.missing()) == [(1, 0)]
    runs.make(train, [{"size": 1, "seed": 0}])
    assert len(plan.reached()) == 1


def test_the_published_plan_shows_what_a_gpu_made_and_names_it(folder, capsys):
    """On a machine without one: to read is not to make."""
    run_toys.settle(folder, "{module: tests.run_toys, published: {grid: {sizes: [1], seeds: 2, gpus: 1}, "
                    "two: {call: grid, sizes: [1], seeds: 1}}}")  # fmt: skip
    for seed in (0, 1):
        line = runs.made(train, {"size": 1, "seed": seed}, "cuda")
        line["made"] |= {"gpu": "H100", "many": 20, "seconds": 1800.0}
        runs.file(line)
    runs.make(train, [{"size": 1, "seed": 0}])
    runs.keep()
    plan = plans.load("toy")
    assert [result["device"] for result in plan.read("grid")[1]] == ["cuda", "cuda"]
    assert plan.missing() == []
    claims.rests_on_runs(plan, seeds="2", accounting="")
    shown = capsys.readouterr().out
    assert "In the published one" not in shown
    assert "H100, 20 side by side" in shown
    assert "1.00 GPU-hours" in shown


def test_a_page_of_another_plan_does_not_count_the_seeds_of_the_published_one_as_its_own(capsys):
    plan = plans.load("toy", "quick")
    runs.make(train, [run.job for run in plan.missing()])
    claims.rests_on_runs(plan, seeds="20 a cell", accounting="")
    assert "as plan quick asks for. In the published one: 20 a cell" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("named", "others", "shown"),
    [
        ("digits", [], "digits"),
        ("cifar10-jpeg", ["digits"], "cifar10-jpeg (stand-in for CIFAR-10), digits"),
        ("digits", ["digits", "sums (synthetic)"], "digits, sums (synthetic)"),
        ("synthetic-census", [], "synthetic-census"),
    ],
)
def test_a_page_names_the_data_of_its_runs(monkeypatch, capsys, named, others, shown):
    """Typed lists named what the published plan had once: not the Fashion-MNIST of chapters 7 and 10."""
    plan = plans.load("toy", "quick")
    runs.make(train, [run.job for run in plan.missing()])
    lines = [line | {"job": line["job"] | {"dataset": named}} for line in plan.reached()]
    monkeypatch.setattr(plans.Plan, "reached", lambda self: lines)
    claims.rests_on_runs(plan, seeds="1", accounting="", others=others)
    assert f"Data: {shown}; Accounting" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["own.yml", "own.yaml"])
def test_a_plan_of_ones_own(tmp_path, name):
    own = tmp_path / name
    own.write_text("grid: {sizes: [3], seeds: 2}")
    assert sizes(plans.load("toy", str(own)).missing()) == [(3, 0), (3, 1)]


def test_an_experiment_is_a_part_by_seed_and_over_values(tmp_path):
    own = tmp_path / "own.yml"
    own.write_text("one: {call: train, size: 2, seed: 5}\nby: {call: train, size: 3, seeds: 2, first: 7}\n"
                   "cells: {call: train, seeds: 1, over: {size: [1, 2], scheme: [plain, other]}}\n"
                   "bad: {call: train, sizes: 3, seeds: 1}")  # fmt: skip
    plan = plans.load("toy", str(own))
    job = {"size": 2, "seed": 5}
    assert plan.call("one", runs.make) == runs.make(train, [job])[0]
    assert plan.call("by", runs.make) == runs.make(train, [{"size": 3, "seed": seed} for seed in (7, 8)])
    cells = plan.call("cells", runs.make)
    assert list(cells) == [(1, "plain"), (1, "other"), (2, "plain"), (2, "other")]
    assert cells[2, "other"] == runs.make(train, [{"size": 2, "scheme": "other", "seed": 0}])
    with pytest.raises(ParameterError, match="sizes"):
        plan.call("bad", runs.make)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("none", "plan = 'none' is not in toy.yml: it has published, quick"),
        ("module", "plan = 'module' is not in toy.yml"),
        ("none.yml", "plan none.yml cannot be read: No such file"),
        ("{part: {call: nothing}}", "part part: nothing is not a function of tests.run_toys"),
        ("{part: {call: 3}}", "part part: 3 is not a function of tests.run_toys"),
        ("{part: {}, part: {}}", "own.yml cannot be read: line 1 has the key part again"),
        ("{grid: {size: [1], seeds: 1}}", r"size is not a parameter of part grid \(did you mean sizes\?\)"),
        ("{grid: {sizes: [1]}}", "part grid: seeds is missing from its inputs"),
        (
            "{module: tests.run_toys, grid: {}}",
            "own.yml has module, which belongs into toy.yml: a plan of your own has",
        ),
        ("{published: {grid: {}}}", "own.yml has published, which belongs into toy.yml"),
        ("{grid: [1]}", r"part grid = \[1\] is not allowed: it must be a mapping"),
        ("[1]", r"own.yml: all of it = \[1\] is not allowed: Input should be a valid dictionary"),
        ("{", "own.yml cannot be read"),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path, plan, message):
    if plan[0] in "{[":
        (tmp_path / "own.yml").write_text(plan)
        plan = str(tmp_path / "own.yml")
    with pytest.raises(ParameterError, match=message):
        plans.load("toy", plan)


def test_a_chapter_takes_the_plans_that_it_draws_and_says_which_they_are(folder):
    """Seven chapters died in a cell of a small plan whose runs were all there, and so did each of "paper"."""
    paper = "paper: {grid: {sizes: [9], seeds: 1}}\n"
    run_toys.settle(folder, run_toys.PLANS + paper)
    assert plans.drawn("toy") == ["published", "quick"]
    plans.rule("toy").check("plan", "quick")
    with pytest.raises(ParameterError, match=r"it must be one of published, quick, or the path of a .yml file"):
        plans.rule("toy").check("plan", "paper")
    run_toys.settle(folder, run_toys.PLANS + paper + "page: [published]\n")
    assert plans.names("toy") == ["published", "quick", "paper"]
    with pytest.raises(
        ParameterError, match="'quick' is not allowed: it must be published, the only plan that this ch"
    ):
        plans.rule("toy").check("plan", "quick")
    assert sizes(plans.load("toy", "quick").missing()) == [(1, 0)]  # whose runs may be made all the same


def test_missing_runs_are_named_with_the_command_that_makes_them(tmp_path):
    own = tmp_path / "my own.yml"
    own.write_text("grid: {sizes: [3], seeds: 2}")
    with pytest.raises(runs.MissingRuns, match=f"`python -m book runs make toy --plan '{own}'` makes them"):
        plans.load("toy", str(own)).read("grid")


ODD = [None, True, -1, 0, 3.5, float("nan"), float("inf"), 10**30, 10**400, "word", "", [], [[1]], [None], {}, {1: 2}]
OWN = {
    "grid": {"sizes": [1, 2], "seeds": 2},
    "tuned": {"sizes": [1, 2], "seeds": 1},
    "cells": {"call": "train", "seeds": 1, "first": 3, "over": {"size": [1, 2], "scheme": ["plain", "other"]}},
    "run": {"call": "train", "size": 1, "seed": 0, "bounds": [1, 2], "weights": {"a": 1}},
}


def edits(document, rng):
    """A plan with odd things in the places of its values and names, one after the other, in the order of chance."""
    places = []

    def walk(inside, at):
        pairs = inside.items() if isinstance(inside, dict) else enumerate(inside) if isinstance(inside, list) else ()
        for key, value in list(pairs):
            places.append((*at, key))
            walk(value, (*at, key))

    walk(document, ())
    while True:
        edit = copy.deepcopy(document)
        *way, last = rng.choice(places)
        parent = functools.reduce(lambda inside, key: inside[key], way, edit)
        if rng.random() < 0.3 and isinstance(parent, dict):
            parent[rng.choice(["seeds", "first", "call", "over", "gpus", 3, None])] = parent.pop(last)
        else:
            parent[last] = copy.deepcopy(rng.choice(ODD))
        yield edit


def test_whatever_stands_in_a_plan_of_ones_own_is_asked_for_or_refused_in_a_sentence(tmp_path):
    """Of 300 such edits 52 were another error, or a list of jobs without an end."""
    refused = 0
    for number, document in enumerate(itertools.islice(edits(OWN, random.Random(0)), 200)):
        path = tmp_path / f"own{number}.yml"  # files are told apart by name and time
        path.write_text(yaml.safe_dump(document))
        try:
            plans.load("toy", str(path)).missing()
        except ParameterError:
            refused += 1
    assert 50 < refused < 190


def test_an_error_in_a_plan_of_the_project_shows_where_it_comes_from(tmp_path):
    run_toys.settle(plans.PLANS.parent, "{module: tests.run_toys, published: {grid: {sizes: 3, seeds: 1}}}")
    with pytest.raises(TypeError):
        plans.load("toy").missing()


def test_unknown_studies_and_parts_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="study = 'toys' is not allowed: it must be one of toy"):
        plans.load("toys")
    with pytest.raises(ParameterError, match="many is not in plan published of toy: it has grid, tuned"):
        plans.load("toy").read("many")
    (plans.PLANS / "toy.yml").write_text("published: {}")
    with pytest.raises(ParameterError, match=r"toy.yml must name the module of its study"):
        plans.load("toy")


# Tuning on a grid that grows


class Answers:
    """A ``get`` with a known best rate; keeps what was asked for."""

    def __init__(self, best, diverges_at=float("inf")):
        self.best, self.diverges_at, self.asked = best, diverges_at, []

    def __call__(self, function, jobs):
        self.asked.append([job["learning_rate"] for job in jobs])
        return [
            {"validation": None if job["learning_rate"] >= self.diverges_at else -abs(job["learning_rate"] - self.best)}
            for job in jobs
        ]


@pytest.mark.parametrize(
    ("best", "chosen", "grid"),
    [(2.0, 2.0, [1, 2, 4]), (9.0, 8.0, [1, 2, 4, 8, 16]), (0.2, 0.25, [0.25, 0.5, 1, 2, 4])],
)
def test_a_grid_grows_by_its_ratio_at_the_end_where_the_best_value_lies(best, chosen, grid):
    tuned_ = plans.tune(Answers(best), train, {"cell": {}}, [1.0, 2.0, 4.0])["cell"]
    assert tuned_.value == chosen
    assert sorted(tuned_.tried) == grid
    assert tuned_.at_edge == (chosen == 0.25)


def test_only_the_cells_that_need_it_grow():
    get = Answers(3.0)
    plans.tune(get, train, {"a": {}, "b": {}}, [1.0, 2.0], seeds=2, extensions=1)
    assert get.asked == [[1.0, 1.0, 2.0, 2.0] * 2, [1.0, 1.0, 2.0, 2.0, 4.0, 4.0] * 2]


def test_a_value_at_which_a_run_diverged_is_the_worst_and_the_smallest_score_may_be_the_best():
    tuned_ = plans.tune(Answers(4.0, diverges_at=4.0), train, {"cell": {}}, [1.0, 2.0, 4.0], seeds=1)["cell"]
    assert (tuned_.value, tuned_.tried[4.0]) == (2.0, float("-inf"))
    tuned_ = plans.tune(Answers(2.0), train, {"cell": {}}, [1.0, 2.0, 4.0], smaller=True, extensions=0)["cell"]
    assert (tuned_.value, tuned_.tried) == (4.0, {1.0: -1.0, 2.0: 0.0, 4.0: -2.0})


@pytest.mark.parametrize("values", [[1.0], [2.0, 1.0], [0.0, 1.0]])
def test_a_grid_that_does_not_increase_is_refused(values):
    with pytest.raises(ParameterError, match="values"):
        plans.tune(Answers(1.0), train, {"cell": {}}, values)
