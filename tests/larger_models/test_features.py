import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from dplib.larger_models.features import Features, Images, Network, Noise, Perceptron
from sklearn.datasets import load_digits
from torch import nn

from dplib import models, sgd, stats
from dplib.checks import ParameterError
from dplib.larger_models import features, selection
from dplib.sgd import Sgd
from tests.conftest import ROOT

CPU = torch.device("cpu")
TINY = Sgd(epochs=1, batch_size=32)


def blobs(n, p, rng, gap=4.0):
    """Three classes, apart in the first three features only: features (n, p) and labels (n,)."""
    y = np.arange(n) % 3
    x = rng.standard_normal((n, p)).astype(np.float32)
    x[np.arange(n), y] += gap
    return x, y


def blob_features(seed=0, n=300, p=12):
    rng = np.random.default_rng(seed)
    return Features(*blobs(n, p, rng), *blobs(n, p, rng))


def colour_images(seed=0, n=48, size=8):
    """Three classes of colour images: each is brighter in one channel."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    x = rng.standard_normal((n, 3, size, size)).astype(np.float32)
    x[np.arange(n), y] += 1.0
    half = n // 2
    return Images(x[:half], y[:half], x[half:], y[half:])


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:1437], order[1437:]
    x = x.reshape(-1, 1, 8, 8)
    return Images(x[train], y[train], x[test], y[test])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("features")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# --- the whole of Table 1 ----------------------------------------------------------------------------------------


def test_table_on_digits(digits, folder):
    """Both networks learn, and with next to no noise every row keeps what they know; with the paper's, none does."""
    narrow, wide = Network(width=16, training=Sgd(epochs=6)), Network(width=64, training=Sgd(epochs=6))
    seeds = [3, 4]
    runs = features.table1(digits, narrow, wide, Noise(1e6), seeds, cache_dir=folder)
    assert runs["row"].tolist() == list(features.ROWS) * 2
    assert runs["seed"].tolist() == [3] * 4 + [4] * 4
    assert runs["n_features"].tolist() == [16, 64, 16, 16] * 2
    assert runs["network_accuracy"].min() > 0.9
    assert runs["accuracy"].min() > 0.9

    noisy = features.table1(digits, narrow, wide, Noise(2.0, noisy_test=True), seeds, cache_dir=folder)
    # 360 test digits: guessing gets more than 17% with probability below 1e-4 a row.
    assert noisy["accuracy"].max() < 0.17
    assert (noisy["signal"] < 0.05).all()


@pytest.mark.parametrize(("architecture", "expected"), [("resnet18", 32), ("resnet50", 128)])
def test_toy_resnets_end_to_end(architecture, expected, tmp_path):
    narrow, wide = Network("resnet18", 2, TINY), Network(architecture, 4, replace(TINY, augment=True))
    runs = features.table1(colour_images(), narrow, wide, Noise(1e4), [0], cache_dir=tmp_path)
    assert runs["n_features"].tolist() == [16, expected, 16, 16]
    assert np.isfinite(runs.drop(columns="row").to_numpy(dtype=float)).all()


def test_rows_and_keep_are_followed(folder, digits):
    network = Network(width=8, training=TINY)
    runs = features.table1(
        digits, network, network, Noise(1.0), (0,), keep=3, rows=["wide + distance"], cache_dir=folder
    )
    assert runs["row"].tolist() == ["wide + distance"]
    assert runs["n_features"].tolist() == [3]


def test_summary_is_in_per_cent():
    accuracy = [0.5, 0.7, 0.9]
    runs = features.pd.DataFrame({"row": ["narrow"] * 3 + ["wide"] * 3, "accuracy": [*accuracy, 0.2, 0.2, 0.5]})
    table = features.summary(runs)
    assert table.index.tolist() == ["narrow", "wide"]
    assert table.loc["narrow", ["min", "max", "median", "mean", "n"]].tolist() == pytest.approx([50, 90, 70, 70, 3])
    interval = stats.mean_interval(np.array(accuracy))
    assert table.loc["narrow", ["low", "high"]].tolist() == pytest.approx([100 * interval.low, 100 * interval.high])
    assert table.loc["wide", "median"] == pytest.approx(20)


# --- networks and their cache --------------------------------------------------------------------------------------


def test_same_seed_same_bytes_and_another_seed_other_bytes(tmp_path):
    network = Network("resnet50", 2, replace(TINY, epochs=2, augment=True))
    first, again, other = (
        features.network_features(colour_images(), network, seed, cache_dir=tmp_path / place)
        for seed, place in [(0, "a"), (0, "b"), (1, "a")]
    )
    assert first.train.tobytes() == again.train.tobytes()
    assert first.test.tobytes() == again.test.tobytes()
    assert first.train.tobytes() != other.train.tobytes()


def test_training_leaves_the_global_generator_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    features.network_features(colour_images(), Network("small_cnn", 4, TINY), 0, cache_dir=tmp_path)
    features.noisy_accuracy(blob_features(), Noise(1.0), 0)
    assert torch.equal(torch.rand(3), expected)


def test_features_are_those_of_the_trained_network(tmp_path):
    """The head of the very network, put on the features, gives the accuracy that is reported."""
    images, network = colour_images(), Network("small_cnn", 8, TINY)
    result = features.network_features(images, network, 0, cache_dir=tmp_path)
    assert result.train.shape == (24, 8)
    assert result.test.shape == (24, 8)
    assert result.train.dtype == np.float32
    # The same training by hand, from the documented random stream.
    rng = np.random.default_rng([0, 0])
    scaled = [
        ((x - images.train.mean((0, 2, 3), keepdims=True)) / images.train.std((0, 2, 3), keepdims=True))
        for x in (images.train, images.test)
    ]
    net = sgd.seeded(lambda: models.small_cnn(3, 3, 8), int(rng.integers(2**63)))
    sgd.train(net, scaled[0], images.train_labels, TINY, int(rng.integers(2**63)), CPU)
    net.eval()
    with torch.no_grad():
        scores = net[-1](torch.as_tensor(result.test))
        np.testing.assert_allclose(net[:-1](torch.as_tensor(scaled[1])).numpy(), result.test, rtol=1e-5, atol=1e-6)
    assert result.network_accuracy == (scores.argmax(1).numpy() == images.test_labels).mean()


def test_cache_answers_the_same_question_only(tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(sgd, "train", lambda net, *rest, train=sgd.train: (trained.append(1), train(net, *rest)))
    images, network = colour_images(), Network("small_cnn", 4, TINY)

    def trainings(images=images, network=network, seed=0):
        before = len(trained)
        features.network_features(images, network, seed, cache_dir=tmp_path)
        return len(trained) - before

    assert trainings() == 1
    assert trainings() == 0
    assert trainings(images=pickle.loads(pickle.dumps(images))) == 0  # equal content, not the same object
    assert trainings(seed=1) == 1
    assert trainings(network=replace(network, width=5)) == 1
    assert trainings(network=replace(network, training=replace(TINY, learning_rate=0.2))) == 1
    brighter = images.train.copy()
    brighter[0, 0, 0, 0] += 1
    assert trainings(images=replace(images, train=brighter)) == 1
    monkeypatch.setattr(torch, "__version__", "0.0")
    assert trainings() == 1


def test_a_damaged_cache_entry_is_made_again(tmp_path):
    images, network = colour_images(), Network("small_cnn", 4, TINY)
    first = features.network_features(images, network, 0, cache_dir=tmp_path)
    (entry,) = tmp_path.rglob("output.pkl")
    entry.write_bytes(entry.read_bytes()[:100])
    again = features.network_features(images, network, 0, cache_dir=tmp_path)
    assert again.train.tobytes() == first.train.tobytes()


def test_a_killed_run_goes_on_where_it_was(tmp_path, monkeypatch):
    """Killed in the middle of its second training, a run needs only that one when it is started again."""
    script = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.larger_models.test_features import TINY, Network, colour_images, features, sgd
train, begun = sgd.train, []
def killed_at_the_second(*arguments):
    begun.append(1)
    train(*arguments)
    if len(begun) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
sgd.train = killed_at_the_second
for seed in (0, 1):
    features.network_features(colour_images(), Network("small_cnn", 4, TINY), seed, cache_dir={str(tmp_path)!r})
"""
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert killed.returncode == -9, killed.stderr
    trained = []
    monkeypatch.setattr(sgd, "train", lambda *arguments, train=sgd.train: (trained.append(1), train(*arguments)))
    for seed, expected in [(0, 0), (1, 1)]:
        features.network_features(colour_images(), Network("small_cnn", 4, TINY), seed, cache_dir=tmp_path)
        assert len(trained) == expected


def test_a_diverging_training_is_an_error(tmp_path):
    wild = Network("small_cnn", 4, replace(TINY, learning_rate=1e30, epochs=3))
    with pytest.raises(ParameterError, match=r"learning_rate = 1e\+30 is not allowed"):
        features.network_features(colour_images(), wild, 0, cache_dir=tmp_path)


def test_feature_counts_of_the_papers_networks():
    assert Network("resnet18").n_features == 512
    assert Network("resnet50").n_features == 2048
    assert Network("small_cnn", 256).n_features == 256


# --- Algorithm 1 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["distance", "t-statistic"])
def test_the_features_that_differ_between_classes_are_kept(criterion):
    release, test = features.noisy_features(
        blob_features(), Noise(1e9), np.random.default_rng(0), criterion=criterion, keep=3
    )
    assert sorted(release.features) == [0, 1, 2]
    np.testing.assert_allclose(release.values, blob_features().train[:, release.features], atol=1e-4)
    assert test.tobytes() == blob_features().test[:, release.features].tobytes()


def test_criteria_differ_where_variances_do():
    """A feature twice as far apart and ten times as wide is the first by distance, and not by t-statistic."""
    clean = blob_features()
    wide = clean.train.copy()
    wide[:, 1] = 2 * wide[:, 1] + 10 * np.random.default_rng(1).standard_normal(len(wide))
    clean = replace(clean, train=wide)
    first = {}
    for criterion in ("distance", "t-statistic"):
        release, _ = features.noisy_features(clean, Noise(1e9), np.random.default_rng(0), criterion, 1)
        first[criterion] = release.features[0]
    assert first["distance"] == 1
    assert first["t-statistic"] in (0, 2)


@pytest.mark.parametrize("sd", [selection.definition_sd, selection.literal_sd])
@pytest.mark.parametrize("select_first", [True, False])
def test_noise_is_scaled_to_what_is_released(sd, select_first):
    """Algorithm 1 scales it to the norm of the kept features; with selection on noisy ones all features count.

    The sample standard deviation of 300 * 3 normals is off by 12% with probability below 1e-6.
    """
    clean = blob_features()
    noise = Noise(0.5, 1e-3, sd, select_first)
    release, test = features.noisy_features(clean, noise, np.random.default_rng(1), criterion="distance", keep=3)
    counted = clean.train[:, release.features] if select_first else clean.train
    expected = sd(np.abs(counted).sum(1).max(), 0.5, 1e-3)
    assert release.noise_sd == pytest.approx(expected)
    added = release.values - clean.train[:, release.features]
    assert added.std() == pytest.approx(expected, rel=0.12)
    assert test.tobytes() == clean.test[:, release.features].tobytes()


def test_noisy_test_features_get_noise_of_their_own():
    clean = blob_features(p=40)
    noise = Noise(1.0, noisy_test=True)
    release, test = features.noisy_features(clean, noise, np.random.default_rng(0))
    added = [release.values - clean.train, test - clean.test]
    assert added[1].std() == pytest.approx(release.noise_sd, rel=0.05)  # 12,000 normals: 7.7 standard errors
    assert abs(np.corrcoef(added[0].ravel(), added[1].ravel())[0, 1]) < 0.05


def test_selection_on_noisy_features_does_not_see_the_clean_ones():
    """With noise that swamps everything the kept features are those that the released values rank first."""
    clean = blob_features()
    noise = Noise(1e-3, select_first=False)
    release, _ = features.noisy_features(clean, noise, np.random.default_rng(2), criterion="distance", keep=12)
    scores = selection.distance(release.values, clean.train_labels)
    assert (np.diff(scores) <= 0).all()
    assert release.features.tolist() != selection.top(selection.distance(clean.train, clean.train_labels), 12).tolist()


# --- the perceptron --------------------------------------------------------------------------------------------------


def test_perceptron_learns_blobs_and_picks_the_better_learning_rate():
    clean = blob_features()
    perceptron = Perceptron(hidden=16, learning_rates=(1e-9, 0.1))
    labels, learning_rate = features.perceptron_labels(
        clean.train, clean.train_labels, clean.test, perceptron, np.random.default_rng(0), "cpu"
    )
    assert learning_rate == 0.1
    assert (labels == clean.test_labels).mean() > 0.95


def test_the_choice_never_sees_the_test_set():
    clean = blob_features()
    wrong = replace(clean, test_labels=(clean.test_labels + 1) % 3)
    right, misled = (features.noisy_accuracy(f, Noise(100.0), 0) for f in (clean, wrong))
    assert misled["learning_rate"] == right["learning_rate"]
    assert right["accuracy"] > 0.9
    assert misled["accuracy"] < 0.1


def test_accuracy_is_the_same_again_and_other_with_another_seed():
    one, again, other = (features.noisy_accuracy(blob_features(), Noise(20.0), seed) for seed in (0, 0, 1))
    assert one == again
    assert one["accuracy"] != other["accuracy"]


def test_signal_is_the_distance_of_the_kept_features_over_the_noise():
    clean = blob_features()
    result = features.noisy_accuracy(clean, Noise(5.0), 0, "distance", 3)
    distances = np.sort(selection.distance(clean.train, clean.train_labels))[-3:]
    assert result["signal"] == pytest.approx(distances.mean() / result["noise_sd"])
    assert np.isnan(result["network_accuracy"])


def test_constant_features_do_no_harm():
    clean = blob_features()
    dead = replace(clean, train=np.c_[clean.train, np.zeros(300, np.float32)], test=np.c_[clean.test, np.zeros(300)])
    labels, _ = features.perceptron_labels(
        dead.train, dead.train_labels, dead.test, Perceptron(), np.random.default_rng(0), "cpu"
    )
    assert (labels == clean.test_labels).mean() > 0.95


# --- SGD -------------------------------------------------------------------------------------------------------------


def test_augmented_images_are_crops_of_the_padded_image_or_their_mirror():
    x = torch.arange(2.0 * 1 * 6 * 7).reshape(2, 1, 6, 7)
    padded = nn.functional.pad(x, (sgd.PADDING,) * 4, mode="reflect")
    generator = torch.Generator().manual_seed(0)
    seen = set()
    for _ in range(50):
        for i, image in enumerate(sgd._augmented(x, generator)):
            places = [
                (top, left, mirrored)
                for top in range(9)
                for left in range(9)
                for mirrored in (False, True)
                if torch.equal(image.flip(2) if mirrored else image, padded[i, :, top : top + 6, left : left + 7])
            ]
            assert places
            seen.update(places)
    assert {mirrored for _, _, mirrored in seen} == {False, True}
    assert {top for top, _, _ in seen} == {left for _, left, _ in seen} == set(range(9))


def test_training_follows_plain_nesterov_sgd_with_onecycle():
    """Against the update rule written out, on a linear model with one batch an epoch."""
    x, y = blobs(30, 4, np.random.default_rng(0))
    settings = Sgd(epochs=6, batch_size=30, learning_rate=0.05, weight_decay=0.01)
    net = sgd.seeded(lambda: nn.Linear(4, 3, bias=False), 0).double()
    w, velocity = net.weight.detach().numpy().copy(), 0.0
    reference = torch.optim.lr_scheduler.OneCycleLR(
        torch.optim.SGD([torch.zeros(1)], 0.05), 0.05, total_steps=6, cycle_momentum=False
    )
    for _ in range(6):
        rate = reference.get_last_lr()[0]
        scores = x.astype(float) @ w.T
        p = np.exp(scores - scores.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        gradient = (p - np.eye(3)[y]).T @ x / len(x) + 0.01 * w
        velocity = 0.9 * velocity + gradient
        w = w - rate * (gradient + 0.9 * velocity)
        reference.optimizer.step()
        reference.step()
    sgd.train(net, x.astype(float), y, settings, 0, CPU)
    np.testing.assert_allclose(net.weight.detach().numpy(), w, rtol=1e-10)


@pytest.mark.parametrize("n", [2, 3, 5, 64, 65])
def test_any_number_of_examples_can_be_learnt_from(n):
    net = models.small_cnn(2, 1, 4)
    sgd.train(net, np.zeros((n, 1, 8, 8), np.float32), np.arange(n) % 2, Sgd(epochs=1), 0, CPU)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("architecture", lambda: Network("resnet34")),
        ("width", lambda: Network(width=0)),
        ("epochs", lambda: Sgd(epochs=0)),
        ("batch_size", lambda: Sgd(batch_size=1)),
        ("learning_rate", lambda: Sgd(learning_rate=0)),
        ("weight_decay", lambda: Sgd(weight_decay=-1)),
        ("augment", lambda: Sgd(augment=1)),
        ("epsilon", lambda: Noise(-1)),
        ("delta", lambda: Noise(1, delta=1)),
        ("select_first", lambda: Noise(1, select_first="yes")),
        ("noisy_test", lambda: Noise(1, noisy_test=None)),
        ("hidden", lambda: Perceptron(hidden=0)),
        ("learning_rates", lambda: Perceptron(learning_rates=())),
        ("validation_share", lambda: Perceptron(validation_share=0)),
        ("device", lambda: sgd.find_device("gpu")),
        ("criterion", lambda: features.noisy_accuracy(blob_features(), Noise(1), 0, "variance")),
        ("keep", lambda: features.noisy_accuracy(blob_features(), Noise(1), 0, "distance", 13)),
        ("keep", lambda: features.noisy_accuracy(blob_features(), Noise(1), 0, "distance")),
        (
            "augment",
            lambda: sgd.train(nn.Linear(4, 3), *blobs(9, 4, np.random.default_rng(0)), Sgd(augment=True), 0, CPU),
        ),
    ],
)
def test_bad_settings_are_refused_by_name(name, make):
    with pytest.raises(ParameterError, match=name):
        make()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("rows", {"rows": ["wide + dfs"]}),
        ("seeds", {"seeds": []}),
        ("seeds", {"seeds": [1, 1]}),
        ("seeds", {"seeds": [-1]}),
        ("keep", {"keep": 9}),
        ("keep", {"keep": 0}),
    ],
)
def test_bad_tables_are_refused_before_any_training(name, arguments, tmp_path, monkeypatch):
    monkeypatch.setattr(features, "network_features", lambda *_, **__: pytest.fail("trained"))
    network = Network("small_cnn", 8, TINY)
    with pytest.raises(ParameterError, match=name):
        features.table1(
            colour_images(), network, network, Noise(1.0), **{"seeds": [0], "cache_dir": tmp_path, **arguments}
        )


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("train of shape", {"train": np.zeros((24, 64), np.float32)}),
        ("train of shape", {"train": np.full((24, 3, 8, 8), np.nan)}),
        ("test of shape", {"test": np.zeros((24, 1, 8, 8))}),
        ("train_labels", {"train_labels": np.zeros(23, int)}),
        ("train_labels", {"train_labels": np.zeros(24)}),
        ("train_labels has the classes", {"train_labels": np.zeros(24, int)}),
        ("train_labels has the classes", {"train_labels": 2 * (np.arange(24) % 3)}),
        ("test_labels has a class", {"test_labels": np.full(24, 3)}),
    ],
)
def test_images_that_do_not_fit_are_refused(name, changes):
    with pytest.raises(ParameterError, match=name):
        replace(colour_images(), **changes)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said_so():
    assert sgd.find_device("auto").type == "cpu"
    with pytest.raises(ParameterError, match="no GPU"):
        sgd.find_device("cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_trains_too(tmp_path):
    network = Network("resnet50", 4, replace(TINY, augment=True))
    result = features.network_features(colour_images(), network, 0, cache_dir=tmp_path, device="cuda")
    assert np.isfinite(result.train).all()
