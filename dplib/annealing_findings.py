"""Chapter 11 in words: sentences that say what runs came to, chosen from their outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dplib import claims
from dplib.annealing_readouts import Choice
from dplib.annealing_tables import DATA, TITLES, above, accuracies, below, best_other, compare, measured
from dplib.annealing_traces import witness_shares
from dplib.annealing_verdicts import FIVE, beyond, enough
from dplib.stats import Comparison, Measured

SETS = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}


def said(difference: Measured) -> str:
    """A difference in points, in words."""
    if difference.low == difference.high == 0:
        return "the same"
    if difference.low is None:
        return f"{difference.value:+.2f} points with one seed"
    if above(difference):
        return f"ahead by {difference} points"
    if below(difference):
        return f"behind by {-difference.value:.2f} [{-difference.high:.2f}, {-difference.low:.2f}] points"
    return f"not told apart ({difference} points)"


def nearest(found: Mapping[str, Comparison]) -> tuple[str, Comparison] | None:
    """The title of the plain scheme that is nearest to the annealed one, or ahead of it, and the difference."""
    arm = best_other(found)
    return None if arm is None else (TITLES[arm], found[arm])


def at_both_counts(title: str, found: Mapping[str, Mapping[str, Comparison]]) -> str:
    """One sentence for a data set: against the nearest plain scheme by each count, with J on each kind of records."""
    kinds = {
        "accepted": "at equal accepted updates",
        "unseen, accepted": "there, on the test records that J never saw,",
        "queries": "at equal queries",
        "unseen, queries": "there, on the records that J never saw,",
        "held, accepted": "with J on held-out records, at as many accepted updates as those runs have,",
        "held, queries": "with J on held-out records, at an equal budget for queries,",
    }
    near = {words: one for kind, words in kinds.items() if (one := nearest(found.get(kind, {})))}
    names = {name for name, _ in near.values()}
    parts = [
        f"{words} it is {said(one.difference)}" + (f" ({name})" if len(names) > 1 else "")
        for words, (name, one) in near.items()
    ]
    against = "the nearest other scheme that was run"
    if len(names) == 1:
        alone = len({arm for some in found.values() for arm in some}) == 1
        against = f"{names.pop()}, the {'only' if alone else 'nearest'} other scheme that was run"
    return f"On {title}, the annealed method against {against}: {'; '.join(parts)}." if parts else ""


def answers(compared: Mapping[str, Mapping[str, Mapping[str, Comparison]]]) -> str:
    """Does screening gain, by each count? In words, for each data set: ahead of all other schemes, behind one of them.

    "Behind" is by Bonferroni over the schemes.

    Args:
        compared: title of a data set to comparisons by count, as for :func:`at_both_counts`.
    """
    kinds = {
        "accepted": "At equal accepted updates, the paper's count",
        "queries": "At equal noisy gradients, what an accountant counts",
    }
    sentences = []
    for kind, words in kinds.items():
        parts = []
        for title, found in compared.items():
            every = list(found.get(kind, {}).values())
            if every and beyond(every):
                parts.append(f"no, it loses on {title}")
            elif not every or not enough(every):
                parts.append(f"too few runs to say on {title}")
            else:
                ahead = all(above(one.difference) for one in every)
                parts.append(f"{'yes' if ahead else 'not beyond chance'} on {title}")
        sentences.append(f"{words}: {', '.join(parts)}.")
    return f"Does screening gain? {' '.join(sentences)}"


def gain_because(names: Sequence[str], compared: Mapping[str, Mapping[str, Mapping[str, Comparison]]]) -> str:
    """On what the verdict about the gain rests."""
    if not names:
        return "No data set of the claim has two seeds or more here."
    parts = []
    for name in names:
        paper, honest = (nearest(compared[name][kind]) for kind in ("accepted", "queries"))
        words = []
        if paper:
            words.append(f"at equal accepted updates {said(paper[1].difference)} ({paper[0]})")
        if honest:
            words.append(f"at equal noisy gradients {said(honest[1].difference)} ({honest[0]})")
        if over := compared[name]["accepted"].get("dpsgd_auto_s"):
            published = claims.get(f"D.table1.{name}").published
            printed = published["ours"] - published["dpsgd_auto_s"]
            words.append(f"over AUTO-S {over.difference} at equal accepted updates, where {printed:.2f} is printed")
        parts.append(f"{DATA[name]}: {', '.join(words)}")
    return (
        f"Against the nearest other scheme that was run, by seed, J on test records. {'; '.join(parts)}. "
        "'Holds with change' would say: ahead of every scheme beyond chance by the paper's count, but not when the "
        "rejected gradients count too. What ε the accepted updates really spend is a matter of its own."
    )


def loss_because(gaps: Mapping[str, Measured], found: Mapping[str, Choice], size: int, held: int) -> str:
    """On what the verdict about J's data rests.

    Args:
        gaps: by data set, points of accuracy on the test records of J less those on the others. found: by data set,
            J on test records less J on held-out ones. size: of J's set. held: training records set aside.
    """
    text = (
        f"The runs have J on {size} test records; all of them would be the literal reading. It cannot be meant for a "
        "release: such records steer every step without noise, and Section 3.3 says that nothing but gradients depends "
        "on data. The change: J on records that are neither reported on nor private. "
    )
    for title, gap in gaps.items():
        text += f"{title}: the accuracy on the test records of J less that on the others is {gap} points. "
    for title, one in found.items():
        parts = [
            f"{said(c.difference)} at equal {what}"
            for what, c in (("budget for queries", one.queries), ("budget for accepted updates", one.accepted))
            if c
        ]
        if parts:
            text += f"{title}: J on test against J on held-out records is {', '.join(parts)}. "
    if not found:
        return text + "No run with held-out records is here."
    return text + f"Runs with J on held-out records train on {held:,} fewer: this is not the leak alone."


@dataclass(frozen=True)
class Witnessed:
    """What runs with a witness say of accepted updates: values and verdict of the ledger's row, and a sentence."""

    verdict: str
    because: str
    text: str
    values: dict[str, Measured | int] = field(default_factory=dict)


def witnessed(results: Sequence[Mapping], lower: Measured, watched: float, epsilon: float) -> Witnessed:
    """The claim that accepted updates keep training mostly on its way, by a second loss that decides nothing.

    Args:
        results: of runs with a witness; J, by which the updates were chosen, cannot be one.
        lower: percent of accepted updates that lower J.
        watched, epsilon: the budgets of those runs and of the others.
    """
    mostly = f"'Mostly' is read as more than half. {lower}% of the accepted updates lower J itself. "
    if not results:
        words = "Whether what lowers J also lowers the training loss was not watched in this run."
        return Witnessed("undecided", mostly + words, words)
    values = witness_shares(results)
    found = values["accepted_that_lower_the_training_loss_percent"]
    refused = values.get("rejected_that_lower_the_training_loss_percent")
    also = "" if refused is None else f", and {refused}% of the rejected candidates would have"
    text = (
        f"Watched by 5,000 other training records up to ε = {watched:g} ({len(results)} runs), {found}% of the "
        f"accepted updates lower the training loss{also}; J and that loss move the same way in "
        f"{values['J_and_training_loss_agree_percent']}% of the queries (correlation "
        f"{values['correlation_of_the_changes']})."
    )
    verdict = "undecided"
    if (found.n or 0) >= FIVE and found.low > 50:
        verdict = "holds" if watched >= epsilon else "holds with change"
    elif (found.n or 0) >= FIVE and found.high < 50:
        verdict = "fails"
    change = " The change: the rest of the way was not watched." if verdict == "holds with change" else ""
    return Witnessed(verdict, mostly + text + change, text, values)


def budget_cell(budgets: Sequence[float | None], limit: float | None) -> str:
    """Budgets that reached a target, as text for a table."""
    value = budget_value(budgets, limit)
    return value if isinstance(value, str) else str(value)


def budget_value(budgets: Sequence[float | None], limit: float | None) -> Measured | str:
    """Mean and interval of budgets by seed; or how many reached the target; or a dash without runs."""
    if not budgets:
        return "–"
    reached = [b for b in budgets if b is not None]
    if len(reached) == len(budgets):
        return measured(reached)
    within = "" if limit is None else f" within {limit:g}"
    return f"{len(reached)} of {len(budgets)} runs{within}"


def momentum_words(runs: Mapping, moving: Mapping, between: Mapping[str, Comparison], epsilon: float) -> str:
    """What leaving out the momentum does, or that it was not run.

    Args:
        runs: results without momentum by name. moving: accuracies by seed with it at the same budget, or None.
        between: by count, the annealed method less DPSGD (tanh), both without.
    """
    if not runs:
        return "What leaving it out does was not run in this profile; all schemes have it."
    names = {"dpsgd, no momentum": "DPSGD (tanh)", "ours, no momentum": "the annealed method"}
    parts = []
    for name, results in runs.items():
        found = accuracies(results)
        text = f"{names[name]} has {measured(found)}% without it"
        if moving.get(name) is not None:
            text += f", {said(compare(found, 100 * moving[name]).difference)} against its runs with it"
        parts.append(text)
    counts = {"accepted": "equal accepted updates", "queries": "equal queries"}
    against = [f"{said(between[c].difference)} at {words}" for c, words in counts.items() if c in between]
    text = f"At ε = {epsilon:g} and with the printed learning rate, {'; '.join(parts)}."
    return text + (f" Both without it, the annealed method is {', and '.join(against)}." if against else "")


def run_story(
    compared: Mapping[str, Mapping], spent: Mapping[str, Mapping[str, Measured]], seeds: Mapping[str, int]
) -> str:
    """The paragraph about this run, at the top of the page."""
    parts = []
    for title, found in compared.items():
        costs = spent[title]
        ratio = costs["queries"].value / costs["accepted"].value
        parts.append(
            f"On {title} ({seeds[title]} seed{'s' if seeds[title] > 1 else ''}) an accepted update took {ratio:.2f} "
            f"noisy gradients, so that the annealed runs, at ε = {costs['paper'].value:.2f} by the paper's count, "
            f"spent {costs['rdp'].value:.2f} (RDP) or {costs['pld'].value:.2f} (PLD) for all queries; the accepted "
            f"ones alone would spend {costs['pld_accepted'].value:.2f} by PLD. " + at_both_counts(title, found)
        )
    return " ".join(parts)[:1].lower() + " ".join(parts)[1:] if parts else "nothing was run."


def frozen_story() -> str:
    """The paragraph about the frozen long run, from its records; says so where there is none."""
    gain = claims.frozen("D.s-gain-same-hyperparameters")
    if gain is None:
        return "The long run on the paper's data is not frozen yet."
    values = gain["values"]
    parts = []
    for name, title in SETS.items():
        paper, honest = (_measured(values.get(f"{kind}_{name}")) for kind in ("gain", "gain_equal_queries"))
        if paper is None:
            continue
        text = (
            f"On {title}, at equal accepted updates, the annealed method is {said(paper)} against "
            f"{values.get(f'nearest_{name}', 'the nearest scheme')}, the nearest of {values.get(f'others_run_{name}')}"
        )
        if paper.low is not None and paper.n:
            text += f" ({paper.n} seeds)"
        if honest is not None:
            text += f"; at equal noisy gradients it is {said(honest)}"
        held = _measured(values.get(f"gain_held_equal_queries_{name}"))
        if held is not None:
            text += f", and {said(held)} with J on held-out records"
        unseen = _measured(values.get(f"gain_unseen_{name}"))
        if unseen is not None:
            text += f". On the test records that J never saw, at equal accepted updates, it is {said(unseen)}"
        row = claims.frozen(f"D.table1.{name.replace('_', '-')}")
        if row and "queries_an_accepted_update" in row["values"]:
            cost, kept = (_measured(row["values"].get(f"epsilon_{kind}")) for kind in ("pld", "pld_accepted"))
            alone = "less" if kept is None else f"{kept.value:.2f}"
            text += (
                f". An accepted update took {row['values']['queries_an_accepted_update']:.1f} noisy gradients, and all "
                f"of them cost ε = {cost.value:.2f} by PLD, the accepted ones alone {alone}; 3 is claimed"
            )
        parts.append(text + ".")
    return f"In the frozen run of {gain['provenance']['date'][:10]}: " + " ".join(parts)


def frozen_readings(sizes: bool) -> str:
    """What the frozen long run says of other readings, or of other sizes of J's set; nothing without such runs."""
    row = claims.frozen("D.s-loss-on-which-data")
    values, end, parts = (row["values"] if row else {}), ": points less the printed reading", []
    for name in [name.removesuffix(end) for name in values if name.endswith(end)]:
        where, _, reading = name.rpartition(", ")
        if reading.endswith(" test records") is sizes:
            points, queries = (_measured(values[name + what]) for what in (end, ": queries an accepted update"))
            parts.append((where, f"{reading} {points} ({queries.value:.2f})"))
    if not parts:
        return ""
    return (
        f" In the frozen run ({parts[0][0]}, {points.n} seeds), points of accuracy less the printed reading, and "
        f"queries an accepted update in brackets: {'; '.join(part for _, part in parts)}."
    )


def _measured(value) -> Measured | None:
    if value is None:
        return None
    return Measured(**value) if isinstance(value, Mapping) else Measured(float(value))
