"""Missing runs of plans on a cluster: wave by wave, each in bundles of short runs, one job a bundle.

Tuning chooses further jobs by the results of the first ones: what the next wave is, is known when this one has ended.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from book.evidence import making, plans, runs
from book.evidence.execution import RunError
from book.evidence.plans import Plan, Wanted
from book.evidence.sweeps import bundles, submit
from book.evidence.sweeps.submit import Resources
from dplib import files
from dplib.checks import ParameterError

BUNDLE = 600.0  # seconds; a job begins in some ten


def make(wanted: Sequence[Plan], resources: Resources, *, said: Callable[[str], None] = print, bar: bool = True) -> int:
    """Make the missing runs of plans, each filed as it comes; how many are still missing, at least.

    A job with runs on a GPU gets a GPU too. ``said`` is told a line for each wave, and for each run that failed.

    Raises:
        RunFailed: where runs failed; all others are made first, as long as some succeed.
        RunError: where Snakemake was killed or started no job.
        ParameterError: where another process makes runs of one of the studies.
    """
    usual = min(BUNDLE, 30 * (resources.minutes or math.inf))  # half of a job's time: an estimate is no promise
    most, failed = usual, {}
    with _alone(sorted({plan.study for plan in wanted})) as folder:
        while todo := [one for one in plans.missing(wanted) if repr(one) not in failed]:
            together = bundles.bundled(todo, making.estimates(todo), most)
            said(f"A wave of {len(todo)} runs in {len(together)} jobs.")
            made, new = _wave(together, folder, resources, bar)
            failed |= {repr(one): (one, reason) for one, reason in new}
            if not made and not most:
                break
            most = usual if made else 0.0  # a run that takes its job with it may stand before others: each alone
    for one, reason in failed.values():
        said(f"FAILED {plans.shown(one)}: {reason}")
    if failed:
        raise runs.RunFailed(f"{len(failed)} run(s) failed, named above; the same command tries them again.")
    return len(plans.missing(wanted))


def _wave(
    together: Sequence[Sequence[Wanted]], folder: Path, resources: Resources, bar: bool
) -> tuple[int, list[tuple[Wanted, str]]]:
    """One wave of bundles to its end: how many runs are made, and those that failed, with the reason."""
    named = {f"{i:06d}": bundle for i, bundle in enumerate(together)}
    total = sum(map(len, together))
    with submit.workplace(folder) as work, submit.progress(total, bar=bar) as shown:
        for name, bundle in named.items():
            bundles.write(work / f"{name}.json", bundle)
        gpus = {name: 1 for name, bundle in named.items() if bundle[0].device == "cuda"}
        submit.write(work, {"runs": list(named), "gpus": gpus, "bundles": True}, resources)
        submit.run(work, resources, shown)
        shown.show(work)
        ended = [bundles.outcome(work / f"{name}.json", bundle) for name, bundle in named.items()]
        made, failed = sum(count for count, _ in ended), [one for _, some in ended for one in some]
        if not made and not failed:
            word = next((f" ({path.read_text(encoding='utf-8')})" for path in work.glob("*.error")), "")
            raise RunError(f"None of {total} runs was begun{word}: {submit.where(work)}.")
        return made, failed


@contextlib.contextmanager
def _alone(studies: Sequence[str]) -> Iterator[Path]:
    """Hold the folders of studies, of which the first is yielded; the locks end with this process."""
    with contextlib.ExitStack() as stack:
        for study in studies:
            folder = runs.STORE.parent / "waves" / study
            folder.mkdir(parents=True, exist_ok=True)
            try:
                files.sign(stack.enter_context(files.locked(folder / ".lock", blocking=False)))
            except BlockingIOError:
                who = (folder / ".lock").read_text(encoding="utf-8") or "it just began"
                raise ParameterError(f"Runs of study {study} are being made by another command: {who}.") from None
            submit.clear(folder)
        yield runs.STORE.parent / "waves" / studies[0]
