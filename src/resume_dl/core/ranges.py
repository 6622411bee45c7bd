"""Sets of half-open byte ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class RangeSet:
    """Sorted, disjoint, non-adjacent half-open ranges ``[start, end)`` of byte offsets."""

    __slots__ = ("_ends", "_starts", "total")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.total = 0
        """How many bytes the set covers."""
        for start, end in ranges:
            self.add(start, end)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts, self._ends, strict=True))

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        return self._starts == other._starts and self._ends == other._ends

    __hash__ = None  # type: ignore[assignment]  # mutable, so it must not be a dict key

    def __repr__(self) -> str:
        return f"RangeSet({list(self)})"

    def copy(self) -> RangeSet:
        """An independent set of the same ranges."""
        new = RangeSet()
        new._starts, new._ends, new.total = self._starts[:], self._ends[:], self.total
        return new

    def add(self, start: int, end: int) -> None:
        """Cover ``[start, end)`` too, joining what it touches; an empty range changes nothing."""
        if start >= end:
            return
        lo = bisect_left(self._ends, start)
        hi = bisect_right(self._starts, end)
        if lo < hi:
            start = min(start, self._starts[lo])
            end = max(end, self._ends[hi - 1])
            self.total -= sum(self._ends[i] - self._starts[i] for i in range(lo, hi))
        self._starts[lo:hi] = [start]
        self._ends[lo:hi] = [end]
        self.total += end - start

    def remove(self, start: int, end: int) -> None:
        """Cover nothing of ``[start, end)`` any more."""
        if start >= end:
            return
        lo = bisect_right(self._ends, start)
        hi = bisect_left(self._starts, end)
        if lo >= hi:
            return
        pieces = [(self._starts[lo], start), (end, self._ends[hi - 1])]
        kept = [(s, e) for s, e in pieces if s < e]
        self.total -= sum(self._ends[i] - self._starts[i] for i in range(lo, hi))
        self.total += sum(e - s for s, e in kept)
        self._starts[lo:hi] = [s for s, _ in kept]
        self._ends[lo:hi] = [e for _, e in kept]

    def covers(self, start: int, end: int) -> bool:
        """Whether every byte of ``[start, end)`` is in the set; True for an empty range."""
        if start >= end:
            return True
        i = bisect_right(self._starts, start) - 1
        return i >= 0 and self._ends[i] >= end

    def overlaps(self, start: int, end: int) -> bool:
        """Whether any byte of ``[start, end)`` is in the set."""
        return start < end and bisect_right(self._ends, start) < bisect_left(self._starts, end)

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of the set that lie in ``[start, end)``."""
        lo = bisect_right(self._ends, start)
        hi = bisect_left(self._starts, end)
        return [(max(self._starts[i], start), min(self._ends[i], end)) for i in range(lo, hi)]

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of ``[start, end)`` that are not in the set, in order."""
        found = []
        at = start
        for s, e in self.within(start, end):
            if at < s:
                found.append((at, s))
            at = e
        if at < end:
            found.append((at, end))
        return found

    def first_gap(self, start: int = 0) -> int:
        """The lowest offset not below ``start`` that is not in the set."""
        i = bisect_right(self._starts, start) - 1
        return self._ends[i] if i >= 0 and self._ends[i] > start else start
