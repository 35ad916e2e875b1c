"""Shared by all tests: where the project is, a scratch copy of it with toy chapters, and a browser."""

import contextlib
import re
import shutil
from pathlib import Path

import pytest

from book.evidence.execution import RunError
from book.press import pdf
from tests import toys

ROOT = Path(__file__).resolve().parent.parent

try:
    CHROMIUM = pdf.find_chromium()
except RunError:
    CHROMIUM = ""
# Colours halfway from one theme to the other, and a side bar that still slides in, are not the page's.
STILL = "*, *::before, *::after { transition: none !important; animation: none !important; }"
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine: set CHROMIUM or install it")
_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip

# The longest files, by seconds of processor. Files go to processes whole, in the order in which they are collected: a
# long one that began last would leave the other cores idle.
LONGEST = (
    "tests/test_chapters_on_gpu.py",
    "tests/test_devices.py",
    "tests/dplib/test_networks.py",
    "tests/book/press/test_choice.py",
    "tests/dplib/test_many.py",
    "tests/dplib/test_accounting.py",
    "tests/book/evidence/test_sweep.py",
    "tests/book/evidence/test_replay.py",
    "tests/browser/test_pages.py",
)


def pytest_collection_modifyitems(items):
    """The longest files first, the others as they were."""
    begins = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: begins.get(item.nodeid.partition("::")[0], len(begins)))


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A function that writes toy chapters into a scratch project, which dplib then takes for its own."""
    from book.evidence import claims, execution, sources

    for folder in ("notebooks", "executed"):
        (tmp_path / folder).mkdir(parents=True)
    # Of the book its modules and its ledger: the pages and the runs are large.
    unwanted = shutil.ignore_patterns(
        "__pycache__", "_static", "assignments", "results", "runs", "slides", "*.md", "*.bib"
    )
    for folder in sources.PACKAGES.values():
        ignored = unwanted if folder.name == "book" else shutil.ignore_patterns("__pycache__")
        shutil.copytree(folder, tmp_path / folder.relative_to(ROOT), ignore=ignored)
    (tmp_path / "book" / "results").mkdir()
    monkeypatch.setattr(sources, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(sources, "PLANS", tmp_path / "notebooks" / "plans")
    packages = {name: tmp_path / folder.relative_to(ROOT) for name, folder in sources.PACKAGES.items()}
    monkeypatch.setattr(sources, "PACKAGES", packages)
    monkeypatch.setattr(sources, "RESULTS", tmp_path / "book" / "results")
    monkeypatch.setattr(sources, "CLAIMS", tmp_path / "book" / "claims")
    monkeypatch.setattr(claims, "RESULTS", tmp_path / "book" / "results")
    monkeypatch.setattr(execution, "EXECUTED", tmp_path / "executed")

    def write(name: str, code: str, module: str = "claims") -> Path:
        path = tmp_path / "notebooks" / f"{name}.md"
        package = "dplib" if (ROOT / "dplib" / f"{module}.py").exists() else "book.evidence"
        parameters = 'epsilon = 5.0  # budget\ndataset = "digits"'
        rules = 'globals(), epsilon=checks.positive(), dataset=checks.one_of("digits", "mnist")'
        path.write_text(toys.chapter(parameters, rules, f"from {package} import {module}\n\n{code}"), encoding="utf-8")
        return tmp_path

    return write


@pytest.fixture
def run_folder(tmp_path, monkeypatch):
    """A folder of its own for the runs and plans of the toy experiment."""
    from tests import run_toys

    for module, name in run_toys.SETTLED:
        monkeypatch.setattr(module, name, getattr(module, name))  # what settle changes is undone
    run_toys.settle(tmp_path)
    return tmp_path


@pytest.fixture
def one_thread():
    """PyTorch on one thread, as small products are fastest."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tried():
    """Kinds of networks, with their examples and losses, that :func:`tried_once` has seen pass."""
    return set()


@pytest.fixture
def tried_once(tried, monkeypatch):
    """Before its training a network is tried, unless one like it passed on examples like these, on the same device: the
    trial has tests of its own, and takes half of what a short training does.
    """
    from dplib import clipping

    check = clipping.check

    def once(net, x, y, loss):
        trained = tuple(p.requires_grad for p in net.parameters())
        if (kind := (str(net), trained, x.shape, x.dtype, x.device, loss)) not in tried:
            check(net, x, y, loss)
            tried.add(kind)

    monkeypatch.setattr(clipping, "check", once)


@pytest.fixture
def gpu():
    """A GPU: this machine's, else one that stands in."""
    import torch

    from tests import stand_in_gpu

    with contextlib.nullcontext() if torch.cuda.is_available() else stand_in_gpu.present() as memory:
        yield memory


@pytest.fixture(scope="module")
def browser():
    """Chromium. One for each module: Playwright's event loop, while it lives, is in the way of those of other tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser, request):
    """A page of the module's SIZE that keeps its errors and every address it asks for."""
    context = browser.new_context(viewport=request.module.SIZE, color_scheme="light")
    yield watched(context.new_page())
    context.close()


@pytest.fixture(scope="module")
def first_tab(browser, request):
    return watched(browser.new_context(viewport=request.module.SIZE).new_page())


@pytest.fixture
def tab(first_tab, request):
    """A page for tests that only look: one for the module, since its process compiles what pages share only once."""
    first_tab.set_viewport_size(request.module.SIZE)
    first_tab.emulate_media(color_scheme="light")
    first_tab.errors.clear()
    first_tab.addresses.clear()
    return first_tab


def unlinked(line: str) -> str:
    """A line of a dial's answer as a browser shows it, without the addresses of its links."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", line)


def watched(page):
    """The page, which from now on keeps its errors and every address that it asks for."""
    page.set_default_timeout(120_000)  # a loaded machine is no failure
    page.errors, page.addresses = [], []
    page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("request", lambda request: page.addresses.append(request.url))
    return page
