"""What a download asks of the engine, in the imperative.

Each is answered by an event unless its text says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from resume_dl.core.failures import Failure


class Mode(Enum):
    """What becomes of a connection's bytes."""

    WRITE = "write"
    """Written as they come: BytesWritten."""
    HOLD = "hold"
    """An end-game duplicate: kept in memory (BytesReceived, then RangeHeld) until WriteHeld or CloseConnection."""
    COMPARE = "compare"
    """Compared with what is on disk, never written: RangeCompared."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Take the lock, read the journal: Prepared, LockBusy, FoundPublished or LocalFailed."""

    journaled: bool


@dataclass(frozen=True, slots=True)
class FixSize:
    """Record the size (and the validator and source, where no digest binds the bytes). Not answered."""

    size: int
    validator: str | None = None
    source: int | None = None


@dataclass(frozen=True, slots=True)
class OpenRange:
    """Ask ``source`` for ``[start, end)`` and write what falls into ``gaps``; ends with ConnectionClosed.

    ``whole``: without a Range header, one stream from 0. ``size``: the file's, where known. ``mode`` other than WRITE
    only with a range of known end, whose only gap is the range itself.
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
    """Let the connection write nothing from ``end`` on, or from where it is if that is further: LeaseShortened.

    Once it has come so far it ends by itself, with ConnectionClosed. No answer where it has ended before.
    """

    connection: int
    end: int


@dataclass(frozen=True, slots=True)
class WriteHeld:
    """The duplicate has won: write of what it holds what falls into ``gaps``; ends with ConnectionClosed."""

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
    """Hash on, from where the digest stands, to ``upto``; all bytes below are finished: DigestAdvanced or LocalFailed.

    Never while another call on the digest (this, CheckDigest, LocateDamage) is under way.
    """

    upto: int


@dataclass(frozen=True, slots=True)
class CheckDigest:
    """Hash the rest: DigestChecked, or DigestAdvanced where bytes of an earlier run are damaged, or LocalFailed."""


@dataclass(frozen=True, slots=True)
class LocateDamage:
    """Ask the format's own checksums where a whole file with a wrong digest is wrong: DamageLocated or LocalFailed."""


@dataclass(frozen=True, slots=True)
class ForgetRanges:
    """Believe these bytes no more, in this run or a later one. Not answered; never while the digest is at work."""

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
    """The download is over without its file; release its lock. Not answered.

    ``reason``: ``cancelled``, ``exhausted``, ``unreachable``, ``no network`` (no host name resolved, ``causes`` say why
    of each), ``lacking``, ``unchanged``, ``locked``, ``local``; of wrong bytes ``digest`` (every source's are),
    ``single`` (only one source, none to compare with), ``disputed`` (as far as a short look goes the sources agree
    against the record, and all bytes are kept: ask for a newer record) or ``record`` (they agree on every byte; kept).
    ``agreeing``: those sources.
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
