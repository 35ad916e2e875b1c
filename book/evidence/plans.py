"""Plans: which runs a chapter rests on, as short files of data (``notebooks/plans/NN.yml``).

A file names a module and has a few plans: ``quick``; ``published``, what the pages show; ``wanted``, what is still to
be run for them; ``paper``, the printed settings, for GPUs. A plan is a list of parts by name, what matters most first.
A part is a function of the module, ``part(get, **inputs)``, which asks ``get(experiment, jobs)`` for results and may
choose further jobs by them: so tuning extends its grids, and a search its candidates. Or it is an experiment itself,
by seed and over values (:func:`repeated`).
With ``gpus: 1`` beside its inputs, a part's runs are made on a GPU; ``gpu`` beside the plans
says what those of "paper" may take (:class:`OnGPU`), and ``page`` which plans the chapter draws (:func:`drawn`).
"""

import contextlib
import functools
import importlib
import inspect
import itertools
import os
import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from book.evidence import places, runs
from book.evidence.claims import NOT_RUN, Claim
from dplib import checks, files
from dplib.checks import ParameterError

PLANS = places.ROOT / "notebooks" / "plans"
MOST = 100_000  # seeds of a part
DRAWN = ("published", "quick")  # by a chapter whose file does not say it
BESIDE = ("module", "gpu", "page")  # what stands in a study's file beside its plans
YAML = (".yml", ".yaml")  # how the name of a plan ends that is a file of one's own
OPEN = ("undecided", "not tested", NOT_RUN, "")  # "": of a row that nothing was run for


class Wanted(NamedTuple):
    """A run that a plan asks for: an experiment, a job in its one form, and "cpu" or "cuda"."""

    function: Callable[..., runs.Result]
    job: Mapping[str, Any]
    device: str = "cpu"


@dataclass(frozen=True)
class Part:
    """One part of a plan: ``function(get, **inputs)``; ``device`` is that of its runs, "cpu" or "cuda"."""

    function: Callable[..., Any]
    inputs: Mapping[str, Any]
    device: str = "cpu"

    def on(self, function: Callable[..., runs.Result]) -> str:
        """Where it has an experiment run: on the processor those that take no device, such as a least-squares fit."""
        return self.device if runs.takes_device(function) else "cpu"


@dataclass(frozen=True)
class OnGPU:
    """What a study's plan "paper" may take on a GPU: hours of one GPU, what they are reckoned by (never measured),
    and the ledger's rows that need it, ids in which * stands for any text.
    """

    hours: float
    how: str
    rows: list[str]


@dataclass(frozen=True)
class Plan:
    """The parts of one plan of a study, by name, what matters most first."""

    study: str
    name: str
    parts: Mapping[str, Part]

    def read(self, part: str) -> Any:
        """What a part finds in the stored runs; nothing is computed. MissingRuns, with the command that makes them,
        where runs are missing.
        """
        try:
            return self.call(
                part, lambda function, jobs: runs.read(function, jobs, device=self.parts[part].on(function))
            )
        except runs.MissingRuns as error:
            makes = f"python -m book runs make {self.study} --plan {shlex.quote(self.name)}"
            raise runs.MissingRuns(error.function, error.jobs, makes) from None

    def call(self, part: str, get: Callable[..., list[runs.Result]]) -> Any:
        """A part with its inputs, on results that ``get`` has. ParameterError where inputs that a reader has written
        make no sense to it; of the project's own plans the error itself, which shows where it comes from.
        """
        if part not in self.parts:
            raise ParameterError(f"{part} is not in plan {self.name} of {self.study}: it has {', '.join(self.parts)}.")
        function, inputs = self.parts[part].function, self.parts[part].inputs
        try:
            return function(get, **inputs)
        except (ParameterError, *runs.SAID):
            raise
        except Exception as error:
            if not self.name.endswith(YAML):
                raise
            known = ", ".join(list(inspect.signature(function).parameters)[1:])
            raise ParameterError(
                f"{self.name}, part {part}: its inputs {checks.shown(dict(inputs))} are not allowed "
                f"({type(error).__name__}: {error}). It takes {known}."
            ) from error

    def missing(self) -> list[Wanted]:
        """The runs that are not stored, at least: a part stops at the first wave of jobs that are missing."""
        return self.look()[1]

    def reached(self, *parts: str) -> list[runs.Line]:
        """The stored lines that the plan's parts ask for, or those named, each once."""
        return self.look(*parts)[0]

    def look(self, *parts: str) -> tuple[list[runs.Line], list[Wanted]]:
        """:meth:`reached` and :meth:`missing` of all parts or those named, in one go through them."""
        reached: dict[tuple[str, str], runs.Line] = {}
        missing: dict[tuple[str, str], Wanted] = {}

        def get(part: Part, function: Callable[..., runs.Result], jobs: Sequence[runs.Job]) -> list[runs.Result]:
            name, device, results, absent = function.experiment.name, part.on(function), [], []
            for job in jobs:
                key = runs.key_of(function, job, device)
                line = reached.get((name, key)) or runs.of_key(name, key)  # tuning asks for the same again and again
                if line is None:
                    absent.append(job)
                    missing[name, key] = Wanted(function, runs.job_of(function, job), device)
                else:
                    results.append(reached.setdefault((name, key), line)["result"])
            if absent:
                raise runs.MissingRuns(function, absent)
            return results

        for name in parts or self.parts:
            with contextlib.suppress(runs.MissingRuns):
                self.call(name, functools.partial(get, self.parts[name]))
        return list(reached.values()), list(missing.values())


def rule(study: str) -> checks.Rule:
    """What a chapter's parameter ``plan`` may be: a plan that it draws, or the path of a file of one's own."""
    known = drawn(study)
    named = f"one of {', '.join(known)}" if len(known) > 1 else f"{known[0]}, the only plan that this chapter draws"
    return checks.Rule(
        f"{named}, or the path of a .yml file with parts",
        lambda v: isinstance(v, str) and (v in known or (v.endswith(YAML) and os.path.isfile(v))),
    )


def drawn(study: str) -> list[str]:
    """The plans that a study's chapter draws: those under ``page`` in its file, else those of ``DRAWN`` that it has.
    The others have too few parts for a page, as ``wanted`` and ``paper`` do.
    """
    document = _document(_file(study))
    return [name for name in document.get("page", DRAWN) if name in names(study)]


def studies() -> list[str]:
    """The studies that have a file of plans."""
    return sorted(path.stem for path in PLANS.glob("*.yml"))


def names(study: str) -> list[str]:
    """The plans of a study."""
    return [name for name in _document(_file(study)) if name not in BESIDE]


def on_gpu(study: str) -> OnGPU | None:
    """What a study says of its GPU, if anything."""
    document = _document(_file(study))
    return files.checked(_file(study), OnGPU, document["gpu"]) if "gpu" in document else None


def routes(claims: Sequence[Claim]) -> dict[str, dict[str, list[Claim]]]:
    """The open rows of the ledger that a study's GPU would decide: {study: {pattern: rows}}.

    Raises:
        ParameterError: for a pattern that no row has.
    """
    by_study: dict[str, dict[str, list[Claim]]] = {}
    for study in studies():
        if about := on_gpu(study):
            matched = {ids: [claim for claim in claims if fnmatchcase(claim.id, ids)] for ids in about.rows}
            if unknown := [ids for ids, rows in matched.items() if not rows]:
                raise ParameterError(f"{unknown[0]} of plan {study} is no row of the ledger.")
            by_study[study] = {ids: [claim for claim in rows if claim.expects in OPEN] for ids, rows in matched.items()}
    return by_study


def load(study: str, plan: str = "published") -> Plan:
    """A plan of a study by name, or by the path of a YAML file of one's own with parts."""
    module, document = _module(study), _document(_file(study))
    if plan.endswith(YAML):
        parts = _document(Path(plan))
        if more := [name for name in parts if name in BESIDE or name in document]:
            raise ParameterError(
                f"{plan} has {more[0]}, which belongs into {_file(study).name}: a plan of your own has parts alone, as "
                f"they stand below `published:` there."
            )
    elif plan in names(study):
        parts = document[plan]
    else:
        raise ParameterError(
            f"plan = {checks.shown(plan)} is not in {_file(study).name}: it has {', '.join(names(study))}."
        )
    return Plan(study, plan, {name: _part(module, name, inputs) for name, inputs in (parts or {}).items()})


def experiments(*among: str) -> dict[str, Callable[..., runs.Result]]:
    """The experiments that the modules of all studies have, or of those named, by name."""
    things = [thing for study in among or studies() for thing in vars(_module(study)).values()]
    return {
        thing.experiment.name: thing for thing in things if isinstance(getattr(thing, "experiment", 0), runs.Experiment)
    }


def module_name(study: str) -> str:
    """The module that a study names. ParameterError where it names none."""
    document = _document(_file(study))
    if "module" not in document:
        raise ParameterError(f"{_file(study).name} must name the module of its study: `module: dplib...`.")
    return document["module"]


def _module(study: str) -> ModuleType:
    return importlib.import_module(module_name(study))


def _part(module: ModuleType, name: str, inputs: Any) -> Part:
    if not isinstance(inputs or {}, Mapping) or not all(isinstance(key, str) for key in inputs or {}):
        raise ParameterError(f"part {name} = {inputs!r} is not allowed: it must be a mapping of inputs to values.")
    inputs = dict(inputs or {})
    if "seeds" in inputs:  # a list of so many jobs is made of them
        checks.integer(1, MOST).check(f"part {name}: seeds", inputs["seeds"])
    checks.one_of(0, 1).check(f"part {name}: gpus", gpus := inputs.pop("gpus", 0))
    function = getattr(module, str(call := inputs.pop("call", name)), None)
    if not inspect.isfunction(function):
        raise ParameterError(f"part {name}: {call} is not a function of {module.__name__}.")
    if hasattr(function, "experiment"):  # which checks each job
        return Part(functools.partial(repeated, function=function), inputs, "cuda" if gpus else "cpu")
    _, *known = inspect.signature(function).parameters.values()
    if not any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in known
    ):  # else each job is checked by its experiment
        checks.check_names(inputs, [parameter.name for parameter in known], f"part {name}")
    needed = [
        parameter.name
        for parameter in known
        if parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY
    ]
    if missing := [name for name in needed if name not in inputs]:
        raise ParameterError(f"part {name}: {missing[0]} is missing from its inputs.")
    return Part(function, inputs, "cuda" if gpus else "cpu")


def _file(study: str) -> Path:
    checks.one_of(*studies()).check("study", study)
    return PLANS / f"{study}.yml"


def _document(path: Path) -> dict[str, Any]:
    try:
        state = path.stat()
    except OSError as error:
        raise ParameterError(f"plan {path} cannot be read: {error.strerror}.") from None
    return _parsed(path, state.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _parsed(path: Path, _time: int) -> dict[str, Any]:
    return files.checked(path, dict[str, Any])


def missing(plans: Sequence[Plan]) -> list[Wanted]:
    """The runs of plans that are not stored, each once; at least, as :meth:`Plan.missing` says."""
    return list({repr(run): run for plan in plans for run in plan.missing()}.values())


def shown(run: Wanted) -> str:
    """A run in short: experiment, and what its job says beside the defaults."""
    said = ", ".join(f"{k}={v}" for k, v in runs.changed(run.function, run.job).items())
    return f"{run.function.experiment.name} {said}{' on a GPU' if run.device == 'cuda' else ''}"


FIRST = 1000  # seeds from here on are for tuning
Get = Callable[[Callable[..., dict[str, Any]], Sequence[Mapping[str, Any]]], list[dict[str, Any]]]


@dataclass(frozen=True)
class Tuned:
    """What was chosen for one cell: ``value``, the one with the best mean score, and of equal ones the smallest;
    value to mean score, -inf where a run diverged; and whether the value is still the smallest or largest tried.
    """

    value: float
    tried: dict[float, float]
    at_edge: bool


def by_seed(
    get: Get,
    function: Callable[..., dict[str, Any]],
    cells: Mapping[Any, Mapping[str, Any]],
    seeds: int,
    first: int = 0,
) -> dict[Any, list[dict[str, Any]]]:
    """{cell: results by seed}: a function called with each cell's job and the seeds first, ..., first + seeds - 1."""
    results = iter(get(function, [{**job, "seed": first + i} for job in cells.values() for i in range(seeds)]))
    return {cell: [next(results) for _ in range(seeds)] for cell in cells}


def repeated(
    get: Get,
    *,
    function: Callable[..., dict[str, Any]],
    seeds: int | None = None,
    first: int = 0,
    over: Mapping[str, Sequence[Any]] | None = None,
    **job: Any,
) -> Any:
    """An experiment as a part: results by seed, from ``first`` on; without ``seeds`` the one result of its job.

    ``over``: arguments with several values each; then {value, or tuple of values: results}.
    """
    over = over or {}
    keys = itertools.product(*over.values())
    cells = {key[0] if len(key) == 1 else key: {**job, **dict(zip(over, key, strict=True))} for key in keys}
    if seeds is None:
        results = dict(zip(cells, get(function, list(cells.values())), strict=True))
    else:
        results = by_seed(get, function, cells, seeds, first)
    return results if over else results[()]


def tune(
    get: Get,
    function: Callable[..., dict[str, Any]],
    cells: Mapping[Hashable, Mapping[str, Any]],
    values: Sequence[float],
    *,
    seeds: int = 3,
    name: str = "learning_rate",
    score: str = "validation",
    smaller: bool = False,
    extensions: int = 2,
) -> dict[Hashable, Tuned]:
    """For each cell the value of ``name`` with the best mean ``score`` over the tuning seeds 1000, 1001, ...

    Where the best value lies at an end of the grid, the grid grows there by its own ratio, up to ``extensions`` times.
    What the choice costs in privacy is not accounted here.

    Args:
        get: of a part of a plan. function: an experiment, called with a cell, ``name`` and ``seed``.
        cells: jobs without ``name`` and ``seed``. The caller asks for validation data that no report uses.
        values: of the grid, at least two, increasing.
        score: the entry of the results to maximise, or with ``smaller`` to minimise; None counts as the worst.
    """
    checks.list_of(checks.positive(), least=2).check("values", list(values))
    if any(a >= b for a, b in itertools.pairwise(values)):
        raise ParameterError(f"values = {list(values)} is not allowed: they must increase.")
    grids = {key: list(values) for key in cells}
    for extension in range(extensions + 1):
        jobs = {
            (key, value, i): {**cell, name: value, "seed": FIRST + i}
            for key, cell in cells.items()
            for value in grids[key]
            for i in range(seeds)
        }
        scores_of = {at: result[score] for at, result in zip(jobs, get(function, list(jobs.values())), strict=True)}
        tuned = {
            key: _best({v: [scores_of[key, v, i] for i in range(seeds)] for v in grid}, smaller)
            for key, grid in grids.items()
        }
        if extension == extensions or not any(rate.at_edge for rate in tuned.values()):
            break
        grids = {key: _longer(grid, tuned[key]) for key, grid in grids.items()}
    return tuned


def _best(scores: Mapping[float, Sequence[float | None]], smaller: bool) -> Tuned:
    sign = -1 if smaller else 1
    means = {
        value: sign * float(np.mean(scores_))
        if all(score is not None and np.isfinite(score) for score in scores_)
        else -np.inf
        for value, scores_ in scores.items()
    }
    best = max(means, key=means.__getitem__)
    tried = {value: sign * mean if np.isfinite(mean) else -np.inf for value, mean in means.items()}
    return Tuned(best, tried, best in (min(means), max(means)))


def _longer(grid: list[float], tuned: Tuned) -> list[float]:
    """One more value beyond the end at which the best one lies; rounded, so that equal grids give equal jobs."""
    if not tuned.at_edge:
        return grid
    if tuned.value == grid[-1]:
        return [*grid, runs.to_figures(grid[-1] ** 2 / grid[-2], 4)]
    return [runs.to_figures(grid[0] ** 2 / grid[1], 4), *grid]
