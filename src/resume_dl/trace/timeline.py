"""What happened in a run, from its trace: files, connections, failures. Times in seconds, counts in bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from resume_dl.core.byte_coverage import ByteCoverage
from resume_dl.core.scheduling.leases import Lease


@dataclass(slots=True)
class Connection:
    """One request. ``points``: (time, offset of its stream) from the start on."""

    source: int
    mode: str
    lease: Lease
    opened: float
    points: list[tuple[float, int]]
    asked_end: int | None = None
    """Where its lease ended before it was shortened."""
    closed: float | None = None
    answered: float | None = None
    received: int = 0
    seen: list[tuple[float, int]] = field(default_factory=list)
    """(time, bytes received by then)."""
    shortened: list[tuple[float, int]] = field(default_factory=list)
    held: float | None = None
    won: float | None = None
    dropped: float | None = None
    """When the core closed it."""
    failure: str = ""

    @property
    def position(self) -> int:
        """How far its stream has come."""
        return self.points[-1][1]

    def quiet(self, until: float, least: float) -> list[tuple[float, float]]:
        """When it was open and no byte came for ``least`` seconds or more, the core's own waits left out."""
        moments = [self.opened, *(t for t, _ in self.seen), self.closed if self.closed is not None else until]
        found = [(a, b) for a, b in pairwise(moments) if b - a >= least]
        return [(a, b) for a, b in found if self.held is None or a < self.held]


@dataclass(slots=True)
class Mark:
    """A failure of a source, and the connection that failed, if any."""

    t: float
    source: int
    kind: str
    message: str
    connection: int | None = None


@dataclass(slots=True)
class File:
    """One file of a run. ``gained``: (from, to, source, bytes) of each report that brought something new."""

    key: str
    name: str
    size: int | None
    sources: list[str]
    began: float
    ended: float | None = None
    outcome: str = ""
    hosts: dict[int, set[str]] = field(default_factory=dict)
    connections: dict[int, Connection] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    gained: list[tuple[float, float, int, int]] = field(default_factory=list)
    resumed: list[tuple[int, int]] = field(default_factory=list)
    frontier: list[tuple[float, int]] = field(default_factory=list)
    digest: list[tuple[float, int]] = field(default_factory=list)
    durable: list[float] = field(default_factory=list)
    phases: list[tuple[float, str]] = field(default_factory=list)
    forgotten: list[tuple[float, list[tuple[int, int]]]] = field(default_factory=list)
    holdings: ByteCoverage = field(default_factory=ByteCoverage)

    @property
    def kept(self) -> dict[int, int]:
        """Bytes of this run that are still believed, by source."""
        return {index: self.holdings.kept_of(index) for index in range(len(self.sources))}

    @property
    def received(self) -> dict[int, int]:
        """Body bytes that came, kept or not, by source."""
        found = dict.fromkeys(range(len(self.sources)), 0)
        for one in self.connections.values():
            found[one.source] = found.get(one.source, 0) + one.received
        return found


@dataclass(slots=True)
class Timeline:
    """A run. ``whole``: the trace is complete; ``unread``: the number of malformed lines."""

    version: str = ""
    started: str = ""
    files: list[File] = field(default_factory=list)
    end: float = 0.0
    whole: bool = False
    unread: int = 0
