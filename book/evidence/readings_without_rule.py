"""Blind readings of a second kind: packets that have a paper's sentence and what was measured, and no rule.

A reader of :mod:`book.evidence.readings` is told the rule and mostly applies it, so that two of them hardly ever
differ. Here a packet has the statement, the paragraphs of the paper around it where its text is at hand, how it was
tested, and the values with intervals and settings. It has no rule, margin, correction, verdict, reason or name of a
row, and does not say what the paper leaves out. The reader has to find alone what would make the sentence true.

The sample is small and stratified: as many rows of each verdict, the papers in turn. A third are plants, rows of their
own whose values were turned round, those first in which all that was measured turns together.
"""

import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from book.evidence import claims, readings, rules
from book.evidence.claims import CLAIMS, Claim
from book.evidence.readings import Packet
from dplib import files
from dplib.checks import ParameterError
from dplib.stats import Measured

PATH = CLAIMS / "readings_without_rule.json"
STRATA = (rules.HOLDS, rules.CORRECTED, rules.FAILS, rules.UNSTATED, rules.UNDECIDED)
PACKETS, PLANTS, IN_A_BATCH = 60, 20, 15
SUPPORTED, REFUTED, OPEN = "as printed", "not as printed", "open"
COARSE = {
    rules.HOLDS: SUPPORTED, rules.CORRECTED: REFUTED, rules.FAILS: REFUTED, rules.UNSTATED: REFUTED,
    rules.UNDECIDED: OPEN, rules.NOT_TESTED: OPEN,
}  # fmt: skip
WORDS_AROUND = 260  # of a paper in a packet
PIECE = 80  # words of a long paragraph before it is cut at the next end of a sentence


def sample(rows: Iterable[tuple[Claim, Mapping[str, Any], str]], seed: int = 0) -> list[Packet]:
    """The packets in the order in which they are read: as many rows of each verdict, and plants of other rows.

    Args:
        rows: (claim, values, verdict) of the ledger's rows; those of other sorts than claim, and those without a
            measured value, are left out.
    """
    rng = random.Random(seed)
    known = [
        Packet(claim, values, verdict)
        for claim, values, verdict in rows
        if claim.sort == "claim" and verdict in STRATA and any(_interval(value) for value in values.values())
    ]
    plants = _plants(known, rng)
    taken = {packet.claim.id for packet in plants}
    drawn = _stratified([packet for packet in known if packet.claim.id not in taken], PACKETS - len(plants), rng)
    packets = [*plants, *drawn]
    rng.shuffle(packets)
    return packets


def _plants(known: Sequence[Packet], rng: random.Random) -> list[Packet]:
    """Plants of rows that hold and of rows that do not; those first in which every measured value is turned."""
    turned = [packet for packet in readings.plants(known, rng) if _other_side(packet)]
    turned.sort(key=lambda packet: _left(packet, known))  # stable: what is alike stays shuffled
    sides = [
        [packet for packet in turned if packet.wanted == rules.HOLDS],
        [packet for packet in turned if packet.wanted != rules.HOLDS],
    ]
    short = min(map(len, sides))
    half = min(short, PLANTS // 2)
    longer = max(sides, key=len)
    return [*min(sides, key=len)[:half], *longer[: PLANTS - half]]


def _other_side(plant: Packet) -> bool:
    return COARSE[plant.wanted] != COARSE[plant.claim.expects]


def _left(plant: Packet, known: Sequence[Packet]) -> int:
    """How many measured values of a plant are as they were."""
    row = next(packet for packet in known if packet.claim.id == plant.claim.id)
    return sum(plant.values[name] == value for name, value in row.values.items() if _interval(value))


def _interval(value: Any) -> bool:
    return isinstance(value, Measured) or (isinstance(value, Mapping) and "low" in value)


def _stratified(known: Sequence[Packet], n: int, rng: random.Random) -> list[Packet]:
    """``n`` rows, as equal a number of each verdict as there are, and within a verdict the papers in turn."""
    queues = {verdict: _in_turn([p for p in known if p.wanted == verdict], rng) for verdict in STRATA}
    packets: list[Packet] = []
    while len(packets) < n and any(queues.values()):
        for queue in filter(None, queues.values()):
            if len(packets) < n:
                packets.append(queue.pop(0))
    return packets


def _in_turn(known: Sequence[Packet], rng: random.Random) -> list[Packet]:
    papers: dict[str, list[Packet]] = defaultdict(list)
    for packet in rng.sample(known, len(known)):
        papers[packet.claim.paper].append(packet)
    places = {id(packet): (place, paper) for paper, queue in papers.items() for place, packet in enumerate(queue)}
    return sorted(known, key=lambda packet: places[id(packet)])


# --- the text of a packet ---------------------------------------------------------------------------------------------


def passages(folder: Path | None) -> dict[str, list[str]]:
    """The paragraphs of each paper whose text lies in a folder as ``A….txt``; {} without a folder."""
    texts: dict[str, list[str]] = {}
    for paper in claims.PAPERS if folder else ():
        for path in sorted(folder.glob(f"{paper}*.txt")):
            for paragraph in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
                texts.setdefault(paper, []).extend(_pieces(paragraph.split()))
    return texts


def _pieces(words: Sequence[str]) -> Iterator[str]:
    """A paragraph, in pieces that end with a sentence where it is long."""
    piece: list[str] = []
    for word in words:
        piece.append(word)
        if len(piece) >= PIECE and word.endswith((".", "?", "!")):
            yield " ".join(piece)
            piece = []
    if piece:
        yield " ".join(piece)


def context(claim: Claim, paragraphs: Sequence[str]) -> str:
    """The paragraph that shares most rare words with a statement, and those beside it; "" without a text."""
    if not paragraphs:
        return ""
    bags = [set(_words(paragraph)) for paragraph in paragraphs]
    common = Counter(word for bag in bags for word in bag)
    wanted = {*_words(f"{claim.where} {claim.statement}"), *_words(" ".join(map(str, claim.published.values())))}

    def shared(place: int) -> float:
        weight = sum(math.log(len(bags) / common[word]) for word in wanted & bags[place])
        return weight / math.sqrt(20 + len(bags[place]))  # a long paragraph has some of every word

    best = max(range(len(bags)), key=shared)
    chosen, size = [best], len(paragraphs[best].split())
    for place in (best + 1, best - 1):
        if 0 <= place < len(bags) and size + len(paragraphs[place].split()) <= WORDS_AROUND:
            chosen.append(place)
            size += len(paragraphs[place].split())
    return "\n>\n".join(f"> {' '.join(paragraphs[i].split()[:WORDS_AROUND])}" for i in sorted(chosen))


def _words(text: str) -> list[str]:
    return re.findall(r"[A-Za-zα-ωΑ-Ω][\w-]{2,}|\d+(?:\.\d+)?", text.lower())


def text(batch: Sequence[tuple[str, Packet]], page: str, texts: Mapping[str, Sequence[str]]) -> str:
    """Named packets as a text for a reader; ``page`` says what the words mean."""
    words = ", ".join(f'"{word}"' for word in STRATA)
    head = (
        "# Packets without a rule\n\nFor each packet say what its numbers make of the paper's sentence, by the page "
        "that follows and by nothing else. No rule is given: first say to yourself what would have to be measured for "
        "the sentence to be true and what would refute it, then look at the numbers. The numbers of some packets are "
        "not what was measured. Do not open the ledger, its chapters or the repository. Where the sentence is refuted "
        f'and you answer "{rules.CORRECTED}", say the corrected sentence. Answer with one JSON object: for each packet '
        f'{{"verdict": one of {words}, "why": a sentence}}.\n\n{page}\n'
    )
    return head + "".join(_packet(name, packet, texts.get(packet.claim.paper, ())) for name, packet in batch)


def _packet(name: str, packet: Packet, paragraphs: Sequence[str]) -> str:
    claim = packet.claim
    lines = [f"\n## {name}\n", f"**Paper {claim.paper}, {claim.where}.** {claim.statement}"]
    if around := context(claim, paragraphs):
        lines.append(f"\nThe paper, nearby:\n\n{around}\n")
    lines.append(f"How it was measured: {claim.tested_by}")
    lines += [f"Run in place of what the statement names: {claim.stand_in}."] if claim.stand_in else []
    lines += [f"Not measured: {why}." for why in dict.fromkeys(claim.absent.values())]
    return "\n".join([*lines, *_measured(packet)]) + "\n"


def _measured(packet: Packet) -> Iterator[str]:
    """What is printed and what was measured; values that no run has are counted."""
    lines = list(readings.values_of(packet))
    blank = [line for line in lines if re.search(r": measured –(?:, n = \d+)?$", line)]
    yield from (line for line in lines if line not in blank)
    if blank:
        yield f"- {len(blank)} more values that no run has"


def words_page() -> str:
    """What the words mean and by what standard, without what is said of rules, and of words that are not asked for."""
    rows, _, standard = readings.words_page().partition("\n\n")
    heading, *points = re.split(r"\n(?=- )", standard)
    kept = [point for point in points if not re.search(r"\b[Rr]ules?\b", point)]
    asked = [row for row in rows.splitlines() if not re.search(f"{rules.NOT_TESTED}|{claims.NOT_RUN}", row)]
    return "\n".join([*asked, "", heading.strip(), "", *kept])


def write(packets: Sequence[Packet], folder: Path, texts: Mapping[str, Sequence[str]], key: Path | None = None) -> None:
    """Write packets to a folder, some to a text, and the key, which no reader may see, to ``key``."""
    named = [(f"{number:02d}", packet) for number, packet in enumerate(packets, 1)]
    readings.check_key(key or folder / "key.json")
    page = words_page()
    (folder / "batches").mkdir(parents=True, exist_ok=True)
    for first in range(0, len(named), IN_A_BATCH):
        path = folder / "batches" / f"batch_{first // IN_A_BATCH + 1}.md"
        files.publish(path, text(named[first : first + IN_A_BATCH], page, texts))
    entries = {
        name: {"row": packet.claim.id, "wanted": packet.wanted, "plant": packet.plant, "ledger": packet.claim.expects}
        for name, packet in named
    }
    files.publish(key or folder / "key.json", json.dumps(entries, indent=1) + "\n")


# --- what the answers say ---------------------------------------------------------------------------------------------


def score(folder: Path, key: Path | None = None) -> dict[str, Any]:
    """What the readings of a folder say: ``first/*.json``, and ``second/*.json`` where there is a second.

    Returns:
        "packets", and "plants" of them; "caught", of each reading the plants that it puts on the side of their turned
        values (:data:`COARSE`), and "fooled", those that it puts on that of the untouched row; of the other packets
        "agree" and "kappa" in six words, and "agree_coarse" and "kappa_coarse" in three; "with_ledger" and
        "with_ledger_coarse"; "by_verdict", of each verdict of the ledger how often each reading says the same; and
        "against", the rows in which both readings are on another side than the ledger.

    Raises:
        ParameterError: for a word that is no verdict, a packet that does not exist, or one that a reading leaves out.
    """
    entries = files.read(key or folder / "key.json")
    given = [_answers(folder / name, entries) for name in _there(folder)]
    plants = [packet for packet, entry in entries.items() if entry["plant"]]
    rest = [packet for packet in entries if packet not in plants]
    ledger = {packet: entries[packet]["wanted"] for packet in rest}
    pairs = [(given[0][packet], given[-1][packet]) for packet in rest]
    coarse = [(COARSE[a], COARSE[b]) for a, b in pairs]
    against = [
        {"row": entries[packet]["row"], "ledger": ledger[packet], "first": a, "second": b if len(given) > 1 else "–"}
        for packet, (a, b) in zip(rest, pairs, strict=True)
        if COARSE[a] != COARSE[ledger[packet]] != COARSE[b]
    ]
    return {
        "packets": len(entries), "plants": len(plants), "readings": len(given),
        "caught": [sum(COARSE[of[p]] == COARSE[entries[p]["wanted"]] for p in plants) for of in given],
        "fooled": [sum(COARSE[of[p]] == COARSE[entries[p]["ledger"]] for p in plants) for of in given],
        "both": len(rest),
        **(_agreement(pairs, coarse) if len(given) > 1 else {}),
        "with_ledger": [sum(of[p] == ledger[p] for p in rest) for of in given],
        "with_ledger_coarse": [sum(COARSE[of[p]] == COARSE[ledger[p]] for p in rest) for of in given],
        "by_verdict": {word: _same(word, ledger, given) for word in STRATA},
        "against": against,
    }  # fmt: skip


def _agreement(pairs: Sequence[tuple[str, str]], coarse: Sequence[tuple[str, str]]) -> dict[str, float]:
    return {
        "agree": sum(a == b for a, b in pairs), "kappa": round(readings.kappa(pairs), 3),
        "agree_coarse": sum(a == b for a, b in coarse), "kappa_coarse": round(readings.kappa(coarse), 3),
    }  # fmt: skip


def _there(folder: Path) -> list[str]:
    return ["first", *(name for name in ("second",) if (folder / name).exists())]


def _same(word: str, ledger: Mapping[str, str], given: Sequence[Mapping[str, str]]) -> list[int]:
    """How many rows have a verdict in the ledger, and in how many of them each reading says the same."""
    packets = [packet for packet in ledger if ledger[packet] == word]
    return [len(packets), *(sum(answers[packet] == word for packet in packets) for answers in given)]


def _answers(folder: Path, entries: Mapping[str, Any]) -> dict[str, str]:
    words = readings.answers(folder, entries, COARSE)
    if missing := [packet for packet in entries if packet not in words]:
        raise ParameterError(f"{folder}: packets {', '.join(missing[:8])} are not answered: all must be.")
    return words
