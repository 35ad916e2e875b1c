"""Which parts of an executed chapter become slides, by rule; nothing is written for the slides alone.

In the order of the chapter:

1. the title, then what a reader can do afterwards: the list before the first cell;
2. "What the paper claims": its list;
3. every definition, theorem and algorithm, without proofs, in its section's place;
4. the first figure of every section, with its caption and its alternative text;
5. the table "published against measured", a few rows a slide;
6. the chapter's verdict box, a slide for each part; where it has none, the paragraph "What the chapter found";
7. what we changed: the bold names of the numbered list;
8. the exercises' titles, and the command that runs the chapter again.

A Markdown cell tagged ``slide`` comes in whole, one tagged ``no-slide`` not at all, nor the figure of a code cell with
that tag. Roles and directives are resolved here (glued numbers, citations, references), so that a deck is plain
Markdown with mathematics.
"""

import ast
import base64
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import bs4
import nbformat

MOST_TEXT = 620  # characters of running text on a slide
SHORT = 56  # characters that fit half of a slide's width
MOST_ROWS = 9  # of a table
KINDS = ("definition", "theorem", "lemma", "proposition", "corollary", "algorithm")
FOUND = "What the chapter found"
_PREFIX = "application/papermill.record/"
Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Slide:
    """One slide: a title, Markdown, a small line above the title, and the images that the Markdown names."""

    title: str
    body: str
    kicker: str = ""
    images: Mapping[str, bytes] = field(default_factory=dict)


class Plain:
    """Turns a chapter's roles into text: glued values, citations, references to exercises and theorems."""

    def __init__(self, notebook: nbformat.NotebookNode, citations: Mapping[str, str], titles: Mapping[str, str]):
        self._glued = glued(notebook)
        self._citations, self._titles = citations, titles

    def __call__(self, text: str) -> str:
        """The text without roles, and with links that lead out of the page removed."""
        text = re.sub(r"\{glue:text\}`([^`]+)`", self._glue, text)
        text = re.sub(r"\{cite(?::[a-z]+)?\}`([^`]+)`", self._cite, text)
        text = re.sub(r"\{(?:prf:ref|ref|numref|eq|doc|term)\}`([^`]+)`", self._reference, text)
        text = re.sub(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", text)
        return text.strip()

    def _glue(self, found: re.Match) -> str:
        name, _, form = found[1].partition(":")
        value = self._glued[name]
        return format(value, form) if form else str(value)

    def _cite(self, found: re.Match) -> str:
        return "(" + "; ".join(self._citations[key.strip()] for key in found[1].split(",")) + ")"

    def _reference(self, found: re.Match) -> str:
        explicit = re.fullmatch(r"(.*?)\s*<[^>]+>", found[1])
        return explicit[1] if explicit else self._titles.get(found[1], found[1])


def glued(notebook: nbformat.NotebookNode) -> dict[str, object]:
    """Values that the cells glued, by name."""
    values = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            name = output.get("metadata", {}).get("scrapbook", {}).get("name")
            if name:
                data = output["data"]
                text = data.get(f"{_PREFIX}text/plain", data.get("text/plain", ""))
                try:
                    values[name] = ast.literal_eval(text)
                except (ValueError, SyntaxError):
                    values[name] = text
    return values


def blocks(text: str) -> list[str]:
    """A Markdown text in pieces: headings, fenced directives, formulas, paragraphs, lists, tables."""
    found: list[list[str]] = [[]]
    until = ""  # the line that closes an open fence or formula
    for line in text.splitlines():
        stripped = line.strip()
        if until:
            found[-1].append(line)
            until = "" if stripped == until else until
            continue
        fence = re.match(r"(`{3,}|:{3,})", stripped)
        if fence or (stripped.startswith("$$") and not stripped.endswith("$$", 2)) or line.startswith("#"):
            # A formula belongs to the sentence before it; a directive or a heading stands alone.
            if not stripped.startswith("$$") or not found[-1]:
                found.append([])
            found[-1].append(line)
            if line.startswith("#"):
                found.append([])
            else:
                until = fence[1] if fence else "$$"
        elif not stripped:
            found.append([])
        else:
            found[-1].append(line)
    return ["\n".join(lines) for lines in found if lines]


def items(text: str) -> list[str]:
    """Items of a Markdown list, without their marks; lines that continue one are joined to it."""
    found: list[str] = []
    for line in text.splitlines():
        mark = re.match(r"(?:[-*]|\d+\.)\s+", line)
        if mark:
            found.append(line[mark.end() :])
        elif found:
            found[-1] += " " + line.strip()
    return found


def sentences(text: str) -> list[str]:
    """A paragraph's sentences; a formula or a bracket is never cut."""
    text = " ".join(text.split())
    protected = re.sub(r"\$[^$]*\$|\([^()]*\)", lambda found: "·" * len(found[0]), text)
    cuts = [0, *(m.end() for m in re.finditer(r"(?<=[a-z0-9·%*][.!?])\s+(?=[A-ZΓ*“·])", protected)), len(text)]
    return [text[a:b].strip() for a, b in pairwise(cuts) if text[a:b].strip()]


def bullets(title: str, entries: Sequence[str], kicker: str = "", ordered: bool = False) -> Iterator[Slide]:
    """Entries as a list, spread evenly over as many slides as they need; many short ones in two columns."""
    short = len(entries) > 6 and max(map(len, entries)) <= SHORT
    sizes = [0 if short else max(len(entry), SHORT) for entry in entries]
    for place, group in enumerate(spread(list(enumerate(entries, start=1)), sizes)):
        mark = "{}. {}" if ordered else "- {1}"
        body = "\n".join(mark.format(number, entry) for number, entry in group)
        body = f":::{{container}} columns\n{body}\n:::" if short else body
        yield Slide(title + (", continued" if place else ""), body, kicker)


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


def choose(notebook: nbformat.NotebookNode, plain: Plain, found: bool = True) -> Iterator[Slide]:
    """The slides of a chapter between its title and its verdict box.

    Args:
        found: whether the paragraph "What the chapter found" comes in; its box says the same in fewer words.
    """
    heading, pictured, before = "", set(), ""
    for place, cell in enumerate(notebook.cells):
        tags = cell.metadata.get("tags", ())
        if cell.cell_type == "code":
            if re.match(r"Published (against|beside) measured", heading):
                yield from _tables(cell, heading)
            elif not ({"no-slide", "solution"} & set(tags) or heading in pictured or heading.startswith("Exercises")):
                slides = _figure(notebook, place, heading, plain)
                pictured |= {heading} if slides else set()
                yield from slides
            continue
        if "slide" in tags:
            yield Slide(heading, plain(cell.source))
        for block in blocks(cell.source):
            if block.startswith("#"):
                heading = plain(block.lstrip("# "))
            elif "no-slide" not in tags and "slide" not in tags:
                yield from _block(block, heading, before.endswith(("you can", "you will")), plain, found)
            before = block


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


def _block(block: str, heading: str, is_aim: bool, plain: Plain, found: bool) -> Iterator[Slide]:
    directive = re.match(r"[`:]{3,}\{prf:([a-z]+)\}\s*(.*)", block)
    if directive and directive[1] in KINDS:
        body = "\n".join(line for line in block.splitlines()[1:-1] if not line.startswith(":"))
        kind = directive[1].capitalize()
        kicker = kind if heading.startswith(kind) else f"{kind} · {heading}"
        yield Slide(plain(directive[2]) or heading, plain(body), kicker)
    elif found and block.startswith(f"**{FOUND}"):
        text = re.sub(r"^\*\*[^*]+\*\*[.,]?\s*", "", plain(block))
        yield from bullets(FOUND, [part[0].upper() + part[1:] for part in sentences(text)])
    elif heading == "What the paper claims" and re.match(r"1\. ", block):
        yield from bullets(heading, [plain(item) for item in items(block)], ordered=True)
    elif re.match(r"What we changed", heading) and re.match(r"1\. ", block):
        names = [found[1].rstrip(".,:") for item in items(block) if (found := re.match(r"\*\*(.+?)\*\*", plain(item)))]
        yield from bullets(heading, names)
    elif is_aim and re.match(r"[-*] ", block):
        yield from bullets("After this chapter you can", [plain(item).rstrip(".,;") for item in items(block)])


def _figure(notebook: nbformat.NotebookNode, place: int, heading: str, plain: Plain) -> list[Slide]:
    cell = notebook.cells[place]
    picture = next((o["data"]["image/png"] for o in cell.get("outputs", ()) if "image/png" in o.get("data", {})), None)
    if picture is None:
        return []
    alternative = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
    after = notebook.cells[place + 1] if place + 1 < len(notebook.cells) else None
    caption = ""
    if after is not None and after.cell_type == "markdown":
        first = (blocks(after.source) or [""])[0]
        caption = plain(first) if re.fullmatch(r"\*(?!\*).*\*", first, re.DOTALL) else ""
    name = f"figure-{place:03d}.png"
    words = " ".join(alternative.split()).replace("]", ")").replace("[", "(") or caption.strip("*") or heading
    body = f"![{words}]({name})" + (f"\n\n:::{{container}} caption\n{caption}\n:::" if caption else "")
    return [Slide(heading, body, images={name: base64.b64decode(picture)})]


def _tables(cell: nbformat.NotebookNode, heading: str) -> Iterator[Slide]:
    """The HTML tables of a cell as plain ones, a few rows a slide."""
    for output in cell.get("outputs", ()):
        source = output.get("data", {}).get("text/html", "")
        if "claim-" in source or "<table" not in source:
            continue
        for table in bs4.BeautifulSoup(source, "html.parser").find_all("table"):
            rows = [[_cell_html(c) for c in row.find_all(["th", "td"])] for row in table.find_all("tr")]
            rows = [row for row in rows if any(row)]
            head, body = rows[0], rows[1:]
            for start in range(0, len(body), MOST_ROWS):
                part = body[start : start + MOST_ROWS]
                yield Slide(heading + (", continued" if start else ""), _table_html(head, part))


def _cell_html(cell: bs4.Tag) -> str:
    return " ".join(cell.decode_contents().split())


def _table_html(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"

    return "\n".join(
        ["```{raw} html", "<table><thead>", line(head, "th"), "</thead><tbody>"]
        + [line(row, "td") for row in rows]
        + ["</tbody></table>", "```"]
    )
