"""The page of the papers' headlines: of each block its rules and runs by the log, its verdicts, and what is open."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from book.evidence import blocks, history, plans, rules, sources
from book.press import ledger
from book.press.tables import table

SHOWN = 3  # open comparisons of a row
FAR = 100  # times as many runs


def markdown(rows: Sequence[ledger.Row]) -> str:
    """Every block: when rules and runs came, its rows with their verdicts, and what would decide the open ones."""
    stored = history.read()
    by_id = {row.claim.id: row for row in rows}
    claims = {id_: row.claim for id_, row in by_id.items()}
    held = {id_ for block in blocks.read() for id_ in block.of_rows(claims)}
    verdicts = Counter(row.verdict for row in rows if row.claim.id in held)
    texts = [f"{len(held)} rows: {', '.join(f'{n} {verdict}' for verdict, n in verdicts.most_common())}.\n"]
    for number, block in enumerate(blocks.read(), 1):
        texts.append(f"## {number}. {block.title}\n\nPaper {block.paper}. We expected: {block.expected}\n")
        texts.append(_summary(block, {part: stored["blocks"][part] for part in block.of_parts(stored["blocks"])}))
        if of_block := [by_id[id_] for id_ in block.of_rows(claims)]:
            texts.append(_rows(of_block, stored))
            texts.append(_open([row for row in of_block if row.verdict == rules.UNDECIDED]))
    return "\n".join(texts)


def _summary(block: blocks.Block, parts: Mapping[str, Mapping[str, Any]]) -> str:
    """When the parts were registered, when their runs were made, what they took, and which of them wait."""
    registered = dict(about["registered"] for about in parts.values() if about["registered"])
    by = " and ".join(f"`{commit[:7]}`, {when}" for commit, when in registered.items()) or "a change to come"
    days = sorted(day for about in parts.values() for day in about["days"])
    new, hours = (sum(about[key] for about in parts.values()) for key in ("new", "hours"))
    made = f"{new:,} runs since, from {days[0]} to {days[-1]}, in {hours:.1f} core-hours" if new else "no run since"
    waiting = [f"`{part}`" for part, about in parts.items() if about["missing"]]
    left = f"; runs are missing of {', '.join(waiting)}" if waiting else ""
    return (
        f"Registered by {by}; {made}. Before them {block.reckoned:g} core-hours were reckoned for all. "
        f"Complete are {len(parts) - len(waiting)} of {len(parts)} parts{left}.\n"
    )


def _rows(rows: Sequence[ledger.Row], stored: Mapping[str, Any]) -> str:
    lines = []
    for row in rows:
        before, _ = history.since_last_edition(stored, row.claim.id)
        decided = history.deciding(stored["rows"].get(row.claim.id, {"versions": []}))
        commit = decided[-1]["commit"] if decided else ""
        ruled = f"{stored['commits'][commit]}, `{commit[:7]}`" if commit else "–"
        now = f"**{row.verdict}**" + (f", {row.points}" if row.points else "")
        lines.append([f"{_link(row)}<br>{row.claim.where}", before or "new", now, ruled, ledger.BEFORE[row.past.order]])
    return table("row | last edition | now | its rule since | set before its runs", lines)


def _open(rows: Sequence[ledger.Row]) -> str:
    """What keeps rows open and what would decide them, folded; rows of which the same is to be said together."""
    if not rows:
        return ""
    same: dict[str, list[ledger.Row]] = {}
    for row in rows:
        same.setdefault(_why(row), []).append(row)
    lines = [f"- {', '.join(map(_link, alike))}: {why}." for why, alike in same.items()]
    on_gpu = [
        f"On a GPU all that chapter {sources.shown_number(study)} waits for takes {about.hours:g} hours, reckoned."
        for study in dict.fromkeys(sources.number(row.claim.chapter) for row in rows)
        if (about := plans.on_gpu(study))
    ]
    count = "the open row" if len(rows) == 1 else f"the {len(rows)} open rows"
    return "\n".join([f"```{{dropdown}} What would decide {count}?", *lines, "", " ".join(on_gpu), "```\n"])


def _why(row: ledger.Row) -> str:
    """What keeps a row open, and what would decide it."""
    claim = row.claim
    if claim.stand_in:
        return f"decided by nothing less than what it names; run was {claim.stand_in.rstrip('.')}"
    found = rules.still_open(asdict(claim), row.values, claim.published)
    names = [claim.labels.get(each.name, ledger.readable(each.name)) for each in found]
    absent = [name for each, name in zip(found, names, strict=True) if math.isnan(each.measured.value)]
    told = [
        _comparison(each, name) for each, name in zip(found, names, strict=True) if not math.isnan(each.measured.value)
    ]
    more = f" and {len(absent) - SHOWN} more" if len(absent) > SHOWN else ""
    told = told[:SHOWN] + ([f"{len(told) - SHOWN} more comparisons"] if len(told) > SHOWN else [])
    told += [f"not measured yet: {', '.join(absent[:SHOWN])}{more}"] if absent else []
    return "; ".join(told) or "counts or an order that its card shows"


def _comparison(comparison: rules.Open, name: str) -> str:
    measured = comparison.measured
    if measured.low is None or measured.high is None:
        return f"{name} is {measured}, of one run"
    if measured.n and measured.n < comparison.asked:
        return f"{name} is {measured} by {measured.n} runs of {comparison.asked} asked for"
    width = measured.high - measured.low
    needed = (width / 2 / comparison.away) ** 2 if comparison.away else math.inf
    runs = f"about {needed:.2g} times as many runs" if needed <= FAR else f"more than {FAR} times as many runs"
    return f"{name} is {measured}, an interval {width:.2g} wide; {2 * comparison.away:.2g} would decide, {runs}"


def _link(row: ledger.Row) -> str:
    return f'<a href="ledger.html#{row.claim.id}"><code>{row.claim.id}</code></a>'
