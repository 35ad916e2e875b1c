"""One run as a page of the book: for who asks a chapter for another epsilon and wants to read, not to open Jupyter."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import yaml

from book.evidence.execution import RunError
from book.evidence.places import ROOT
from book.press import finish

RUNS = ROOT / "_build" / "runs"
DIAL = "<p>The interactive figure stands in the book; it does not depend on this run.</p>"
# Pages that need nothing but themselves: what a chapter refers to for a term, a verdict or a reference.
BESIDE = ("book/how_to_read", "book/sweeps", "book/notation", "book/caveats", "book/bibliography")


def render(executed: Path) -> Path:
    """Render an executed notebook in the book's look, beside the pages of earlier runs; returns the page.

    Links to other chapters are plain text there: they belong to the book, not to this run.

    Raises:
        RunError: when it cannot be rendered.
    """
    source = RUNS / "source"
    shutil.rmtree(source, ignore_errors=True)
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
    name = f"notebooks/{executed.stem}"
    contents = {"format": "jb-book", "root": name, "chapters": [{"file": page} for page in BESIDE]}
    (source / "_toc.yml").write_text(yaml.safe_dump(contents), encoding="utf-8")
    program = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    # Silent: what the chapter says of other chapters has no target here.
    arguments = ["build", str(source), "--path-output", str(RUNS), "--all", "-qq"]
    done = subprocess.run([*program, *arguments], capture_output=True, text=True, check=False)
    page = RUNS / "_build" / "html" / f"{name}.html"
    if done.returncode or not page.exists():
        raise RunError(f"the run is kept, but its page could not be made: {done.stderr.strip()[-300:]}")
    return page
