"""Steps of DP-SGD in JAX, for :mod:`tests.benchmarks.bench_peers`, in an environment of their own.

    python -m tests.benchmarks.jax_steps

First its versions go out. Then a line of JSON comes in for each block, ``{"network", "batch", "side", "steps"}``, and
the seconds of a step go out. A side is jax-privacy with so many records at a time, "all" as in its documentation, or
"by hand": a step for dense networks, which takes norms from what flows into a layer and back out of it, as ours does.

Here JAX has what it likes best: one compiled function a step, and batches of one size.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import jax_privacy
import numpy as np
from jax import lax

N, RATE = 60_000, 0.1
Weights = list[tuple[jax.Array, jax.Array]]  # of each layer, and its biases


def drawn(key: jax.Array, shapes: Sequence[tuple[int, ...]]) -> Weights:
    """Random layers; of a shape the last number is that of outputs."""
    keys = jax.random.split(key, len(shapes))
    pairs = zip(keys, shapes, strict=True)
    return [(jax.random.normal(k, s) / np.sqrt(np.prod(s[:-1])), jnp.zeros(s[-1])) for k, s in pairs]


def dense(weights: Weights, x: jax.Array) -> jax.Array:
    """Scores of a perceptron with ReLU."""
    for w, b in weights[:-1]:
        x = jax.nn.relu(x @ w + b)
    return x @ weights[-1][0] + weights[-1][1]


def cnn(weights: Weights, x: jax.Array) -> jax.Array:
    """Scores of the four layers of ``dplib.models.cnn4``; images (b, 28, 28, 1)."""
    for (w, b), stride, pad in zip(weights[:2], (2, 2), (3, 0), strict=True):
        x = lax.conv_general_dilated(
            x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = lax.reduce_window(jnp.tanh(x + b), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "VALID")
    (w, b), last = weights[2:]
    return jnp.tanh(x.reshape(len(x), -1) @ w + b) @ last[0] + last[1]


def network(name: str) -> tuple[Callable[[Weights, jax.Array], jax.Array], Weights, tuple[int, ...]]:
    """Scores, random weights, and the shape of an example, of "784-128-10" and the like, or "cnn4"."""
    key = jax.random.key(0)
    if name == "cnn4":
        return cnn, drawn(key, [(8, 8, 1, 16), (4, 4, 16, 32), (512, 32), (32, 10)]), (28, 28, 1)
    sizes = [int(size) for size in name.split("-")]
    return dense, drawn(key, list(pairwise(sizes))), (sizes[0],)


def loss(scores: Callable[..., jax.Array], weights: Weights, x: jax.Array, y: jax.Array) -> jax.Array:
    """Cross-entropy, added up."""
    logits = scores(weights, x)
    return jnp.sum(jax.nn.logsumexp(logits, axis=1) - jnp.take_along_axis(logits, y[:, None], axis=1)[:, 0])


def by_library(scores: Callable[..., jax.Array], piece: int | None) -> Callable[..., Weights]:
    """The sum of clipped gradients by jax-privacy; ``piece``: records at a time."""
    return jax_privacy.clipped_grad(
        lambda weights, x, y: loss(scores, weights, x, y), l2_clip_norm=1.0, batch_argnums=(1, 2), microbatch_size=piece
    )


def by_hand(weights: Weights, x: jax.Array, y: jax.Array) -> Weights:
    """The same for a perceptron, without the gradient of a record."""
    flows = [x]
    for w, b in weights[:-1]:
        flows.append(jax.nn.relu(flows[-1] @ w + b))
    logits = flows[-1] @ weights[-1][0] + weights[-1][1]
    back = [jax.nn.softmax(logits) - jax.nn.one_hot(y, logits.shape[1])]
    for (w, _), flow in zip(weights[:0:-1], flows[:0:-1], strict=True):
        back.append((back[-1] @ w.T) * (flow > 0))
    layers = list(zip(flows, back[::-1], strict=True))
    squares = sum((jnp.sum(a * a, axis=1) + 1) * jnp.sum(d * d, axis=1) for a, d in layers)
    share = jnp.minimum(1, 1 / jnp.sqrt(squares))[:, None]
    return [(a.T @ (d * share), jnp.sum(d * share, axis=0)) for a, d in layers]


def prepared(name: str, batch: int, side: str) -> Callable[[np.ndarray], Any]:
    """A step on rows (batch,)."""
    scores, weights, shape = network(name)
    rng = np.random.default_rng(0)
    data = jnp.asarray(rng.random((N, *shape), np.float32)), jnp.asarray(rng.integers(10, size=N))
    clipped = by_hand if side == "by hand" else by_library(scores, None if side == "all" else int(side))
    if side == "by hand":
        few = weights, data[0][:64], data[1][:64]
        due = by_library(scores, None)(*few)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), by_hand(*few), due)
    privatizer = jax_privacy.noise_addition.gaussian_privatizer(stddev=1.0, prng_key=jax.random.key(1))

    def step(weights: Weights, noise: Any, x: jax.Array, y: jax.Array, rows: jax.Array) -> tuple[Weights, Any]:
        sums, noise = privatizer.update(clipped(weights, x[rows], y[rows]), noise)
        return jax.tree.map(lambda w, g: w - RATE / batch * g, weights, sums), noise

    compiled = jax.jit(step, donate_argnums=(0, 1))
    state = weights, privatizer.init(weights)

    def advance(rows: np.ndarray) -> Any:
        nonlocal state
        state = compiled(*state, *data, rows)
        return state

    return advance


def main() -> None:
    """Answer until the lines end."""
    steps: dict[tuple, Callable[[np.ndarray], Any]] = {}
    rng = np.random.default_rng(1)
    print(json.dumps({name: version(name) for name in ("jax", "jax-privacy")}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        key = asked["network"], asked["batch"], asked["side"]
        if key not in steps:
            steps = {other: step for other, step in steps.items() if other[:2] == key[:2]}  # data are large
            steps[key] = prepared(*key)
        block = [rng.integers(N, size=asked["batch"], dtype=np.int32) for _ in range(asked["steps"])]
        start = time.perf_counter()
        for rows in block:
            made = steps[key](rows)
        jax.block_until_ready(made)
        print((time.perf_counter() - start) / len(block), flush=True)


if __name__ == "__main__":
    main()
