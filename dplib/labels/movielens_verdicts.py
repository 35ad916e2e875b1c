"""What the runs of :mod:`labels.movielens_study` say of paper C's Table 3, and the sentences of the page about them."""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
import torch

from dplib import claims
from dplib.architecture.cost_verdicts import holm_signs
from dplib.architectures import TwoBranches, two_branch
from dplib.labels import movielens, movielens_study
from dplib.labels.map_groups import Record
from dplib.labels.movielens import Ratings
from dplib.stats import Comparison, Measured, mean_interval

TITLES = {
    movielens.SYNTHETIC: "synthetic ratings, drawn from a model of biases and tastes, which say nothing about films",
    "movielens-latest-small": "MovieLens latest-small, which stands in for MovieLens-1M",
    "movielens-1m": "MovieLens-1M",
}
NEAR = 0.01  # of an RMSE: how far an interval may miss a printed value that has no interval


def heading(epsilon: float) -> str:
    """A budget as a heading."""
    return "∞" if np.isinf(epsilon) else f"{epsilon:g}"


def errors(table: pd.DataFrame, method: str, epsilon: float) -> np.ndarray:
    """Test RMSE by seed; empty where the method was not run at this budget."""
    rows = table[(table["method"] == method) & (table["epsilon"] == epsilon)]
    return rows.sort_values("seed")["rmse"].to_numpy()


def where(comparisons: Mapping[float, Comparison], *, above: bool) -> str:
    """The budgets at which a difference is beyond chance above 0, or below 0, in words."""
    found = [e for e, c in comparisons.items() if (c.difference.low > 0 if above else c.difference.high < 0)]
    return f"at ε = {', '.join(map(heading, found))}" if found else "nowhere"


def collapsed(table: pd.DataFrame, classes: int) -> dict[float, int]:
    """Budget to the number of runs of LP-2ST in which every prior kept equally many classes, fewer than all.

    There stage 1 had not got beyond a constant, and a mean over seeds mixes two kinds of runs.
    """
    two = table[table["method"] == "LP-2ST"]
    flat = two[(two["mean_k"] % 1 == 0) & (two["mean_k"] < classes)]
    return {float(e): int(n) for e, n in flat.groupby("epsilon").size().items()}


def collapses(table: pd.DataFrame, classes: int) -> str:
    """The same in words."""
    runs = table[table["method"] == "LP-2ST"].groupby("epsilon").size()
    return ", ".join(f"{n} of {runs[e]} at ε = {heading(e)}" for e, n in collapsed(table, classes).items()) or "none"


def constant_of_1m() -> float:
    """RMSE of the mean rating on all of MovieLens-1M, from the published counts of its ratings."""
    stars = np.repeat(np.arange(1.0, 6.0), movielens.STARS_OF_1M)
    return float(stars.std())


def sentences(table: pd.DataFrame, found: Ratings) -> dict[str, str]:
    """Sentences about the runs, by the name of their place on the page."""

    def less(a, b):
        return movielens_study.compare(table, a, b)

    lowest = min(table["epsilon"])
    constant = mean_interval(errors(table, "constant", lowest))
    corrected, two_corrected = less("LP-1ST, unmixed", "LP-1ST"), less("LP-2ST", "LP-1ST, unmixed")
    linear, linear_1 = less("LP-2ST", "biases"), less("LP-1ST", "biases")
    n = sum(len(part) for part in (found.y_train, found.y_valid, found.y_test))
    per_user = np.bincount(np.concatenate([found.x_train, found.x_valid, found.x_test])[:, 0])
    stuck = collapses(table, len(found.stars))
    return {
        "ratings_about": f"The data are {TITLES[found.name]}: {n:,} ratings of {found.movies:,} films by "
        f"{found.users:,} users, {100 * movielens.TEST_SHARE:.0f}% of them to test on."
        + (" Half stars are rounded up, to five classes as in the larger set." if "small" in found.name else ""),
        "ratings_constant": f"In our runs the mean of the randomised answers, unmixed, has {constant} at ε = "
        f"{lowest:g}. Beyond chance worse than that: LP-1ST {where(less('LP-1ST', 'constant'), above=True)}, LP-2ST "
        f"{where(less('LP-2ST', 'constant'), above=True)}.",
        "ratings_unmixed": f"Beyond chance it lowers the RMSE of LP-1ST {where(corrected, above=False)}, and raises it "
        f"{where(corrected, above=True)}. Against LP-1ST corrected in this way, LP-2ST is better "
        f"{where(two_corrected, above=False)}, and worse {where(two_corrected, above=True)}.",
        "ratings_biases": f"Beyond chance it is better than LP-2ST {where(linear, above=True)}, and worse "
        f"{where(linear, above=False)}; than LP-1ST it is better {where(linear_1, above=True)}, and worse "
        f"{where(linear_1, above=False)}.",
        "ratings_stuck": f"In some runs of LP-2ST ({stuck}) all priors of stage 2 kept equally many classes, fewer "
        "than all: there stage 1 had not got beyond a constant, and an average mixes two kinds of runs."
        if stuck != "none"
        else "In every run stage 1 got beyond a constant.",
        "ratings_per_user": f"{np.median(per_user[per_user > 0]):g}",
    }


def records(
    table: pd.DataFrame, found: Ratings, *, batch_size: int, learning_rate: float, epochs: list[int]
) -> dict[str, Record]:
    """One for each claim, by its id; Table 3's rows only from ratings of films."""
    own = found.name == "movielens-1m"
    real = found.name != movielens.SYNTHETIC
    gains = movielens_study.compare(table, "LP-2ST", "LP-1ST")
    gained = "; ".join(f"{c.difference} at ε = {heading(e)}" for e, c in gains.items())
    stuck = f"Runs of LP-2ST whose stage 1 had not got beyond a constant: {collapses(table, len(found.stars))}"
    signs = holm_signs(gains)
    rows = {}
    for method in ("LP-1ST", "LP-2ST") if real else ():
        claim = f"C.table3.{method.lower()}"
        rows[claim] = _row(table, method, claims.get(claim).published, own, f"{gained}. {stuck}")
    train, test = len(found.y_train) + len(found.y_valid), len(found.y_test)
    likeliest = movielens_study.compare(table, "LP-1ST, likeliest", "LP-1ST")
    about = "" if real else "Synthetic ratings. "
    return rows | {
        "C.s-movielens-data": Record(
            {
                "ratings": train + test,
                "movies": found.movies,
                "users": found.users,
                "train_share": train / (train + test),
                "test_share": test / (train + test),
            },
            "holds" if own else "undecided",
            f"Counted: {TITLES[found.name]}. The counts of MovieLens-1M's five ratings, as published, add up to "
            f"{sum(movielens.STARS_OF_1M):,}" + ("." if own else "; its loader checks them where the file is."),
        ),
        "C.s-movielens-improves": Record(
            {f"LP-2ST_minus_LP-1ST_eps_{heading(e)}": c.difference for e, c in gains.items()},
            improves_verdict(gains, own),
            f"{about}RMSE of LP-2ST less LP-1ST, paired by seed; below 0: two stages are better. By Holm over the "
            f"budgets it is better in {signs.count(-1)} of {len(signs)} and worse in {signs.count(1)}. {stuck}."
            + ("" if own else " Only MovieLens-1M can decide what the paper shows on it."),
        ),
        "C.s-movielens-network": Record(
            {"branches": 2, "classes": len(found.stars)}
            | {f"likeliest_minus_mean_eps_{heading(e)}": c.difference for e, c in likeliest.items()},
            "holds" if built(len(found.stars)) else "fails",
            f"{about}The network and the prediction are built as said, which is all that the row says (sizes are not "
            "printed: the smallest of the cited paper). RMSE of predicting the likeliest rating less that of the mean "
            f"rating, LP-1ST: the mean is better beyond chance {where(likeliest, above=True)}, and worse "
            f"{where(likeliest, above=False)}. Where "
            "answers are noisy, they pull the mean to the middle of the scale, which the paper does not correct.",
        ),
        "C.s-hyper-movielens": Record(
            {"batch_size": batch_size, "epochs_tried": ", ".join(map(str, epochs)), "peak_lr": learning_rate},
            "holds" if own and (batch_size, epochs) == (128, [200]) else "undecided",
            f"{about}The schedule of the CIFAR sets is followed in form, with {' or '.join(map(str, epochs))} epochs "
            f"and batches of {batch_size}. 'Similarly' leaves open whether the peak rate is 0.4 or 0.2, and what takes "
            "the place of mixup for numbers of users and films: here nothing.",
        ),
    }


def improves_verdict(gains: Iterable[Comparison], own: bool) -> str:
    """For "LP-MST improves on MovieLens": only the paper's own ratings decide; by Holm over the budgets.

    It holds where some budget has a lower error and none a higher one, with change (at some budgets) where both are
    found, and fails where only higher ones are.
    """
    signs = holm_signs(gains)
    if not own or not any(signs):
        return "undecided"
    return "fails" if -1 not in signs else "holds with change" if 1 in signs else "holds"


def built(classes: int) -> bool:
    """Whether network and prediction are those of Appendix B: two branches, a score a class, the mean rating."""
    net, stars = two_branch(4, 5, classes), np.arange(1.0, classes + 1)
    scores = net(torch.tensor([[0, 1], [3, 4], [2, 2]]))
    shares = torch.softmax(scores, 1).detach().numpy()
    mean = (shares * stars).sum(axis=1)
    return (
        isinstance(net[0], TwoBranches)
        and scores.shape == (3, classes)
        and bool(np.allclose(movielens.expected(shares, stars), mean))
    )


def _row(table: pd.DataFrame, method: str, published: Mapping, own: bool, gained: str) -> Record:
    """A row of Table 3."""
    budgets = sorted(table.loc[table["method"] == method, "epsilon"].unique())
    cells = {f"eps{heading(e)}".replace("∞", "_inf"): mean_interval(errors(table, method, e)) for e in budgets}
    near = all(_meets(cell, published[key]) for key, cell in cells.items() if key in published)
    free = {name: mean_interval(errors(table, name, budgets[-1])).value for name in ("constant", "biases")}
    return Record(
        cells,
        "holds" if own and near else "undecided",
        ("" if own else "MovieLens latest-small in place of MovieLens-1M, a tenth of the ratings: the numbers do not "
        "compare. ")
        + f"{next(iter(cells.values())).n} seeds. LP-2ST less LP-1ST: {gained}. A constant has "
        f"{free['constant']:.3f}, a "
        f"bias model on the same answers {free['biases']:.3f} at ε = {heading(budgets[-1])}. On MovieLens-1M a "
        f"constant has {constant_of_1m():.3f}, less than the printed LP-1ST at ε = 1.",
    )  # fmt: skip


def _meets(cell: Measured, printed: float) -> bool:
    return cell.low - NEAR <= printed <= cell.high + NEAR
