"""``import dplib``: quick, and every name that it promises is there."""

import ast
import subprocess
import sys

import pytest

import dplib
from tests.conftest import ROOT


def test_every_name_is_there():
    assert len(dplib.__all__) == len(set(dplib.__all__)) > 20
    for name in dplib.__all__:
        assert getattr(dplib, name) is getattr(dplib, name)
    assert set(dplib.__all__) <= set(dir(dplib))
    with pytest.raises(AttributeError, match="nothing_of_ours"):
        _ = dplib.nothing_of_ours


def test_type_checkers_are_told_the_same():
    tree = ast.parse((ROOT / "dplib" / "__init__.pyi").read_text(encoding="utf-8"))
    told = {alias.asname: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert told == {name: f"dplib.{module}" for name, module in dplib._FROM.items()}


def test_the_front_door_loads_nothing():
    program = "import sys; import dplib; assert not {'torch', 'numpy', 'scipy', 'yaml'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_old_commands_say_what_they_are_called_now():
    done = subprocess.run([sys.executable, "-m", "dplib", "run", "01"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "python -m book" in done.stderr
    assert done.stderr.count("\n") == 1
