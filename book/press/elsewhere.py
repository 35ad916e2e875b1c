"""One chapter outside of the repository: two wheels to install, and a folder that holds the rest, as one file.

The first wheel is the library, the second, ``dpbook``, has the experiments and what keeps and judges runs. The folder
has the notebook, the kept runs that it draws, and the rows and plans that it reads; opened there, it finds all of them.
And the whole repository as one file, which the site carries, so that whoever has the site has its source.
"""

import base64
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from book.evidence import machines, sources
from book.evidence.execution import RunError
from book.evidence.places import ROOT
from book.press import remembered

OUTPUT = ROOT / "_build" / "elsewhere"
# What is made, and hidden files and folders but two.
_OWN = re.compile(r"(?:^|/)(?:\.(?!gitignore$|github/)[^/]*|_build|executed|__pycache__|[^/]*\.egg-info)(?:/|$)")
EPOCH = (1980, 1, 1, 0, 0, 0)  # so that equal files give equal bytes
BOOK = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "dpbook"
description = "What the chapters of a book on differential privacy run on: experiments, kept runs, rules."
version = "{version}"
requires-python = ">=3.11"
license = "MIT"
dependencies = ["dplib[chapter]=={version}"]

[tool.setuptools.packages.find]
include = ["papers*", "book*"]
"""
README = """{title}

Python 3.11 or newer. Both wheels in one command, in an environment of its own:

    pip install dplib-{version}-py3-none-any.whl dpbook-{version}-py3-none-any.whl notebook

Then, in this folder:

    jupyter notebook {name}.ipynb
"""


def version() -> str:
    """The library's version, as its ``__init__`` has it."""
    text = (ROOT / "dplib" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]


def wheels(output: Path = OUTPUT) -> list[Path]:
    """Build both wheels into a folder; nothing is fetched, and the repository is left as it is.

    Raises:
        RunError: when pip cannot build one of them; its message.
    """
    output.mkdir(parents=True, exist_ok=True)
    ignored = shutil.ignore_patterns("__pycache__")
    with tempfile.TemporaryDirectory(prefix="dplib-") as scratch:
        first, second = Path(scratch) / "dplib", Path(scratch) / "dpbook"
        shutil.copytree(ROOT / "dplib", first / "dplib", ignore=ignored)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copyfile(ROOT / name, first / name)
        shutil.copytree(ROOT / "papers", second / "papers", ignore=ignored)
        shutil.copytree(ROOT / "book" / "evidence", second / "book" / "evidence", ignore=ignored)
        shutil.copyfile(ROOT / "book" / "__init__.py", second / "book" / "__init__.py")
        (second / "pyproject.toml").write_text(BOOK.format(version=version()), encoding="utf-8")
        for folder in (first, second):
            command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
            done = subprocess.run(
                [*command, "--wheel-dir", str(output), str(folder)], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise RunError(f"the wheel of {folder.name} could not be built: {done.stderr.strip()[-300:]}")
    return sorted(output.glob("*.whl"))


def pack(chapter: str, output: Path = OUTPUT) -> Path:
    """A chapter's folder as one file, ``NN_name.zip``: unpacked, its notebook runs there once the wheels are installed.

    Args:
        chapter: its name, such as ``08_rr_with_prior``.
        output: the folder that the file goes to.
    """
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{chapter}.zip"
    title = sources.title(chapter)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, content: bytes) -> None:
            entry = zipfile.ZipInfo(f"{chapter}/{name}", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)

        add(f"{chapter}.ipynb", (sources.NOTEBOOKS / f"{chapter}.ipynb").read_bytes())
        readme = README.format(title=title, name=chapter, version=version())
        add("README.txt", readme.encode())
        for file in beside(chapter):
            add(file.relative_to(ROOT).as_posix(), file.read_bytes())
    return path


def archive(path: Path) -> None:
    """The repository as one file, in a folder ``dp-book``: what Git knows, or all but what is made, where Git is not.

    Stored runs, most of it, are a stream of their own before the rest, compressed once; together both are one archive.

    Args:
        path: the file.
    """
    files = tracked()
    runs = [file for file in files if file.is_relative_to(sources.KEPT)]
    rest = b"".join(map(_member, sorted({*files} - {*runs}))) + bytes(2 * tarfile.BLOCKSIZE)
    path.write_bytes(_compressed(b"".join(map(_member, runs))) + _compressed(rest))


def _member(file: Path) -> bytes:
    """A file with its head, in full blocks."""
    content = file.read_bytes()
    entry = tarfile.TarInfo(f"dp-book/{file.relative_to(ROOT).as_posix()}")
    entry.size, entry.mode = len(content), 0o755 if os.access(file, os.X_OK) else 0o644
    return entry.tobuf() + content + bytes(-len(content) % tarfile.BLOCKSIZE)


def _compressed(blocks: bytes) -> bytes:
    # A zip is larger; the preset that is usual takes six times as long (17 s for 3) for a fifth less.
    key = f"archive {hashlib.sha256(blocks).hexdigest()} {sys.version}"
    return base64.b64decode(remembered.text(key, lambda: base64.b64encode(lzma.compress(blocks, preset=1)).decode()))


def tracked() -> list[Path]:
    """The files of the repository, without what one workplace keeps in folders of its own, such as ``.ci``."""
    done = None
    if (ROOT / ".git").exists():
        done = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if done and not done.returncode:
        paths = (ROOT / name for name in filter(None, done.stdout.split("\0")))
    else:
        paths = ROOT.rglob("*")
    return sorted(path for path in paths if path.is_file() and not _OWN.search(path.relative_to(ROOT).as_posix()))


def beside(chapter: str) -> Iterator[Path]:
    """The files that a chapter reads when it runs, besides modules: contents, sources, rows, plans, kept runs."""
    yield sources.CONTENTS
    yield from sorted(sources.NOTEBOOKS.glob("*.md"))
    yield from sorted(sources.CLAIMS.glob("*.yml"))
    yield from sorted(sources.PLANS.glob("*.yml"))
    read = [path for path in sources.depends_on(chapter) if path.parent in (sources.KEPT, sources.RESULTS)]
    yield from read
    if any(path.parent == sources.KEPT for path in read):
        yield from sorted(sources.KEPT.glob(machines.FILES))
