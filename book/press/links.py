"""The external links of the book: none is needed to read it, each has a form that can work."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import nbformat

_ADDRESS = re.compile(r"https?://[^\s<>\"'`{}|\\^\[\]]+")
_FENCED = re.compile(
    r"^[ \t]*(`{3,})(?P<directive>\{?)[^\n]*\n(?P<inside>.*?)^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL
)
_INLINE = re.compile(r"`[^`\n]*`")
_FIELD = re.compile(r"^\s*(doi|url|eprint)\s*=\s*[{\"]([^}\"]+)[}\"]", re.MULTILINE | re.IGNORECASE)


def markdown(source: Path) -> str:
    """The links of the staged pages as a Markdown list, by address, each with the pages that have it."""
    places: dict[str, set[str]] = {}
    for name, text in _texts(source):
        for address in addresses(text):
            places.setdefault(address, set()).add(name)
    lines = [f"- <{address}> ({', '.join(sorted(names))})" for address, names in sorted(places.items())]
    return "\n".join(lines) + "\n"


def addresses(text: str) -> list[str]:
    """The addresses in a Markdown or BibTeX text, without what closes a sentence or a link behind them."""
    found = []
    for address in _ADDRESS.findall(text):
        address = address.rstrip(".,;:!?*")
        while address.endswith(")") and address.count(")") > address.count("("):
            address = address[:-1].rstrip(".,;:!?*")
        found.append(address)
    for field, value in _FIELD.findall(text):
        if field.lower() == "doi" and not value.startswith("http"):
            found.append(f"https://doi.org/{value}")
    return found


def problem(address: str) -> str:
    """What is wrong with the form of an address; empty where nothing is.

    >>> problem("http://example.org")
    'not https'
    """
    parts = urlsplit(address)
    if parts.scheme != "https":
        return "not https"
    if not re.fullmatch(r"(?:[a-z0-9-]+\.)+[a-z]{2,}", parts.netloc):
        return "no public host"
    if parts.netloc == "doi.org" and not re.fullmatch(r"/10\.\d{4,9}/\S+", parts.path):
        return "not a DOI"
    if parts.netloc == "arxiv.org" and not re.fullmatch(r"/(?:abs|pdf)/\d{4}\.\d{4,5}(?:v\d+)?", parts.path):
        return "not an arXiv number"
    if re.search(r"[\s<>\"{}|\\^`]|[.,;:!?]$", address):
        return "a character that no address ends with or has"
    return ""


def _texts(source: Path):
    """Name and text of each staged page, of the text of each notebook, and of the bibliographies."""
    for path in sorted(source.rglob("*.md")):
        yield path.stem, _prose(path.read_text(encoding="utf-8"))
    for path in sorted(source.rglob("*.bib")):
        yield path.stem, path.read_text(encoding="utf-8")
    for path in sorted((source / "notebooks").glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        yield path.stem, _prose("\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown"))


def _prose(text: str) -> str:
    """A Markdown text without its code; what stands inside a directive is text."""
    text = _FENCED.sub(lambda block: _prose(block["inside"]) if block["directive"] else " ", text)
    return _INLINE.sub(" ", text)
