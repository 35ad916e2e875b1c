"""From runs of paper C's stages on features of CIFAR-10 and on ratings to the values of chapter 9b.

Groups of settings were fixed before the runs and are compared within a seed; the only cell that is chosen by its
result, the worst one, pays for it.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from book.evidence.runs import Result
from dplib import models, stats
from dplib.stats import Measured
from papers.common.diverged import accuracies
from papers.labels.rating_runs import RatingLearner
from papers.labels.stage_rows import table_row

Cells = Mapping[Any, Sequence[Result]]
Rows = dict[str, dict[str, Any]]
USUAL = "as in the paper"
AT = 2.0  # epsilon of Figures 3 to 5


def values(
    with_heads: Mapping[str, Any], changed: Mapping[str, Any], rated: Mapping[str, Any], network: str | None = None
) -> Rows:
    """Values by claim, of the parts "heads", "recipes" and "ratings" of study 09b.

    network: that of "recipes". Only runs with the paper's own may decide what it says of it: the rows say so with
    "trained_the_papers_network", 1 or 0.
    """
    of_recipes = {
        **recipe(changed), **shares(changed), **mixups(changed), **robust(changed, with_heads["cells"][AT, 1])
    }  # fmt: skip
    for of_recipe in of_recipes.values():
        of_recipe["trained_the_papers_network"] = int(network == "resnet18")
    return {**heads(with_heads), **of_recipes, **ratings(rated)}


def grid(cells: Cells) -> pd.DataFrame:
    """Mean accuracies in percent, a row for each first and a column for each second of the two settings."""
    return pd.Series({at: accuracies(cell).mean() for at, cell in cells.items()}).unstack()


def heads(with_heads: Mapping[str, Any]) -> Rows:
    """Table 1 and Figure 3."""
    single, two = with_heads["cells"][AT, 1], with_heads["cells"][AT, 2]
    first = 100 * np.array([run["stages"][0]["top"] for run in two])
    mean_k = {"mean_k": stats.mean_interval(np.array([run["stages"][1]["mean_k"] for run in two]))}
    top = {"top2_accuracy": stats.mean_interval(first[:, 1])}
    others = {1: "one_stage", "no prior": "no_prior"}  # the second trains as long as two stages do
    gains = {f"less_{name}_eps{e:g}": gain(runs, with_heads["cells"][e, other])
             for other, name in others.items()
             for (e, kind), runs in with_heads["cells"].items()
             if kind == 2 and (e, other) in with_heads["cells"]}  # fmt: skip
    ends = {"stage_1_minus_LP-1ST": less(first[:, 0], accuracies(single)), "LP-2ST_minus_LP-1ST": gain(two, single)}
    return {
        "C.table1.lp-1st": table_row(with_heads["cells"], 1),
        "C.table1.lp-2st": table_row(with_heads["cells"], 2) | gains,
        "C.fig3": {**ends, **mean_k, **top},
        "C.s-mean-k": mean_k,
        "C.s-top2-accuracy": top,
    }


def curves(with_heads: Mapping[str, Any]) -> dict[str, list[float]]:
    """Figure 3: mean accuracies in percent after each epoch, {"stage 1, top_2": [...]}."""
    where = {"LP-1ST": (1, 0), "stage 1": (2, 0), "stage 2": (2, 1)}
    means = {
        name: 100 * np.mean([run["stages"][stage]["curve"] for run in with_heads["cells"][AT, count]], axis=0)
        for name, (count, stage) in where.items()
    }
    return {f"{name}, top_{k}": points[:, k - 1].tolist() for name, points in means.items() for k in (1, 2)}


def recipe(read: Mapping[str, Any]) -> Rows:
    """Appendix B: the paper's recipe less each change of it."""
    runs = read["recipes"]
    usual = [run["stages"][1] for run in runs[USUAL]]
    shares = {
        "wrong_before_filter_percent": [stage["wrong_before"] for stage in usual],
        "wrong_after_filter_percent": [stage["wrong_after"] for stage in usual],
        "kept_percent": [stage["kept"] / stage["reused"] for stage in usual],
    }
    return {
        "C.s-stage2-warm-start": {"warm_minus_fresh": gain(runs[USUAL], runs["stage 2 starts afresh"])},
        "C.s-stage1-reuse-and-filter": {
            "both_filtered_minus_stage_2_only": gain(runs[USUAL], runs["stage-1 labels not reused"]),
            "both_filtered_minus_both": gain(runs[USUAL], runs["stage-1 labels not filtered"]),
            "both_minus_stage_2_only": gain(runs["stage-1 labels not filtered"], runs["stage-1 labels not reused"]),
            **{name: stats.mean_interval(100 * np.array(values)) for name, values in shares.items()},
        },
    }


def shares(read: Mapping[str, Any]) -> Rows:
    """Figures 4(a) and 5: shares of stage 1, temperatures, and what top-k accuracy of stage 1 has to do with it."""
    cells, chosen = read["shares"], read["chosen"]["temperature"]
    groups = {
        "up_to_50": lambda share, t: t == chosen and share <= 0.5,
        "up_to_40": lambda share, t: t == chosen and share <= 0.4,
        "50": lambda share, t: t == chosen and share == 0.5,
        "50_to_70": lambda share, t: t == chosen and 0.5 < share <= 0.7,
        "above_70": lambda share, t: t == chosen and share > 0.7,
        "chosen": lambda _, t: t == chosen,
        "1": lambda _, t: t == 1,
        "above_1": lambda _, t: t > 1,
    }
    means = {name: group(cells, wanted) for name, wanted in groups.items() if any(wanted(*at) for at in cells)}
    by_part = [("50_to_70", other) for other in ("up_to_40", "50") if other in means]
    pairs = {
        "C.s-split-above-half": [("50_to_70", "up_to_50"), ("50_to_70", "above_70"), *by_part],
        "C.s-prior-temperature": [("chosen", "1"), ("above_1", "1"), ("above_1", "chosen")],
    }
    rows = {row: {f"{a}_minus_{b}": less(means[a], means[b]) for a, b in compared} for row, compared in pairs.items()}
    wide = np.mean([run["stages"][1]["mean_k"] for (_, t), runs in cells.items() if t > 1 for run in runs])
    rows["C.s-prior-temperature"] |= {"mean_k_above_1": float(wide), "temperature_at_most": chosen}
    first = {share: _first_stage(runs) for (share, t), runs in cells.items() if t == chosen}
    rows["C.s-more-in-stage-1"] = {
        f"stage_1_at_{100 * b:g}_less_{100 * a:g}": less(first[b], first[a])
        for a, b in itertools.pairwise(sorted(first))
    }
    rows["C.fig4a"] = rows["C.s-split-above-half"] | rows["C.s-prior-temperature"]
    high = {
        "above_96_minus_middle": end(cells, 96, 100),
        "above_96_minus_middle_with_k_equal_K": end(cells, 96, 100, every=True),
    }
    rows["C.s-perfect-topk-not-desirable"] = high
    rows["C.fig5"] = high | {"up_to_80_minus_middle": end(cells, -1, 80)}
    return rows


def _first_stage(runs: Sequence[Result]) -> np.ndarray:
    """Test accuracy of stage 1 in percent, (seeds,)."""
    return 100 * np.array([run["stages"][0]["top"][0] for run in runs])


def mixups(read: Mapping[str, Any]) -> Rows:
    """Figure 4(b): coefficients of mixup in both stages."""
    cells = read["mixups"]

    def strong(a: float, b: float) -> bool:
        return 4 <= a <= 8 and 4 <= b <= 8

    good, none = group(cells, strong), group(cells, lambda a, b: a == b == 0)
    order = less(group(cells, lambda a, b: b < a), group(cells, lambda a, b: b > a))
    wrong = [100 * np.array([run["stages"][i]["wrong"] for run in read["recipes"][USUAL]]) for i in (0, 1)]
    return {
        "C.s-mixup": {"mixup_4_to_8_minus_none": less(good, none)},
        "C.s-mixup-alpha": {"mixup_4_to_8_minus_others": less(good, group(cells, lambda a, b: not strong(a, b)))},
        "C.fig4b": {"less_in_stage_2_minus_more": order},
        "C.s-stage-2-less-noisy": {
            "wrong_percent_in_stage_1_less_stage_2": less(*wrong),
            "wrong_percent_in_stage_1": stats.mean_interval(wrong[0]),
            "wrong_percent_in_stage_2": stats.mean_interval(wrong[1]),
            "less_in_stage_2_minus_more": order,
        },
    }


def robust(read: Mapping[str, Any], one_stage: Sequence[Result]) -> Rows:
    """Every setting of both maps less LP-1ST at the same budget; the worst by Bonferroni over all of them.

    "Ahead" and "behind" are beyond chance, each by its own 95% interval. A setting that both maps have counts once.
    """
    every = {tuple(accuracies(runs)) for name in ("shares", "mixups") for runs in read[name].values()}
    gains = sorted((np.array(accuracy) - accuracies(one_stage) for accuracy in every), key=np.mean)
    each = [stats.mean_interval(gain) for gain in gains]
    return {
        "C.s-robust-settings": {
            "settings": len(gains),
            "settings_ahead_of_one_stage": sum(interval.low > 0 for interval in each),
            "settings_behind": sum(interval.high < 0 for interval in each),
            "worst_cell_minus_one_stage": stats.mean_interval(gains[0], level=1 - 0.05 / len(gains)),
        }
    }


def ratings(read: Mapping[str, Any]) -> Rows:
    """Table 3, and LP-2ST beside one stage and beside biases on the answers of LP-1ST; errors in stars."""
    cells = read["cells"]
    budgets = sorted({e for e, _ in cells})
    error = {(e, kind): np.array([run["biases" if kind == "biases" else "rmse"] for run in runs])
             for (e, kind), runs in cells.items()}  # fmt: skip
    names = {e: "_inf" if math.isinf(e) else f"{e:g}" for e in budgets}
    private = [e for e in budgets if not math.isinf(e)]
    likeliest = {e: np.array([run["likeliest"] for run in cells[e, 1]]) for e in budgets}
    unmixed = {e: np.array([run["unmixed"] for run in cells[e, 1]]) for e in private}
    return {
        **{
            f"C.table3.lp-{count}st": {
                f"eps{names[e]}": stats.mean_interval(error[e, count]) for e in budgets if (e, count) in cells
            }
            for count in (1, 2)
        },
        "C.s-movielens-improves": {
            f"LP-2ST_minus_{title}_eps_{names[e]}": less(error[e, 2], error[e, kind])
            for title, kind in (("LP-1ST", 1), ("biases", "biases"))
            for e in private
        }
        | {f"LP-2ST_minus_LP-1ST_unmixed_eps_{names[e]}": less(error[e, 2], unmixed[e]) for e in private}
        | {f"LP-1ST_unmixed_minus_LP-1ST_eps_{names[e]}": less(unmixed[e], error[e, 1]) for e in private}
        | {"constant_eps_1": stats.mean_interval(np.array([run["constant"] for run in cells[1.0, "biases"]]))},
        "C.s-movielens-network": {
            **rating_network(),
            **{f"likeliest_minus_mean_eps_{names[e]}": less(likeliest[e], error[e, 1]) for e in budgets},
        },
    }


def rating_network(users: int = 6_040, films: int = 3_706, draws: int = 50) -> dict[str, float]:
    """The network for MovieLens-1M as Appendix B has it, read off its modules, and its prediction for random pairs.

    branches: embeddings of users, one in each. The prediction is what errors are computed from, beside a mean rating
    under the softmax of its own.
    """
    net = models.keras_weights_(models.two_branch(users, films), torch.Generator().manual_seed(0))
    rng = np.random.default_rng(0)
    with torch.no_grad():  # fresh scores are all nearly 0: others, so that the softmax is not flat
        net[-1].weight.mul_(300)
    pairs = torch.as_tensor(np.column_stack([rng.integers(users, size=draws), rng.integers(films, size=draws)]))
    stars, apart = np.arange(1.0, net[-1].out_features + 1), []
    for pair in pairs.split(1):
        learner = RatingLearner(lambda: net, pair, pair, np.zeros(1, int), [], seed=0, stars=stars, epsilon=None)
        with torch.no_grad():
            odds = np.exp(net(pair).double().numpy()[0])
        apart.append(abs(learner.evaluate(net)["rmse"] + stars[0] - odds @ stars / odds.sum()))
    tables = [module for module in net.modules() if isinstance(module, torch.nn.Embedding)]
    return {
        "branches": sum(table.num_embeddings == users for table in tables),
        "classes": net[-1].out_features,
        "prediction_less_the_mean_under_the_softmax_by_at_most": float(max(apart)),
    }


def less(a: np.ndarray, b: np.ndarray) -> Measured:
    """a - b, both (seeds,), paired."""
    return stats.paired(a, b).difference


def gain(a: Sequence[Result], b: Sequence[Result]) -> Measured:
    """Final accuracy of a less that of b in points, paired by seed."""
    return less(accuracies(a), accuracies(b))


def group(cells: Cells, wanted: Callable[..., bool]) -> np.ndarray:
    """Mean final accuracy over the wanted cells, (seeds,)."""
    return np.mean([accuracies(runs) for at, runs in cells.items() if wanted(*at)], axis=0)


def dots(cells: Cells) -> np.ndarray:
    """Figure 5, (runs, 3): top-k accuracy of stage 1 and final accuracy in percent, and whether k is all classes."""
    points = []
    for run in itertools.chain.from_iterable(cells.values()):
        first, second = run["stages"]
        k = max(1, round(second["mean_k"]))
        points.append([100 * first["top"][k - 1], 100 * run["accuracy"], k == len(first["top"])])
    return np.array(points)


def end(cells: Cells, low: float, high: float, *, every: bool = False) -> Measured:
    """Final accuracy of runs with a top-k accuracy in (low, high] less those in (80, 94], over the seeds with both.

    Runs in which k is all classes, so that top-k accuracy is 100% by definition, count with ``every`` only.
    """
    differences = []
    for runs in zip(*cells.values(), strict=True):  # of one seed
        top, final, whole = dots({"": runs}).T
        parts = [final[(top > a) & (top <= b) & (every | (whole == 0))] for a, b in ((low, high), (80, 94))]
        if all(len(part) for part in parts):
            differences.append(parts[0].mean() - parts[1].mean())
    return stats.mean_interval(np.array(differences))
