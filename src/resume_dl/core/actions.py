"""Actions: what a download requests from the engine, named in the imperative.

Each is answered by an event unless its text says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from resume_dl.core.failures import Failure


class Mode(Enum):
    """What becomes of a connection's bytes."""

    WRITE = "write"
    """Bytes are written as they arrive: BytesWritten."""
    HOLD = "hold"
    """An end-game duplicate: kept in memory (BytesReceived, then RangeHeld) until WriteHeld or CloseConnection."""
    COMPARE = "compare"
    """Bytes are compared with the disk, never written: RangeCompared."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Take the lock, read the journal: Prepared, LockBusy, FoundPublished or LocalFailed."""

    journaled: bool


@dataclass(frozen=True, slots=True)
class FixSize:
    """Record the size (and the validator and source, if there is no digest). Not answered."""

    size: int
    validator: str | None = None
    source: int | None = None


@dataclass(frozen=True, slots=True)
class OpenRange:
    """Request ``[start, end)`` from ``source`` and write the bytes in ``gaps``; ends with ConnectionClosed.

    ``whole``: without a Range header, one stream from 0. ``size``: the file's, if known. A ``mode`` other than WRITE
    needs a range with a known end, whose only gap is the range itself.
    """

    connection: int
    source: int
    start: int
    end: int | None
    gaps: tuple[tuple[int, int | None], ...]
    whole: bool
    size: int | None
    if_range: str | None = None
    mode: Mode = Mode.WRITE


@dataclass(frozen=True, slots=True)
class ShortenLease:
    """End the connection's lease at ``end``, or at its position if that is further: LeaseShortened.

    When it gets there it ends with ConnectionClosed. Not answered if it has ended before.
    """

    connection: int
    end: int


@dataclass(frozen=True, slots=True)
class WriteHeld:
    """The duplicate has won: write its bytes in ``gaps``; ends with ConnectionClosed."""

    connection: int
    gaps: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Fence the connection's writes now, wake its thread; ends with ConnectionClosed."""

    connection: int


@dataclass(frozen=True, slots=True)
class SyncData:
    """Sync the data: DataSynced or LocalFailed."""


@dataclass(frozen=True, slots=True)
class RecordProgress:
    """Append a durable record for ``mark``. Not answered."""

    mark: int


@dataclass(frozen=True, slots=True)
class AdvanceDigest:
    """Advance the digest to ``upto``, below which all bytes are finished: DigestAdvanced or LocalFailed.

    Never while another call on the digest (this, CheckDigest, LocateDamage) is under way.
    """

    upto: int


@dataclass(frozen=True, slots=True)
class CheckDigest:
    """Hash the rest: DigestChecked, or DigestAdvanced if bytes of an earlier run are damaged, or LocalFailed."""


@dataclass(frozen=True, slots=True)
class LocateDamage:
    """Locate the damage in a complete file by the format's own checksums: DamageLocated or LocalFailed."""


@dataclass(frozen=True, slots=True)
class ForgetRanges:
    """Forget these bytes, in this run and later ones. Not answered; never during a call on the digest."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class DiscardPieces:
    """Forget every byte on disk. Not answered; later actions follow it in order."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Close every write handle and give the file its name: Published or LocalFailed."""


@dataclass(frozen=True, slots=True)
class NoteFailure:
    """A source failed, with this ``connection`` or found out later; shown and counted, not answered."""

    source: int
    failure: Failure
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The download is over and well: published by us, or by ``another`` process. Not answered."""

    another: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """End the download without its file; release its lock. Not answered.

    ``reason``: ``cancelled``, ``exhausted``, ``unreachable``, ``no network`` (no host name resolved; ``causes`` has a
    reason for each), ``lacking``, ``unchanged``, ``locked``, ``local``; for wrong bytes ``digest`` (from every source),
    ``single`` (there is no other source to compare with), ``disputed`` (in a short comparison the sources agree against
    the record; all bytes are kept until a newer record is known) or ``record`` (they agree on every byte; kept).
    ``agreeing``: the sources that agree.
    """

    reason: str
    causes: tuple[tuple[int, Failure], ...] = ()
    resumable_bytes: int = 0
    expected: str = ""
    actual: str = ""
    owner: str = ""
    error: Exception | None = None
    agreeing: tuple[int, ...] = ()


Action = (
    Prepare
    | FixSize
    | OpenRange
    | ShortenLease
    | WriteHeld
    | CloseConnection
    | SyncData
    | RecordProgress
    | AdvanceDigest
    | CheckDigest
    | LocateDamage
    | ForgetRanges
    | DiscardPieces
    | Publish
    | NoteFailure
    | Finish
    | Fail
)
