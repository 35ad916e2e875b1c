"""A Sphinx extension for code cells: a reader meets a picture first, and what made it one click below.

Set-up (parameters, checks, imports, whatever shows nothing) gathers behind one fold at the foot of its section; the
fold of a cell that shows something stands below what it shows. The notebook itself keeps its order, so that it runs.
"""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.transforms.post_transforms import SphinxPostTransform

SOURCE, OUTPUT = "cell_code_source", "cell_code_output"
SETUP = {"prompt_show": "Set-up of this section", "prompt_hide": "Set-up of this section"}
PARAMETERS = {"prompt_show": "Parameters and set-up", "prompt_hide": "Parameters and set-up"}


class FoldsBelow(SphinxPostTransform):
    """Put the fold of a cell's code below its output, once MyST-NB has made it."""

    default_priority = 210  # right after MyST-NB's own at 199
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Turn the two parts of each such cell around."""
        for cell in _cells(self.document):
            first, last = cell.children[0], cell.children[-1]
            if isinstance(first, HideCodeCellNode) and last.get("nb_element") == OUTPUT:
                cell.children.remove(first)
                cell.append(first)
                first["classes"] = ["code-below"]


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("doctree-read", lambda _, document: gather(document))
    app.add_post_transform(FoldsBelow)
    return {"parallel_read_safe": True}


def gather(document: nodes.document) -> None:
    """Move the set-up of each section of a notebook to the section's foot, into one cell that is folded; in place."""
    for section in list(document.findall(nodes.section)):
        quiet = [node for node in section.children if _is_setup(node)]
        if not quiet:
            continue
        prompts = PARAMETERS if any("tag_parameters" in cell["classes"] for cell in quiet) else SETUP
        fold = nodes.container(nb_element="cell_code", classes=["cell", "setup"], hide_mode="input", **prompts)
        source = nodes.container(nb_element=SOURCE, classes=["cell_input"])
        fold += source
        for cell in quiet:
            section.remove(cell)
            source += cell.children[0].children
        foot = next((n for n, node in enumerate(section) if isinstance(node, nodes.section)), len(section))
        section.insert(foot, fold)


def _cells(document: nodes.document) -> Iterator[nodes.container]:
    return (
        node for node in document.findall(nodes.container) if node.get("nb_element") == "cell_code" and node.children
    )


def _is_setup(node: nodes.Node) -> bool:
    """Whether a child of a section is a cell without output whose code is folded, or the cell of parameters."""
    if not isinstance(node, nodes.container) or node.get("nb_element") != "cell_code":
        return False
    shows = [part for part in node.children if part.get("nb_element") != SOURCE]
    return not shows and (node.get("hide_mode") == "input" or "tag_parameters" in node["classes"])
