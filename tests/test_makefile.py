"""Every target of the Makefile works on this folder alone, whatever the folder is called."""

import os
import re
import shutil
import subprocess

import pytest

from tests.conftest import ROOT

TARGETS = re.findall(r"^([a-z-]+):.*?##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("target", [*TARGETS, "otter"])
def test_a_path_with_spaces_is_one_path(target, tmp_path):
    folder = tmp_path / "my own" / "book of $HOME"
    folder.mkdir(parents=True)
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    (folder / "book" / "assignments").mkdir(parents=True)
    shutil.copy(ROOT / "book" / "assignments" / "requirements.lock", folder / "book" / "assignments")
    command = ["make", "--dry-run", "--no-print-directory", target]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # this make is no part
    shown = subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    for line in shown.stdout.splitlines():
        parts = re.sub(r'"[^"]*"', "", line)  # what is quoted is one word
        assert str(tmp_path) not in parts, line
