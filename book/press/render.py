"""Sphinx with Jupyter Book's configuration, in a process of its own; in part an extension, which shares the writing.

Pages are read one after another: of two processes, neither would see that both read the same label.

python -m book.press.render SOURCE OUTPUT --cores 2
"""

import argparse
import functools
import gc
import subprocess
import sys
from pathlib import Path
from typing import Any


def start(source: Path, output: Path, *options: str) -> subprocess.Popen:
    """Begin to render a folder of pages into another one; ``options``: of this program."""
    return subprocess.Popen([sys.executable, "-m", "book.press.render", str(source), str(output), *options])


def render(source: Path, output: Path, *, cores: int = 1, fresh: bool = True, builder: str = "html") -> bool:
    """Render a folder of pages; says whether it went well, and warnings count as errors.

    Args:
        source: of the pages, with ``_config.yml`` and ``_toc.yml``.
        output: the site goes to ``_build/html`` in it.
        cores: as many processes write pages, with the same result.
        fresh: whether every page is read again.
        builder: Sphinx's.
    """
    import pybtex.plugin
    from jupyter_book.sphinx import build_sphinx

    # Each citation asks for the same, and each time the files of every installed package are read.
    pybtex.plugin._load_entry_point = functools.cache(pybtex.plugin._load_entry_point)
    source, strict = source.absolute(), builder == "html"
    failed = build_sphinx(
        source, output / "_build" / "html", noconfig=True, path_config=source / "_config.yml", builder=builder,
        confoverrides={
            "external_toc_path": str(source / "_toc.yml"), "nitpicky": strict, "latex_individualpages": False,
            "cores": cores if sys.platform == "linux" else 1,  # elsewhere libraries do not bear to be copied
        },
        freshenv=fresh, warningiserror=strict, keep_going=True, quiet=strict,
    )  # fmt: skip
    return not failed


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_config_value("cores", 1, "")
    app.connect("env-get-updated", _all_are_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _all_are_read(app: Any, env: Any) -> set[str]:
    """From here on there may be more processes; no page is to be written for that."""
    app.parallel = app.config.cores
    return set()


if __name__ == "__main__":
    gc.disable()  # it would take a fifth of the time, and what it would free is 200 MB
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--builder", default="html")
    sys.exit(not render(**vars(parser.parse_args())))
