"""The layer tables of paper B (XIX to XXXI), row by row against the networks built from them."""

import torch

from book.evidence import claims
from papers.common import printed

# Tables XIX to XXVI belong to chapter 04, the others to 05.
TABLES = {
    "B.table19": "cnn-cifar10-paw",
    "B.table20": "cnn-cifar10-stw",
    "B.table21": "fcn-purchase100-paw",
    "B.table22": "fcn-purchase100-stw",
    "B.table23": "fcn-cifar10-paw",
    "B.table24": "fcn-cifar10-stw",
    "B.table25": "lenet5-mnist",
    "B.table26": "cnn-mnist-paw",
    "B.table27": "rnn-sms-complex",
    "B.table28": "rnn-sms-simple",
    "B.table29": "rwt-fcn-mnist",
    "B.table30": "rwt-cnn-mnist",
    "B.table31": "rwt-rnn-sms",
}


def rows(table: str) -> dict[str, dict[str, int | str]]:
    """Of every row of a table of layers ("B.table19" to "B.table31"), totals included, its cells in the built network.

    Tables that print 0 neurons for a dropout layer mean that it has no weights: such a cell counts as right.
    """
    architecture = printed.ARCHITECTURES[TABLES[table]]
    with torch.device("meta"):  # shapes only: no numbers are drawn
        net = architecture.make()
        built = printed.layer_table(net, architecture.input_shape)
    layers, result = iter(built), {}
    for id_, cells in claims.printed_rows(table).items():
        if id_.endswith(".total"):
            result[id_] = dict.fromkeys(cells, sum(layer.parameters for layer in built))
        elif id_.endswith(".trainable"):
            result[id_] = dict.fromkeys(cells, printed.trained_count(net, printed.last_layers(net)))
        else:
            layer = next(layers)
            result[id_] = {name: _cell(name, value, layer) for name, value in cells.items()}
    return result


def _cell(column, value, layer):
    if column == "parameters":
        return layer.parameters
    if column == "output_shape":
        return printed.shown(layer.output_shape)
    return 0 if layer.kind == "Dropout" and value == 0 else layer.output_shape[-1]


def depths() -> dict[str, int | str]:
    """Layers of the printed PAW and STW networks of which the text says that the PAW ones are deeper."""

    def layers(name: str) -> list[printed.Layer]:
        architecture = printed.ARCHITECTURES[name]
        with torch.device("meta"):
            return printed.layer_table(architecture.make(), architecture.input_shape)

    def dense(name: str) -> int:
        return sum(layer.kind == "Dense" for layer in layers(name))

    paw, stw = layers("cnn-cifar10-paw"), layers("cnn-cifar10-stw")
    disagreeing = "; ".join(
        f"{dense(f'fcn-{name}-paw')} against {dense(f'fcn-{name}-stw')} dense layers ({name})"
        for name in ("purchase100", "cifar10")
    )
    return {
        "networks_disagreeing": disagreeing,
        "layers_of_the_paw_cnn": len(paw),
        "layers_of_the_stw_cnn": len(stw),
        "parameters_stw_less_paw_cnn": sum(x.parameters for x in stw) - sum(x.parameters for x in paw),
    }
