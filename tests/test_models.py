from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import nn

from dplib import models, sgd
from dplib.checks import ParameterError

RESNETS_AND_CNN = (models.resnet18, models.resnet50, models.preact_resnet18, models.small_cnn)


def resnet_count(width, depths, expansion, num_classes, in_channels):
    """The parameter count of a CIFAR ResNet, summed layer by layer apart from the module that builds it."""

    def convolution(a, b, kernel):
        return a * b * kernel**2 + 2 * b  # weights without bias, then scale and shift

    total = convolution(in_channels, width, 3)
    channels = width
    for stage, depth in enumerate(depths):
        inner = width * 2**stage
        out = expansion * inner
        for block in range(depth):
            if expansion == 1:
                total += convolution(channels, inner, 3) + convolution(inner, inner, 3)
            else:
                total += convolution(channels, inner, 1) + convolution(inner, inner, 3) + convolution(inner, out, 1)
            if block == 0 and (stage > 0 or channels != out):
                total += convolution(channels, out, 1)
            channels = out
    return total + channels * num_classes + num_classes


@pytest.mark.parametrize(
    ("make", "depths", "expansion", "known"),
    [(models.resnet18, (2, 2, 2, 2), 1, 11_173_962), (models.resnet50, (3, 4, 6, 3), 4, 23_520_842)],
)
def test_resnets_have_the_known_parameter_counts(make, depths, expansion, known):
    assert resnet_count(64, depths, expansion, 10, 3) == known
    with torch.device("meta"):  # no memory, no initialisation
        assert models.parameter_count(make()) == known
        assert models.parameter_count(make(norm=models.group_norm)) == known
        for classes, channels, width in [(2, 1, 4), (100, 3, 16)]:
            count = models.parameter_count(make(classes, channels, width))
            assert count == resnet_count(width, depths, expansion, classes, channels)


def test_preact_resnet18_parameter_count():
    """Same convolutions as ResNet-18, no normalisation after a projection; one before each of 15 inner convolutions
    of the blocks and before the projections, one after the stem, one after the last sum."""
    widths = [64] * 2 + [128] * 2 + [256] * 2 + [512] * 2
    total, channels = 3 * 64 * 9 + 2 * 64, 64
    for i, out in enumerate(widths):
        total += (channels * out + out * out) * 9 + 2 * out  # two convolutions, the normalisation between them
        total += 2 * channels if i else 0  # the first block's stands after the stem
        total += channels * out if channels != out else 0
        channels = out
    total += 2 * 512 + 512 * 10 + 10
    with torch.device("meta"):
        assert models.parameter_count(models.preact_resnet18()) == total == 11_172_170
        assert models.parameter_count(models.preact_resnet18(norm=models.group_norm)) == total


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


def test_pre_activation_leaves_the_shortcut_alone_and_projects_what_is_activated():
    x = torch.tensor([[-1.0, 2.0]])
    plain = models.PreActivation(nn.ReLU(), nn.Identity(), None)
    assert plain(x).tolist() == [[-1.0, 4.0]]  # relu(x) + x
    projected = models.PreActivation(nn.ReLU(), nn.Identity(), nn.Identity())
    assert projected(x).tolist() == [[0.0, 4.0]]  # relu(x) + relu(x)


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


@pytest.mark.parametrize(
    ("sizes", "count"),
    [((784, 10), 7_850), ((784, 128, 10), 101_770), ((784, 2048, 256, 64, 10), 2_149_322), ((43, 2), 88)],
)
def test_perceptron_counts_and_layers(sizes, count):
    net = models.mlp(sizes, nn.Tanh)
    assert models.parameter_count(net) == count == sum(a * b + b for a, b in pairwise(sizes))
    assert [type(module) for module in net] == [nn.Linear, nn.Tanh] * (len(sizes) - 2) + [nn.Linear]
    assert net(torch.randn(3, sizes[0])).shape == (3, sizes[-1])


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


PER_EXAMPLE = {
    "lstm": (partial(models.spam_lstm, 3, 5, 0.0, 11, 4), torch.randint(11, (3, 6))),
    "preact": (partial(models.preact_resnet18, 2, 1, 4, models.group_norm), torch.randn(3, 1, 16, 16)),
    "inception": (partial(models.small_inception, 2, 1, models.group_norm), torch.randn(3, 1, 8, 8)),
    "two-branch": (partial(models.two_branch, 7, 5, 2, 3, (4, 3)), torch.randint(5, (3, 2))),
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
        ("dropout", partial(models.mlp, (5, 4, 3), dropout=1)),
        ("num_classes", partial(models.resnet18, 1)),
        ("in_channels", partial(models.small_cnn, in_channels=1.5)),
        ("width", partial(models.block_cnn, 1, 28, (4,), 0)),
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
