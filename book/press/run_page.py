"""One run as a page of the book: for who asks a chapter for another epsilon and wants to read, not to open Jupyter."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import yaml

from book.evidence.execution import RunError
from book.evidence.places import ROOT
from book.press import finish
from dplib import files

RUNS = ROOT / "_build" / "runs"
DIAL = "<p>The interactive figure stands in the book; it does not depend on this run.</p>"
# Pages that need nothing but themselves: what a chapter refers to for a term, a verdict or a reference.
BESIDE = ("book/how_to_read", "book/sweeps", "book/notation", "book/caveats", "book/bibliography")


def render(executed: Path) -> Path:
    """Render an executed notebook in the book's look, in a folder of its own; returns the page.

    Links to other chapters are plain text there: they belong to the book, not to this run.

    Raises:
        RunError: when it cannot be rendered.
    """
    RUNS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{executed.stem}-", dir=RUNS) as folder:  # others may render beside it
        work = Path(folder)
        _stage(executed, work / "source")
        program = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
        # Silent: what the chapter says of other chapters has no target here.
        arguments = ["build", str(work / "source"), "--path-output", folder, "--all", "-qq"]
        done = subprocess.run([*program, *arguments], capture_output=True, text=True, check=False)
        site, page = work / "_build" / "html", Path("notebooks") / f"{executed.stem}.html"
        if done.returncode or not (site / page).exists():
            files.check_room(work)
            said = f"{done.stdout}\n{done.stderr}".strip()[-300:] or f"Jupyter Book ended with status {done.returncode}"
            raise RunError(f"the run is kept, but its page could not be made: {said}")
        place = RUNS / executed.stem
        with files.locked(RUNS / ".lock", blocking=True):
            shutil.rmtree(place, ignore_errors=True)
            site.rename(place)
    return place / page


def _stage(executed: Path, source: Path) -> None:
    """Make the folder that Jupyter Book reads: the run, and the pages that it refers to."""
    (source / "notebooks").mkdir(parents=True)
    shutil.copyfile(ROOT / "_config.yml", source / "_config.yml")
    for folder in ("_static", "_templates"):
        shutil.copytree(ROOT / "book" / folder, source / "book" / folder)
    for path in (*(ROOT / "book").glob("*.bib"), *(ROOT / f"{name}.md" for name in BESIDE)):
        shutil.copyfile(path, source / "book" / path.name)
    notebook = nbformat.read(executed, as_version=4)
    finish.make_portable(notebook)
    nbformat.write(notebook, source / "notebooks" / executed.name)
    texts = [path.read_text(encoding="utf-8") for path in (source / "book").glob("*.md")]
    texts += [cell.source for cell in notebook.cells]
    (source / "book" / "_generated").mkdir()
    for part in set(re.findall(r"_generated/([\w.-]+)", "\n".join(texts))):
        # What the book draws from all chapters has no place beside one run.
        text = DIAL if part.startswith("dial") else ""
        (source / "book" / "_generated" / part).write_text(text, encoding="utf-8")
    contents = {
        "format": "jb-book",
        "root": f"notebooks/{executed.stem}",
        "chapters": [{"file": page} for page in BESIDE],
    }
    (source / "_toc.yml").write_text(yaml.safe_dump(contents), encoding="utf-8")
