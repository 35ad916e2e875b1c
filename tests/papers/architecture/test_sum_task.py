"""The engineered task of paper B: the data, a step against autograd, and the equivalence of wide and narrow models."""

import numpy as np
import pytest
import torch
from scipy import stats

from dplib import dpsgd
from papers.architecture import sum_task

pytestmark = pytest.mark.usefixtures("tried_once")
CELL = {
    "n": 2000, "batch": 500, "epochs": 3, "noise_multiplier": 5.0, "learning_rate": 0.3, "sgd_learning_rate": 2.0,
}  # fmt: skip


@pytest.mark.parametrize("split", ["equal", "random"])
@pytest.mark.parametrize("size", [10, 50])
def test_pieces_add_up_to_the_features(split, size):
    x, y, copies = sum_task.draw(400, size, split, np.random.default_rng(0))
    pieces = np.repeat(x, copies, axis=1)
    assert pieces.shape == (400, size)
    totals = pieces.reshape(400, sum_task.BASE, -1).sum(2)
    assert (totals >= 0).all()
    assert (totals <= 1 + 1e-5).all()
    assert ((totals.sum(1) > 5) == (y == 1)).mean() > 0.995  # float32 rounding moves a sum of nearly 5
    assert 0.4 < y.mean() < 0.6


def test_a_step_is_the_engines_step():
    """The same weights, the same records, no noise: dplib.dpsgd's clipped step with the whole batch."""
    x, y, copies = sum_task.draw(64, 30, "equal", np.random.default_rng(1))
    wide = np.repeat(x, copies, axis=1)
    norms = np.sqrt((wide**2).sum(1) + 1)
    start = np.random.default_rng(2).normal(size=(10, copies))
    unit = sum_task._Unit(start.copy(), 0.0)
    clip = 0.4
    unit.step(x, y, norms, 0.7 / 64, clip, 0.0, np.random.default_rng(3))

    net = torch.nn.Linear(30, 1)
    with torch.no_grad():
        net.weight.copy_(torch.from_numpy(start.reshape(1, 30)))
        net.bias.zero_()

    def logistic(outputs, targets):
        return torch.nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], targets, reduction="none")

    settings = dpsgd.DPSGD(steps=1, sample_rate=1.0, learning_rate=0.7, max_grad_norm=clip)
    rng = np.random.default_rng(4)
    dpsgd.train(net, dpsgd.Data((wide, y)), settings, rng, loss=logistic, progress=False)
    theirs = np.append(net.weight.detach().numpy().ravel(), net.bias.detach().numpy())
    np.testing.assert_allclose(unit.parameters(), theirs, atol=1e-6)


def test_noise_has_the_calibrated_variance():
    """Without a record the step is the noise alone; chi-square test at 1e-4, two sides."""
    unit = sum_task._Unit(np.zeros((10, 200)), 0.0)
    unit.step(
        np.zeros((0, 10), np.float32), np.zeros(0, np.float32), np.zeros(0), 0.5, 1.0, 3.0, np.random.default_rng(5)
    )
    total = (unit.parameters() ** 2).sum() / (0.5 * 3.0) ** 2
    assert stats.chi2.ppf(5e-5, 2001) < total < stats.chi2.isf(5e-5, 2001)


def test_without_noise_and_clipping_wide_is_narrow_exactly():
    """From zero weights an equal split is an orthogonal change of coordinates: the same predictions to rounding."""
    quiet = CELL | {"noise_multiplier": 0.0, "init": "zero", "seed": 3}
    wide = sum_task.repeat(size=90, **quiet)
    narrow = sum_task.repeat(size=90, scale="narrow, shrunk", **quiet)
    assert wide["accuracies"] == pytest.approx(narrow["accuracies"], abs=2e-3)
    assert wide["norm"] == pytest.approx(narrow["norm"], rel=1e-5)
    assert wide["predictive"] == pytest.approx(narrow["predictive"], abs=1e-4)


def test_with_noise_wide_and_narrow_have_one_law():
    """Two-sample Kolmogorov-Smirnov tests of the accuracies of 40 repeats: equal laws at 1e-4, unequal ones seen."""
    noisy = CELL | {
        "n": 10_000,
        "batch": 1000,
        "epochs": 20,
        "noise_multiplier": 60.0,
        "learning_rate": 0.5,
        "init": "zero",
    }

    def accuracies(scale, first_seed):
        return [sum_task.repeat(size=1000, scale=scale, seed=first_seed + s, **noisy)["accuracy"] for s in range(40)]

    wide = accuracies("as printed", 0)
    assert stats.ks_2samp(wide, accuracies("narrow, shrunk", 100)).pvalue > 1e-4
    # The test can tell: the same pieces on records of their old length are another task.
    assert stats.ks_2samp(wide, accuracies("rows kept", 200)).pvalue < 1e-4
