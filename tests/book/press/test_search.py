"""The search's index: each section with its own words and no others, and where it stands."""

import json

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.utils import new_document

from book.press import search

OUTER = "one word n raw text proved"


def page():
    document = new_document("page", get_default_settings())
    inner = nodes.section("", nodes.title("", "Inner"), nodes.paragraph("", "its words"), ids=["inner"])
    formula, letter = nodes.math("", r"\\mu_0"), nodes.math("", "n")
    sentence = nodes.paragraph("", "", nodes.Text("one "), nodes.emphasis("", "wo"), nodes.Text("rd "), formula, letter)
    proof = nodes.section("", nodes.paragraph("", "proved"), ids=["proof-content"])
    code = nodes.literal_block("", "import code")
    raw = nodes.raw("", "<p class='x'>raw<br>text</p><style>p {}</style>", format="html")
    document += nodes.section("", nodes.title("", "Outer"), sentence, code, raw, proof, inner, ids=["outer"])
    return document


def test_a_section_has_its_own_words():
    assert list(search.sections(page())) == [("outer", "Outer", OUTER), ("inner", "Inner", "its words")]


def test_the_index_is_a_script_with_a_line_a_section():
    text = search.script({"book/a": list(search.sections(page()))}, {"book/a": "Outer </script>"})
    head, _, lines = text.partition(" = ")
    assert head == "const SECTIONS"
    assert json.loads(lines.rstrip(";\n"))[1] == ["book/a", "Outer </script>", "inner", "Inner", "its words"]
