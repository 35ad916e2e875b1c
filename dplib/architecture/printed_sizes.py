"""Where the sizes that the papers print of their networks disagree with the networks built from the printed layers."""

from dataclasses import dataclass

import torch
from torch import nn

from dplib import printed
from dplib.models import block_cnn, mlp, parameter_count


@dataclass(frozen=True)
class Disagreement:
    """A printed number that the network contradicts: ``claim`` is the row of the ledger."""

    claim: str
    printed: int | str
    ours: int | str
    why: str


def disagreements() -> list[Disagreement]:
    """Every printed size of a network that the network built from the printed layers contradicts."""
    with torch.random.fork_rng(devices=[]):
        return [*_wrong_cells(), *_without_pca(), *_broken_rules()]


def _wrong_cells() -> list[Disagreement]:
    """Cells of the architecture tables and of Table VI."""
    lenet = _layers("lenet5-mnist")[0]
    rows = [
        Disagreement(
            "B.table25.conv1",
            "(28,28,16)",
            printed.shown(lenet.output_shape),
            f"The printed {lenet.parameters} parameters are those of 6 filters of 5x5, which the next row has: "
            f"16 filters have {parameter_count(nn.Conv2d(1, 16, 5))}.",
        )
    ]
    for table, name in [(27, "rnn-sms-complex"), (28, "rnn-sms-simple"), (31, "rwt-rnn-sms")]:
        embedding = _layers(name)[0]
        length, width = embedding.output_shape
        why = (
            f"The printed {embedding.parameters:,} parameters and the LSTM's {_layers(name)[1].parameters:,} are those "
            f"of 1,000 words in {width} dimensions; {length} does not divide the former: it is the number of words."
        )
        rows.append(Disagreement(f"B.table{table}.embedding", 150, width, why))
    net = printed.ARCHITECTURES["rwt-cnn-mnist"].make()
    trained = printed.trained_count(net, printed.last_layers(net))
    why = "The last two layers are dense; the printed count is that of the two convolutions, which stay frozen."
    cases = ("large-normal", "large-rwt", "small-normal", "small-rwt")
    rows += [
        Disagreement(claim, 19_328, trained, why)
        for claim in ("B.table30.trainable", *(f"B.table6.cnn-{case}" for case in cases))
    ]
    return rows


def _without_pca() -> list[Disagreement]:
    """Table V, whose networks with PCA are those of Table I."""
    none = "no network of Table XI on 1,024 grey or 3,072 colour pixels has the printed count"
    return [
        Disagreement(
            "B.table5.nopca-stw",
            1_577_738,
            parameter_count(mlp((1024, 512, 128, 10))),
            f"The hidden layers of the network with PCA, on 1,024 pixels; {none}, though 512-2048-256-10 has it.",
        ),
        Disagreement(
            "B.table5.nopca-paw",
            55_042,
            parameter_count(mlp((1024, 128, 10))),
            f"The hidden layer of the network with PCA, on 1,024 pixels; {none}, nor on any other number of inputs.",
        ),
    ]


def _broken_rules() -> list[Disagreement]:
    """Rules of the text that the printed networks do not follow."""
    by_rule = parameter_count(block_cnn(3, 32, (16, 32, 64), 512))
    filters = [layer.output_shape[-1] for layer in _layers("cnn-cifar10-paw") if layer.kind == "Convolution"]
    ends = [layer.kind for layer in _layers("cnn-cifar10-stw")]
    after = ends[len(ends) - ends[::-1].index("Convolution")]
    inputs = {name: printed.ARCHITECTURES[f"fcn-{name}-paw"].input_shape[0] for name in ("mnist", "fashion-mnist")}
    inputs["purchase100"] = printed.ARCHITECTURES["fcn-purchase100-paw"].input_shape[0]
    depths = [
        f"{_count('Dense', f'fcn-{name}-paw')} against {_count('Dense', f'fcn-{name}-stw')} dense layers ({name})"
        for name in ("purchase100", "cifar10")
    ]
    return [
        Disagreement(
            "B.cnn-search-setup",
            "filters double from block to block",
            f"filters {', '.join(map(str, filters))} (CIFAR-10 PAW)",
            f"All counts of Table XIX follow from them; with doubling the network has {by_rule:,} parameters.",
        ),
        Disagreement(
            "B.cnn-search-setup",
            "max-pooling ends every block",
            f"{after} follows the last convolution",
            "In none of Tables XIX, XX and XXVI does a pooling follow the last convolution, and the counts agree.",
        ),
        Disagreement(
            "B.fcn-search-setup",
            300,
            ", ".join(f"{n} ({name})" for name, n in inputs.items()),
            "The inputs that Table I's counts need: 300 fit the CIFAR-10 and SVHN networks only.",
        ),
        Disagreement(
            "B.table11.neurons2",
            "64, 128, 256",
            _layers("rwt-fcn-mnist")[1].output_shape[0],
            "Table XXIX's second layer; its counts agree, so that network is from outside the search space.",
        ),
        Disagreement(
            "B.depth-example",
            "the PAW FCNs of Purchase-100 and CIFAR-10 are deeper",
            "; ".join(depths),
            f"True of the CIFAR-10 CNNs only: {_count('Convolution', 'cnn-cifar10-paw')} convolutions against "
            f"{_count('Convolution', 'cnn-cifar10-stw')}.",
        ),
        Disagreement(
            "D.s-networks",
            9,
            sum(1 for layer in _layers("cnn9-cifar10") if layer.parameters),
            "Layers with weights, as the 4 of the 4-layer network are counted; with the 3 poolings there are 11.",
        ),
    ]


def _count(kind: str, name: str) -> int:
    return sum(layer.kind == kind for layer in _layers(name))


def _layers(name: str) -> list[printed.Layer]:
    return printed.layer_table(printed.ARCHITECTURES[name].make(), printed.ARCHITECTURES[name].input_shape)
