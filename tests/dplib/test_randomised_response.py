"""Randomised response with a prior: brute force, exact fractions, enumeration, both linear programs, the sampler."""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats

from dplib import exact_loss
from dplib import randomised_response as response
from dplib.checks import ParameterError
from papers.labels import randomised_response_lp as programs

EPSILONS = [0.0, 1e-3, 0.1, 1.0, 3.0, 8.0, 14.0, 20.0]


def random_priors(number, most=8, seed=0):
    """Dirichlet of three concentrations, uniform, one-hot, and small whole numbers (ties and zeros), K from 2."""
    rng = np.random.default_rng(seed)
    for i in range(number):
        classes = 2 + i % (most - 1)
        kind = (i // (most - 1)) % 6
        if kind < 3:
            prior = rng.dirichlet(np.full(classes, (0.1, 1.0, 10.0)[kind]))
        elif kind == 3:
            prior = np.full(classes, 1 / classes)
        elif kind == 4:
            prior = np.eye(classes)[rng.integers(classes)]
        else:
            prior = rng.integers(0, 4, classes) + np.eye(classes)[0]
        yield prior / prior.sum()


def by_the_definition(prior, k, epsilon):
    """RRTop-k's table entry by entry, as Algorithm 1 says it."""
    chosen = sorted(range(len(prior)), key=lambda y: (-prior[y], y))[:k]
    table = np.zeros((len(prior), len(prior)))
    for label in range(len(prior)):
        for output in chosen:
            if label in chosen:
                table[label, output] = (np.exp(epsilon) if label == output else 1) / (np.exp(epsilon) + k - 1)
            else:
                table[label, output] = 1 / k
    return table


def with_prior(prior, epsilon):
    return response.log_table(response.kept(prior, epsilon), epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_tables_are_the_definition_and_spend_epsilon(epsilon):
    for prior in random_priors(42):
        for k in range(1, len(prior) + 1):
            table = response.log_table(response.top(prior, k), epsilon)
            assert np.exp(table) == pytest.approx(by_the_definition(prior, k, epsilon), rel=1e-12, abs=0)
            assert np.exp(table).sum(axis=1) == pytest.approx(np.ones(len(prior)), abs=1e-14)
            loss = response.max_log_ratio(table)
            assert loss <= epsilon + 1e-12
            assert loss == pytest.approx(epsilon if k > 1 else 0, abs=1e-12)
            assert exact_loss.discrete_epsilon(np.exp(table)) == pytest.approx(loss, abs=1e-7)
            assert response.objective(table, prior) == pytest.approx(response.success(prior, epsilon)[k - 1], abs=1e-15)


def exact_priors(number, seed):
    """Whole multiples of 2^-20, which are exact as floats and as fractions: ties stay ties. Zeros and ties abound."""
    rng = np.random.default_rng(seed)
    for i in range(number):
        classes = 2 + i % 5
        few = rng.integers(0, 4, classes) * 2 ** int(rng.integers(0, 16))
        counts = few if i % 3 else (rng.dirichlet(np.full(classes, 0.7)) * 2**20).astype(int)
        counts[rng.integers(classes)] += 2**20 - counts.sum()
        yield [Fraction(int(count), 2**20) for count in (counts if i % 7 else [2**18] * 4)]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_k_star_is_the_largest_maximiser_over_all_sets_in_exact_arithmetic(epsilon):
    """Every subset of the labels, with fractions and e^epsilon to 28 digits: no rounding hides an off-by-one."""
    factor = Fraction(Decimal(epsilon).exp())
    for exact in exact_priors(70, seed=1):
        prior = np.array([float(p) for p in exact])
        best = [
            max(factor * sum(chosen) / (factor + k - 1) for chosen in combinations(exact, k))
            for k in range(1, len(exact) + 1)
        ]
        k = max(k for k, value in enumerate(best, 1) if value == max(best))
        assert response.best_k(prior, epsilon) == k
        kept = response.kept(prior, epsilon)
        assert factor * sum(p for p, inside in zip(exact, kept, strict=True) if inside) / (factor + k - 1) == max(best)


@pytest.mark.parametrize(("prior", "epsilon"), [((0.5, 0.3, 0.2, 0.0), np.inf), ((0.5, 0.25, 0.25), np.log(2))])
def test_of_several_maximisers_all_labels_are_kept(prior, epsilon):
    """w_k is 0.5 for every k in the second; in the first a label that the prior rules out would not be released."""
    assert response.best_k(prior, epsilon) == len(prior)


def test_k_star_grows_with_epsilon_at_the_switch_points():
    for prior in random_priors(60, seed=3):
        switches = response.switch_points(prior)
        assert (np.diff(switches[np.isfinite(switches)]) >= 0).all()
        grid = np.linspace(0, 20, 400) + 1e-3
        assert np.array_equal(response.best_k(prior[None], grid), 1 + (switches < grid[:, None]).sum(axis=1))
        largest = np.sort(prior)[::-1]
        if largest[1] > 0:
            assert switches[0] == pytest.approx(np.log(largest[0] / largest[1]), abs=1e-14)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_table_is_better(epsilon):
    """Theorem 3: both linear programs and the dual certificate give RRWithPrior's value."""
    for prior in random_priors(30, most=6, seed=4):
        table = with_prior(prior, epsilon)
        ours = response.objective(table, prior)
        (one, point), two = programs.lp1(prior, epsilon), programs.lp2(prior, epsilon)
        assert ours == pytest.approx(one, abs=1e-9)
        assert ours == pytest.approx(two, abs=1e-9)
        assert point.sum(axis=1) == pytest.approx(np.ones(len(prior)), abs=1e-9)
        assert (np.exp(-epsilon) * point.max(axis=0) <= point.min(axis=0) + 1e-9).all()
        if epsilon > 0:
            bound, violation = programs.certificate(prior, epsilon)
            assert bound == pytest.approx(ours, abs=1e-15 / min(1, epsilon) + 1e-15)
            assert violation <= 1e-15 / min(1, epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 5.0])
def test_the_program_as_printed_has_the_same_optimum(epsilon):
    for prior in random_priors(24, most=5, seed=5):
        value, point = programs.lp1_as_printed(prior, epsilon)
        assert (np.exp(-epsilon) * point.max(axis=0) <= point.min(axis=0) + 1e-9).all()
        assert value == pytest.approx(response.success(prior, epsilon).max(), abs=1e-9)


class Words(np.random.Generator):
    """A stand-in for a generator that deals given words."""

    def __init__(self, words):
        super().__init__(np.random.PCG64(0))
        self.words = np.asarray(words, dtype=np.uint64)

    def integers(self, *_args, size, **_more):
        return np.broadcast_to(self.words[:, None], size)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.1, 1.0, 8.0, 20.0, 36.0, 60.0, 88.0, 100.0, 700.0, 800.0, 1e9])
@pytest.mark.parametrize("k", [2, 3, 10, 100, 10**6])
def test_the_sampler_itself_spends_epsilon(k, epsilon):
    """Its 64-bit words make rational probabilities: the exact loss of the program, not of the formula."""
    high, low = response.leave_words(k, epsilon)
    leave, word = Fraction(int(high) * 2**64 + int(low), 2**128), 2**64
    assert 0 < leave < 1
    # m outputs share the words: each gets one of the two whole numbers next to 2^64 / m.
    shares = {m: [Fraction(word // m, word), Fraction(-(-word // m), word)] for m in (k - 1, k)}
    every = [1 - leave, *(leave * share for share in shares[k - 1]), *shares[k]]
    loss = (Decimal(max(every).numerator) / max(every).denominator).ln()
    loss -= (Decimal(min(every).numerator) / min(every).denominator).ln()
    assert loss <= Decimal(epsilon) + (k + 2) * Decimal(2) ** -51
    if epsilon <= 60:  # above, 128 bits are coarse, and the loss may be less
        assert loss >= Decimal(epsilon) - Decimal("1e-12")


def test_words_are_shared_out_as_whole_numbers_would_be():
    rng = np.random.default_rng(9)
    words = np.append(rng.integers(0, 2**64 - 1, 2000, dtype=np.uint64, endpoint=True), [np.uint64(0), ~np.uint64(0)])
    most = np.append(rng.integers(1, 2**31, 2000), [1, 2**31])
    expected = [int(word) * int(m) >> 64 for word, m in zip(words, most, strict=True)]
    assert response._below(words, most).tolist() == expected


def test_words_become_the_outputs_they_stand_for():
    """The two ends of each cell of the third word, and both sides of the decision to leave."""
    members = np.array([True, False, True, True])
    top_word = 2**64 - 1
    epsilon = 12.0  # leaving is rare enough for the second word to count
    high, low = (int(v) for v in response.leave_words(3, epsilon))
    assert low > 0
    for words, expected in [
        ([high, low, 0], {0: 0, 2: 2, 3: 3}),  # just not leaving
        ([high, low - 1, 0], {0: 3, 2: 0, 3: 0}),
        ([high - 1, top_word, top_word], {0: 2, 2: 3, 3: 2}),
        ([0, 0, 2**63 - 1], {0: 3, 2: 0, 3: 0}),
        ([0, 0, 2**63], {0: 2, 2: 3, 3: 2}),
    ]:
        for label, output in expected.items():
            assert response._respond([label], members[None], epsilon, Words(words)).labels[0] == output
    for word, output in [(0, 0), (top_word // 3, 0), (top_word // 3 + 1, 2), (top_word, 3)]:
        assert response._respond([1], members[None], epsilon, Words([top_word, top_word, word])).labels[0] == output


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0])
def test_sampler_against_the_table(epsilon, secure):
    """Chi-square, five labels each; with the cryptographic source it errs once in a million runs."""
    prior, n = np.array([0.35, 0.3, 0.2, 0.1, 0.05]), 40_000
    rng = None if secure else np.random.default_rng(6)
    table = np.exp(with_prior(prior, epsilon))
    for label in range(5):
        drawn = response.rr_with_prior(np.full(n, label), prior, epsilon, rng)
        assert (drawn.k == response.best_k(prior, epsilon)).all()
        counts = np.bincount(drawn.labels, minlength=5)
        possible = table[label] > 0
        assert counts[~possible].sum() == 0
        if possible.sum() > 1:
            assert stats.chisquare(counts[possible], n * table[label][possible]).pvalue > 1e-7


def test_a_data_set_at_once_is_each_record_by_itself():
    rng = np.random.default_rng(7)
    prior = rng.dirichlet(np.full(12, 0.5), size=3000)
    epsilon = rng.uniform(0, 6, 3000)
    kept = response.kept(prior, epsilon)
    for i in range(0, 3000, 37):
        assert np.array_equal(kept[i], response.kept(prior[i], epsilon[i]))
        assert kept[i].sum() == response.success(prior[i], epsilon[i]).argmax() + 1
    assert np.array_equal(response.kept(np.asfortranarray(prior), epsilon), kept)
    labels = rng.integers(12, size=3000)
    answers = response.rr_with_prior(labels, prior, epsilon, np.random.default_rng(8))
    again = response.rr_with_prior(labels, prior, epsilon, np.random.default_rng(8))
    assert np.array_equal(answers.labels, again.labels)
    assert kept[np.arange(3000), answers.labels].all()
    uniform = response.rr_with_prior(labels, np.full(12, 1 / 12), 1.0, np.random.default_rng(8)).labels
    assert np.array_equal(uniform, response.rr(labels, 12, 1.0, np.random.default_rng(8)).labels)
    top = response.rr_top_k(labels, prior, kept.sum(axis=1), epsilon, np.random.default_rng(8)).labels
    assert np.array_equal(top, answers.labels)
    assert np.array_equal(response.rr(labels, 12, np.inf, rng).labels, labels)
    for source in (rng, None):
        assert len(response.rr_with_prior(np.array([], dtype=int), np.ones((0, 3)), 1.0, source).labels) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prior": [0.5, 0.4999]}, "prior has a row"),
        ({"prior": [1.5, -0.5]}, "prior has a row"),
        ({"prior": [np.nan, 1.0]}, "prior has a row"),
        ({"prior": [[0.5, 0.5]]}, "prior of shape"),
        ({"prior": []}, r"prior of shape \(0,\)"),
        ({"prior": [1j, 1]}, "prior = "),
        ({"labels": [0, 1, 2]}, "labels = .* whole numbers from 0 to 1"),
        ({"labels": [0, 1, -1]}, "labels = .* whole numbers from 0 to 1"),
        ({"labels": [0.5, 1, 1]}, "labels = .* whole numbers from 0 to 1"),
        ({"labels": None}, "labels = None"),
        ({"classes": 0}, "classes = 0"),
        ({"classes": 2.5}, "classes = 2.5"),
        ({"epsilon": -1.0}, "epsilon = -1"),
        ({"epsilon": np.nan}, "epsilon = nan"),
        ({"epsilon": "1"}, "epsilon = '1'"),
        ({"rng": 5}, "rng = 5 is not allowed: it must be a numpy.random.Generator, or None"),
        ({"rng": np.random.RandomState(5)}, "rng = RandomState"),
        ({"epsilon": [1, [2]]}, r"epsilon = \[1, \[2\]\]"),
        ({"epsilon": 1j}, "epsilon = 1j"),
        ({"epsilon": [1.0, 2.0]}, r"epsilon of shape \(2,\) does not fit 3 labels"),
        ({"epsilon": np.ones((3, 1))}, r"epsilon of shape \(3, 1\) does not fit 3 labels"),  # would make nine of three
        ({"prior": [0.5, 0.5], "epsilon": [[1.0]] * 3}, r"epsilon of shape \(3, 1\) does not fit"),
        ({"prior": [0.5, 0.5], "k": 1.5}, "k = 1.5"),
        ({"prior": [0.5, 0.5], "k": 0}, "k = 0"),
        ({"prior": [0.5, 0.5], "k": "1"}, "k = '1'"),
        ({"prior": [0.5, 0.5], "k": [1, 1]}, r"k of shape \(2,\) does not fit"),
    ],
)
def test_what_is_given_wrongly_is_named(given, message):
    """Texts became numbers, imaginary parts were dropped, and shapes met in NumPy."""
    call = {"labels": [0, 1, 1], "classes": 2, "epsilon": 1.0, "rng": np.random.default_rng(0)} | given
    function = response.rr_top_k if "k" in given else response.rr_with_prior if "prior" in given else response.rr
    if "prior" in given:
        del call["classes"]
    with pytest.raises(ParameterError, match=f"^{message}"):
        function(**call)
    with pytest.raises(ParameterError, match="k = 'a' is not allowed"):
        response.leave_words("a", 1)


@pytest.mark.parametrize("classes", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.5, 5.0, 700.0, np.inf])
def test_a_uniform_prior_gives_plain_response_and_a_certain_one_a_constant(classes, epsilon):
    uniform = np.full(classes, 1 / classes)
    assert response.kept(uniform, epsilon).all()
    if classes > 1 and epsilon <= 700:
        assert response.best_k(np.eye(classes)[1], epsilon) == 1
        assert np.array_equal(response.kept(np.eye(classes)[1], epsilon), np.eye(classes, dtype=bool)[1])


def test_sizes_of_sets_are_one_number_or_one_of_each_label():
    """One of two gave an IndexError, or as many answers as there were sizes."""
    for k in ([2, 2], [[2] * 3], [2] * 4):
        with pytest.raises(ParameterError, match=r"k of shape .* does not fit 3 labels"):
            response.rr_top_k([0, 1, 2], [0.5, 0.3, 0.2], k, 1.0, None)
    assert response.rr_top_k([0, 1, 2], [0.5, 0.3, 0.2], [1, 2, 3], 1.0, None).k.tolist() == [1, 2, 3]


def test_hidden_labels_and_priors_are_refused_and_a_tensor_loses_its_graph():
    for labels, prior in ((np.ma.masked_array([0, 1]), [0.5, 0.5]), ([0, 1], np.ma.masked_array([0.5, 0.5]))):
        with pytest.raises(ParameterError, match="masked"):
            response.rr_with_prior(labels, prior, 1.0, None)
    prior = torch.tensor([0.5, 0.5], requires_grad=True)
    assert response.rr_with_prior([0, 1], prior, math.inf, None).labels.tolist() == [0, 1]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_higher_temperature_keeps_no_fewer_labels(epsilon):
    """Remark (f) of chapter 10b: k* of the prior exp(f / t) does not fall as t rises."""
    scores = np.random.default_rng(0).normal(0, 3, (300, 10))
    kept = []
    for temperature in (0.01, 0.25, 0.5, 1.0, 2.0, 4.0, 1e6):
        weights = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
        kept.append(response.kept(weights / weights.sum(axis=1, keepdims=True), epsilon).sum(axis=1))
    assert (np.diff(kept, axis=0) >= 0).all()
    assert kept[0].mean() < 1.1
    assert (kept[-1] == 10).all()
