"""Every chapter: in step with its pair, without outputs, executes on embedded data, refuses nonsense."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from book.evidence import claims, execution, pairing, sources
from book.press import ledger
from tests.conftest import ROOT

CHAPTERS = sources.chapters()
WITH_DATA = sources.resolve("0")  # it has a budget and a data set


@pytest.fixture(scope="session")
def executed():
    """The chapters executed on embedded data, by the engine that `make book` uses: only what changed runs."""
    command = [sys.executable, "-m", "book.evidence.alone", "--cores", "all", "--rerun-incomplete"]
    command += ["--max-checksum-file-size", "1000000000"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [*command, "executed"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return {chapter: nbformat.read(execution.EXECUTED / f"{chapter}.ipynb", as_version=4) for chapter in CHAPTERS}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_pair_is_in_step_and_has_no_outputs(chapter):
    pair = (sources.NOTEBOOKS / f"{chapter}.ipynb").read_text(encoding="utf-8")
    assert pair == pairing.normal(chapter)[0], "run make pair; where the notebook has outputs, book pair --force"
    assert not any(cell.get("outputs") for cell in json.loads(pair)["cells"])


@pytest.mark.site
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_executes_and_records(executed, chapter):
    notebook = executed[chapter]
    recorded = [row["id"] for row in claims.recorded(notebook)]
    assigned = {claim.chapter for claim in claims.load_all().values()}
    assert recorded or chapter not in assigned, "a chapter that records no claim tests nothing"
    assert len(recorded) == len(set(recorded)), "a claim has one record"
    assert {claims.get(id_).chapter for id_ in recorded} <= {chapter}, "a claim is settled in the chapter it names"
    basis = claims.basis(notebook)
    assert basis["seeds"]
    assert basis["datasets"]
    assert basis["accounting"]
    assert notebook.metadata["dplib"]["inputs"] == sources.inputs(chapter)


@pytest.mark.site
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_table_shows_what_is_no_number(executed, chapter):
    """What was not run is a dash: chapter 14 had a table full of "+nan"."""
    outputs = [output for cell in executed[chapter].cells for output in cell.get("outputs", ())]
    tables = "".join(output.get("data", {}).get("text/html", "") for output in outputs)
    assert not re.findall(r">\s*[+−-]?nan\b[^<]{0,20}<", tables)


@pytest.mark.site
def test_a_card_of_kept_runs_says_what_the_ledger_says(executed):
    rows = {row.claim.id: row for row in ledger.gather(ledger.executed_chapters())}
    found = 0
    for notebook in executed.values():
        for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
            record = output.get("metadata", {}).get(claims.RECORD, {})
            if "plan" in record:
                row = rows[record["id"]]
                assert row.verdict == record["verdict"] == row.claim.expects, record["id"]
                assert row.values == record["values"], record["id"]
                assert claims.badge(row.verdict) in output.data["text/html"], record["id"]
                found += 1
    assert found > 20


@pytest.mark.site
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_figure_has_a_text(executed, chapter):
    """The site gives a cell's alternative text to each of its images, so that a cell has one image at most."""
    for cell in executed[chapter].cells:
        images = [o for o in cell.get("outputs", ()) if any(kind.startswith("image/") for kind in o.get("data", {}))]
        assert len(images) <= 1, cell.source
        assert not images or cell.metadata.get("mystnb", {}).get("image", {}).get("alt"), cell.source


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_check_covers_every_parameter(chapter):
    """A parameter without a rule would take any value: the second code cell names each as a keyword."""
    cells = [cell.source for cell in sources.as_notebook(sources.source(chapter)).cells if cell.cell_type == "code"]
    assert "checks.parameters(" in cells[1]
    for name in sources.default_parameters(chapter):
        assert f"{name}=" in cells[1].replace(" ", ""), f"{chapter}: {name} is not checked"


READERS = ("01", "08", "10b", "14")  # what they train, they train at a reader's budget alone, if at all


def test_chapters_that_draw_kept_runs_import_no_pytorch():
    """It takes two seconds; one process for all of them, each with the imports of its cells."""
    imports = []
    for chapter in map(sources.resolve, READERS):
        cells = sources.as_notebook(sources.source(chapter)).cells
        tree = ast.parse("\n".join(cell.source for cell in cells if cell.cell_type == "code"))
        imports += [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    program = "\n".join([*imports, "import sys", "assert not {'torch', 'opacus'} & set(sys.modules)"])
    assert len(imports) > 20
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_a_gpu_that_is_not_there_is_refused_in_one_sentence(tmp_path):
    command = [sys.executable, "-m", "book", "run", "11", "-p", "device", "cuda", "-o", "out.ipynb"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert lines[-1].startswith("Error: device = 'cuda' is not allowed: it must be auto or cpu, or cuda where")
    assert not list(tmp_path.iterdir())


def test_nonsense_ends_papermill_in_the_check_cell(tmp_path):
    """Papermill itself, called from another folder: it ends in the second cell, with the sentence, before any work."""
    source = str(sources.NOTEBOOKS / f"{WITH_DATA}.ipynb")
    command = [sys.executable, "-m", "papermill", source, "out.ipynb", "-p", "epsilonn", "0.5"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "ParameterError: epsilonn" in done.stderr
    notebook = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    assert "An Exception was encountered" in notebook.cells[0].source, "papermill's banner marks it as no result"
    ran = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.execution_count]
    assert len(ran) <= 4, "the banner's cells, the parameters and the check"
    assert not claims.records(notebook)


@pytest.mark.parametrize(("name", "text"), [("epsilonn", "0.5"), ("epsilon", "nan"), ("dataset", "nosuch")])
def test_nonsense_ends_dplib_run_with_one_sentence_and_no_file(tmp_path, name, text):
    command = [sys.executable, "-m", "book", "run", WITH_DATA, "-p", name, text, "-o", "out.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert lines[-1].startswith(f"Error: {name}")
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
