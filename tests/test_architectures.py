from functools import partial

import pytest
import torch
from torch import nn

from dplib import architectures, models, sgd
from dplib.checks import ParameterError


def test_lstm_is_pytorchs_with_one_bias():
    torch.manual_seed(0)
    ours = architectures.LSTM(5, 4).double()
    theirs = nn.LSTM(5, 4, batch_first=True).double()
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.ih.weight)
        theirs.bias_ih_l0.copy_(ours.ih.bias)
        theirs.weight_hh_l0.copy_(ours.hh.weight)
        theirs.bias_hh_l0.zero_()
    x = torch.randn(3, 7, 5, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x)[1][0][0])
    assert models.parameter_count(ours) == models.parameter_count(theirs) - 4 * 4


@pytest.mark.parametrize(("units", "count"), [(256, 314_368), (4, 880)])
def test_lstm_counts_of_the_tables(units, count):
    assert models.parameter_count(architectures.LSTM(50, units)) == count == 4 * units * (units + 50 + 1)


def test_lstm_starts_within_the_usual_range():
    torch.manual_seed(0)
    for weight in architectures.LSTM(50, 16).parameters():
        assert 0.2 < weight.abs().max() <= 0.25


PER_EXAMPLE = {
    "lstm": (partial(architectures.spam_lstm, 3, 5, 0.0, 11, 4), torch.randint(11, (3, 6))),
    "preact": (partial(models.preact_resnet18, 2, 1, 4, models.group_norm), torch.randn(3, 1, 16, 16)),
    "inception": (partial(architectures.small_inception, 2, 1, models.group_norm), torch.randn(3, 1, 8, 8)),
    "two-branch": (partial(architectures.two_branch, 7, 5, 2, 3, (4, 3)), torch.randint(5, (3, 2))),
}


@pytest.mark.parametrize("name", PER_EXAMPLE)
@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_opacus_gives_the_gradients_of_each_example_by_itself(name):
    """The four families with a forward pass of their own, against one backward pass for each example."""
    from opacus import GradSampleModule

    make, x = PER_EXAMPLE[name]
    net = sgd.seeded(make, 0).double()
    x = x.double() if x.is_floating_point() else x
    y = torch.tensor([0, 1, 1])
    alone = []
    for i in range(3):
        loss = nn.functional.cross_entropy(net(x[i : i + 1]), y[i : i + 1])
        alone.append(torch.autograd.grad(loss, list(net.parameters())))
    wrapped = GradSampleModule(net, loss_reduction="sum")
    nn.functional.cross_entropy(wrapped(x), y, reduction="sum").backward()
    for p, *gradients in zip(net.parameters(), *alone, strict=True):
        torch.testing.assert_close(p.grad_sample, torch.stack(gradients))


def test_inception_count_layer_by_layer():
    """By the sizes of paper C's table, apart from the module: convolutions without bias, each with scale and shift."""

    def conv(a, b, kernel):
        return a * b * kernel**2 + 2 * b

    total, channels = conv(1, 96, 3), 96
    for part in [(32, 32), (32, 48), 160, (112, 48), (96, 64), (80, 80), (48, 96), 240, (176, 160), (176, 160)]:
        if isinstance(part, tuple):
            total += conv(channels, part[0], 1) + conv(channels, part[1], 3)
            channels = sum(part)
        else:
            total += conv(channels, part, 3)
            channels = part
    total += channels * 10 + 10
    for norm in (nn.BatchNorm2d, models.group_norm):
        assert models.parameter_count(architectures.small_inception(norm=norm)) == total == 1_894_058


def test_two_branch_features_are_a_product_and_a_perceptron():
    net = sgd.seeded(partial(architectures.two_branch, 7, 5, 3, 2, (4,)), 0)
    body = net[0]
    pairs = torch.tensor([[6, 4], [0, 0]])
    features = net[:-1](pairs)
    torch.testing.assert_close(features[:, :2], body.users.weight[[6, 0]] * body.items.weight[[4, 0]])
    joined = torch.cat([body.perceptron_users.weight[[6, 0]], body.perceptron_items.weight[[4, 0]]], 1)
    torch.testing.assert_close(features[:, 2:], joined)


def test_two_branch_counts():
    """He et al.'s smallest network, and the one that Bu et al. published, on 6,040 users and 3,706 movies."""
    ratings = 6_040 + 3_706
    he = ratings * (8 + 16) + (32 * 16 + 16) + (16 * 8 + 8) + (16 * 5 + 5)
    assert models.parameter_count(architectures.two_branch()) == he == 234_653
    bu = ratings * (5 + 10) + (25 * 5 + 5)
    assert models.parameter_count(architectures.two_branch(factors=5, widths=(20,))) == bu == 146_320


@pytest.mark.parametrize("name", models.ACTIVATIONS)
def test_activations_are_parameters(name):
    kind = models.ACTIVATIONS[name]
    for make in (architectures.cnn4, architectures.cnn9, architectures.lenet5, architectures.rwt_cnn):
        found = {type(module) for module in make(kind)} & set(models.ACTIVATIONS.values())
        assert found == {kind}


def test_the_activations_of_paper_d_are_tanh_unless_asked():
    assert isinstance(architectures.cnn4()[1], nn.Tanh)
    assert isinstance(architectures.cnn9()[1], nn.Tanh)


@pytest.mark.parametrize(("layers", "units"), [(2, 10), (6, 120), (12, 60)])
def test_regression_networks_have_equal_layers_and_one_linear_output(layers, units):
    net = architectures.medical_cost(layers, units)
    assert [type(module) for module in net] == [nn.Linear, nn.ReLU] * layers + [nn.Linear]
    assert net(torch.randn(3, 6)).shape == (3, 1)
    assert models.parameter_count(net) == 6 * units + units + (layers - 1) * (units**2 + units) + units + 1


@pytest.mark.parametrize(("filters", "least"), [((4,), 10), ((4, 5), 12), ((4, 5, 6), 16)])
def test_block_cnn_takes_every_image_that_leaves_a_pixel(filters, least):
    net = architectures.block_cnn(1, least, filters, 7)
    assert net(torch.randn(2, 1, least, least)).shape == (2, 10)
    with pytest.raises(ParameterError, match="image_size"):
        architectures.block_cnn(1, least - 1, filters, 7)


def test_block_cnn_of_the_whole_search_space():
    """Paper B's Table XII, on its three image sizes."""
    for first in (16, 32, 48):
        for blocks in (2, 3):
            for units in (32, 512):
                for channels, side in [(1, 28), (1, 32), (3, 32)]:
                    filters = [first * 2**i for i in range(blocks)]
                    net = architectures.block_cnn(channels, side, filters, units).eval()
                    assert net(torch.zeros(1, channels, side, side)).shape == (1, 10)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("filters", partial(architectures.block_cnn, 1, 28, (), 7)),
        ("width", partial(architectures.block_cnn, 1, 28, (4,), 0)),
        ("dropout", partial(architectures.block_cnn, 1, 28, (4,), 7, dropout=-0.1)),
        ("lstm_units", partial(architectures.spam_lstm, 0)),
        ("n_words", partial(architectures.spam_lstm, n_words=0)),
        ("layers", partial(architectures.medical_cost, 0, 10)),
        ("n_users", partial(architectures.two_branch, 0)),
        ("widths", partial(architectures.two_branch, widths=(5,))),
        ("widths", partial(architectures.two_branch, widths=())),
        ("num_classes", partial(architectures.small_inception, 1)),
    ],
)
def test_senseless_sizes_are_refused(name, make):
    with pytest.raises(ParameterError, match=name):
        make()


def test_keras_weights_follow_its_rules():
    generator = torch.Generator().manual_seed(0)
    net = architectures.keras_weights_(architectures.spam_lstm(64, 300), generator)
    embedding, lstm, dense, head = net[0], net[1], net[2], net[-1]
    assert 0.049 < embedding.weight.abs().max() <= 0.05
    for weight in (lstm.ih.weight, dense.weight, head.weight):
        bound = (6 / sum(weight.shape)) ** 0.5
        assert 0.95 * bound < weight.abs().max() <= bound
    torch.testing.assert_close(lstm.hh.weight.T @ lstm.hh.weight, torch.eye(64), atol=1e-5, rtol=0)
    gates = lstm.ih.bias.view(4, 64)
    assert (gates[1] == 1).all()
    assert (gates[[0, 2, 3]] == 0).all()
    assert not dense.bias.any()
    assert not head.bias.any()


def test_keras_weights_of_convolutions_count_the_kernel():
    net = architectures.keras_weights_(architectures.rwt_cnn(), torch.Generator().manual_seed(0))
    bound = (6 / (25 * (1 + 32))) ** 0.5
    assert 0.95 * bound < net[0].weight.abs().max() <= bound
    assert not net[0].bias.any()


def test_keras_weights_come_from_the_generator_alone():
    def weights(seed):
        net = architectures.keras_weights_(architectures.spam_lstm(4, 16), torch.Generator().manual_seed(seed))
        return torch.cat([p.detach().flatten() for p in net.parameters()])

    before = torch.get_rng_state()
    torch.manual_seed(1)
    first = weights(5)
    torch.manual_seed(2)
    assert torch.equal(weights(5), first)
    assert not torch.equal(weights(6), first)
    torch.set_rng_state(before)
