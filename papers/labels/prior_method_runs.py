"""One run of every method on one data set: the same features, records, batches and kind of classifier for all.

A method is a release and a loss; see :mod:`dplib.releases`. The releases are made once for each budget and
shared: plain, debiased and likelihood losses on randomised response learn from the very same answers.

A task has public features of images, private labels, and a validation part drawn by the seed. "learned" features are
principal components of :mod:`papers.labels.patch_features` with a dictionary from the training images, for label
privacy, where inputs are public; "fixed" ones such features from synthetic pictures, each record's scaled to length 10,
for DP-SGD: a record's features depend on that record alone. For the digits, which need no file, both are pixels.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from book.evidence import runs
from dplib import checks, data, randomised_response, releases, stages
from dplib import priors as label_priors
from dplib.data import Dataset, preprocess, tasks
from dplib.releases import Evidence
from papers.labels import cluster_rr, heads, patch_features

KINDS = ("learned", "fixed")
VALIDATION = 5000  # training records held out; of the digits, half of the test part
LENGTH = 10.0  # of a record's fixed features


def for_groups(problem: Dataset, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """What k-means sees of training and test inputs: leading columns, each over the root of its deviation.

    Half-way between principal components as they are, where few of them decide, and components of equal variance.
    """
    scale = np.sqrt(np.maximum(problem.x_train[:, :dimensions].std(axis=0), 1e-3))
    return problem.x_train[:, :dimensions] / scale, problem.x_test[:, :dimensions] / scale


def task(dataset: str, kind: str, maps: int, dimensions: int, seed: int) -> Dataset:
    """Features (n, d) float32 and labels (n,) of three parts.

    Raises as :func:`papers.labels.patch_features.features`.

    Args:
        dataset: "digits" (pixels, whatever ``maps`` and ``dimensions`` are), or a set of images of ``data.names()``.
        kind: "learned" or "fixed". maps: of the patch features. dimensions: principal components of learned ones.
        seed: draws the validation part.
    """
    checks.one_of(*KINDS).check("kind", kind)
    if dataset == "digits":
        digits = tasks.task("digits", "flat", split_seed=seed)
        parts = {name: getattr(digits, name) for name in ("x_train", "x_valid", "x_test")}
        parts = {name: 3 * (x.astype(np.float32) - np.float32(0.3)) for name, x in parts.items()}  # about mean 0, sd 1
        return replace(digits, **{name: _fixed_length(x) if kind == "fixed" else x for name, x in parts.items()})
    loaded, (train, test) = data.load(dataset), _features(dataset, kind, maps, dimensions)
    sizes = (VALIDATION, len(train) - VALIDATION)
    held, rest = preprocess.disjoint(len(train), sizes, np.random.default_rng([10, seed]))
    features_ = {"x_train": train[rest], "y_train": loaded.y_train[rest], "x_valid": train[held], "x_test": test}
    return replace(loaded, **features_, y_valid=loaded.y_train[held])


@functools.lru_cache(maxsize=1)
def _features(dataset: str, kind: str, maps: int, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of training and test images; kept, since many runs in a row want the same."""
    if kind == "learned":
        return patch_features.components(dataset, dimensions, maps)
    train, test = (_fixed_length(x) for x in patch_features.features(dataset, maps, dictionary="synthetic"))
    return train, test


def _fixed_length(x: np.ndarray) -> np.ndarray:
    """Each row scaled to length :data:`LENGTH`: a bound that no other record moves."""
    return x * (np.float32(LENGTH) / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-6))


METHODS = {
    "clean": "true labels, no privacy",
    "rr": "randomised response (LP-1ST)",
    "rr-debiased": "randomised response, debiased loss",
    "rr-likelihood": "randomised response, likelihood",
    "alibi": "Laplace noise and Bayes (ALIBI)",
    "subset": "subset selection, likelihood",
    "clusters": "cluster priors (Algorithm 4)",
    "clusters-smoothed": "cluster priors, smoothed",
    "clusters-soft": "cluster priors, smoothed, soft labels",
    "stages": "two stages (LP-2ST)",
    "stages-likelihood": "two stages, likelihood",
    "stages-subset": "two stages, subsets first, likelihood",
}
EARLIER = {"cluster-rr": "ClusterRR, as we read it"}  # what paper C stands beside
_STAGED = {"stages": "rr", "stages-likelihood": "rr-likelihood", "stages-subset": "subset"}  # what stage 1 is


@runs.experiment(
    "label_methods",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "epsilons": [1.0], "methods": ["rr", "alibi", "subset", "clusters", "clusters-soft",
           "stages", "stages-subset"], "rates": 0.02, "seed": 3, "group_count": 20, "epochs": 1},
)  # fmt: skip
def compare(
    *,
    dataset: str,
    epsilons: Sequence[float],
    methods: Sequence[str],
    rates: float | Mapping[str, Sequence[float]],
    seed: int,
    maps: int = 400,
    dimensions: int = 256,
    group_count: int = 100,
    group_dimensions: int = 128,
    epsilon_p: float = 0.05,
    share: float = 0.6,
    temperature: float = 0.5,
    epochs: int = 3,
    device: str = "cpu",
) -> runs.Result:
    """Train one classifier for each method and budget, on one seed.

    Args:
        maps, dimensions: of the task (:func:`task`). epsilons: budgets, > 0.
        methods: names of :data:`METHODS` and :data:`EARLIER`. rates: learning rate: one for all, or for each method one
            for each budget.
        seed: of the validation part, the groups, all randomness of the releases, the stages and the order of records.
        group_count, group_dimensions: groups of Algorithm 4, and the leading components they are made from. epsilon_p:
            the histograms' share; all of the budget where that is smaller. share: of the records in stage 1.
        temperature: of the prior of "stages"; that of the others is 1, as a likelihood models the true labels.

    Returns:
        "test" and "validation": method to accuracies, one for each budget. "facts": name to one value for each budget:
            shares of records whose prior leaves one label (constant), whose own label has left Y_k* (lost), and of
            right answers.
    """
    for method in methods:
        checks.one_of(*METHODS, *EARLIER).check("method", method)
    problem = task(dataset, "learned", maps, dimensions, seed)
    made = _Releases(problem, seed, group_count, group_dimensions, epsilon_p)
    cells = [(method, i) for method in methods for i in range(len(epsilons))]
    rate = {(method, i): rates[method][i] if isinstance(rates, Mapping) else rates for method, i in cells}
    n = len(problem.y_train)
    stage_one = np.random.default_rng([seed, 7]).permutation(n).argsort() < round(share * n)

    def learned(told: Mapping[tuple[str, int], Evidence]) -> tuple[heads.Heads, dict]:
        rng = np.random.default_rng([seed, 6])
        fitted = heads.fit(
            problem.x_train, list(told.values()), [rate[cell] for cell in told], rng, epochs=epochs, device=device
        )
        accuracies = {
            "validation": fitted.accuracy(problem.x_valid, problem.y_valid),
            "test": fitted.accuracy(problem.x_test, problem.y_test),
        }
        return fitted, {
            cell: {name: round(float(v[i]), 6) for name, v in accuracies.items()} for i, cell in enumerate(told)
        }

    first = {(m, i): made.evidence(m, epsilons[i]) for m, i in cells if m not in _STAGED}
    staged = [cell for cell in cells if cell[0] in _STAGED]
    first |= {(m, i): _only(made.evidence(_STAGED[m], epsilons[i]), stage_one) for m, i in staged}
    fitted, results = learned(first)
    if staged:
        scores = dict(zip(first, fitted.log_probabilities(problem.x_train), strict=True))
        heat = {cell: temperature if cell[0] == "stages" else 1.0 for cell in staged}
        second = {(m, i): made.second_stage(m, epsilons[i], scores[m, i], stage_one, heat[m, i]) for m, i in staged}
        results |= learned(second)[1]
    return {
        part: {method: [results[method, i][part] for i in range(len(epsilons))] for method in methods}
        for part in ("validation", "test")
    } | {"facts": {name: [round(values[epsilon], 6) for epsilon in epsilons] for name, values in made.facts.items()}}


class _Releases:
    """The releases of one seed, each made once."""

    def __init__(self, problem: Dataset, seed: int, group_count: int, group_dimensions: int, epsilon_p: float):
        self.problem, self.seed, self.epsilon_p = problem, seed, epsilon_p
        self.classes = len(problem.classes)
        self.groups = label_priors.groups(for_groups(problem, group_dimensions)[0], group_count, seed)
        self.group_count = group_count
        self.facts: dict[str, dict[float, float]] = {}
        self._made: dict[tuple, Any] = {}

    def evidence(self, method: str, epsilon: float) -> Evidence:
        """What a one-stage method learns from."""
        labels, classes = self.problem.y_train, self.classes
        every = np.ones(classes, dtype=bool)
        if method == "clean":
            return releases.plain(labels, classes)
        if method == "alibi":
            released = releases.laplace(labels, classes, epsilon, self._rng(1, epsilon))
            return releases.laplace_likelihood(released, epsilon)
        if method == "subset":
            released = releases.subset(labels, classes, epsilon, self._rng(2, epsilon))
            return releases.subset_likelihood(released, epsilon)
        if method.startswith("rr"):
            answers = self._once("rr", epsilon, self._rr)
            if method == "rr-debiased":
                return releases.debiased(answers, every, epsilon)
            if method == "rr-likelihood":
                return releases.answer_likelihood(answers, every, epsilon)
            return releases.plain(answers, classes)
        if method == "cluster-rr":
            share = min(self.epsilon_p, epsilon)
            answers = cluster_rr.respond(
                labels, self.groups, self.group_count, classes, epsilon, share, self._rng(8, epsilon)
            )
            self.facts.setdefault("cluster-rr right", {})[epsilon] = float((answers == labels).mean())
            return releases.plain(answers, classes)
        smoothed = method != "clusters"
        answers, members, prior, left = self._once("smoothed" if smoothed else "clusters", epsilon, self._clusters)
        if method == "clusters-soft":
            told = releases.answer_likelihood(answers, members, left)
            return Evidence("target", releases.posterior(prior, told).astype(np.float32))
        return releases.plain(answers, classes)

    def second_stage(
        self, method: str, epsilon: float, scores: np.ndarray, stage_one: np.ndarray, temperature: float
    ) -> Evidence:
        """What stage 2 learns from: new answers with the first model's prior, and those of stage 1 (bool (n,)).

        scores: the model's ln p(y | x) of all records, (n, K).
        """
        labels, classes, new = self.problem.y_train, self.classes, ~stage_one
        prior = stages.tempered(scores[new], temperature)
        response = randomised_response.rr_with_prior(labels[new], prior, epsilon, self._rng(5, epsilon, method))
        members = randomised_response.kept(prior, epsilon)
        self._note(method, epsilon, response.labels, labels[new], members)
        if method != "stages":
            values = self.evidence(_STAGED[method], epsilon).values.copy()
            values[new] = releases.answer_likelihood(response.labels, members, epsilon).values
            return Evidence("likelihood", values)
        earlier = self._once("rr", epsilon, self._rr)
        answers = np.where(stage_one, earlier, 0)
        answers[new] = response.labels
        k = int(np.clip(np.rint(response.k.mean()), 1, classes))
        stays = stages.likely(scores, earlier, k) | new  # Appendix B: earlier answers outside the top k go
        return _only(releases.plain(answers, classes), stays)

    def _rr(self, epsilon: float, name: str) -> np.ndarray:
        labels = self.problem.y_train
        answers = randomised_response.rr(labels, self.classes, epsilon, self._rng(3, epsilon)).labels
        self.facts.setdefault("rr right", {})[epsilon] = float((answers == labels).mean())
        return answers

    def _clusters(self, epsilon: float, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        labels, share = self.problem.y_train, min(self.epsilon_p, epsilon)
        smoothing = 2 / share if name == "smoothed" else 0.0  # the scale of the noise
        response, prior = label_priors.respond(
            labels,
            self.groups,
            self.group_count,
            self.classes,
            epsilon,
            share,
            self._rng(4, epsilon),
            smoothing,
        )
        members = randomised_response.kept(prior, epsilon - share)
        self._note(name, epsilon, response.labels, labels, members)
        return response.labels, members, prior, epsilon - share

    def _note(self, name: str, epsilon: float, answers, labels, members) -> None:
        """Facts about answers that only the experimenter sees."""
        noted = {
            "right": answers == labels,
            "constant": members.sum(axis=1) == 1,
            "lost": ~members[np.arange(len(labels)), labels],
        }
        for fact, values in noted.items():
            self.facts.setdefault(f"{name} {fact}", {})[epsilon] = float(values.mean())

    def _once(self, name: str, epsilon: float, make) -> Any:
        if (name, epsilon) not in self._made:
            self._made[name, epsilon] = make(epsilon, name)
        return self._made[name, epsilon]

    def _rng(self, stream: int, epsilon: float, method: str = "") -> np.random.Generator:
        return np.random.default_rng([self.seed, stream, round(1e6 * epsilon), len(method)])


def _only(evidence: Evidence, rows: np.ndarray) -> Evidence:
    """Evidence of these records (bool (n,)), and none of the others."""
    return Evidence(evidence.kind, np.where(rows[:, None], evidence.values, np.float32(0)))
