"""Randomised response with a prior as kept runs: random priors, samplers, and all data sets that are small enough.

A part is a function of ``get`` (:func:`book.evidence.runs.read`, or what makes the runs) and of what a plan says
(``notebooks/plans/08.yml``). Neighbours differ in the label of one record.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from scipy import stats

from book.evidence import runs
from book.evidence.plans import Get
from dplib import exact_loss, privacy
from dplib import randomised_response as response
from papers.labels import randomised_response_lp as programs

# Of random priors; a number is the concentration of a Dirichlet distribution.
KINDS = ("0.1", "1", "10", "one-hot", "uniform", "ties", "zeros")
ROUNDING = 1e-12  # errors below it are the last digits of a machine's arithmetic, and not kept
GIVES_UP = 12.0  # LP1 as printed is solved too from here on, where the solver begins to give up
EXAMPLE = np.array([0.40, 0.25, 0.20, 0.10, 0.05])


@runs.experiment("response_priors", version=1, probe={"epsilon": 1.0, "seed": 3, "rounds": 1, "most_labels": 4})
def check_priors(*, epsilon: float, seed: int, rounds: int = 2, most_labels: int = 8) -> runs.Result:
    """Everything exact about RRWithPrior on random priors at one budget.

    seed: of the priors, which do not depend on the budget. rounds: priors of each kind and number of labels, from 2 to
    ``most_labels``. Returns "worst", largest error of each check, at least ROUNDING; "counts": priors, tables, and how
    often something is so; "extremes" of gains and losses; "kinds", means by kind of prior.
    """
    drawn = priors_of(seed, rounds, most_labels)
    rng = np.random.default_rng(np.random.SeedSequence([88, seed]))
    rows = [{"kind": kind, **_check(prior, epsilon, rng)} for kind, prior in drawn]
    tried = [p for _, p in drawn[::5]] if epsilon >= GIVES_UP else []
    solved = [value for value in (_as_printed(prior, epsilon) for prior in tried) if value is not None]
    worst = {name: _at_most(row[name] for row in rows) for name in _WORST}
    return {
        "worst": {**worst, "lp1_as_printed": _at_most(solved)},
        "counts": {
            "priors": len(rows),
            "tables": sum(row["labels"] for row in rows),
            **{name: int(sum(row[name] for row in rows)) for name in _COUNTS},
            "printed_tried": len(tried),
            "printed_unsolved": len(tried) - len(solved),
        },
        "extremes": {
            "least_gain": _short(min(row["ours"] - row["plain"] for row in rows)),
            "most_gain": _short(max((r["ours"] - r["plain"] for r in rows if r["k"] > 1), default=0.0)),
            "bits_lost": _short(max(row["bits_lost"] for row in rows)),
            "code_lost": _short(max(row["ours"] - row["code"] for row in rows)),
            "excess_at_99": _short(min((r["at_99"] for r in rows if r["at_99"] is not None), default=None)),
        },
        "kinds": {
            kind: {name: _short(np.mean([row[name] for row in rows if row["kind"] == kind])) for name in _MEANS}
            for kind in KINDS
        },
    }


_WORST = ("excess", "lemma", "sums", "w", "sets", "other_loss", "all_outputs", "lp1", "lp2", "lp2_below_lp1", "dual",
          "violation", "processed")  # fmt: skip
_COUNTS = ("constant", "cut_helps", "cut_hurts", "cut_decided_wrongly", "other_tells_more", "code_differs")
_MEANS = ("labels", "k", "constant", "ours", "best", "plain", "code", "bits", "plain_bits")


def priors_of(seed: int, rounds: int, most_labels: int) -> list[tuple[str, np.ndarray]]:
    """Random priors by kind, each kind in each size ``rounds`` times."""
    rng = np.random.default_rng(np.random.SeedSequence([8, seed]))
    cells = list(product(range(rounds), range(2, most_labels + 1), KINDS))
    return [(kind, random_prior(kind, size, rng)) for _, size, kind in cells]


def random_prior(kind: str, size: int, rng: np.random.Generator) -> np.ndarray:
    """One prior over ``size`` labels, of one of KINDS."""
    if kind == "one-hot":
        weights = np.eye(size)[rng.integers(size)]
    elif kind == "uniform":
        weights = np.ones(size)
    elif kind == "ties":
        weights = rng.permutation(rng.integers(0, 4, size) + np.eye(size)[0])
    elif kind == "zeros":
        weights = rng.permutation(rng.random(size) * (np.arange(size) <= size // 2))
    else:
        weights = rng.dirichlet(np.full(size, float(kind)))
    return weights / weights.sum()


def released_k(prior, epsilon: float) -> int:
    """The k that the authors' released code takes, google-research/label-dp, train.py, at commit 2a889b3.

    Its loop counts k from 0: it adds up k + 1 labels and divides by 1 + (k - 1) e^-epsilon. For the number k of labels
    kept that is P_k / (1 + (k - 2) e^-epsilon). The chosen k exceeds k where e^epsilon > 2 + D_k / p_(k+1); Algorithm 2
    has 1 in place of 2. Its answers then are those of RRTop-k.
    """
    largest_first = np.sort(np.asarray(prior, dtype=float))[::-1]
    if epsilon == 0:
        return 1  # it divides by 0
    return int(np.argmax(np.cumsum(largest_first) / (1 + (np.arange(len(largest_first)) - 1) * np.exp(-epsilon)))) + 1


def program_excess(k: int, epsilon: float) -> tuple[float, float]:
    """What two programs for RR over k labels spend beyond epsilon, in exact fractions: with 53 random bits, and ours.

    The first leaves the true label when a uniform number of 53 bits reaches e^epsilon / (e^epsilon + k - 1); inf where
    it never leaves it.
    """
    high, low = (int(word) for word in response.leave_words(k, epsilon))
    keep = np.exp(epsilon) / (np.exp(epsilon) + k - 1)
    usual = 1 - Fraction(int(np.ceil(Fraction(keep) * 2**53)), 2**53)
    both = []
    for leave in (usual, Fraction(high * 2**64 + low, 2**128)):
        ratio = (1 - leave) * (k - 1) / leave if leave else Fraction(0)
        both.append(float((Decimal(ratio.numerator) / ratio.denominator).ln() - Decimal(epsilon)) if leave else np.inf)
    return both[0], both[1]


def subsets(size: int) -> np.ndarray:
    """All sets of ``size`` things but the empty one, bool, shape (2^size - 1, size)."""
    return np.array(list(product([False, True], repeat=size))[1:])


def worst_over_sets(table, epsilon: float) -> float:
    """The largest P(S) - e^epsilon P'(S) over sets S of outputs and pairs of labels, by brute force."""
    masses = np.exp(table) @ subsets(len(table)).T
    return float((masses[:, None] - np.exp(epsilon) * masses[None]).max())


def _check(prior: np.ndarray, epsilon: float, rng: np.random.Generator) -> dict[str, Any]:
    size, w, kept = len(prior), response.success(prior, epsilon), response.kept(prior, epsilon)
    members = np.stack([response.top(prior, k) for k in range(1, size + 1)])
    every, table = response.log_table(members, epsilon), response.log_table(kept, epsilon)
    diagonal, most, least = np.diagonal(every, axis1=1, axis2=2), every.max(axis=1), every.min(axis=1)
    possible, chosen = np.isfinite(diagonal), subsets(size)
    sets = (chosen @ prior) / (1 + (chosen.sum(axis=1) - 1) * np.exp(-epsilon))
    ours, loss = float(response.objective(table, prior)), float(response.max_log_ratio(table))
    bound, violation = programs.certificate(prior, epsilon) if epsilon else (prior.max(), 0.0)
    first_program, two = programs.lp1(prior, epsilon)[0], programs.lp2(prior, epsilon)
    bits, k = response.information(members, epsilon, prior), int(kept.sum())
    code = released_k(prior, epsilon)
    cut, allowed = w[-2] - w[-1], 1 / (np.exp(epsilon) + size - 1) - prior.min()
    channels = rng.dirichlet(np.full(4, 0.3), size=(3, size))  # any training: answer -> one of four models
    return {
        "labels": size, "k": k, "constant": k == 1,
        "ours": ours, "best": first_program, "plain": w[-1],
        "code": float(w[code - 1]), "code_differs": code != k,
        "bits": bits[k - 1], "plain_bits": bits[-1],
        "bits_lost": bits.max() - bits[k - 1] if epsilon else 0.0,
        "other_tells_more": bool(epsilon) and bits.max() - bits[k - 1] > 1e-9,
        # Lemma 1 for every k, and its proof: an output is likeliest under itself, least likely under another member.
        "excess": (response.max_log_ratio(every) - epsilon).max(),
        "lemma": max(np.abs(most[possible] - diagonal[possible]).max(),
                     np.abs(diagonal[1:][possible[1:]] - least[1:][possible[1:]] - epsilon).max()),
        "sums": np.abs(np.exp(every).sum(axis=-1) - 1).max(),
        "w": np.abs(response.objective(every, prior) - w).max(),
        "sets": abs(ours - sets.max()),
        "other_loss": abs(exact_loss.discrete_epsilon(np.exp(table)) - loss),
        "all_outputs": worst_over_sets(table, epsilon),
        "at_99": worst_over_sets(table, 0.99 * epsilon) if epsilon and k > 1 else None,
        "lp1": abs(ours - first_program), "lp2": abs(ours - two), "lp2_below_lp1": first_program - two,
        "dual": abs(ours - bound), "violation": violation,
        "processed": max(exact_loss.discrete_epsilon(np.exp(table) @ channel) for channel in channels) - loss,
        "cut_helps": cut > 1e-14, "cut_hurts": cut < -1e-14,
        "cut_decided_wrongly": abs(cut) > 1e-14 and (cut > 0) != (allowed > 0),
    }  # fmt: skip


def _as_printed(prior: np.ndarray, epsilon: float) -> float | None:
    """How far LP1's optimum is from max w_k with the constraints as printed; None where the solver gives up."""
    try:
        return abs(programs.lp1_as_printed(prior, epsilon)[0] - response.success(prior, epsilon).max())
    except ArithmeticError:
        return None


@runs.experiment("response_sampler", version=1, probe={"epsilon": 2.0, "seed": 3, "labels": 4, "draws": 2000})
def check_samplers(*, epsilon: float, seed: int, labels: int = 10, draws: int = 200_000) -> runs.Result:
    """The samplers of RR, RRTop-3 and RRWithPrior against their tables, by a chi-square test for each true label.

    Returns "least_p" and "tests" by mechanism; "impossible": answers that the table does not allow.
    """
    tail = 1 / np.arange(1, labels + 1)
    tail /= tail.sum()
    rng = np.random.default_rng(np.random.SeedSequence([8888, seed]))
    mechanisms = {
        "RR": (np.ones(labels, dtype=bool), lambda y: response.rr(y, labels, epsilon, rng)),
        "RRTop-3": (response.top(tail, 3), lambda y: response.rr_top_k(y, tail, 3, epsilon, rng)),
        "RRWithPrior": (response.kept(tail, epsilon), lambda y: response.rr_with_prior(y, tail, epsilon, rng)),
    }
    tested: dict[str, Any] = {"least_p": {}, "tests": {}, "impossible": 0}
    for name, (members, sample) in mechanisms.items():
        table, values = np.exp(response.log_table(members, epsilon)), [1.0]
        for label in range(labels):
            counts = np.bincount(sample(np.full(draws, label)).labels, minlength=labels)
            tested["impossible"] += int(counts[table[label] == 0].sum())
            expected = draws * table[label]
            often = expected >= 5  # the others are pooled with the likeliest answer
            if often.sum() > 1:
                for row_of in (counts, expected):
                    row_of[table[label].argmax()] += row_of[~often].sum()
                values.append(stats.chisquare(counts[often], expected[often]).pvalue)
        tested["least_p"][name], tested["tests"][name] = _short(min(values)), len(values) - 1
    return tested


@runs.experiment("response_enumeration", version=1, probe={"epsilon": 1.0})
def enumerate_all(*, epsilon: float) -> runs.Result:
    """What can be listed at one budget: all small data sets with all their answers, and the corners of LP2.

    "distance": the loss of three records whose data sets differ in 1, 2, 3 labels, and "answering", how many of the
    three answer by their label. "draws": the loss of one label that is drawn 1 to 4 times. "broken": the least delta at
    the same epsilon of tables whose ties, or whose k, look at the label. The rest as the functions below.
    """
    priors = np.array([[0.5, 0.3, 0.2], [1 / 3, 1 / 3, 1 / 3], [0.2, 0.45, 0.35]])
    joint = privacy.joint(3, 3, [[0, 1, 2]], lambda *_: priors, epsilon)
    single = response.log_table(np.ones(3, dtype=bool), epsilon)
    drawn = [response.max_log_ratio(np.stack([_outer([row] * times) for row in single])) for times in (1, 2, 3, 4)]
    tied = np.stack([response.log_table(np.eye(3, dtype=bool)[min(y, 1)], epsilon)[y] for y in range(3)])
    rank = np.argsort(np.argsort(-EXAMPLE, kind="stable"))
    enlarged = [response.top(EXAMPLE, max(2, place + 1)) for place in rank]  # k grows until the label is in
    looks = np.stack([response.log_table(members, epsilon)[y] for y, members in enumerate(enlarged)])
    return {
        "distance": [_short(privacy.loss(joint, 3, 3, differ)) for differ in (1, 2, 3)],
        "answering": int((response.best_k(priors, epsilon) > 1).sum()),
        "draws": [_short(value) for value in drawn],
        **two_stages(epsilon),
        "leaks": leaks(epsilon),
        "broken": {
            name: _short(exact_loss.discrete_delta(np.exp(t), epsilon)) for name, t in (("tie", tied), ("k", looks))
        },
        "corners": corners(epsilon),
    }


def leaks(epsilon: float) -> dict[str, dict[str, float]]:
    """All data sets of five labels of three classes, with answers by a prior of which the labels may be the source.

    Returns:
        By source: "infinite", the share of pairs of neighbours with infinite loss; "finite", the largest finite loss;
        "delta", the least one with which the answers are (epsilon, delta)-label-DP.
    """
    sets, apart = privacy.data_sets(5, 3)
    shares = np.eye(3)[sets]  # (data sets, records, classes)
    sources = {
        "fixed in advance": np.broadcast_to([0.5, 0.3, 0.2], shares.shape),
        "histogram of all labels": np.broadcast_to(shares.mean(axis=1, keepdims=True), shares.shape),
        "histogram of the other labels": (shares.sum(axis=1, keepdims=True) - shares) / 4,
    }
    first, second = np.nonzero(apart == 1)
    leaks_ = {}
    for name, prior in sources.items():
        tables = response.log_table(response.kept(prior, epsilon), epsilon)  # (data sets, records, label, answer)
        rows = np.take_along_axis(tables, sets[..., None, None], axis=2)[:, :, 0]
        joint = np.stack([_outer(row) for row in rows])
        loss = privacy.losses(joint, apart == 1)
        over = np.maximum(0, np.exp(joint[first]) - np.exp(epsilon + joint[second])).sum(axis=1)
        leaks_[name] = {
            "infinite": _short(np.isinf(loss).mean()),
            "finite": _short(loss[np.isfinite(loss)].max(initial=0.0)),
            "delta": _short(over.max()),
        }
    return leaks_


def two_stages(epsilon: float) -> dict[str, Any]:
    """Four labels of three classes: plain RR for two, whose answers make the prior of the other two.

    Returns:
        "staged": the loss of all four answers. "peeking": the least delta at the same epsilon if the prior is made from
        the true labels of the first two. "sets": how many sets of labels the second stage may keep.
    """
    near = np.array([[0.8, 0.2], [0.3, 0.7]])  # how much a record of part 2 resembles those of part 1: public

    def prior(stage: int, answers: Sequence[int]) -> np.ndarray:
        votes = 0.15 + near @ np.eye(3)[list(answers)] if stage else np.ones((2, 3))
        return votes / votes.sum(axis=1, keepdims=True)

    honest = privacy.joint(4, 3, [[0, 1], [2, 3]], prior, epsilon)
    plain = np.exp(response.log_table(np.ones(3, dtype=bool), epsilon))
    kept = np.array([[response.kept(prior(1, (a, b)), epsilon) for b in range(3)] for a in range(3)])
    later = np.exp(response.log_table(kept, epsilon))  # [a, b, record, true label, answer]
    peeks = np.einsum("ia,jb,ijkc,ijld->ijklabcd", plain, plain, later[:, :, 0], later[:, :, 1]).reshape(81, 81)
    pairs = np.argwhere(np.triu(privacy.data_sets(4, 3)[1] == 1)).tolist()
    return {
        "staged": _short(privacy.loss(honest, 4, 3)),
        "peeking": _short(exact_loss.discrete_delta(peeks, epsilon, pairs)),
        "sets": len(np.unique(kept.reshape(9, -1), axis=0)),
    }


def corners(epsilon: float, most_labels: int = 5) -> dict[str, int]:
    """The vertices of LP2 by brute force against the sets of labels; only up to epsilon = 5, where both are well apart.

    Returns "polytopes", "vertices", and "differ": polytopes whose vertices are not zero and one for each set.
    """
    counted = {"polytopes": 0, "vertices": 0, "differ": 0}
    for size in range(2, most_labels + 1) if 0 < epsilon <= 5 else ():
        points, members = programs.vertices(size, epsilon), subsets(size)
        named = members / (1 + (members.sum(axis=1) - 1) * np.exp(-epsilon))[:, None]
        named = np.unique(np.round(np.vstack([np.zeros((1, size)), named]), 9) + 0.0, axis=0)
        counted["polytopes"] += 1
        counted["vertices"] += len(points)
        counted["differ"] += not (len(points) == len(named) and np.abs(points - named).max() < 1e-8)
    return counted


def _outer(rows) -> np.ndarray:
    """Log probabilities of all joint answers of independent records, in lexicographic order."""
    return reduce(lambda a, b: (a[:, None] + b[None, :]).ravel(), rows)


def priors(get: Get, *, epsilons: Sequence[float], seeds: int, **settings: Any) -> list[runs.Result]:
    """Results of :func:`check_priors`, each with its "epsilon" and "seed"; seeds 0, 1, ..."""
    return _checked(get, check_priors, epsilons, seeds, settings)


def samplers(get: Get, *, epsilons: Sequence[float], seeds: int, **settings: Any) -> list[runs.Result]:
    """Results of :func:`check_samplers`, as :func:`priors`."""
    return _checked(get, check_samplers, epsilons, seeds, settings)


def _checked(get: Get, function, epsilons: Sequence[float], seeds: int, settings: Mapping) -> list[runs.Result]:
    jobs = [{"epsilon": e, "seed": s} for e in epsilons for s in range(seeds)]
    return [job | result for job, result in zip(jobs, get(function, [job | settings for job in jobs]), strict=True)]


def _at_most(errors) -> float:
    return max([ROUNDING, *(runs.to_figures(error, 2) for error in errors)])


def _short(value) -> float | None:
    """Ten figures, as a second machine would give them, and 0 for what is rounding."""
    if value is None:
        return None
    return 0.0 if abs(value) <= ROUNDING else runs.to_figures(value, 10)
