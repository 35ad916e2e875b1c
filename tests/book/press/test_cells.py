"""Folded code on a page: set-up gathers at the foot of its section, and a picture stands above what made it."""

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.utils import new_document
from myst_nb.sphinx_ import HideCodeCellNode

from book.press import cells


def cell(source, *, output="", hidden=True, tags=()):
    parts = [nodes.container("", nodes.literal_block(source, source), nb_element=cells.SOURCE)]
    if output:
        parts.append(nodes.container("", nodes.paragraph("", output), nb_element=cells.OUTPUT))
    made = nodes.container("", *parts, nb_element="cell_code", classes=["cell", *tags])
    if hidden:
        made["hide_mode"] = "input"
    return made


def page(*children):
    document = new_document("page", get_default_settings())
    document += nodes.section("", *children, ids=["top"])
    return document


def test_set_up_gathers_at_the_foot_of_its_section_in_order():
    inner = nodes.section("", cell("c = 1"), nodes.paragraph("", "text"), ids=["inner"])
    shown = [cell("draw()", output="picture"), cell("def f(): ...", hidden=False)]
    parameters = cell("a = 1", hidden=False, tags=["tag_parameters"])
    document = page(nodes.title("", "Title"), parameters, cell("b = 1"), *shown, nodes.paragraph("", "caption"), inner)
    cells.gather(document)
    top = document[0]
    assert [type(child) for child in top[:1]] == [nodes.title]
    assert top[1:3] == shown
    assert top[3].astext() == "caption"
    fold = top[4]
    assert [block.astext() for block in fold.findall(nodes.literal_block)] == ["a = 1", "b = 1"]
    assert fold["hide_mode"] == "input"
    assert fold["prompt_show"] == cells.PARAMETERS["prompt_show"]
    assert top[5] is inner
    assert [child.astext() for child in inner] == ["text", "c = 1"]
    assert inner[1]["prompt_show"] == cells.SETUP["prompt_show"]


def test_a_page_without_set_up_stays_as_it_is():
    document = page(nodes.paragraph("", "text"), cell("draw()", output="picture"))
    before = document.pformat()
    cells.gather(document)
    assert document.pformat() == before


def test_the_fold_stands_below_what_the_code_shows():
    shown = cell("draw()", output="picture")
    shown.children[0:1] = [HideCodeCellNode("", *shown.children[:1], prompt_show="", prompt_hide="")]
    document = page(shown)
    cells.FoldsBelow(document).run()
    assert [type(part) for part in shown] == [nodes.container, HideCodeCellNode]
