"""The page of the papers' headlines: of each block its rules and runs by the log, its verdicts, and what is open."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from book.evidence import blocks, history, rules
from book.evidence.claims import Claim
from book.press import ledger, typed
from dplib.checks import ParameterError

SHOWN = 3  # open comparisons of a row
FAR = 100  # times as many runs
WHEN = {
    history.FIRST: ", set before its runs",
    history.MIXED: ", set before some of its runs",
    history.KNOWN: ", set with its runs known",
    history.UNKNOWN: ", in unknown order to its runs",
    history.NO_RUNS: ", and it has no runs yet",
    history.NO_RULE: "",
}


def markdown(rows: Sequence[ledger.Row]) -> str:
    """The answer to each block's question; then what was expected, what came, when rules and runs did, what is open."""
    stored = history.read()
    by_id = {row.claim.id: row for row in rows}
    claims = {id_: row.claim for id_, row in by_id.items()}
    found, evidence = [], []
    for number, block in enumerate(blocks.read(), 1):
        of_block = [by_id[id_] for id_ in block.of_rows(claims)]
        found.append(f"{number}. **[{block.title}](block-{number})** {block.found}{_count(of_block)}")
        parts = {part: stored["blocks"][part] for part in block.of_parts(stored["blocks"])}
        heading = (
            f"(block-{number})=\n\n## {number}. {block.title}\n\n"
            f"Paper {block.paper}. **We expected:** {block.expected}\n\n**What came:** {block.came}\n"
        )
        evidence += [heading, _summary(block, parts)]
        if of_block:
            waiting = [part for part, about in parts.items() if about["missing"]]
            evidence.append(_rows(of_block, stored))
            evidence.append(_open([row for row in of_block if row.verdict == rules.UNDECIDED], waiting))
    edition = f"\nThe last edition ended with commit `{history.reasons().edition[:7]}`.\n"
    return "\n".join([*found, edition, *evidence])


def parts() -> Iterator[typed.Part]:
    """What is said by hand of each block, and what its numbers come from."""
    for block in blocks.read():
        yield typed.Part(f"{blocks.PATH.name}, “{block.title}”", f"{block.found} {block.came}", block.numbers)


def _count(rows: Sequence[ledger.Row]) -> str:
    """How its rows stand, in a bracket."""
    verdicts = Counter(row.verdict for row in rows).most_common()
    told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts)
    return f" *({'One row' if len(rows) == 1 else f'{len(rows)} rows'}: {told}.)*" if rows else ""


def _summary(block: blocks.Block, parts: Mapping[str, Mapping[str, Any]]) -> str:
    """When the parts were registered, when their runs were made, and what they took."""
    days = sorted(day for about in parts.values() for day in about["days"])
    new, hours, on_gpu = (sum(about[key] for about in parts.values()) for key in ("new", "hours", "gpu_hours"))
    took = f"{hours:.1f} core-hours" + (f" and {60 * on_gpu:.0f} minutes of a GPU, side by side" if on_gpu else "")
    made = f"{new:,} runs since, which ended from {days[0]} to {days[-1]}, in {took}" if new else "no run since"
    complete = sum(not about["missing"] for about in parts.values())
    if bool(block.left) == (complete == len(parts)):
        raise ParameterError(
            f"{blocks.PATH.name}, “{block.title}”: {complete} of {len(parts)} parts are complete, and left is "
            f"“{block.left}”; it says what the missing parts still cost, and is empty where none is missing."
        )
    still = f" What is missing costs {block.left}." if block.left else ""
    return (
        f"{_registered(parts)}; {made}. Core-hours reckoned beforehand: {block.reckoned:g}. "
        f"{complete} of {len(parts)} parts are complete.{still}\n"
    )


def _registered(parts: Mapping[str, Mapping[str, Any]]) -> str:
    """The commits that registered the parts, by time, with how many parts each."""
    counted = Counter(tuple(reversed(about["registered"])) for about in parts.values())
    told = [
        (f"`{commit[:7]}`, {when}" if commit else "a change to come")
        + (f" ({count} part{'s' if count > 1 else ''})" if len(counted) > 1 else "")
        for (when, commit), count in sorted((key or ("~", ""), count) for key, count in counted.items())
    ]
    return f"Registered by {', then '.join(told)}"


def _rows(rows: Sequence[ledger.Row], stored: Mapping[str, Any]) -> str:
    """The rows by verdict, folded; those of which the same is to be said together, and no table: a phone has no room
    for its columns.
    """
    same: dict[tuple[str, ...], list[ledger.Row]] = {}
    for row in rows:
        same.setdefault((_standing(row, stored), *_changes(row)), []).append(row)
    lines = []
    for (told, *changes), alike in same.items():
        lines += [f"- {told}: {', '.join(map(_link, alike))}.", *(f"  - {change}" for change in changes)]
    title = "Its row, its verdict" if len(rows) == 1 else f"Its {len(rows)} rows, their verdicts"
    return "\n".join([f"```{{dropdown}} {title}, and when the rules were set", *lines, "```\n"])


def _standing(row: ledger.Row, stored: Mapping[str, Any]) -> str:
    """A row's verdict, what it was in the last edition, and of when its rule is."""
    before, _ = history.since_last_edition(stored, row.claim.id)
    then = "a new row" if not before else "as in the last edition" if before == row.verdict else f"was {before}"
    decided = history.deciding(stored["rows"].get(row.claim.id, {"versions": []}))
    commit = decided[-1]["commit"] if decided else ""
    ruled = f"; rule of {stored['commits'][commit]} (`{commit[:7]}`)" if commit else ""
    now = f"**{row.verdict}**" + (f", {row.points}" if row.points else "")
    return f"{now}; {then}{ruled}{WHEN[row.past.order]}"


def _changes(row: ledger.Row) -> list[str]:
    """Each change of what decides a row, with its reason; those of which none is on record are counted."""
    told = [sentence for sentence in row.past.sentences if sentence.startswith("Changed ")]
    without = [sentence for sentence in told if sentence.endswith(history.NO_REASON)]
    counted = f"{len(without)} earlier change{'s' if len(without) > 1 else ''}, with no reason on record."
    return ([counted] if without else []) + [sentence for sentence in told if sentence not in without]


def _open(rows: Sequence[ledger.Row], waiting: Sequence[str]) -> str:
    """What keeps rows open and what would decide them, folded; rows of which the same is to be said together."""
    if not rows:
        return ""
    same: dict[str, list[ledger.Row]] = {}
    for row in rows:
        same.setdefault(_why(row), []).append(row)
    lines = [f"- {', '.join(map(_link, alike))}: {why}" for why, alike in same.items()]
    missing = f"Runs are missing of {', '.join(f'`{part}`' for part in waiting)}." if waiting else ""
    count = "the open row" if len(rows) == 1 else f"the {len(rows)} open rows"
    lines += ["", missing] if missing else []
    return "\n".join([f"```{{dropdown}} What would decide {count}?", *lines, "```\n"])


def _why(row: ledger.Row) -> str:
    """What keeps a row open, how wide its intervals are and may be, and what would decide it."""
    claim = row.claim
    if not claim.to_decide:
        raise ParameterError(f'{claim.id} is open, and because = "{claim.because}" does not say "To decide: " how.')
    comparisons = rules.still_open(asdict(claim), row.values, claim.published)
    measured = [each for each in comparisons if not math.isnan(each.measured.value)]
    told = [_comparison(each, claim) for each in measured[:SHOWN]]
    told += [f"{len(measured) - SHOWN} more"] if len(measured) > SHOWN else []
    absent = len(comparisons) - len(measured)
    told += [f"{absent} comparison{'s' if absent > 1 else ''} not measured yet"] if absent else []
    instead = [f"Run in place of what it names was {claim.stand_in.rstrip('.')}."] if claim.stand_in else []
    return " ".join([*([f"{'; '.join(told)}."] if told else []), *instead, claim.to_decide])


def _comparison(comparison: rules.Open, claim: Claim) -> str:
    """How far the interval of a comparison reaches towards its bound, how far it may, and runs for that."""
    measured, name = comparison.measured, comparison.name
    name = claim.labels.get(name, ledger.readable(name))
    if measured.low is None or measured.high is None:
        return f"{name} is {measured}, of one run"
    if measured.n and measured.n < comparison.asked:
        return f"{name} is {measured} by {measured.n} runs of {comparison.asked} asked for"
    if not comparison.away:
        return f"{name} is {measured}, on the bound itself: no number of runs decides while it stays there"
    needed = (comparison.reach / comparison.away) ** 2
    runs = f"about {needed:.2g} times as many runs" if needed <= FAR else f"more than {FAR} times as many runs"
    return f"{name} is {measured}, ± {comparison.reach:.2g} where ± {comparison.away:.2g} would decide: {runs}"


def _link(row: ledger.Row) -> str:
    return f'<a href="ledger.html#{row.claim.id}"><code>{row.claim.id}</code></a>'
