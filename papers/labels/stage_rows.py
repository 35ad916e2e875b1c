"""From runs of training in stages to the values of chapters 9 and 9b: Table 4, gains, leads, and the exact losses."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from torch import nn

from book.evidence import claims
from book.evidence.runs import Result
from dplib import exact_loss, privacy, randomised_response, stages, stats
from dplib.checks import ParameterError
from dplib.data import registry
from dplib.models import Concat
from dplib.stats import Measured
from papers.common.diverged import accuracies

if TYPE_CHECKING:
    from papers.common.network_runs import Outcome

Cells = Mapping[tuple[float, Any], Sequence[Result]]  # (epsilon, stages or control) to results by seed
EPSILONS = (1, 2, 3, 4)
TITLES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
ENUMERATED = {  # which labels each stage asks
    "one_stage": [[0, 1, 2, 3]],
    "two_stages": [[0, 1], [2, 3]],
    "three_stages": [[0, 1], [2], [3]],
    "a_label_asked_twice": [[0, 1], [1, 2, 3]],
}


def table_row(cells: Cells, kind: Any) -> dict[str, Measured]:
    """Accuracies of one method over its budgets, under the names of the ledger's columns: eps1, ..., eps_inf."""
    budgets = sorted(e for e, kind_of in cells if kind_of == kind)
    return {_column(e): stats.mean_interval(accuracies(cells[e, kind])) for e in budgets}


def _column(epsilon: float) -> str:
    return "eps_inf" if math.isinf(epsilon) else f"eps{epsilon:g}"


def gains(cells: Cells, arm: Any, other: Any) -> dict[float, Measured]:
    """{epsilon: accuracy of one method less that of the other, in points, paired by seed}, where both were run."""
    both = sorted(e for e, kind in cells if kind == arm and (e, other) in cells)
    return {e: stats.paired(accuracies(cells[e, arm]), accuracies(cells[e, other])).difference for e in both}


def by_larger(cells: Cells, larger: Cells, kind: Any) -> dict[str, Measured]:
    """What a larger network reaches by one method, and its lead in points, paired by seed, under names by budget."""
    sizes = {"larger": larger, "smaller": cells}
    lead = gains({(e, size): cell[e, kind] for size, cell in sizes.items() for e, arm in larger if arm == kind}, *sizes)
    levels = {f"larger_network_{name}": level for name, level in table_row(larger, kind).items()}
    return levels | {f"larger_less_smaller_{_column(e)}": difference for e, difference in lead.items()}


def named(name: str, by_budget: Mapping[float, Measured], end: str = "") -> dict[str, Measured]:
    """Values by budget under the ledger's names, such as fashion_mnist_eps1."""
    return {f"{name.replace('-', '_')}_eps{e:g}{end}": value for e, value in by_budget.items()}


def two_stages(cells: Mapping[str, Cells], mnist: Mapping[str, Any], larger: Cells) -> dict[str, Measured | float]:
    """Values of "C.s-2st-consistently-better": gains over one stage and over two controls, and what tuning decides.

    Args:
        mnist: of :func:`papers.labels.stage_runs.tuned`, with the settings that were tried.
        larger: cells of the larger network on Fashion-MNIST.
    """
    values: dict[str, Measured | float] = {}
    for name, cells_ in cells.items():
        values |= named(name, gains(cells_, 2, 1))
    for kind, end in (("no prior", "_less_no_prior"), ("pseudo-labels", "_less_pseudo_labels")):
        for name, cells_ in cells.items():
            values |= named(name, gains(cells_, 2, kind), end)
    tried = mnist["choices"][1.0]["tried"]
    one_stage = tried["mixup"][0.0]["accuracy"]
    best = {
        mixup: max(means["accuracy"] for (m, _), means in tried["two stages"].items() if m == mixup)
        for mixup in (0.0, 1.0)
    }
    untempered = max(means["accuracy"] for (_, t), means in tried["two stages"].items() if t == 1.0)
    return {
        **values,
        "validation_lead_at_the_mixup_of_one_stage": best[0.0] - one_stage,
        "validation_lead_at_its_own_mixup": best[1.0] - one_stage,
        "validation_lead_without_tempering": untempered - one_stage,
        **named("larger_network", gains(larger, 2, 1)),
    }


def gaps(cells: Cells) -> dict[float, Measured]:
    """{epsilon: accuracy of one stage on true labels less that of LP-2ST, in points, paired by seed}."""
    best = accuracies(cells[math.inf, 1])
    return {
        e: stats.paired(best, accuracies(cells[e, 2])).difference for e, kind in sorted(cells, key=str) if kind == 2
    }


def more_stages(cells: Cells) -> dict[str, Any]:
    """Figure 1(a): "means" by number of stages, and the values of "C.s-beyond-4-stages", paired, in points."""
    by = {count: accuracies(results) for (_, count), results in cells.items()}
    early, late = (by[4] - by[2]) / 2, (by[6] - by[4]) / 2
    return {
        "means": {count: stats.mean_interval(by[count]) for count in sorted(by)},
        "C.s-beyond-4-stages": {
            "4_minus_2_stages": stats.paired(by[4], by[2]).difference,
            "6_minus_4_stages": stats.paired(by[6], by[4]).difference,
            "a_stage_beyond_4_less_one_before": stats.paired(late, early).difference,
        },
    }


def image_counts() -> dict[str, int]:
    """Numbers of images of the sets, from the lengths of their published files."""
    files = {"train": "train-images-idx3-ubyte.gz", "test": "t10k-images-idx3-ubyte.gz"}
    return {
        f"{name.replace('-', '_')}_{part}": (registry.entry(name).file(file).content_bytes - 16) // 28**2  # 16: header
        for name in TITLES
        for part, file in files.items()
    }


def less_records(cells: Cells, dp_sgd: Mapping[float, "Outcome"], share: float = 1.0) -> dict[float, Measured]:
    """{epsilon: LP-2ST less DP-SGD at ``share`` of it, in points, not paired}, where both were run."""
    both = sorted(e for e, kind in cells if kind == 2 and e * share in dp_sgd)
    return {e: stats.independent(accuracies(cells[e, 2]), dp_sgd[e * share].values()) for e in both}


def printed_less_records(name: str, dp_sgd: Mapping[float, "Outcome"]) -> dict[float, Measured]:
    """{epsilon: accuracy printed in Table 4 for LP-2ST less that of our DP-SGD, in points}, where there are both."""
    printed = claims.get(f"C.table4.{name}-lp-2st").published
    both = {e: cell for e, cell in dp_sgd.items() if _column(e) in printed}
    return {e: stats.mean_interval(printed[_column(e)] - cell.values()) for e, cell in both.items()}


def tuning_losses(choices: Sequence[Mapping[float, Mapping[str, Any]]]) -> dict[str, float]:
    """Points of true validation accuracy that choices by randomised labels lost beside the best candidate.

    choices: of :func:`papers.labels.stage_runs.tuned`, one for each data set.
    """
    losses = [
        max(means["accuracy"] for means in tried.values()) - tried[of_budget[name]]["accuracy"]
        for by_budget in choices
        for of_budget in by_budget.values()
        for name, tried in of_budget["tried"].items()
    ]
    return {
        "choices": len(losses), "mean_loss_by_randomised_labels": float(np.mean(losses)), "largest_loss": max(losses)
    }  # fmt: skip


def cited(stem: str) -> list[tuple[float, float]]:
    """A table's values from other papers that have a budget: (epsilon, accuracy in percent)."""
    rows = [row for id_, row in claims.load("C").items() if id_.startswith(stem) and row.sort == "cited"]
    cells = [point(column, value) for row in rows for column, value in row.published.items()]
    return [cell for cell in cells if cell]


def point(column: str, value: Any) -> tuple[float, float] | None:
    """A cited cell as (epsilon, accuracy): its own budget, or that of its column; None where neither is known."""
    parts = re.fullmatch(r"([\d.]+) \(ε = ([\d.]+)\)", str(value))
    if parts:
        return float(parts[2]), float(parts[1])
    at = re.fullmatch(r"eps(\d+)", column)
    return (float(at[1]), float(value)) if at and not isinstance(value, str) else None


def printed_leads(stem: str, count: int) -> dict[float, float]:
    """{epsilon: printed accuracy of LP-MST less the best cited one of no larger epsilon, in points}, if any."""
    others = cited(stem)
    printed = claims.get(f"{stem}lp-{count}st").published.items()
    ours = [cell for column, value in printed if (cell := point(column, value))]
    best = {e: max((accuracy for budget, accuracy in others if budget <= e), default=None) for e, _ in ours}
    return {e: round(accuracy - best[e], 2) for e, accuracy in ours if best[e] is not None}


def leads() -> dict[str, float]:
    """What Table 4 says of leads over earlier methods, in points."""
    least = {
        (name, count): min(printed_leads(f"C.table4.{name}-", count).values()) for name in TITLES for count in (1, 2)
    }
    return {
        "lp1st_least_lead": min(least[name, 1] for name in TITLES),
        "lp2st_least_lead": min(least[name, 2] for name in TITLES),
        "fashion_lead_less_mnist_lead": round(least["fashion-mnist", 2] - least["mnist", 2], 2),
    }


def exact_losses(epsilon: float) -> dict[str, float]:
    """Exact loss of each protocol on all data sets of four labels of three classes, one label exchanged: the larger one
    of a prior that drops no label and of one that one answer makes drop some.
    """

    def loss(parts: list[list[int]], weight: float) -> float:
        prior = privacy.counting_prior([0, 1, 0, 1], parts, 3, weight)
        return privacy.loss(privacy.joint(4, 3, parts, prior, epsilon), 4, 3)

    return {name: max(loss(parts, weight) for weight in (3.0, 0.05)) for name, parts in ENUMERATED.items()}


def split_losses(epsilon: float) -> dict[str, float]:
    """Two stages on all data sets of four labels of three classes: the largest exact loss beyond ε over all ordered
    splits, and δ at ε of a split which asks the records of the first class first. One answer is enough to drop labels.
    """
    sets, apart = privacy.data_sets(4, 3)
    tables = {}
    for asked in itertools.product([0, 1], repeat=4):
        parts = [[i for i in range(4) if asked[i] == stage] for stage in (0, 1)]
        if all(parts):
            prior = privacy.counting_prior([0, 1, 0, 1], parts, 3, weight=0.05)
            table = privacy.joint(4, 3, parts, prior, epsilon)
            order = np.argsort(parts[0] + parts[1])  # answers in the order of the records
            tables[asked] = table.reshape(-1, 3, 3, 3, 3).transpose(0, *(order + 1)).reshape(table.shape)
    by_label = [tables.get(tuple((labels != 0).astype(int)), tables[0, 0, 1, 1])[i] for i, labels in enumerate(sets)]
    return {
        "largest_over_all_splits_above_epsilon": max(privacy.loss(t, 4, 3) for t in tables.values()) - epsilon,
        "delta_of_a_split_by_label": exact_loss.discrete_delta(
            np.exp(by_label), epsilon, np.argwhere(apart == 1).tolist()
        ),
        "splits": len(tables),
        "splits_in_which_labels_are_dropped": sum(bool(np.isneginf(table).any()) for table in tables.values()),
    }


class Listener:
    """A learner that learns nothing and remembers what it was given."""

    def train(self, rows, labels, stage, start):
        self.labels = labels[np.argsort(rows)]
        return stage

    def logits(self, model, rows):
        return np.zeros((len(rows), 10))

    def evaluate(self, model):
        return {}


def one_stage_is_rr(epsilon: float) -> int:
    """How many of 5,000 answers of LP-1ST equal those of plain RR for the same random words."""
    labels, listener = np.random.default_rng(0).integers(0, 10, 5000), Listener()
    given = {"classes": 10, "rng": np.random.default_rng(1)}
    released = stages.run(labels, [np.arange(5000)], listener, epsilon, **given).released
    plain = randomised_response.rr(labels, 10, epsilon, np.random.default_rng(1)).labels
    return int(((released == plain) & (listener.labels == plain)).sum())


def refuses_a_second_question() -> str:
    """Whether parts that overlap are refused: "yes" or "no"."""
    labels, parts = np.zeros(50, dtype=int), [np.arange(30), np.arange(29, 50)]
    try:
        stages.run(labels, parts, Listener(), 1.0, classes=10, rng=np.random.default_rng(1))
    except ParameterError:
        return "yes"
    return "no"


def yours(by_arm: Mapping[Any, Sequence[Result]]) -> tuple[dict[str, Any], pd.DataFrame]:
    """A reader's own runs (:func:`papers.labels.stage_runs.yours`): the answer, and the accuracies as a table."""
    shown = {1: "LP-1ST", 2: "LP-2ST", "half": "LP-2ST at ε/2"}
    by_arm_accuracies = {arm: accuracies(results) for arm, results in by_arm.items()}
    table = pd.DataFrame(
        [
            [shown.get(arm, f"two stages, {arm}"), f"{stats.mean_interval(values):.1f}"]
            for arm, values in by_arm_accuracies.items()
        ],
        columns=["method", "test accuracy, %"],
    )
    last = [result["stages"][-1] for result in by_arm[2]]

    def less(arm: Any) -> Measured:
        return stats.paired(by_arm_accuracies[2], by_arm_accuracies[arm]).difference.within(-100, 100)

    answer = {
        "accuracy_of_one_stage": stats.mean_interval(by_arm_accuracies[1]).within(0, 100),
        "two_stages_less_one": less(1),
        "two_stages_less_no_prior": less("no prior"),
        "labels_kept_on_average_in_stage_2": stats.mean_interval(np.array([stage["mean_k"] for stage in last])),
        "percent_of_stage_2_answered_by_a_constant": stats.mean_interval(
            100 * np.array([stage["constant"] for stage in last])
        ).within(0, 100),
    }
    return answer, table


def inception_definition(net: nn.Sequential) -> dict[str, str]:
    """The rows of the unnumbered table of Appendix B, read off the modules of a network."""
    parts = list(net)
    strided = [
        i for i, part in enumerate(parts) if not isinstance(part, Concat) and _conv(part) and _conv(part).stride[0] > 1
    ]
    s1, s2 = parts[1 : strided[0] + 1], parts[strided[0] + 1 : strided[1] + 1]
    end = next(i for i, part in enumerate(parts) if isinstance(part, nn.AdaptiveMaxPool2d))
    s3 = parts[strided[1] + 1 : end]
    tail = "GlobalMaxPool, Linear" if parts[end].output_size == 1 and isinstance(parts[-1], nn.Linear) else "?"
    first = [_conv(branch) for branch in s1[0].branches]
    kernels = ", ".join(f"Conv({c.kernel_size[0]}×{c.kernel_size[1]}, C{i})" for i, c in enumerate(first, 1))
    words = {"Conv2d": "Convolution", "BatchNorm2d": "BatchNormalization", "ReLU": "ReLU"}
    return {
        "inception": f"{_words(parts[:1])}, S1, S2, S3, {tail}",
        "s1": _words(s1),
        "s2": _words(s2),
        "s3": _words(s3),
        "block": f"Concat({kernels})",
        "conv": ", ".join(words.get(type(m).__name__, type(m).__name__) for m in parts[0]),
    }


def _conv(part: nn.Module) -> nn.Conv2d | None:
    return next((m for m in part.modules() if isinstance(m, nn.Conv2d)), None)


def _words(parts: Sequence[nn.Module]) -> str:
    words = []
    for part in parts:
        if isinstance(part, Concat):
            words.append(f"Block({', '.join(str(_conv(branch).out_channels) for branch in part.branches)})")
        else:
            conv = _conv(part)
            stride = f", stride {conv.stride[0]}" if conv.stride[0] > 1 else ""
            words.append(f"Conv({conv.kernel_size[0]}×{conv.kernel_size[1]}, {conv.out_channels}{stride})")
    return ", ".join(words)
