"""What the engine asks of the outside world. Implementations map every foreign exception to ``resume_dl.errors``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from resume_dl.model.access import PluginLogin
from resume_dl.model.artifact import Artifact
from resume_dl.model.http import RangeRequest, ResponseHead
from resume_dl.model.index_logins import KeyringAnswer
from resume_dl.model.url import RedactedUrl


class Response(Protocol):
    """A response: its head has been read, its body not yet; owned by one worker thread."""

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

        Raises NetworkError (with ``retryable`` False where another try cannot help, e.g. an untrusted certificate)
        or StalledError. Blocks at most for the connect and first-byte time-outs.
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


class Keyring(Protocol):
    """Logins of pip's package indexes; may be used from any number of threads."""

    def of_index(self, url: str) -> tuple[str, str] | None:
        """User name and password in the URL of the index that ``url`` belongs to. Raises ValueError."""
        ...

    def known(self, url: str) -> tuple[str, str] | None:
        """The login that ``ask`` has found for ``url`` before. Raises ValueError for a malformed URL."""
        ...

    def ask(self, url: str, first: str, stopped: Callable[[], bool]) -> KeyringAnswer:
        """The keyring's login for ``url``, to which a request for ``first`` has led; asked once a run.

        Blocks for a limited time, or until ``stopped``. Raises ValueError for a malformed URL.
        """
        ...

    def stop(self) -> None:
        """End what is being asked. Never raises."""
        ...


class PluginLogins(Protocol):
    """The logins that the plugins of a client add to its requests. Called from any thread."""

    def login(
        self, url: RedactedUrl, *, cancelled: Callable[[], bool], warn: Callable[[str], None]
    ) -> PluginLogin | None:
        """What the client would send for ``url``; None without a plugin for it, or if the plugin gives no answer.

        Blocks for the time that the client needs, in limits; ``cancelled`` ends the wait. ``warn`` gets the cause.
        """
        ...

    def renewed(
        self, refused: PluginLogin, url: RedactedUrl, *, cancelled: Callable[[], bool], warn: Callable[[str], None]
    ) -> PluginLogin | None:
        """Another login for ``url`` after the server refused this one; None if there is no other."""
        ...

    def accepted(self, login: PluginLogin) -> None:
        """The server accepted this login: it may be renewed once it has expired."""
        ...

    def close(self) -> None:
        """End the client's process. Never raises."""
        ...


class Tracer(Protocol):
    """A recorder of a run's events and actions (docs/trace.md). Called from the main thread only."""

    def begin(self, now: float, key: str, filename: str, size: int | None, sources: Sequence[str]) -> None:
        """Record a new file; ``sources`` are the mirrors' names, in the order of their indexes."""
        ...

    def note(self, now: float, key: str | None, what: object) -> None:
        """Record an event given to the core or an action it returned (a dataclass of ``resume_dl.core``)."""
        ...

    def close(self) -> None:
        """Finish the record."""
        ...


class Clock(Protocol):
    """Monotonic seconds."""

    def now(self) -> float:
        """Seconds since a moment that is fixed while the process runs."""
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
    """What is waited for, or which source failed, in a few words without secrets."""
    index: str = ""
    """The channel, where this file is part of its index; else empty."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that a run is about, as it is before the first byte."""

    artifact: Artifact
    here: int = 0
    """Bytes on disk before the run, in a part file or in the complete file."""
    whole: bool = False
    """Complete and verified: no download is needed."""


class Reporter(Protocol):
    """A display of a run in progress. Called from the main thread only; must not raise."""

    def plan(self, files: Sequence[PlannedFile], *, replaces: Collection[str] = ()) -> None:
        """Show what will be fetched; called before the first byte of these files.

        A second plan adds to the first; ``replaces``: keys of files that are no longer wanted.
        """
        ...

    def progress(self, progress: ArtifactProgress) -> None:
        """Show the new state or byte count of one artifact; called at most ten times a second for each."""
        ...

    def message(self, text: str, *, level: str = "info") -> None:
        """Show a line; level ``debug``, ``info``, ``warning`` or ``error``."""
        ...

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Report a machine-readable event for ``--progress json`` (source failures, retries)."""
        ...

    def close(self) -> None:
        """Draw the final state."""
        ...


@dataclass(frozen=True, slots=True)
class Resumed:
    """Contents of a part file at the start of a run: valid ranges, half-open, sorted, disjoint."""

    ranges: tuple[tuple[int, int], ...] = ()
    size: int | None = None
    validator: str | None = None
    bound_source: str | None = None
    """For files without a digest: the redacted URL that the bytes came from."""
    owners: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()
    """Ranges by source: the name given to ``record_written``, and its ranges."""


@dataclass(frozen=True, slots=True)
class DigestProgress:
    """Position of the digest, in bytes from the start, and the damaged ranges it stopped at."""

    position: int
    damaged: tuple[tuple[int, int], ...] = ()


class PartFile(Protocol):
    """An unfinished file and its journal, locked by this process."""

    def resume(self) -> Resumed:
        """Read the journal, cut off a torn tail, and re-hash what was written but is not durable.

        Durable ranges are accepted here; ``advance_digest`` compares them with their recorded CRC-32.
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
        """Append, and sync, that all records before ``mark`` are durable."""
        ...

    def read(self, offset: int, count: int) -> bytes:
        """Read at most ``count`` bytes from the disk; from any thread."""
        ...

    def discard(self) -> None:
        """Forget all bytes; the digest starts again."""
        ...

    def forget(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Mark these ranges as missing, for later runs too; the digest goes back to before the lowest."""
        ...

    def advance_digest(self, upto: int) -> DigestProgress:
        """Hash the bytes on disk from the digest's position to ``upto``; all of them are finished.

        Bytes of an earlier run are compared with their recorded CRC-32: the digest stops at the first record that
        differs. Called from one thread at a time; other threads may write above ``upto`` meanwhile.
        """
        ...

    def locate_damage(self) -> tuple[tuple[int, int], ...] | None:
        """Ranges that the format's own checksums (CRC-32 of ZIP members) show as damaged; None if unknown."""
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
