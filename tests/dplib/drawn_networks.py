"""Networks of the kinds that users of private training bring, drawn by a seed: family, sizes and options.

Each is written as one would write it, with code between its layers. ``network(seed)`` gives one with examples for it;
``refused(seed)`` one of a kind that has no clipped sums, with what its refusal has to say.
"""

import warnings
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import prune

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from opacus.layers import DPGRU, DPLSTM, DPRNN

Drawn = tuple[nn.Module, Callable[[int], Tensor]]  # a network, and what draws b examples for it
CLASSES = 4


def choose(rng: np.random.Generator, *values):
    return values[rng.integers(len(values))]


def activation(rng: np.random.Generator) -> nn.Module:
    return choose(rng, nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.ELU, nn.Softplus, nn.LeakyReLU, nn.Mish)()


def features_norm(rng: np.random.Generator, width: int) -> nn.Module:
    """Of vectors (b, ..., width)."""
    bias = bool(rng.integers(2))
    kinds = (
        lambda: nn.LayerNorm(width, bias=bias),
        lambda: nn.LayerNorm(width, eps=1e-2, elementwise_affine=bias),
        lambda: nn.RMSNorm(width),
        lambda: nn.RMSNorm(width, eps=1e-3),
        nn.Identity,
    )
    return choose(rng, *kinds)()


def channels_norm(rng: np.random.Generator, channels: int) -> nn.Module:
    """Of images or sequences (b, channels, ...)."""
    groups = choose(rng, *[g for g in (1, 2, channels) if channels % g == 0])
    return nn.GroupNorm(groups, channels, eps=choose(rng, 1e-5, 1e-2), affine=bool(rng.integers(4)))


def rows(width: int) -> Callable[[int], Tensor]:
    return lambda b: torch.randn(b, width)


def words(vocabulary: int, length: int) -> Callable[[int], Tensor]:
    return lambda b: torch.randint(vocabulary, (b, length))


def images(channels: int, *sides: int) -> Callable[[int], Tensor]:
    return lambda b: torch.randn(b, channels, *sides)


class Residual(nn.Module):
    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None):
        super().__init__()
        self.body, self.shortcut = body, shortcut or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.body(x)


def residual_perceptron(rng: np.random.Generator) -> Drawn:
    inputs, width = int(rng.integers(3, 12)), int(rng.integers(4, 12))
    blocks = []
    for _ in range(rng.integers(1, 4)):
        middle = int(rng.integers(3, 9))
        body = [features_norm(rng, width), nn.Linear(width, middle), activation(rng), nn.Linear(middle, width)]
        blocks.append(Residual(nn.Sequential(*body, nn.Dropout(choose(rng, 0.0, 0.3)))))
    net = nn.Sequential(nn.Linear(inputs, width), *blocks, features_norm(rng, width), nn.Linear(width, CLASSES))
    if rng.integers(2):
        nn.init.zeros_(net[-1].weight)  # a zero head
    return net, rows(inputs)


def residual_cnn(rng: np.random.Generator) -> Drawn:
    channels, width, side = choose(rng, 1, 3), choose(rng, 4, 6), int(rng.integers(7, 11))
    blocks, last = [], width
    for _ in range(rng.integers(1, 3)):
        out, stride = choose(rng, last, 2 * last), choose(rng, 1, 2)
        body = nn.Sequential(
            nn.Conv2d(last, out, 3, stride, 1, bias=bool(rng.integers(2))),
            channels_norm(rng, out),
            activation(rng),
            nn.Conv2d(out, out, 3, padding=1, groups=choose(rng, 1, out)),
            norm := channels_norm(rng, out),
        )
        if norm.affine and rng.integers(2):
            nn.init.zeros_(norm.weight)  # a block that starts as nothing
        shortcut = None if out == last and stride == 1 else nn.Conv2d(last, out, 1, stride, bias=False)
        blocks += [Residual(body, shortcut), activation(rng)]
        last = out
    stem = nn.Conv2d(channels, width, 3, padding=choose(rng, "same", 1))
    net = nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, CLASSES))
    return net, images(channels, side, side)


def plain_cnn(rng: np.random.Generator) -> Drawn:
    channels, side = choose(rng, 1, 3), int(rng.integers(10, 15))
    out, kernel, dilation = choose(rng, 4, 6), choose(rng, 2, 3, (3, 2)), choose(rng, 1, 2)
    pool = choose(
        rng, nn.MaxPool2d(2, ceil_mode=True), nn.AvgPool2d(2), nn.MaxPool2d(3, 2, padding=1), nn.LPPool2d(2, 2)
    )
    layers = [
        choose(rng, nn.ReflectionPad2d(1), nn.ZeroPad2d((1, 0, 2, 1)), nn.Identity()),
        nn.Conv2d(channels, out, kernel, choose(rng, 1, 2), dilation=dilation), activation(rng), pool,
        nn.InstanceNorm2d(out, affine=bool(rng.integers(2))), nn.Conv2d(out, 2 * out, 2, padding="same", groups=2),
        nn.Dropout2d(0.2), nn.Upsample(scale_factor=2), nn.AdaptiveMaxPool2d(2), nn.Flatten(),
        nn.Linear(8 * out, CLASSES),
    ]  # fmt: skip
    return nn.Sequential(*layers), images(channels, side, side)


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.down, self.up = nn.Linear(channels, 2), nn.Linear(2, channels)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.up(torch.relu(self.down(x.mean((2, 3))))))[:, :, None, None]


def mobile_cnn(rng: np.random.Generator) -> Drawn:
    width, side = choose(rng, 4, 8), int(rng.integers(6, 9))
    body = nn.Sequential(
        nn.Conv2d(width, 2 * width, 1), activation(rng),
        nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width),
        channels_norm(rng, 2 * width), SqueezeExcite(2 * width), nn.Conv2d(2 * width, width, 1, bias=False),
    )  # fmt: skip
    layers = [nn.Conv2d(3, width, 2, 2), Residual(body), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(4 * width, CLASSES)), images(3, side, side)


class UNet(nn.Module):
    def __init__(self, width: int, norm: nn.Module):
        super().__init__()
        self.down, self.middle = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.up, self.last, self.norm = nn.Conv2d(2 * width, width, 3, padding=1), nn.Conv2d(width, CLASSES, 1), norm

    def forward(self, x: Tensor) -> Tensor:
        top = torch.relu(self.down(x))
        low = F.interpolate(torch.relu(self.norm(self.middle(F.max_pool2d(top, 2)))), scale_factor=2)
        return self.last(torch.relu(self.up(torch.cat([top, low], 1)))).mean((2, 3))


def unet(rng: np.random.Generator) -> Drawn:
    width = choose(rng, 2, 4)
    return UNet(width, channels_norm(rng, width)), images(1, 8, 8)


class LastState(nn.Module):
    def __init__(self, words_: nn.Embedding, cells: nn.Module, head: nn.Module, mean: bool):
        super().__init__()
        self.words, self.cells, self.head, self.mean = words_, cells, head, mean

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.cells(self.words(x))
        return self.head(states.mean(1) if self.mean else states[:, -1])


def recurrent(rng: np.random.Generator) -> Drawn:
    vocabulary, width, units = int(rng.integers(5, 20)), choose(rng, 3, 5), choose(rng, 4, 6)
    kind, both = choose(rng, DPLSTM, DPGRU, DPRNN), bool(rng.integers(2))
    options = {"num_layers": choose(rng, 1, 2), "bias": bool(rng.integers(2)), "bidirectional": both}
    cells = kind(width, units, batch_first=True, **options)
    embedding = nn.Embedding(vocabulary, width, padding_idx=choose(rng, None, 0, -1))
    head = nn.Linear((1 + both) * units, CLASSES)
    return LastState(embedding, cells, head, bool(rng.integers(2))), words(vocabulary, int(rng.integers(2, 7)))


class Attention(nn.Module):
    """Heads by hand, from one linear layer or three, as in nanoGPT."""

    def __init__(self, width: int, heads: int, joined: bool, causal: bool, by_hand: bool):
        super().__init__()
        self.heads, self.causal, self.by_hand = heads, causal, by_hand
        self.qkv = nn.Linear(width, 3 * width, bias=False) if joined else None
        self.parts = None if joined else nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, width = x.shape
        parts = self.qkv(x).chunk(3, -1) if self.qkv else [part(x) for part in self.parts]
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in parts)
        if self.by_hand:
            scores = q @ k.mT / q.shape[-1] ** 0.5
            if self.causal:
                scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), -torch.inf)
            mixed = scores.softmax(-1) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).reshape(b, t, width))


class Transformer(nn.Module):
    def __init__(self, rng: np.random.Generator, vocabulary: int, length: int):
        super().__init__()
        heads = choose(rng, 1, 2)
        width = heads * choose(rng, 2, 4)
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList()
        for _ in range(rng.integers(1, 3)):
            choices = [bool(rng.integers(2)) for _ in range(3)]
            perceptron = nn.Sequential(nn.Linear(width, 2 * width), activation(rng), nn.Linear(2 * width, width))
            if rng.integers(2):
                nn.init.zeros_(perceptron[2].weight)
            self.blocks += [
                Residual(nn.Sequential(features_norm(rng, width), Attention(width, heads, *choices))),
                Residual(nn.Sequential(features_norm(rng, width), perceptron, nn.Dropout(0.1))),
            ]
        self.norm, self.head = features_norm(rng, width), nn.Linear(width, CLASSES, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        # Positions for each example: an embedding of arange(t) alone would have no batch in front.
        h = self.words(x) + self.positions(torch.arange(x.shape[1]).expand_as(x))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h).mean(1))


def transformer(rng: np.random.Generator) -> Drawn:
    vocabulary, length = int(rng.integers(5, 20)), int(rng.integers(2, 7))
    return Transformer(rng, vocabulary, length), words(vocabulary, length)


class Patches(nn.Module):
    """A small vision transformer without positions, or a mixer of tokens and channels."""

    def __init__(self, rng: np.random.Generator, width: int, tokens: int):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 3, 3)
        self.mix = Attention(width, 2, True, False, True) if rng.integers(2) else nn.Linear(tokens, tokens)
        self.norm, self.head = nn.LayerNorm((tokens, width)), nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.patches(x).flatten(2).transpose(1, 2)
        mixed = self.mix(self.norm(h)) if isinstance(self.mix, Attention) else self.mix(self.norm(h).mT).mT
        return self.head((h + mixed).mean(1))


def patches(rng: np.random.Generator) -> Drawn:
    return Patches(rng, choose(rng, 4, 6), 9), images(1, 9, 9)


def text_cnn(rng: np.random.Generator) -> Drawn:
    vocabulary, length, width = int(rng.integers(5, 15)), int(rng.integers(6, 10)), choose(rng, 4, 6)

    class TextCnn(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(vocabulary, width)
            self.convolutions = nn.ModuleList(
                nn.Conv1d(width, 4, k, stride=choose(rng, 1, 2), padding=choose(rng, 0, 1), groups=choose(rng, 1, 2))
                for k in (2, 3)
            )
            self.norm = channels_norm(rng, 8)
            self.head = nn.Linear(8, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            h = self.words(x).mT
            found = torch.cat([torch.relu(convolution(h)).amax(2) for convolution in self.convolutions], 1)
            return self.head(self.norm(found))

    net = TextCnn()
    if net.norm.num_groups == 8:  # groups of one number have no spread
        net.norm = nn.Identity()
    return net, words(vocabulary, length)


def volumes(rng: np.random.Generator) -> Drawn:
    norm = choose(rng, nn.InstanceNorm3d(4, affine=True), nn.GroupNorm(2, 4), nn.Identity())
    convolution = nn.Conv3d(2, 4, choose(rng, 2, 3), choose(rng, 1, 2), choose(rng, 0, 1), groups=choose(rng, 1, 2))
    layers = [convolution, norm, activation(rng), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, CLASSES)]
    return nn.Sequential(*layers), images(2, 5, 6, 5)


class Recommender(nn.Module):
    def __init__(self, rng: np.random.Generator, people: int, things: int):
        super().__init__()
        width = choose(rng, 3, 5)
        self.people, self.things = nn.Embedding(people, width), nn.Embedding(things, width)
        self.body, self.head = nn.Linear(2 * width, 5), nn.Linear(5 + width, CLASSES)
        self.act = activation(rng)

    def forward(self, x: Tensor) -> Tensor:
        person, thing = self.people(x[:, 0]), self.things(input=x[:, 1])
        return self.head(torch.cat([self.act(self.body(torch.cat([person, thing], 1))), person * thing], 1))


def recommender(rng: np.random.Generator) -> Drawn:
    people, things = int(rng.integers(4, 9)), int(rng.integers(4, 9))
    draw = lambda b: torch.stack([torch.randint(people, (b,)), torch.randint(things, (b,))], 1)  # noqa: E731
    return Recommender(rng, people, things), draw


class Gated(nn.Module):
    """Two layers side by side on the same input, multiplied; called by keyword."""

    def __init__(self, rng: np.random.Generator, inputs: int):
        super().__init__()
        self.value, self.gate = nn.Linear(inputs, 6), nn.Linear(inputs, 6, bias=bool(rng.integers(2)))
        self.norm, self.head = features_norm(rng, 6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.value(input=x) * torch.sigmoid(self.gate(input=x))))


def gated(rng: np.random.Generator) -> Drawn:
    inputs = int(rng.integers(3, 9))
    return Gated(rng, inputs), rows(inputs)


def watched(rng: np.random.Generator) -> Drawn:
    """A perceptron with hooks: one that looks, one that changes an output, one that changes an input."""
    net = nn.Sequential(nn.Linear(6, 5), activation(rng), nn.Linear(5, CLASSES))
    net[0].register_forward_hook(lambda module, inputs, output: None)
    net[0].register_forward_hook(lambda module, inputs, output: output * 2)
    net[2].register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    return net, rows(6)


FAMILIES = (
    residual_perceptron, residual_cnn, plain_cnn, mobile_cnn, unet, recurrent, transformer, patches, text_cnn, volumes,
    recommender, gated, watched,
)  # fmt: skip


def network(seed: int) -> Drawn:
    """Family after family; in one of three a part of the parameters is frozen."""
    rng = np.random.default_rng([46, seed])
    torch.manual_seed(seed)
    net, draw = FAMILIES[seed % len(FAMILIES)](rng)
    parameters = list(net.parameters())
    if rng.integers(3) == 0:
        frozen = rng.random(len(parameters)) < 0.4
        frozen[rng.integers(len(parameters))] = False
        for p, stays in zip(parameters, frozen, strict=True):
            p.requires_grad_(not stays)
    return net, draw


class Tied(nn.Module):
    """A language model whose last layer is its embedding."""

    def __init__(self, by_memory: bool):
        super().__init__()
        self.words, self.head = nn.Embedding(CLASSES, 5), nn.Linear(5, CLASSES, bias=False)
        if by_memory:
            self.head.weight.data = self.words.weight.data
        else:
            self.head.weight = self.words.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.words(x).mean(1))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared, self.head = nn.Linear(6, 6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.shared(torch.relu(self.shared(x))))


class ByFunction(nn.Module):
    """A weight used outside of its layer: tied by code."""

    def __init__(self):
        super().__init__()
        self.words, self.last = nn.Embedding(CLASSES, 5), nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.last(self.words(x).mean(1)), self.words.weight)


class ClassToken(nn.Module):
    """A parameter of its own, as the class token of a vision transformer."""

    def __init__(self):
        super().__init__()
        self.token, self.head = nn.Parameter(torch.zeros(1, 1, 6)), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([self.token.expand(len(x), -1, -1), x[:, None]], 1).mean(1))


def normalised(kind: str) -> nn.Module:
    layer = nn.Linear(6, 5)
    if kind == "weight norm of old":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return nn.Sequential(nn.utils.weight_norm(layer), nn.Linear(5, CLASSES))
    if kind == "spectral norm of old":
        return nn.Sequential(nn.utils.spectral_norm(layer), nn.Linear(5, CLASSES))
    if kind == "pruned":
        return nn.Sequential(prune.random_unstructured(layer, "weight", 0.3), nn.Linear(5, CLASSES))
    made = {"weight norm": nn.utils.parametrizations.weight_norm, "spectral": nn.utils.parametrizations.spectral_norm}
    return nn.Sequential(made[kind](layer), nn.Linear(5, CLASSES))


def patched() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, CLASSES))
    layer = net[0]
    layer.forward = lambda x: F.linear(x, 2 * layer.weight, layer.bias)
    return net


def lstm() -> nn.Module:
    return LastState(nn.Embedding(9, 4), nn.LSTM(4, 5, batch_first=True), nn.Linear(5, CLASSES), True)


def encoder() -> nn.Module:
    block = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
    return nn.Sequential(nn.Linear(4, 6), block, nn.Flatten(), nn.Linear(18, CLASSES))


def batch_norm() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, CLASSES))


def padded(kind: type, *sides: int) -> Drawn:
    mode = ("circular", "reflect", "replicate")[len(sides) - 1]
    head = nn.Linear(3 * int(np.prod(sides)), CLASSES)
    nn.init.zeros_(head.weight)
    return nn.Sequential(kind(2, 3, 3, padding=1, padding_mode=mode), nn.Flatten(), head), images(2, *sides)


REFUSED: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor], str]] = {
    "tied": (lambda: Tied(False), words(CLASSES, 5), "head shares its weight with words.weight"),
    "tied by memory": (lambda: Tied(True), words(CLASSES, 5), "head shares its weight with words.weight"),
    "used twice": (Twice, rows(6), "shared is used 2 times"),
    "tied by code": (ByFunction, words(CLASSES, 5), "words.weight"),
    "class token": (ClassToken, rows(6), "ClassToken"),
    "weight norm of old": (lambda: normalised("weight norm of old"), rows(6), "layer 0 has parameters weight_g"),
    "spectral norm of old": (lambda: normalised("spectral norm of old"), rows(6), "layer 0 has parameters weight_orig"),
    "pruned": (lambda: normalised("pruned"), rows(6), "layer 0 has parameters weight_orig"),
    "weight norm": (lambda: normalised("weight norm"), rows(6), "layer 0 is a Parametrized"),
    "spectral": (lambda: normalised("spectral"), rows(6), "layer 0 is a Parametrized"),
    "forward of its own": (patched, rows(6), "layer 0 has a forward pass of its own"),
    "LSTM": (lstm, words(9, 5), "layer cells is a LSTM"),
    "transformer layer": (encoder, images(3, 4), "MultiheadAttention"),
    "batch norm": (batch_norm, images(1, 6, 6), "layer 1 is a BatchNorm2d"),
    "conv1d": (lambda: padded(nn.Conv1d, 6)[0], images(2, 6), "layer 0 has padding_mode = 'circular'"),
    "conv2d": (lambda: padded(nn.Conv2d, 6, 5)[0], images(2, 6, 5), "layer 0 has padding_mode = 'reflect'"),
    "conv3d": (lambda: padded(nn.Conv3d, 4, 5, 3)[0], images(2, 4, 5, 3), "layer 0 has padding_mode = 'replicate'"),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose2d(1, 2, 3), nn.Flatten(), nn.Linear(128, CLASSES)),
        images(1, 6, 6), "layer 0 is a ConvTranspose2d",
    ),
    "embedding with a largest norm": (
        lambda: nn.Sequential(
            nn.Embedding(9, 4, max_norm=1.0).requires_grad_(False), nn.Flatten(), nn.Linear(20, CLASSES)
        ),
        words(9, 5), "layer 0 has max_norm = 1.0",
    ),
    "embedding by frequency": (
        lambda: nn.Sequential(nn.Embedding(9, 4, scale_grad_by_freq=True), nn.Flatten(), nn.Linear(20, CLASSES)),
        words(9, 5), "layer 0 has scale_grad_by_freq = True",
    ),
}  # fmt: skip
