"""What a chapter's result depends on: its source, the modules it imports, its plans and runs, its ledger rows.

Snakemake re-runs a chapter when one of these changes in content, and a frozen result names their digest.
"""

import ast
import contextlib
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from book.evidence import places, scan
from book.evidence.places import CLAIMS, PAPERS, RESULTS, ROOT
from dplib.checks import ParameterError, check_names, shown

if TYPE_CHECKING:
    import nbformat

NOTEBOOKS = ROOT / "notebooks"
CONTENTS = ROOT / "_toc.yml"
PLANS = NOTEBOOKS / "plans"
KEPT = places.RUNS  # a file for each experiment
# The project's own packages by name: imports are followed into these.
PACKAGES = {name: ROOT / name for name in ("dplib", "papers", "book")}


def chapters() -> list[str]:
    """Names of all chapters, such as ``01_gmm_theory`` and ``09b_label_dp_ratings``, in the order of the contents.

    A chapter has its place from ``_toc.yml`` and not from its number: 0a stands before 0. One that is being written and
    is not in the contents yet comes after the others.
    """
    place = {name: place for place, name in enumerate(_contents())}
    names = (path.stem for path in NOTEBOOKS.glob("*.md") if re.match(r"\d\d[a-z]?_", path.stem))
    return sorted(names, key=lambda name: (place.get(name, len(place)), name))


def _contents() -> list[str]:
    """Names of the files in ``_toc.yml``, in order."""
    if not CONTENTS.exists():
        raise ParameterError(f"{CONTENTS} is not there: {ROOT} is not the book's folder. Go there, or set DPBOOK_ROOT.")
    return _names_in(CONTENTS, CONTENTS.stat().st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _names_in(contents: Path, _time: int) -> list[str]:
    parts = yaml.safe_load(contents.read_text(encoding="utf-8"))["parts"]
    return [Path(page["file"]).name for part in parts for page in part["chapters"]]


def number(chapter: str) -> str:
    """A chapter's number as its files have it: "01", "09b"."""
    return chapter.partition("_")[0]


def shown_number(chapter: str) -> str:
    """A chapter's number as people say it: "0a", "1", "9b"."""
    return re.sub(r"^0(?=\d)", "", number(chapter))


def resolve(name: str) -> str:
    """A chapter's full name from its name or its number ("01"); ParameterError for one that does not exist."""
    for chapter in chapters():
        if name in (chapter, number(chapter), shown_number(chapter)):
            return chapter
    raise ParameterError(f"chapter = {shown(name)} does not exist: it must be one of {', '.join(chapters())}.")


def title(chapter: str) -> str:
    """A chapter's title, from its source."""
    text = source(chapter).read_text(encoding="utf-8").split("---", 2)[-1]
    return re.search(r"^# (.+)$", text, re.MULTILINE)[1]


def source(chapter: str) -> Path:
    """The chapter's source, MyST Markdown."""
    return NOTEBOOKS / f"{chapter}.md"


def as_notebook(path: Path) -> "nbformat.NotebookNode":
    """A MyST source as a notebook without outputs; cell ids come from position, so equal text gives equal bytes."""
    import jupytext  # which takes a second

    notebook = jupytext.read(path)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:03d}"
    notebook.metadata.jupytext = {"formats": "ipynb,md:myst"}
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def depends_on(chapter: str) -> list[Path]:
    """Every file of this project that can change what a chapter shows, sorted.

    Modules are followed through their own imports; data files of a package, and kept runs, count where a module names
    them; ledger files count where the chapter names a claim of theirs, and margins where a rule of its rows names one.
    """
    facts = _facts(source(chapter))
    modules = _closure(facts.imports)
    every = [facts, *map(_facts, modules)]
    files = {source(chapter), PLANS / f"{number(chapter)}.yml", *modules}
    files |= named_data(modules)
    files |= {CLAIMS / f"{paper}.yml" for paper in facts.papers}
    ledgers = [paper for paper in facts.papers if paper in PAPERS]
    files |= {CLAIMS / "margins.yml" for paper in ledgers if chapter in _naming_margins(paper)}
    texts = "\n".join(text for facts in every for text in facts.texts)
    files |= {path for path in RESULTS.glob("*.json") if path.name in texts}
    files |= {KEPT / f"{name}.jsonl" for name in experiments(modules)}
    return sorted(path for path in files if path.exists())


def _naming_margins(paper: str) -> list[str]:
    """The chapters of whose rows of a paper a rule names a margin."""

    def read() -> list[str]:
        from book.evidence import claims, rules

        rows = claims.parsed(path, text).values()
        named = ((row.chapter, rule) for row in rows for rule in (row.rule, row.corrected) if rule)
        return sorted({chapter for chapter, rule in named if rules.margins_of(rule)})

    path = CLAIMS / f"{paper}.yml"
    text = path.read_text(encoding="utf-8")
    return scan.remembered(f"margins {scan.digest(text)}", read)


def data_files(texts: Iterable[str]) -> set[Path]:
    """Data files of the project's packages that some texts name."""
    together = "\n".join(texts)
    return {path for folder in PACKAGES.values() for path in folder.rglob("*.toml") if path.name in together}


def experiments(modules: Iterable[Path]) -> set[str]:
    """The experiments that modules declare, or name to read their runs."""
    return {name for path in modules for name in _facts(path).experiments}


def named_data(modules: Iterable[Path]) -> set[Path]:
    """The data files of the project's packages that modules name."""
    return data_files(text for path in modules for text in _facts(path).texts)


def module_files(module: str) -> list[Path]:
    """Files of a module and of all that it imports from the project's own packages, sorted."""
    return sorted(_closure([module]))


def page_files() -> list[Path]:
    """What the site is rendered from, besides notebooks: book/ without its modules, and the two configuration files."""
    modules = [ROOT / "book" / name for name in ("press", "evidence", "__init__.py", "__main__.py", "__pycache__")]
    pages = [
        path
        for path in (ROOT / "book").rglob("*")
        if path.is_file() and not any(path.is_relative_to(module) for module in modules)
    ]
    return sorted([*pages, ROOT / "_config.yml", ROOT / "_toc.yml"])


def site_files() -> list[Path]:
    """What the site depends on besides the executed chapters: its pages, the modules that render it, the plans that it
    tells of, and the library, whose docstrings and registries are pages.
    """
    rendering = {*module_files("book.press.pages"), *module_files("book.press.reference")}
    library = {path for path in PACKAGES["dplib"].rglob("*") if path.suffix in (".py", ".toml")}
    tables = (PACKAGES["book"] / "press").glob("*.json")  # of the dials
    return sorted({*page_files(), *rendering, *library, *tables, *PLANS.glob("*.yml")})


def digest(chapter: str) -> str:
    """SHA-256 over the chapter's source and the modules that it runs, without runs, rules and benchmarks."""
    total = hashlib.sha256()
    for path in depends_on(chapter):
        if path.parent not in (RESULTS, CLAIMS, KEPT):
            total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def inputs(chapter: str) -> str:
    """SHA-256 over every file of :func:`depends_on`, modules without comments and docstrings: where it is the same, the
    chapter shows the same.
    """
    return fingerprint(depends_on(chapter), documented=False)


@functools.cache
def all_inputs() -> dict[str, str]:
    """:func:`inputs` of every chapter, as they are when a process first asks: what a build goes by."""
    return {chapter: inputs(chapter) for chapter in chapters()}


def recorded_inputs(executed: Path) -> str | None:
    """The :func:`inputs` that an executed chapter ran on, by its own word; None where the file is not there, "" where
    it does not say.
    """
    try:
        return json.loads(executed.read_text(encoding="utf-8"))["metadata"]["dplib"]["inputs"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def cells(notebook: Mapping) -> str:
    """A digest of what the cells of a notebook say, whatever came out of them."""
    text = json.dumps([(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def edited(executed: Path) -> bool:
    """Whether the cells of an executed chapter are others than when it ran; no where the file is not there, or does
    not say.
    """
    try:
        notebook = json.loads(executed.read_text(encoding="utf-8"))
        return notebook["metadata"]["dplib"]["cells"] != cells(notebook)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def fingerprint(paths: Iterable[Path], *, documented: bool = True) -> str:
    """SHA-256 over files and their places in the project; a moved or copied checkout has the same, and so has one with
    other comments in its modules. ``documented``: whether their docstrings count, which are pages of the site.
    """
    total = hashlib.sha256()
    for path in paths:
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
        total.update(name.encode() + b"\0" + _content(path, documented))
    return total.hexdigest()


def _content(path: Path, documented: bool) -> bytes:
    """What tells a file from another one of its name."""
    if path.suffix == ".py":
        with contextlib.suppress(SyntaxError):
            facts = _facts(path)
            return (facts.does + (facts.says if documented else "")).encode()
    return hashlib.sha256(path.read_bytes()).digest()


def state(paths: Iterable[Path]) -> dict[Path, tuple[int, ...]]:
    """What shows that a file was written, even with what it had before: its times, size and inode; () of none. That of
    its change nobody sets: an archive gives a file back with the time that it had.
    """
    return {path: (s.st_mtime_ns, s.st_ctime_ns, s.st_size, s.st_ino) if (s := _stat(path)) else () for path in paths}


def written(before: Mapping[Path, tuple[int, ...]], paths: Iterable[Path]) -> list[str]:
    """The names of files that were written, came or went since :func:`state` was asked."""
    now = state({*before, *paths})
    return sorted(path.name for path in now if now[path] != before.get(path))


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def default_parameters(chapter: str) -> dict[str, object]:
    """The parameters cell as a mapping, in order; ParameterError for none, or more than plain values."""
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


def is_ours(module: str) -> bool:
    """Whether a module's dotted name lies in one of the project's own packages."""
    return module.partition(".")[0] in PACKAGES


def _closure(names: Iterable[str]) -> set[Path]:
    """Files of all own modules that these dotted names lead to, directly or through what a module imports; imports are
    written in full here, never relative to a package.
    """
    reached: set[Path] = set()
    waiting = [names]
    while waiting:
        new = {path for name in filter(is_ours, waiting.pop()) for path in _files(name)} - reached
        reached |= new
        waiting += [_facts(path).imports for path in new]
    return reached


def _facts(path: Path) -> scan.Facts:
    """What the code of a module, or of a chapter's source, is and names."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return scan.facts(text)
    code = scan.remembered(f"cells {scan.digest(text)}", lambda: code_of(path))
    return scan.facts(code)


def _files(name: str) -> Iterator[Path]:
    """The files that an import of a dotted name runs: every ``__init__.py`` on the way, and the module; what follows a
    module is a name inside it."""
    first, *rest = name.split(".")
    folder = PACKAGES[first]
    for part in [*rest, ""]:
        if (folder / "__init__.py").exists():
            yield folder / "__init__.py"
        if not (part and (folder / part).is_dir()):
            if part and (folder / f"{part}.py").exists():
                yield folder / f"{part}.py"
            return
        folder = folder / part


def module_path(name: str) -> Path | None:
    """The file of one of the project's own modules by its dotted name; None where it is none."""
    *_, last = [None, *_files(name)] if is_ours(name) else [None]
    return last if last and last.stem in (name.rpartition(".")[2], "__init__") else None


def code_of(path: Path) -> str:
    """The code of a MyST source, cell after cell."""
    return "\n".join(cell.source for cell in as_notebook(path).cells if cell.cell_type == "code")
