"""What tests of several folders play with: small notebooks, and what answers a study's questions without training."""

from collections.abc import Callable, Sequence
from typing import Any

_HEAD = """---
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---
# A toy
"""


def chapter(parameters: str, rules: str, *cells: str) -> str:
    """A notebook in MyST: a cell of parameters, one that checks them by ``rules``, and more code cells."""
    check = f"from dplib import checks\n\nANY = checks.Rule('anything', lambda value: True)\nchecks.parameters({rules})"
    codes = (f":tags: [parameters]\n\n{parameters.strip()}", check, *cells)
    return _HEAD + "".join(f"\n```{{code-cell}} ipython3\n{code.strip()}\n```\n" for code in codes)


def recorded(**values: Any) -> str:
    """Code that records values for a row of the ledger; they may name the notebook's variables."""
    named = ", ".join(f"{name!r}: {text}" for name, text in values.items())
    return f"""
from IPython.display import display

record = {{"id": "A.thm6", "values": {{{named}}}, "verdict": "holds", "because": "toy", "data": {{}}}}
display({{"text/plain": "recorded"}}, metadata={{"dplib_record": record}}, raw=True)
"""


def in_memory(function: Callable[..., Any], jobs: Sequence[dict[str, Any]]) -> list[Any]:
    """Results without a store."""
    return [function(**job) for job in jobs]


class Asked:
    """Results of a function of the job, without training; keeps what was asked for."""

    def __init__(self, result: Callable[[dict[str, Any]], Any]):
        self.result, self.jobs = result, []

    def __call__(self, function: Callable[..., Any], jobs: Sequence[dict[str, Any]]) -> list[Any]:
        self.jobs += jobs
        return [self.result(job) for job in jobs]

    def tuning(self) -> list[dict[str, Any]]:
        """The jobs on the tuning split."""
        return [job for job in self.jobs if job.get("part") == "tune"]

    def reported(self) -> list[dict[str, Any]]:
        """All others."""
        return [job for job in self.jobs if job.get("part") != "tune"]
