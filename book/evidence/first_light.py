"""First light: the whole book tried on a GPU in at most five minutes, ``make gpu`` or ``python -m book gpu``.

Five stages (:data:`STAGES`), each of pieces (:mod:`book.evidence.first_light_process`), each in processes of its own
that are killed where they hang: a stage cannot wait for a GPU that answers no more, and an error of CUDA that sticks
ends its process alone, whose other pieces a fresh one does. Everything is appended to ``report.jsonl`` as it comes, a
line a piece and then one for the stage; kept runs to ``lines.jsonl``, for ``runs keep --from``. Here nothing imports
PyTorch.
"""

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from book.evidence import execution
from dplib import checks, files
from dplib.checks import ParameterError

OUT = execution.ROOT / "_build" / "gpu"
RESULT = execution.ROOT / "book" / "results" / "gpu.json"
FIVE_MINUTES = 300.0
OPEN = ("wrong", "failed", "died", "killed")  # what a person has to look at
AGAIN = (*OPEN, "cut", "not reached")  # what --only-failed does again
BEGIN = 0.85  # of a stage's time: no piece is begun after it
HANGS = 0.6  # of a stage's time: no piece takes longer
LEAST = 15.0  # seconds: less would not do to import PyTorch and begin
BROKEN, NO_DEVICE = 75, 76  # exit status of a process whose GPU answers with errors only; and of one without a GPU


@dataclass(frozen=True)
class Stage:
    """``seconds`` of five minutes; ``alone``: one process, since it measures times or starts processes itself."""

    seconds: float
    says: str
    alone: bool = True


STAGES = {
    "machine": Stage(25, "versions, memory bandwidth, matrix products"),
    "sums": Stage(40, "clipped sums against float64, noise, precision, waits of the host"),
    "experiments": Stage(60, "the probe of every experiment, every chapter's last section", alone=False),
    "speed": Stage(75, "steps a second and memory, several processes, from which size a GPU gains"),
    "plan": Stage(100, "runs of the plans for GPUs, what decides most rows a minute first"),
}


class ReportLine(TypedDict):
    """A line of the report.

    ``state`` of a piece: "ok"; "wrong", a check did not hold; "failed", it raised; "died", its process ended; "killed",
    it took longer than anything there may; "cut", its stage was over, or ``--limit`` gave that less than :data:`STAGES`
    has; "skipped", what it needs is not here; "not reached". The line of a stage has no piece and the worst of these.
    """

    stage: str
    piece: str
    device: str
    state: str
    seconds: float
    facts: dict[str, Any]
    error: NotRequired[str]


class Report:
    """A file of lines, each appended whole: what a process that was killed left of one is taken away first."""

    def __init__(self, path: Path):
        self.path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, line: Any) -> None:
        """Append a line, in UTF-8, to be found whatever happens next."""
        with self._lock, self.path.open("ab+") as file:
            whole = _whole(self.path)
            file.truncate(whole)
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def lines(self) -> list[Any]:
        """The lines that are there; without one that was not finished."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            return [json.loads(text) for text in file.read(_whole(self.path)).splitlines()]

    def latest(self, device: str) -> dict[tuple[str, str], ReportLine]:
        """The last line of each (stage, piece) on a device, in the order of their first ones."""
        return {(line["stage"], line["piece"]): line for line in self.lines() if line.get("device") == device}


def _whole(path: Path) -> int:
    """Bytes of a file up to the end of its last whole line."""
    return path.read_bytes().rfind(b"\n") + 1


@dataclass
class Round:
    """One call of the command: its stages one after another, whatever becomes of each.

    Args:
        device: "cuda" or "cpu". out: folder of the report. limit: seconds in all.
        only: the stages to do, and of each the pieces, None for all of them. module: what a process runs the main of.
    """

    device: str
    out: Path
    limit: float
    only: Mapping[str, Collection[str] | None]
    said: Callable[[str], None] = print
    module: str = "book.evidence.first_light_process"
    living: set[subprocess.Popen] = field(default_factory=set)
    ended: bool = False

    def run(self) -> bool:
        """Do the stages; whether nothing was wrong, failed, died or hung."""
        self.report = Report(self.out / "report.jsonl")
        try:
            with files.locked(self.out / ".lock", blocking=False):
                return self._stages()
        except BlockingIOError:
            raise ParameterError(f"out = {self.out} is not allowed: another first light writes there.") from None
        finally:
            self.ended = True
            for process in list(self.living):
                kill(process)

    def _stages(self) -> bool:
        end, share, saved, states = time.monotonic() + self.limit, min(1.0, self.limit / FIVE_MINUTES), 0.0, []
        for name in (name for name in STAGES if name in self.only):
            begun = time.monotonic()
            # What the stages before have left over is this one's, too; the last one has all that is left.
            allowed = math.inf if name == "plan" else max(LEAST, STAGES[name].seconds * share + saved)
            states.append(self._stage(name, max(0.0, min(allowed, end - begun))))
            saved = allowed - (time.monotonic() - begun)
        return not set(states) & set(OPEN)

    def _stage(self, name: str, seconds: float) -> str:
        stage, begun = STAGES[name], time.monotonic()
        self.said(f"{name}: {stage.says}; at most {seconds:.0f} s")
        count = 1 if stage.alone else max(1, min(6, (os.cpu_count() or 1) // 3))
        shares = [Share(self, name, (i, count), seconds) for i in range(count)]
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(Share.run, shares))
        states = {piece: state for share in shares for piece, state in share.states.items()} or {
            "process": "not reached"
        }
        worst = next((state for state in AGAIN if state in states.values()), "ok")
        missed = [piece for piece, state in states.items() if state == "not reached"]
        facts = {"pieces": dict(Counter(states.values())), **({"not reached": missed} if missed else {})}
        self.add(name, "", worst, time.monotonic() - begun, facts)
        return worst

    def add(self, stage: str, piece: str, state: str, seconds: float, facts: Any, error: str = "") -> None:
        """A line of the report, which is said, too."""
        line = {"stage": stage, "piece": piece, "device": self.device, "state": state}
        self.report.add({**line, "seconds": round(seconds, 2), "facts": facts, **({"error": error} if error else {})})
        what = error.strip()[-300:] or json.dumps(facts, ensure_ascii=False)[:300]
        self.said(f"  {seconds:5.1f} s  {state:11} {piece or 'in all'}: {what}")


@dataclass
class Share:
    """The pieces number i, i + k, i + 2 k, ... of a stage, in one process after another; ``states`` of all that are
    known.
    """

    round: Round
    stage: str
    share: tuple[int, int]
    seconds: float
    states: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Until all pieces are done, or the time is: each process ends when its pieces do, or one breaks it."""
        self.end = time.monotonic() + self.seconds
        self.hangs = self.seconds * (1.0 if self.stage == "plan" else HANGS)
        more = self.seconds > 1
        while more and not self.round.ended:
            more = self._process() and self.end - time.monotonic() > LEAST

    def _process(self) -> bool:
        """One process; whether another one has something left to do."""
        read, write = os.pipe()
        process = self._started(write)
        os.close(write)
        self.piece, known, self.since = "", False, time.monotonic()
        try:
            for event in self._events(read):
                if "pieces" in event:
                    known = True
                    for name in event["pieces"]:
                        self.states.setdefault(name, "not reached")
                elif "begin" in event:
                    self.piece, self.since = event["begin"], time.monotonic()
                else:
                    self._ends(**event)
            status = process.wait(10)
        except (TimeoutError, subprocess.TimeoutExpired):
            status = None
        finally:
            os.close(read)
            kill(process)
            self.round.living.discard(process)
        if status is None and (self.piece or not known):
            # Whether it hangs, or there was too little time for it, is known of one that had all of its own.
            enough = self.piece == "" or time.monotonic() - self.since >= self.hangs
            enough &= self.stage != "plan" and self.seconds >= 0.99 * STAGES[self.stage].seconds
            self._ends("killed" if enough else "cut", {}, "its time was over")
        elif status == NO_DEVICE:
            raise ParameterError(
                f"device = {self.round.device} is not allowed: PyTorch sees no GPU here. `--device cpu` tries all of "
                "it on the processor."
            )
        elif status and status != BROKEN:
            error = f"exit status {status}: {self._log()}"
            self._ends("died", {}, error)
        return known and status != 0 and "not reached" in self.states.values()

    def _ends(self, state: str, facts: Any, error: str = "") -> None:
        """What became of the piece in hand; of the process where there is none."""
        piece = self.piece or "process"
        self.states[piece] = state
        self.round.add(self.stage, piece, state, time.monotonic() - self.since, facts, error)
        self.piece = ""

    def _started(self, pipe: int) -> subprocess.Popen:
        done = [piece for piece, state in self.states.items() if state != "not reached"]
        asked = {
            "stage": self.stage,
            "device": self.round.device,
            "share": self.share,
            "until": self.end - (1 - BEGIN) * max(0.0, self.end - time.monotonic()),  # by a clock that both have
            "only": self.round.only[self.stage],
            "done": done,
            "out": str(self.round.out),
            "pipe": pipe,
        }
        # Not by -m: the module would be there twice, under two names.
        code = f"import sys; from {self.round.module} import main; sys.exit(main(sys.argv[1]))"
        path = os.pathsep.join(filter(None, [str(execution.ROOT), os.environ.get("PYTHONPATH")]))
        with self._log_file().open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", code, json.dumps(asked)],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[pipe],
                start_new_session=True,
            )
        self.round.living.add(process)
        return process

    def _events(self, pipe: int) -> Iterator[dict[str, Any]]:
        """What a process says, a line each; TimeoutError where it says nothing until a piece or the stage is over."""
        text = b""
        while True:
            until = min(self.end, self.since + self.hangs) if self.piece else self.end  # importing may take long
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError
            if not (piece := os.read(pipe, 1 << 16)):
                return
            *whole, text = (text + piece).split(b"\n")
            yield from map(json.loads, whole)

    def _log_file(self) -> Path:
        return self.round.out / f"{self.stage}.log"

    def _log(self) -> str:
        return self._log_file().read_text(encoding="utf-8", errors="replace")[-600:]


def kill(process: subprocess.Popen) -> None:
    """End a process and those that it has started; it is not waited for where the system cannot end it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2)
    process.stdin.close()


def run(
    device: str,
    out: Path,
    limit: float,
    stages: Collection[str] = (),
    only_failed: bool = False,
    said: Callable[[str], None] = print,
) -> bool:
    """First light; whether nothing was wrong, failed, died or hung.

    Args:
        device: "cuda" or "cpu". limit: seconds in all. stages: by default all of them.
        only_failed: only pieces that were not all right in this folder's report, or not reached.

    Raises:
        ParameterError: for a stage that does not exist, or a GPU that is not there.
    """
    checks.one_of("cuda", "cpu").check("device", device)
    for name in stages:
        checks.one_of(*STAGES).check("stage", name)
    only: Mapping[str, Collection[str] | None] = dict.fromkeys(stages or STAGES)
    if only_failed and not (only := again(Report(out / "report.jsonl"), device, only)):
        said("Nothing failed.")
        return True
    right = Round(device, out, limit, only, said).run()
    said(f"The report: {out / 'report.jsonl'}")
    if (made := out / "lines.jsonl").exists():
        said(f"Runs that were made: {made}, for `python -m book runs keep --from`")
    return right


def again(report: Report, device: str, stages: Collection[str]) -> dict[str, list[str] | None]:
    """The pieces of stages that are to be done again: {stage: pieces}; None, all of them, of a stage without an end."""
    latest, to_do = report.latest(device), {}
    for stage in stages:
        lines = {piece: line for (name, piece), line in latest.items() if name == stage}
        pieces = [piece for piece, line in lines.items() if piece and line["state"] in AGAIN]
        if "" not in lines or "process" in pieces:
            to_do[stage] = None
        elif pieces := list(dict.fromkeys([*pieces, *lines[""]["facts"].get("not reached", [])])):
            to_do[stage] = pieces
    return to_do


def write(path: Path) -> Path:
    """Write what a report says of a GPU to ``book/results``, for the page: facts of the pieces by stage; the file."""
    lines = Report(path).latest("cuda").items()
    facts: dict[str, dict[str, Any]] = {}
    for (stage, piece), line in lines:
        if piece and line["facts"] and line["state"] in ("ok", "wrong"):
            facts.setdefault(stage, {})[piece] = line["facts"]
    if "start-up" not in facts.get("machine", {}):
        raise ParameterError(f"report = {path} is not allowed: it must say what GPU it is of, by stage machine.")
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    files.publish(RESULT, json.dumps(facts, ensure_ascii=False, indent=1) + "\n")
    return RESULT
