"""The tool of "Choose a model": its chart, its numbers, its refusals, and its noise by two accountants."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from dplib import accounting, claims, plans
from dplib.architecture import crossover_models
from dplib.checks import ParameterError
from press import choice, choice_evidence, choice_figure, choice_page, choice_rules, choice_text
from press.choice import Problem

IMAGES = Problem(60000, 784, 10, 1.0, 1e-5, "image")
TABLE = Problem(20000, 100, 2, 0.1, 1e-5, "table")
# One problem for every leaf of the chart.
REACHED = {
    "linear-image": replace(IMAGES, epsilon=0.1),
    "small-image": replace(IMAGES, epsilon=0.3),
    "cnn": IMAGES,
    "image-little-data": replace(IMAGES, n=500),
    "image-pure-dp": replace(IMAGES, delta=0.0),
    "constant": replace(TABLE, n=500),
    "constant-pure": replace(TABLE, n=500, delta=0.0),
    "linear-table": TABLE,
    "small-table": replace(TABLE, classes=30),
    "objective-few": replace(TABLE, delta=0.0, epsilon=0.2),
    "objective-all": replace(TABLE, delta=0.0, epsilon=10.0),
    "recurrent": replace(TABLE, kind="text", epsilon=10.0),
    "text-little-data": replace(TABLE, n=500, kind="text"),
    "text-pure-dp": replace(TABLE, kind="text", delta=0.0),
    "stages": replace(IMAGES, private="labels", epsilon=3.0),
    "stages-pure": replace(IMAGES, private="labels", delta=0.0),
    "clusters": replace(IMAGES, private="labels", delta=0.0, epsilon=0.1),
    "labels-other": replace(TABLE, private="labels"),
}


def frozen_numbers(chapter):
    """Every number of a chapter's frozen file, at any depth."""

    def found(node):
        if isinstance(node, dict):
            node = list(node.values())
        if isinstance(node, list):
            for one in node:
                yield from found(one)
        elif isinstance(node, int | float):
            yield float(node)

    return set(found(choice_evidence.run(chapter)))


def test_every_leaf_is_reached_and_no_other_exists():
    assert {leaf.name for leaf in choice_rules.leaves()} == set(REACHED)
    for name, problem in REACHED.items():
        assert choice_rules.walk(problem.facts)[1].name == name


def test_every_leaf_cites_a_row_that_exists_or_says_that_nothing_was_measured():
    for leaf in choice_rules.leaves():
        assert leaf.cites or leaf.says.startswith("Not measured")
        assert not leaf.says.startswith("Not settled") or leaf.cites
        assert (leaf.family is None) or leaf.family in choice_evidence.FAMILIES
        for cite in leaf.cites:
            assert claims.get(cite.row).chapter[:2] == choice_evidence.chapter(cite.chapter)[:2]
            assert "{" not in cite.says


def test_every_number_of_the_evidence_is_frozen():
    """No accuracy, interval, budget, steps or batch is written in the module."""
    numbers = {name: frozen_numbers(name) for name in {one.chapter for one in choice_evidence.table()}}
    for one in choice_evidence.table():
        known = numbers[one.chapter]
        for value in (one.accuracy, one.low, one.high, one.without):
            assert value is None or value in known, one
        assert one.epsilon in known or f"eps{one.epsilon:g}" == one.key, one
        assert one.row in choice_evidence.run(one.chapter)["records"]
        assert one.low is None or one.low <= one.accuracy <= one.high


def test_the_sizes_of_the_data_sets_are_the_registered_ones():
    from dplib import data

    for one in {result.data.name: result.data for result in choice_evidence.table()}.values():
        if one.name != "sums":
            assert one.name in {row.name for row in data.table()}
    assert choice_evidence.datasets()["mnist"].n == 60000
    assert choice_evidence.datasets()["breast-cancer"].d == 43


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"delta": 0.5}, "delta"),
        ({"delta": 1e-4}, "delta"),
        ({"delta": -1e-5}, "delta"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"n": 5}, "n"),
        ({"n": 2.5}, "n"),
        ({"classes": 1}, "classes"),
        ({"kind": "sound"}, "kind"),
        ({"private": "nothing"}, "private"),
        ({"accuracy_without_privacy": 9.0}, "accuracy_without_privacy"),
        ({"frequent_class": 5.0}, "frequent_class"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(wrong, named):
    with pytest.raises(ParameterError, match=f"^{named} = .* is not allowed: ") as refused:
        replace(IMAGES, **wrong)
    assert "\n" not in str(refused.value)


def test_noise_falls_with_epsilon_and_with_delta():
    for change in ({"epsilon": 0.5}, {"epsilon": 2.0}):
        more, less = sorted([IMAGES, replace(IMAGES, **change)], key=lambda one: one.epsilon)
        rate = 1 / 64
        sigma = [accounting.noise_multiplier(one.epsilon, rate, 400, one.delta, "rdp") for one in (more, less)]
        assert sigma[0] > sigma[1]
    smaller = replace(IMAGES, delta=1e-7)
    assert choice.dpsgd(smaller, 400).noise_multiplier > choice.dpsgd(IMAGES, 400).noise_multiplier


def test_noise_of_the_mean_gradient_falls_with_epsilon_whatever_the_batch():
    rate, sigma, _ = choice.least_rate(np.array([0.05, 0.1, 0.5, 1.0, 5.0, 20.0]), 1e-5, 400)
    assert (np.diff(sigma / rate) < 0).all()


def test_the_batch_is_the_least_that_is_large_enough():
    for epsilon, steps in ((0.2, 250), (1.0, 400), (8.0, 1000)):
        rate, sigma, noise = choice.least_rate(epsilon, 1e-5, steps)
        every = accounting.noise_multiplier(epsilon, 1.0, steps, 1e-5, "rdp")
        half = accounting.noise_multiplier(epsilon, rate / 2, steps, 1e-5, "rdp") / (rate / 2)
        assert noise == pytest.approx(sigma / rate / every, rel=1e-4)
        assert noise <= choice.SLACK < half / every


def test_batch_and_noise_do_not_depend_on_the_number_of_records():
    a, b = (choice.dpsgd(replace(IMAGES, n=n), 400) for n in (10_000, 80_000))
    assert (a.sample_rate, a.noise_multiplier) == (b.sample_rate, b.noise_multiplier)
    assert b.batch == pytest.approx(8 * a.batch, rel=0.01)


def test_two_accountants_agree():
    """By privacy loss distributions the settings spend at most the budget, and not much less."""
    for problem in (IMAGES, replace(IMAGES, epsilon=5.0), replace(TABLE, delta=1e-6)):
        settings = choice.choose(problem).settings
        assert 0.8 * problem.epsilon < settings.spent <= 1.001 * problem.epsilon


def test_the_nearest_result_is_the_nearest():
    answer = choice.choose(IMAGES)
    point = (60000, 784, 10, 1.0)
    own = [one for one in choice_evidence.table() if (one.family, one.data.kind) == ("cnn", "image")]
    every = [choice.distance(point, (one.data.n, one.data.d, one.data.classes, one.epsilon)) for one in own]
    assert answer.distance == min(every)
    assert own[int(np.argmin(every))] is answer.nearest
    assert choice.distance((10, 1, 2, 1.0), (1000, 1, 2, 1.0)) == pytest.approx(2.0)
    assert choice.distance((10, 3, 2, 1.0), (100, 30, 2, 1.0)) == pytest.approx(math.sqrt(2))


def test_far_from_everything_there_is_no_number():
    answer = choice.choose(replace(IMAGES, n=10**6, delta=1e-7, accuracy_without_privacy=97.0))
    assert not answer.near
    assert answer.expected is None
    assert "too far" in choice_text.nearest(answer)
    assert choice_text.expected(answer).startswith("no number")


def test_a_data_set_without_a_neighbour_gives_no_interval():
    """Nobody knows how far Location's accuracy carries: no other table lies within a decade of it."""
    answer = choice.choose(Problem(4010, 446, 30, 1.54, 1e-5, "table", accuracy_without_privacy=73.0))
    assert answer.nearest.data.name == "location"
    assert answer.distance < 0.01
    assert answer.expected is None


def test_the_interval_is_the_worst_error_of_left_out_data_sets():
    known = choice.choose(replace(IMAGES, accuracy_without_privacy=97.0))
    worst = choice.worst("image", "records")
    share = choice.share_kept(known.nearest)
    assert known.carried == "share"
    assert known.expected.value == pytest.approx(10 + share * 87)
    assert known.expected.value - known.expected.low == pytest.approx(worst["share"])
    unknown = choice.choose(IMAGES)
    assert unknown.carried == "accuracy"
    assert unknown.expected.value == unknown.nearest.accuracy
    assert unknown.expected.high - unknown.expected.low > 2 * (known.expected.high - known.expected.low)


def test_leaving_out_uses_another_data_set_of_the_same_kind():
    for one in choice.left_out():
        assert one.result.data.name != one.neighbour.data.name
        assert (one.result.data.kind, one.result.private) == (one.neighbour.data.kind, one.neighbour.private)
        assert one.distance <= choice.REACH
        assert one.accuracy_error == one.neighbour.accuracy - one.result.accuracy
    assert choice.worst("text", "records") == {}
    # By hand: CIFAR-10's small network at its smallest budget, foretold from MNIST's at 2.11.
    cifar, mnist = (
        next(r for r in choice_evidence.table() if r.data.name == name and r.family == "small" and r.epsilon == epsilon)
        for name, epsilon in (("cifar10-jpeg", 2.34), ("mnist", 2.11))
    )
    found = next(one for one in choice.left_out() if one.result is cifar)
    assert found.neighbour == mnist
    share = (mnist.accuracy - 10) / (mnist.without - 10)
    assert found.share_error == pytest.approx(10 + share * (cifar.without - 10) - cifar.accuracy)


def test_a_constant_is_as_good_as_the_frequent_class():
    answer = choice.choose(replace(REACHED["constant"], frequent_class=70.0))
    assert answer.expected.value == 70.0
    assert choice_text.expected(answer).startswith("70.0%")
    assert answer.settings is None


def test_an_answers_numbers_are_frozen_or_computed_here():
    """Every percentage that stands beside a row is the rounded value of that row."""
    for problem in REACHED.values():
        answer = choice.choose(problem)
        if answer.near:
            assert f"{answer.nearest.accuracy:.1f}%" in dict(choice_text.lines(answer))["Nearest result"]
            assert answer.nearest.source in dict(choice_text.lines(answer))["Nearest result"]


def test_caveats_know_public_data_and_large_deltas():
    private, public = (
        [
            text
            for heading, text in choice_text.lines(choice.choose(replace(IMAGES, public=known)))
            if heading == "Caveat"
        ]
        for known in (False, True)
    )
    assert any("Without public data" in text for text in private)
    assert any("costs no ε" in text for text in public)
    assert any("45%" in text for text in private), "1 - (1 - 1e-5)^60000"
    assert not any("{" in text for text in private + public)


def test_the_papers_advice_is_marked_by_the_verdicts():
    marks = {one.row: one.mark for one in choice_text.advice()}
    for one in choice_text.advice():
        assert one.mark == choice_text.MARKS[choice_evidence.verdict(one.chapter, one.row)]
    assert len(marks) == len(choice_text.advice())


def test_sentences_without_a_value_still_say_what_their_rows_say():
    """A few words of choice.toml are about a row as a whole: they have to change when it does."""
    logistic = crossover_models.three(plans.load("04"))[0]["logistic regression"]["epsilon"]
    pair = "crossover_logistic_fcn"
    crossing = choice_evidence.crossing(choice_evidence.CROSSING, "B.crossover-three-models", pair)
    assert sum(epsilon < crossing for epsilon in logistic) == 1, "one budget below was run"
    rwt = choice_evidence.run(choice_evidence.DRIVERS)["records"]["B.intro-rwt"]["values"]
    assert all(one["value"] < 0 for key, one in rwt.items() if "full_training" in key)


def test_every_chart_is_drawn_whole():
    drawn = set()
    for _, start, handover in choice_figure.CHARTS.values():
        found = choice_figure.steps(start, handover)
        drawn |= {step.end.name for step in found if not isinstance(step.end, str)}
        assert found[-1].question is None
    assert drawn == set(REACHED)


def test_the_page_is_small_and_carries_its_data():
    answer = choice.choose(IMAGES)
    page = choice_page.page(answer)
    assert len(page.encode()) < choice_page.LIMIT
    embedded = json.loads(page.partition('id="choose-data">')[2].partition("</script>")[0])
    assert set(embedded["nodes"]) == {node.name for node in choice_rules.nodes()}
    assert len(embedded["results"]) == len(choice_evidence.table())
    settings = answer.settings
    rate, sigma = embedded["noise"][str(settings.steps)]["1e-05"]["1"]
    assert (1 / rate, sigma) == (settings.sample_rate, f"{settings.noise_multiplier:.3f}")
    labels = choice.choose(replace(IMAGES, private="labels")).settings
    rate, sigma = embedded["label_noise"][str(labels.steps)]["1e-05"]["1"]
    assert (1 / rate, sigma) == (labels.sample_rate, f"{labels.noise_multiplier:.3f}")
    assert "http" not in page.partition("<script")[0]
