"""What first light does with the book itself: probes, chapters' last sections, runs of plans."""

import ast
import importlib.util
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from book.evidence import agreement, claims, making, plans, replay, runs, sources
from book.evidence.first_light import Report
from book.evidence.first_light_process import Facts, NotHere, Pieces

# Of a probe on a GPU with the processor's random numbers, relative. Nothing but rounding differs then, and on a
# processor other rounding (without MKL-DNN, on two threads) moves no number of any probe by more than 2e-5. Another
# seed moves each probe by 2e-2 or more somewhere.
TOLERANCE = 1e-3
TWICE = 10.0  # seconds: a probe that takes longer is made with the processor's random numbers only
LAST = "## At your epsilon"
SMALLEST = {"seeds": 2, "steps": 20, "repeats": 2, "sizes": [10, 100], "workers": 1}  # of a chapter's parameters


def experiments(asked: Mapping[str, Any]) -> Pieces:
    """Every experiment's probe and every chapter's last section, first what can run on a GPU."""
    runs.one_thread()
    known, device = plans.experiments(), asked["device"]
    probes = {
        f"probe {name}": (experiment, partial(probe, experiment, device)) for name, experiment in sorted(known.items())
    }
    chapters = {
        f"chapter {sources.shown_number(chapter)}": partial(section, chapter, device) for chapter in sources.chapters()
    }
    first = {name: call for name, (experiment, call) in probes.items() if runs.takes_device(experiment)}
    return {**first, **chapters, **{name: call for name, (_, call) in probes.items() if name not in first}}


def plan(asked: Mapping[str, Any]) -> Pieces:
    """Runs of the plans."""
    return {"runs": partial(planned, asked["device"], asked["until"], Path(asked["out"]))}


# ---- probes ----


def probe(function: Callable[..., runs.Result], device: str) -> Facts:
    """An experiment's probe on a device, as its users run it, and with the processor's random numbers, which makes it
    the stored one but for rounding. One without a device runs on the processor.
    """
    known = replay.stored_probes().get(function.experiment.name)
    if known is None:
        raise NotHere("its probe is not stored")
    job, wrong = runs.as_called(known["job"]), []
    takes = runs.takes_device(function) and device != "cpu"
    with processors_numbers():
        begun = time.perf_counter()
        result = runs.made(function, job, device if takes else "cpu")["result"]
        facts: Facts = {"seconds": time.perf_counter() - begun}
    different = list(agreement.differences(known["result"], result, TOLERANCE))
    wrong += [replay.said(difference) for difference in different[:3]]
    facts["largest difference"] = largest(agreement.differences(known["result"], result))
    if takes and facts["seconds"] < TWICE:
        begun = time.perf_counter()
        alone = runs.made(function, job, device)["result"]
        facts["seconds with its own numbers"] = time.perf_counter() - begun
        wrong += [f"{name} is not there with its own numbers" for name in result if name not in alone]
    return facts | ({"wrong": wrong} if wrong else {})


def largest(differences: Iterator[tuple[tuple, Any, Any]]) -> float:
    """The largest relative difference of two numbers; infinite where something else differs."""
    sizes = [
        abs(a - b) / max(abs(a), abs(b)) if isinstance(a, int | float) and isinstance(b, int | float) else float("inf")
        for _, a, b in differences
    ]
    return max(sizes, default=0.0)


class _ProcessorsGenerator(torch.Generator):
    """One of the processor, for whichever device it is asked for."""

    def __new__(cls, device: Any = "cpu"):
        return super().__new__(cls, "cpu")


class _Draws(TorchFunctionMode):
    """What is drawn for a GPU is drawn on the processor, and copied."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        given = args[0] if args and isinstance(args[0], Tensor) else None
        away = given is not None and given.device.type != "cpu"
        if getattr(func, "__name__", "") == "dropout" and away:  # of torch.nn.functional, or what that calls
            return _dropped(*args, **kwargs)
        if kwargs.get("generator") is not None and away:
            return given.copy_(func(torch.empty_like(given, device="cpu"), *args[1:], **kwargs))
        if kwargs.get("generator") is not None and kwargs.get("device") is not None:
            place = kwargs.pop("device")
            return func(*args, **kwargs).to(place)
        return func(*args, **kwargs)


def _dropped(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout by the mask that the processor draws."""
    if not training or p == 0:  # nothing is drawn then
        return x
    kept = torch.empty_like(x, device="cpu").bernoulli_(1 - p).div_(1 - p).to(x.device)
    return x.mul_(kept) if inplace else x * kept


@contextmanager
def processors_numbers() -> Iterator[None]:
    """Inside, random numbers on a GPU are those that the processor would have drawn."""
    with mock.patch("torch.Generator", _ProcessorsGenerator), _Draws():
        yield


# ---- chapters ----


def section(chapter: str, device: str) -> Facts:
    """What a chapter computes at its reader's own budget, at its smallest, without figures: only the statements that
    the section "At your epsilon" needs, or of a chapter that has none those that train.
    """
    known = {name for cell in _cells(chapter) if "parameters" in cell.metadata.get("tags", ()) for name in _names(cell)}
    parameters = {name: value for name, value in {**SMALLEST, "device": device}.items() if name in known}
    code = ast.Module(needed(chapter, parameters), [])
    answers: Facts = {}
    _stand_in_for_ipython()
    page: dict[str, Any] = {"__name__": "__main__", "display": lambda *_, **__: None}
    begun, kept = time.perf_counter(), (runs.KEPT, runs.STORE)
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(claims, "answer", answers.update):
        try:
            runs.settle(runs.KEPT, Path(folder))
            exec(compile(code, f"{chapter}.md", "exec"), page)
        finally:
            runs.settle(*kept)
    facts: Facts = {"seconds": time.perf_counter() - begun, "parameters": parameters, "answers": sorted(answers)}
    asked = any("claims.answer" in ast.unparse(statement) for statement in code.body)
    return facts | ({"wrong": ["it answered nothing"]} if asked and not answers else {})


def _stand_in_for_ipython() -> None:
    """Chapters show tables by it; where it is missing nothing is shown. A process does several chapters."""
    if "IPython" not in sys.modules and importlib.util.find_spec("IPython") is None:
        shows = types.SimpleNamespace(display=lambda *_, **__: None)
        known = {"display": shows, "get_ipython": lambda: None, "version_info": (9,)}  # matplotlib asks for both
        sys.modules |= {"IPython": types.SimpleNamespace(**known), "IPython.display": shows}


def needed(chapter: str, parameters: dict[str, Any]) -> list[ast.stmt]:
    """The statements of a chapter that its last section needs, in order, with these parameters instead of its own."""
    before, last = _statements(chapter)
    chosen, names = list(last), set().union(*map(_loaded, last))
    modules = set().union(
        *(_bound(statement) for statement in before if isinstance(statement, ast.Import | ast.ImportFrom))
    )
    for statement in reversed(before):
        loop = isinstance(statement, ast.For | ast.While)  # it may change whatever it names
        bound = _bound(statement) | (_loaded(statement) - modules if loop else set())
        if bound & names and not (loop and _shows(statement)):
            chosen.insert(0, statement)
            if isinstance(statement, ast.Assign | ast.Import | ast.ImportFrom | ast.FunctionDef):
                names -= {name for name in bound if not _changes(statement, name)}
            names |= _loaded(statement)
    given = ast.parse("\n".join(f"{name} = {value!r}" for name, value in parameters.items())).body
    return given + [
        statement
        for statement in chosen
        if not (isinstance(statement, ast.Assign) and _bound(statement) & set(parameters))
    ]


def _cells(chapter: str) -> list[Any]:
    """The cells of a chapter's notebook: its source needs packages that a machine with a GPU may lack."""
    return nbformat.read(sources.NOTEBOOKS / f"{chapter}.ipynb", as_version=4).cells


def _names(cell: Any) -> set[str]:
    return set().union(*map(_bound, ast.parse(cell.source).body))


def _statements(chapter: str) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The statements of a chapter before its last section, and those of it that draw nothing."""
    cells = _cells(chapter)
    heads = [[line for line in cell.source.split("\n") if line.startswith("## ")] for cell in cells]
    begin = next((i for i, lines in enumerate(heads) if LAST in lines and not is_code(cells[i])), len(cells))
    end = next((i for i, lines in enumerate(heads) if i > begin and lines and not is_code(cells[i])), len(cells))
    parts = []
    for part in (cells[:begin], cells[begin:end]):
        parts.append([statement for cell in part if is_code(cell) for statement in ast.parse(cell.source).body])
    before, last = parts
    if begin == len(cells):
        last = [statement for statement in before if "tables.fit(" in ast.unparse(statement)]
    answers = [i for i, statement in enumerate(last) if "claims.answer(" in ast.unparse(statement)]
    last = last[: answers[-1] + 1] if answers else last  # verdicts, which may follow, are no business of a GPU's
    return before, [statement for statement in last if not _shows(statement)]


def _shows(statement: ast.stmt) -> bool:
    """Whether a statement draws, or shows a table or a verdict."""
    return bool(_loaded(statement) & {"plt", "axes", "figure", "panels", "display", "record"})


def is_code(cell: Any) -> bool:
    """Whether a cell of a notebook holds code."""
    return cell.cell_type == "code"


def _loaded(statement: ast.AST) -> set[str]:
    names = {part.id for part in ast.walk(statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
    changed = [part.target for part in ast.walk(statement) if isinstance(part, ast.AugAssign)]
    return names | {target.id for target in changed if isinstance(target, ast.Name)}


def _bound(statement: ast.AST) -> set[str]:
    """Names that a statement gives a value, or part of one: those of the page, not of functions and comprehensions."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return set()
    if isinstance(statement, ast.alias):
        return {(statement.asname or statement.name).split(".")[0]}
    if isinstance(statement, ast.Name):
        return {statement.id} if isinstance(statement.ctx, ast.Store) else set()
    if isinstance(statement, ast.Subscript) and isinstance(statement.ctx, ast.Store):
        return _loaded(statement.value)
    return set().union(*map(_bound, ast.iter_child_nodes(statement)))


def _changes(statement: ast.stmt, name: str) -> bool:
    """Whether a statement gives a name part of its value only, so that it has to be there before."""
    return name in set().union(
        *(
            _loaded(part.value)
            for part in ast.walk(statement)
            if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store)
        )
    )


# ---- runs of the plans ----


def planned(device: str, until: float, out: Path) -> Facts:
    """Make runs of the plans until then, by ``time.monotonic``: on a GPU of "paper", the studies in the order of open
    rows an hour; on the processor of "quick".
    """
    name = "paper" if device == "cuda" else "quick"
    wanted = [plans.load(study, name) for study in in_order() if name in plans.names(study)]
    report, known, made = Report(out / "lines.jsonl"), sources.state(runs.STORE.glob("*/*.json")), set()

    def said(text: str) -> None:
        print(text, flush=True)
        # Not by the clock: it may be set, and a server of files has one of its own.
        for path, state in sources.state(sorted(runs.STORE.glob("*/*.json"))).items():
            if state != known.get(path):
                report.add(runs.parsed(path.read_text(encoding="utf-8"))[1])
                known[path] = state
                made.add(path)

    failed = ""
    try:
        making.make(wanted, workers=workers(out), limit=until - time.monotonic(), said=said)
    except runs.RunFailed as error:
        failed = str(error)
    facts: Facts = {"plan": name, "runs": len(made), "lines": str(report.path)}
    return facts | ({"wrong": [failed]} if failed else {})


def in_order() -> list[str]:
    """Studies, what decides most open rows an hour of a GPU first."""
    rows = plans.routes(ledger())
    rate = {study: sum(map(len, open_.values())) / plans.on_gpu(study).hours for study, open_ in rows.items()}
    return sorted(plans.studies(), key=lambda study: -rate.get(study, 0.0))


def ledger() -> list[claims.Claim]:
    """All rows of the ledger."""
    return list(claims.load_all().values())


def workers(out: Path) -> int:
    """As many processes as made most steps a second together in this report; else a few."""
    line = Report(out / "report.jsonl").latest("cuda").get(("speed", "processes"))
    rates: dict[str, float] = (line or {}).get("facts", {}).get("steps_a_second", {})
    return int(max(rates, key=lambda count: rates[count])) if rates else 1
