"""Pages of the site that need not be written again, since they show nothing new; in part a Sphinx extension.

After an edit of one chapter's text its page is read and written, and the others stay. A page stays where

1. the machine is the same (:func:`begin` is told it): configuration, contents, templates, styles, modules, versions;
2. neither its source nor a file that it includes, nor a docstring that it shows, has other content, whatever the time
   of the file;
3. nothing is other that pages show of one another: titles, anchors, numbers, citations. Everything counts here that
   Sphinx and its extensions keep between pages, less what they keep of a page for itself (:data:`_OWN`).

In doubt all is made anew: where a file came, went or changed of which no page says that it includes it, and where the
last build did not come to a good end.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from docutils import nodes

from book.evidence import sources
from dplib import files

STATE = "state.json"  # beside the pages, in the folder of the build
# What Sphinx keeps of the run, of files (which are compared here), and of one page for itself.
_OWN = {
    "app", "domains", "srcdir", "doctreedir", "config", "config_status", "config_status_extra", "settings", "project",
    "version", "versioning_condition", "versioning_compare", "events", "temp_data", "ref_context", "all_docs",
    "dependencies", "reread_always", "images", "dlfiles", "original_image_uri", "_pickled_doctree_cache",
    "_write_doc_doctree_cache",
    "sphinx_exercise_gated_registry", "sphinx_exercise_node_order",  # lines of a page on which its exercises stand
}  # fmt: skip
_OWN_METADATA = {"wordcount", "dplib"}  # length, and of a chapter what it ran on
# Pictures in it are copied whatever pages are written; of styles and scripts pages have a digest.
_COPIED = "_static"
_IN_PAGES = (".css", ".js")


def begin(folder: Path, source: Path, machine: str) -> bool:
    """Whether a build can go on from the last one in ``folder``, which is emptied where it cannot.

    Args:
        folder: of Sphinx's output.
        source: what it reads, as it is now.
        machine: a text that differs where anything but the pages' sources does.
    """
    last = _last(folder)
    _date_by_content(source)
    known = bool(last) and last["machine"] == machine and edited(last, source) is not None
    if not known:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    # Of styles that are there already a page has a digest, and of those that come last it has none.
    shutil.rmtree(folder / "_build" / "html" / "_static", ignore_errors=True)
    # Taken away until the good end of this build; what is asked of it meanwhile lies beside it.
    files.publish(folder / f"begun-{STATE}", json.dumps({**(last if known else {}), "machine": machine}))
    (folder / STATE).unlink(missing_ok=True)
    return known


def edited(last: Mapping[str, Any], source: Path) -> set[str] | None:
    """The pages whose source, or a file that they include, has other content than in the last build; None in doubt."""
    before, now = last["files"], contents(source, last["files"])
    if before.keys() != now.keys():
        return None
    pages = set()
    for name in (name for name in now if now[name] != before[name]):
        including = {page for page, included in last["pages"].items() if name in included}
        if not including:
            return None
        pages |= including
    return pages


def _date_by_content(source: Path) -> None:
    """Give each file a time that its content decides, long ago: Sphinx reads and copies what has another one."""
    for folder, _, names in os.walk(source):
        for path in (Path(folder, name) for name in names):
            time = int(hashlib.sha256(path.read_bytes()).hexdigest()[:7], 16)
            os.utime(path, (time, time))


def contents(source: Path, known: Iterable[str] = ()) -> dict[str, str]:
    """The digest of every file below a folder that can be in a page, by its name there, and of those of ``known`` that
    are this project's modules, whose docstrings are in pages.
    """
    names = (Path(folder, name) for folder, _, names in os.walk(source) for name in names)
    inside = {
        path.relative_to(source).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(names)
        if _COPIED not in path.relative_to(source).parts or path.suffix in _IN_PAGES
    }
    paths = {name: Path(os.path.normpath(source / name)) for name in known}
    modules = {name: path for name, path in paths.items() if any(map(path.is_relative_to, sources.PACKAGES.values()))}
    return inside | {name: sources.fingerprint([path]) if path.exists() else "" for name, path in modules.items()}


def shared(env: Any) -> str:
    """A digest of all that Sphinx and its extensions keep between pages: where it is the same, a page whose source is
    the same is the same.
    """
    kept = {name: value for name, value in vars(env).items() if name not in _OWN}
    if cite := kept["domaindata"].get("cite"):
        # They stand in the order in which pages were read, here the last time; a line is for messages.
        refs = sorted((ref._replace(line=0) for ref in cite["citation_refs"]), key=lambda ref: ref.docname)
        kept["domaindata"] = {**kept["domaindata"], "cite": {**cite, "citation_refs": refs}}
    return _told(kept, {})


def _told(value: Any, met: dict[int, str]) -> str:
    """A value's digest, the same for what is the same; sets and mappings have no order. ``met``: of what lives on."""
    if isinstance(value, str | int | float | None | bytes):
        return repr(value)
    if id(value) not in met:
        met[id(value)] = "above"  # things may lead to themselves
        met[id(value)] = hashlib.sha256("\0".join(_parts(value, met)).encode()).hexdigest()
    return met[id(value)]


def _parts(value: Any, met: dict[int, str]) -> Iterator[str]:
    yield type(value).__name__
    if isinstance(value, nodes.Node):
        yield value.pformat()
    elif isinstance(value, Mapping):
        yield from sorted(
            f"{key!r}: {_told(content, met)}" for key, content in value.items() if key not in _OWN_METADATA
        )
    elif isinstance(value, set | frozenset):
        yield from sorted(_told(item, met) for item in value)
    elif isinstance(value, list | tuple):
        yield from (_told(item, met) for item in value)
    elif hasattr(value, "__dict__"):
        yield _told(vars(value), met)
    else:
        yield repr(value)


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    made: dict[str, str] = {}

    def reread(app: Any, env: Any, *_: set[str]) -> set[str]:
        last = _last(folder(app), begun=True)
        return edited(last, Path(app.srcdir)) or set() if "files" in last else set()

    def rewritten(app: Any, env: Any) -> set[str]:
        made["shared"] = shared(env)
        same = _last(folder(app), begun=True).get("shared") == made["shared"]
        # The first page always: where Sphinx has no page to write, it copies no pictures either.
        return {app.config.root_doc} if same else env.found_docs

    def remember(app: Any, exception: Exception | None) -> None:
        begun = folder(app) / f"begun-{STATE}"
        if not exception and not app.statuscode and begun.exists():
            state = {**_last(folder(app), begun=True), **made, **_state(app.env)}
            files.publish(folder(app) / STATE, json.dumps(state))

    def folder(app: Any) -> Path:
        return Path(app.outdir).parents[1]

    app.connect("env-get-outdated", reread)
    app.connect("env-get-updated", rewritten, priority=900)  # when all others have done with what they keep
    app.connect("build-finished", remember, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _state(env: Any) -> dict[str, Any]:
    source = Path(env.srcdir)
    pages = {}
    for page in env.found_docs:
        paths = [env.doc2path(page), *(source / path for path in env.dependencies.get(page, ()))]
        pages[page] = sorted({os.path.relpath(path, source) for path in paths})
    return {"files": contents(source, {name for names in pages.values() for name in names}), "pages": pages}


def _last(folder: Path, *, begun: bool = False) -> dict[str, Any]:
    """What the last build left, or what one that is being made began with; empty where there is nothing."""
    try:
        return json.loads((folder / (f"begun-{STATE}" if begun else STATE)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
