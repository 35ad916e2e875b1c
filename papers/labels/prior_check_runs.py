"""What chapter 10 measures besides methods: votes of clusters, membership of *inputs*, and DP-SGD on whole records.

Neighbours differ in the label of one record for label privacy, and in the presence of one record for DP-SGD: the two
epsilons share an axis in a figure, and no meaning.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from book.evidence import runs
from dplib import accounting, dpsgd, logistic_grid, randomised_response
from dplib import priors as label_priors
from dplib.devices import find_device
from dplib.dpsgd import DPSGD
from dplib.examples import Data
from dplib.models import mlp
from dplib.sgd import seeded
from papers.labels import soft_labels
from papers.labels.prior_method_runs import for_groups, task


@runs.experiment(
    "cluster_votes",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "group_count": 20, "epsilons": [0.05, 1.0], "totals": [1.0], "seed": 3},
)
def votes(
    *,
    dataset: str,
    group_count: int,
    epsilons: Sequence[float],
    totals: Sequence[float],
    seed: int,
    draws: int = 5,
    maps: int = 400,
    dimensions: int = 256,
    group_dimensions: int = 128,
) -> runs.Result:
    """Accuracy of the vote on test data, over the budget of the histograms, for one clustering.

    As in the paper (Appendix B): clusters are made from training and test features together, histograms from the
    training labels alone.

    Args:
        group_count, group_dimensions: clusters, from so many components. epsilons: budgets > 0 of the histograms.
            totals: whole budgets, of which they are a share. draws: of the noise, averaged. seed: of all, the split
            included.

    Returns:
        "accuracy": one for each budget; "exact": without noise; "smallest": records of the smallest cluster; "right":
            for each total and share the probability of a right answer of RRWithPrior, exact but for the histograms'
            noise, None where the share exceeds the total; "plain": the same without a prior, for each total.
    """
    problem = task(dataset, "learned", maps, dimensions, seed)
    n, classes = len(problem.y_train), len(problem.classes)
    both = np.concatenate(for_groups(problem, group_dimensions))
    group = label_priors.groups(both, group_count, seed)
    counts = label_priors.histograms(problem.y_train, group[:n], group_count, classes)
    tested = label_priors.histograms(problem.y_test, group[n:], group_count, classes)
    rng = np.random.default_rng([seed, 2])

    def accuracy(noisy: np.ndarray) -> float:
        return float(tested[np.arange(group_count), label_priors.vote(noisy)].sum() / len(problem.y_test))

    votes_right = np.zeros(len(epsilons))
    right = np.zeros((len(totals), len(epsilons)))
    for i, epsilon in enumerate(epsilons):
        for _ in range(draws):
            noisy = label_priors.noisy_histograms(counts, epsilon, rng)
            votes_right[i] += accuracy(noisy) / draws
            priors = label_priors.normalised(noisy)
            for j, total in enumerate(totals):
                if total >= epsilon:
                    right[j, i] += _right(counts, priors, total - epsilon) / draws
    return {
        "accuracy": votes_right.round(6).tolist(),
        "exact": accuracy(counts),
        "smallest": int(counts.sum(axis=1).min()),
        "right": [
            [round(float(value), 6) if epsilon <= total else None for value, epsilon in zip(row, epsilons, strict=True)]
            for row, total in zip(right, totals, strict=True)
        ],
        "plain": [round(float(1 / (1 + (classes - 1) * np.exp(-total))), 6) for total in totals],
    }


def _right(counts: np.ndarray, priors: np.ndarray, epsilon: float) -> float:
    """How often RRWithPrior returns the true label, for records of true counts (groups, K) with these priors."""
    tables = randomised_response.log_table(randomised_response.kept(priors, epsilon), epsilon)
    kept = np.exp(np.diagonal(tables, axis1=1, axis2=2))
    return float((counts * kept).sum() / counts.sum())


@runs.experiment(
    "records_dpsgd",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "pairs": [[1.0, 2.5], [8.0, 12.5]], "batch": 500, "steps": 30, "seed": 3},
)
def private_sgd(
    *,
    dataset: str,
    pairs: Sequence[Sequence[float]],
    seed: int,
    maps: int = 200,
    delta: float = 1e-5,
    batch: int = 2000,
    steps: int = 300,
    max_grad_norm: float = 1.0,
    device: str = "cpu",
) -> runs.Result:
    """Logistic regressions by DP-SGD on features that no training image decided, one for each budget and rate.

    (epsilon, delta)-DP for adding or removing a record, by the PRV accountant; the choice of the rate is not accounted.
    pairs: of budget and learning rate, each > 0; inf: no noise. batch: expected records in a step. Returns
    "validation", "test", "noise_multiplier", a value for each pair; "sample_rate".
    """
    problem = task(dataset, "fixed", maps, 0, seed)
    rate = min(1.0, batch / len(problem.y_train))
    noise = [
        0.0 if math.isinf(epsilon) else float(accounting.noise_multiplier(epsilon, rate, steps, delta, "prv"))
        for epsilon, _ in pairs
    ]
    settings = [DPSGD(steps, rate, step, s, max_grad_norm) for (_, step), s in zip(pairs, noise, strict=True)]
    sets = Data(
        (problem.x_train, problem.y_train), (problem.x_valid, problem.y_valid), (problem.x_test, problem.y_test)
    )
    rng = np.random.default_rng(seed)
    scores = logistic_grid.train_grid(sets, settings, rng, classes=len(problem.classes), device=device, progress=False)
    accuracies = {part: scores[part]["metric"].astype(float).round(6).tolist() for part in ("validation", "test")}
    return accuracies | {"noise_multiplier": noise, "sample_rate": rate}


@runs.experiment(
    "inputs_membership",
    version=1,
    data=("dataset",),
    probe={"dataset": "digits", "epsilons": [1.0], "seed": 3, "records": 100, "epochs": 20, "dpsgd_steps": 10},
)
def membership(
    *,
    dataset: str,
    epsilons: Sequence[float],
    seed: int,
    maps: int = 400,
    dimensions: int = 256,
    records: int = 1000,
    hidden: int = 256,
    epochs: int = 60,
    delta: float = 1e-5,
    dpsgd_steps: int = 50,
    device: str = "cpu",
) -> runs.Result:
    """Who was in the training set? An attack on the inputs of networks whose labels are protected.

    A network with one hidden layer learns ``records`` examples until it knows them by heart; the attacker scores an
    input by the network's largest probability. As many fresh inputs are the others. ``epsilons``: label budgets of
    randomised response, and record budgets of DP-SGD with full batches.

    Returns:
        AUC for each "label" and "record" budget, with "clean" labels, and "stored", of a nearest-neighbour rule by the
            distance to the nearest stored input; "test" accuracy and "memory", share of the answers that the network
            reproduces, for each label budget.
    """
    from sklearn.metrics import roc_auc_score
    from sklearn.neighbors import NearestNeighbors

    problem = task(dataset, "learned", maps, dimensions, seed)
    rows = np.random.default_rng([seed, 0]).permutation(len(problem.y_train))[: 2 * records]
    x, y, classes = problem.x_train[rows], problem.y_train[rows], len(problem.classes)
    place, truth = find_device(device), np.repeat([1, 0], records)
    inside, outside = (torch.from_numpy(x[part]).to(place) for part in (slice(None, records), slice(records, None)))

    def network():
        return seeded(lambda: mlp([x.shape[1], hidden, classes]), seed).to(place)

    def attack(net) -> float:
        scores = (torch.softmax(torch.from_numpy(soft_labels.logits(net, images)), 1) for images in (inside, outside))
        return roc_auc_score(truth, torch.cat([score.amax(1) for score in scores]).numpy())

    def learned(labels):
        net = network()
        soft_labels.fit(
            net, inside, labels, epochs=epochs, batch_size=50, learning_rate=0.1, weight_decay=0.0, seed=seed
        )
        return net

    results: dict[str, Any] = {"label": [], "test": [], "memory": [], "record": []}
    for i, epsilon in enumerate(epsilons):
        rng = np.random.default_rng([seed, 1, i])
        answers = randomised_response.rr(y[:records], classes, epsilon, rng).labels
        net = learned(answers)
        test = soft_labels.logits(net, torch.from_numpy(problem.x_test).to(place)).argmax(1)
        results["label"].append(attack(net))
        results["test"].append(float((test == problem.y_test).mean()))
        results["memory"].append(float((soft_labels.logits(net, inside).argmax(1) == answers).mean()))
        noise = float(accounting.noise_multiplier(epsilon, 1.0, dpsgd_steps, delta, "prv"))
        settings = DPSGD(dpsgd_steps, 1.0, 1.0, noise, max_grad_norm=1.0)
        net = network()
        sets = Data((x[:records], y[:records]))
        dpsgd.train(net, sets, settings, np.random.default_rng([seed, 2, i]), device=device, progress=False)
        results["record"].append(attack(net))
    results["clean"] = attack(learned(y[:records]))
    stored = NearestNeighbors(n_neighbors=1).fit(x[:records])
    distances = stored.kneighbors(x)[0][:, 0]
    results["stored"] = roc_auc_score(truth, -distances)
    return {name: np.round(value, 6).tolist() for name, value in results.items()}
