"""What of one file is on disk, and which source sent it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from resume_dl.core.ranges import RangeSet

Ranges = Iterable[tuple[int, int]]


class ByteCoverage:
    """Trusted bytes by owner: the index of a source of this run, or below 0 a source of an earlier run only.

    ``resumed`` is the number of bytes from earlier runs, ``kept`` that of this run.
    """

    def __init__(self) -> None:
        self.done = RangeSet()
        self._earlier: dict[int, RangeSet] = {}
        self._now: dict[int, RangeSet] = {}

    @property
    def resumed(self) -> int:
        """Bytes of earlier runs that are still trusted."""
        return sum(ranges.total for ranges in self._earlier.values())

    @property
    def kept(self) -> int:
        """Bytes received in this run that are still trusted."""
        return sum(ranges.total for ranges in self._now.values())

    def kept_of(self, owner: int) -> int:
        """This run's bytes of one source."""
        ranges = self._now.get(owner)
        return ranges.total if ranges is not None else 0

    def owners(self) -> dict[int, RangeSet]:
        """The bytes of each owner, of this run and earlier ones."""
        found: dict[int, RangeSet] = {}
        for part in (self._earlier, self._now):
            for owner, ranges in part.items():
                for start, end in ranges:
                    found.setdefault(owner, RangeSet()).add(start, end)
        return found

    def earlier(self, *, but: Container[int]) -> list[tuple[int, int]]:
        """The ranges that came in earlier runs from other sources than these owners."""
        return [each for owner, ranges in self._earlier.items() if owner not in but for each in ranges]

    def resume(self, ranges: Ranges, owners: Sequence[tuple[str, Ranges]], labels: Sequence[str]) -> None:
        """Take over the ranges of an earlier run; ``labels``: of this run's sources, in order.

        A label that two sources share is ignored: the wrong one could be blamed for the other's bytes.
        """
        self.done = RangeSet(ranges)
        nameless = RangeSet(self.done)
        for number, (label, parts) in enumerate(owners):
            owner = labels.index(label) if labels.count(label) == 1 else -2 - number
            for start, end in parts:
                for each in self.done.within(start, end):
                    for part in nameless.within(*each):
                        self._earlier.setdefault(owner, RangeSet()).add(*part)
                    nameless.remove(*each)
        if nameless:
            self._earlier[-1] = nameless

    def add(self, start: int, end: int, owner: int) -> int:
        """Add ``[start, end)`` from ``owner``; return the number of new bytes."""
        if start >= end:
            return 0
        gained = 0
        for lo, hi in self.done.gaps(start, end):
            self._now.setdefault(owner, RangeSet()).add(lo, hi)
            gained += hi - lo
        self.done.add(start, end)
        return gained

    def credit(self, ranges: Ranges, since: int, position: int, owner: int) -> int:
        """``owner`` wrote these ranges as far as they lie in ``[since, position)``; returns how many bytes are new."""
        return sum(self.add(max(start, since), min(end, position), owner) for start, end in ranges)

    def forget(self, ranges: Ranges) -> None:
        """Forget these bytes of all owners."""
        for start, end in ranges:
            self.done.remove(start, end)
            for part in (self._earlier, self._now):
                for each in part.values():
                    each.remove(start, end)

    def clear(self) -> None:
        """Believe nothing."""
        self.done = RangeSet()
        self._earlier, self._now = {}, {}
