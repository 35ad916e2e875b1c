"""Taking the book along: the site as one file, notebooks that name no machine, buttons that open them elsewhere.

As a Sphinx extension (see ``_config.yml``) it puts Binder and Colab buttons on each chapter, once the book has a public
address; without one there is no button.
"""

import os
import re
import zipfile
from pathlib import Path
from typing import Any

import yaml

from dplib.execution import ROOT, RunError

HTML = ROOT / "_build" / "html"
FOLDER = "dp-book"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip can hold
ADDRESS = re.compile(r"https://github\.com/([A-Za-z0-9-]+)/([\w.-]+?)(?:\.git)?/?")
BRANCH = re.compile(r"[\w.-]+")
# What the chapters import and Colab's own Python lacks; versions as in pyproject.toml are the newest, as Colab's are.
COLAB_LACKS = ("opacus", "dp-accounting", "myst-nb", "papermill", "jupytext", "pooch")
NO_ADDRESS = """This copy of the book names no public address, so its pages have no such buttons. With one,
`repository: url:` in `_config.yml`, each chapter has them, and these are the lines that Colab needs first:"""
HAS_ADDRESS = """Each chapter's page has them under the rocket above its title. Binder makes the whole environment,
which takes minutes when nobody has asked for it lately. Colab opens the notebook alone; there, run this in a cell of
its own first:"""


def zip_site(site: Path = HTML, target: Path | None = None) -> Path:
    """Pack the rendered site into one file, ``_build/dp-book.zip``; equal sites give equal bytes.

    Raises:
        RunError: when the site is not rendered.
    """
    if not (site / "index.html").exists():
        raise RunError("the site is not rendered yet: make book.")
    target = target or site.parent / f"{FOLDER}.zip"
    partial = target.with_suffix(".partial")
    files = sorted(path for path in site.rglob("*") if path.is_file() and path.name != ".buildinfo")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in files:
            entry = zipfile.ZipInfo(f"{FOLDER}/{path.relative_to(site).as_posix()}", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            archive.writestr(entry, path.read_bytes())
    os.replace(partial, target)
    return target


def make_portable(notebook: dict[str, Any]) -> None:
    """Take out of an executed notebook what belongs to the machine it ran on; its cells and outputs stay.

    Papermill's notes hold a path of that machine and a copy of the whole notebook; the error stream holds warnings with
    paths, and progress bars.
    """
    notebook["metadata"].pop("papermill", None)
    for cell in notebook["cells"]:
        cell["metadata"].pop("papermill", None)
        if "outputs" in cell:
            cell["outputs"] = [output for output in cell["outputs"] if output.get("name") != "stderr"]


def address(config: Path = ROOT / "_config.yml") -> tuple[str, str] | None:
    """The book's public repository, such as ``https://github.com/owner/name``, and its branch; None when there is none.

    Raises:
        RunError: for an address that Binder and Colab could not open.
    """
    given = (yaml.safe_load(config.read_text(encoding="utf-8")) or {}).get("repository") or {}
    return check_address(given.get("url") or "", given.get("branch") or "main")


def check_address(url: str, branch: str) -> tuple[str, str] | None:
    """An address in the form that links are built from; None for an empty one, RunError for one that is no use."""
    if not url:
        return None
    if not (parts := ADDRESS.fullmatch(url)):
        raise RunError(f"repository: url: {url} in _config.yml must have the form https://github.com/OWNER/NAME.")
    if not BRANCH.fullmatch(branch):
        raise RunError(f"repository: branch: {branch} in _config.yml must be a plain name, such as main.")
    return f"https://github.com/{parts[1]}/{parts[2]}", branch


def binder(where: tuple[str, str], path: str) -> str:
    """The address at which Binder opens a file of the repository in JupyterLab."""
    url, branch = where
    return f"https://mybinder.org/v2/gh/{url.removeprefix('https://github.com/')}/{branch}?urlpath=lab/tree/{path}"


def colab(where: tuple[str, str], path: str) -> str:
    """The address at which Colab opens a notebook of the repository."""
    url, branch = where
    return f"https://colab.research.google.com/github/{url.removeprefix('https://github.com/')}/blob/{branch}/{path}"


def colab_lines(where: tuple[str, str] | None) -> str:
    """The lines that make the book's module importable in Colab, which brings the large packages itself."""
    url, branch = where or ("https://github.com/OWNER/NAME", "main")
    return (
        f"!git clone --quiet --depth 1 --branch {branch} {url} /content/book\n"
        f"%pip install --quiet {' '.join(COLAB_LACKS)}\n"
        'import sys; sys.path[:0] = ["/content/book", "/content/book/book"]\n'
    )


def launch_markdown(where: tuple[str, str] | None) -> str:
    """What *Running it yourself* says of the two buttons."""
    return f"{HAS_ADDRESS if where else NO_ADDRESS}\n\n```ipython3\n{colab_lines(where)}```\n"


def buttons(where: tuple[str, str], chapter: str, help_page: str) -> dict[str, Any]:
    """The menu with the two buttons of a chapter, and where it says what Colab needs, in the form of the theme."""
    path = f"notebooks/{chapter}.ipynb"
    entries = [
        ("Binder", binder(where, path), "_static/images/logo_binder.svg", "Run this chapter on Binder"),
        ("Colab", colab(where, path), "_static/images/logo_colab.png", "Open this chapter in Colab"),
        ("Colab: first lines", help_page, "fas fa-circle-info", "What to run first in Colab"),
    ]
    links = [dict(zip(("text", "url", "icon", "tooltip"), one, strict=True), type="link") for one in entries]
    group = {"type": "group", "tooltip": "Run this chapter elsewhere", "icon": "fas fa-rocket", "buttons": links}
    return {**group, "label": "launch-buttons"}


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx: add the buttons to each chapter's page."""
    # After the theme's own buttons, whose order is theirs.
    app.connect("html-page-context", _add_buttons, priority=502)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_buttons(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    where = address(Path(app.srcdir) / "_config.yml")
    if where and re.fullmatch(r"notebooks/\d\d[a-z]?_\w+", page):
        help_page = context["pathto"]("book/running") + "#in-the-browser"
        context["header_buttons"].append(buttons(where, page.removeprefix("notebooks/"), help_page))
