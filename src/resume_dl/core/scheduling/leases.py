"""The next lease of a file: pure geometry of ranges, sizes and speeds.

Leases are cut in file order inside a window above the lowest unfinished byte. Each is as long as its connection needs
for a fixed time, and shorter towards the end, so that all end together; or one connection gets the whole rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from resume_dl.core.policy import Policy
from resume_dl.core.ranges import RangeSet

NO_END = 1 << 62
"""The end of a file whose size is not known yet."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The range of one request (``[start, end)``, or with ``whole`` the file) and what it may write (``gaps``)."""

    start: int
    end: int | None
    gaps: tuple[tuple[int, int | None], ...]
    whole: bool = False

    def ranges(self, size: int | None) -> list[tuple[int, int]]:
        """The ranges that no other connection may write while it is held; they end at ``size``."""
        most = NO_END if size is None else size
        return [(start, most if end is None else min(end, most)) for start, end in self.gaps]

    def until(self, end: int) -> Lease:
        """The same lease, ending at ``end``."""
        gaps = [(start, end if stop is None else min(stop, end)) for start, stop in self.gaps if start < end]
        return Lease(self.start, end, tuple(gaps), self.whole)


def next_segment(
    done: RangeSet, held: Sequence[Lease], size: int, policy: Policy, *, speed: float | None, others: float
) -> Lease | None:
    """The next lease for a connection of ``speed`` bytes a second; None if the window has no free byte.

    ``others``: bytes a second of the file's other connections together.
    """
    occupied = done.copy()
    for lease in held:
        for start, end in lease.ranges(size):
            occupied.add(start, end)
    lowest = done.first_gap()
    edge = min(size, lowest + policy.window)
    piece = policy.piece_size
    free = [
        (start, end) for start, end in occupied.gaps(lowest, edge) if end < edge or end == size or end - start >= piece
    ]
    if not free:
        return None
    start, gap_end = free[0]
    if speed is None:
        length = policy.first_segment
    else:
        # What is left takes all of them so long together: no connection should still be at work after it.
        seconds = min(policy.segment_seconds, (size - done.total) / max(speed + others, 1.0))
        # Twice over within the window: else those that are ahead wait for crumbs at its edge while the last go on.
        length = min(int(speed * seconds), policy.window // (2 * (len(held) + 1)))
    end = min(-(-(start + max(length, piece)) // piece) * piece, gap_end)
    return Lease(start, end, ((start, end),))


def lone_lease(done: RangeSet, size: int | None, policy: Policy, *, one_stream: bool, by_digest: bool) -> Lease:
    """The lease of a single connection: for a small file, no size or digest, or a source without ranges."""
    first = done.first_gap()
    if one_stream or (first == 0 and not done and (size is not None or not by_digest)):
        known = done.gaps(0, NO_END if size is None else size)
        return Lease(0, None, tuple((start, None if end == NO_END else end) for start, end in known), whole=True)
    start, end = done.gaps(first, first + policy.first_segment if size is None else size)[0]
    return Lease(start, end, ((start, end),))
