"""Feature selection of paper A: criteria, Algorithm 1, Theorem 8, private DFS and the curves of Section 4.

Statistical tests have fixed seeds; each states how often it would fail by chance with another seed.
"""

import itertools

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import sparse, stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from dplib import selection
from dplib.checks import ParameterError
from dplib.data import Dataset
from dplib.selection import Budget
from papers.larger_models import dfs_errors as experiments
from papers.larger_models.dfs_errors import Reading

DELTA = 1e-4


def classes(n, p, rng, k=2, gap=0.0):
    """k classes of n records each; class 1 is ``gap`` higher in feature 0."""
    labels = np.repeat(np.arange(k), n)
    x = rng.standard_normal((k * n, p))
    x[labels == 1, 0] += gap
    return x, labels


# --- criteria -------------------------------------------------------------------------------------------------------


def test_t_statistic_is_welchs_for_unequal_classes():
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(30, 50)) * rng.uniform(0.1, 5, 50), np.repeat([0, 1], [12, 18])
    expected = np.abs(stats.ttest_ind(x[:12], x[12:], equal_var=False).statistic)
    assert selection.t_statistic(x, labels) == pytest.approx(expected, rel=1e-12)


def test_k_class_scores_are_the_largest_over_pairs():
    x, labels = classes(9, 40, np.random.default_rng(1), k=5)
    distances, ts = [], []
    for a, b in itertools.combinations(range(5), 2):
        pair = np.isin(labels, (a, b))
        distances.append(selection.distance(x[pair], np.searchsorted((a, b), labels[pair])))
        ts.append(selection.t_statistic(x[pair], np.searchsorted((a, b), labels[pair])))
    assert selection.distance(x, labels) == pytest.approx(np.max(distances, axis=0))
    assert selection.t_statistic(x, labels) == pytest.approx(np.max(ts, axis=0))


def test_features_without_spread():
    """A pixel that is always black is worth nothing; one that tells the classes apart for certain, everything."""
    x = np.array([[0.0, 1, 3], [0, 1, 4], [0, 2, 3], [0, 2, 5]])
    with np.errstate(all="raise", divide="ignore", invalid="ignore"):
        t = selection.t_statistic(x, np.array([0, 0, 1, 1]))
    assert t[0] == 0
    assert np.isinf(t[1])
    assert 0 < t[2] < np.inf


def test_noise_aware_t_runs_from_t_to_the_distance():
    x, labels = classes(20, 200, np.random.default_rng(2))
    x *= np.random.default_rng(3).uniform(0.01, 10, 200)
    moments = selection.class_moments(x, labels)

    def ranks(scores):
        return np.argsort(scores).tolist()

    assert ranks(selection.moment_t_statistic(*moments, extra_variance=0.0)) == ranks(selection.t_statistic(x, labels))
    assert ranks(selection.moment_t_statistic(*moments, extra_variance=1e12)) == ranks(selection.distance(x, labels))
    assert ranks(selection.t_statistic(x, labels)) != ranks(selection.distance(x, labels))


# --- Algorithm 1 ----------------------------------------------------------------------------------------------------


def test_dfs_keeps_releases_and_scales_as_printed():
    """The standard deviation of 20,000 noises within 3% of the scale: error rate 2e-9."""
    rng = np.random.default_rng(4)
    x, labels = classes(500, 30, rng, gap=3.0)
    x[:, 7] *= 4
    release = selection.dfs(x, labels, 20, lambda norm: selection.definition_sd(norm, 5.0, DELTA), rng)
    distances = np.abs(x[labels == 0].mean(0) - x[labels == 1].mean(0))
    assert release.features.tolist() == np.argsort(-distances)[:20].tolist()
    assert release.features[0] == 0
    norm = np.abs(x[:, release.features]).sum(1).max()
    assert release.noise_sd == pytest.approx(2 * norm * np.log(1 / DELTA) / 5)
    assert release.labels is labels
    noise = (release.values - x[:, release.features]) / release.noise_sd
    assert noise.std() == pytest.approx(1, rel=0.03)


# --- Theorem 8 ------------------------------------------------------------------------------------------------------


def test_separation_is_the_product_of_normal_probabilities():
    alpha, sd, y = np.array([2.0, -1.5, 0, 0, 0]), np.array([0.5, 0.6, 0.4, 0.7, 0.5]), 0.9
    above = stats.norm.sf(y, alpha, sd) + stats.norm.cdf(-y, alpha, sd)
    expected = np.prod(np.where(alpha != 0, above, 1 - above))
    assert np.exp(selection.log_separation(alpha, sd, y, np.zeros(5))) == pytest.approx(expected, rel=1e-12)


def test_separation_of_more_features_than_a_float_can_count():
    """ln p = 2000 features: separated at 70 standard deviations (P(|z| > 70) ~ e^-2455), not at 60 (~ e^-1805)."""
    assert selection.log_separation([0.0], [1.0], 70.0, [2000.0]) == pytest.approx(0, abs=1e-100)
    assert selection.log_separation([0.0], [1.0], 60.0, [2000.0]) < -1e50


# --- private DFS ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 5.0, 20.0])
def test_budget_is_spent_exactly_and_pld_agrees(epsilon):
    budget = Budget(epsilon, DELTA, norms=0.2, selection=0.5, release=0.3)
    mus = [budget.mu(0.1), budget.mu(0.5), budget.mu(0.1), budget.mu(0.3)]
    assert selection.composed_epsilon(mus, DELTA) == pytest.approx(epsilon, rel=1e-9)
    losses = pld.from_gaussian_mechanism(1 / mus[0])
    for mu in mus[1:]:
        losses = losses.compose(pld.from_gaussian_mechanism(1 / mu))
    assert losses.get_epsilon_for_delta(DELTA) == pytest.approx(epsilon, rel=1e-3)


class NoNoise(np.random.Generator):
    """A generator whose noise is zero: shows what a mechanism adds noise to."""

    def __init__(self):
        super().__init__(np.random.PCG64(0))

    def standard_normal(self, size=None):
        return np.zeros(size) if size is not None else 0.0


def test_sensitivities_hold_for_neighbours_and_are_reached():
    """One record's features exchanged, in the worst way and at random: rows and means move by at most the claim."""
    rng = np.random.default_rng(7)
    x, labels = classes(6, 8, rng, k=3)
    x *= 5
    bound, moved_rows, moved_means = 2.0, [], []
    for trial in range(200):
        neighbour, i = x.copy(), rng.integers(len(x))
        neighbour[i] = -x[i] * 100 if trial % 2 else rng.normal(size=8) * rng.choice([0.01, 10.0])
        rows = [selection.private_rows(q, bound, 1.0, NoNoise())[0] for q in (x, neighbour)]
        means = [selection.private_class_means(q, labels, bound, 1.0, NoNoise()) for q in (x, neighbour)]
        moved_rows.append(np.linalg.norm(rows[0] - rows[1]))
        moved_means.append(np.linalg.norm(means[0] - means[1]))
    assert max(moved_rows) <= 2 * bound + 1e-9
    assert max(moved_rows) == pytest.approx(2 * bound)
    assert max(moved_means) == pytest.approx(2 * bound / 6)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(value):
    x, labels = np.ones((4, 3)), np.array([0, 0, 1, 1])
    x[1, 2] = value
    for release in (
        lambda: selection.private_rows(x, 1.0, 1.0, NoNoise()),
        lambda: selection.private_class_means(x, labels, 1.0, 1.0, NoNoise()),
        lambda: selection.dfs(x, labels, 2, lambda largest: 0.0, NoNoise(), scores=np.arange(3.0)),
        lambda: selection.distance(x, labels),
        lambda: selection.t_statistic(x, labels),
    ):
        with pytest.raises(ParameterError, match="finite"):
            release()
    with pytest.raises(ParameterError, match="scores"):
        selection.top([1.0, np.nan], 1)


def test_noise_of_rows_and_means_is_what_mu_asks_for():
    """Standard deviations of 40,000 and 20,000 noises within 3%: error rate below 1e-8."""
    rng = np.random.default_rng(8)
    x, labels = np.zeros((40, 1000)), np.repeat([0, 1], 20)
    values, sd = selection.private_rows(x, 3.0, 0.5, rng)
    assert sd == 12.0
    assert values.std() == pytest.approx(12.0, rel=0.03)
    means = np.concatenate([selection.private_class_means(x, labels, 3.0, 0.5, rng) for _ in range(10)])
    assert means.std() == pytest.approx(12.0 / 20, rel=0.03)


def test_private_quantile_finds_the_quantile_and_pays_for_each_question():
    values, thresholds = np.arange(1000.0), np.arange(0.0, 1024, 16)
    assert selection.private_quantile(values, 0.9, thresholds, 1.0, NoNoise()) == 912.0
    # Noise of sqrt(6) / mu on counts: with mu = 1 the answer is within a few thresholds of the true one.
    rng = np.random.default_rng(9)
    values_ = [selection.private_quantile(values, 0.9, thresholds, 1.0, rng) for _ in range(50)]
    assert max(abs(f - 900) for f in values_) < 40
    # With next to no budget it is next to random: among 50 answers there are far ones (fails by chance: 1e-10).
    assert np.ptp([selection.private_quantile(values, 0.9, thresholds, 1e-3, rng) for _ in range(50)]) > 200


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: selection.distance(np.ones((10, 4)), np.repeat([0, 1], [9, 1])), "labels = int64 of shape .10,. is"),
        (lambda: selection.distance(np.ones((10, 4)), np.zeros(10, int)), "labels = .* without gaps"),
        (lambda: selection.top(np.ones(4), 5), "m = 5"),
        (lambda: Budget(1.0, DELTA, norms=0.5, selection=0.5, release=0.5), "shares"),
        (lambda: Budget(0.0, DELTA), "epsilon = 0"),
        (lambda: Budget([1.0], DELTA), "epsilon = "),
        (lambda: Budget(1.0, [DELTA]), "delta = "),
        (lambda: Budget(5.0, DELTA, norms=0.0, selection=0.4, release=0.6), "norms = 0"),
        (lambda: Budget(5.0, DELTA, norms=0.1, selection=0.0, release=0.9), "selection = 0"),
        (lambda: Budget(5.0, DELTA, norms=0.1, selection=0.9, release=0.0), "release = 0"),
        (lambda: Budget(1e-9, 1e-300), "mu of the share norms"),
    ],
)
def test_senseless_input_is_refused(call, named):
    with pytest.raises(ParameterError, match=named):
        call()


# --- curves of Section 4 --------------------------------------------------------------------------------------------


@pytest.fixture
def problem():
    return experiments.synthetic(40, 12, 1.0, 0.88, np.random.default_rng(11))


def test_errors_are_those_of_drawn_points(problem):
    """Exact errors against 40,000 drawn test points, three noises, within 4.5 standard errors: error rate 4e-5."""
    rng, features, sizes = np.random.default_rng(12), np.arange(40)[::-1].copy(), [1, 7, 40]
    for test_sd in (0.0, 2.0):
        exact = experiments.errors(problem, features, sizes, 0.5, [test_sd])[0]
        means, variances = (v[:, features] for v in problem.moments(0.5))
        weights, midpoint = experiments.fisher(means, variances)
        sd = np.sqrt(problem.test_variance + test_sd**2)[:, None]
        points = (problem.test + sd * rng.standard_normal((2, 20_000, 40)))[..., features]
        for size, expected in zip(sizes, exact, strict=True):
            score = ((points - midpoint) * weights)[..., :size].sum(2)
            share = np.mean([score[0] <= 0, score[1] > 0])
            assert abs(share - expected) < 4.5 * np.sqrt(0.25 / 40_000)


def test_fisher_agrees_with_lda_on_one_feature_and_bears_dead_ones():
    rng = np.random.default_rng(13)
    x, labels = classes(50, 1, rng, gap=1.0)
    means, variances, _ = selection.class_moments(x, labels)
    weights, midpoint = experiments.fisher(means, variances)
    ours = (((x - midpoint) @ weights) <= 0).astype(int)
    assert np.array_equal(ours, LinearDiscriminantAnalysis().fit(x, labels).predict(x))
    weights, _ = experiments.fisher(np.array([[0.0, 1], [0, 2]]), np.array([[0.0, 0.5], [0, 0.5]]))
    assert weights == pytest.approx([0, -2])


def test_all_curves_against_a_plain_computation(problem):
    """Every reading once more, feature count by feature count, with the noise really added."""
    sizes = np.array([1, 5, 40])
    curves_ = experiments.all_curves(problem, experiments.READINGS, experiments.CRITERIA, sizes, [5.0, 10.0], DELTA)
    assert set(curves_) == {experiments.NO_NOISE, *(r.at(e) for r in experiments.READINGS for e in (5.0, 10.0))}
    for reading in experiments.READINGS:
        curves = curves_[reading.at(5.0)]
        for criterion in ("DFS", "t-statistic", "no selection"):
            slow = [plain_error(problem, reading, criterion, m) for m in sizes]
            assert curves[criterion] == pytest.approx(slow, rel=1e-6, abs=1e-9)
        assert ("noise-aware t" in curves) == (reading.noise == "sensitivity one" and reading.select_on == "clean")


def plain_error(problem, reading, criterion, m):
    tau, labels, n = np.log(1 / DELTA) / 5, np.repeat([0, 1], problem.train.shape[1]), problem.train.shape[1]
    x, e = np.concatenate(problem.train), np.concatenate(problem.noise)
    score = {
        "DFS": selection.distance,
        "t-statistic": selection.t_statistic,
        "no selection": lambda x, _: -np.arange(40.0),
    }

    def rank(data):
        return np.argsort(-score[criterion](data, labels), kind="stable")[:m]

    norm = np.abs(x[:, rank(x)] if "algorithm" in reading.noise else x).sum(1).max()
    sd = tau if reading.noise == "sensitivity one" else 2 * norm * tau
    sd = np.sqrt(sd) if "variance" in reading.noise else sd
    kept = rank(x + sd * e if reading.select_on == "noisy" else x)
    noisy = (x + sd * e)[:, kept]
    a, b = noisy[:n], noisy[n:]
    weights = (a.mean(0) - b.mean(0)) / ((a.var(0, ddof=1) + b.var(0, ddof=1)) / 2)
    middle, test_sd = (a.mean(0) + b.mean(0)) / 2, sd if reading.test == "noisy" else 0.0
    centre = (problem.test[:, 0, kept] - middle) @ weights
    spread = np.sqrt((weights**2 * (problem.test_variance[:, kept] + test_sd**2)).sum(1))
    return (stats.norm.cdf(-centre[0] / spread[0]) + stats.norm.cdf(centre[1] / spread[1])) / 2


def test_few_against_all_are_the_ends_of_two_curves(problem):
    """All features are Definition 3 on clean data, m of them Algorithm 1, both on clean test points."""
    lines = {(row["features"], row["scale"]): row for row in experiments.few_against_all(problem, 5, 5.0, DELTA)}
    for scale, suffix in (("sd", ""), ("printed", ", variance")):
        for features, noise, m in (("all", "definition 3", 40), ("few", "algorithm 1", 5)):
            reading = Reading(noise + suffix, test="clean")
            error = experiments.curve(problem, reading, "DFS", [m], 5.0, DELTA)[0]
            assert lines[features, scale]["error"] == pytest.approx(error, rel=1e-9)
    assert lines["few", "sd"]["norm"] < lines["all", "sd"]["norm"] == pytest.approx(problem.largest_norm)
    assert 0 < lines["few", "sd"]["bound"] < lines["all", "sd"]["bound"] < 0.5


# --- real data ------------------------------------------------------------------------------------------------------


def small_set(with_test=False):
    rng = np.random.default_rng(15)
    y = np.repeat(np.arange(3), 30)
    x = rng.uniform(size=(90, 1, 4, 4)).astype(np.float32) + y[:, None, None, None]
    test = (x[:9], y[::10]) if with_test else (None, None)
    return Dataset("toy", x, y, *test, classes=("a", "b", "c"))


def test_pairs_from_data_share_no_record():
    problem, public = experiments.from_data(small_set(), (2, 0), 8, 20, np.random.default_rng(0))
    assert problem.train.shape == public.train.shape == (2, 8, 16)
    assert problem.test.shape == (2, 14, 16)
    assert problem.train[0].min() >= 2
    assert problem.train[1].max() <= 1
    rows = np.concatenate([part.reshape(-1, 16) for part in (problem.train, public.train, problem.test)])
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_pairs_use_the_published_test_part_and_refuse_too_many_records():
    with_test = small_set(with_test=True)
    problem, _ = experiments.from_data(with_test, (0, 1), 15, 2, np.random.default_rng(0))
    pool = with_test.x_test.reshape(9, -1)
    assert all(np.isin(row, pool).all() for row in problem.test.reshape(-1, 16).astype(np.float32))
    with pytest.raises(ParameterError, match="n = 16 is too many for class 0 of toy"):
        experiments.from_data(with_test, (0, 1), 16, 2, np.random.default_rng(0))


def test_rcv1_path_on_a_tiny_collection():
    """Documents with several topics become two classes; the curves run on CSR rows."""
    rng = np.random.default_rng(16)
    topics = np.zeros((120, 3), np.uint8)
    topics[:50, 0], topics[40:95, 1], topics[90:, 2] = 1, 1, 1  # ten documents have both of the first two
    x = rng.uniform(size=(120, 25)) * (rng.uniform(size=(120, 25)) < 0.2)
    x[:50, 3] += 1
    part = sparse.csr_matrix(x.astype(np.float32)), sparse.csr_matrix(topics)
    pair = experiments.two_topics(Dataset("rcv1", *part, *part, classes=("A", "B", "C")), (0, 1))
    assert pair.classes == ("A", "B")
    assert np.bincount(pair.y_train + 1).tolist() == [35, 40, 45]
    problem, _ = experiments.from_data(pair, (0, 1), 10, 15, rng)
    assert problem.train.shape == (2, 10, 25)
    error = experiments.curve(problem, Reading("sensitivity one"), "DFS", [1, 9], 1e3, DELTA)
    assert error[0] < 0.25  # a tenth of class B is above the midpoint
    assert selection.top(experiments.scores(problem, "DFS", 0.0), 1)[0] == 3


def test_price_of_privacy_orders_as_it_must():
    """With a huge budget every arm comes near the classifier without privacy; with a tiny one none does."""
    problem, public = experiments.from_data(small_set(), (0, 1), 8, 14, np.random.default_rng(1))
    scaled = [experiments.Problem(q.train / 2, q.noise, q.test / 2, q.test_variance) for q in (problem, public)]
    rich = experiments.price(*scaled, 4, Budget(1e6, DELTA), np.random.default_rng(2))
    assert tuple(rich) == experiments.ARMS
    assert max(rich.values()) < 0.05
    poor = [experiments.price(*scaled, 4, Budget(1e-3, DELTA), np.random.default_rng(i)) for i in range(40)]
    # 40 coin flips an arm: a mean outside (0.2, 0.8) has probability below 1e-3 for the eight arms together.
    for arm in experiments.ARMS[1:]:
        assert 0.2 < np.mean([run[arm] for run in poor]) < 0.8
    assert np.mean([run["no privacy"] for run in poor]) < 0.05


# --- what is refused, and when ---------------------------------------------------------------------------------------

FOUR = np.array([[1.0, 2.0], [1.5, 2.5], [3.0, 1.0], [3.5, 0.5]])
TWICE = np.array([0, 0, 1, 1])


class NoneLeft(NoNoise):
    """A generator that nothing may be drawn from."""

    def standard_normal(self, size=None):
        raise AssertionError("something was released before everything was checked")


@pytest.mark.parametrize(("change", "said"), [
    ({"x": [["Alice", "Bob"]] * 4}, "x = a list of 4 .* real numbers"),
    ({"x": np.where(FOUR > 3, np.nan, FOUR)}, "finite"),
    ({"x": np.ma.masked_array(FOUR, FOUR > 3)}, "masked"), ({"labels": TWICE[:3]}, r"\(n, p\) and \(n,\)"),
    ({"labels": TWICE + 1990}, "without gaps"), ({"labels": [0, 0, 0, 1]}, "without gaps"), ({"m": 3}, "m = 3"),
    ({"budget": 1.0}, "must be a Budget"), ({"thresholds": [0.0, 1.0]}, r"in \[1e-50, 1e50\]"),
    ({"thresholds": [1.0, np.inf]}, "finite"), ({"thresholds": [2.0, 1.0]}, "increasing"), ({"rng": 0}, "rng = 0"),
])  # fmt: skip
@pytest.mark.parametrize("release", [selection.private_dfs, selection.private_selection])
def test_what_is_private_is_refused_before_any_of_the_budget_is_spent(release, change, said):
    given = {"x": FOUR, "labels": TWICE, "m": 1, "budget": Budget(1.0, DELTA), "thresholds": [1.0, 2.0]}
    with pytest.raises(ParameterError, match=said) as refused:
        release(**given | {"rng": NoneLeft()} | change)
    assert "Alice" not in str(refused.value)
    assert release(**given, rng=NoNoise())


@pytest.mark.parametrize("scores", [[1.0], [[1.0, 2.0]], [1.0, np.nan], ["a", "b"]])
def test_scores_are_a_number_for_each_feature(scores):
    with pytest.raises(ParameterError, match="scores"):
        selection.dfs(FOUR, TWICE, 1, lambda norm: norm, NoNoise(), scores=scores)
    assert selection.dfs(FOUR, TWICE, 1, lambda norm: norm, NoNoise(), scores=[1, 2]).features.tolist() == [1]
    with pytest.raises(ParameterError, match=r"\(n, p\) and \(n,\)"):
        selection.dfs(FOUR, TWICE[:2], 1, lambda norm: norm, NoNoise(), scores=[1, 2])


def test_labels_such_as_years_are_refused_in_a_short_sentence_without_their_counts():
    for labels in (TWICE + 1990, [0, 0, 2**62, 2**62], [0, 0, 2, 2], []):
        with pytest.raises(ParameterError, match=r"labels = .* without gaps|x = ") as refused:
            selection.class_moments(FOUR[: len(labels)], labels)
        assert len(str(refused.value)) < 200
