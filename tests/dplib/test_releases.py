import numpy as np
import pytest
import torch

from dplib import exact_loss, randomised_response, releases
from dplib.checks import ParameterError
from dplib.releases import Evidence
from papers.labels import heads as label_heads


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_answer_likelihood_is_the_mechanisms_table(epsilon):
    prior = np.random.default_rng(0).dirichlet(np.full(5, 0.5), size=20)
    members = randomised_response.kept(prior, epsilon)
    tables = randomised_response.log_table(members, epsilon)
    for answer in range(5):
        rows = members[:, answer]
        told = releases.answer_likelihood(np.full(rows.sum(), answer), members[rows], epsilon)
        np.testing.assert_allclose(told.values, tables[rows, :, answer], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_debiased_weights_have_the_true_label_as_mean(epsilon, k):
    members = np.arange(5) < k
    table = np.exp(randomised_response.log_table(members, epsilon))
    weights = releases.debiased(np.arange(k), members, epsilon).values.astype(float)
    np.testing.assert_allclose(table[:k, :k] @ weights, np.eye(5)[:k], atol=2e-5 / epsilon)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-4)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_laplace_spends_exactly_epsilon(epsilon):
    """Two entries move when a label changes, each of loss epsilon / 2 at most, and both can be at their worst."""
    scale = 2 / epsilon

    def log_density(centre):
        return lambda o: -np.abs(o - centre) / scale - np.log(2 * scale)

    loss = exact_loss.density_max_log_ratio(log_density(1.0), log_density(0.0), (-5, 6), kinks=(0, 1))
    assert 2 * loss == pytest.approx(epsilon, abs=1e-9)


def test_laplace_likelihood_is_the_density_up_to_a_constant():
    rng = np.random.default_rng(0)
    released = releases.laplace(np.array([1, 3, 0]), 4, 1.5, rng)
    told = releases.laplace_likelihood(released, 1.5).values
    direct = -np.abs(released[:, None, :] - np.eye(4)).sum(axis=2) / (2 / 1.5)
    np.testing.assert_allclose(told - told.mean(1, keepdims=True), direct - direct.mean(1, keepdims=True), atol=1e-6)
    assert np.ptp(told, axis=1).max() <= 1.5 + 1e-6


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_subset_has_two_probabilities_a_factor_apart(epsilon):
    classes, n = 5, 60_000
    size = releases.subset_size(classes, epsilon)
    rng = np.random.default_rng(2)
    drawn = releases.subset(np.full(n, 3), classes, epsilon, rng)
    assert (drawn.sum(axis=1) == size).all()
    holds = size / (size + (classes - size) * np.exp(-epsilon))
    assert drawn[:, 3].mean() == pytest.approx(holds, abs=4 * np.sqrt(holds * (1 - holds) / n))
    others = drawn[:, [0, 1, 2, 4]].mean(axis=0)
    np.testing.assert_allclose(others, (size - holds) / (classes - 1), atol=0.01)
    told = releases.subset_likelihood(drawn, epsilon).values
    np.testing.assert_allclose(np.unique(told), [-epsilon, 0], rtol=1e-6)


def test_posterior_of_the_model_is_the_gradient_of_the_likelihood():
    """Fisher's identity, which makes ALIBI's post-processing the forward correction: autograd against p - r."""
    rng = np.random.default_rng(0)
    released = releases.laplace(rng.integers(4, size=6), 4, 2.0, rng)
    told = releases.laplace_likelihood(released, 2.0)
    logits = torch.tensor(rng.standard_normal((6, 4)), requires_grad=True)
    density = torch.tensor(np.exp(-np.abs(released[:, None, :] - np.eye(4)).sum(axis=2)))  # scale 2 / 2
    (-(logits.softmax(1) * density).sum(1).log().sum()).backward()
    p = logits.detach().softmax(1).numpy()
    np.testing.assert_allclose(logits.grad.numpy(), p - releases.posterior(p, told), atol=1e-6)


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(3)
    y = rng.integers(3, size=600)
    x = (np.eye(3)[y] @ rng.standard_normal((3, 5)) + 1.5 * rng.standard_normal((600, 5))).astype(np.float32)
    return x, y


def loss_of(logits, one):
    """The loss that an Evidence stands for, by its definition. logits: (n, K)."""
    log_p, values = torch.log_softmax(logits, 1), torch.from_numpy(one.values).double()
    if one.kind == "target":
        return -(values * log_p).sum(1).mean()
    return -torch.logsumexp(log_p + values, 1).mean()


def three_kinds(y, epsilon, rng):
    answers, everything = randomised_response.rr(y, 3, epsilon, rng).labels, np.ones(3, dtype=bool)
    return [
        releases.answer_likelihood(answers, everything, epsilon),
        releases.plain(answers, 3),
        releases.debiased(answers, everything, epsilon),
    ]


def test_first_step_follows_the_gradient_of_each_loss(task):
    """AdamW's first step is the sign of the gradient times the rate: compared with autograd's."""
    x, y = task
    told = three_kinds(y, 1.0, np.random.default_rng(0))
    one_step = {"epochs": 1, "batch": 600, "weight_decay": 0}
    heads = label_heads.fit(x, told, [0.01] * 3, np.random.default_rng(0), **one_step)
    for i, one in enumerate(told):
        weights = torch.zeros(5, 3, dtype=torch.float64, requires_grad=True)
        loss_of(torch.from_numpy(x).double() @ weights, one).backward()
        step = -0.01 * weights.grad / (weights.grad.abs() + 1e-8)
        np.testing.assert_allclose(heads.weights[:, 3 * i : 3 * i + 3], step, atol=1e-4)


def test_records_without_evidence_change_nothing(task):
    x, y = task
    half = np.arange(600) < 300
    target = releases.plain(y, 3).values * half[:, None]
    silent = np.where(half[:, None], releases.answer_likelihood(y, np.ones(3, bool), 3.0).values, 0)
    told = [Evidence("target", target), Evidence("likelihood", silent.astype(np.float32))]
    fitted = label_heads.fit(x, told, [0.01, 0.01], np.random.default_rng(0), epochs=3, batch=600)
    moved = x.copy()
    moved[~half] += 100
    other = label_heads.fit(moved, told, [0.01, 0.01], np.random.default_rng(0), epochs=3, batch=600)
    np.testing.assert_allclose(fitted.weights, other.weights, atol=1e-3)


def test_heads_do_not_disturb_each_other_and_keep_their_order(task):
    x, y = task
    told = [releases.answer_likelihood(y, np.ones(3, bool), 3.0), releases.plain(y, 3)]
    together = label_heads.fit(x, told, [0.003, 0.1], np.random.default_rng(1), epochs=2)
    for i in range(2):
        alone = label_heads.fit(x, [told[i]], [[0.003, 0.1][i]], np.random.default_rng(1), epochs=2)
        np.testing.assert_allclose(together.weights[:, 3 * i : 3 * i + 3], alone.weights, atol=1e-5)
        assert together.accuracy(x, y)[i] == pytest.approx(alone.accuracy(x, y)[0], abs=0.01)


LABELS = {
    "none of the classes": [0, 1, 3],
    "the last class by another name": [0, 1, -1],
    "half": [0, 1, 1.5],
    "missing": [0, 1, np.nan],
    "huge": [0, 1, 1e19],
    "words": ["0", "1"],
    "bits": [True, False],
    "a table": [[0, 1], [1, 0]],
    "of two lengths": [[0], [1, 0]],
    "nothing": None,
}


@pytest.mark.parametrize("what", LABELS)
def test_labels_that_are_none_are_refused_in_a_sentence(what):
    rng = np.random.default_rng(0)
    with pytest.raises(ParameterError, match="whole numbers from 0 to 2"):
        releases.plain(LABELS[what], 3)
    for release in (releases.laplace, releases.subset, releases.vector):
        with pytest.raises(ParameterError, match="whole numbers from 0 to 2"):
            release(LABELS[what], 3, 1.0, rng)


def test_coins_of_an_experiment_come_from_a_generator():
    for release in (releases.laplace, releases.subset, releases.vector):
        assert len(release([0.0, 2.0], 3, 1.0, np.random.default_rng(0))) == 2
        with pytest.raises(ParameterError, match="rng"):
            release([0, 1], 3, 1.0, None)


def test_messages_do_not_print_labels():
    private = ["hiv", "flu", "none"]
    for ask in (
        lambda: releases.plain(private, 3),
        lambda: releases.plain([7_654_321, 0, 1], 3),
        lambda: randomised_response.rr(private, 3, 1.0, np.random.default_rng(0)),
    ):
        with pytest.raises(ParameterError, match="a list of 3") as refused:
            ask()
        assert not any(word in str(refused.value) for word in ("hiv", "flu", "7654321", "7_654"))


def test_answers_outside_the_labels_are_refused():
    for answers in ([-1], [3], [0.5]):
        with pytest.raises(ParameterError, match="whole numbers from 0 to 2"):
            releases.answer_likelihood(answers, np.ones(3, bool), 1.0)


def test_an_answer_outside_its_set_is_refused():
    """RRTop-k never gives it: a finite likelihood of it was a number without meaning."""
    members = np.array([[True, True, False], [False, True, True]])
    for ask in (releases.answer_likelihood, releases.debiased):
        with pytest.raises(ParameterError, match="each must be in its own set"):
            ask([2], members[:1], 1.0)
        with pytest.raises(ParameterError, match="each must be in its own set"):
            ask([1, 0], members, 1.0)
        with pytest.raises(ParameterError, match="each must be in its own set"):
            ask([0, 2], members[0], 1.0)
        assert np.isfinite(ask([1, 2], members, 1.0).values).all()


@pytest.mark.parametrize(("classes", "epsilon"), [(10**6, 1e-9), (10**4, 1e-6), (3, 1e-9), (3, 1.0), (3, 700.0)])
def test_debiased_weights_keep_their_digits(classes, epsilon):
    """(e^epsilon + k - 2) / (e^epsilon - 1) and -1 / (e^epsilon - 1); 1 - k q had lost a tenth of the first."""
    weights = releases.debiased([0], np.ones(classes, bool), epsilon).values[0]
    rise = np.expm1(epsilon)
    np.testing.assert_allclose(weights[:2], [1 + (classes - 1) / rise, -1 / rise], rtol=1e-6, atol=1e-30)


def test_evidence_keeps_numbers_in_float32():
    for values in ([[0.0, -np.inf]], np.array([[0.0, -np.inf]]), torch.tensor([[0.0, -np.inf]])):
        told = Evidence("likelihood", values)
        assert told.values.dtype == np.float32
        np.testing.assert_array_equal(releases.posterior([0.25, 0.75], told), [[1, 0]])
    assert Evidence("likelihood", [[0.0, -1e50]]).values.tolist() == [[0, -np.inf]]
    for kind, value in (("target", 1e39), ("target", -1e39), ("target", -np.inf), ("likelihood", 1e39)):
        with pytest.raises(ParameterError, match="values = "):
            Evidence(kind, [[0.0, value]])


def test_a_release_that_is_impossible_under_its_prior_has_no_posterior():
    for values in ([[0.0, 0.0], [-np.inf, 0.0]], [[0.0, 0.0], [-np.inf, -np.inf]]):
        with pytest.raises(ParameterError, match="impossible under its prior"):
            releases.posterior([1.0, 0.0], Evidence("likelihood", np.array(values, np.float32)))
