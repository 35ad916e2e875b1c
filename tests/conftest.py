"""Shared by all tests: where the project is, and a scratch copy of it with toy chapters."""

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

CHAPTER = """---
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---
# A toy chapter

```{{code-cell}} ipython3
:tags: [parameters]

epsilon = 5.0  # budget
dataset = "digits"
```

```{{code-cell}} ipython3
from dplib import checks

checks.parameters(globals(), epsilon=checks.positive(), dataset=checks.one_of("digits", "mnist"))
```

```{{code-cell}} ipython3
from dplib import {module}

{code}
```
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A function that writes toy chapters into a scratch project, which dplib then takes for its own."""
    from dplib import claims, runs, sources

    for folder in ("notebooks/profiles", "book/results", "executed"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copytree(ROOT / "dplib", tmp_path / "dplib", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "book" / "claims", tmp_path / "book" / "claims")
    monkeypatch.setattr(sources, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(sources, "PACKAGE", tmp_path / "dplib")
    monkeypatch.setattr(sources, "RESULTS", tmp_path / "book" / "results")
    monkeypatch.setattr(sources, "CLAIMS", tmp_path / "book" / "claims")
    monkeypatch.setattr(claims, "RESULTS", tmp_path / "book" / "results")
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "book" / "results")
    monkeypatch.setattr(runs, "EXECUTED", tmp_path / "executed")
    monkeypatch.setattr(runs, "PROFILES", tmp_path / "notebooks" / "profiles")

    def write(name: str, code: str, module: str = "claims") -> Path:
        path = tmp_path / "notebooks" / f"{name}.md"
        path.write_text(CHAPTER.format(module=module, code=code), encoding="utf-8")
        return tmp_path

    return write
