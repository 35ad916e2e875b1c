"""External links: found in text and in bibliographies, listed with their pages, held against their form."""

import nbformat
import pytest

from press import links


@pytest.mark.parametrize(
    "address",
    [
        "https://arxiv.org/abs/2204.13650",
        "https://arxiv.org/abs/2204.13650v2",
        "https://doi.org/10.1080/00031305.2015.1089789",
        "https://pytorch.org/get-started/locally/",
    ],
)
def test_a_good_address_has_no_problem(address):
    assert not links.problem(address)


@pytest.mark.parametrize(
    "address",
    [
        "http://arxiv.org/abs/2204.13650",
        "https://localhost/page",
        "https://example/page",
        "https://doi.org/1080/0003",
        "https://arxiv.org/abs/22041365",
        "https://example.org/page.",
        "https://example.org/a page",
        "ftp://example.org/a",
    ],
)
def test_a_bad_address_is_seen(address):
    assert links.problem(address)


def test_addresses_end_where_the_text_goes_on():
    text = "See <https://a.org/x>, [b](https://b.org/y_(z)), and https://c.org/w. Also (https://d.org/v)."
    assert links.addresses(text) == ["https://a.org/x", "https://b.org/y_(z)", "https://c.org/w", "https://d.org/v"]
    assert links.addresses("  doi = {10.1000/abc},\n  url = {https://e.org/}") == [
        "https://e.org/",
        "https://doi.org/10.1000/abc",
    ]


def test_the_list_names_the_pages(tmp_path):
    (tmp_path / "notebooks").mkdir()
    text = "https://a.org/x `https://b.org/x`\n```\nhttps://c.org/x\n```\n"
    (tmp_path / "book.md").write_text(text, encoding="utf-8")
    cells = [nbformat.v4.new_markdown_cell("<https://a.org/x>"), nbformat.v4.new_code_cell("'https://not.org/'")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "notebooks" / "01_a.ipynb")
    assert links.markdown(tmp_path) == "- <https://a.org/x> (01_a, book)\n"


def test_a_link_behind_a_directive_counts_and_one_in_code_does_not(tmp_path):
    page = "```{include} a.md\n```\n\n[a](https://a.org/)\n\n```bash\nget https://b.org/\n```\n\n`https://c.org/`\n"
    page += "````{note}\nSee <https://d.org/>.\n```python\nx = 'https://e.org/'\n```\n````\n"
    (tmp_path / "page.md").write_text(page)
    (tmp_path / "notebooks").mkdir()
    assert [line[3:12] for line in links.markdown(tmp_path).splitlines()] == ["https://a", "https://d"]
