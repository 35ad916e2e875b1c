"""float32 stays float32 in every sum that privacy or a verdict rests on, whatever the user's switches say."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dplib import annealing, clipping, devices, dpsgd, examples, logistic_grid, many, models, sgd
from dplib.checks import ParameterError
from papers.labels import heads, soft_labels
from papers.screening import attacks

BACKENDS = torch.backends
NEW = hasattr(BACKENDS.cuda.matmul, "fp32_precision")


def set_to(kind, precision):
    return lambda: setattr(kind(), "fp32_precision", precision)


OLD_WAYS = {
    "nothing": lambda: None,
    "matmul.allow_tf32": lambda: setattr(BACKENDS.cuda.matmul, "allow_tf32", True),
    "cudnn.allow_tf32": lambda: setattr(BACKENDS.cudnn, "allow_tf32", True),
    "high": lambda: torch.set_float32_matmul_precision("high"),
    "medium": lambda: torch.set_float32_matmul_precision("medium"),
    "benchmark": lambda: setattr(BACKENDS.cudnn, "benchmark", True),
}
NEW_WAYS = {
    "matmul": set_to(lambda: BACKENDS.cuda.matmul, "tf32"),
    "conv": set_to(lambda: BACKENDS.cudnn.conv, "tf32"),
    "conv whole": set_to(lambda: BACKENDS.cudnn.conv, "ieee"),
    "cudnn": set_to(lambda: BACKENDS.cudnn, "tf32"),
    "all": set_to(lambda: BACKENDS, "tf32"),
    "processor": set_to(lambda: BACKENDS.mkldnn.matmul, "bf16"),
}
WAYS = OLD_WAYS | (NEW_WAYS if NEW else {})


def read(what):
    try:
        return what()
    except RuntimeError:  # the two kinds of switches say different things
        return "mixed"


def switches():
    old = torch.get_float32_matmul_precision, lambda: BACKENDS.cudnn.allow_tf32, lambda: BACKENDS.cudnn.benchmark
    kinds = (BACKENDS, BACKENDS.cudnn, BACKENDS.mkldnn) if NEW else ()
    return [read(one) for one in old] + [kind.fp32_precision for kind in kinds] + precisions()


def precisions():
    """What the kernels ask for."""
    if NEW:
        gpu, processor = (BACKENDS.cuda.matmul, BACKENDS.cudnn.conv, BACKENDS.cudnn.rnn), BACKENDS.mkldnn
        return [kind.fp32_precision for kind in (*gpu, processor.matmul, processor.conv, processor.rnn)]
    cuts = BACKENDS.cuda.matmul.allow_tf32, BACKENDS.cudnn.allow_tf32, torch.get_float32_matmul_precision() != "highest"
    return ["tf32" if cut else "ieee" for cut in cuts]


def whole():
    return set(precisions()) <= {"ieee", "none"} and not BACKENDS.cudnn.benchmark


@pytest.fixture(autouse=True)
def as_before():
    """Each test leaves PyTorch's own defaults."""
    yield
    if NEW:
        for kind in (BACKENDS, BACKENDS.cudnn, BACKENDS.mkldnn, BACKENDS.cuda.matmul):
            kind.fp32_precision = "none"
        for name in ("matmul", "conv", "rnn"):
            getattr(BACKENDS.mkldnn, name).fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    BACKENDS.cudnn.allow_tf32, BACKENDS.cudnn.benchmark = True, False


@pytest.mark.parametrize("way", WAYS)
def test_switches_are_off_inside_and_as_they_were_outside(way):
    WAYS[way]()
    before = switches()
    with devices.whole_float32():
        assert whole()
        inside = switches()
        with devices.whole_float32():
            assert whole()
        assert switches() == inside
        if way in OLD_WAYS:
            assert "mixed" not in inside, "what still reads the old switches must not end in an error"
    assert switches() == before
    with pytest.raises(KeyError), devices.whole_float32():
        raise KeyError
    assert switches() == before


@pytest.mark.parametrize("way", OLD_WAYS)
def test_before_torch_29_the_old_switches_are_enough(way, monkeypatch):
    monkeypatch.setattr(devices, "SWITCHES", [])
    OLD_WAYS[way]()
    before = switches()[:3]
    with devices.whole_float32():
        assert whole()
    assert switches()[:3] == before


def test_a_switch_that_is_turned_inside_is_turned_back_by_the_next_sum():
    with devices.whole_float32():
        BACKENDS.cudnn.allow_tf32 = True
        with devices.whole_float32():
            assert whole()


X, Y = torch.randn(12, 1, 6, 6, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3
PAIR = X.numpy(), Y.numpy()
ROWS = dpsgd.Data((X.flatten(1).numpy(), Y.numpy()), test=(X.flatten(1).numpy(), Y.numpy()))
PRIVATE = dpsgd.DPSGD(2, 0.5, 0.1, 1.0, 1.0)
PLAIN = dpsgd.DPSGD(2, 0.5, 0.1)


def network():
    return torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(32, 3))


def linear():
    return models.mlp([36, 3])


def rng():
    return np.random.default_rng(0)


def engine(settings):
    return dpsgd.Engine(network(), settings, placed(), generator=torch.Generator())


def placed():
    return examples.Examples(PAIR, "train", torch.device("cpu"), torch.float32)


def grid():
    records = examples.Examples(ROWS.train, "train", torch.device("cpu"), torch.float32)
    return logistic_grid.LogisticGrid([PRIVATE], records, 3, [torch.Generator()]), records


def annealed(energy):
    screen = annealing.Annealing()
    annealing.train(network(), PAIR, PRIVATE, rng(), annealing=screen, energy=energy, evaluate={"test": PAIR})


def attack():
    net, canaries = network(), (PAIR[0][:3], PAIR[1][:3])
    seen = attacks.GradientAttack(net, PRIVATE, 12, canaries, PAIR, 1)
    judged = attacks.RuleAttack(net, canaries, PAIR, 1.0)
    with torch.no_grad():
        net[0].weight.add_(0.1)
    for one in (seen, judged):
        one(torch.empty(0))
        one.scores()


SUMS = {
    "private training": lambda: dpsgd.train(network(), dpsgd.Data(PAIR, test=PAIR), PRIVATE, rng()),
    "training without clipping": lambda: dpsgd.train(network(), dpsgd.Data(PAIR, test=PAIR), PLAIN, rng()),
    "private step": lambda: engine(PRIVATE).step(torch.arange(5)),
    "step without clipping": lambda: engine(PLAIN).step(torch.arange(5)),
    "trial of a network": lambda: clipping.check(network(), X, Y, dpsgd.cross_entropy),
    "evaluation": lambda: examples.evaluate(network(), placed(), examples.cross_entropy, examples.correct),
    "J on other records": lambda: annealed(PAIR),
    "J on the batch": lambda: annealed("batch"),
    "many at once": lambda: many.train(
        [linear(), linear()], ROWS, PRIVATE, [rng(), np.random.default_rng(1)], progress=False
    ),
    "attacks": attack,
    "a step of a grid": lambda: grid()[0].step(torch.arange(5)),
    "evaluation of a grid": lambda: grid()[0].evaluate(grid()[1]),
    "a grid": lambda: logistic_grid.train_grid(ROWS, [PRIVATE], rng(), classes=3, progress=False),
    "training on labels": lambda: soft_labels.fit(network(), X, Y, epochs=1, batch_size=4, learning_rate=0.1, seed=0),
    "scores": lambda: soft_labels.logits(network(), X),
    "SGD": lambda: sgd.train(network(), *PAIR, sgd.Sgd(1, 4), 0, torch.device("cpu")),
    "outputs": lambda: sgd.outputs(network(), PAIR[0], torch.device("cpu")),
    "heads": lambda: heads.fit(
        ROWS.train[0], [heads.Evidence("target", np.eye(3, dtype=np.float32)[Y])], [0.1], rng(), epochs=1
    ).accuracy(*ROWS.train),
}


PRODUCTS = {
    "mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "matmul", "linear", "conv2d", "convolution", "convolution_backward",
    "mkldnn_convolution",
}  # fmt: skip


class Products(TorchDispatchMode):
    """Counts products of float32, and those that were cut."""

    def __init__(self):
        super().__init__()
        self.all, self.cut = 0, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name().split("::")[1].split(".")[0]
        if name.rstrip("_") in PRODUCTS:
            self.all += 1
            kinds = {a.dtype for a in args if isinstance(a, torch.Tensor)}
            if torch.bfloat16 in kinds or (torch.float32 in kinds and not whole()):
                self.cut.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", SUMS)
def test_no_product_is_cut(name):
    torch.set_float32_matmul_precision("medium")
    with Products() as products:
        SUMS[name]()
    assert products.all > 0
    assert products.cut == []
    assert torch.get_float32_matmul_precision() == "medium"


@pytest.mark.parametrize("name", SUMS)
def test_autocast_is_refused(name):
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ParameterError, match="autocast"):
        SUMS[name]()


def test_autocast_of_a_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: kind == "cuda")
    with pytest.raises(ParameterError, match="autocast"):
        engine(PRIVATE).step(torch.arange(5))


class InFewBits(torch.nn.Module):
    """A network that turns autocast on by itself."""

    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x):
        with torch.autocast(x.device.type, torch.bfloat16):
            return self.net(x).float()


def test_a_network_that_works_in_few_bits_has_no_clipped_sums():
    with pytest.raises(ParameterError, match="bfloat16"):
        clipping.ClippedSums(net := InFewBits(), {p: torch.zeros_like(p) for p in net.parameters()}).add(
            X, Y, dpsgd.cross_entropy, torch.ones_like
        )


def test_few_bits_are_taken_where_asked_for_alone(monkeypatch):
    seen, autocast = [], torch.autocast

    def noted(*arguments, enabled=True, **named):
        seen.append(enabled)
        return autocast("cpu", enabled=False)

    monkeypatch.setattr(torch, "autocast", noted)
    sgd.train(network(), *PAIR, sgd.Sgd(1, 4), 0, torch.device("cpu"))
    assert not any(seen)
    sgd.train(network(), *PAIR, sgd.Sgd(1, 4, precision="bfloat16"), 0, torch.device("cpu"))
    assert any(seen)
    with pytest.raises(ParameterError, match="precision"):
        sgd.Sgd(precision="tf32")
