"""From kept runs of the chapter on what drives the cost to the values of its rows, and its tables."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from typing_extensions import TypedDict

from book.evidence import claims
from book.evidence.runs import Result
from dplib import files, stats
from dplib.stats import Measured
from papers.architecture import crossover, feature_data, printed_layers
from papers.common import printed

COLUMNS = {"without": "acc_without", "one-hot": "acc_with"}  # of Table XVI
Encoded = Mapping[tuple[str, float | None], Sequence[Result]]


def by_split(encoded: Encoded) -> dict[tuple[str, float | None], np.ndarray]:
    """Mean accuracy in percent over the releases on each split, (splits,): draws on one split share it."""
    return {key: 100 * np.array([np.mean(run["accuracies"]) for run in results]) for key, results in encoded.items()}


def constant(encoded: Encoded) -> Measured:
    """What calling every income low would have, in percent, over the splits."""
    return stats.mean_interval(_constants(encoded))


def table_16(encoded: Encoded) -> dict[str, dict[str, Any]]:
    """Row to its accuracies in percent, and the spread over single releases, for every ε that is printed."""
    means, rows = by_split(encoded), {}
    for claim_id in claims.printed_rows("B.table16"):
        epsilon, row = float(claim_id.partition(".eps")[2]), {}
        for encoding, column in COLUMNS.items():
            if (encoding, epsilon) in encoded:
                row[column] = stats.mean_interval(means[encoding, epsilon])
                every = np.concatenate([run["accuracies"] for run in encoded[encoding, epsilon]])
                row[f"{column}_sd"] = float(100 * every.std(ddof=1))
        if row:
            rows[claim_id] = row
    return rows


def one_hot(encoded: Encoded) -> dict[str, Any]:
    """Who is ahead at which ε, where the two encodings cross, and what a constant prediction has."""
    means = by_split(encoded)
    epsilons = sorted({e for _, e in encoded if e is not None})
    lead = {e: stats.paired(a, b).difference for e, a, b in leads(encoded)}
    columns = [np.stack([means[encoding, e] for e in epsilons], axis=1) for encoding in feature_data.ENCODINGS]
    cross = crossover.estimate(epsilons, *columns, rng=np.random.default_rng(5), resamples=500)
    frequent = constant(encoded)
    above = [e for e in epsilons if stats.paired(means["without", e], _constants(encoded)).difference.low > 0]
    return {
        "crossover": Measured(cross.value, cross.low, cross.high, len(columns[0])),
        "features_one_hot": encoded["one-hot", epsilons[0]][0]["features"],
        "features_without": encoded["without", epsilons[0]][0]["features"],
        "constant_prediction": frequent,
        "smallest_epsilon_without_codes_above_constant": min(above, default=None),
        **{f"without_minus_one_hot_at_{e:g}": difference for e, difference in lead.items()},
    }


def leads(encoded: Encoded) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """Each ε with the accuracies without and with codes, in percent, (splits,) each."""
    means = by_split(encoded)
    for epsilon in sorted({e for _, e in encoded if e is not None}):
        yield epsilon, means["without", epsilon], means["one-hot", epsilon]


def _constants(encoded: Encoded) -> np.ndarray:
    return 100 * np.array([run["constant"] for run in next(iter(encoded.values()))])


def without_noise(encoded: Encoded) -> dict[str, Measured]:
    """Accuracies of both encodings without noise, in percent, and what the codes add."""
    means = by_split(encoded)
    plain = {column: stats.mean_interval(means[encoding, None]) for encoding, column in COLUMNS.items()}
    return plain | {"with_minus_without": stats.paired(means["one-hot", None], means["without", None]).difference}


class _Slowdown(TypedDict):
    ratios: dict[str, dict[str, float]]


def slowdown(path: Path = claims.RESULTS / "bench_slowdown.json") -> dict[str, dict[str, Any]]:
    """The rows of Table XVII, and of what is said of it, from the benchmark: ratios of a step's time to SGD's."""
    measured = files.checked(path, _Slowdown)["ratios"]
    rows = {}
    for name, ratio in measured.items():
        seconds = claims.get(row := f"B.table17.{name}").published
        ours = {f"ratio_{side}": interval for side, interval in ratio.items()}
        rows[row] = {"printed_ratio": seconds["seconds_dpsgd"] / seconds["seconds_sgd"], **ours}
    of = {side: [seconds[side] for seconds in measured.values()] for side in ("opacus", "dplib")}
    rows["B.slowdown"] = {
        "dplib_most": max(of["dplib"]),
        "opacus_least": min(of["opacus"]),
        "opacus_most": max(of["opacus"]),
    }
    return rows


def layers() -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of Tables XXVII to XXXI, counted in the built networks, and what random-weights training trains of them."""
    for number in range(27, 32):
        yield from printed_layers.rows(f"B.table{number}").items()
    names = ("rwt-fcn-mnist", "rwt-cnn-mnist", "rwt-rnn-sms")
    nets = {name: printed.ARCHITECTURES[name].make() for name in names}
    yield "B.rwt", {name: printed.trained_count(net, printed.last_layers(net)) for name, net in nets.items()}
    yield "B.depth-example", printed_layers.depths()


NETWORKS = {
    "FCN": "perceptron", "RNN": "LSTM", "complex": "perceptron, ε = 0.34", "simple": "small perceptron, ε = 0.34"
}  # fmt: skip
TRAINED = {"normal": "all layers", "RWT": "two layers"}


def frozen_table(rows: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Tables VI and VII, whose accuracies are all under DP-SGD, in this chapter's words."""
    lines = []
    for claim_id, ours in rows.items():
        row, name = claims.get(claim_id), "acc" if "acc" in ours else "acc_dpsgd"
        network, *budget, trained = row.where.partition(": ")[2].split(", ")
        lines.append(
            {
                "network": ", ".join([NETWORKS.get(network, network), *budget]),
                "trained": TRAINED[trained],
                "printed": f"{row.published[name]:g}",
                "measured": f"{ours[name]:.1f}",
            }
        )
    return pd.DataFrame(lines)


def table(rows: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """A table for a page: each value with an interval beside the printed one, of rows of the ledger."""
    lines = []
    for claim_id, ours in rows.items():
        row = claims.get(claim_id)
        line: dict[str, Any] = {"": row.where.partition(": ")[2]}
        for name in (n for n in row.published if isinstance(ours.get(n), Measured)):
            label = re.sub(r"test accuracy", "accuracy", row.labels.get(name, name))
            line |= {f"{label}, printed": f"{row.published[name]:g}", f"{label}, measured": f"{ours[name]:.1f}"}
        lines.append(line)
    return pd.DataFrame(lines).fillna("")
