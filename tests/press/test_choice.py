"""The tool of "Choose a model": its rule, its noise by two accountants, its refusals, and its programs."""

import contextlib
import io
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from dplib import accounting, claims, data
from dplib.checks import ParameterError
from dplib.data import DataError
from dplib.labels import patch_features
from press import choice, choice_evidence, choice_page
from press.choice import Problem

IMAGES = Problem(60000, 784, 10, 1.0, 1e-5, "image")
TABLE = Problem(600, 100, 2, 0.5, 1e-5, "table")
LABELS = replace(IMAGES, private="labels", epsilon=2.0)


def images(n, seed=0):
    """Small digits, shifted and made as large as MNIST's: images that no result was learned from, and their labels."""
    found = data.tasks.task("digits", "image", split_seed=seed)
    large = [np.kron(x, np.ones((1, 1, 3, 3), np.float32)) for x in (found.x_train[:n], found.x_test)]
    return {"x": large[0], "y": found.y_train[:n], "x_test": large[1], "y_test": found.y_test}


def rows(seed=0):
    """scikit-learn's table of tumours: 569 rows of 30 numbers, over the largest of each column; a quarter tests."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    order, x = np.random.default_rng(seed).permutation(len(x)), x / x.max(axis=0)
    train, test = order[142:], order[:142]
    return {"x": x[train], "y": y[train], "x_test": x[test], "y_test": y[test]}


def run(answer, arrays, library="dplib", noiseless=False, seed=0):
    """Percent that a printed program prints; programs for other libraries go on from that for dplib."""
    programs = choice.code(answer)
    space = {**arrays, "bound": math.sqrt(arrays["x"].shape[1])}
    for name in dict.fromkeys(("dplib", library)):
        text = programs[name].replace("default_rng()", f"default_rng({seed})")
        text = re.sub(r"noise_multiplier=[\d.]+", "noise_multiplier=0.0", text) if noiseless else text
        torch.manual_seed(seed)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile(text, f"{answer.method}, {name}", "exec"), space)
    return 100 * float(said.getvalue())


def constant(arrays):
    """Percent of always naming the most frequent class of the training part."""
    return 100 * float((arrays["y_test"] == np.bincount(arrays["y"]).argmax()).mean())


def without_noise(answer, arrays, library="dplib", seeds=1):
    """Percent of a program without noise: DP-SGD's is 0; noise on labels vanishes at so large an epsilon."""
    if answer.settings is None:
        answer = replace(answer, problem=replace(answer.problem, epsilon=50.0))
    return np.mean([run(answer, arrays, library, noiseless=True, seed=seed) for seed in range(seeds)])


def kept(answer, arrays, seeds=1):
    """The share of the gain over a constant that the program for dplib keeps, by means over seeds."""
    floor = constant(arrays)
    private = np.mean([run(answer, arrays, seed=seed) for seed in range(seeds)])
    return (private - floor) / (without_noise(answer, arrays, seeds=seeds) - floor)


@pytest.fixture
def remembered(monkeypatch):
    """Features of the same images are computed once."""
    known = {}

    def of_images(train, test, recipe, **how):
        key = (id(train), recipe, *how.items())
        if key not in known:
            known[key] = real(train, test, recipe, **how)
        return known[key]

    real = patch_features.of_images
    monkeypatch.setattr(patch_features, "of_images", of_images)


# Three questions: images with the n epsilon of 60,000 at epsilon 1, a table of 427 rows at two budgets, private labels.
CHECKED = {
    "images": (replace(IMAGES, n=6000, d=576, epsilon=16.0), lambda: images(6000), 5),
    "table": (Problem(427, 30, 2, 0.5, 1e-5, "table"), rows, 5),
    "table, more budget": (Problem(427, 30, 2, 8.0, 1e-5, "table"), rows, 5),
    "labels": (replace(LABELS, n=6000, d=576, delta=0.0), lambda: images(6000), 1),
}


@pytest.mark.parametrize("name", CHECKED)
def test_the_printed_programs_keep_what_is_promised_on_data_that_nothing_was_learned_from(name, remembered):
    problem, arrays, seeds = CHECKED[name]
    answer, given = choice.choose(problem), arrays()
    assert (answer.share is None) == (name in ("table", "labels")), choice.promise(answer)  # there: a constant
    assert kept(answer, given, seeds) >= (answer.share or 0.0) - 0.05  # of 450 or 142 test records
    other = next(library for library in choice.code(answer) if library != "dplib")
    same = without_noise(answer, given, seeds=seeds)
    assert without_noise(answer, given, other, seeds) == pytest.approx(same, abs=5.0)
    assert 0 <= run(answer, given, other) <= 100


def test_the_programs_for_small_networks_run():
    """A few steps of the convolutional network, and two stages, on images of 28 by 28."""
    given = images(600)
    given |= {name: np.pad(given[name], ((0, 0), (0, 0), (2, 2), (2, 2))) for name in ("x", "x_test")}
    for method in ("cnn", "stages"):
        one = next(one for one in choice_evidence.table() if one.method == method)
        problem = Problem(600, 784, 10, 3.0, 1e-5, "image", one.private)
        settings = choice.settings(problem, one)
        answer = choice.Answer(problem, one, settings=settings and replace(settings, steps=3, batch=100))
        for library in choice.code(answer):
            assert 0 <= run(answer, given, library) <= 100


@pytest.mark.long
@pytest.mark.parametrize(("problem", "private"), [(IMAGES, "records"), (LABELS, "labels")])
def test_the_promise_is_kept_on_fashion_mnist(problem, private):
    """60,000 images, of a set whose results are not looked at."""
    try:
        found = data.load("fashion-mnist", allow_download=False)
    except DataError:
        pytest.skip("Fashion-MNIST is not here")
    arrays = {name: getattr(found, name) for name in ("x_train", "y_train", "x_test", "y_test")}
    arrays |= {"x": arrays.pop("x_train"), "y": arrays.pop("y_train")}
    answer = choice.choose(problem, leave_out=["fashion-mnist"])
    assert kept(answer, arrays) >= answer.share


def test_every_program_has_no_gap_and_fits_its_box():
    for one in choice_evidence.table():
        n, d, classes, delta = one.data.n, one.data.d, one.data.classes, 0.0 if one.method in choice.PURE else 1e-5
        pure = Problem(n, d, classes, max(one.epsilon, 0.005), delta, one.data.kind, one.private)
        programs = choice.code(choice.Answer(pure, one, settings=choice.settings(pure, one)))
        assert "dplib" in programs
        for text in programs.values():
            assert "$" not in text
            assert max(map(len, text.splitlines())) <= 120
            assert len([line for line in text.splitlines() if line and line[0] != "#"]) <= 16
            compile(text, one.method, "exec")


def test_objective_perturbation_runs():
    answer, given = choice.choose(Problem(20000, 30, 2, 1.0, 0.0, "table")), rows()
    assert answer.method in choice.PURE
    assert constant(given) - 15 < run(answer, given) <= 100


def test_the_nearest_data_set_is_the_nearest():
    """3,072 numbers are nearer to CIFAR-10 than to MNIST, whatever model was trained on either."""
    answer = choice.choose(replace(IMAGES, d=3072))
    assert answer.nearest.data.name == "cifar10-jpeg"
    alike = [one.data for one in choice_evidence.table() if one.data.kind == "image"]
    assert answer.distance == min(choice.distance(answer.problem, one) for one in alike) < 0.2
    assert choice.choose(IMAGES).nearest.data.name != "cifar10-jpeg"


MEASURED = [
    IMAGES, replace(IMAGES, n=20000), replace(TABLE, n=6000), replace(TABLE, n=6000, delta=0.0), LABELS,
    replace(LABELS, epsilon=0.5), replace(LABELS, delta=0.0),
]  # fmt: skip


@pytest.mark.parametrize("problem", MEASURED)
def test_the_best_that_was_measured_is_advised_and_no_promise_rests_on_a_larger_budget(problem):
    answer = choice.choose(problem)
    usable = [
        one for one in choice_evidence.table() if choice.protects(one, problem) and choice.affordable(one, problem)
    ]
    own = [one for one in usable if one.data.name == answer.nearest.data.name]
    assert all(one.accuracy.value <= answer.nearest.accuracy.value for one in answer.others)
    assert {one.method for one in (*answer.others, answer.nearest)} == {one.method for one in own}
    near = [one for one in usable if choice.distance(problem, one.data) <= choice.REACH]
    assert (answer.nearest in near) == (answer.distance <= choice.REACH) == (answer.share is not None)
    if answer.share is None:
        return
    assert answer.share <= answer.nearest.share
    assert answer.share in [one.share for one in near if one.method == answer.method]


def test_a_data_set_that_is_left_out_is_not_looked_at():
    answer = choice.choose(IMAGES, leave_out=["mnist"])
    assert "mnist" not in {answer.worst, *(one.data.name for one in (answer.nearest, *answer.others))}


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (replace(IMAGES, n=10**7, delta=1e-8), "nobody here measured it; the nearest"),
        (replace(IMAGES, n=1000), "more than a factor of ten away"),
        (replace(TABLE, kind="text"), "nobody here measured it"),
        (replace(IMAGES, delta=0.0), "nobody here measured it"),
        (replace(TABLE, private="labels", delta=0.0, epsilon=0.02, n=200), "none"),
    ],
)
def test_what_nobody_measured_has_no_number(problem, says):
    answer = choice.choose(problem)
    assert answer.share is None
    assert says in choice.promise(answer)
    assert "%" not in choice.promise(answer)
    assert choice.nearest(answer)


def test_the_promise_becomes_an_accuracy_where_the_one_without_noise_is_known():
    answer = choice.choose(replace(IMAGES, without_noise=97.0, frequent_class=20.0))
    assert answer.promised == pytest.approx(20 + answer.share * 77)
    assert f"which is {answer.promised:.1f}%" in choice.promise(answer)
    assert choice.choose(IMAGES).promised is None


def test_the_sizes_of_the_images_are_those_of_the_files():
    for name, (n, d, share) in choice_evidence.IMAGES.items():
        try:
            found = data.load(name, allow_download=False)
        except DataError:
            continue
        assert (len(found.y_train), found.x_train[0].size) == (n, d)
        assert 100 * np.bincount(found.y_test).max() / len(found.y_test) == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"delta": 1e-4}, "delta"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"n": 5}, "n"),
        ({"kind": "sound"}, "kind"),
        ({"private": "nothing"}, "private"),
        ({"private": "labels", "epsilon": 0.01}, "epsilon"),
        ({"without_noise": 9.0}, "without_noise"),
        ({"frequent_class": 5.0}, "frequent_class"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(wrong, named):
    with pytest.raises(ParameterError, match=f"^{named} = .* is not allowed: ") as refused:
        replace(IMAGES, **wrong)
    assert "\n" not in str(refused.value)


def test_two_accountants_agree():
    """By privacy loss distributions the settings spend at most the budget, and not much less."""
    for problem in (IMAGES, replace(IMAGES, epsilon=5.0), replace(TABLE, delta=1e-6)):
        settings = choice.choose(problem).settings
        assert 0.8 * problem.epsilon < settings.spent <= 1.001 * problem.epsilon


def test_private_labels_get_half_the_budget_from_dp_sgd():
    """Removing a record and adding another replaces a label: epsilon twice, delta (1 + e^epsilon) times."""
    problem = replace(TABLE, private="labels", n=6000)
    assert problem.record_epsilon == 0.25
    assert problem.record_delta == pytest.approx(1e-5 / (1 + math.exp(0.25)))
    settings = choice.choose(problem).settings
    spent = accounting.epsilon(settings.noise_multiplier, 1.0, settings.steps, problem.record_delta, "pld")
    assert spent <= 0.25


def test_the_papers_advice_has_rows_with_verdicts():
    for one in choice.words()["advice"]:
        assert claims.get(one["row"]).expects in claims.VERDICTS
    for text in re.findall(r"\(chapter \d+, ([A-D]\.[\w.-]+)\)", json.dumps(choice.words(), ensure_ascii=False)):
        assert claims.get(text)


def test_the_page_is_small_and_carries_its_data():
    answer = choice.choose(IMAGES)
    page = choice_page.page(answer)
    assert len(page.encode()) < choice_page.LIMIT
    embedded = json.loads(page.partition('id="choose-data">')[2].partition("</script>")[0])
    assert len(embedded["results"]) == len(choice_evidence.table())
    for problem, private in ((IMAGES, "records"), (replace(IMAGES, private="labels", epsilon=0.5), "labels")):
        s = choice.settings(problem, choice.choose(IMAGES).nearest)
        noise = embedded["noise"][private][f"{s.sample_rate:.5f} {s.steps}"]["1e-05"][f"{problem.epsilon:g}"]
        assert noise == f"{s.noise_multiplier:.3f}"
