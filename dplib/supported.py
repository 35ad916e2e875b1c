"""Which layers have clipped gradient sums: a list, and an error that names the layer for whatever is not on it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from dplib import layer_rules
from dplib.checks import ParameterError

_RULES = {nn.Linear: layer_rules.linear, nn.Conv2d: layer_rules.conv2d, nn.Embedding: layer_rules.embedding}
# Of these Opacus gives per-example gradients; its list is longer, but the rest mixes positions of the batch dimension.
_BY_OPACUS = (nn.Conv1d, nn.Conv3d, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.InstanceNorm1d, nn.InstanceNorm2d)
_RECURRENT = "opacus.layers.dp_rnn.RNNLinear"  # by name: importing Opacus takes seconds
_MIXING = (nn.modules.batchnorm._BatchNorm,)
_WITHOUT_PARAMETERS = (
    "torch.nn.modules.activation", "torch.nn.modules.pooling", "torch.nn.modules.dropout", "torch.nn.modules.flatten",
    "torch.nn.modules.linear", "torch.nn.modules.padding", "torch.nn.modules.upsampling",
    "torch.nn.modules.pixelshuffle", "torch.nn.modules.channelshuffle", "torch.nn.modules.normalization",
    "torch.nn.modules.instancenorm", "torch.nn.modules.container",
)  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A layer with trained parameters: the rule for its gradients, and where a weighted sum of them is added."""

    name: str
    module: nn.Module
    rule: Callable[..., layer_rules.Rule]
    sums: Mapping[str, Tensor]


def trained_layers(net: nn.Module, sums: Mapping[nn.Parameter, Tensor] | None = None) -> list[Layer]:
    """The layers of ``net`` with trained parameters (``requires_grad``), each with the rule for its gradients.

    Args:
        net: any network.
        sums: for each trained parameter the tensor that sums are added to; by default the parameter itself.

    Raises:
        ParameterError: for batch normalisation and other layers that mix examples, parameters shared by two layers,
            and layers that are not on the list; the message names the layer.
    """
    _refuse_shared(net)
    layers = []
    for path, module in net.named_modules():
        name = path or type(net).__name__
        if is_recurrent_network(module):
            continue
        _refuse_unknown(name, module)
        trained = {key: p for key, p in module.named_parameters(recurse=False) if p.requires_grad}
        if trained:
            where = {key: sums[p] if sums else p for key, p in trained.items()}
            layers.append(Layer(name, module, _rule(module), where))
    return layers


def _refuse_shared(net: nn.Module) -> None:
    owners = {}
    for path, module in net.named_modules(remove_duplicate=False):
        for key, p in module.named_parameters(recurse=False) if not is_recurrent_network(module) else ():
            name = f"{path}.{key}" if path else key
            where = (p.device, p.data_ptr()) if p.numel() and p.device.type != "meta" else id(p)
            if where in owners:
                raise ParameterError(
                    f"layer {path} shares its {key} with {owners[where]}: tied parameters have no clipped sums here; "
                    "each layer needs its own."
                )
            owners[where] = name


def _refuse_unknown(name: str, module: nn.Module) -> None:
    kind = type(module)
    if isinstance(module, _MIXING):
        raise ParameterError(
            f"layer {name} is a {kind.__name__}, which mixes the examples of a batch: it has no per-example gradients; "
            "group normalisation (models.group_norm) is the usual stand-in."
        )
    if getattr(module, "track_running_stats", False):
        raise ParameterError(f"layer {name} keeps running statistics of the data, which no noise protects.")
    trained = any(p.requires_grad for p in module.parameters(recurse=False))
    if trained and _rule(module) is None:
        known = ", ".join(k.__name__ for k in (*_RULES, *_BY_OPACUS))
        hint = "; opacus.layers.DPLSTM takes an LSTM's place" if isinstance(module, nn.RNNBase) else ""
        raise ParameterError(
            f"layer {name} is a {kind.__name__}, of which no clipped sums are known: trained layers may be {known}, "
            f"and Opacus's recurrent ones{hint}."
        )
    if trained and (reason := _unsupported(module)):
        raise ParameterError(f"layer {name} has {reason}, which has no clipped sums here.")
    leaf = not any(True for _ in module.children())
    if leaf and not trained and not _harmless(module):
        raise ParameterError(f"layer {name} is a {kind.__name__}, which is not known to keep examples apart.")


def _rule(module: nn.Module) -> Callable[..., layer_rules.Rule] | None:
    """The rule for exactly this type: a subclass may compute something else."""
    if is_recurrent(module):
        return layer_rules.linear
    return _RULES.get(type(module)) or (layer_rules.opacus if type(module) in _BY_OPACUS else None)


def _unsupported(module: nn.Module) -> str:
    if isinstance(module, nn.Conv2d) and module.padding_mode != "zeros":
        return f"padding_mode = {module.padding_mode!r}"
    if isinstance(module, nn.Embedding):
        for option in ("max_norm", "scale_grad_by_freq", "sparse"):
            if getattr(module, option):
                return f"{option} = {getattr(module, option)}"
    return ""


def _harmless(module: nn.Module) -> bool:
    """A layer without trained parameters that treats each example by itself."""
    source = type(module).__module__
    frozen = any(True for _ in module.parameters(recurse=False))
    return source.startswith(("dplib.", "opacus.layers.")) or (
        source.startswith("torch.nn.") if frozen else source in _WITHOUT_PARAMETERS
    )


def is_recurrent(module: nn.Module) -> bool:
    """Whether this is the layer that Opacus's recurrent networks call once for each step."""
    return f"{type(module).__module__}.{type(module).__qualname__}" == _RECURRENT


def is_recurrent_network(module: nn.Module) -> bool:
    """Whether this is a recurrent network of Opacus, whose parameters are those of its cells under other names."""
    return any(kind.__name__ == "DPRNNBase" for kind in type(module).__mro__)
