"""The rules of "Choose a model": thresholds, half the budget for private labels, and rivals that are named."""

import math
from dataclasses import replace

import pytest

from press import choice, choice_evidence, choice_rules, choice_text
from tests.press.test_choice import IMAGES, REACHED


def test_thresholds_come_from_the_rows():
    images = choice_rules.walk(IMAGES.facts)[0]
    second = next(question for question, _ in images if question.name == "image-fcn").test.value
    crossing = choice_evidence.crossing(choice_evidence.CROSSING, "B.crossover-three-models", "crossover_fcn_cnn")
    assert second == 60000 * crossing
    leads = choice_rules.stages_lead()
    start = choice_rules.stages_from()
    assert all(low > 0 for epsilon, low in leads if epsilon >= start)
    assert any(low <= 0 for epsilon, low in leads if epsilon < start)
    assert choice_rules.clusters_up_to() == 0.5


def test_label_randomisation_is_compared_with_half_the_budget_for_records():
    """MNIST at 2 against DP-SGD at 1: the difference at 1 and what LP-2ST gains from 1 to 2, at its least."""
    values = choice_evidence.run(choice_evidence.STAGES)["records"]
    same = values["C.s-mnist-all-eps"]["values"]
    own = values["C.table4.mnist-lp-2st"]["values"]
    at_half = same["MNIST, ε = 1"]["low"] + own["eps2"]["low"] - own["eps1"]["high"]
    assert (2.0, max(at_half, same["MNIST, ε = 2"]["low"])) in choice_rules.stages_lead()


def test_private_labels_get_half_the_budget_from_dp_sgd():
    """Removing a record and adding another replaces a label: epsilon twice, delta (1 + e^epsilon) times."""
    labels = replace(IMAGES, private="labels")
    answer = choice.choose(labels)
    assert answer.leaf.private == "records"
    assert labels.record_epsilon == 0.5
    assert labels.record_delta == pytest.approx(1e-5 / (1 + math.exp(0.5)))
    records = replace(IMAGES, epsilon=labels.record_epsilon, delta=labels.record_delta)
    asked = choice.choose(records)
    assert (answer.leaf, answer.settings, answer.nearest) == (asked.leaf, asked.settings, asked.nearest)
    assert 2 * answer.settings.spent <= 1.001 * labels.epsilon
    assert answer.settings.noise_multiplier > choice.choose(IMAGES).settings.noise_multiplier
    assert ("Budget", choice_text.HALF) in choice_text.lines(answer)
    assert "Budget" not in dict(choice_text.lines(asked))
    own = choice.choose(replace(labels, epsilon=3.0))
    assert own.leaf.name == "stages"
    assert own.distance == pytest.approx(0.0, abs=1e-9), "a label-ε is looked up as it is"


def test_a_better_result_of_another_family_at_the_same_point_is_named():
    for problem in REACHED.values():
        answer = choice.choose(problem)
        for one, far in answer.others:
            rivals = [
                other for other, at in answer.others
                if at == far and other.data == one.data and other.family != one.family
            ]  # fmt: skip
            assert len(rivals) <= 1
    cnn = choice.choose(IMAGES)
    near = [one for one, _ in cnn.others if one.data == cnn.nearest.data]
    assert all(one.family != "cnn" and one.accuracy > cnn.nearest.accuracy for one in near)


def test_below_the_constants_threshold_nothing_on_a_table_was_worth_having():
    tables = [one for one in choice_evidence.table() if (one.data.kind, one.private) == ("table", "records")]
    for delta_zero, family in ((False, "linear"), (True, "objective")):
        threshold = choice_rules.least_worth(family, "table")
        same = [one for one in tables if (one.delta == 0) == delta_zero]
        below = [
            one for one in same if one.data.n * one.epsilon < threshold and one.family in (family, f"{family}-all")
        ]
        assert below
        sets = choice_rules.learnable([one for one in same if one.family in (family, f"{family}-all")])
        assert all(one.accuracy < one.data.floor + choice_rules.WORTH for one in below if one.data in sets)
        assert {one.data.name for one in tables if one.data not in sets} >= {"breast-cancer"}


def test_a_caveat_without_its_numbers_is_left_out(monkeypatch):
    monkeypatch.setattr(choice_evidence, "has", lambda *place: False)
    choice_text.caveats.cache_clear()
    few = choice_text.caveats()
    monkeypatch.undo()
    choice_text.caveats.cache_clear()
    assert len(few) < len(choice_text.caveats())
    assert not any("{" in one.says.replace("{exposed}", "") for one in few)
