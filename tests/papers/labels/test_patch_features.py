import numpy as np
import pytest

from dplib.checks import ParameterError
from papers.labels import patch_features
from papers.labels.patch_features import Recipe

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
    features = patch_features.extract(images, dictionary, recipe)
    assert features.shape == (5, 64)
    assert features.dtype == np.float32
    for image, row in zip(images, features, strict=True):
        np.testing.assert_allclose(row, by_hand(image, dictionary, recipe), rtol=1e-3, atol=2e-3)


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


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DPLIB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_features_are_scaled_by_their_source_and_kept(cache, monkeypatch):
    train, test = patch_features.features("digits", 4, seed=1)
    assert train.shape[1] == 16
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(train.std(axis=0), 1, atol=1e-3)
    assert np.abs(test.mean(axis=0)).max() < 0.5
    monkeypatch.setattr(patch_features, "learn", None)  # the second time nothing is computed
    np.testing.assert_array_equal(patch_features.features("digits", 4, seed=1)[0], train)
    with pytest.raises(TypeError):
        patch_features.features("digits", 4, seed=2)


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(cache):
    cache.write_text("")
    assert np.isfinite(patch_features.features("digits", 2)[0]).all()


def test_a_synthetic_dictionary_sees_no_image():
    images = pictures(60)
    changed = images.copy()
    changed[1:] = 1 - changed[1:]
    one, other = (patch_features.of_images(x, x, SMALL)[0] for x in (images, changed))
    np.testing.assert_array_equal(one[0], other[0])  # the first record's features, with all others changed
    assert np.abs(one[1:] - other[1:]).max() > 0.1


def test_components_are_projections_in_order_of_variance(cache):
    train, test = patch_features.components("digits", 5, 8)
    full, _ = patch_features.features("digits", 8)
    assert (train.shape, test.shape[1]) == ((len(full), 5), 5)
    spread = train.var(axis=0)
    assert spread[0] == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(train.T @ train / len(train), np.diag(spread), atol=1e-3)
    singular = np.linalg.svd(full, compute_uv=False)[:5]
    np.testing.assert_allclose(spread / spread[0], (singular / singular[0]) ** 2, rtol=1e-3)


def test_what_is_not_allowed():
    with pytest.raises(ParameterError, match="maps"):
        Recipe(maps=3)
    with pytest.raises(ParameterError, match="dictionary = 'test'"):
        patch_features.features("digits", dictionary="test")
    with pytest.raises(ParameterError, match="any contrast"):
        patch_features.learn(np.zeros((4, 1, 8, 8), np.float32), SMALL, np.random.default_rng(0))
