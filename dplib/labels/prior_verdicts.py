"""Verdicts on Section 5.2 of the paper, from runs with our features: (values, verdict, because) for each claim.

The paper's features come from BYOL and DINO, ours from patches. So where the claim shows with ours it "holds with
change"; where it does not, other features might still show it: "fails" is for a clear contradiction only, and where
features decide all, a run can confirm or leave open, but not contradict (``_OPEN``).
"""

from collections.abc import Sequence

import numpy as np

from dplib import stats
from dplib.labels.beyond_study import Compared, Votes

Verdict = tuple[dict, str, str]
_PATCHES = "Our features are patches, not BYOL or DINO."
_FEATURES = "Our features are patches, not BYOL or DINO, and training is a linear classifier on them, not a ResNet."
_OPEN = "With other features than the paper's a run can confirm this or leave it open, not contradict it."
_CLUSTER_RR = "ClusterRR, the figure's other baseline, was not run."
MUCH = 2.0  # points that are "much" of the priors' accuracy


def ignoring(compared: Compared, epsilon: float, epsilon_p: float) -> float:
    """Share of the answers of Algorithm 4 that do not depend on the label asked.

    Those of records whose prior leaves one label; and all, where the histograms take the whole budget.
    """
    return 1.0 if epsilon <= epsilon_p else compared.fact("clusters constant", epsilon)


def small_budgets(compared: Compared, epsilons: Sequence[float], epsilon_p: float) -> Verdict:
    """C.s-ssl-small-eps: cluster priors beat the uniform prior at every budget up to 0.1.

    "epsilon_max" is the largest budget of the runs at which they do.
    """
    gains = {e: compared.gain("clusters", "rr", e) for e in epsilons}
    better = [e for e in compared.epsilons if compared.gain("clusters", "rr", e).difference.low > 0]
    values = {"epsilon_max": max(better)} if better else {}
    values |= {f"gain_at_eps_{e:g}": gain.difference for e, gain in gains.items()}
    values |= {f"share_of_answers_that_ignore_the_label_at_eps_{e:g}": ignoring(compared, e, epsilon_p) for e in gains}
    verdict = _sign([gain.difference for gain in gains.values()], "holds with change", "fails")
    ignored = min(ignoring(compared, e, epsilon_p) for e in epsilons)
    source = " The histograms do it: nearly every answer ignores its label." if ignored > 0.9 else ""
    return values, verdict, (
        "Paired differences of test accuracy to the uniform prior, in points, the histogram's share of the budget "
        f"included. {_CLUSTER_RR} {_FEATURES}{source}"
    )  # fmt: skip


def large_budget(compared: Compared, epsilon: float) -> Verdict:
    """C.s-ssl-underperforms-eps8: at eps = 8 the cluster priors are worse than the uniform one.

    "epsilon" is the smallest budget of the runs at which they are.
    """
    gain = compared.gain("clusters", "rr", epsilon).difference
    repaired = compared.gain("clusters-smoothed", "clusters", epsilon).difference
    worse = [e for e in compared.epsilons if compared.gain("clusters", "rr", e).difference.high < 0]
    values = {"epsilon": min(worse)} if worse else {}
    values |= {
        "gain": gain,
        "labels_that_cannot_be_answered": compared.fact("clusters lost", epsilon),
        "the_same_with_smoothed_counts": compared.fact("smoothed lost", epsilon),
        "gain_of_smoothing_the_counts": repaired,
    }
    for e in worse:
        values |= {
            f"gain_at_eps_{e:g}": compared.gain("clusters", "rr", e).difference,
            f"gain_of_smoothed_priors_at_eps_{e:g}": compared.gain("clusters-smoothed", "rr", e).difference,
            f"right_answers_at_eps_{e:g}": compared.fact("clusters right", e),
            f"right_answers_of_the_uniform_prior_at_eps_{e:g}": compared.fact("rr right", e),
        }
    verdict = _sign([gain], "fails", "holds with change")
    return values, verdict, f"Paired difference, in points. {_FEATURES} {harm(compared, worse)}".strip()


def harm(compared: Compared, worse: Sequence[float]) -> str:
    """Sentences on the budgets at which cluster priors are worse than the uniform one: how much, and what repairs it.

    Smoothed counts that leave every record its own label leave all labels in play: the answer is then plain
    randomised response, and the prior is switched off.
    """
    if not worse:
        return ""
    most = min(worse, key=lambda e: compared.gain("clusters", "rr", e).difference.value)
    right, plain = (100 * compared.fact(f"{name} right", most) for name in ("clusters", "rr"))
    said = f"The harm is largest at ε = {most:g} ({compared.gain('clusters', 'rr', most).difference} points)"
    if right > plain:
        said += f", where answers are more often right ({right:.0f}% against {plain:.0f}%) and yet worse to learn from"
    smoothed = {e: compared.gain("clusters-smoothed", "rr", e).difference for e in worse}
    still = [e for e in worse if smoothed[e].high < 0]
    off = [e for e in worse if e not in still and compared.fact("smoothed lost", e) < 1e-3]
    said += "."
    if still:
        said += f" Smoothed counts harm, too, at ε = {_listed(still)}."
    if off:
        said += (
            f" At ε = {_listed(off)} they do not, but only since they leave all labels in play: the answers are those "
            "of the uniform prior."
        )
    return said


def figure_1b(compared: Compared, small: Sequence[float]) -> Verdict:
    """C.fig1b: much better at small budgets."""
    gains = {e: compared.gain("clusters", "rr", e) for e in compared.epsilons}
    values = {f"gain_at_eps_{e:g}": gain.difference for e, gain in gains.items()}
    clear = all(gains[e].difference.low > 0 for e in small)
    much = np.mean([gains[e].difference.value for e in small]) > 5
    verdict = "holds with change" if clear and much else "undecided"  # weaker features gain less: no contradiction
    return values, verdict, (
        f"Paired differences to the uniform prior over {gains[small[0]].difference.n} seeds, in points; 'much' read as "
        f"more than five on average up to ε = {max(small):g}. {_CLUSTER_RR} {_FEATURES} {_OPEN}"
    )  # fmt: skip


def figure_2(votes: Votes) -> Verdict:
    """C.fig2: more clusters are more accurate without noise, and lose more at the smallest budget."""
    exact = stats.paired(votes.exact[-1], votes.exact[0])
    lost = votes.exact - votes.accuracy[:, :, 0]
    loses = stats.paired(lost[-1], lost[0])
    values = {
        f"most_less_fewest_clusters_without_noise_({votes.counts[-1]}_and_{votes.counts[0]})": exact.difference,
        f"what_noise_costs_the_most_less_the_fewest_at_eps_{votes.epsilons[0]:g}": loses.difference,
        **{f"best_number_of_clusters_at_eps_{e:g}": votes.best(e) for e in votes.epsilons},
    }
    verdict = _sign([exact.difference, loses.difference], "holds with change", "fails")
    return values, verdict, f"Test accuracy of the vote over {votes.exact.shape[1]} clusterings, in points. {_PATCHES}"


def cluster_counts(votes: Votes, epsilon_p: float, published: int) -> Verdict:
    """C.s-cluster-counts: 100 clusters as a balance of accuracy and robustness."""
    best = votes.best(epsilon_p)
    at = votes.epsilons.index(epsilon_p)
    values = {f"best_at_eps_{epsilon_p:g}": best}
    verdict = "undecided"
    if published in votes.counts:
        own = votes.accuracy[votes.counts.index(published), :, at]
        others = {count: i for i, count in enumerate(votes.counts) if count != published}
        gains = {count: stats.paired(own, votes.accuracy[i, :, at]).difference for count, i in others.items()}
        values |= {f"accuracy_with_{published}_less_{count}": gain for count, gain in gains.items()}
        interior = votes.counts[0] < best < votes.counts[-1]
        verdict = "holds with change" if interior and all(gain.value >= -MUCH for gain in gains.values()) else verdict
    return values, verdict, (
        f"The vote's test accuracy, in points, at the paper's ε_p = {epsilon_p:g} for BYOL: {published} clusters less "
        f"other numbers. The half on DINO's features (50) is not tested. {_PATCHES} {_OPEN}"
    )  # fmt: skip


def histogram_share(votes: Votes, count: int, published: float) -> Verdict:
    """C.s-histogram-share: eps_p = 0.05 as the smallest that does not hurt the priors much."""
    at = votes.counts.index(count)
    lost = {e: stats.paired(votes.exact[at], votes.accuracy[at, :, k]).difference for k, e in enumerate(votes.epsilons)}
    values = {f"points_lost_at_eps_p_{e:g}": one for e, one in lost.items()}
    enough = enough_budget(votes, count)
    values |= {"smallest_eps_p_within_two_points": enough} if enough else {}
    for j, total in enumerate(votes.totals):
        base = votes.right[at, :, j, votes.epsilons.index(published)]
        values |= {
            f"right_answers_with_{e:g}_less_{published:g}_at_eps_{total:g}": stats.paired(
                votes.right[at, :, j, k], base
            ).difference
            for k, e in enumerate(votes.epsilons)
            if published < e <= total
        }
    small = lost[published].high < MUCH and enough == published
    return values, "holds with change" if small else "undecided", (
        f"With patches and {count} clusters {published:g} costs the vote {lost[published]} points of test accuracy. "
        f"BYOL and DINO were not run; the half on DINO (0.025) is not judged. {_OPEN}"
    )  # fmt: skip


def adaptive(votes: Votes, count: int, fixed: float) -> Verdict:
    """C.s-adaptive-share: choosing eps_p and C by the whole budget could raise the model's accuracy.

    Measured are right answers, which a model need not learn from as well as they are right: always "undecided".
    """
    base, best, values = votes.counts.index(count), [], {}
    for j, total in enumerate(votes.totals):
        allowed = [k for k, e in enumerate(votes.epsilons) if e <= total]
        i, k = max(
            ((i, k) for i in range(len(votes.counts)) for k in allowed),
            key=lambda cell: votes.right[cell[0], :, j, cell[1]].mean(),
        )
        own = votes.right[base, :, j, votes.epsilons.index(fixed)]
        values |= {
            f"best_eps_p_at_eps_{total:g}": votes.epsilons[k],
            f"best_number_of_clusters_at_eps_{total:g}": votes.counts[i],
            f"right_answers_gained_at_eps_{total:g}": stats.paired(votes.right[i, :, j, k], own).difference,
        }
        best.append((votes.epsilons[k], votes.counts[i]))
    differ = "differ with" if len(set(best)) > 1 else "do not depend on"
    return values, "undecided", (
        f"The ε_p and C with most right answers {differ} the whole budget; gains over ε_p = {fixed:g} and C = {count} "
        "in points of right answers, the best picked on the same clusterings. No model was trained on them, and more "
        f"right answers are not always better to learn from. {_PATCHES}"
    )  # fmt: skip


def enough_budget(votes: Votes, count: int, points: float = MUCH) -> float | None:
    """The smallest histogram budget at which the vote is, on average, within ``points`` of the one without noise."""
    at = votes.counts.index(count)
    short = votes.exact[at].mean() - votes.accuracy[at].mean(axis=0)
    good = [e for e, s in zip(votes.epsilons, short, strict=True) if s <= points]
    return min(good) if good else None


def _listed(epsilons: Sequence[float]) -> str:
    return ", ".join(f"{e:g}" for e in epsilons)


def _sign(differences: Sequence[stats.Measured], above: str, below: str) -> str:
    """``above`` where all are significantly positive, ``below`` where one is significantly negative, else undecided."""
    if all(one.low > 0 for one in differences):
        return above
    if any(one.high < 0 for one in differences):
        return below
    return "undecided"
