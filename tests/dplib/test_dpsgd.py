"""DP-SGD: sampling, noise, the step, training; statistical tests have fixed seeds and an error rate of 1e-4 each."""

import copy
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.datasets import load_digits
from torch import nn

from dplib import clipping, dpsgd, examples, logistic_grid, many, models, sgd, steps
from dplib.checks import ParameterError
from dplib.examples import Examples, cross_entropy, squared_error

ERROR_RATE = 1e-4  # chance that a correct program fails one statistical test, were the seed not fixed
CPU = torch.device("cpu")


def digits():
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    return dpsgd.Data((x[:1200], y[:1200]), (x[1200:1500], y[1200:1500]), (x[1500:], y[1500:]))


def toy(n=40, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=generator, dtype=dtype)
    return Examples((x, torch.randint(3, (n,), generator=generator)), "train", CPU, dtype)


def net(dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    return models.mlp([6, 5, 3], nn.Tanh).to(dtype)


def settings(**changes):
    return dpsgd.DPSGD(**{"steps": 1, "sample_rate": 0.25, "learning_rate": 0.5} | changes)


def engine(private, n=40, seed=3, network=None):
    return dpsgd.Engine(network or net(), private, toy(n), generator=torch.Generator().manual_seed(seed))


# --- sampling


@pytest.mark.parametrize("q", [0.01, 0.2, 0.45, 0.9])
def test_each_record_is_included_with_probability_q_by_itself(q):
    n, draws = 200, 4_000
    rng = np.random.default_rng(1)
    taken = np.zeros((draws, n), bool)
    for row in taken:
        rows = examples.poisson(n, q, rng)
        assert (np.diff(rows) > 0).all()
        row[rows] = True
    each = ((taken.sum(0) - draws * q) ** 2 / (draws * q * (1 - q))).sum()
    assert ERROR_RATE / 2 < stats.chi2.cdf(each, n) < 1 - ERROR_RATE / 2
    # Neighbours in the order, and records of consecutive batches, are included independently of each other.
    for together in (taken[:, :-1] & taken[:, 1:], taken[:-1] & taken[1:]):
        # Products of neighbours are correlated: their sum's variance counts pairs that share a record.
        trials, p = together.size, q * q
        variance = trials * (p * (1 - p) + 2 * (q**3 - q**4))
        assert abs(together.sum() - trials * p) < stats.norm.isf(ERROR_RATE / 2) * variance**0.5


@pytest.mark.parametrize(("n", "q"), [(10, 0.05), (60_000, 256 / 60_000), (100, 0.5), (7, 1.0)])
@pytest.mark.parametrize("secure", [False, True])
def test_batch_sizes_are_binomial(n, q, secure):
    rng = None if secure else np.random.default_rng(2)
    sizes = np.array([len(examples.poisson(n, q, rng)) for _ in range(200 if secure and n > 1_000 else 3_000)])
    law = stats.binom(n, q)
    if q == 1:
        assert (sizes == n).all()
        return
    edges = np.unique(law.ppf(np.linspace(0, 1, 12)[1:-1]))  # groups of about equal probability
    expected = np.diff(np.concatenate([[0], law.cdf(edges), [1]])) * len(sizes)
    counted = np.bincount(np.searchsorted(edges, sizes), minlength=len(expected))
    assert stats.chisquare(counted[expected > 0], expected[expected > 0]).pvalue > ERROR_RATE
    assert n > 10 or (sizes == 0).any()


def test_sampling_goes_on_where_its_first_draw_of_gaps_ends_early():
    class Slow:
        def geometric(self, q, size):
            return np.ones(size, np.int64)

    assert examples.poisson(50, 0.01, Slow()).tolist() == list(range(50))


def test_shuffled_batches_partition_each_epoch():
    sampler = examples.Sampler("shuffled", 10, 0.3, np.random.default_rng(0))
    for _ in range(3):
        epoch = np.concatenate([sampler.draw() for _ in range(3)])
        assert len(set(epoch.tolist())) == 9


@pytest.mark.parametrize("secure", [False, True])
def test_noise_is_normal(secure):
    generator = None if secure else torch.Generator().manual_seed(4)
    for dtype, n in ((torch.float32, 100_001), (torch.float64, 20_000)):
        noise = examples.fill_normal(torch.empty(n, dtype=dtype), 2.5, generator)
        assert stats.kstest(noise.double().numpy(), stats.norm(0, 2.5).cdf).pvalue > ERROR_RATE
        assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < stats.norm.isf(ERROR_RATE / 2) / (n - 1) ** 0.5


# --- the step


def test_noise_has_the_right_scale_and_the_expected_size_divides():
    torch.manual_seed(0)
    private = settings(noise_multiplier=1.5, max_grad_norm=0.4, sample_rate=0.1)
    network = models.mlp([6, 400, 3]).double()
    noise = engine(private, network=network).gradient(torch.arange(0)).numpy()
    sd = 1.5 * 0.4 / (0.1 * 40)
    assert len(noise) == 6 * 400 + 400 + 400 * 3 + 3
    assert stats.kstest(noise, stats.norm(0, sd).cdf).pvalue > ERROR_RATE
    low, high = stats.chi2.ppf([ERROR_RATE / 2, 1 - ERROR_RATE / 2], len(noise))
    assert low < (noise**2).sum() / sd**2 < high


@pytest.mark.parametrize(
    ("given", "due"),
    [
        ({"noise_multiplier": np.float16(1.0), "max_grad_norm": 1.0, "divisor": 1e5}, 1.0),
        ({"noise_multiplier": np.uint8(3), "max_grad_norm": np.uint8(100)}, 300.0),
        ({"noise_multiplier": Fraction(3, 2), "max_grad_norm": np.int8(2), "divisor": np.float16(1e4)}, 3.0),
    ],
)
def test_noise_has_the_right_scale_whatever_numbers_the_settings_are(given, due):
    """A quotient of a float16 was 0, and a product of whole numbers of 8 bits began again after 255."""
    made = settings(**given, learning_rate=Fraction(1, 2), momentum=Fraction(1, 4), steps=np.int8(3))
    network = models.mlp([6, 400, 3]).double()
    scale = float(engine(made, network=network).gradient(torch.arange(0)).std())
    assert scale * made.quotient(40) == pytest.approx(due, rel=0.05)
    stack = steps.Models([models.mlp([6, 3]).double()], [made], toy(), [40])
    assert stack._deviations == pytest.approx([due / made.quotient(40)])
    assert {type(getattr(made, f.name)) for f in fields(made)} <= {int, float, bool, str, type(None)}


def test_a_constant_divisor_makes_a_step_forget_the_number_of_records():
    def gradient(n, **changes):
        private = settings(noise_multiplier=1.5, max_grad_norm=0.4, **changes)
        examples = Examples(toy().batch(torch.arange(n)), "train", CPU, torch.float64)
        noise = torch.Generator().manual_seed(3)
        return dpsgd.Engine(net(), private, examples, generator=noise).gradient(torch.arange(7)).clone()

    assert torch.equal(gradient(7, divisor=12.5), gradient(40, divisor=12.5))
    assert torch.allclose(gradient(40, divisor=12.5) * 12.5, gradient(40) * 0.25 * 40, atol=1e-13)
    assert not torch.allclose(gradient(7), gradient(40))


@pytest.mark.parametrize("physical", [1, 3, 7, 1024])
@pytest.mark.parametrize("rule", ["flat", "auto-s"])
def test_noise_comes_once_whatever_the_pieces(physical, rule):
    changes = {"max_grad_norm": 0.3, "clipping": rule, "physical_batch": physical}
    rows = torch.arange(20)
    noisy = engine(settings(noise_multiplier=2.0, **changes)).gradient(rows).clone()
    clean = engine(settings(**changes)).gradient(rows).clone()
    noise = engine(settings(noise_multiplier=2.0, **changes)).gradient(rows[:0]).clone()
    assert torch.allclose(noisy, clean + noise, atol=1e-14)
    whole = engine(settings(**changes | {"physical_batch": 1024})).gradient(rows)
    assert torch.allclose(clean, whole, atol=1e-14)


@pytest.mark.parametrize("rule", ["flat", "auto-s"])
def test_gradient_is_the_clipped_sum_over_the_expected_size(rule):
    network, bound, rows = net(), 0.3, torch.tensor([0, 5, 6, 31])
    gradient_ = engine(settings(max_grad_norm=bound, clipping=rule), network=copy.deepcopy(network)).gradient(rows)
    x, y = toy().batch(rows)
    due = 0
    for a, b in zip(x, y, strict=True):
        loss = nn.functional.cross_entropy(network(a[None]), b[None])
        g = torch.cat([p.flatten() for p in torch.autograd.grad(loss, network.parameters())])
        due = due + g * (min(1.0, bound / float(g.norm() + 1e-6)) if rule == "flat" else bound / (g.norm() + 0.01))
    assert torch.allclose(gradient_, due / (0.25 * 40), rtol=1e-10)  # expected size 10, realised 4


def test_a_network_that_changes_its_input_in_place_is_clipped_by_the_norms_of_the_changed():
    torch.manual_seed(0)
    linear = nn.Linear(6, 3).double()
    inplace = nn.Sequential(nn.ELU(inplace=True), copy.deepcopy(linear))
    apart = nn.Sequential(nn.ELU(), linear)
    rows = torch.arange(10)
    found, due = (engine(settings(max_grad_norm=0.3), network=one).gradient(rows) for one in (inplace, apart))
    assert torch.allclose(found, due, rtol=1e-12)


def test_one_record_changes_the_sum_by_at_most_the_clipping_norm():
    for rule in clipping.RULES:
        private = engine(settings(max_grad_norm=0.3, clipping=rule))
        base = private.gradient(torch.arange(10)).clone()
        for one in range(10, 40):
            more = private.gradient(torch.cat([torch.arange(10), torch.tensor([one])]))
            assert (more - base).norm() * 10 <= 0.3 + 1e-12


def test_a_network_is_tried_on_as_many_records_as_a_step_has():
    class Mixing(nn.Sequential):
        def forward(self, x):
            return super().forward(x) + (x.mean() if len(x) > 9 else 0)

    engine(settings(max_grad_norm=1.0, physical_batch=9), network=Mixing(net()))
    with pytest.raises(ParameterError, match="other examples of its batch"):
        engine(settings(max_grad_norm=1.0), network=Mixing(net()))


def test_an_empty_batch_takes_a_noisy_step_and_without_noise_none():
    empty = torch.arange(0)
    for multiplier, bound in ((1.0, 1.0), (0.0, 1.0), (0.0, None)):
        private = engine(settings(noise_multiplier=multiplier, max_grad_norm=bound))
        before = private.weights.clone()
        assert private.step(empty) == 0
        assert torch.equal(before, private.weights) == (multiplier == 0)


@pytest.mark.parametrize("bound", [None, 1e9])
def test_without_noise_it_is_torchs_sgd(bound):
    options = {"momentum": 0.9}
    ours, theirs = net(), net()
    sgd = engine(settings(max_grad_norm=bound, sample_rate=0.2, **options), network=ours)
    optimizer = torch.optim.SGD(theirs.parameters(), 0.5, **options)
    for i in range(5):
        rows = torch.arange(8 * i, 8 * i + 8)
        x, y = toy().batch(rows)
        loss = nn.functional.cross_entropy(theirs(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = sgd.step(rows)
        assert torch.allclose(total / 8, loss)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(p, q, rtol=1e-10, atol=1e-12)


def test_frozen_layers_stay_and_do_not_count():
    network = net()
    network[0].requires_grad_(False)
    frozen = network[0].weight.clone()
    rwt = engine(settings(max_grad_norm=0.1, noise_multiplier=1.0), network=network)
    assert len(rwt.weights) == 5 * 3 + 3
    rwt.step(torch.arange(10))
    assert torch.equal(frozen, network[0].weight)
    # The same as training the last layer alone on the fixed features.
    features = torch.tanh(network[0](toy().tensors()[0])).detach()
    last = copy.deepcopy(net()[2])
    alone = dpsgd.Engine(
        last,
        settings(max_grad_norm=0.1, noise_multiplier=1.0),
        Examples((features, toy().y), "train", CPU, torch.float64),
        generator=torch.Generator().manual_seed(3),
    )
    alone.step(torch.arange(10))
    assert torch.allclose(alone.weights, rwt.weights, rtol=1e-12)


def test_closing_gives_parameters_memory_of_their_own():
    private = engine(settings(max_grad_norm=1.0))
    private.step(torch.arange(10))
    before = copy.deepcopy(private.net.state_dict())
    private.close()
    private.weights.zero_()
    assert all(torch.equal(before[k], v) for k, v in private.net.state_dict().items())
    assert not any(module._forward_hooks for module in private.net.modules())


# --- training


def train(data=None, seed=0, network=None, **changes):
    network = network or sgd.seeded(lambda: models.mlp([64, 16, 10], nn.Tanh), 5)
    keys = ("loss", "evaluate_every", "device")
    options = {key: changes.pop(key) for key in keys if key in changes}
    private = dpsgd.DPSGD(
        **{"steps": 60, "sample_rate": 0.1, "learning_rate": 1.0, "noise_multiplier": 1.0, "max_grad_norm": 1.0}
        | changes
    )
    run = dpsgd.train(network, data or digits(), private, np.random.default_rng(seed), progress=False, **options)
    return network, run


def weights(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def test_training_learns_and_records():
    network, run = train(steps=150, evaluate_every=50, learning_rate=2.0)
    assert [row["step"] for row in run.evaluations] == [50, 100, 150]
    assert run.final["test"]["metric"] > 0.85
    assert run.final["validation"]["loss"] < 1
    assert (run.sample_rate, run.steps, run.parameters, run.trained_parameters) == (0.1, 150, 1210, 1210)
    assert not network.training


def test_a_shuffled_training_tells_the_rate_that_its_batches_have():
    """A rate of 0.0336 asks for 40.3 of 1,200 records."""
    _, run = train(steps=1, sample_rate=0.0336, sampling="shuffled", noise_multiplier=0.0, max_grad_norm=None)
    assert run.sample_rate == 40 / 1200


def test_same_seed_same_bytes_and_the_global_generator_is_left_alone():
    torch.manual_seed(9)
    net = models.mlp([64, 16, 10], nn.Tanh, dropout=0.3)
    state = torch.get_rng_state()
    (a, first), (b, second), (c, _) = (train(network=copy.deepcopy(net), seed=seed) for seed in (0, 0, 1))
    assert torch.equal(weights(a), weights(b))
    assert first.final == second.final
    assert not torch.equal(weights(a), weights(c))
    assert torch.equal(torch.get_rng_state(), state)


def test_secure_training_cannot_be_repeated():
    (a, _), (b, _) = train(secure=True, steps=20), train(secure=True, steps=20)
    assert not torch.equal(weights(a), weights(b))


def test_nothing_of_a_secure_training_can_be_drawn_again():
    with pytest.raises(ParameterError, match=r"secure = True, .* draws random numbers \(dropout\?\)"):
        train(network=models.mlp([64, 8, 10], nn.Tanh, dropout=0.5), secure=True, steps=2)
    drawn = torch.Generator().manual_seed(0)
    private = settings(noise_multiplier=1.0, max_grad_norm=1.0, secure=True)
    with pytest.raises(ParameterError, match="generator is not allowed with secure"):
        dpsgd.Engine(net(), private, toy(), generator=drawn)
    random = models.mlp([6, 5, 3], nn.Tanh, dropout=0.5).double()
    with pytest.raises(ParameterError, match=r"no generator, .* draws random numbers"):
        dpsgd.Engine(random, replace(private, secure=False), toy())


def dropped_out(outputs, y):
    return cross_entropy(nn.functional.dropout(outputs, 0.5), y)


def test_a_loss_that_draws_random_numbers_is_no_part_of_a_secure_training():
    private = settings(noise_multiplier=1.0, max_grad_norm=1.0)
    for given in (replace(private, secure=True), private):  # the second has no generator
        with pytest.raises(ParameterError, match=r"a loss that draws random numbers \(dropout\?\)"):
            dpsgd.Engine(net(), given, toy(), dropped_out)
    dpsgd.Engine(net(), private, toy(), dropped_out, torch.Generator())


def test_a_record_that_is_taken_twice_is_refused_where_it_clips():
    twice, mixed = torch.tensor([3, 5, 3]), torch.tensor([9, 5, 3])
    private = engine(settings(max_grad_norm=1.0))
    for call in (private.step, private.gradient):
        with pytest.raises(ParameterError, match="more than once"):
            call(twice)
        call(mixed)
    engine(settings()).step(twice)


@pytest.mark.parametrize("bound", [None, 1.0])
def test_an_engine_that_is_closed_makes_no_step(bound):
    private = engine(settings(max_grad_norm=bound))
    private.close()
    for call in (private.step, private.gradient):
        with pytest.raises(ParameterError, match="engine is closed"):
            call(torch.arange(3))


def test_a_clipping_norm_that_is_lost_in_the_divisor_is_refused():
    """At 1e-26 of it a record moved the sum by 1.95 C: what is left of its factors are multiples of 1e-45."""
    private = settings(max_grad_norm=1e-12, divisor=1.07e14, learning_rate=1e20)
    with pytest.raises(ParameterError, match="max_grad_norm = 1e-12 is not allowed with a divisor"):
        engine(private)
    engine(replace(private, divisor=1e5))


@pytest.mark.parametrize("share", [1e-12, 1e-6, 1.0])
@pytest.mark.parametrize("rule", ["flat", "auto-s"])
def test_the_least_clipping_norm_bounds_what_an_example_adds(rule, share):
    """In units of the divisor, for the longest inputs and the shortest gradients that float32 has."""
    rng, bound = np.random.default_rng(0), dpsgd.LEAST
    for outs, ins in ((1, 3), (3, 1), (40, 30)):
        linear = nn.Linear(ins, outs, bias=False)
        sums = torch.zeros_like(linear.weight)
        watched = clipping.ClippedSums(linear, {linear.weight: sums})
        for size, scale in 10 ** rng.uniform([0, -19], [19, 19], (200, 2)):
            x = torch.from_numpy(rng.normal(size=(1, ins)) * size / ins**0.5).float()
            factors = torch.from_numpy(rng.normal(size=outs) * scale).float()
            sums.zero_()
            watched.add(
                x,
                torch.zeros(1),
                lambda out, y, factors=factors: out @ factors,
                lambda norms: clipping.RULES[rule](norms, bound, share),
            )
            assert sums.double().norm() <= 1.001 * bound
        watched.close()


@pytest.mark.parametrize("clipping_rule", ["flat", "auto-s"])
def test_no_record_moves_the_sum_by_more_than_c_where_weights_have_no_digits(clipping_rule):
    """C over divisor and gradient norm is below the least whole-digit float32: rounded, it was up to twice as much."""
    bound, divisor, rng = 1e-3, 1.4e6, np.random.default_rng(0)
    private = settings(sample_rate=1.0, max_grad_norm=bound, divisor=divisor, clipping=clipping_rule)
    for size in 10 ** rng.uniform(16, 20, 60):
        x = np.array([[size, size, size], [1.0, 1.0, 1.0]], np.float32)
        records = Examples((x, np.array([5e17, 0.0], np.float32)), "train", CPU, torch.float32)
        regression = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))
        made = dpsgd.Engine(regression, private, records, squared_error, torch.Generator().manual_seed(0))
        assert made.gradient(torch.tensor([0])).double().norm() * divisor <= 1.001 * bound


def test_images_regression_and_embeddings_train():
    data = digits()
    x, y = data.train
    torch.manual_seed(0)
    cnn = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 10))
    _, run = train(dpsgd.Data((x.reshape(-1, 1, 8, 8), y), test=(x.reshape(-1, 1, 8, 8), y)), network=cnn, steps=150)
    assert run.final["test"]["metric"] > 0.6
    targets = (x @ np.linspace(-0.3, 0.3, 64)).astype(np.float32)
    line = dpsgd.Data((x, targets), test=(x, targets))
    _, run = train(line, network=models.mlp([64, 1]), loss=squared_error, learning_rate=0.05, steps=300)
    assert run.final["test"]["metric"] < np.abs(targets - targets.mean()).mean() / 2
    words = nn.Sequential(nn.Embedding(17, 3), nn.Flatten(), nn.Linear(192, 10))
    _, run = train(dpsgd.Data(((x * 16).astype(np.int64), y), test=((x * 16).astype(np.int64), y)), network=words)
    assert run.final["test"]["metric"] > 0.3


def test_divergence_ends_a_training_and_is_recorded():
    plain = {"noise_multiplier": 0.0, "max_grad_norm": None, "learning_rate": 1e4, "loss": squared_like}
    _, run = train(network=models.mlp([64, 10]), evaluate_every=20, **plain)
    assert run.diverged
    assert run.steps < 60


def squared_like(outputs, y):
    return squared_error(outputs, nn.functional.one_hot(y, 10).to(outputs.dtype))


# --- what is refused


def test_bad_settings_are_named():
    wrong = {"steps": 0, "sample_rate": 1.01, "learning_rate": float("inf"), "noise_multiplier": -0.1, "momentum": 1.0}
    wrong |= {"max_grad_norm": float("nan"), "clipping": "per-layer", "physical_batch": 0, "divisor": 0}
    for name, value in wrong.items():
        with pytest.raises(ParameterError, match=f"{name} = "):
            settings(**{name: value})
    with pytest.raises(ParameterError, match="max_grad_norm = None"):
        settings(noise_multiplier=1.0)
    with pytest.raises(ParameterError, match="shuffled"):
        settings(noise_multiplier=1.0, max_grad_norm=1.0, sampling="shuffled")


@pytest.mark.parametrize("what", ["train", "validation", "test"])
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda x, y: (np.where(np.arange(64) == 5, np.nan, x), y), "not finite"),
        (lambda x, y: (x, np.where(np.arange(len(y)) == 3, 10, y)), "a label is not allowed: all must be in 0 to 9"),
    ],
)
def test_bad_data_are_refused_before_any_step(what, spoil, words):
    network = models.mlp([64, 16, 10], nn.Tanh)
    before = weights(network)
    with pytest.raises(ParameterError, match=f"{what}: .*{words}"):
        train(replace(digits(), **{what: spoil(*getattr(digits(), what))}), network=network)
    assert torch.equal(before, weights(network))


@pytest.mark.parametrize(
    ("spoil", "options", "words"),
    [
        (lambda x, y: (x[:0], y[:0]), {}, "n at least 1"),
        (lambda x, y: (x, y[:-1]), {}, "shape"),
        (lambda x, y: (x, y.astype(np.float32)), {}, "labels must be"),
        (lambda x, y: (x, np.zeros((len(x), 2), np.float32)), {"loss": squared_error}, "outputs"),
        (lambda x, y: (x, y), {"loss": lambda o, t: cross_entropy(o, t).mean()}, "one number for each"),
        (lambda x, y: (x, y), {"loss": lambda o, t: cross_entropy(o, t).detach()}, "is it detached"),
        (lambda x, y: (x, y), {"network": models.mlp([64, 10]).requires_grad_(False)}, "nothing to train"),
        (lambda x, y: (x, y), {"network": models.mlp([64, 10]).to(torch.complex64)}, "complex64: they must be real"),
    ],
)
def test_other_senseless_data_are_refused(spoil, options, words):
    with pytest.raises(ParameterError, match=words):
        train(dpsgd.Data(spoil(*digits().train)), **options)


def test_data_on_another_device_are_refused():
    x, y = digits().train
    meta = torch.empty(x.shape, device="meta")
    with pytest.raises(ParameterError, match="train: the data are on meta, but the network on cpu"):
        train(dpsgd.Data((meta, y)))
    examples = Examples((x, y), "train", CPU, torch.float32)
    with torch.device("meta"):
        elsewhere = models.mlp([64, 10])
    with pytest.raises(ParameterError, match="the network is on meta"):
        dpsgd.Engine(elsewhere, settings(max_grad_norm=1.0), examples)


# --- many models at once


def grid_settings():
    rates, multipliers = (0.5, 1.0, 2.0), (0.0, 1.5)
    several = [
        settings(steps=30, learning_rate=r, noise_multiplier=m, max_grad_norm=0.5 + r)
        for r in rates
        for m in multipliers
    ]
    several.append(settings(steps=30, learning_rate=1.0))
    return several


def test_a_grid_is_the_same_models_trained_one_by_one():
    several, train_set = grid_settings(), toy(300)
    grid = logistic_grid.LogisticGrid(
        several, train_set, 3, [torch.Generator().manual_seed(i) for i in range(len(several))]
    )
    singles = []
    for i, one in enumerate(several):
        linear = nn.Linear(6, 3).double()
        for p in linear.parameters():
            nn.init.zeros_(p)
        singles.append(dpsgd.Engine(linear, one, toy(300), generator=torch.Generator().manual_seed(i)))
    rng = np.random.default_rng(0)
    batches = [torch.from_numpy(examples.poisson(300, 0.25, rng)) for _ in range(30)]
    for rows in [*batches, torch.arange(0), torch.arange(1)]:
        grid.step(rows)
        for single in singles:
            single.step(rows)
    for i, single in enumerate(singles):
        assert torch.allclose(grid.weights[:, i], single.net.weight, rtol=1e-9, atol=1e-12)
        assert torch.allclose(grid.bias[:, i], single.net.bias, rtol=1e-9, atol=1e-12)
    assert len({tuple(w.flatten().tolist()) for w in grid.weights.unbind(1)}) == len(several)


def test_a_grid_divides_by_the_divisor():
    """Where the number of records is private, it must not show in the size of the noise."""
    scales = []
    for n in (100, 400):
        settings_ = settings(max_grad_norm=1.0, noise_multiplier=1.0, divisor=50.0)
        grid = logistic_grid.LogisticGrid([settings_], toy(n), 3, [torch.Generator().manual_seed(0)])
        grid.step(torch.arange(0))
        scales.append(grid.weights.clone())
    assert torch.equal(*scales)


def test_what_a_grid_refuses():
    settings_ = settings(max_grad_norm=1.0)
    for others, words in (
        ([], "empty"),
        ([settings_, settings(steps=2)], "steps differs"),
        ([settings_, settings(sample_rate=0.5)], "sample_rate differs"),
        ([settings(momentum=0.9)], "momentum"),
    ):
        with pytest.raises(ParameterError, match=words):
            logistic_grid.train_grid(digits(), others, np.random.default_rng(0), classes=10)
    with pytest.raises(ParameterError, match="a label is not allowed: all must be in 0 to 8"):
        logistic_grid.train_grid(digits(), [settings_], np.random.default_rng(0), classes=9)


def test_the_same_training_on_a_gpu(gpu):
    clean = {"noise_multiplier": 0.0, "steps": 20}
    a, first = train(device="cpu", **clean)
    b, second = train(device="cuda", **clean)
    assert torch.allclose(weights(a), weights(b).cpu(), atol=1e-4)
    assert second.device.startswith("cuda")
    assert abs(first.final["test"]["loss"] - second.final["test"]["loss"]) < 1e-3
    _, noisy = train(device="cuda")
    assert noisy.final["test"]["metric"] > 0.5


def test_a_seed_decides_as_its_generator_does_and_not_with_secure():
    data, private = digits(), {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "sample_rate": 0.1}
    trained = []
    for given in ({"rng": np.random.default_rng(3)}, {"seed": 3}):
        network = sgd.seeded(lambda: models.mlp([64, 10]), 5)
        dpsgd.train(network, data, settings(**private), progress=False, **given)
        trained.append(weights(network))
    assert torch.equal(*trained)
    dpsgd.train(models.mlp([64, 10]), data, settings(**private, secure=True), progress=False)
    for given, secure, words in (
        ({"seed": 3}, True, "seed = 3"),
        ({"seed": 3, "rng": np.random.default_rng(3)}, False, "seed = 3"),
        ({"seed": -1}, False, "seed = -1"),
        ({"rng": 3}, False, "rng = 3"),
        ({}, False, "rng = None"),
    ):
        with pytest.raises(ParameterError, match=words):
            dpsgd.train(models.mlp([64, 10]), data, settings(**private, secure=secure), progress=False, **given)


@pytest.mark.parametrize("q", [1e-18, 1e-300, 0.0, 1.5, float("nan")])
def test_rates_at_which_nothing_can_be_drawn_are_refused(q):
    with pytest.raises(ParameterError, match="sample_rate"):
        examples.poisson(10, q, np.random.default_rng(0))
    with pytest.raises(ParameterError, match="sample_rate"):
        examples.Sampler("poisson", 10, q, np.random.default_rng(0))
    with pytest.raises(ParameterError, match="sample_rate"):
        settings(sample_rate=q)


@pytest.mark.parametrize(("name", "value"), [("steps", 2**63 - 1), ("divisor", 1e-300), ("divisor", 1e300)])
def test_settings_have_bounds_on_both_sides(name, value):
    with pytest.raises(ParameterError, match=f"{name} = "):
        settings(**{name: value})


def test_a_loss_of_ones_own_on_real_targets_has_no_metric():
    """It was 1 whatever the network said: the largest of one score is that of "label" 0."""
    x, y = digits().test
    y = np.float32(y[:, None])
    rngs = [np.random.default_rng(0) for _ in range(2)]
    settings, data = dpsgd.DPSGD(steps=2, sample_rate=0.1, learning_rate=0.01), dpsgd.Data((x, y), test=(x, y))
    run = dpsgd.train(models.mlp([64, 1]), data, settings, rngs[0], loss=halved, progress=False)
    (other,) = many.train([models.mlp([64, 1])], data, settings, rngs[1:], loss=halved, progress=False)
    for test in (run.final["test"], other.final["test"]):
        assert np.isnan(test["metric"])
        assert test["loss"] > 0


def halved(outputs, y):
    return dpsgd.squared_error(outputs, y) / 2
