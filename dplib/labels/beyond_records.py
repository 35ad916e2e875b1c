"""What label privacy leaves open, and its rival: membership of *inputs*, and DP-SGD, which protects whole records.

Neighbours differ in the label of one record for label privacy, and in the presence of one record for DP-SGD: the two
epsilons share an axis in a figure, and no meaning.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from dplib import accounting, dpsgd, logistic_grid
from dplib.engine import DPSGD
from dplib.examples import Data
from dplib.labels import randomised_response, training
from dplib.labels.prior_tasks import task
from dplib.models import mlp
from dplib.sgd import seeded


def private_sgd(
    *,
    dataset: str,
    maps: int,
    pairs: Sequence[Sequence[float]],
    delta: float,
    batch: int,
    steps: int,
    max_grad_norm: float,
    seed: int,
) -> dict[str, Any]:
    """Logistic regressions by DP-SGD on features that no training image decided, one for each budget and rate.

    (epsilon, delta)-DP for adding or removing a record, by the PRV accountant; the choice of the rate on validation
    data is not accounted, as the choices of the label-private methods are not.

    Args:
        dataset, maps: the task, with "fixed" features. pairs: of budget and learning rate, each > 0.
        batch: expected records in a step. steps, max_grad_norm, delta: of DP-SGD. seed: of sampling and noise.

    Returns:
        "validation", "test", "noise_multiplier": a value for each pair.
    """
    problem = task(dataset, "fixed", maps, 0)
    rate = min(1.0, batch / len(problem.y_train))
    noise = [float(accounting.noise_multiplier(epsilon, rate, steps, delta)) for epsilon, _ in pairs]
    settings = [DPSGD(steps, rate, step, s, max_grad_norm) for (_, step), s in zip(pairs, noise, strict=True)]
    sets = Data(
        (problem.x_train, problem.y_train), (problem.x_valid, problem.y_valid), (problem.x_test, problem.y_test)
    )
    rng = np.random.default_rng(seed)
    _, run = logistic_grid.train_grid(sets, settings, rng, classes=problem.classes, device="cpu", progress=False)
    return {part: run.results[part]["metric"].tolist() for part in ("validation", "test")} | {"noise_multiplier": noise}


def membership(
    *,
    dataset: str,
    maps: int,
    dimensions: int,
    records: int,
    hidden: int,
    epochs: int,
    epsilons: Sequence[float],
    delta: float,
    dpsgd_steps: int,
    seed: int,
) -> dict[str, Any]:
    """Who was in the training set? An attack on the inputs of networks whose labels are protected.

    A network with one hidden layer learns ``records`` examples until it knows them by heart; the attacker scores an
    input by the network's largest probability, and needs no label for it. As many fresh inputs are the others.

    Args:
        dataset, maps, dimensions: the task, with "learned" features.
        records: members; as many others. hidden: units. epochs: of training.
        epsilons: label budgets: randomised response, then training as usual; and record budgets for DP-SGD, with
            ``delta`` and full batches of ``dpsgd_steps`` steps.
        seed: of the records, answers and trainings.

    Returns:
        "label": AUC for each label budget, "record": for each record budget, "clean": with true labels, "stored": of a
        nearest-neighbour rule on randomised labels, by the distance to the nearest stored input; "test": accuracy for
        each label budget, "memory": share of the answers that the network reproduces.
    """
    problem = task(dataset, "learned", maps, dimensions)
    rows = np.random.default_rng([seed, 0]).permutation(len(problem.y_train))[: 2 * records]
    x, y = problem.x_train[rows], problem.y_train[rows]
    inside, outside = (torch.from_numpy(x[part]) for part in (slice(None, records), slice(records, None)))

    def network():
        return seeded(lambda: mlp([x.shape[1], hidden, problem.classes]), seed)

    def attack(net) -> float:
        scores = (torch.softmax(torch.from_numpy(training.logits(net, one)), 1) for one in (inside, outside))
        return auc(*(one.amax(1).numpy() for one in scores))

    def learned(labels):
        net = network()
        training.fit(net, inside, labels, epochs=epochs, batch_size=50, learning_rate=0.1, weight_decay=0.0, seed=seed)
        return net

    results: dict[str, Any] = {"label": [], "test": [], "memory": [], "record": []}
    for i, epsilon in enumerate(epsilons):
        rng = np.random.default_rng([seed, 1, i])
        answers = randomised_response.rr(y[:records], problem.classes, epsilon, rng).labels
        net = learned(answers)
        test = training.logits(net, torch.from_numpy(problem.x_test)).argmax(1)
        results["label"].append(attack(net))
        results["test"].append(float((test == problem.y_test).mean()))
        results["memory"].append(float((training.logits(net, inside).argmax(1) == answers).mean()))
        noise = float(accounting.noise_multiplier(epsilon, 1.0, dpsgd_steps, delta))
        settings = DPSGD(dpsgd_steps, 1.0, 1.0, noise, max_grad_norm=1.0)
        net = network()
        sets = Data((x[:records], y[:records]))
        dpsgd.train(net, sets, settings, np.random.default_rng([seed, 2, i]), device="cpu", progress=False)
        results["record"].append(attack(net))
    results["clean"] = attack(learned(y[:records]))
    stored = NearestNeighbors(n_neighbors=1).fit(x[:records])
    distances = stored.kneighbors(x)[0][:, 0]
    results["stored"] = auc(-distances[:records], -distances[records:])
    return results


def auc(members: np.ndarray, others: np.ndarray) -> float:
    """Area under the ROC curve: how often a random member scores above a random other record, ties half."""
    truth = np.repeat([1, 0], [len(members), len(others)])
    return float(roc_auc_score(truth, np.concatenate([members, others])))
