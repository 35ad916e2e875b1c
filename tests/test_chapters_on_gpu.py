"""Every chapter on a GPU that is none: what a page would break on a real one breaks here.

The cells run one after another in this process, with the kept runs and the smallest parameters. Reader's runs ("At your
epsilon") are made on the GPU, of a few steps each. What only computes on the processor for seconds, and has nothing to
do with a GPU, is left out, but for the long tests: there each chapter runs as it is, with ``device="cuda"``.
"""

import contextlib
import dataclasses

import matplotlib
import matplotlib.pyplot as plt
import pytest

from book.evidence import rules, runs, sources
from dplib import audit, exact_loss, many
from papers.architecture import crossover_runs
from papers.screening import account_rows, accounts, annealed_training_runs, annealed_value_rows
from tests import stand_in_gpu
from tests.book.test_notebooks import READERS

CHAPTERS = sources.chapters()
SMALLEST = {  # beside device = "cuda" and seeds = 2, where a chapter has them
    "00a": {"tables": 2, "trainings": 4},
    "00": {"steps": 10, "epsilon": 1.1},  # at its defaults it looks whether its numbers are those of the text
    "01": {"p": 100},
    "03": {"seeds": 5, "sizes": [10, 100]},
    "06": {"seeds": 3, "repeats": 2},
}
SHORTER = {"network": {"steps": 4}, "annealed": {"queries": 10}, "label_stages": {"epochs": 1}}  # runs of a reader
NUMBERS = (
    (exact_loss, "quotient_epsilon", 1.0), (audit, "one_run_limit", 1.0), (account_rows, "steps_at", 1000),
    (account_rows, "epsilon_of", 1.0), (annealed_value_rows, "epsilon", 1.0),
)  # fmt: skip


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """Runs that are made are filed in a folder of their own, and figures go nowhere."""
    monkeypatch.setattr(runs, "STORE", tmp_path)
    backend = matplotlib.get_backend()
    matplotlib.use("agg")
    yield
    plt.close("all")
    matplotlib.use(backend)


@pytest.fixture
def quick(tried_once, monkeypatch):
    """What takes seconds on the processor is left out, and trainings end after a few steps."""
    made = runs.made

    def shorter(function, job, device="cpu"):
        few = made(function, {**job, **SHORTER.get(function.experiment.name, {})}, device)
        return {**few, **runs.identity(function, job, device)}

    monkeypatch.setattr(runs, "made", shorter)
    monkeypatch.setitem(crossover_runs.YOURS, "digits", crossover_runs.YOURS["digits"] | {"tuning_seeds": 1})
    path, train = annealed_training_runs.path, many.train
    monkeypatch.setattr(annealed_training_runs, "path", lambda **job: path(**{**job, "queries": 30}))

    def few_steps(nets, parts, settings, *more, **named):
        return train(nets, parts, dataclasses.replace(settings, steps=min(20, settings.steps)), *more, **named)

    monkeypatch.setattr(many, "train", few_steps)
    for module, name, number in NUMBERS:
        monkeypatch.setattr(module, name, lambda *_, number=number, **__: number)
    monkeypatch.setattr(accounts, "tight", accounts.paper_epsilon)  # quick, and rises with the steps too
    monkeypatch.setattr(rules, "verdict", lambda row, *_: row["expects"])  # these numbers are no row's


def execute(chapter, parameters):
    """All cells of a chapter; what its GPU saw."""
    cells = [cell.source for cell in sources.as_notebook(sources.source(chapter)).cells if cell.cell_type == "code"]
    known = sources.default_parameters(chapter)
    names = {"__name__": "__main__", "display": lambda *_: None}
    with stand_in_gpu.present() as gpu, contextlib.redirect_stdout(None):
        for number, cell in enumerate(cells):
            exec(compile(cell, f"{chapter}, code cell {number}", "exec"), names)
            if number == 0:
                names.update({name: value for name, value in parameters.items() if name in known})
            plt.close("all")
    assert not gpu.lowered, "a page's numbers rest on these products"
    assert gpu.products["cuda"] > 20 or "device" not in known
    return gpu


@pytest.mark.parametrize("chapter", [chapter for chapter in CHAPTERS if sources.number(chapter) not in READERS])
def test_a_chapter_runs_on_a_gpu(chapter, scratch, quick):
    """But for those that import no PyTorch, which a test of the notebooks says of them."""
    execute(chapter, {"device": "cuda", "seeds": 2, **SMALLEST.get(sources.number(chapter), {})})


@pytest.mark.long
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_runs_on_a_gpu_as_it_is(chapter, scratch):
    execute(chapter, {"device": "cuda"})
