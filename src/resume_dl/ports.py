"""What the engine asks of the outside world. Implementations map every foreign exception to ``resume_dl.errors``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from resume_dl.model.artifact import Artifact
from resume_dl.model.http import RangeRequest, ResponseHead


class Response(Protocol):
    """An answer whose head is here and whose body is still on the wire; owned by one worker thread."""

    @property
    def head(self) -> ResponseHead:
        """Status and headers."""
        ...

    def chunks(self) -> Iterator[bytes]:
        """Raw body bytes as they come (no decoding), at most 256 KiB a chunk.

        Raises NetworkError (reset, early end) or StalledError (read time-out). Ends silently after ``abort``.
        """
        ...

    def close(self) -> None:
        """Give the connection back (body read to its end) or drop it. Never raises."""
        ...


class Exchange(Protocol):
    """One request that may be stopped from another thread at any moment, also before its head is here."""

    def open(self) -> Response:
        """Send the request, follow redirects by hand, return the answer of any status.

        Raises NetworkError (with ``retryable`` False for what trying again cannot mend, e.g. an untrusted
        certificate) or StalledError. Blocks at most for the connect and first-byte time-outs.
        """
        ...

    def abort(self) -> None:
        """Wake the thread that waits in a read of this exchange, from any thread; later reads end. Never raises."""
        ...


class Transport(Protocol):
    """The only way to the network."""

    def exchange(self, request: RangeRequest) -> Exchange:
        """One request, not sent yet."""
        ...

    def close(self) -> None:
        """Drop every connection. Never raises."""
        ...


class Tracer(Protocol):
    """Writes down a run's story, for people who want to see why it took so long. Called from the main thread only."""

    def begin(self, now: float, key: str, filename: str, size: int | None, sources: Sequence[str]) -> None:
        """A file joins the run; ``sources`` are the mirrors' names, in the order of their indexes."""
        ...

    def note(self, now: float, key: str | None, what: object) -> None:
        """An event that the core was told or an action that it asked for (a dataclass of ``resume_dl.core``)."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class Clock(Protocol):
    """Monotonic seconds."""

    def now(self) -> float:
        """Seconds since some moment that does not change while the process runs."""
        ...


@dataclass(frozen=True, slots=True)
class ArtifactProgress:
    """One artifact as a user sees it, counts in bytes."""

    key: str
    filename: str
    size: int | None
    done: int
    """Bytes of the file on disk, resumed ones included."""
    resumed: int
    """How many of ``done`` were there before this run."""
    state: str
    """waiting, locked, checking, downloading, verifying, extracting, downloaded, resumed, cached, failed, stopped"""
    note: str = ""
    """For whom we wait, or which source failed, in a few words without secrets."""
    index: str = ""
    """The channel whose index this is a file of; empty for what was asked for."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that a run is about, as it is before the first byte."""

    artifact: Artifact
    here: int = 0
    """Bytes of it that are on disk already, in a part file of an earlier run or whole."""
    whole: bool = False
    """Verified and complete: nothing of it will be downloaded."""


class Reporter(Protocol):
    """Shows a run while it goes on. Called from the main thread only; must not raise."""

    def plan(self, files: Sequence[PlannedFile], *, replaces: Collection[str] = ()) -> None:
        """What will be fetched; called before the first byte of these files.

        A second plan adds to the first; ``replaces``: keys of files that are wanted no more.
        """
        ...

    def progress(self, progress: ArtifactProgress) -> None:
        """The state of one artifact changed, or some of its bytes came (at most ten times a second each)."""
        ...

    def message(self, text: str, *, level: str = "info") -> None:
        """A line for the user; level ``debug``, ``info``, ``warning`` or ``error``."""
        ...

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """A machine-readable event for ``--progress json`` (source failures, retries)."""
        ...

    def close(self) -> None:
        """Leave the screen as it should stay."""
        ...


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a part file holds at the start of a run: believed ranges, half open, sorted, disjoint."""

    ranges: tuple[tuple[int, int], ...] = ()
    size: int | None = None
    validator: str | None = None
    bound_source: str | None = None
    """For files without a digest: the redacted URL that the bytes came from."""
    owners: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()
    """Who brought which of the ranges: the name given to ``record_written``, and its ranges."""


@dataclass(frozen=True, slots=True)
class DigestProgress:
    """How far the digest is, in bytes from the start, and what it found damaged on the way (it stands before that)."""

    position: int
    damaged: tuple[tuple[int, int], ...] = ()


class PartFile(Protocol):
    """An unfinished file and its journal, locked by this process."""

    def resume(self) -> Resumed:
        """Read the journal, cut off a torn tail; what was written and not durable is re-hashed before it is believed.

        What is durable is believed here, and compared with its recorded CRC-32 when ``advance_digest`` comes by.
        """
        ...

    def fix_size(self, size: int, validator: str | None = None, source: str | None = None) -> None:
        """Record the size (and, without a digest, the validator and its source), and reserve the file."""
        ...

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write all of ``data`` at ``offset``; from any thread."""
        ...

    def record_written(self, start: int, end: int, crc32: int, source: str) -> None:
        """Append a *written* record; no sync."""
        ...

    def sync_data(self) -> int:
        """Sync the data; returns a mark for ``record_durable``."""
        ...

    def record_durable(self, mark: int) -> None:
        """All records before ``mark`` are durable; appended and synced."""
        ...

    def read(self, offset: int, count: int) -> bytes:
        """At most ``count`` bytes as they lie on disk; from any thread."""
        ...

    def discard(self) -> None:
        """Forget all bytes; the digest begins anew."""
        ...

    def forget(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Believe these ranges no more, also in later runs; the digest goes back before the lowest of them."""
        ...

    def advance_digest(self, upto: int) -> DigestProgress:
        """Hash the bytes from where the digest stands to ``upto`` as they lie on disk; all of them are finished.

        Bytes of an earlier run are compared with their recorded CRC-32 on the way: at the first record that does not
        fit the digest stops. Used by one thread at a time, beside writers of bytes above ``upto``.
        """
        ...

    def locate_damage(self) -> tuple[tuple[int, int], ...] | None:
        """Where the format's own checksums (CRC-32 of ZIP members) find a whole file wrong; None where they cannot."""
        ...

    def digest(self) -> Mapping[str, str]:
        """Algorithm -> hex of what ``advance_digest`` has hashed, for the strongest algorithm the artifact names."""
        ...

    def publish(self, destination: Path) -> None:
        """Close every handle, rename to ``destination``, sync the folder, remove the journal."""
        ...

    def close(self) -> None:
        """Close the handles and release the lock; the bytes stay."""
        ...


class PartStore(Protocol):
    """A folder of unfinished files."""

    def open(self, artifact: Artifact, *, journaled: bool) -> PartFile:
        """Lock and open the artifact's part file; raises LockedError or StoreError."""
        ...
