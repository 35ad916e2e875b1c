"""Which parts of an executed chapter become slides, by rule; nothing is written for the slides alone.

In the order of the chapter: its title; the list of what a reader can do afterwards; "What the paper claims"; every
definition, theorem and algorithm, without proofs; the first figure of every section, with its caption and alternative
text; the verdict box, a slide for each part; the exercises' titles, and the command that runs the chapter again.

A Markdown cell tagged ``slide`` comes in whole, a code cell with its lines or, where a page folds them, its table; a
cell tagged ``no-slide`` not at all, nor its figure. Citations and references become text here, so that a deck is plain
Markdown with mathematics.
"""

import base64
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import nbformat

MOST_TEXT = 620  # characters of running text on a slide
SHORT = 56  # characters that fit half of a slide's width
KINDS = ("definition", "theorem", "lemma", "proposition", "corollary", "algorithm")
Entry = TypeVar("Entry")
Plain = Callable[[str], str]


@dataclass(frozen=True)
class Slide:
    """One slide: a title, Markdown, a small line above the title, and the images that the Markdown names."""

    title: str
    body: str
    kicker: str = ""
    images: Mapping[str, bytes] = field(default_factory=dict)


def plain_text(citations: Mapping[str, str], titles: Mapping[str, str]) -> Plain:
    """A function that turns roles into text, by key of a citation and by label, and removes links within the book."""

    def cited(match: re.Match) -> str:
        return "(" + "; ".join(citations[key.strip()] for key in match[1].split(",")) + ")"

    def referred(match: re.Match) -> str:
        explicit = re.fullmatch(r"(.*?)\s*<[^>]+>", match[1])
        return explicit[1] if explicit else titles.get(match[1], match[1])

    def plain(text: str) -> str:
        text = re.sub(r"\{cite(?::[a-z]+)?\}`([^`]+)`", cited, text)
        text = re.sub(r"\{(?:prf:ref|ref|numref|eq|doc|term)\}`([^`]+)`", referred, text)
        return re.sub(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", text).strip()

    return plain


def blocks(text: str) -> list[str]:
    """A Markdown text in pieces: headings, fenced directives, formulas, paragraphs, lists, tables; dropdowns opened."""
    blocks_: list[list[str]] = [[]]
    until = ""  # the line that closes an open fence or formula
    for line in text.splitlines():
        stripped = line.strip()
        if until:
            blocks_[-1].append(line)
            until = "" if stripped == until else until
            continue
        fence = re.match(r"(`{3,}|:{3,})", stripped)
        if fence or (stripped.startswith("$$") and not stripped.endswith("$$", 2)) or line.startswith("#"):
            # A formula belongs to the sentence before it; a directive or a heading stands alone.
            if not stripped.startswith("$$") or not blocks_[-1]:
                blocks_.append([])
            blocks_[-1].append(line)
            if line.startswith("#"):
                blocks_.append([])
            else:
                until = fence[1] if fence else "$$"
        elif not stripped:
            blocks_.append([])
        else:
            blocks_[-1].append(line)
    return [part for lines in blocks_ if lines for part in _unfolded("\n".join(lines))]


def _unfolded(block: str) -> list[str]:
    """What a page folds is in pieces, too: a slide cannot be opened."""
    folded = re.fullmatch(r"(?s)([`:]{3,})\{(dropdown|admonition)\}[^\n]*\n((?::[\w-]+:[^\n]*\n)*)(.*)\n\1\s*", block)
    if not folded or (folded[2] == "admonition" and "dropdown" not in folded[3]):
        return [block]
    return blocks(folded[4])


def items(text: str) -> list[str]:
    """Items of a Markdown list, without their marks; lines that continue one are joined to it."""
    items_: list[str] = []
    for line in text.splitlines():
        mark = re.match(r"(?:[-*]|\d+\.)\s+", line)
        if mark:
            items_.append(line[mark.end() :])
        elif items_:
            items_[-1] += " " + line.strip()
    return items_


def bullets(title: str, entries: Sequence[str], ordered: bool = False) -> Iterator[Slide]:
    """Entries as a list, spread evenly over as many slides as they need; many short ones in two columns."""
    short = len(entries) > 6 and max(map(len, entries)) <= SHORT
    sizes = [0 if short else max(len(entry), SHORT) for entry in entries]
    for place, group in enumerate(spread(list(enumerate(entries, start=1)), sizes)):
        mark = "{}. {}" if ordered else "- {1}"
        body = "\n".join(mark.format(number, entry) for number, entry in group)
        body = f":::{{container}} columns\n{body}\n:::" if short else body
        yield Slide(title + (", continued" if place else ""), body)


def spread(entries: Sequence[Entry], sizes: Sequence[int]) -> list[list[Entry]]:
    """Entries in order, in the fewest groups of at most MOST_TEXT or so, none much fuller than the others."""
    target = sum(sizes) / max(1, math.ceil(sum(sizes) / MOST_TEXT))
    groups: list[list[Entry]] = []
    begun = 0.0  # size of all entries before this one
    for entry, size in zip(entries, sizes, strict=True):
        # An entry belongs to the group in which its middle falls.
        if not groups or (target and int((begun + size / 2) / target) >= len(groups)):
            groups.append([])
        groups[-1].append(entry)
        begun += size
    return groups


def choose(notebook: nbformat.NotebookNode, plain: Plain) -> Iterator[Slide]:
    """The slides of a chapter between its title and its verdict box."""
    heading, pictured, before = "", set(), ""
    for place, cell in enumerate(notebook.cells):
        tags = set(cell.metadata.get("tags", ()))
        if cell.cell_type == "code":
            if "slide" in tags:
                yield Slide(heading, _table(cell) if "hide-input" in tags else f"```python\n{cell.source}\n```")
            elif not (tags & {"no-slide", "solution"} or heading in pictured or heading.startswith("Exercises")):
                for slide in _figure(notebook, place, heading, plain):
                    pictured.add(heading)
                    yield slide
            continue
        if "slide" in tags:
            yield Slide(heading, plain(cell.source))
        for block in blocks(cell.source):
            if block.startswith("#"):
                heading = plain(block.lstrip("# "))
            elif not tags & {"no-slide", "slide"}:
                yield from _block(block, heading, before.endswith(("you can", "you will")), plain)
            before = block


def _table(cell: nbformat.NotebookNode) -> str:
    """The first table that a cell shows, as HTML without its style."""
    shown = next((output["data"]["text/html"] for output in cell.outputs if "text/html" in output.get("data", {})), "")
    return re.sub(r"(?s)<style.*?</style>", "", shown)


def exercises(notebook: nbformat.NotebookNode, plain: Plain) -> list[str]:
    """Titles of the exercises, in order."""
    text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return [plain(title) for title in re.findall(r"^`{3,}\{exercise\}\s*(.*)$", text, re.MULTILINE)]


def labelled(text: str) -> dict[str, str]:
    """Titles of everything that has a label (``:label:`` in a directive), for references to it."""
    pattern = r"^[`:]{3,}\{(?:prf:)?([a-z]+)\}\s*(.*)\n:label:\s*(\S+)"
    return {
        label: f"“{title}”" if title else f"the {kind}"
        for kind, title, label in re.findall(pattern, text, re.MULTILINE)
    }


def _block(block: str, heading: str, is_aim: bool, plain: Plain) -> Iterator[Slide]:
    directive = re.match(r"[`:]{3,}\{prf:([a-z]+)\}\s*(.*)", block)
    if directive and directive[1] in KINDS:
        body = "\n".join(line for line in block.splitlines()[1:-1] if not line.startswith(":"))
        kind = directive[1].capitalize()
        kicker = kind if heading.startswith(kind) else f"{kind} · {heading}"
        yield Slide(plain(directive[2]) or heading, plain(body), kicker)
    elif heading == "What the paper claims" and re.match(r"1\. ", block):
        yield from bullets(heading, [plain(item) for item in items(block)], ordered=True)
    elif is_aim and re.match(r"[-*] ", block):
        yield from bullets("After this chapter you can", [plain(item).rstrip(".,;") for item in items(block)])


def _figure(notebook: nbformat.NotebookNode, place: int, heading: str, plain: Plain) -> Iterator[Slide]:
    cell, (after, *_) = notebook.cells[place], [*notebook.cells[place + 1 :], None]
    picture = next((o["data"]["image/png"] for o in cell.get("outputs", ()) if "image/png" in o.get("data", {})), None)
    if picture is None:
        return
    caption = ""
    if after is not None and after.cell_type == "markdown":
        first = (blocks(after.source) or [""])[0]
        caption = plain(first) if re.fullmatch(r"\*(?!\*).*\*", first, re.DOTALL) else ""
    name = f"figure-{place:03d}.png"
    alternative = " ".join(cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "").split())
    words = alternative.replace("]", ")").replace("[", "(") or caption.strip("*") or heading
    body = f"![{words}]({name})" + (f"\n\n:::{{container}} caption\n{caption}\n:::" if caption else "")
    yield Slide(heading, body, images={name: base64.b64decode(picture)})
