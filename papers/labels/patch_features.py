"""Features of images learned without labels and without any download: a dictionary of small patches.

After Coates, Lee and Ng (2011) and Coates and Ng (2012), in their order of steps: 1. cut patches from images, subtract
from each its mean and divide by its contrast; 2. whiten them (ZCA); 3. cluster them by spherical k-means: the centres,
unit vectors, are the filters; 4. a filter gives two maps: how far its product with each patch of an image exceeds a
threshold, and how far the negative of that product does; 5. sum each map over the four quarters of the image.

What is private in this? Under label differential privacy inputs are public, and features of inputs cost nothing. Where
records are protected, a dictionary, a whitening or a scale that was computed from the training images without noise is
NOT covered by any epsilon. For that case there is ``dictionary="synthetic"``: every number of it comes from random
pictures of overlapping shapes ("dead leaves"), whose patches have edges as photographs do, and from no record.

One core needs about a minute for 400 maps of 60,000 colour images of 32 by 32; the results are kept on disk.
"""

import contextlib
import hashlib
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from dplib import cache, checks, data

_CONTRAST = (10 / 255**2, 0.1)  # added to a patch's variance, and to the eigenvalues before whitening
_BATCH = 8  # images at a time: the maps of a batch fit into the cache of a core


@dataclass(frozen=True)
class Recipe:
    """How features are made.

    Attributes:
        maps: feature maps, an even number: two of each filter. An image has ``4 * maps`` features.
        patch: side of a patch in pixels; 0: 6, or 3 for images below 16 pixels.
        stride: distance of neighbouring patches in pixels.
        threshold: what a product must exceed, in units of a whitened patch's product with a unit vector.
        patches: how many patches the dictionary is learned from. rounds: of k-means.
    """

    maps: int = 400
    patch: int = 0
    stride: int = 1
    threshold: float = 0.25
    patches: int = 100_000
    rounds: int = 10

    def __post_init__(self):
        checks.Rule("an even number of at least 2", lambda v: v >= 2 and v % 2 == 0).check("maps", self.maps)
        for name, least in (("patch", 0), ("stride", 1), ("patches", 100), ("rounds", 1)):
            checks.integer(least).check(name, getattr(self, name))
        checks.number(0).check("threshold", self.threshold)


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Filters: a contrast-normalised patch p (d,) has the responses ``matrix @ p - offset``.

    matrix: (filters, d), unit vectors times the whitening. offset: (filters,). patch: its side; d = channels * patch^2.
    """

    matrix: np.ndarray
    offset: np.ndarray
    patch: int


def features(
    dataset: str, maps: int = 400, seed: int = 0, *, dictionary: str = "train"
) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, 4 * maps) and (n', 4 * maps) of a data set's training and test images, centred and scaled, float32.

    Args:
        dataset: a name of ``data.names()`` whose examples are images. maps: an even number; four features each.
        seed: draws the patches, the first centres and the synthetic images.
        dictionary: "train": dictionary, means and scales come from the training images (not from the test images, and
            from no label). "synthetic": from random pictures; then each record's features depend on that record alone.

    Raises:
        ParameterError, DataError: for a set that cannot be had or has no images, or settings that are not allowed.
    """
    checks.one_of("train", "synthetic").check("dictionary", dictionary)
    checks.integer(0).check("seed", seed)
    loaded, recipe = data.load(dataset), Recipe(maps)
    if getattr(loaded.x_train, "ndim", 0) != 4:
        raise checks.ParameterError(f"dataset = {dataset} is not allowed: it must be a set of images.")

    def make():
        return of_images(loaded.x_train, loaded.x_test, recipe, seed, dictionary=dictionary)

    return _kept((loaded.checksum, dataset, asdict(recipe), seed, dictionary), make)


def components(dataset: str, dimensions: int, maps: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The projections (n, dimensions) and (n', dimensions) of :func:`features` on their leading principal components.

    The components are those of the training features (of up to 20,000 images, drawn by the seed), from the largest on,
    on one scale: the first has variance 1. Not for use where records are protected.
    """
    checks.integer(1, 4 * maps).check("dimensions", dimensions)
    about = data.load(dataset).checksum, dataset, asdict(Recipe(maps)), seed, dimensions
    return _kept(about, lambda: project(*features(dataset, maps, seed), dimensions, seed))


def of_images(
    train: np.ndarray, test: np.ndarray, recipe: Recipe, seed: int = 0, *, dictionary: str = "synthetic"
) -> tuple[np.ndarray, np.ndarray]:
    """What :func:`features` makes of a data set, of any images (n, channels, height, width) in [0, 1]."""
    source = train
    if dictionary == "synthetic":
        source = dead_leaves(2000, train.shape[1], train.shape[2], np.random.default_rng([seed, 1]))
    learned = learn(source, recipe, np.random.default_rng([seed, 0]))
    parts = [extract(x, learned, recipe) for x in (train, test)]
    reference = parts[0] if dictionary == "train" else extract(source, learned, recipe)
    mean, scale = reference.mean(axis=0, dtype=np.float64), reference.std(axis=0, dtype=np.float64)
    for part in parts:
        part -= mean.astype(np.float32)
        part /= np.where(scale > 0, scale, 1).astype(np.float32)
    return parts[0], parts[1]


def project(train: np.ndarray, test: np.ndarray, dimensions: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, d), (n', d) on their leading principal components: what :func:`components` has of a data set."""
    rng = np.random.default_rng([seed, 2])
    sample = train[np.sort(rng.permutation(len(train))[:20_000])]
    values, vectors = np.linalg.eigh((sample.T @ sample / len(sample)).astype(np.float64))
    basis = (vectors[:, ::-1][:, :dimensions] / np.sqrt(values[-1])).astype(np.float32)
    return train @ basis, test @ basis


def learn(images: np.ndarray, recipe: Recipe, rng: np.random.Generator) -> Dictionary:
    """Steps 1 to 3: a dictionary from images (n, channels, height, width) in [0, 1].

    Patches without any contrast (less than a grey level of 255) teach nothing and are left out.
    """
    side = _side(images, recipe)
    d = images.shape[1] * side**2
    normal, variance = _normalised(_random_patches(images, side, recipe.patches, rng))
    normal = normal[variance > 1 / 255**2]
    if len(normal) < recipe.maps:
        raise checks.ParameterError(
            f"maps = {recipe.maps} is not allowed: only {len(normal)} of {recipe.patches} patches have any contrast."
        )
    mean = normal.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(normal, rowvar=False).reshape(d, d).astype(np.float64))
    whitening = ((vectors / np.sqrt(values + _CONTRAST[1])) @ vectors.T).astype(np.float32)
    centres = spherical_k_means((normal - mean) @ whitening, recipe.maps // 2, recipe.rounds, rng)
    matrix = centres @ whitening
    return Dictionary(matrix, matrix @ mean, side)


def spherical_k_means(points: np.ndarray, k: int, rounds: int, rng: np.random.Generator) -> np.ndarray:
    """Unit vectors (k, d) that points (n, d) are close to in direction, up to sign (Coates and Ng 2012).

    In each round every point goes to the centre with the largest absolute product, and a centre becomes the sum of its
    points times their products, damped by its old value, and is scaled to length 1. An empty one keeps its place.
    """
    centres = rng.standard_normal((k, points.shape[1])).astype(np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    rows = np.arange(len(points))
    for _ in range(rounds):
        products = points @ centres.T
        nearest = np.abs(products).argmax(axis=1)
        weights = products[rows, nearest]
        order = np.argsort(nearest, kind="stable")
        starts = np.flatnonzero(np.diff(nearest[order], prepend=-1))
        centres[nearest[order][starts]] += np.add.reduceat((weights[:, None] * points)[order], starts)
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    return centres


def extract(images: np.ndarray, dictionary: Dictionary, recipe: Recipe) -> np.ndarray:
    """Steps 1, 4 and 5 for images (n, channels, height, width): raw features (n, 4 * maps), float32, at least 0.

    The features of an image depend on that image and the dictionary alone. Their order: quarters (top left, top right,
    bottom left, bottom right), in each all positive parts, then all negative ones.
    """
    matrix, offset = torch.from_numpy(dictionary.matrix), torch.from_numpy(dictionary.offset)
    out = np.empty((len(images), 8 * len(matrix)), np.float32)
    with torch.inference_mode():
        for start in range(0, len(images), _BATCH):
            batch = torch.from_numpy(np.ascontiguousarray(images[start : start + _BATCH], np.float32))
            out[start : start + _BATCH] = _maps(batch, matrix, offset, dictionary.patch, recipe).numpy()
    return out


def dead_leaves(n: int, channels: int, size: int, rng: np.random.Generator, shapes: int = 100) -> np.ndarray:
    """Random pictures (n, channels, size, size) in [0, 1]: discs and rectangles of random colour that hide each other.

    Radii are drawn from a density proportional to r^-3, between a pixel and the whole size, as in natural scenes, which
    look alike at all scales (Lee, Mumford and Huang 2001). Nothing of it depends on any data set.
    """
    y, x = np.mgrid[:size, :size].astype(np.float32)
    pictures = _colours(n, channels, rng)[:, :, None, None] * np.ones((size, size), np.float32)
    for shape in range(shapes):
        centre = rng.uniform(-0.2 * size, 1.2 * size, (n, 2, 1, 1)).astype(np.float32)
        radius = (1 / np.sqrt(rng.uniform(size**-2.0, 1, (n, 1, 1)))).astype(np.float32)
        across, down = x - centre[:, 0], y - centre[:, 1]
        if shape % 2:
            angle = rng.uniform(0, np.pi, (n, 1, 1)).astype(np.float32)
            turned = np.cos(angle) * across + np.sin(angle) * down, np.cos(angle) * down - np.sin(angle) * across
            inside = (np.abs(turned[0]) < radius) & (np.abs(turned[1]) < radius * rng.uniform(0.2, 1, (n, 1, 1)))
        else:
            inside = across**2 + down**2 < radius**2
        pictures = np.where(inside[:, None], _colours(n, channels, rng)[:, :, None, None], pictures)
    return pictures


def _colours(n: int, channels: int, rng: np.random.Generator) -> np.ndarray:
    """(n, channels): mostly grey, as the world is."""
    grey, tint = rng.uniform(0, 1, (n, 1)), rng.normal(0, 0.1, (n, channels)) * (channels > 1)
    return np.clip(grey + tint, 0, 1).astype(np.float32)


def _side(images: np.ndarray, recipe: Recipe) -> int:
    side = recipe.patch or (6 if min(images.shape[2:]) >= 16 else 3)
    checks.integer(1, min(images.shape[2:]) - 1).check("patch", side)
    return side


def _random_patches(images: np.ndarray, side: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, channels * side * side) float32, each from a random place of a random image."""
    n, _, height, width = images.shape
    windows = np.lib.stride_tricks.sliding_window_view(images, (side, side), axis=(2, 3))
    rows = rng.integers(n, size=count), rng.integers(height - side + 1, size=count)
    picked = windows[rows[0], :, rows[1], rng.integers(width - side + 1, size=count)]
    return picked.reshape(count, -1).astype(np.float32)


def _normalised(patches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Patches (n, d) less their means and over their contrasts, and their variances (n,)."""
    centred = patches - patches.mean(axis=1, keepdims=True)
    variance = np.square(centred).mean(axis=1)
    return centred / np.sqrt(variance + _CONTRAST[0])[:, None], variance


def _maps(batch: Tensor, matrix: Tensor, offset: Tensor, side: int, recipe: Recipe) -> Tensor:
    """Features (b, 8 * filters) of a batch of images."""
    patches = functional.unfold(batch, side, stride=recipe.stride).transpose(1, 2)  # (b, places, d)
    patches = patches - patches.mean(dim=2, keepdim=True)
    patches /= (patches.square().mean(dim=2, keepdim=True) + _CONTRAST[0]).sqrt_()
    height, width = ((size - side) // recipe.stride + 1 for size in batch.shape[2:])
    products = functional.linear(patches, matrix, -offset).view(len(batch), height, width, -1)
    middle, centre = (height + 1) // 2, (width + 1) // 2
    parts = []
    for rows in (slice(None, middle), slice(middle, None)):
        for columns in (slice(None, centre), slice(centre, None)):
            quarter = products[:, rows, columns].flatten(1, 2)
            for sign in (1, -1):
                parts.append((sign * quarter - recipe.threshold).clamp_(min=0).sum(dim=1))
    return torch.cat(parts, dim=1)


def _kept(about: tuple, make: Callable[[], tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """What ``make()`` returns, from a file named by all that decides it, this module's source and PyTorch included."""
    text = repr((about, torch.__version__)).encode() + Path(__file__).read_bytes()
    path = cache.cache_folder() / "patches" / f"{hashlib.sha256(text).hexdigest()[:24]}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as kept:
            return kept["train"], kept["test"]
    train, test = make()
    part = path.with_name(f".{uuid.uuid4().hex}.npz")  # it appears whole or not at all
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(part, train=train, test=test)
        part.replace(path)
    except OSError:  # no room, or no right to write: it costs time, nothing else
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return train, test
