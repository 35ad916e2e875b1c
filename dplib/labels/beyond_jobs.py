"""One run of every method on one data set: the same features, records, batches and kind of classifier for all.

A method is a release and a loss; see :mod:`dplib.labels.beyond`. The releases are made once for each budget and shared:
plain, debiased and likelihood losses on randomised response learn from the very same answers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dplib import checks
from dplib.labels import beyond, beyond_heads, randomised_response, stages
from dplib.labels import priors as label_priors
from dplib.labels.beyond import Evidence
from dplib.labels.beyond_heads import Training
from dplib.labels.prior_tasks import Task, task

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
_STAGED = {"stages": "rr", "stages-likelihood": "rr-likelihood", "stages-subset": "subset"}  # what stage 1 is


def compare(
    *,
    dataset: str,
    epsilons: Sequence[float],
    methods: Sequence[str],
    rates: Mapping[str, Sequence[float]] | float,
    seed: int,
    maps: int,
    dimensions: int,
    group_count: int,
    group_dimensions: int,
    epsilon_p: float,
    share: float,
    temperature: float,
    epochs: int,
) -> dict[str, Any]:
    """Train one classifier for each method and budget, on one seed.

    Args:
        dataset, maps, dimensions: the task, see :func:`dplib.labels.prior_tasks.task`.
        epsilons: budgets, > 0. methods: names of :data:`METHODS`.
        rates: learning rate: one for all, or for each method one for each budget.
        seed: of the groups, all randomness of the releases, the stages and the order of the records.
        group_count, group_dimensions: groups of Algorithm 4, and the leading components they are made from.
        epsilon_p: the histograms' share; all of the budget where that is smaller.
        share: of the records in stage 1. temperature: of the prior of "stages"; that of the others is 1, since a
            likelihood makes p(y | x) a model of the true labels.

    Returns:
        "test" and "validation": method to accuracies, one for each budget. "facts": name to one value for each budget:
        constant (share of records whose cluster prior leaves one label, so that the answer says nothing of their own),
        lost (share whose own label has left Y_k*), right (share of right answers) for "clusters" and "stages", right
        for "rr".
    """
    for method in methods:
        checks.one_of(*METHODS).check("method", method)
    problem = task(dataset, "learned", maps, dimensions)
    training = Training(epochs=epochs)
    releases = _Releases(problem, seed, group_count, group_dimensions, epsilon_p)
    cells = [(method, i) for method in methods for i in range(len(epsilons))]
    rate = {(method, i): rates if isinstance(rates, float) else rates[method][i] for method, i in cells}
    first = {cell: releases.evidence(cell[0], epsilons[cell[1]]) for cell in cells if cell[0] not in _STAGED}
    n = len(problem.y_train)
    stage_one = np.zeros(n, dtype=bool)
    stage_one[np.random.default_rng([seed, 7]).permutation(n)[: round(share * n)]] = True
    for cell in cells:
        if cell[0] in _STAGED:
            first[cell] = _only(releases.evidence(_STAGED[cell[0]], epsilons[cell[1]]), stage_one)
    heads = _fit(problem.x_train, first, rate, training, seed)
    results = _evaluated(problem, first, heads)
    second = {}
    staged = [cell for cell in first if cell[0] in _STAGED]
    if staged:
        scores = dict(zip(first, heads.log_probabilities(problem.x_train), strict=True))
        for method, i in staged:
            heat = temperature if method == "stages" else 1.0
            second[method, i] = releases.second_stage(method, epsilons[i], scores[method, i], stage_one, heat)
        results |= _evaluated(problem, second, _fit(problem.x_train, second, rate, training, seed))
    return {
        part: {method: [results[method, i][part] for i in range(len(epsilons))] for method in methods}
        for part in ("validation", "test")
    } | {"facts": {name: [values.get(one) for one in epsilons] for name, values in releases.facts.items()}}


class _Releases:
    """The releases of one seed, each made once."""

    def __init__(self, problem: Task, seed: int, group_count: int, group_dimensions: int, epsilon_p: float):
        self.problem, self.seed, self.epsilon_p = problem, seed, epsilon_p
        self.groups = label_priors.groups(problem.for_groups(group_dimensions)[0], group_count, seed)
        self.group_count = group_count
        self.facts: dict[str, dict[float, float]] = {}
        self._made: dict[tuple, Any] = {}

    def evidence(self, method: str, epsilon: float) -> Evidence:
        """What a one-stage method learns from."""
        labels, classes = self.problem.y_train, self.problem.classes
        every = np.ones(classes, dtype=bool)
        if method == "clean":
            return beyond.plain(labels, classes)
        if method == "alibi":
            released = beyond.laplace(labels, classes, epsilon, self._rng(1, epsilon))
            return beyond.laplace_likelihood(released, epsilon)
        if method == "subset":
            released = beyond.subset(labels, classes, epsilon, self._rng(2, epsilon))
            return beyond.subset_likelihood(released, epsilon)
        if method.startswith("rr"):
            answers = self._once("rr", epsilon, self._rr)
            if method == "rr-debiased":
                return beyond.debiased(answers, every, epsilon)
            if method == "rr-likelihood":
                return beyond.answer_likelihood(answers, every, epsilon)
            return beyond.plain(answers, classes)
        smoothed = method != "clusters"
        answers, members, prior, left = self._once("smoothed" if smoothed else "clusters", epsilon, self._clusters)
        if method == "clusters-soft":
            told = beyond.answer_likelihood(answers, members, left)
            return Evidence("target", beyond.posterior(prior, told).astype(np.float32))
        return beyond.plain(answers, classes)

    def second_stage(
        self, method: str, epsilon: float, scores: np.ndarray, stage_one: np.ndarray, temperature: float
    ) -> Evidence:
        """What stage 2 learns from: new answers with the first model's prior, and those of stage 1.

        scores: the model's ln p(y | x) of all records, (n, K). stage_one: bool (n,).
        """
        labels, classes, new = self.problem.y_train, self.problem.classes, ~stage_one
        prior = stages.tempered(scores[new], temperature)
        response = randomised_response.rr_with_prior(labels[new], prior, epsilon, self._rng(5, epsilon, method))
        members = randomised_response.kept(prior, epsilon)
        self._note(method, epsilon, response.labels, labels[new], members)
        if method != "stages":
            values = self.evidence(_STAGED[method], epsilon).values.copy()
            values[new] = beyond.answer_likelihood(response.labels, members, epsilon).values
            return Evidence("likelihood", values)
        earlier = self._once("rr", epsilon, self._rr)
        answers = np.where(stage_one, earlier, 0)
        answers[new] = response.labels
        k = int(np.clip(np.rint(response.k.mean()), 1, classes))
        stays = stages.likely(scores, earlier, k) | new  # Appendix B: earlier answers outside the top k go
        return _only(beyond.plain(answers, classes), stays)

    def _rr(self, epsilon: float, name: str) -> np.ndarray:
        answers = randomised_response.rr(
            self.problem.y_train, self.problem.classes, epsilon, self._rng(3, epsilon)
        ).labels
        self.facts.setdefault("rr right", {})[epsilon] = float((answers == self.problem.y_train).mean())
        return answers

    def _clusters(self, epsilon: float, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        labels, share = self.problem.y_train, min(self.epsilon_p, epsilon)
        smoothing = 2 / share if name == "smoothed" else 0.0  # the scale of the noise
        response, priors = label_priors.respond(
            labels,
            self.groups,
            self.group_count,
            self.problem.classes,
            epsilon,
            share,
            self._rng(4, epsilon),
            smoothing,
        )
        members = randomised_response.kept(priors.of_record, epsilon - share)
        self._note(name, epsilon, response.labels, labels, members)
        return response.labels, members, priors.of_record, epsilon - share

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


def _fit(x, evidence: Mapping, rate: Mapping, training: Training, seed: int) -> beyond_heads.Heads:
    rng = np.random.default_rng([seed, 6])
    return beyond_heads.fit(x, list(evidence.values()), [rate[cell] for cell in evidence], training, rng)


def _evaluated(problem: Task, cells: Mapping, heads: beyond_heads.Heads) -> dict:
    parts = {
        "validation": heads.accuracy(problem.x_valid, problem.y_valid),
        "test": heads.accuracy(problem.x_test, problem.y_test),
    }
    return {cell: {part: float(values[i]) for part, values in parts.items()} for i, cell in enumerate(cells)}
