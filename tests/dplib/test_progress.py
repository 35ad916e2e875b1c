"""The bar of long trainings."""

import subprocess
import sys

KERNEL = """
import sys
from types import SimpleNamespace
sys.modules["ipykernel.zmqshell"] = SimpleNamespace()
sys.modules["IPython"] = SimpleNamespace(get_ipython=lambda: SimpleNamespace())
sys.modules["ipywidgets"] = None
"""


def said(module):
    """What the import of a module says in a notebook without widgets."""
    ran = subprocess.run([sys.executable, "-c", f"{KERNEL}\nimport {module}"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


def test_a_notebook_without_widgets_is_told_nothing_of_them():
    assert "IProgress" in said("tqdm.auto")  # what it would be told
    assert said("dplib.progress") == ""


def test_whatever_shows_a_bar_takes_it_from_there():
    assert said("dplib.sgd, dplib.dpsgd, dplib.many, dplib.logistic_grid") == ""
