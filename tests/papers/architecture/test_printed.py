import itertools

import pytest
import yaml
from torch import nn

from book.evidence import claims
from dplib import models, sgd
from dplib.checks import ParameterError
from papers.architecture import printed_layers
from papers.common import printed

# What each network has: a paper's count, or ours where none is printed.
COUNTS = {name: one.parameters for name, one in printed.ARCHITECTURES.items()} | {
    "logistic-mnist": 7_850,
    "logistic-adult": 218,
    "logistic-breast-cancer": 88,
    "preact-resnet18-cifar10": 11_172_170,
    "inception-mnist": 1_894_058,
    "two-branch-movielens-1m": 234_653,
    "cnn9-cifar10": 550_570,
}
OUTPUTS = {"rnn-sms-complex": 2, "rnn-sms-simple": 2, "rwt-rnn-sms": 2, "two-branch-movielens-1m": 5} | {
    name: n
    for start, n in [("fcn-purchase100", 100), ("medical-cost", 1), ("logistic-a", 2), ("logistic-b", 2)]
    for name in COUNTS
    if name.startswith(start)
}
FIRST, SECOND, THIRD = (64, 128, 512, 1024, 2048), (64, 128, 256), (10, 16, 32, 64)  # Table XI
WRONG = {  # cells that we hold to be wrong, and what the networks have
    "B.table25.conv1": ("(28,28,16)", "(28,28,6)"),
    "B.table27.embedding": (150, 50),
    "B.table28.embedding": (150, 50),
    "B.table31.embedding": (150, 50),
    "B.table30.trainable": (19_328, 103_114),
}


def built(name, **options):
    return sgd.seeded(lambda: printed.ARCHITECTURES[name].make(**options), 0)


def table(id_):
    document = yaml.safe_load((claims.CLAIMS / "B.yml").read_text(encoding="utf-8"))
    return next(t for t in document["tables"] if t["id"] == id_)


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name):
    architecture = printed.ARCHITECTURES[name]
    assert models.parameter_count(built(name)) == COUNTS[name]
    for id_ in architecture.claims:
        claim = claims.get(id_)
        if architecture.parameters is not None and claim.paper != "D":  # D prints none: its source's is in tested_by
            assert architecture.parameters in claim.published.values()
    if name == "cnn4-mnist":
        assert "26,010" in claim.tested_by


def test_every_count_of_table_1_belongs_to_a_network():
    for row in table("B.table1")["rows"]:
        assert row["values"][0] == COUNTS[row["id"]]


@pytest.mark.parametrize("name", COUNTS)
def test_a_network_takes_its_input_and_any_batch(name):
    architecture = printed.ARCHITECTURES[name]
    net = built(name).eval()
    for batch in (0, 1, 3):
        scores = net(printed.example_input(net, architecture.input_shape, batch))
        assert scores.shape == (batch, OUTPUTS.get(name, 10))
    assert net[:-1](printed.example_input(net, architecture.input_shape)).shape == (1, net[-1].in_features)


def test_printed_layers():
    """Kind, output and parameters of each row, but for the cells that we hold to be wrong."""
    rows = {row: ours for id_ in printed_layers.TABLES for row, ours in printed_layers.rows(id_).items()}
    tables = {id_.split(".")[1] for id_ in printed_layers.TABLES}
    assert set(rows) == {id_ for id_ in claims.load("B") if id_.split(".")[1] in tables}
    differ = {
        id_: (cell, ours[name])
        for id_, ours in rows.items()
        for name, cell in claims.get(id_).published.items()
        if cell != ours[name]
    }
    assert differ == WRONG
    for id_, name in printed_layers.TABLES.items():
        layers = printed.layer_table(built(name), printed.ARCHITECTURES[name].input_shape)
        labels = [row["label"] for row in table(id_)["rows"] if row["id"] not in ("total", "trainable")]
        assert labels == [layer.kind for layer in layers]
        assert rows[f"{id_}.total"]["parameters"] == COUNTS[name]
    depths = printed_layers.depths()
    disagreeing = "2 against 3 dense layers (purchase100); 2 against 2 dense layers (cifar10)"
    assert depths["networks_disagreeing"] == disagreeing
    assert (depths["layers_of_the_paw_cnn"], depths["layers_of_the_stw_cnn"]) == (10, 8)
    assert depths["parameters_stw_less_paw_cnn"] == 1_820_330 - 246_554


def test_what_would_give_the_wrong_numbers():
    assert models.parameter_count(nn.Conv2d(1, 16, 5)) == 416  # Table XXV with the 16 filters of its shape
    net = built("rwt-cnn-mnist")
    assert models.parameter_count(net[0]) + models.parameter_count(net[3]) == 19_328
    assert models.parameter_count(models.block_cnn(3, 32, (16, 32, 64), 512)) == 324_906
    assert models.parameter_count(models.mlp((512, 2048, 256, 10))) == 1_577_738


def test_table_5_without_pca_fits_no_network_of_the_search_space():
    """Each network of Table XI, with every number of inputs that gives one of the two counts."""
    hidden = [(a,) for a in FIRST]
    hidden += itertools.product(FIRST, SECOND)
    hidden += itertools.product(FIRST, SECOND, THIRD)
    inputs = {55_042: [], 1_577_738: []}
    for sizes in hidden:
        rest = models.parameter_count(models.mlp((*sizes, 10)))
        for count, found in inputs.items():
            n, remainder = divmod(count - rest, sizes[0])  # sizes[0] * (inputs + 1) parameters before the rest
            if remainder == 0 and n >= 2:
                found.append(n - 1)
    assert inputs[55_042] == []
    assert 512 in inputs[1_577_738]
    assert not {1_024, 3_072} & set(inputs[1_577_738])


def test_frozen_networks_of_table_9():
    """658,314 trainable without the 256-64 layer, 10,250 in the last layer alone."""
    net = built("frozen-fcn-mnist-stw", dropout=0)
    assert models.parameter_count(net) - models.parameter_count(net[4]) == 658_314
    assert (net[4].in_features, net[4].out_features) == (256, 64)
    net = built("frozen-fcn-mnist-paw")
    assert printed.trained_count(net, printed.last_layers(net, 1)) == 10_250


def test_last_layers_are_those_with_weights():
    net = built("rnn-sms-complex")
    assert printed.last_layers(net) == ("2", "5")
    assert printed.last_layers(net, 4) == ("0", "1", "2", "5")
    assert printed.trained_count(net, ("2", "5")) == 132_610
    for n in (0, 5):
        with pytest.raises(ParameterError, match="n ="):
            printed.last_layers(net, n)
