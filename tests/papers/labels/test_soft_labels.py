import numpy as np
import pytest
import torch
from torch import nn

from dplib.checks import ParameterError
from dplib.sgd import seeded
from papers.labels import soft_labels


def line(outputs=3):
    return seeded(lambda: nn.Sequential(nn.Linear(4, outputs)), 1)


def data(n=60):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4)).astype(np.float32)
    return torch.as_tensor(x), (x[:, :3]).argmax(1)


def weights(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def fitted(x, y, **changes):
    net = line()
    settings = {"epochs": 2, "batch_size": 20, "learning_rate": 0.1, "seed": 5}
    soft_labels.fit(net, x, y, **(settings | changes))
    return net


def test_the_rate_rises_linearly_and_falls_linearly_to_zero():
    steps = 1000
    rates = np.array([soft_labels.rate(i, steps, 0.02) for i in range(steps)])
    assert rates.max() == pytest.approx(0.02, rel=1e-2)
    assert abs(rates.argmax() - 150) <= 1
    np.testing.assert_allclose(np.diff(rates[:150]), 0.02 / 150, rtol=1e-9)
    np.testing.assert_allclose(np.diff(rates[151:]), -0.02 / 850, rtol=1e-9)
    assert rates.min() > 0


def test_one_step_is_momentum_sgd_with_l2_on_the_mean_cross_entropy():
    x, y = data(20)
    net = fitted(x, y, epochs=1, warmup=0.0, weight_decay=0.01)
    start = line()
    value = nn.functional.cross_entropy(start(x), torch.as_tensor(y))
    value.backward()
    rate = 0.1 * 0.5
    expected = [p.detach() - rate * (p.grad + 0.01 * p.detach()) for p in start.parameters()]
    torch.testing.assert_close(weights(net), torch.cat([p.flatten() for p in expected]), atol=1e-6, rtol=1e-5)


def test_whole_numbers_and_one_hot_rows_train_alike():
    x, y = data()
    hot = np.eye(3, dtype=np.float32)[y]
    torch.testing.assert_close(weights(fitted(x, y, mixup=2.0)), weights(fitted(x, hot, mixup=2.0)), rtol=0, atol=0)


def test_the_same_seed_gives_the_same_bytes_and_leaves_the_global_generator_alone():
    x, y = data()
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    one, other = fitted(x, y, mixup=4.0), fitted(x, y, mixup=4.0)
    assert torch.equal(weights(one), weights(other))
    assert not torch.equal(weights(one), weights(fitted(x, y, mixup=4.0, seed=6)))
    assert torch.equal(before, torch.random.get_rng_state())


def test_mixup_mixes_inputs_and_labels_with_one_weight(monkeypatch):
    seen = []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(()))

        def forward(self, x):
            seen.append(x.detach().clone())
            return x * (1 + self.w)

    def loss(scores, y):
        # Inputs are the one-hot labels, so a mixed input must equal its mixed label.
        torch.testing.assert_close(seen[-1], y)
        return (scores * y).sum()

    x = torch.eye(5).repeat(4, 1)
    monkeypatch.setattr(nn.functional, "cross_entropy", loss)
    soft_labels.fit(Spy(), x, np.tile(np.arange(5), 4), epochs=3, batch_size=20, learning_rate=1e-9, mixup=8.0, seed=0)
    rows = torch.cat(seen)
    torch.testing.assert_close(rows.sum(1), torch.ones(len(rows)))
    assert ((rows > 0) & (rows < 1)).any()


def test_augmentation_moves_mirrors_and_cuts_whole_images():
    images = torch.zeros(50, 1, 7, 7)
    images[:, :, 3, 3] = 1
    generator = torch.Generator().manual_seed(0)
    moved = soft_labels.augmented(images, 2, False, 0, generator)
    assert (moved.sum((1, 2, 3)) == 1).all()
    rows, columns = moved[:, 0].nonzero()[:, 1:].T
    assert set(rows.tolist()) == set(columns.tolist()) == {1, 2, 3, 4, 5}
    assert soft_labels.augmented(images, 0, False, 0, generator) is images

    ramp = torch.arange(49.0).view(1, 1, 7, 7).repeat(50, 2, 1, 1) + 1
    mirrored = soft_labels.augmented(ramp, 0, True, 0, generator)
    same = (mirrored == ramp).all((1, 2, 3))
    assert 0 < same.sum() < 50
    assert torch.equal(mirrored[~same], ramp[~same].flip(3))

    cut = soft_labels.augmented(ramp, 0, False, 3, generator)
    holes = (cut == 0).sum((2, 3))
    assert torch.equal(holes[:, 0], holes[:, 1])
    assert set(holes[:, 0].tolist()) == {4, 6, 9}  # in a corner, at a side, inside
    assert torch.equal(cut[cut > 0], ramp[cut > 0])


def test_several_inputs_and_curves():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(6, 2)

        def forward(self, a, b):
            return self.table(a) + self.table(b)

    pairs = torch.arange(6), torch.arange(6).flip(0)
    epochs = []
    net = Sum()
    soft_labels.fit(
        net, pairs, np.zeros(6, int), epochs=4, batch_size=3, learning_rate=1.0, seed=0, on_epoch=epochs.append
    )
    assert epochs == [1, 2, 3, 4]
    assert (soft_labels.logits(net, pairs).argmax(1) == 0).all()
    with pytest.raises(ParameterError, match="floats"):
        soft_labels.fit(net, pairs, np.zeros(6, int), epochs=1, batch_size=3, learning_rate=1.0, seed=0, mixup=1.0)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"epochs": 0}, "epochs"),
        ({"mixup": -1}, "mixup"),
        ({"precision": "half"}, "precision"),
        ({"shift": 1.5}, "shift"),
        ({"y": np.zeros(7, int)}, "targets"),
    ],
)
def test_senseless_settings_are_refused(changes, word):
    x, y = data()
    with pytest.raises(ParameterError, match=word):
        fitted(**{"x": x, "y": y} | changes)
