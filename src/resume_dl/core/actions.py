"""What a download asks of the engine, in the imperative.

Each is answered by an event unless its text says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from resume_dl.core.failures import Failure


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

    ``whole``: without a Range header, one stream from 0. ``size``: the file's, where known.
    """

    connection: int
    source: int
    start: int
    end: int | None
    gaps: tuple[tuple[int, int | None], ...]
    whole: bool
    size: int | None
    if_range: str | None = None


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
class CheckDigest:
    """Hash the whole file: DigestChecked or LocalFailed."""


@dataclass(frozen=True, slots=True)
class DiscardPieces:
    """Forget every byte on disk. Not answered; later actions follow it in order."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Close every write handle and give the file its name: Published or LocalFailed."""


@dataclass(frozen=True, slots=True)
class NoteFailure:
    """A source failed; shown and counted, not answered."""

    source: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Finish:
    """The download is over and well: published by us, or by ``another`` process. Not answered."""

    another: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """The download is over without its file; release its lock. Not answered.

    ``reason``: ``cancelled``, ``exhausted``, ``unreachable``, ``lacking``, ``unchanged``, ``digest``, ``locked`` or
    ``local``.
    """

    reason: str
    causes: tuple[tuple[int, Failure], ...] = ()
    resumable_bytes: int = 0
    expected: str = ""
    actual: str = ""
    owner: str = ""
    error: Exception | None = None


Action = (
    Prepare
    | FixSize
    | OpenRange
    | CloseConnection
    | SyncData
    | RecordProgress
    | CheckDigest
    | DiscardPieces
    | Publish
    | NoteFailure
    | Finish
    | Fail
)
