"""All pages of the rendered site as one HTML document, ready to be printed: what ``book.press.pdf`` prints."""

import html
import os
import posixpath
import re
from itertools import groupby
from pathlib import Path
from urllib.parse import unquote

from bs4 import BeautifulSoup, Tag
from typing_extensions import TypedDict

from book.evidence import claims, execution
from book.evidence.places import ROOT
from book.press.ledger import Row
from dplib import files

# The site may set formulas as they come into view; on paper all are in view.
AT_ONCE = """<script>if (window.MathJax.loader?.load)
  window.MathJax.loader.load = window.MathJax.loader.load.filter(part => part !== 'ui/lazy');</script>"""


class _Config(TypedDict):
    title: str
    author: str


def assemble(contents: dict, rows: list[Row], site: Path, folder: Path) -> str:
    """All pages of a rendered site, in the order of ``_toc.yml``, as one HTML document that lies in ``folder``."""
    config = files.checked(ROOT / "_config.yml", _Config)
    pages = [("", contents["root"])]  # each with the part that it opens
    for part in contents["parts"]:
        captions = [part["caption"], *[""] * (len(part["chapters"]) - 1)]
        pages += [(caption, page["file"]) for caption, page in zip(captions, part["chapters"], strict=True)]
    keys = {name: posixpath.basename(name) for _, name in pages}
    to_site = Path(os.path.relpath(site, folder)).as_posix()
    body, solutions, heads, running = [], [], [], []
    for caption, name in pages:
        article, key = read_page(site / f"{name}.html"), keys[name]
        _complete_solutions(article)
        _plain(article)
        if ledger := article.find(class_="ledger"):
            ledger.replace_with(BeautifulSoup(ledger_table(rows), "html.parser"))
        _localise(article, name, keys, to_site)
        solutions += _take_solutions(article, key)
        heads += [f'<p class="part">{html.escape(caption)}</p>'] if caption else []
        heads += _entries(article, name, key)
        running.append(_running_head(key, _title(article)))
        _set_headings(article, name, lower=0 if name == contents["root"] else 1)
        banner = f'<h1 class="part">{html.escape(caption)}</h1>' if caption else ""
        text = banner + article.decode_contents()
        body.append(f'<article class="bd-article chapter" id="{key}">{text}</article>')
    heads.append('<p class="part">Answers</p><p><a href="#solutions">Solutions<i class="page"></i></a></p>')
    running.append(_running_head("solutions", "Solutions"))
    body.append(
        '<article class="bd-article chapter" id="solutions"><h1>Solutions</h1>' + "".join(solutions) + "</article>"
    )
    text = _only_known_targets("".join(body))
    commit = execution.commit()
    origin = f"Printed from commit <code>{html.escape(commit)}</code>." if commit else ""
    return f"""<!DOCTYPE html>
<html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8">
<title>{html.escape(config["title"])}</title>
{_assets([site / f"{name}.html" for name in keys], to_site)}
<style>{"".join(running)}</style></head><body class="book">
<section class="cover"><p class="title">{html.escape(config["title"])}</p>
<p class="subtitle">Theorems, tables and figures of four papers, run again</p>
<p class="author">{html.escape(config["author"])}</p><p class="origin">{origin} Code and outputs that are folded on the
site are left out here; every notebook holds them. Solutions stand at the end.</p></section>
<nav class="book-contents"><p class="title">Contents</p>{"".join(heads)}</nav>
<main class="bd-content">{text}</main></body></html>
"""


def read_page(path: Path) -> Tag:
    """The article of a rendered page, without the menus around it."""
    text = path.read_text(encoding="utf-8")
    start, end = text.index('<article class="bd-article">'), text.rindex("</article>")
    return BeautifulSoup(text[start : end + len("</article>")], "html.parser").article


def ledger_table(rows: list[Row]) -> str:
    """The whole ledger as a plain table: one line a row, what several rows share in a line above them."""
    lines = []
    for paper, of_paper in groupby(rows, key=lambda row: row.claim.paper):
        lines.append(f'<h2 id="ledger-{paper}">Paper {paper}</h2><table class="ledger-print"><thead><tr>')
        lines += [f'<th scope="col">{head}</th>' for head in ("Claim", "Published", "Measured", "Verdict")]
        lines.append("</tr></thead><tbody>")
        for statement, alike in groupby(of_paper, key=lambda row: row.claim.statement):
            lines.append(f'<tr class="statement"><td colspan="4">{html.escape(statement)}</td></tr>')
            lines += [_ledger_line(row) for row in alike]
        lines.append("</tbody></table>")
    return "<p>Reasons and notes stand in the chapters and on the site.</p>" + "".join(lines)


def _plain(article: Tag) -> None:
    """Leave out what only a screen can use: scripts, anchors' signs, code that the page folds away."""
    for tag in article.find_all(["script", "noscript", "style"]):
        if tag.name != "style" or not tag.find_parent("svg"):
            tag.decompose()
    for tag in [*article.find_all(class_="headerlink"), *article.find_all(hidden=True)]:
        tag.decompose()
    for token in article.find_all("span", class_=["n", "p", "w"]):
        token.unwrap()  # names and brackets have no colour of their own, and each span is a tag in the PDF
    for folded in article.select("details.hide"):
        folded.decompose()
    for details in article.find_all("details"):
        details["open"] = ""
    for cell in article.find_all(class_="cell"):
        if not cell.find(True):
            cell.decompose()


def _complete_solutions(article: Tag) -> None:
    """Put the folded cells that stand right below a solution into it, unfolded: they are its check."""
    for solution in article.find_all(class_="solution"):
        while (cell := solution.find_next_sibling()) and "tag_hide-cell" in cell.get("class", ()):
            solution.append(cell.extract())
            for fold in cell.find_all("details"):
                fold.summary.decompose()
                fold.unwrap()


def _localise(article: Tag, name: str, keys: dict[str, str], to_site: str) -> None:
    """Make ids unique in the whole book and let every link inside it point at them; no address of a file remains."""
    key = keys[name]
    for tag in article.find_all(id=True):
        if not tag.find_parent("svg"):
            tag["id"] = f"{key}--{tag['id']}"
    for tag in article.find_all(["img", "link"]):
        attribute = "src" if tag.name == "img" else "href"
        if not re.match(r"[a-z]+:", tag[attribute]):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), tag[attribute]))
            tag[attribute] = posixpath.join(to_site, path)
    for link in article.find_all("a", href=True):
        if re.match(r"(https?|mailto):", link["href"]):
            continue
        address, _, anchor = link["href"].partition("#")
        page = posixpath.normpath(posixpath.join(posixpath.dirname(name), address)) if address else f"{name}.html"
        other = keys.get(page.removesuffix(".html"))
        if other is None:
            link.unwrap()  # the index, a download: not in the book
        else:
            link["href"] = f"#{other}--{unquote(anchor)}" if anchor else f"#{other}"


def _only_known_targets(text: str) -> str:
    """Let a link to a place that is not printed lead to its chapter."""
    known = set(re.findall(r'\sid="([^"]*)"', text))
    return re.sub(
        r'href="#([^"]*)"',
        lambda link: link[0] if link[1] in known else f'href="#{link[1].partition("--")[0]}"',
        text,
    )


def _take_solutions(article: Tag, key: str) -> list[str]:
    """Take the solutions out of a chapter, each exercise pointing at its own; a heading and the solutions, as HTML."""
    taken = []
    for number, solution in enumerate(article.find_all(class_="solution"), start=1):
        solution["class"] = [name for name in solution["class"] if name not in ("dropdown", "toggle")]
        solution["id"] = f"{key}--solution-{number}"
        back = solution.find("a", href=True)
        exercise = article.find(id=back["href"].removeprefix("#")) if back else None
        if exercise:
            link = BeautifulSoup(f'<p class="to-solution"><a href="#{solution["id"]}">Solution</a></p>', "html.parser")
            exercise.append(link)
        taken.append(str(solution.extract()))
    return [f'<h2 id="solutions-{key}">{html.escape(_title(article))}</h2>', *taken] if taken else []


def _entries(article: Tag, name: str, key: str) -> list[str]:
    """A page's lines in the contents: its title and its sections."""
    title = html.escape(f"{_number(name)} {_title(article)}".strip())
    lines = [f'<p class="page-title"><a href="#{key}">{title}<i class="page"></i></a></p>']
    for heading in article.find_all("h2"):
        if target := heading if heading.get("id") else heading.find_parent("section", id=True):
            text = html.escape(" ".join(heading.get_text().split()))
            lines.append(f'<p class="section"><a href="#{target["id"]}">{text}<i class="page"></i></a></p>')
    return lines


def _set_headings(article: Tag, name: str, lower: int) -> None:
    """Lower every heading, so that bookmarks are part, chapter, section; say above a title which chapter it is."""
    for heading in article.find_all(re.compile(r"^h[1-5]$")):
        heading.name = f"h{int(heading.name[1]) + lower}"
    if number := _number(name):
        label = BeautifulSoup(f'<p class="chapter-number">Chapter {number}</p>', "html.parser")
        article.find(re.compile("^h[12]$")).insert_before(label)


def _title(article: Tag) -> str:
    return " ".join(article.find(re.compile("^h[12]$")).get_text().split())


def _number(name: str) -> str:
    """A chapter's number from its file, "4" of ``notebooks/04_crossover_epsilon``; none for other pages."""
    match = re.fullmatch(r"notebooks/(\d+)_.*", name)
    return str(int(match[1])) if match else ""


def _running_head(key: str, title: str) -> str:
    """The title above each page of a chapter, by a named page."""
    page = "p" + re.sub(r"\W", "_", key)
    text = title.replace("\\", "\\\\").replace('"', '\\"').replace("<", "\\3c ")
    return f'@page {page} {{ @top-right {{ content: "{text}"; }} }}\n[id="{key}"].chapter {{ page: {page}; }}\n'


def _ledger_line(row: Row) -> str:
    claim, cells = row.claim, []
    for values in (claim.published, row.values):
        named = (
            (claim.labels.get(name, name.replace("_", " ")), claims.shown(value)) for name, value in values.items()
        )
        cells.append("; ".join(f"{html.escape(name)}: {html.escape(text)}" for name, text in named))
    link = f'<a href="../notebooks/{claim.chapter}.html">{html.escape(claim.where)}</a> <code>{claim.id}</code>'
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in (link, *cells, claims.badge(row.verdict))) + "</tr>"


def _assets(pages: list[Path], to_site: str) -> str:
    """The style sheets of the site and its mathematics, as the first page with formulas loads them."""
    texts = (page.read_text(encoding="utf-8").partition("</head>")[0] for page in pages)
    first = next((text for text in texts if "mathjax" in text.lower()), "")
    kept = []
    for tag in BeautifulSoup(first, "html.parser").find_all(["link", "script"]):
        style = tag.name == "link" and "stylesheet" in tag.get("rel", ())
        address = tag.get("href") or tag.get("src") or ""
        if style or "mathjax" in (address + tag.get_text()).lower():
            if tag.get("type") == "text/plain":
                del tag["type"]  # a page of the site reads it when a formula comes near
            if address:
                path = posixpath.normpath(posixpath.join("notebooks", address.partition("?")[0]))
                tag["href" if style else "src"] = posixpath.join(to_site, path)
            kept.append(str(tag))
            if "window.MathJax" in tag.get_text():
                kept.append(AT_ONCE)
    return "\n".join(kept)
