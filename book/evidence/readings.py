"""Blind readings of the ledger: packets from which a row is judged anew, and how far two readings agree.

A packet has a statement, its place, what the text allows a fair reader, the rule in words, and the values with their
units; not the verdict, not its reason, and not what another reading says. Among the packets are plants: packets of a
row whose values were turned so that its rule comes out another way. A reading that gives a plant the verdict of the
untouched row has not looked at the values.

:func:`packets` makes them, :func:`score` reads the answers. Both readings are automated and of one kind: their
agreement shows that rule and text are clear, not that they are true.
"""

import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

from book.evidence import claims, margins, rules
from book.evidence.claims import CLAIMS, Claim
from book.evidence.places import ROOT
from dplib import checks, files
from dplib.checks import ParameterError
from dplib.stats import Measured

PATH = CLAIMS / "readings.json"
WORDS = (rules.HOLDS, rules.CORRECTED, rules.FAILS, rules.UNSTATED, rules.UNDECIDED, rules.NOT_TESTED)
PLANTS = 24
IN_A_BATCH = 14


@dataclass(frozen=True)
class Packet:
    """A row to be judged: its claim, the values beside it, and the verdict that its rule gives them.

    Attributes:
        claim, values: the row, and its values by name.
        wanted: what the rule makes of these values; the reader does not see it.
        plant: whether the values were turned.
    """

    claim: Claim
    values: Mapping[str, Any]
    wanted: str
    plant: bool = False


def packets(
    rows: Iterable[tuple[Claim, Mapping[str, Any], str]], first: Sequence[str] = (), seed: int = 0
) -> list[list[Packet]]:
    """Batches of packets, one for each claim and some plants, no plant in the batch of its row.

    Args:
        rows: (claim, values, verdict) of the ledger's rows; those of other sorts than claim are left out.
        first: ids of rows that come in the first batches, such as disputed ones.
        seed: of the order, and of what is turned.
    """
    rng = random.Random(seed)
    real = [
        Packet(claim, values, verdict) for claim, values, verdict in rows if claim.sort == "claim" and verdict in WORDS
    ]
    rng.shuffle(real)
    real.sort(key=lambda packet: packet.claim.id not in first)  # stable: disputed rows first, each part shuffled
    batches = [real[i : i + IN_A_BATCH] for i in range(0, len(real), IN_A_BATCH)]
    planted = itertools.islice(plants(real, rng), PLANTS)
    for number, plant in enumerate(planted):
        others = [batch for batch in batches if all(packet.claim.id != plant.claim.id for packet in batch)]
        batch = (others or batches)[number % len(others or batches)]
        batch.insert(rng.randrange(len(batch) + 1), plant)
    return batches


def plants(real: Sequence[Packet], rng: random.Random) -> Iterator[Packet]:
    """Of decided rows a copy whose values lie on the other side of what the rule asks, where that is plausible."""
    decided = [packet for packet in real if packet.wanted in (rules.HOLDS, rules.CORRECTED, rules.FAILS)]
    for packet in rng.sample(decided, len(decided)):
        values = {**packet.values, **dict(_turned(packet))}
        verdict = rules.verdict(asdict(packet.claim), values, packet.claim.published)
        if verdict in (rules.HOLDS, rules.FAILS, rules.UNSTATED) and verdict != packet.wanted:
            yield replace(packet, values=values, wanted=verdict, plant=True)


def _turned(packet: Packet) -> Iterator[tuple[str, Measured]]:
    """Values that must lie above or below a bound, mirrored in it; a share stays one, and what is positive does. Of
    values that must rise, the order turned round.
    """
    for name, bound in _bounds(packet.claim.rule):
        value = packet.values.get(name)
        value = Measured(**value) if isinstance(value, Mapping) else value
        bound = bound if isinstance(bound, Real) else packet.claim.published.get(bound)
        if not (isinstance(value, Measured) and value.low is not None and isinstance(bound, Real)):
            continue
        ends = {"low": 2 * bound - value.high, "high": 2 * bound - value.low}
        turned = replace(value, value=2 * bound - value.value, **ends, share=False)
        share = bound and 0 <= value.low <= value.high <= 1
        if (
            math.isfinite(turned.value)
            and not (bound and turned.low < 0 <= value.low)
            and not (share and turned.high > 1)
        ):
            yield name, turned
    for names in _orders(packet.claim.rule):
        values = [packet.values.get(name) for name in names]
        if all(isinstance(value, Measured | Mapping) for value in values):
            yield from zip(names, reversed(values), strict=True)


def _bounds(rule: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names of values that a rule wants above or below something, each with that."""
    kind, about = rules.kind_of(rule)
    if kind in rules.COMBINED:
        for inner in about:
            yield from _bounds(inner)
    elif kind in ("ahead", "behind"):
        by = about.get("by", 0)
        yield about["value"], margins.bound(by) if isinstance(by, Mapping) else by
    elif kind == "in_range" and len(ends := [about[end] for end in ("least", "most") if end in about]) == 1:
        yield about["value"], margins.bound(ends[0]) if isinstance(ends[0], Mapping) else ends[0]


def _orders(rule: Mapping[str, Any]) -> Iterator[list[str]]:
    """Names of values that a rule wants in an order."""
    kind, about = rules.kind_of(rule)
    if kind in rules.COMBINED:
        for inner in about:
            yield from _orders(inner)
    elif kind == "ordered":
        yield about["values"]


def text(batch: Sequence[Packet], number: int, page: str) -> str:
    """A batch as a text for a reader; ``page`` says what the words mean."""
    answers = ", ".join(f'"{name(number, i)}": "..."' for i in range(1, 3))
    head = (
        f"# Packets, batch {number}\n\nJudge each packet below by its own values, by the page that "
        "follows, and by nothing else. Do not open the ledger, its chapters or the repository. Some packets are "
        "plants whose values were turned. "
        f"Answer with one JSON object, {{{answers}, …}}, one of these words for each packet: "
        f"{', '.join(WORDS)}.\n\n{page}\n"
    )
    return head + "".join(_packet(packet, name(number, i)) for i, packet in enumerate(batch, 1))


def words_page() -> str:
    """What the words mean and by what standard, from the page How to read a verdict."""
    text = (ROOT / "book" / "how_to_read.md").read_text(encoding="utf-8")
    return text.partition("<!-- standard -->")[2].partition("<!-- end of standard -->")[0].strip()


def name(number: int, place: int) -> str:
    """The name of a packet: its batch, and its place in it."""
    return f"{number:02d}-{place:02d}"


def _packet(packet: Packet, called: str) -> str:
    claim = packet.claim
    readings = rules.readings(claim.rule) if claim.rule else []
    lines = [
        f"\n## {called}\n",
        f"**Paper {claim.paper}, {claim.where}.** {claim.statement}",
        f"Tested by: {claim.tested_by}",
    ]
    lines += [f"About the print: {claim.note}"] if claim.note else []
    if readings:
        lines.append("What the text allows a fair reader:")
        lines += [f"- reading {i}: {rules.words(reading)}" for i, reading in enumerate(readings, 1)]
    elif claim.rule:
        lines.append(f"Holds as printed if: {rules.words(claim.rule)}")
    lines += (
        [f"Proposed correction: {claim.correction} It is confirmed if: {rules.words(claim.corrected)}"]
        if claim.corrected
        else []
    )
    lines += [f"Not printed, though needed: {claim.unstated}."] if claim.unstated else []
    lines += [f"Run in place of what the statement names: {claim.stand_in}."] if claim.stand_in else []
    lines += [f"Not measured: {why}." for why in dict.fromkeys(claim.absent.values())]
    return "\n".join([*lines, *values_of(packet)]) + "\n"


def values_of(packet: Packet) -> Iterator[str]:
    """The lines of a packet that say what is printed and what was measured."""
    claim = packet.claim
    unit = f" ({claim.unit})" if claim.unit else ""
    yield f"Values{unit}, with 95% intervals and n runs:"
    for value in dict.fromkeys([*claim.published, *packet.values]):
        printed = f"printed {claims.shown(claim.published[value])}; " if value in claim.published else ""
        measured = packet.values.get(value)
        runs = f", n = {_runs(measured)}" if _runs(measured) else ""
        yield f"- {claim.labels.get(value, value.replace('_', ' '))}: {printed}measured {_shown(measured)}{runs}"


def _shown(value: Any) -> str:
    return claims.shown(asdict(value) if isinstance(value, Measured) else value)


def _runs(value: Any) -> int | None:
    return value.n if isinstance(value, Measured) else value.get("n") if isinstance(value, Mapping) else None


def check_key(path: Path) -> None:
    """Refuse a folder whose packets are out: with another key nothing that their readers answer could be scored."""
    if path.exists():
        raise ParameterError(f"{path} is there: without it the answers to its packets are lost. Give another folder.")


def write(batches: Sequence[Sequence[Packet]], folder: Path) -> None:
    """Write batches to a folder, a text each, and ``key.json``, which no reader may see."""
    check_key(folder / "key.json")
    page = words_page()
    (folder / "batches").mkdir(parents=True, exist_ok=True)
    key = {}
    for number, batch in enumerate(batches, 1):
        files.publish(folder / "batches" / f"batch_{number:02d}.md", text(batch, number, page))
        for place, packet in enumerate(batch, 1):
            key[name(number, place)] = {"row": packet.claim.id, "wanted": packet.wanted, "plant": packet.plant}
    files.publish(folder / "key.json", json.dumps(key, indent=1) + "\n")


def score(folder: Path) -> dict[str, Any]:
    """What the readings of a folder of packets say: ``first/*.json``, ``second/*.json``, and ``third`` if there is one.

    Returns:
        "packets", and "plants" of them; "caught" of the plants by each reading; of the other packets, where both
        readings have them, "both", "agree" and "kappa" (Cohen's); "with_ledger", how often each is the ledger's own
        verdict; and "disputed", the rows on which the readings differ, with the ledger's verdict, theirs, and what they
        settle on: the word that two of three have, else undecided.

    Raises:
        ParameterError: for a word that is no verdict, or a packet that does not exist.
    """
    key = files.read(folder / "key.json")
    given = {reading: answers(folder / reading, key) for reading in ("first", "second", "third")}
    first, second, third = given.values()
    plants = [packet for packet, entry in key.items() if entry["plant"]]
    both = [packet for packet in key if packet in first and packet in second and packet not in plants]
    agree = [packet for packet in both if first[packet] == second[packet]]
    caught = {
        reading: [
            sum(answers[p] == key[p]["wanted"] for p in plants if p in answers),
            sum(p in answers for p in plants),
        ]
        for reading, answers in given.items()
        if answers
    }
    with_ledger = {
        reading: [sum(answers[p] == key[p]["wanted"] for p in both), len(both)]
        for reading, answers in (("first", first), ("second", second))
    }
    disputed = [
        {
            "row": key[p]["row"],
            "ledger": key[p]["wanted"],
            "first": first[p],
            "second": second[p],
            "settled": _settled(first[p], second[p], third.get(p)),
        }
        for p in both
        if first[p] != second[p]
    ]
    against = [
        {"row": key[p]["row"], "ledger": key[p]["wanted"], "both": first[p]}
        for p in agree
        if first[p] != key[p]["wanted"]
    ]
    return {
        "packets": len(key), "plants": len(plants), "caught": caught, "both": len(both), "agree": len(agree),
        "kappa": round(kappa([(first[p], second[p]) for p in both]), 3) if both else None,
        "with_ledger": with_ledger, "disputed": disputed, "against": against,
    }  # fmt: skip


def kappa(pairs: Sequence[tuple[str, str]]) -> float:
    """Cohen's kappa of two readings: the share of agreement beyond that of chance, (p - e) / (1 - e)."""
    n = len(pairs)
    agreed = sum(a == b for a, b in pairs) / n
    first, other = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(first[word] * other[word] for word in first) / n**2
    return 1.0 if chance == 1 else (agreed - chance) / (1 - chance)


def _settled(first: str, second: str, third: str | None) -> str:
    """The verdict of three readings of which two differ; "" where the third is still to be made."""
    if third is None:
        return ""
    return third if third in (first, second) else rules.UNDECIDED


def answers(folder: Path, key: Collection[str], allowed: Collection[str] = WORDS) -> dict[str, str]:
    """The word that a reader gave each packet, as such or with a reason beside it.

    Args:
        folder: of the reader's files, each {packet: word} or {packet: {"verdict": word, "why": a sentence}}.
        key: the packets that there are.
        allowed: the words.

    Raises:
        ParameterError: for a packet or a word that there is not.
    """
    words: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        for packet, answer in files.read(path).items():
            word = answer.get("verdict") if isinstance(answer, Mapping) else answer
            if packet not in key:
                raise ParameterError(f"{path}: packet = {checks.shown(packet)} is not allowed: it is not in the key.")
            if word not in allowed:
                raise ParameterError(
                    f"{path}: {packet} = {checks.shown(word)} is not allowed: it must be one of {', '.join(allowed)}."
                )
            words[packet] = word
    return words
