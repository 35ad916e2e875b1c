"""Networks, losses and tables that do not fit end in ParameterError, which names the layer or the table."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from dplib import clipping, dpsgd, examples, logistic_grid, many, models, sgd
from dplib.checks import ParameterError
from dplib.dpsgd import DPSGD, Data
from dplib.examples import cross_entropy

ROWS = np.random.default_rng(0).standard_normal((20, 6)).astype(np.float32)
LABELS = np.arange(20) % 3
PRIVATE, PLAIN = DPSGD(2, 0.5, 0.1, 1.0, 1.0), DPSGD(2, 0.5, 0.1)


def train(net, x=ROWS, y=LABELS, settings=PRIVATE, loss=cross_entropy, **held_out):
    return dpsgd.train(net, Data((x, y), **held_out), settings, np.random.default_rng(0), loss=loss, progress=False)


class Code(nn.Module):
    def __init__(self, forward, **layers):
        super().__init__()
        self.code = forward
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x):
        return self.code(self, x)


def with_positions(net, x):
    """Embeddings of words and of positions, as in nanoGPT."""
    return net.last((net.words(x) + net.positions(torch.arange(x.shape[1]))).mean(1))


def without_gradient(net, x):
    with torch.no_grad():
        return net.last(x)


def meta():
    with torch.device("meta"):
        return models.mlp([6, 3])


def half_meta():
    net = models.mlp([6, 5, 3])
    net[2] = nn.Linear(5, 3, device="meta")
    return net


WORDS = np.random.default_rng(0).integers(20, size=(20, 7))
NETS = {
    "position embeddings": (
        lambda: Code(with_positions, words=nn.Embedding(20, 6), positions=nn.Embedding(7, 6), last=nn.Linear(6, 3)),
        WORDS, "positions",
    ),
    "as many positions as examples": (
        lambda: Code(with_positions, words=nn.Embedding(20, 6), positions=nn.Embedding(20, 6), last=nn.Linear(6, 3)),
        np.random.default_rng(0).integers(20, size=(20, 20)), "positions",
    ),
    "words beyond the embedding": (
        lambda: Code(lambda net, x: net.last(net.words(x).mean(1)), words=nn.Embedding(5, 6), last=nn.Linear(6, 3)),
        WORDS, "words",
    ),
    "lazy layer": (lambda: nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.Linear(5, 3)), ROWS, "layer 0 "),
    "meta device": (meta, ROWS, "layer 0 "),
    "meta device in part": (half_meta, ROWS, "layer 2 "),
    "wrong width": (lambda: models.mlp([5, 3]), ROWS, "layer 0 "),
    "wrong width inside": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Linear(4, 3)), ROWS, "layer 1 "),
    "wrong kind of input": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2, 3)), ROWS, "layer 0 "),
    "real numbers for words": (
        lambda: nn.Sequential(nn.Embedding(9, 3), nn.Flatten(), nn.Linear(18, 3)), ROWS, "layer 0 ",
    ),
    "a bug of its own": (lambda: Code(lambda net, x: net.lost(x), last=nn.Linear(6, 3)), ROWS, "Code"),
    "a bug inside": (
        lambda: nn.Sequential(nn.Linear(6, 6), Code(lambda net, x: net.last(x)[:, 9], last=nn.Linear(6, 3))),
        ROWS, "layer 1 ",
    ),
    "two outputs": (lambda: Code(lambda net, x: (net.last(x), x), last=nn.Linear(6, 3)), ROWS, "tuple"),
    "numpy inside": (lambda: Code(lambda net, x: net.last(x.numpy()), last=nn.Linear(6, 3)), ROWS, "last"),
    "no gradient": (lambda: Code(without_gradient, last=nn.Linear(6, 3)), ROWS, "last|detached"),
    "no network": (lambda: lambda x: x, ROWS, "function"),
    "no single example": (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.GroupNorm(4, 4), nn.Linear(4, 3)), ROWS, "layer 1 ",
    ),
    "no single example in training": (
        lambda: Code(lambda net, x: net.last(x if len(x) > 1 or not net.training else x[:, 9]), last=nn.Linear(6, 3)),
        ROWS, "Code|layer",
    ),
}  # fmt: skip


@pytest.mark.parametrize("settings", [PRIVATE, PLAIN], ids=["private", "plain"])
@pytest.mark.parametrize("name", NETS)
def test_a_network_that_does_not_fit_is_named(name, settings):
    build, x, words = NETS[name]
    if settings is PLAIN and ("position" in name or "example" in name):
        return
    with pytest.raises(ParameterError, match=words):
        train(build(), x, settings=settings)


def test_layers_may_be_called_by_keyword():
    torch.manual_seed(0)
    layers = {"first": nn.Linear(6, 5), "last": nn.Linear(5, 3)}
    by_name = Code(lambda net, x: net.last(input=torch.tanh(net.first(input=x))), **layers)
    by_place = Code(lambda net, x: net.last(torch.tanh(net.first(x))), **layers)
    x, y = torch.from_numpy(ROWS), torch.from_numpy(LABELS)
    clipping.check(by_name, x, y, cross_entropy)
    values_ = []
    for net in (by_name, by_place):
        sums = {p: torch.zeros_like(p) for p in net.parameters()}
        clipping.ClippedSums(net, sums).add(x, y, cross_entropy, lambda norms: clipping.flat(norms, 0.3))
        values_.append(torch.cat([s.flatten() for s in sums.values()]))
    assert torch.equal(*values_)


def one_word_too_many(columns=7):
    x = np.random.default_rng(0).integers(9, size=(400, columns))
    x[321, columns // 2] = 50
    return x


def too_large(net, x):
    assert x.max() < 60, "too large"
    return net.last(x)


FAR = np.random.default_rng(0).standard_normal((400, 6)).astype(np.float32)
FAR[321, 2] = 100
RARE = {
    "a word": (
        lambda: Code(lambda net, x: net.last(net.words(x).mean(1)), words=nn.Embedding(9, 6), last=nn.Linear(6, 3)),
        one_word_too_many(), cross_entropy, "words",
    ),
    "a word of many": (
        lambda: Code(lambda net, x: net.last(net.words(x).mean(1)), words=nn.Embedding(9, 6), last=nn.Linear(6, 3)),
        one_word_too_many(1000), cross_entropy, "words",
    ),
    "a number": (lambda: Code(too_large, last=nn.Linear(6, 3)), FAR, cross_entropy, "too large"),
    "a label": (
        lambda: models.mlp([6, 3]), FAR, lambda outputs, y: nn.functional.nll_loss(outputs, y, reduction="none"), "loss"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RARE)
def test_a_record_that_does_not_fit_is_refused_before_any_step(name):
    """Where no trial draws it: a training that ends in its midst would tell that it is there."""
    build, x, loss, words = RARE[name]
    y = np.arange(400) % 3
    if name == "a label":
        y[123] = 7
    net = build()
    before = [p.clone() for p in net.parameters()]
    for settings in (DPSGD(40, 0.02, 0.1, 1.0, 1.0), DPSGD(40, 0.02, 0.1)):
        with pytest.raises(ParameterError, match=words):
            train(net, x, y, settings, loss)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_what_a_network_raises_in_a_step_is_named(monkeypatch):
    """Which no look at the extremes shows: a hole in the middle of its words."""

    def forward(net, x):
        if (x == 4).any():
            raise RuntimeError("no such word")
        return net.last(net.words(x).mean(1))

    x = np.where(np.arange(800).reshape(400, 2) % 2 == 0, 0, 9)
    x[321, 1] = 4
    for settings in (DPSGD(40, 0.02, 0.1, 1.0, 1.0), DPSGD(40, 0.02, 0.1), DPSGD(40, 0.2, 0.1, physical_batch=9)):
        net = Code(forward, words=nn.Embedding(10, 6), last=nn.Linear(6, 3))
        with pytest.raises(ParameterError, match=r"Code.*no such word"):
            train(net, x, np.arange(400) % 3, settings)


def test_a_compiled_module_is_named():
    with pytest.raises(ParameterError, match=r"layer 1 .*jit"):
        train(nn.Sequential(nn.Linear(6, 6), torch.jit.script(nn.Sequential(nn.Linear(6, 3)))))


@pytest.mark.parametrize("given", ["net", "data", "settings", "rng"])
def test_what_is_no_such_thing_is_named(given):
    right = {"net": models.mlp([6, 3]), "data": Data((ROWS, LABELS)), "settings": PRIVATE}
    right["rng"] = np.random.default_rng(0)
    for wrong in (None, 3, "digits"):
        with pytest.raises(ParameterError, match=given):
            dpsgd.train(**right | {given: wrong}, progress=False)
        several = {name: [value] for name, value in (right | {given: wrong}).items()}
        several = {f"{name}s" if name in ("net", "rng") else name: value for name, value in several.items()}
        with pytest.raises(ParameterError, match=given):
            many.train(**several, progress=False)
        if given != "net":
            values = {
                name: [value] if name == "settings" else value for name, value in (right | {given: wrong}).items()
            }
            with pytest.raises(ParameterError, match=given):
                logistic_grid.train_grid(values["data"], values["settings"], values["rng"], classes=3, progress=False)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda outputs, y: outputs.lost, "AttributeError"),
        (lambda outputs, y: nn.functional.cross_entropy(outputs, y[:-1], reduction="none"), "loss"),
        (lambda outputs, y: None, "loss"),
        (lambda outputs, y: outputs, "loss"),
        (lambda outputs: outputs.sum(1), "loss"),
        (3, "loss"),
    ],
)
def test_a_loss_that_does_not_fit(loss, words):
    for settings in (PRIVATE, PLAIN):
        with pytest.raises(ParameterError, match=words):
            train(models.mlp([6, 3]), loss=loss, settings=settings)


SAME = {
    "a table of pandas": (pd.DataFrame(ROWS), pd.Series(LABELS)),
    "from the last to the first": (ROWS[::-1][::-1], LABELS[::-1][::-1]),
    "columns from the last": (np.ascontiguousarray(ROWS[:, ::-1])[:, ::-1], LABELS),
    "big-endian": (ROWS.astype(">f4"), LABELS.astype(">i8")),
    "lists": (ROWS.tolist(), LABELS.tolist()),
    "a list of tensors": (list(torch.from_numpy(ROWS)), list(torch.from_numpy(LABELS))),
    "long doubles": (ROWS.astype(np.longdouble), LABELS.astype(np.uint16)),
    "in Fortran's order": (np.asfortranarray(ROWS), LABELS.astype(np.int8)),
    "with a gradient": (torch.from_numpy(ROWS).clone().requires_grad_(), torch.from_numpy(LABELS)),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_numbers_in_another_form_train_the_same(name):
    def trained(x, y):
        torch.manual_seed(0)
        net = models.mlp([6, 3])
        train(net, x, y)
        return net[0].weight

    def in_a_grid(x, y):
        data = Data((x, y), test=(ROWS, LABELS))
        return logistic_grid.train_grid(data, [PRIVATE], np.random.default_rng(0), classes=3, progress=False)["test"]

    assert torch.equal(trained(*SAME[name]), trained(ROWS, LABELS))
    assert in_a_grid(*SAME[name]) == in_a_grid(ROWS, LABELS)


OBJECTS = ROWS.astype(object)
OBJECTS[3, 2] = "three"
TABLES = {
    "objects": (OBJECTS, LABELS),
    "words in a table": (pd.DataFrame(ROWS).assign(city="Ulm"), LABELS),
    "text": (ROWS.astype(str), LABELS),
    "dates": (np.zeros((20, 6), "datetime64[s]"), LABELS),
    "masked": (np.ma.masked_array(ROWS, ROWS > 1), LABELS),
    "complex": (ROWS + 1j, LABELS),
    "ragged": ([[1.0], *ROWS[1:].tolist()], LABELS),
    "ragged tensors": ([torch.zeros(3), *torch.from_numpy(ROWS[1:])], LABELS),
    "sparse": (torch.from_numpy(ROWS).to_sparse(), LABELS),
    "words as labels": (ROWS, np.array(["a", "b"])[LABELS % 2]),
    "missing labels": (ROWS, pd.Series(LABELS).astype("Int64").where(LABELS > 0)),
    "too large": (ROWS, [2**70] * 20),
    "none": (None, LABELS),
    "a set": (set(range(20)), LABELS),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("what", ["train", "validation", "test"])
def test_a_table_that_does_not_fit_is_named(name, what):
    sets = {"train": (ROWS, LABELS), what: TABLES[name]}
    with pytest.raises(ParameterError, match=f"{what}: "):
        dpsgd.train(models.mlp([6, 3]), Data(**sets), PRIVATE, np.random.default_rng(0), progress=False)
    with pytest.raises(ParameterError, match=f"{what}: "):
        logistic_grid.train_grid(Data(**sets), [PRIVATE], np.random.default_rng(0), classes=3, progress=False)


@pytest.mark.parametrize("pair", [None, ROWS, (ROWS,), (ROWS, LABELS, LABELS), torch.utils.data.TensorDataset()])
def test_what_is_no_pair_is_refused(pair):
    with pytest.raises(ParameterError, match="train"):
        examples.tensors(pair, "train")


@pytest.mark.parametrize("what", ["validation", "test"])
def test_held_out_records_of_another_width_are_refused_before_any_step(what):
    net = models.mlp([6, 3])
    before = net[0].weight.clone()
    with pytest.raises(ParameterError, match=f"{what}: .*layer 0 "):
        train(net, **{what: (ROWS[:, :5], LABELS)})
    data = Data((ROWS, LABELS), **{what: (ROWS[:, :5], LABELS)})
    with pytest.raises(ParameterError, match=f"{what}: "):
        logistic_grid.train_grid(data, [PRIVATE], np.random.default_rng(0), classes=3, progress=False)
    assert torch.equal(net[0].weight, before)


@pytest.mark.parametrize("what", ["a word", "a label"])
def test_a_held_out_record_that_does_not_fit_is_refused_before_any_step(what, monkeypatch):
    """The last of ten, whose word the network does not have, or whose label a loss of somebody's own does not take."""
    monkeypatch.setattr(dpsgd.Engine, "step", lambda *_: pytest.fail("a step was made"))
    net = nn.Sequential(nn.Embedding(10, 3), nn.Flatten(), nn.Linear(6, 2))
    words, labels = np.ones((10, 2), int), np.zeros(10, int)
    (words if what == "a word" else labels)[-1] = 12
    sets = {"train": (np.ones((20, 2), int), np.arange(20) % 2), "test": (words, labels)}
    loss = cross_entropy if what == "a word" else nn.CrossEntropyLoss(reduction="none")
    with pytest.raises(ParameterError, match=r"^test: .* fails: IndexError"):
        dpsgd.train(net, Data(**sets), PRIVATE, np.random.default_rng(0), loss=loss, progress=False)


def test_a_network_that_never_began_is_named():
    class Mine(torch.nn.Module):
        def __init__(self):
            self.width = 6

    with pytest.raises(ParameterError, match=r"Mine whose __init__ does not call super\(\)"):
        train(Mine())


@pytest.mark.parametrize("kind", [np.int64, np.uint8, bool])
@pytest.mark.parametrize(
    "net", [models.mlp([6, 3]), nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 3, 6), nn.Flatten())]
)
def test_whole_numbers_where_a_network_takes_real_ones_are_explained(kind, net):
    with pytest.raises(ParameterError, match=r"layer .* give x\.astype\(np\.float32\)"):
        train(net, (ROWS > 0).astype(kind))


def test_a_table_that_cannot_be_written_is_copied_without_a_word():
    frozen = ROWS.copy()
    frozen.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (frozen, pd.DataFrame(ROWS)):
            x, _ = examples.tensors((rows, LABELS), "train")
            assert torch.equal(x, torch.from_numpy(ROWS))
            assert not np.shares_memory(x.numpy(), frozen)


@pytest.mark.parametrize("labels", [np.array([-100, 0, 1]), np.array([0, 1, 3]), np.array([], int)])
def test_plain_sgd_refuses_labels_that_are_none(labels):
    """PyTorch leaves a label of -100 out without a word."""
    net, rows = models.mlp([6, 3]), np.zeros((len(labels), 6), np.float32)
    before = [p.clone() for p in net.parameters()]
    with pytest.raises(ParameterError, match=r"label|examples"):
        sgd.train(net, rows, labels, sgd.Sgd(epochs=1, batch_size=2), 0, torch.device("cpu"))
    assert all(map(torch.equal, before, net.parameters()))
