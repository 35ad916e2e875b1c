"""The Python of the README and of the book's pages runs as it is printed, in an empty file."""

import re

import pytest

from tests.conftest import ROOT

PAGES = {"README.md": 1, "book/library.md": 2, "book/seeds.md": 1}


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_prints_runs(page, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == PAGES[page]
    for block in blocks:
        exec(block, {})  # what readers paste
    assert 0 < float(capsys.readouterr().out.split()[0]) < 20
