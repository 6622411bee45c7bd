"""Events: what the engine reports to a download, in the past tense. Counts in bytes; payload never enters the core."""

from __future__ import annotations

from dataclasses import dataclass

from resume_dl.core.failures import Failure
from resume_dl.model.http import CacheHeaders


@dataclass(frozen=True, slots=True)
class Prepared:
    """The lock is held and the journal is read; has the trusted ranges on disk.

    ``owners``: the ranges by the label of their source.
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
    """Another process has this file's lock; ``owner`` describes it for messages."""

    owner: str


@dataclass(frozen=True, slots=True)
class ResponseStarted:
    """The head was accepted; the size and validator it stated, and the host that answered after redirects."""

    connection: int
    size: int | None
    validator: str | None = None
    final_host: str = ""
    said: CacheHeaders | None = None
    """The validator of the whole file, for later conditional requests."""
    ranges: bool = False
    """Whether the server supports ranges: it says so (RFC 9110 14.3), or has just served one."""


@dataclass(frozen=True, slots=True)
class BytesWritten:
    """The connection has written up to ``position``, and received ``received`` body bytes in all."""

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
    """A connection has ended; it will not write again.

    ``position``: the end of its written bytes (the start if it wrote none: HOLD before WriteHeld), or of its compared
    bytes for COMPARE. ``failure``: None if its lease is complete, or the core closed it. ``size``: set if the end of
    the body was the first to determine it.
    """

    connection: int
    position: int
    received: int
    failure: Failure | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class LookupFailed:
    """The resolver's negative answer arrived after its connection had been closed."""

    host: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class DataSynced:
    """Everything recorded before ``mark`` is on the disk."""

    mark: int


@dataclass(frozen=True, slots=True)
class DigestAdvanced:
    """The digest covers ``[0, position)``.

    ``damaged``: ranges of an earlier run that do not match their record; the digest stops before the lowest.
    """

    position: int
    damaged: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class DamageLocated:
    """The ranges that the format's own checksums find wrong; None if they cannot locate the damage.

    Outside of ``suspects`` the file is good, as far as CRC-32 can prove it.
    """

    suspects: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True, slots=True)
class DigestChecked:
    """The whole file on disk was hashed; ``actual`` in hex, ``matches`` the result."""

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
    """A deadline of ``next_deadline`` has passed."""


@dataclass(frozen=True, slots=True)
class Awoke:
    """The process has slept for ``seconds``, which the clock does not count (``core.awake_time``)."""

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
