"""A wheel's METADATA without the wheel: from the file that the index has of it (PEP 658), else out of the wheel's end.

A wheel is a ZIP (PEP 427): its list of members stands at its end, its ``.dist-info`` usually just before.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from packaging.utils import InvalidWheelFilename, canonicalize_name, canonicalize_version, parse_wheel_filename

from resume_dl.bounded_zip import open_zip, read_member
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.errors import ResumeDLError
from resume_dl.indexes.small_fetch import Body, Part, Reader, Refused, Unanswered
from resume_dl.model.artifact import Source
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import ListedFile

TAIL = 32 * 1024
"""Bytes of the first look at a wheel's end: most have both their list and their METADATA in it."""
_HEADER = 1024
"""What may stand before a member's bytes, beyond what the list says of it."""
_MOST = 16 * 1024 * 1024
"""Bytes of a METADATA; longer ones are hostile."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """METADATA's bytes; ``size`` is the wheel's in bytes, where it was learnt on the way."""

    data: bytes
    size: int | None = None
    read_whole: bool = False
    """The wheel was read from end to end for it: its server gives no parts of files."""


def read_metadata(file: ListedFile, sources: Callable[[RedactedUrl], Sequence[Source]], reader: Reader) -> Metadata:
    """The METADATA of a wheel. ``sources``: the places of an address. Raises Unanswered, Interrupted."""
    if file.metadata is not None:
        beside = RedactedUrl(f"{file.url}.metadata")
        try:
            body = reader.whole(sources(beside), check=lambda body: _wrong_digest(body, file))
        except Unanswered:
            pass  # it was promised and is not there, as at mirrors that keep wheels only
        else:
            return Metadata(body.data)
    places = sources(RedactedUrl(file.url))
    try:
        return reader.ask(places, lambda source: _from_end(file, source, reader))
    except Unanswered as unanswered:
        if FailureKind.RANGE_IGNORED not in unanswered.kinds:
            raise
    return reader.ask(places, lambda source: _from_whole(file, source, reader), hedged=False)


def _wrong_digest(body: Body, file: ListedFile) -> Failure | None:
    if len(body.data) > _MOST:
        return Failure(FailureKind.CONTENT, f"its metadata of {file.filename} is longer than any")
    for name, value in (file.metadata or {}).items():
        if name in hashlib.algorithms_guaranteed and hashlib.new(name, body.data).hexdigest() != value:
            return Failure(FailureKind.CONTENT, f"its metadata of {file.filename} is not what the index says")
    return None


def _from_end(file: ListedFile, source: Source, reader: Reader) -> Metadata | Refused[Metadata]:
    try:
        remote = RemoteFile(source.url, reader, file.size)
        return Metadata(_metadata_of(remote, file.filename), remote.size)
    except _FailedError as failed:
        return Refused(failed.failure)
    except (ResumeDLError, OSError):
        raise
    except Exception:  # noqa: BLE001 - what zipfile raises for hostile archives is in no list
        return Refused(Failure(FailureKind.CONTENT, f"what came is no readable wheel: {file.filename}"))


def _from_whole(file: ListedFile, source: Source, reader: Reader) -> Metadata | Refused[Metadata]:
    """For servers that give no parts of files: all of it, on the disk, for a moment."""
    with tempfile.TemporaryFile() as copy:
        failure = reader.copy(source, copy)
        if failure is not None:
            return Refused(failure)
        try:
            return Metadata(_metadata_of(copy, file.filename), copy.seek(0, io.SEEK_END), read_whole=True)
        except (ResumeDLError, OSError):
            raise
        except Exception:  # noqa: BLE001 - as above
            return Refused(Failure(FailureKind.CONTENT, f"what came is no readable wheel: {file.filename}"))


def _metadata_of(wheel: IO[bytes] | RemoteFile, filename: str) -> bytes:
    """The member ``<name>-<version>.dist-info/METADATA``. Raises what zipfile raises, KeyError where there is none."""
    with open_zip(wheel) as archive:
        info = archive.getinfo(_member(archive.namelist(), filename))
        if max(info.file_size, info.compress_size) > _MOST:
            raise ValueError("a METADATA of this length is none")
        if isinstance(wheel, RemoteFile):  # one request for the member, not one for each step of unpacking it
            wheel.fetch(info.header_offset, info.header_offset + _HEADER + len(info.filename) + info.compress_size)
        return read_member(archive, info, _MOST)


def _member(names: Sequence[str], filename: str) -> str:
    """Where METADATA stands: in the folder of the wheel's own name and version, else in the only one there is."""
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
    """A read did not give its bytes."""

    def __init__(self, failure: Failure) -> None:
        super().__init__()
        self.failure = failure


class RemoteFile(io.RawIOBase):
    """A file at one source, read in ranges; what came once is kept. All its bytes are of one version (If-Range)."""

    def __init__(self, url: RedactedUrl, reader: Reader, size: int | None = None) -> None:
        super().__init__()
        self._url = url
        self._reader = reader
        self._parts: dict[int, bytes] = {}
        self._at = 0
        self._validator: str | None = None
        self.size = size if size is not None else self._measure()
        self.fetch(max(0, self.size - TAIL), self.size)

    def _measure(self) -> int:
        """The size, by asking for the first byte: a server names it with any range (RFC 9110 14.4)."""
        return self._ask(0, 1).size

    def _ask(self, start: int, end: int) -> Part:
        part = self._reader.part(self._url, start, end, if_range=self._validator)
        if isinstance(part, Failure):
            raise _FailedError(part)
        self._validator = self._validator or part.validator
        return part

    def fetch(self, start: int, end: int) -> None:
        """Have bytes ``[start, end)``; what is not there yet comes as one range. Raises _FailedError, SourceError."""
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
            text = f"its file has {part.size} bytes, the index says {self.size}"
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
        """All that was asked for, down to the end of the file. Raises _FailedError, SourceError."""
        end = self.size if size is None or size < 0 else min(self.size, self._at + size)
        self.fetch(self._at, end)
        found = bytearray()
        while self._at < end:
            begin, data = next((b, d) for b, d in self._parts.items() if b <= self._at < b + len(d))
            piece = data[self._at - begin : end - begin]
            found += piece
            self._at += len(piece)
        return bytes(found)
