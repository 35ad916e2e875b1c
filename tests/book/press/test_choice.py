"""The tool of "Choose a model": its rule, its noise by two accountants, its refusals, and its programs."""

import functools
import json
import math
import random
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from book.evidence import claims, plans
from book.press import choice, choice_evidence, choice_page
from book.press.choice import Problem
from dplib import accounting, data
from dplib.checks import ParameterError
from dplib.data import DataError
from papers.architecture import advice_tables
from papers.labels import later_method_runs, patch_features
from tests.book.press.choice_trial import constant, of_table, run

IMAGES = Problem(60000, 784, 10, 1.0, 1e-5, "image")
TABLE = Problem(600, 100, 2, 0.5, 1e-5, "table")
LABELS = replace(IMAGES, private="labels", epsilon=2.0)


def protects(result, problem):
    """Whether a method protects what is asked for, with the delta asked for, from whoever may not see it."""
    return choice.rule.protects(choice.limits(), choice.plain(result), choice.asked(problem))


def affordable(result, problem):
    """Whether a result's budget is at most the problem's."""
    return choice.rule.affordable(choice.limits(), choice.plain(result), choice.asked(problem))


def distance(problem, other):
    """From a problem to a data set, in decades."""
    return choice.rule.distance(vars(problem), vars(other))


def why(answer):
    """Where nobody measured what is asked, three lines on why; else none."""
    return choice.rule.why(choice.data(), choice.asked(answer.problem), choice.answered(answer))


def caveats(answer):
    """What goes with a method, and with a budget that promises little."""
    return choice.rule.caveats(choice.data(), choice.asked(answer.problem), choice.answered(answer))


@functools.cache
def images(n, side=24):
    """Small digits, shifted and made larger: images that no result was learned from, and their labels."""
    task_ = data.tasks.task("digits", "image")
    edge = ((0, 0), (0, 0), *[((side - 24) // 2,) * 2] * 2)
    large = [
        np.pad(np.kron(x, np.ones((1, 1, 3, 3), np.float32)), edge) for x in (task_.x_train[:n], task_.x_test[:300])
    ]
    return {"x": large[0], "y": task_.y_train[:n], "x_test": large[1], "y_test": task_.y_test[:300]}


@pytest.fixture(scope="module", autouse=True)
def remembered():
    """Features of the same images are computed once."""
    known = {}

    def of_images(train, test, recipe, **how):
        key = (id(train), recipe, *how.items())
        if key not in known:
            known[key] = (real(train, test, recipe, **how), train)
        return known[key][0]

    real = patch_features.of_images
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patch_features, "of_images", of_images)
        yield


@functools.cache
def ordinary(name):
    """Percent of logistic regression without privacy, on what a program of :data:`PROGRAMS` is given."""
    given = PROGRAMS[name][1]()
    rows = [given[part].reshape(len(given[part]), -1) for part in ("x", "x_test")]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    return 100 * model.fit(rows[0], given["y"]).score(rows[1], given["y_test"])


def answered(problem, method, **changed):
    """An answer by a method of its own, with some of its settings changed."""
    result = next(
        result_ for result_ in choice_evidence.table() if result_.method == method and protects(result_, problem)
    )
    settings = choice.settings(problem, result)
    return choice.Answer(problem, result, settings=settings and replace(settings, **changed))


# Every method with a program: a problem, what its program is given, the part of ordinary training's gain over a
# constant that it must keep there, and settings for fewer steps.
SMALL = replace(LABELS, n=1200, d=576, epsilon=8.0)
PROGRAMS = {
    "rows": (Problem(2250, 36, 2, 1.0, 1e-5, "table"), lambda: of_table("mixed"), 0.85, {}),
    "rows, 10 classes": (Problem(3000, 60, 10, 1.0, 1e-5, "table"), lambda: of_table("binary, 10 classes"), 0.6, {}),
    "rows, categories": (Problem(1500, 48, 2, 1.0, 1e-5, "table"), lambda: of_table("categories"), 0.8, {}),
    "rows, labels": (
        Problem(2250, 36, 2, 2.0, 1e-5, "table", "labels"), lambda: of_table("mixed"), 0.85, {}),
    "rows, n private": (
        Problem(2250, 36, 2, 1.0, 1e-5, "table", public_n=False), lambda: of_table("mixed"), 0.85, {}),
    "objective": (Problem(2250, 36, 2, 3.0, 0.0, "table"), lambda: of_table("mixed"), 0.7, {}),
    "features": (replace(IMAGES, n=1200, d=576, epsilon=30.0), lambda: images(1200), 0.7, {}),
    "cnn": (
        replace(IMAGES, n=1200, epsilon=50.0), lambda: images(1200, 28), 0.5,
        {"steps": 80, "sample_rate": 0.1, "batch": 120, "noise_multiplier": 0.6}),
    "subset": (SMALL, lambda: images(1200), 0.7, {}),
    "rr": (SMALL, lambda: images(1200), 0.7, {}),
    "clusters-soft": (SMALL, lambda: images(1200), 0.7, {}),
    "sums": (SMALL, lambda: images(1200), 0.7, {}),
    "unprojected": (SMALL, lambda: images(1200), 0.7, {}),
    "stages": (replace(SMALL, d=784), lambda: images(1200, 28), 0.5, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_keeps_a_part_of_what_ordinary_training_gains(name):
    problem, given, part, changed = PROGRAMS[name]
    answer, arrays = answered(problem, name.partition(",")[0], **changed), given()
    least = constant(arrays) + part * (ordinary(name) - constant(arrays))
    for library in choice.code(answer):
        if library == "dplib" or name in ("rows", "features", "sums"):
            assert run(answer, arrays, library) >= least, library


def test_every_method_that_is_advised_has_a_program_that_is_run_here():
    methods = {result.method for result in choice_evidence.table()} - {*choice_evidence.LISTED}
    assert methods == {name.partition(",")[0] for name in PROGRAMS}


def drawn(rng):
    """A problem of the form, any that it takes."""
    classes, n = rng.choice([2, 2, 3, 5, 10, 26]), round(10 ** rng.uniform(2, 6))
    kind = rng.choice(["table", "table", "image", "text"])
    return Problem(
        n, rng.choice([4, 30, 100, 784, 3072]), classes, rng.choice([0.05, 0.1, 0.5, 1.0, 3.0, 10.0]),
        rng.choice([None, None, 0.0]), kind, rng.choice(["records", "records", "labels"]),
        rng.choice(["curator", "curator", "nobody"]), rng.random() < 0.7, rng.random() < 0.3,
    )  # fmt: skip


def test_two_hundred_random_problems_have_a_program_that_runs_or_say_that_nobody_measured_it():
    """Programs on a few rows or images, with a few steps: of images each method once, of tables all."""
    rng, seen, programs = random.Random(42), set(), 0
    small = images(120, 28)
    for _ in range(200):
        problem = drawn(rng)
        answer = choice.choose(problem)
        said = dict(choice.lines(answer))
        assert said["Promise"]
        if answer.nearest is None:
            assert not choice.code(answer)
            assert "nobody measured this" in said["Promise"]
            assert len(why(answer)) == 3
            continue
        programs += 1
        texts = choice.code(answer)
        assert texts
        assert not any("$" in text for text in texts.values())
        if problem.kind == "table":
            x = np.random.default_rng(programs).uniform(0, 1, (80, 4))
            y = np.arange(80) % problem.classes
            given = {"x": x, "y": y, "x_test": x, "y_test": y, "low": [0] * 4, "high": [1] * 4, "categories": []}
        elif answer.method in seen:
            continue
        else:
            given = small | {"y": small["y"] % problem.classes, "y_test": small["y_test"] % problem.classes}
        seen.add(answer.method)
        assert 0 <= run(answer, given, short=True) <= 100
    assert programs > 60
    assert len(seen) >= 6


def test_a_network_is_advised_for_the_images_that_its_program_takes():
    assert choice.choose(IMAGES).method == "cnn"
    for other in (replace(IMAGES, d=576), replace(IMAGES, classes=9)):
        answer = choice.choose(other)
        assert answer.method == "features"
        assert "cnn" in {other_.method for other_ in answer.others}


@pytest.mark.long
def test_the_promise_for_private_labels_is_kept_on_fashion_mnist():
    """60,000 images, of a set whose results are not looked at."""
    try:
        loaded = data.load("fashion-mnist", allow_download=False)
    except DataError:
        pytest.skip("Fashion-MNIST is not here")
    arrays = {name: getattr(loaded, name) for name in ("x_train", "y_train", "x_test", "y_test")}
    arrays |= {"x": arrays.pop("x_train"), "y": arrays.pop("y_train")}
    answer = choice.choose(LABELS, leave_out=["fashion-mnist"])
    best = max(result.ordinary for result in choice_evidence.table() if result.data.name == "fashion-mnist")
    assert run(answer, arrays) >= constant(arrays) + answer.share * (best - constant(arrays))


def test_every_program_has_no_gap_and_fits_its_box():
    for result in choice_evidence.table():
        n, d, classes, delta = (
            result.data.n,
            result.data.d,
            result.data.classes,
            0.0 if result.method in choice.PURE else 1e-5,
        )
        pure = Problem(n, d, classes, max(result.epsilon, 0.005), delta, result.data.kind, result.private)
        programs = choice.code(choice.Answer(pure, result, settings=choice.settings(pure, result)))
        assert ("dplib" in programs) == (result.method not in choice_evidence.LISTED)
        for text in programs.values():
            assert "$" not in text
            assert max(map(len, text.splitlines())) <= 120
            assert len([line for line in text.splitlines() if line and line[0] != "#"]) <= 20
            compile(text, result.method, "exec")


def test_a_program_draws_from_the_secure_source_where_the_library_has_it_and_says_so():
    """All of them had NumPy's generator, which dplib.secure says is none for a release."""
    for name, (problem, *_) in PROGRAMS.items():
        method = name.partition(",")[0]
        text = choice.code(answered(problem, method))["dplib"]
        if method in ("subset", "sums", "unprojected"):  # of which the library has experiments alone
            assert "# an experiment" in text, name
        else:
            assert re.search(r"# .*nobody can draw again, for a release", text), name
            assert re.search(r"secure=True|rng=None|, None[,)]", text), name


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (
            Problem(5000, 40, 2, 1.0, 1e-5, "table"),
            "(1, 1e-05): one record added or removed, one Gaussian release of a",
        ),
        (Problem(5000, 40, 2, 1.0, 0.0, "table"), "ε = 1, δ = 0: one record added or removed, objective perturbation"),
        (
            Problem(5000, 40, 2, 1.0, 1e-5, "table", "labels"),
            "one label replaced, as (ε/2, δ/(1 + e^(ε/2))) for one rec",
        ),
        (IMAGES, "(1, 1e-05): one record added or removed, Poisson batches, one training, Rényi DP"),
        (replace(LABELS, who="nobody"), "ε = 2, δ = 0: one label replaced, each label is randomised by itself"),
        (replace(LABELS, d=3072, epsilon=0.5), "(0.5, 1e-05): one label replaced, a curator's Gaussian noise"),
        (replace(TABLE, who="nobody"), "no method is advised for (ε, δ) = (0.5, 1e-05)"),
    ],
)
def test_the_accounting_is_that_of_the_method_that_is_advised(problem, says):
    assert says in choice.accounted(choice.choose(problem))


def test_an_answer_has_what_it_knows_and_nothing_else():
    assert choice.summary(choice.choose(replace(TABLE, who="nobody"))) == {
        "method": "none",
        "constant_prediction": 50.0,
    }
    network, rows = (
        choice.summary(choice.choose(problem)) for problem in (IMAGES, Problem(5000, 40, 2, 1.0, 1e-5, "table"))
    )
    assert network["method"] == "cnn"
    assert network["noise_multiplier"] > 0
    assert "noise_multiplier" not in rows
    assert 0 < rows["promised_percent_of_the_gain"] < 100


def test_private_labels_that_nobody_may_see_are_not_told_of_whole_records():
    asked = replace(TABLE, private="labels", who="nobody")
    assert why(choice.choose(asked)) == choice.words()["says"]["why"]["table"]
    assert why(choice.choose(replace(asked, delta=0.0))) == choice.words()["says"]["why"]["table"]
    assert "whole record" in why(choice.choose(replace(TABLE, who="nobody")))[0]


def test_the_nearest_data_set_is_the_nearest():
    """3,072 numbers are nearer to CIFAR-10 than to MNIST, whatever model was trained on either."""
    answer = choice.choose(replace(IMAGES, d=3072))
    assert answer.nearest.data.name == "cifar10-jpeg"
    alike = [result.data for result in choice_evidence.table() if result.data.kind == "image"]
    assert answer.distance == min(distance(answer.problem, one) for one in alike) < 0.2
    assert choice.choose(IMAGES).nearest.data.name != "cifar10-jpeg"


MEASURED = [
    IMAGES, replace(IMAGES, n=20000), LABELS, replace(LABELS, epsilon=0.5), replace(LABELS, delta=0.0),
    replace(LABELS, d=3072), replace(LABELS, d=3072, epsilon=0.5),
]  # fmt: skip


@pytest.mark.parametrize("problem", MEASURED)
def test_the_best_that_was_measured_is_advised_and_no_promise_rests_on_a_larger_budget(problem):
    answer = choice.choose(problem)
    usable = [result for result in choice_evidence.table() if protects(result, problem) and affordable(result, problem)]
    values = [one for one in usable if one.data.name == answer.nearest.data.name]
    printed = [other for other in answer.others if other.method not in choice_evidence.LISTED]
    assert all(one.accuracy.value <= answer.nearest.accuracy.value for one in printed)
    assert {one.method for one in (*answer.others, answer.nearest)} == {value_.method for value_ in values}
    near = [one for one in usable if distance(problem, one.data) <= choice.REACH]
    assert (answer.nearest in near) == (answer.distance <= choice.REACH) == (answer.share is not None)
    if answer.share is None:
        return
    assert answer.share <= answer.nearest.share
    assert answer.share in [one.share for one in near if one.method == answer.method]


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("delta", [1e-5, 0.0])
def test_private_labels_are_given_what_chapter_10_found_best(epsilon, delta):
    """On the copies of CIFAR-10: of its methods none with the delta asked for is ahead and not listed beside."""
    answer = choice.choose(Problem(45_000, 3072, 10, epsilon, delta, "image", "labels"))
    show = plans.load("10")
    values = [show.read(part)["cifar10-jpeg"] for part in ("methods", "later")]
    values = [value_ for value_ in values if epsilon in value_.epsilons]
    means = {name: value_.mean(name, epsilon).value for value_ in values for name in value_.test if name != "clean"}
    allowed = set(means) - (set() if delta else set(later_method_runs.CENTRAL))
    ahead = {name for name in allowed if means[name] > answer.nearest.accuracy.value + 1e-9}
    assert ahead <= {other.method for other in answer.others} & {*choice_evidence.LISTED}
    best = {0.1: "unprojected", 0.5: "sums", 1.0: "sums"} if delta else {0.1: "clusters-soft"}
    assert answer.method == best.get(epsilon, "subset")


def test_a_curator_needs_a_delta_and_no_more_noise_than_was_measured():
    asked = Problem(45_000, 3072, 10, 0.5, 1e-5, "image", "labels")
    sums = next(result for result in choice_evidence.table() if (result.method, result.epsilon) == ("sums", 0.5))
    assert protects(sums, asked)
    assert not protects(sums, replace(asked, delta=0.0))
    assert affordable(sums, asked)
    assert not affordable(sums, replace(asked, delta=1e-6))
    assert affordable(sums, replace(asked, n=60_000, delta=1e-6))
    assert any("trusted" in text for text in caveats(choice.choose(asked)))


def test_a_data_set_that_is_left_out_is_not_looked_at():
    answer = choice.choose(IMAGES, leave_out=["mnist"])
    assert "mnist" not in {answer.worst, *(one.data.name for one in (answer.nearest, *answer.others))}


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (replace(IMAGES, n=10**7, delta=1e-8), "the nearest data set is more than a factor of ten away"),
        (replace(IMAGES, n=1000), "more than a factor of ten away"),
        (replace(TABLE, kind="text"), "nobody measured this"),
        (replace(IMAGES, delta=0.0), "nobody measured this"),
        (replace(TABLE, who="nobody"), "nobody measured this"),
        (replace(IMAGES, who="nobody"), "nobody measured this"),
        (replace(TABLE, delta=0.0, classes=3), "nobody measured this"),
        (replace(TABLE, n=10**6, delta=None), "none"),
        (replace(TABLE, epsilon=0.01, n=100), "none"),
    ],
)
def test_what_nobody_measured_has_no_number(problem, says):
    answer = choice.choose(problem)
    assert answer.share is None
    assert says in choice.promise(answer)
    assert "%" not in choice.promise(answer)
    assert choice.nearest(answer)
    assert len(why(answer)) == (3 if answer.nearest is None else 0)


def test_who_may_see_nothing_gets_no_program_that_shows_it_to_a_curator():
    """Labels that each person randomises: no sum of a curator, and no DP-SGD."""
    for epsilon in (0.1, 0.5, 1.0, 4.0):
        answer = choice.choose(replace(LABELS, d=3072, epsilon=epsilon, who="nobody"))
        every = [answer.nearest, *answer.others]
        assert all(one.private == "labels" and one.sigma is None for one in every)
    assert choice.choose(replace(LABELS, d=3072, epsilon=0.5)).method in later_method_runs.CENTRAL


@pytest.mark.parametrize(("n", "delta"), [(600, 1e-5), (60_000, 1e-5), (100_000, 1e-6), (10**6, 1e-7), (10**9, 1e-10)])
def test_delta_is_by_default_below_one_over_n(n, delta):
    problem = replace(TABLE, n=n, delta=None)
    assert problem.delta == pytest.approx(delta)
    assert problem.delta < 1 / n


def test_a_table_is_promised_what_the_others_kept():
    """By rule 6, for the three tables that nothing was chosen on and for each that is left out."""
    answer = choice.choose(Problem(5000, 40, 2, 1.0, 1e-5, "table"))
    assert answer.method == "rows"
    assert answer.share is not None
    advice = choice_evidence.advice()
    for point in advice.lines["gradient"][::7]:
        asked = Problem(point.n, point.columns, point.classes, point.epsilon, 1e-5, "table")
        said = choice.choose(asked, leave_out=[point.table])
        assert said.share == advice.promise("gradient", point.strength, point.table).share
        assert said.nearest.data.name != point.table


def test_the_tables_of_the_issue_are_not_among_those_that_anything_was_chosen_on():
    assert not {*advice_tables.MADE} & {*advice_tables.NAMES}


def test_the_promise_becomes_an_accuracy_where_that_of_ordinary_training_is_known():
    answer = choice.choose(replace(IMAGES, ordinary=97.0, frequent_class=20.0))
    assert answer.promised == pytest.approx(20 + answer.share * 77)
    assert f"which is {answer.promised:.1f}%" in choice.promise(answer)
    assert choice.choose(IMAGES).promised is None


def test_the_sizes_of_the_images_are_those_of_the_files():
    for name, (n, d, share) in choice_evidence.IMAGES.items():
        try:
            loaded = data.load(name, allow_download=False)
        except DataError:
            continue
        assert (len(loaded.y_train), loaded.x_train[0].size) == (n, d)
        assert 100 * np.bincount(loaded.y_test).max() / len(loaded.y_test) == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"delta": 1e-4}, "delta"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"n": 5}, "n"),
        ({"kind": "sound"}, "kind"),
        ({"private": "nothing"}, "private"),
        ({"private": "labels", "epsilon": 0.01}, "epsilon"),
        ({"ordinary": 9.0}, "ordinary"),
        ({"who": "everybody"}, "who"),
        ({"public_n": 1}, "public_n"),
        ({"frequent_class": 5.0}, "frequent_class"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(wrong, named):
    with pytest.raises(ParameterError, match=f"^{named} = .* is not allowed: ") as refused:
        replace(IMAGES, **wrong)
    assert "\n" not in str(refused.value)


def test_two_accountants_agree():
    """By privacy loss distributions the settings spend at most the budget, and not much less."""
    for problem in (IMAGES, replace(IMAGES, epsilon=5.0), replace(IMAGES, d=3072, delta=1e-6)):
        settings = choice.choose(problem).settings
        assert 0.8 * problem.epsilon < settings.spent <= 1.001 * problem.epsilon


def test_private_labels_get_half_the_budget_from_dp_sgd():
    """Removing a record and adding another replaces a label: epsilon twice, delta (1 + e^epsilon) times."""
    problem = replace(IMAGES, private="labels")
    assert problem.record_epsilon == 0.5
    assert problem.record_delta == pytest.approx(1e-5 / (1 + math.exp(0.5)))
    s = choice.settings(problem, choice.choose(IMAGES).nearest)
    assert accounting.epsilon(s.noise_multiplier, s.sample_rate, s.steps, problem.record_delta, "pld") <= 0.5
    assert (
        "epsilon=0.5 / 2, delta=1e-05 / (1 + np.exp(0.5 / 2))"
        in choice.code(choice.choose(replace(TABLE, private="labels")))["dplib"]
    )


def test_the_papers_advice_has_rows_with_verdicts():
    for word in choice.words()["advice"]:
        assert claims.get(word["row"]).expects in claims.VERDICTS
    for text in re.findall(r"\(chapter \d+, ([A-Z]\.[\w.-]+)\)", json.dumps(choice.words(), ensure_ascii=False)):
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
        assert noise == s.noise_multiplier
