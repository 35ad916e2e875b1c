"""The inputs of plans' parts along the repository's log: when they became what they are."""

import functools

import yaml

from book.evidence import gitlog
from book.evidence.history import plain

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@functools.cache
def versions(log: gitlog.Log, study: str, within: tuple[str, ...]) -> dict[str, list[gitlog.Version]]:
    """The states of the inputs of each part that a study has now, as texts, in whichever of the plans ``within`` they
    stand; of equal names that in the first.
    """
    path = f"notebooks/plans/{study}.yml"
    at = log.objects([path])
    then = {blob: _inputs(text, within) for blob, text in log.contents(at.values()).items()}
    now = _inputs((log.root / path).read_bytes(), within)

    def of(commit: str, part: str) -> str | None:
        return then[at[commit, path]].get(part) if (commit, path) in at else None

    return {part: log.versions(functools.partial(of, part=part), present) for part, present in now.items()}


def _inputs(text: bytes, within: tuple[str, ...]) -> dict[str, str]:
    try:
        document = yaml.load(text, Loader=LOADER) or {}
    except yaml.YAMLError:  # some commit of a merge holds a file that nobody can read
        return {}
    plans = [document.get(name) or {} for name in reversed(within)]
    return {part: plain(inputs or {}) for plan in plans for part, inputs in plan.items()}
