"""A Sphinx extension for the search: an index of every section's text, which shows where on a page a word stands.

Sphinx's own index knows the pages of a word and must read a page to show its place, which a page on disk may not.
This one is a script, ``_static/search_index.js``, that the search page loads; ``_static/find.js`` searches it.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docutils import nodes

INDEX = "search_index.js"
# What has no words of the page: code, formulas, titles (which are kept apart), texts of images.
_SILENT = (nodes.literal_block, nodes.comment, nodes.title, nodes.math_block, nodes.image)
_TAGS = re.compile(r"(?s)<(style|script|svg)\b.*?</\1>|<[^>]*>")


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    pages: dict[str, list] = {}  # what was collected, by page
    kept = Path(app.doctreedir) / "sections.json"  # of pages that are not written again

    def collect(_: Any, document: nodes.document, docname: str) -> None:
        # The ledger has a search of its own, by row.
        pages[docname] = [] if docname.endswith("/ledger") else list(sections(document))

    def write(app: Any, exception: Exception | None) -> None:
        if not exception and app.builder.format == "html":
            with contextlib.suppress(OSError, ValueError):
                last = json.loads(kept.read_text(encoding="utf-8"))
                pages.update({name: last[name] for name in app.env.found_docs & last.keys() - pages.keys()})
            kept.write_text(json.dumps(pages), encoding="utf-8")
            titles = {name: title.astext() for name, title in app.env.titles.items()}
            (Path(app.outdir) / "_static" / INDEX).write_text(script(pages, titles), encoding="utf-8")

    def only(app: Any) -> None:
        # Sphinx would stem every word for an index that no page loads.
        app.builder.load_indexer = app.builder.index_page = app.builder.dump_search_index = lambda *_: None

    app.connect("builder-inited", only)
    app.connect("doctree-resolved", collect)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def script(pages: Mapping[str, list], titles: Mapping[str, str]) -> str:
    """The index as a script: a line a section, each with page, its title, anchor, heading and text."""
    lines = [[name, titles[name], *part] for name, parts in sorted(pages.items()) for part in parts]
    return f"const SECTIONS = {json.dumps(lines, ensure_ascii=False)};\n"


def sections(document: nodes.document) -> Iterator[tuple[str, str, str]]:
    """Each section of a page as anchor, heading and text, that of its subsections left out."""
    for section in document.findall(nodes.section):
        if _has_title(section):
            yield section["ids"][0], section[0].astext(), _text(section)


def _has_title(node: nodes.Node) -> bool:
    """Whether a node is a section that can be linked to by name; that inside of a proof has no title."""
    return isinstance(node, nodes.section) and bool(node.children) and isinstance(node[0], nodes.title)


def _text(section: nodes.section) -> str:
    """The words of a section itself, on one line."""
    parts: list[str] = []

    def walk(node: nodes.Node) -> None:
        if _has_title(node) or isinstance(node, _SILENT):
            return
        if isinstance(node, nodes.math) and "\\" in node.astext():
            return  # a formula's source is nothing to read; a single letter is
        if isinstance(node, nodes.raw):
            parts.append(_TAGS.sub(" ", node.astext()))
        elif isinstance(node, nodes.Text):
            parts.append(node.astext())
        elif isinstance(node, nodes.Element):
            for child in node.children:
                walk(child)
            if not isinstance(node, nodes.Inline):
                parts.append(" ")

    for child in section.children:
        walk(child)
    return " ".join("".join(parts).split())
