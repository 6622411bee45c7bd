"""What the engine tells a download: facts, in the past tense. Counts in bytes; payload never enters the core."""

from __future__ import annotations

from dataclasses import dataclass

from resume_dl.core.failures import Failure
from resume_dl.model.http import CacheHeaders


@dataclass(frozen=True, slots=True)
class Prepared:
    """The lock is ours and the journal is read: what is on disk, believed.

    ``owners``: which source sent which of the ranges, by its label.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    size: int | None = None
    validator: str | None = None
    bound_source: str | None = None
    owners: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class FoundPublished:
    """Another process finished this file while we waited for its lock."""


@dataclass(frozen=True, slots=True)
class LockBusy:
    """Another process works on this file; ``owner`` says which, for people."""

    owner: str


@dataclass(frozen=True, slots=True)
class ResponseStarted:
    """The head was accepted; the size and validator it stated, and the host that answered after redirects."""

    connection: int
    size: int | None
    validator: str | None = None
    final_host: str = ""
    said: CacheHeaders | None = None
    """What asks later whether the whole file has changed."""
    ranges: bool = False
    """Whether it says that it gives parts of the file (RFC 9110 14.3), or has just given one."""


@dataclass(frozen=True, slots=True)
class BytesWritten:
    """The connection's stream is written up to ``position``; ``received`` body bytes came in all."""

    connection: int
    position: int
    received: int


@dataclass(frozen=True, slots=True)
class LeaseShortened:
    """The connection will write nothing from ``end`` on."""

    connection: int
    end: int


@dataclass(frozen=True, slots=True)
class BytesReceived:
    """A connection that does not write (HOLD) has ``received`` body bytes in all."""

    connection: int
    received: int


@dataclass(frozen=True, slots=True)
class RangeHeld:
    """All of a duplicate's range is in memory."""

    connection: int
    received: int


@dataclass(frozen=True, slots=True)
class RangeCompared:
    """Compared up to ``position`` with the disk; ``differing``: blocks with another byte, since the last such event."""

    connection: int
    position: int
    received: int
    differing: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """A connection has ended: no write of it can follow.

    ``position``: written up to here; the start for one that wrote nothing (HOLD before WriteHeld), compared up to here
    for COMPARE. ``failure`` None when its lease is complete, or when the core closed it. ``size``: where the body's own
    end was the first to tell it.
    """

    connection: int
    position: int
    received: int
    failure: Failure | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class LookupFailed:
    """The resolver said no to a connection that had been closed before: it was only slow to say so."""

    host: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class DataSynced:
    """Everything recorded before ``mark`` is on the disk."""

    mark: int


@dataclass(frozen=True, slots=True)
class DigestAdvanced:
    """The digest covers ``[0, position)``.

    ``damaged``: ranges of an earlier run that are not what was recorded then; the digest stands before the lowest.
    """

    position: int
    damaged: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class DamageLocated:
    """Where the format's own checksums find the file wrong; None where they cannot tell.

    Outside of ``suspects`` the file is provably good, as far as CRC-32 proves.
    """

    suspects: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True, slots=True)
class DigestChecked:
    """The whole file was hashed as it lies on disk; ``actual`` is the hex found, ``matches`` the verdict."""

    matches: bool
    expected: str = ""
    actual: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    """The file has its name."""


@dataclass(frozen=True, slots=True)
class LocalFailed:
    """This machine failed (disk, permission); ``error`` goes back to the user through Fail.

    ``sync``: it was SyncData that failed; ``digest``: AdvanceDigest, CheckDigest or LocateDamage; ``publish``: Publish.
    """

    error: Exception
    sync: bool = False
    digest: bool = False
    publish: bool = False


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A deadline that ``next_deadline`` named has come."""


@dataclass(frozen=True, slots=True)
class Awoke:
    """The process goes on after a sleep of so many ``seconds``, which the clock has left out (``core.awake_time``)."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The user wants to stop."""


OfAConnection = (
    ResponseStarted | BytesWritten | BytesReceived | RangeHeld | RangeCompared | LeaseShortened | ConnectionClosed
)
Event = (
    Prepared
    | FoundPublished
    | LockBusy
    | OfAConnection
    | LookupFailed
    | DataSynced
    | DigestAdvanced
    | DamageLocated
    | DigestChecked
    | Published
    | LocalFailed
    | TimerFired
    | Awoke
    | Cancelled
)
