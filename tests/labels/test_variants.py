"""Variants of LP-2ST: one first stage for all, equal to runs of their own; priors of labels from those of answers."""

import numpy as np
import pytest
import torch

from dplib import models
from dplib.checks import ParameterError
from dplib.labels import randomised_response, training, variants
from dplib.labels import stages as label_stages
from dplib.labels.learner import NetworkLearner
from dplib.labels.variants import VariantLearner

SETTINGS = {"epochs": 3, "batch_size": 16, "learning_rate": 0.2}
N, CLASSES, EPSILON = 90, 4, 1.5
RNG = np.random.default_rng(0)
LABELS = RNG.integers(CLASSES, size=N)
INPUTS = torch.from_numpy((RNG.normal(size=(N, 6)) + 2 * np.eye(CLASSES, 6)[LABELS]).astype(np.float32))
PARTS = label_stages.split(N, [0.6, 0.4], np.random.default_rng(1))


def build():
    return models.mlp([6, CLASSES])


def learner(kind=VariantLearner, **named):
    return kind(build, INPUTS, INPUTS[:20], LABELS[:20], SETTINGS, seed=3, top=2, **named)


def alone(**options):
    rng = np.random.default_rng([5, 2])
    return label_stages.run(LABELS, PARTS, learner(NetworkLearner), EPSILON, classes=CLASSES, rng=rng, **options)


VARIANTS = [{}, {"temperature": 0.3}, {"warm_start": False}, {"reuse": False}, {"filtered": False}]


def test_each_variant_is_what_a_run_of_its_own_gives():
    found = variants.run(LABELS, PARTS, learner(), EPSILON, VARIANTS, classes=CLASSES, seed=(5, 2))
    for variant, stages in zip(VARIANTS, found, strict=True):
        own = alone(**variant)
        assert stages == [stage.__dict__ for stage in own.stages]


def test_the_first_stage_is_trained_once_for_all_variants(monkeypatch):
    trained = []
    train = NetworkLearner.train
    monkeypatch.setattr(NetworkLearner, "train", lambda *a: trained.append(a[3]) or train(*a))
    again = [*VARIANTS, {"temperature": 0.3}]
    variants.run(LABELS, PARTS, learner(), EPSILON, again, classes=CLASSES, seed=(5, 2))
    assert trained == [1, 2, 2, 2, 2, 2]


def test_settings_of_a_variant_hold_for_it_alone(monkeypatch):
    epochs = []
    fit = training.fit
    monkeypatch.setattr(training, "fit", lambda *a, **named: epochs.append(named["epochs"]) or fit(*a, **named))
    one = learner()
    longer = [SETTINGS, SETTINGS | {"epochs": 9}]
    found = variants.run(LABELS, PARTS, one, EPSILON, [{"settings": longer}, {}], classes=CLASSES, seed=(5, 2))
    assert epochs == [3, 9, 3]
    assert one.settings is SETTINGS
    assert found[1] == [stage.__dict__ for stage in alone().stages]


def test_variants_ask_equal_questions_with_equal_words():
    """A variant that does not touch the prior gets the same answers in stage 2, too."""
    found = variants.run(LABELS, PARTS, learner(), EPSILON, VARIANTS, classes=CLASSES, seed=(5, 2))
    for other in (2, 3, 4):
        assert {k: found[other][1][k] for k in ("mean_k", "right", "covered")} == {
            k: found[0][1][k] for k in ("mean_k", "right", "covered")
        }


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 6.0])
def test_unmixing_undoes_randomised_response(epsilon):
    p = np.random.default_rng(1).dirichlet(np.full(7, 0.5), 50)
    table = np.exp(randomised_response.log_table(np.ones(7, dtype=bool), epsilon))
    np.testing.assert_allclose(variants.unmixed(p @ table, epsilon), p, atol=1e-9)


def test_unmixing_keeps_the_order_and_gives_distributions_where_no_label_can_explain_the_answers():
    q = np.random.default_rng(2).dirichlet(np.full(7, 0.3), 200)
    p = variants.unmixed(q, 0.5)
    assert (p > 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    # Cut to almost 0 in proportion, so that even there the order stays.
    np.testing.assert_array_equal(p.argsort(axis=1), q.argsort(axis=1))
    with pytest.raises(ParameterError, match="epsilon"):
        variants.unmixed(q, 0.0)


def test_unmixed_priors_are_sharper_and_leave_fewer_labels():
    found = variants.run(LABELS, PARTS, learner(), EPSILON, [{}, {"unmix": True}], classes=CLASSES, seed=(5, 2))
    assert found[1][1]["mean_k"] < found[0][1]["mean_k"]
    assert found[1][0] == found[0][0]
