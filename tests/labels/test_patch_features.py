import numpy as np
import pytest

from dplib.checks import ParameterError
from dplib.labels import patch_features
from dplib.labels.patch_features import Dictionary, Recipe

SMALL = Recipe(maps=16, patch=3, patches=2000, rounds=3)


def pictures(n=40, channels=1, size=12, seed=0):
    return patch_features.dead_leaves(n, channels, size, np.random.default_rng(seed), shapes=15)


def by_hand(image, dictionary, recipe):
    """Features of one image, place by place, from the definition."""
    side, filters = dictionary.patch, len(dictionary.matrix)
    height, width = ((size - side) // recipe.stride + 1 for size in image.shape[1:])
    products = np.empty((height, width, filters))
    for i in range(height):
        for j in range(width):
            top, left = i * recipe.stride, j * recipe.stride
            patch = image[:, top : top + side, left : left + side].astype(float).ravel()
            patch = (patch - patch.mean()) / np.sqrt(patch.var() + 10 / 255**2)
            products[i, j] = dictionary.matrix.astype(float) @ patch - dictionary.offset
    middle, centre = (height + 1) // 2, (width + 1) // 2
    parts = []
    for rows in (products[:middle], products[middle:]):
        for quarter in (rows[:, :centre], rows[:, centre:]):
            for sign in (1, -1):
                parts.append(np.maximum(sign * quarter - recipe.threshold, 0).sum(axis=(0, 1)))
    return np.concatenate(parts)


@pytest.mark.parametrize(("channels", "size", "stride"), [(1, 12, 1), (3, 11, 1), (1, 12, 2)])
def test_extract_is_the_definition(channels, size, stride):
    images = pictures(5, channels, size)
    recipe = Recipe(maps=16, patch=4, stride=stride, patches=2000, rounds=2)
    dictionary = patch_features.learn(images, recipe, np.random.default_rng(0))
    found = patch_features.extract(images, dictionary, recipe)
    assert found.shape == (5, 64)
    assert found.dtype == np.float32
    for image, row in zip(images, found, strict=True):
        np.testing.assert_allclose(row, by_hand(image, dictionary, recipe), rtol=1e-3, atol=2e-3)


def test_an_images_features_depend_on_it_alone():
    images = pictures(70)
    dictionary = patch_features.learn(images, SMALL, np.random.default_rng(0))
    together = patch_features.extract(images, dictionary, SMALL)
    np.testing.assert_allclose(patch_features.extract(images[65:66], dictionary, SMALL)[0], together[65], atol=1e-4)


def test_brightness_does_not_matter_and_contrast_hardly():
    images = pictures(5)
    dictionary = patch_features.learn(images, SMALL, np.random.default_rng(0))
    dark, bright, strong = (
        patch_features.extract(x, dictionary, SMALL) for x in (0.4 * images, 0.4 * images + 0.5, images)
    )
    np.testing.assert_allclose(bright, dark, atol=1e-3)
    assert np.corrcoef(strong.ravel(), dark.ravel())[0, 1] > 0.99


def test_whitened_patches_are_white_and_filters_have_length_one():
    images = pictures(200, channels=3)
    recipe = Recipe(maps=16, patch=3, patches=20_000, rounds=2)
    rng = np.random.default_rng(0)
    normal, variance = patch_features._normalised(patch_features._random_patches(images, 3, 20_000, rng))
    np.testing.assert_allclose(normal.mean(axis=1), 0, atol=1e-5)
    dictionary = patch_features.learn(images, recipe, np.random.default_rng(0))
    products = normal[variance > 1 / 255**2] @ dictionary.matrix.T - dictionary.offset
    np.testing.assert_allclose(products.mean(axis=0), 0, atol=0.05)
    assert ((products.var(axis=0) > 0.1) & (products.var(axis=0) < 1.2)).all()  # 1, less what is added to eigenvalues


def test_spherical_k_means_finds_directions_up_to_sign():
    rng = np.random.default_rng(0)
    axes = np.eye(4, dtype=np.float32)
    points = axes[rng.integers(4, size=2000)] * rng.choice([-3, 3], 2000)[:, None]
    points = (points + 0.1 * rng.standard_normal((2000, 4))).astype(np.float32)
    centres = patch_features.spherical_k_means(points, 8, 20, rng)
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1, atol=1e-5)
    assert (np.abs(centres).max(axis=0) > 0.99).all()


def test_features_are_scaled_by_their_source_and_kept(tmp_path, monkeypatch):
    recipe = Recipe(maps=4, patches=2000, rounds=2)
    train, test = patch_features.features("digits", seed=1, recipe=recipe, cache_dir=tmp_path)
    assert train.shape[1] == 16
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(train.std(axis=0), 1, atol=1e-3)
    assert np.abs(test.mean(axis=0)).max() < 0.5
    monkeypatch.setattr(patch_features, "learn", None)  # the second time nothing is computed
    again = patch_features.features("digits", seed=1, recipe=recipe, cache_dir=tmp_path)
    np.testing.assert_array_equal(again[0], train)
    with pytest.raises(TypeError):
        patch_features.features("digits", seed=2, recipe=recipe, cache_dir=tmp_path)


def test_synthetic_dictionary_sees_no_image(tmp_path, monkeypatch):
    recipe = Recipe(maps=4, patches=2000, rounds=2)
    options = {"recipe": recipe, "dictionary": "synthetic"}
    train, _ = patch_features.features("digits", cache_dir=tmp_path / "a", **options)
    load = patch_features.data.load

    def other(name):
        loaded = load(name)
        changed = loaded.x_train.copy()
        changed[1:] = 1 - changed[1:]
        return type(loaded)(**{**vars(loaded), "x_train": changed})

    monkeypatch.setattr(patch_features.data, "load", other)
    changed, _ = patch_features.features("digits", cache_dir=tmp_path / "b", **options)
    np.testing.assert_array_equal(changed[0], train[0])  # the first record's features, with all others changed
    assert np.abs(changed[1:] - train[1:]).max() > 0.1


def test_components_are_projections_in_order_of_variance(tmp_path):
    recipe = Recipe(maps=8, patches=2000, rounds=2)
    train, test = patch_features.components("digits", 5, recipe=recipe, cache_dir=tmp_path)
    full, _ = patch_features.features("digits", recipe=recipe, cache_dir=tmp_path)
    assert train.shape == (len(full), 5)
    assert test.shape[1] == 5
    spread = train.var(axis=0)
    assert spread[0] == pytest.approx(1, abs=1e-3)
    assert (np.diff(spread) < 0).all()
    np.testing.assert_allclose(train.T @ train / len(train), np.diag(spread), atol=1e-3)
    singular = np.linalg.svd(full, compute_uv=False)[:5]
    np.testing.assert_allclose(spread / spread[0], (singular / singular[0]) ** 2, rtol=1e-3)


def test_same_seed_same_bytes():
    images = pictures()
    one, other, third = (patch_features.learn(images, SMALL, np.random.default_rng(s)).matrix for s in (0, 0, 1))
    np.testing.assert_array_equal(one, other)
    assert np.abs(one - third).max() > 0.1
    assert pictures(seed=5).tobytes() == pictures(seed=5).tobytes()
    assert pictures().min() >= 0
    assert pictures().max() <= 1


def test_what_is_not_allowed(tmp_path):
    with pytest.raises(ParameterError, match="maps"):
        Recipe(maps=3)
    with pytest.raises(ParameterError, match="dictionary = 'test'"):
        patch_features.features("digits", dictionary="test", cache_dir=tmp_path)
    with pytest.raises(ParameterError, match="any contrast"):
        patch_features.learn(np.zeros((4, 1, 8, 8), np.float32), SMALL, np.random.default_rng(0))


def test_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    recipe = Recipe(maps=4, patches=2000, rounds=2)
    train, _ = patch_features.features("digits", recipe=recipe, cache_dir=blocked)
    assert np.isfinite(train).all()


def test_dictionary_of_one_known_filter():
    """A filter that is one pixel less the mean of its patch, on an image with one bright pixel."""
    matrix = np.zeros((1, 9), np.float32)
    matrix[0, 4] = 1
    image = np.zeros((1, 1, 7, 7), np.float32)
    image[0, 0, 1, 1] = 1
    found = patch_features.extract(image, Dictionary(matrix, np.zeros(1, np.float32), 3), Recipe(2, 3, threshold=0.0))
    patch = np.eye(9)[4]
    expected = (1 - 1 / 9) / np.sqrt(patch.var() + 10 / 255**2)
    assert found[0, 0] == pytest.approx(expected, rel=1e-5)  # top left, positive part
    assert found[0, 2] == 0  # top right
