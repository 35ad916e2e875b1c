"""First light: what goes wrong in a stage is said, and stays in it; what it checks can fail; all on a processor."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from book.evidence import agreement, first_light, plans, replay, runs
from book.evidence import first_light_pages as pages
from book.evidence import first_light_process as process
from book.evidence import first_light_speed as speed
from book.evidence import first_light_sums as sums
from dplib import clipping, devices, examples
from dplib.checks import ParameterError
from tests.conftest import ROOT

CPU = torch.device("cpu")
LAST = {"long": "x" * 200_000}


def toys(out, *stages, limit=300.0, only=None, said=lambda _: None):
    return first_light.Round(
        "cpu", out, limit, only or dict.fromkeys(stages), said, module="tests.book.evidence.first_light_toys"
    )


def states(out):
    report = first_light.Report(out / "report.jsonl")
    return {key: line["state"] for key, line in report.latest("cpu").items()}


@pytest.fixture
def short(monkeypatch):
    """A stage's piece hangs when it has taken six seconds."""
    monkeypatch.setattr(first_light, "STAGES", {name: first_light.Stage(60, "toys") for name in first_light.STAGES})
    monkeypatch.setattr(first_light, "HANGS", 0.1)
    monkeypatch.setattr(first_light, "LEAST", 1.0)


def test_what_goes_wrong_is_said_and_the_rest_goes_on(tmp_path, short):
    said = []
    assert not toys(tmp_path, "machine", "sums", said=said.append).run()
    states_ = states(tmp_path)
    assert {piece: state for (stage, piece), state in states_.items() if stage == "sums"} == {
        "good": "ok", "raises": "failed", "off": "wrong", "needs": "skipped", "dies": "died", "last": "ok", "": "wrong",
    }  # fmt: skip
    lines = first_light.Report(tmp_path / "report.jsonl").latest("cpu")
    assert lines["machine", "good"]["facts"] == {"value": 1.235, "none": None}
    assert lines["machine", "last"]["facts"] == LAST
    assert "ValueError" in lines["sums", "raises"]["error"]
    assert "exit status 3" in lines["sums", "dies"]["error"]
    assert any("a fault of this piece" in text for text in said)
    assert "a fault of this piece" in (tmp_path / "sums.log").read_text()


def test_failed_pieces_are_done_again_alone(tmp_path, short):
    toys(tmp_path, "machine").run()
    (tmp_path / "mended").touch()
    report = first_light.Report(tmp_path / "report.jsonl")
    before, again = len(report.lines()), first_light.again(report, "cpu", ["machine"])
    assert again == {"machine": ["raises", "off"]}
    toys(tmp_path, only=again).run()
    assert [line["piece"] for line in report.lines()[before:]] == ["raises", "off", ""]
    assert states(tmp_path)["machine", "raises"] == "ok"
    assert first_light.again(report, "cuda", ["machine"]) == {"machine": None}


def test_a_piece_that_hangs_is_killed_and_said(tmp_path, short):
    assert not toys(tmp_path, "speed").run()
    states_ = states(tmp_path)
    assert states_["speed", "hangs"] == "killed"
    assert states_["speed", "last"] == "ok", "a fresh process does what is left"
    (tmp_path / "mended").touch()
    toys(tmp_path, only={"speed": ["hangs"]}).run()
    assert states(tmp_path)["speed", "hangs"] == "ok"


def test_a_shorter_limit_is_no_fault(tmp_path, short):
    round_ = toys(tmp_path, limit=60.0, only={"speed": ["good", "hangs", "last"]})
    assert round_.run()
    assert states(tmp_path)["speed", "hangs"] == "cut"
    assert "hangs" in first_light.again(round_.report, "cpu", ["speed"])["speed"]


def test_a_report_is_whole_after_a_kill(tmp_path):
    code = (
        "import sys; from pathlib import Path; from book.evidence import first_light\n"
        "only = {name: None for name in first_light.STAGES}\n"
        "first_light.Round('cpu', Path(sys.argv[1]), 300.0, only, print, 'tests.book.evidence.first_light_toys').run()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-u", "-c", code, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as started:
        for text in started.stdout:
            if "raises" in text:
                break
        started.send_signal(signal.SIGKILL)
    report = first_light.Report(tmp_path / "report.jsonl")
    assert report.lines()[0]["piece"] == "good"
    with report.path.open("ab") as file:
        file.write(b'{"stage": "machine", "pie')  # what a kill can leave
    assert all("state" in line for line in report.lines())
    report.add({"stage": "machine", "piece": "next", "device": "cpu", "state": "ok"})
    assert report.lines()[-1]["piece"] == "next"
    assert all(json.loads(text) for text in report.path.read_text().splitlines())


def test_its_processes_end_with_it(tmp_path, short):
    read, write = os.pipe()
    round_ = toys(tmp_path, "speed")
    share = first_light.Share(round_, "speed", (0, 1), 60.0)
    share.end = time.monotonic() + 60
    child = share._started(write)
    os.close(write)
    child.stdin.close()  # as the system does it when a process has ended
    assert child.wait(60) == -signal.SIGKILL
    os.close(read)


def test_two_in_one_folder_are_refused(tmp_path):
    from dplib import files

    with files.locked(tmp_path / ".lock", blocking=False), pytest.raises(ParameterError, match="out"):
        toys(tmp_path, "machine").run()


@pytest.mark.parametrize(("device", "stages", "name"), [("tpu", (), "device"), ("cpu", ("first",), "stage")])
def test_what_is_asked_is_checked(tmp_path, device, stages, name):
    with pytest.raises(ParameterError, match=name):
        first_light.run(device, tmp_path, 60.0, stages)


@pytest.mark.skipif(torch.cuda.is_available(), reason="of a machine without a GPU")
def test_without_a_gpu_one_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(first_light, "STAGES", {"machine": first_light.Stage(300, "time enough to import PyTorch")})
    with pytest.raises(ParameterError, match="device = cuda"):
        first_light.run("cuda", tmp_path, 300.0, ["machine"], said=lambda _: None)


# ---- what the pieces check ----


def cut_to_tf32(x):
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32).view(x.shape)


@pytest.mark.parametrize("name", ["CNN", "perceptron"])
def test_a_clipped_sum_of_cut_factors_is_wrong(name, monkeypatch, one_thread):
    assert "wrong" not in sums.clipped_sum(CPU, name)
    add = clipping.ClippedSums.add

    def cutting(self, x, *rest):
        for p in self.net.parameters():
            p.data = cut_to_tf32(p.data)
        return add(self, cut_to_tf32(x), *rest)

    monkeypatch.setattr(clipping.ClippedSums, "add", cutting)
    assert sums.clipped_sum(CPU, name)["wrong"]


def test_products_of_few_bits_are_seen(one_thread):
    assert max(sums.product_errors(CPU).values()) < sums.CUT / 10
    with torch.autocast("cpu", torch.bfloat16):
        assert min(sums.product_errors(CPU).values()) > 10 * sums.CUT
    cut = [cut_to_tf32(torch.randn(256, 256, generator=torch.Generator().manual_seed(i))) for i in range(2)]
    due = [torch.randn(256, 256, generator=torch.Generator().manual_seed(i)).double() for i in range(2)]
    error = (cut[0].double() @ cut[1].double() - due[0] @ due[1]).norm() / (due[0] @ due[1]).norm()
    assert error > 3 * sums.CUT


def test_precision_holds_and_can_fail(monkeypatch, one_thread):
    assert "wrong" not in sums.precision(CPU)
    monkeypatch.setattr(sums, "product_errors", lambda _: {"product": 3e-4})
    assert sums.precision(CPU)["wrong"]


@pytest.mark.parametrize("change", ["sd", "correlated"])
def test_noise_that_is_off_is_wrong(change, monkeypatch, one_thread):
    assert "wrong" not in sums.noise(CPU)
    fill = examples.fill_normal

    def other(out, sd, generator):
        if change == "sd":
            return fill(out, 1.01 * sd, generator)
        out[1:] = 0.05 * fill(out, sd, generator)[:-1].clone() + out[1:]
        return out

    monkeypatch.setattr(examples, "fill_normal", other)
    assert sums.noise(CPU)["wrong"]


def test_another_seed_is_no_rounding(monkeypatch, one_thread):
    function = plans.experiments()["network"]
    assert pages.probe(function, "cpu")["largest difference"] <= pages.TOLERANCE / 10
    stored = replay.stored_probes()
    stored["network"]["job"] = {**stored["network"]["job"], "seed": 77}
    monkeypatch.setattr(replay, "stored_probes", lambda: stored)
    assert pages.probe(function, "cpu")["wrong"]


@pytest.mark.parametrize("name", ["network", "width", "table_logistic"])
def test_a_probe_on_a_gpu_draws_the_processors_numbers(name, gpu, one_thread):
    """The stand-in has the processor's numbers anyway, but not where a draw for it is made here and copied."""
    function = plans.experiments()[name]
    with pages.processors_numbers():
        loaded = json.loads(json.dumps(function(**runs.as_called(function.experiment.probe), device="cuda")))
    due = replay.stored_probes()[name]["result"]
    assert list(agreement.differences(due, loaded, pages.TOLERANCE)) == []


def test_draws_for_a_gpu(gpu):
    with pages.processors_numbers():
        generator = torch.Generator("cuda").manual_seed(3)
        made = torch.zeros(5, device="cuda").normal_(0.0, 2.0, generator=generator)
        there = torch.randn(4, device="cuda", generator=generator)
    assert made.is_cuda
    assert there.is_cuda
    same = torch.Generator().manual_seed(3)
    assert torch.equal(made.cpu(), torch.zeros(5).normal_(0.0, 2.0, generator=same))
    assert torch.equal(there.cpu(), torch.randn(4, generator=same))


@pytest.mark.parametrize(
    # Chapter 0 trains by itself what the others leave to experiments: ten seconds of processor, most of this file's.
    "chapter",
    [pytest.param("00_dp_sgd", marks=pytest.mark.long), "04_crossover_epsilon", "14_when_is_larger_better"],
)
def test_a_chapters_last_section_answers(chapter, one_thread):
    before = runs.STORE
    facts = pages.section(chapter, "cpu")
    assert facts["answers"]
    assert "wrong" not in facts
    assert before == runs.STORE


def test_every_chapters_last_section_is_there():
    from book.evidence import sources

    for chapter in sources.chapters():
        assert pages.needed(chapter, {}), chapter


def test_a_case_is_timed(one_thread):
    facts = process.plain(speed.case_speed(CPU, speed.perceptron(16)))
    assert set(facts["sides"]) == {"DP-SGD", "SGD", "Opacus, ghost clipping", "Opacus, hooks"}
    assert all(side["steps_a_second"] > 0 for side in facts["sides"].values())


def test_the_crossing_of_two_lines():
    rows = [{"batch": b, "operations": 1e7 * b, "core": 1e7 * b / 4e10, "device": 1e-3} for b in (1, 2, 3, 256, 1024)]
    fitted = speed.constants(rows)
    assert fitted["core_operations_a_second"] == pytest.approx(4e10)
    assert fitted["crossing_operations"] == pytest.approx(4e7)
    assert fitted["largest_step_where_the_core_is_faster"] == 3e7
    assert fitted["smallest_step_where_the_device_is_faster"] == 2.56e9


def test_operations_of_a_step():
    assert speed.operations(speed.perceptron(10)) == 3 * 2 * 10 * (784 * 128 + 128 * 10)


def test_the_studies_with_most_open_rows_an_hour_come_first():
    order = pages.in_order()
    assert sorted(order) == plans.studies()
    with_rows = [study for study, rows in plans.routes(pages.ledger()).items() if any(rows.values())]
    assert set(order[: len(with_rows)]) == set(with_rows)


# ---- what the book shows ----


def cuda_report(path):
    report = first_light.Report(path)
    sides = {"DP-SGD": {"steps_a_second": 900.0, "peak_memory_bytes": 2**30}, "SGD": {"steps_a_second": 2000.0}}
    facts = {
        ("machine", "start-up"): {"gpu": "Toy GPU", "torch": "2.11", "commit": "abc", "first_step_seconds": 4.0},
        ("speed", "CNN, 512"): {"batch": 512, "sides": sides},
        ("speed", "processes"): {"batch": 512, "steps_a_second": {"1": 900.0, "4": 2400.0}},
    }
    for (stage, piece), of in facts.items():
        report.add({"stage": stage, "piece": piece, "device": "cuda", "state": "ok", "seconds": 1.0, "facts": of})
    return path


def test_a_report_of_a_gpu_becomes_the_books(tmp_path, monkeypatch):
    monkeypatch.setattr(first_light, "RESULT", tmp_path / "results" / "gpu.json")
    with pytest.raises(ParameterError, match="report"):
        first_light.write(tmp_path / "report.jsonl")
    written = first_light.write(cuda_report(tmp_path / "report.jsonl"))
    assert json.loads(written.read_text())["machine"]["start-up"]["gpu"] == "Toy GPU"
    np.testing.assert_allclose(
        json.loads(written.read_text())["speed"]["CNN, 512"]["sides"]["SGD"]["steps_a_second"], 2e3
    )


@pytest.mark.parametrize("hours", [-48, 48])
def test_runs_that_were_made_are_reported_whatever_the_clock_says(tmp_path, monkeypatch, hours):
    """One was there before, one is made, one is made anew; the clock jumps in between."""
    store, out, begun = tmp_path / "store", tmp_path / "out", time.time()
    (store / "toy").mkdir(parents=True)

    def filed(name, when):
        path = store / "toy" / f"{name}.json"
        path.write_text(json.dumps({"name": name, "at": when}), encoding="utf-8")
        os.utime(path, (when, when))

    def make(wanted, *, workers, limit, said):
        filed("new", begun + 3600 * hours)
        said("one")
        filed("old", begun + 3600 * hours + 1)
        said("two")

    filed("old", begun + 10 * 3600 * 24)
    filed("older", begun - 10 * 3600 * 24)
    monkeypatch.setattr(runs, "STORE", store)
    monkeypatch.setattr(runs, "parsed", lambda text: ("", json.loads(text)))
    monkeypatch.setattr(pages, "in_order", list)
    monkeypatch.setattr(pages, "workers", lambda out: 1)
    monkeypatch.setattr(pages.making, "make", make)
    facts = pages.planned("cpu", time.monotonic() + 5, out)
    assert [line["name"] for line in first_light.Report(out / "lines.jsonl").lines()] == ["new", "old"]
    assert facts["runs"] == 2


def test_chapters_without_ipython_may_be_several_in_a_process(monkeypatch):
    for name in ("IPython", "IPython.display"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(pages.importlib.util, "find_spec", lambda name: None)
    modules = dict(sys.modules)
    monkeypatch.setattr(sys, "modules", modules)
    pages._stand_in_for_ipython()
    stand_in = modules["IPython"]
    monkeypatch.setattr(pages.importlib.util, "find_spec", lambda name: pytest.fail("a stand-in has no spec"))
    pages._stand_in_for_ipython()
    assert modules["IPython"] is stand_in


def test_dropout_on_a_gpu_drops_what_the_processor_would(gpu):
    layer, x = torch.nn.Dropout(0.2), torch.ones(1000)
    with devices.same_randomness(CPU, 5):
        due = layer(x)
    with pages.processors_numbers(), devices.same_randomness(torch.device("cuda"), 5):
        given = layer(x.to("cuda"))
    assert torch.equal(given.cpu(), due)
    assert 100 < int((due == 0).sum()) < 300
