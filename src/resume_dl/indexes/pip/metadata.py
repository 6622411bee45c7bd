"""Reader of a wheel's METADATA without the wheel: from the index's separate file (PEP 658), else from the wheel's end.

A wheel is a ZIP (PEP 427): its directory is at the end, and ``.dist-info`` usually just before it.

METADATA decides which other projects are installed, so the rule for pages applies (docs/indexes.md). It is accepted
from any source if it has the index's digest; without one from the URL of the index's authority, or if two carriers of
different operators serve the same, or from a whole wheel with the wheel's digest.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Protocol

from packaging.utils import InvalidWheelFilename, canonicalize_name, canonicalize_version, parse_wheel_filename

from resume_dl.bounded_zip import open_zip, read_member
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.sources import OF_THE_HOST
from resume_dl.errors import IntegrityError, ResumeDLError
from resume_dl.indexes.operators import Operators
from resume_dl.indexes.small_answers import Body, Part, Refused, Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.indexes.trust import among
from resume_dl.model.artifact import Source
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import ListedFile, verifiable

TAIL = 32 * 1024
"""Size in bytes of the first read at a wheel's end, which contains the directory and METADATA of most wheels."""
_HEADER = 1024
"""Allowance in bytes for a member's local header, whose size the directory does not state exactly."""
SILENT = Failure(FailureKind.UNREACHABLE, "did not answer before in this run")
METADATA = ".metadata"
"""The suffix of the metadata file's name (PEP 658)."""
_TRIES_OF_EACH = 2
"""Attempts per carrier, which is asked in parallel with others."""
_MOST = 16 * 1024 * 1024
"""Limit for a METADATA file in bytes; longer ones are refused as malicious."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The bytes of METADATA; ``size`` is the wheel's in bytes, if it became known."""

    data: bytes
    size: int | None = None
    read_whole: bool = False
    """Whether the whole wheel was downloaded for it, as its server does not support ranges."""
    answered_by: frozenset[str] = frozenset()
    """The hosts that served the bytes."""


class MetadataSources(Protocol):
    """The sources of one wheel, or of the file whose URL has the suffix ``ending``."""

    def anywhere(self, ending: str = "") -> Sequence[Source]:
        """Return every source, for bytes that a digest identifies."""

    def own(self, ending: str = "") -> Sequence[Source]:
        """Return the source at the URL from the index's authority; may be empty."""

    def carriers(self) -> Sequence[Source]:
        """Return the wheel's other sources."""

    def operators(self, source: Source, answered_by: Iterable[str] = ()) -> Operators:
        """Return the operators behind a source; ``answered_by``: the hosts that sent its answers."""

    @property
    def patience(self) -> float:
        """Time limit in seconds for a source that others can replace."""

    def is_silent(self, source: Source) -> bool:
        """Whether it has timed out in this run."""

    def give_up(self, sources: Iterable[Source]) -> None:
        """Record that they have timed out."""


def read_metadata(file: ListedFile, sources: MetadataSources, reader: Reader) -> Metadata:
    """Read the METADATA of a wheel.

    Raises Unanswered, Interrupted, and IntegrityError if carriers contradict each other.
    """
    if file.metadata is not None:
        known = verifiable(file.metadata)
        beside = sources.anywhere(METADATA) if known else sources.own(METADATA)
        try:
            return Metadata(reader.whole(beside, check=lambda body: _wrong_digest(body, file)).data)
        except Unanswered:
            pass  # announced but missing, as at mirrors that carry only wheels
    own, carriers = sources.own(), sources.carriers()
    failures: list[tuple[Source, Failure]] = []
    try:
        return _ask_own(file, own, reader, None if not carriers else sources)
    except Unanswered as unanswered:
        failures += unanswered.failures
    if FailureKind.RANGE_IGNORED in {failure.kind for _, failure in failures}:
        return reader.ask(own, lambda source: _from_whole(file, source, reader), hedged=False)
    agreed = _agreed(file, sources, reader, failures)
    if agreed is not None:
        return agreed
    ignored = [source for source, failure in failures if failure.kind is FailureKind.RANGE_IGNORED]
    if ignored and file.is_identified:
        return reader.ask(ignored, lambda source: _from_whole(file, source, reader), hedged=False)
    raise Unanswered(failures)


def _ask_own(file: ListedFile, own: Sequence[Source], reader: Reader, others: MetadataSources | None) -> Metadata:
    """Read it from the wheel's end at the wheel's own URL. Raises Unanswered, Interrupted.

    If there are other sources, a host that timed out once is not waited for again.
    """
    if others is None:
        return reader.ask(own, lambda source: _from_end(file, source, reader))
    for source in own:
        if others.is_silent(source):
            raise Unanswered([(source, SILENT)])
    try:
        return reader.ask(own, lambda source: _from_end(file, source, reader), within=others.patience)
    except Unanswered as unanswered:
        others.give_up(source for source, failure in unanswered.failures if failure.kind in OF_THE_HOST)
        raise


def _agreed(
    file: ListedFile, sources: MetadataSources, reader: Reader, failures: list[tuple[Source, Failure]]
) -> Metadata | None:
    """Return what two carriers of different operators agree on; None if fewer have it. Adds to ``failures``."""
    found: list[tuple[Operators, Source, Metadata]] = []
    for source in sources.carriers():
        own = sources.operators(source)
        if any(own & before for before, _, _ in found):
            continue
        try:
            given = reader.ask(
                [source], lambda source: _from_end(file, source, reader), tries=_TRIES_OF_EACH, within=sources.patience
            )
        except Unanswered as unanswered:
            failures += unanswered.failures
            continue
        behind = sources.operators(source, given.answered_by)
        for operators, other, before in found:
            if operators & behind:
                continue
            if before.data != given.data:
                raise IntegrityError(
                    f"{file.filename}: mirrors serve different METADATA ({other.mirror} and {source.mirror}), and "
                    "its own URL is unavailable",
                    hint=among((other.mirror, source.mirror)),
                )
            return given
        found.append((behind, source, given))
    for _, source, _ in found:
        text = f"only {source.mirror} serves its METADATA, and two mirrors of different operators have to agree"
        failures.append((source, Failure(FailureKind.CONTENT, text)))
    return None


def _wrong_digest(body: Body, file: ListedFile) -> Failure | None:
    if len(body.data) > _MOST:
        return Failure(FailureKind.CONTENT, f"its metadata of {file.filename} is too long")
    for name, value in verifiable(file.metadata or {}).items():
        if hashlib.new(name, body.data, usedforsecurity=False).hexdigest() != value:
            return Failure(FailureKind.CONTENT, f"its metadata of {file.filename} does not have the index's digest")
    return None


def _from_end(file: ListedFile, source: Source, reader: Reader) -> Metadata | Refused[Metadata]:
    def read() -> Metadata:
        remote = RemoteFile(source.url, reader, file.size)
        data = _metadata_of(remote, file.filename)
        return Metadata(data, remote.size, answered_by=frozenset(remote.answered_by))

    return _readable(file, read)


def _from_whole(file: ListedFile, source: Source, reader: Reader) -> Metadata | Refused[Metadata]:
    """Read it from a temporary download of the whole wheel, for servers without support for ranges."""
    with tempfile.TemporaryFile() as copy:
        failure = reader.copy(source, copy) or damage(file, copy)
        if failure is not None:
            return Refused(failure)
        return _readable(
            file, lambda: Metadata(_metadata_of(copy, file.filename), copy.seek(0, io.SEEK_END), read_whole=True)
        )


def _readable(file: ListedFile, read: Callable[[], Metadata]) -> Metadata | Refused[Metadata]:
    """Return the result of ``read``, or a refusal if the wheel is damaged. Raises ResumeDLError and OSError."""
    try:
        return read()
    except _FailedError as failed:
        return Refused(failed.failure)
    except (ResumeDLError, OSError):
        raise
    except Exception:  # noqa: BLE001 - zipfile raises undocumented types for malicious archives
        return Refused(Failure(FailureKind.CONTENT, f"the downloaded bytes are not a readable wheel: {file.filename}"))


def _metadata_of(wheel: IO[bytes] | RemoteFile, filename: str) -> bytes:
    """Read ``<name>-<version>.dist-info/METADATA``. Raises what zipfile raises, KeyError if it is missing."""
    with open_zip(wheel) as archive:
        info = archive.getinfo(_member(archive.namelist(), filename))
        if max(info.file_size, info.compress_size) > _MOST:
            raise ValueError("METADATA is too long")
        if isinstance(wheel, RemoteFile):  # fetch the member with one request, not one per decompression step
            wheel.fetch(info.header_offset, info.header_offset + _HEADER + len(info.filename) + info.compress_size)
        return read_member(archive, info, _MOST)


def _member(names: Sequence[str], filename: str) -> str:
    """Return the member's name: in the folder of the wheel's name and version, else in the only ``.dist-info``."""
    found = [name for name in names if name.count("/") == 1 and name.endswith(".dist-info/METADATA")]
    if len(found) == 1:
        return found[0]
    try:
        name, version, _, _ = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        raise KeyError(filename) from None
    for each in found:
        its_name, _, its_version = each.partition("/")[0].removesuffix(".dist-info").partition("-")
        if canonicalize_name(its_name) == name and canonicalize_version(its_version) == canonicalize_version(version):
            return each
    raise KeyError(filename)


class _FailedError(Exception):
    """A read has failed; ``failure`` is the reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__()
        self.failure = failure


class RemoteFile(io.RawIOBase):
    """A file at one source, read in ranges and cached. If-Range binds all bytes to one version."""

    def __init__(self, url: RedactedUrl, reader: Reader, size: int | None = None) -> None:
        super().__init__()
        self._url = url
        self._reader = reader
        self._parts: dict[int, bytes] = {}
        self._at = 0
        self._validator: str | None = None
        self.answered_by: set[str] = set()
        self.size = size if size is not None else self._measure()
        self.fetch(max(0, self.size - TAIL), self.size)

    def _measure(self) -> int:
        """Find the size by requesting the first byte, as Content-Range states it (RFC 9110 14.4)."""
        return self._ask(0, 1).size

    def _ask(self, start: int, end: int) -> Part:
        part = self._reader.part(self._url, start, end, if_range=self._validator)
        if isinstance(part, Failure):
            raise _FailedError(part)
        self._validator = self._validator or part.validator
        self.answered_by.add(part.answered_by)
        return part

    def fetch(self, start: int, end: int) -> None:
        """Cache bytes ``[start, end)``, missing ones by a single range request. Raises _FailedError, SourceError."""
        start, end = max(0, start), min(end, self.size)
        for begin, data in self._parts.items():
            if begin <= start < begin + len(data):
                start = min(end, begin + len(data))
            if begin < end <= begin + len(data):
                end = max(start, begin)
        if start >= end:
            return
        part = self._ask(start, end)
        if part.size != self.size:
            text = f"its file has {part.size} bytes, the index states {self.size}"
            raise _FailedError(Failure(FailureKind.LACKS, text, size=part.size))
        self._parts[start] = part.data

    def readable(self) -> bool:
        """See io."""
        return True

    def seekable(self) -> bool:
        """See io."""
        return True

    def tell(self) -> int:
        """See io."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See io."""
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence])
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Read exactly ``size`` bytes, or up to the end of the file. Raises _FailedError, SourceError."""
        end = self.size if size is None or size < 0 else min(self.size, self._at + size)
        self.fetch(self._at, end)
        found = bytearray()
        while self._at < end:
            begin, data = next((b, d) for b, d in self._parts.items() if b <= self._at < b + len(d))
            piece = data[self._at - begin : end - begin]
            found += piece
            self._at += len(piece)
        return bytes(found)


def damage(file: ListedFile, copy: IO[bytes]) -> Failure | None:
    """Check a copy by the strongest digest of the index; None if it is right or the index has no digest."""
    digests = verifiable(file.hashes)
    known = [name for name in ("sha512", "sha384", "sha256", "sha224", "sha1", "md5") if name in digests]
    if not known:
        return None
    copy.seek(0)
    digest = hashlib.new(known[0], usedforsecurity=False)
    while chunk := copy.read(1 << 20):
        digest.update(chunk)
    if digest.hexdigest() == digests[known[0]]:
        return None
    return Failure(FailureKind.LIED, f"its {file.filename} does not have the index's digest")
