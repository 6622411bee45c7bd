"""Sums over all files of a run, from the progress of each. Pure.

Each file has one count of bytes on disk: the plan's until its download reports, then the download's. So a part file of
an earlier run is never counted twice, and forgotten bytes go down and up again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from resume_dl.ports import ArtifactProgress, PlannedFile

WELL = frozenset({"downloaded", "resumed", "cached"})
OVER = WELL | {"failed", "stopped"}


@dataclass(frozen=True, slots=True)
class _Count:
    """One file: bytes on disk, bytes fetched in this run, and whether it has succeeded."""

    size: int | None
    done: int = 0
    fetched: int = 0
    whole: bool = False


_NOTHING = _Count(0)
_LEAST = 1.0
"""Shortest period of a speed in seconds."""


class Tally:
    """Sums over the files of the plan; counts in bytes. Files outside it (indexes) are not summed.

    ``total``: the sum of known sizes; ``unsized``: the number of files without one. ``done``: bytes on disk, of this
    run or an earlier one. ``fetched``: bytes of this run, which never goes down, for the speed.
    """

    def __init__(self) -> None:
        self._counts: dict[str, _Count] = {}
        self._planned_sizes: dict[str, int | None] = {}
        self.total = self.unsized = self.done = self.fetched = self._whole = 0

    def plan(self, files: Iterable[PlannedFile], replaces: Collection[str] = ()) -> None:
        """Add files; a second plan adds to the first, without files with keys in ``replaces``."""
        for key in replaces:
            self._planned_sizes.pop(key, None)
            self._put(key, None)
        for file in files:
            key, size = file.artifact.key, file.artifact.size
            self._planned_sizes[key] = size
            self._put(key, _Count(size, _within(file.here, size), 0, file.whole))

    def add(self, progress: ArtifactProgress) -> None:
        """Update one file."""
        before = self._counts.get(progress.key)
        if before is None:
            return
        whole = progress.state in WELL
        size = progress.size if progress.size is not None else self._planned_sizes[progress.key]
        done = size if whole and size is not None else _within(progress.done, size)
        # Bytes of another process or an earlier run do not count for our speed.
        fetched = 0 if progress.state == "cached" else max(0, progress.done - progress.resumed)
        self.fetched += max(0, fetched - before.fetched)
        self._put(progress.key, _Count(size, done, fetched, whole))

    def _put(self, key: str, after: _Count | None) -> None:
        before = self._counts.pop(key, _NOTHING)
        if after is not None:
            self._counts[key] = after
        now = after or _NOTHING
        self.total += (now.size or 0) - (before.size or 0)
        self.unsized += (now.size is None) - (before.size is None)
        self.done += now.done - before.done
        self._whole += now.whole - before.whole

    @property
    def planned(self) -> bool:
        """Whether there is a plan with files."""
        return bool(self._counts)

    @property
    def known_total(self) -> int | None:
        """``total`` if every size is known, else None."""
        return None if self.unsized else self.total

    @property
    def files(self) -> tuple[int, int]:
        """Numbers of successful and of all files."""
        return self._whole, len(self._counts)


def percent_of(done: int, total: int | None) -> int | None:
    """A percentage, rounded down, so that 100 means complete; None if the total is unknown."""
    if total is None:
        return None
    return min(100, done * 100 // total) if total else 100


def _within(done: int, size: int | None) -> int:
    return done if size is None else min(done, size)


class Speed:
    """Bytes a second over the last ``window`` seconds, from a count that does not go down."""

    def __init__(self, count: int, now: float, *, window: float = 10.0) -> None:
        self._window = window
        self._seen = deque([(now, count)])

    def add(self, count: int, now: float) -> None:
        """Record the count at a moment."""
        seen = self._seen
        if len(seen) > 1 and now - seen[-2][0] < self._window / 40:
            seen.pop()
        seen.append((now, max(count, seen[-1][1])))
        while len(seen) > 2 and seen[1][0] <= now - self._window:
            seen.popleft()

    @property
    def value(self) -> float | None:
        """The speed; None in the first second, which would measure start-up and not the network."""
        (begun, first), (now, last) = self._seen[0], self._seen[-1]
        return (last - first) / (now - begun) if now - begun >= _LEAST else None

    def seconds_for(self, count: int) -> float | None:
        """Seconds for that many bytes; None if no bytes come."""
        value = self.value
        return count / value if value else None
