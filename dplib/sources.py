"""What a chapter's result depends on: its source, the modules it imports, its ledger rows, its frozen results.

Snakemake re-runs a chapter when one of these changes in content, and a frozen result names their digest.
"""

import ast
import hashlib
import re
from pathlib import Path

import jupytext
import nbformat

from dplib.checks import ParameterError, check_names
from dplib.claims import CLAIMS, RESULTS, ROOT

NOTEBOOKS = ROOT / "notebooks"
PACKAGE = ROOT / "dplib"


def chapters() -> list[str]:
    """Names of all chapters, such as ``01_gmm_theory``, in order."""
    return sorted(path.stem for path in NOTEBOOKS.glob("[0-9][0-9]_*.md"))


def resolve(name: str) -> str:
    """A chapter's full name from its name or its number ("01"); ParameterError for one that does not exist."""
    for chapter in chapters():
        if name in (chapter, chapter[:2], chapter[:2].lstrip("0")):
            return chapter
    raise ParameterError(f"chapter = {name!r} does not exist: it must be one of {', '.join(chapters())}.")


def source(chapter: str) -> Path:
    """The chapter's source, MyST Markdown."""
    return NOTEBOOKS / f"{chapter}.md"


def as_notebook(path: Path) -> nbformat.NotebookNode:
    """A MyST source as a notebook without outputs; cell ids come from position, so equal text gives equal bytes."""
    notebook = jupytext.read(path)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:03d}"
    notebook.metadata.jupytext = {"formats": "ipynb,md:myst"}
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def write_pair(chapter: str) -> Path:
    """Write the notebook that pairs with a chapter's source, where it is not in step; returns its path."""
    path = NOTEBOOKS / f"{chapter}.ipynb"
    text = nbformat.writes(as_notebook(source(chapter))) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return path


def depends_on(chapter: str) -> list[Path]:
    """Every file of this project that can change what a chapter shows, sorted.

    Modules are followed through their own imports; data files of the package count where a module of theirs
    names them; ledger files count where the chapter names a claim of theirs.
    """
    code = _code(source(chapter))
    modules = _closure(code)
    files = {source(chapter), *modules}
    text = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    files |= {path for path in PACKAGE.glob("*.toml") if path.name in text}
    papers = set(re.findall(r"""["']([A-D])\.[a-z]""", code))
    files |= {CLAIMS / f"{paper}.yml" for paper in papers}
    files |= set(RESULTS.glob(f"{chapter}.*.json"))
    return sorted(path for path in files if path.exists())


def module_files(module: str) -> list[Path]:
    """Files of a dplib module and of all that it imports from dplib, sorted."""
    return sorted(_closure(f"import {module}"))


def page_files() -> list[Path]:
    """Everything under book/ and the two configuration files: what the site is rendered from, besides notebooks."""
    pages = [path for path in (ROOT / "book").rglob("*") if path.is_file()]
    return sorted([*pages, ROOT / "_config.yml", ROOT / "_toc.yml"])


def digest(chapter: str) -> str:
    """SHA-256 over the chapter's source and the modules it runs: what decides a result, without earlier results."""
    total = hashlib.sha256()
    for path in depends_on(chapter):
        if path.parent not in (RESULTS, CLAIMS):
            total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def default_parameters(chapter: str) -> dict[str, object]:
    """The parameters cell as a mapping, in order.

    Raises:
        ParameterError: when the chapter has no cell tagged ``parameters`` or it holds more than plain values.
    """
    for cell in as_notebook(source(chapter)).cells:
        if "parameters" in cell.metadata.get("tags", ()):
            try:
                return {node.targets[0].id: ast.literal_eval(node.value) for node in ast.parse(cell.source).body}
            except (AttributeError, ValueError) as error:
                raise ParameterError(
                    f"{chapter}: the parameters cell must hold plain values only ({error})."
                ) from error
    raise ParameterError(f"{chapter} has no cell tagged 'parameters'.")


def check_parameter_names(chapter: str, given: dict[str, object]) -> None:
    """Raise ParameterError for a name that the chapter's parameters cell does not have."""
    check_names(given, default_parameters(chapter))


def _closure(code: str) -> set[Path]:
    """Files of all dplib modules that a piece of code imports, directly or through another of them."""
    found: set[Path] = set()
    waiting = [code]
    while waiting:
        for path in _imports(waiting.pop()):
            if path not in found:
                found.add(path)
                waiting.append(path.read_text(encoding="utf-8"))
    return found


def _imports(code: str) -> set[Path]:
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dplib":
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.split(".")[0] == "dplib"}
    if not names:
        return set()
    candidates = [PACKAGE / f"{name.split('.')[1]}.py" for name in names if "." in name]
    return {PACKAGE / "__init__.py", *(path for path in candidates if path.exists())}


def _code(path: Path) -> str:
    return "\n".join(cell.source for cell in as_notebook(path).cells if cell.cell_type == "code")
