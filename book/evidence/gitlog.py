"""The repository's log, as far as the history of rules needs it: commits, who descends from whom, files as they were.

Order is by descent, never by date: a date is what a machine said, and parallel work has no order in time.
"""

import functools
import subprocess
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

SHORT = 12  # digits of a commit in a run's line


@dataclass(frozen=True)
class Version:
    """A state of something: the commit that brought it, and the state; None where it was not there."""

    commit: str
    state: Hashable


def available(root: Path) -> bool:
    """Whether a folder has its whole log; a shallow clone and a downloaded archive have not."""
    if not (root / ".git").exists():
        return False
    query = ["git", "-C", str(root), "rev-parse", "--is-shallow-repository"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return False
    return answer.stdout.strip() == "false"


class Log:
    """The commits that the checked-out one descends from.

    Attributes:
        head: the commit that is checked out. parents: of each commit, in git's order. dates: days on which the commits
            were written.
    """

    def __init__(self, root: Path):
        self.root = root
        listing = self._git("log", "--topo-order", "--format=%H %as %P").decode().splitlines()
        fields = [line.split() for line in listing]
        self.parents = {commit: parents for commit, _, *parents in fields}
        self.dates = {commit: date for commit, date, *_ in fields}
        self.head = fields[0][0]
        self._by_prefix = {commit[:SHORT]: commit for commit in self.parents}
        self._blobs: dict[str, bytes] = {}

    def full(self, prefix: str) -> str | None:
        """The whole name of a commit that a run's line names, such as "0123456789ab-dirty"; None if it is not here."""
        return self._by_prefix.get(prefix.removesuffix("-dirty")[:SHORT])

    def time(self, commit: str) -> str:
        """When a commit was written, in UTC, such as "2026-11-26 16:58"."""
        told = self._git("show", "--no-patch", "--format=%at", commit)
        return datetime.fromtimestamp(int(told), UTC).strftime("%Y-%m-%d %H:%M")

    def contains(self, commit: str, other: str) -> bool:
        """Whether a commit is another one or descends from it."""
        return bool(self._ancestors[commit] >> self._place[other] & 1)

    @functools.cached_property
    def _place(self) -> dict[str, int]:
        return {commit: place for place, commit in enumerate(self.parents)}

    @functools.cached_property
    def _ancestors(self) -> dict[str, int]:
        """For each commit the set of itself and all before it, as the bits of a number."""
        sets: dict[str, int] = {}
        for commit in reversed(self.parents):  # parents first
            sets[commit] = functools.reduce(
                int.__or__, (sets[p] for p in self.parents[commit]), 1 << self._place[commit]
            )
        return sets

    def versions(self, state: Callable[[str], Hashable], present: Hashable = ...) -> list[Version]:
        """The states that led to the present one, oldest first, each with the commit that brought it.

        ``present`` is the state in the working tree, if it can differ from the checked-out one; its commit is "" then.

        Where lines of work were merged, the line is followed that has the state which was kept, as ``git log`` does
        with a file; what was written on another line and lost is not in it.
        """
        led, commit = [], self.head
        if present not in (..., state(commit)):
            led.append(Version("", present))
        while True:
            now = state(commit)
            same = next((parent for parent in self.parents[commit] if state(parent) == now), None)
            if same is None:
                led.append(Version(commit, now))
                if not self.parents[commit]:
                    return led[::-1]
            commit = same or self.parents[commit][0]

    def objects(self, paths: Iterable[str]) -> dict[tuple[str, str], str]:
        """{(commit, path): git's name of the file or folder there}, without those that are not there."""
        asked = [(commit, path) for path in paths for commit in self.parents]
        lines = self._batch("--batch-check", [f"{commit}:{path}" for commit, path in asked]).decode().splitlines()
        named = zip(asked, (line.split() for line in lines), strict=True)
        return {place: words[0] for place, words in named if words[-1] != "missing"}

    def contents(self, names: Iterable[str]) -> dict[str, bytes]:
        """Files by git's name."""
        new = sorted(set(names) - set(self._blobs))
        answer, place = self._batch("--batch", new), 0
        for name in new:
            end = answer.index(b"\n", place)
            size = int(answer[place:end].split()[-1])
            self._blobs[name] = answer[end + 1 : end + 1 + size]
            place = end + 2 + size
        return {name: self._blobs[name] for name in names}

    def oldest_first(self) -> list[str]:
        """All commits, each after those that it descends from."""
        return list(reversed(self.parents))

    def files_ever(self, folder: str) -> Iterator[tuple[str, str]]:
        """(path, name) of each file that ever lay in a folder, by its last name there."""
        trees = sorted({name for _, name in self.objects([folder]).items()})
        names = {f"{folder}/{path}": name for tree in trees for path, name in self.files(tree)}
        yield from sorted(names.items())

    def files(self, folder: str) -> Iterator[tuple[str, str]]:
        """(path, name) of each file in a folder that git names."""
        for line in self._git("ls-tree", "-r", folder).decode().splitlines():
            about, path = line.split("\t")
            yield path, about.split()[2]

    def _batch(self, how: str, asked: list[str]) -> bytes:
        return self._git("cat-file", how, given="".join(f"{line}\n" for line in asked).encode())

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        query = ["git", "-C", str(self.root), *arguments]
        return subprocess.run(query, input=given, capture_output=True, check=True).stdout
