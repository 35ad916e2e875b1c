from functools import partial

import pytest
import torch
from torch import nn

from dplib import models, sgd
from dplib.checks import ParameterError

RESNETS_AND_CNN = (models.resnet18, models.resnet50, models.preact_resnet18, models.small_cnn)


@pytest.mark.parametrize(
    ("make", "known"),
    [(models.resnet18, 11_173_962), (models.resnet50, 23_520_842), (models.preact_resnet18, 11_172_170)],
)
def test_resnets_have_the_known_parameter_counts(make, known):
    with torch.device("meta"):  # no memory, no initialisation
        for norm in (nn.BatchNorm2d, models.group_norm):
            assert models.parameter_count(make(norm=norm)) == known


@pytest.mark.parametrize("make", [models.resnet18, models.resnet50, models.preact_resnet18])
def test_resnets_keep_the_resolution_until_the_second_stage(make):
    """The CIFAR form halves the image three times, so 32x32 reaches the pooling at 4x4 (ImageNet's form: 1x1)."""
    with torch.device("meta"):
        net = make(width=4).eval()
        pooling = next(i for i, module in enumerate(net) if isinstance(module, nn.AdaptiveAvgPool2d))
        assert net[:pooling](torch.empty(1, 3, 32, 32)).shape[-2:] == (4, 4)


def test_an_example_is_scored_by_itself_under_group_norm_and_not_under_batch_norm():
    images = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for make in RESNETS_AND_CNN:
        grouped = make(10, 3, 8, norm=models.group_norm).double().train()
        torch.testing.assert_close(grouped(images)[:1], grouped(images[:1]))
    batched = models.small_cnn(10, 3, 8).double().train()
    assert not torch.allclose(batched(images)[:1], batched(images[:1]), rtol=1e-2)


@pytest.mark.parametrize(("channels", "groups"), [(64, 32), (48, 24), (7, 7), (34, 17), (37, 1)])
def test_group_norm_takes_the_most_groups_that_divide(channels, groups):
    assert models.group_norm(channels).num_groups == groups


def test_preact_resnet_adds_up_along_the_shortcuts():
    """With the second convolution of each block at zero, the blocks of a stage pass the first one's input through."""
    net = models.preact_resnet18(10, 3, 4).eval()
    blocks = [module for module in net if isinstance(module, models.PreActivation)]
    assert len(blocks) == 8
    with torch.no_grad():
        for block in blocks:
            block.body[-1].weight.zero_()
        x = torch.randn(2, 4, 8, 8)
        torch.testing.assert_close(blocks[1](blocks[0](x)), x)
        assert blocks[2](x).shape == (2, 8, 4, 4)


def test_lstm_is_pytorchs_with_one_bias():
    torch.manual_seed(0)
    ours = models.LSTM(5, 4).double()
    theirs = nn.LSTM(5, 4, batch_first=True).double()
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.ih.weight)
        theirs.bias_ih_l0.copy_(ours.ih.bias)
        theirs.weight_hh_l0.copy_(ours.hh.weight)
        theirs.bias_hh_l0.zero_()
    x = torch.randn(3, 7, 5, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x)[1][0][0])
    assert models.parameter_count(ours) == models.parameter_count(theirs) - 4 * 4


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
        assert models.parameter_count(models.small_inception(norm=norm)) == total == 1_894_058


def test_two_branch_features_are_a_product_and_a_perceptron():
    net = sgd.seeded(partial(models.two_branch, 7, 5, 3, 2, (4,)), 0)
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
    assert models.parameter_count(models.two_branch()) == he == 234_653
    bu = ratings * (5 + 10) + (25 * 5 + 5)
    assert models.parameter_count(models.two_branch(factors=5, widths=(20,))) == bu == 146_320


@pytest.mark.parametrize(("filters", "least"), [((4,), 10), ((4, 5), 12), ((4, 5, 6), 16)])
def test_block_cnn_takes_every_image_that_leaves_a_pixel(filters, least):
    net = models.block_cnn(1, least, filters, 7)
    assert net(torch.randn(2, 1, least, least)).shape == (2, 10)
    with pytest.raises(ParameterError, match="image_size"):
        models.block_cnn(1, least - 1, filters, 7)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("sizes", partial(models.mlp, (5, 0))),
        ("activation", partial(models.mlp, (5, 4, 3), [nn.ReLU, nn.ReLU])),
        ("activation", partial(models.mlp, (5, 4, 3), nn.ReLU())),
        ("activation = 'relu'", partial(models.mlp, (5, 4, 3), activation="relu")),
        ("norm = 'group'", partial(models.small_cnn, norm="group")),
        ("norm", partial(models.preact_resnet18, norm=nn.GroupNorm(2, 64))),
        ("norm", partial(models.resnet18, norm=None)),
        ("dropout", partial(models.mlp, (5, 4, 3), dropout=1)),
        ("num_classes", partial(models.resnet18, 1)),
        ("in_channels", partial(models.small_cnn, in_channels=1.5)),
        ("units", partial(models.block_cnn, 1, 28, (4,), 0)),
        ("lstm_units", partial(models.spam_lstm, 0)),
        ("widths", partial(models.two_branch, widths=(5,))),
    ],
)
def test_senseless_architectures_are_refused(name, make):
    with pytest.raises(ParameterError, match=name):
        make()


def test_keras_weights_follow_its_rules():
    generator = torch.Generator().manual_seed(0)
    net = models.keras_weights_(models.spam_lstm(64, 300), generator)
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
