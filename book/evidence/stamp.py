"""Whether any file was written since the last ``make book``: where none was, there is nothing to do.

The stamp is a list of files with the times at which the system last saw each of them change, which no program can set.
What differs in anything, be it in its time alone, is Snakemake's to judge. So the stamp sends too much there, and never
too little.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from dplib import files

STAMP = Path(".snakemake") / "stamp.json"
SITE = Path("_build") / "html" / "index.html"
# What the site is made from; of a folder, all that lies in it.
SOURCES = ("dplib", "papers", "book", "notebooks", "Snakefile", "_config.yml", "_toc.yml")
# With these a run makes what is missing or old; with others it may be told to make more, or nothing.
_PLAIN = {"--cores", "--quiet", "--rerun-incomplete", "--max-checksum-file-size"}
_ELSEWHERE = ("DPBOOK_ROOT", "DPBOOK_RUNS")  # with these it is made from other folders
_SETTLED = 2_000_000_000  # ns: two changes of a file that are less apart may bear one time


def holds(arguments: Sequence[str]) -> bool:
    """Whether all that these arguments of Snakemake ask for is made, and nothing was written since."""
    if not _asks_for(arguments, "site", "executed"):
        return False
    try:
        return json.loads(STAMP.read_text(encoding="utf-8")) == {**_sources(), **_made()}
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def renewed(arguments: Sequence[str]) -> Iterator[None]:
    """Inside, Snakemake runs, and ends by SystemExit. The stamp is taken away before. There is a new one after a good
    end of a run for the whole site, during which no source was written, and no chapter after the site.
    """
    STAMP.unlink(missing_ok=True)
    before, begun = _sources(), time.time_ns()
    try:
        yield
    except SystemExit as end:
        made = _made()
        settled = all(max(times) < begun - _SETTLED for *times, _, _ in before.values())
        newest = max((written for written, *_ in made.values()), default=0)
        last = made.get(str(SITE), [-1])[0] == newest
        if not end.code and _asks_for(arguments, "site") and settled and last and _sources() == before:
            with contextlib.suppress(OSError):
                files.publish(STAMP, json.dumps({**before, **made}))
        raise


def _asks_for(arguments: Sequence[str], *targets: str) -> bool:
    options = {word.partition("=")[0] for word in arguments if word.startswith("-")}
    elsewhere = any(os.environ.get(name) for name in _ELSEWHERE)
    return bool(arguments) and arguments[-1] in targets and options <= _PLAIN and not elsewhere


def _sources() -> dict[str, list[int]]:
    states = {}
    for source in SOURCES:
        if os.path.isfile(source):
            states[source] = _state(source)
        for folder, inner, names in os.walk(source):
            inner[:] = [name for name in inner if name != "__pycache__"]
            states |= {path: _state(path) for path in (os.path.join(folder, name) for name in names)}
    return states


def _made() -> dict[str, list[int]]:
    return {str(path): _state(path) for path in [*Path("executed").glob("*.ipynb"), SITE] if path.exists()}


def _state(path: str | Path) -> list[int]:
    """When a file was written and when anything of it changed, its size and number; zeros of a broken link."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return [0, 0, 0, 0]
    return [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]
