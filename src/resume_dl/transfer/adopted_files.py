"""Take-over of files that another program has downloaded: a whole one is published, another becomes a part file.

The file is only read: it is copied, never linked or renamed, as its program may go on writing to it. Bytes are copied
into the part file of the package and recorded like those of a source, so that ``fetch`` goes on from them, and what is
wrong among them is found and fetched again as after any other source. A program that reserves the whole file first
leaves zeros where it has nothing yet: such pages are not copied, and compressed data has none.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from resume_dl import fs
from resume_dl.caches.conda.partial_adoption import believable, copy_into
from resume_dl.core.policy import DEFAULTS
from resume_dl.core.ranges import RangeSet
from resume_dl.core.responses import check_magic
from resume_dl.errors import ConfigurationError, IntegrityError, Interrupted, ResumeDLError, StoreError
from resume_dl.model.artifact import Artifact
from resume_dl.ports import PartFile
from resume_dl.store.journal_file import read_journal
from resume_dl.store.part import PartStore

PAGE = 4096
"""Bytes; a program that has reserved a file fills it in larger pieces."""
_ZEROS = bytes(PAGE)
_PIECE = 1 << 20
_HEAD = 64
_HINT = "resume-dl fetch downloads it"


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken of a file, in bytes; ``new`` of them are from this run."""

    bytes: int
    new: int


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Open a regular file that is not a link, for reading. Raises StoreError."""
    try:
        fd = fs.open_regular(path)
    except OSError as error:
        why = f"{path} cannot be read: {error.strerror or error}"
        raise StoreError(why, hint="check its permissions, or copy it first") from error
    try:
        yield fd
    finally:
        os.close(fd)


def file_label(fd: int, path: Path) -> str:
    """Return the name of the file as a source in the journal; another one once the file has changed."""
    found = os.fstat(fd)
    name = path.name.encode("utf-8", "backslashreplace").decode()  # of a folder's files some may be no UTF-8
    return f"{name} ({found.st_size} bytes, {found.st_mtime_ns})"


def artifact_of(fd: int, artifacts: Iterable[Artifact], cancelled: Callable[[], bool]) -> Artifact | None:
    """Return the first artifact of which the whole open file has size and digest. Raises Interrupted and OSError.

    The file is read once for each algorithm: a page without sizes may list thousands of wheels.
    """
    size = os.fstat(fd).st_size
    known: dict[str, str] = {}
    for artifact in artifacts:
        digest = artifact.digest
        if digest is None or artifact.size not in {None, size} or not size:
            continue
        if digest.algorithm not in known:
            running = hashlib.new(digest.algorithm, usedforsecurity=False)
            for _, data in _pieces(fd, cancelled):
                running.update(data)
            known[digest.algorithm] = running.hexdigest()
        if known[digest.algorithm] == digest.hex:
            return artifact
    return None


def take_whole(
    fd: int, artifact: Artifact, store: PartStore, goal: Path, *, label: str, cancelled: Callable[[], bool]
) -> None:
    """Copy a file that has the artifact's digest, verify the copy, and publish that as ``goal``.

    Its earlier part file is replaced. Raises IntegrityError if the file changes meanwhile, ConfigurationError if it is
    that part file, Interrupted, StoreError.
    """
    _check_not_ours(fd, artifact, store)
    part = store.open(artifact, journaled=True)
    try:
        if part.resume().ranges:
            part.discard()
        size, most = 0, os.fstat(fd).st_size
        for at, data in _pieces(fd, cancelled):
            if at + len(data) > most:  # its program goes on, perhaps for long
                break
            part.write(at, data)
            part.record_written(at, at + len(data), zlib.crc32(data), label)
            size = at + len(data)
        part.advance_digest(size)
        if artifact.digest is None or part.digest().get(artifact.digest.algorithm) != artifact.digest.hex:
            part.forget([(0, size)])
            raise IntegrityError(
                f"{artifact.filename} has changed while it was copied", hint="run the same command again later"
            )
        part.publish(goal)
    finally:
        part.close()


def take_start(
    fd: int, artifact: Artifact, store: PartStore | None, *, label: str, cancelled: Callable[[], bool]
) -> Taken:
    """Copy what a file has of the artifact into the gaps of its part file; ``store`` None: only look.

    Of a file of the artifact's size without a gap, which has another digest, only what its format's checksums prove is
    kept. Raises IntegrityError if nothing is of use, with the reason, ConfigurationError if it is that part file,
    Interrupted, and StoreError.
    """
    if (artifact.size or 0) < DEFAULTS.journal_from and artifact.size is not None:
        raise IntegrityError(f"an unfinished file of less than {DEFAULTS.journal_from:,} bytes is not kept", hint=_HINT)
    found = _ranges(fd, artifact, cancelled)
    total = sum(end - start for start, end in found)
    if store is None:
        return Taken(total, 0)
    _check_not_ours(fd, artifact, store)
    contents = read_journal(store.folder / f"{artifact.key}.journal")
    if contents is not None and label in contents.sources.values():
        return Taken(total, 0)  # bytes that were found wrong since must not be copied again
    part = store.open(artifact, journaled=True)
    try:
        ours = RangeSet(part.resume().ranges)
        gaps = [gap for start, end in found for gap in ours.gaps(start, end)]
        new = sum(copy_into(fd, part, start, end, cancelled, label=label) for start, end in gaps)
        part.record_durable(part.sync_data())
        if cancelled():
            raise _stopped()
        if found == [(0, artifact.size)]:
            new -= _forget_damage(part, gaps)
            total = ours.total + new
        return Taken(total, new)
    finally:
        part.close()


def _check_not_ours(fd: int, artifact: Artifact, store: PartStore) -> None:
    """Raise ConfigurationError for the artifact's own part file, which would be emptied before it is read."""
    try:
        found = (store.folder / f"{artifact.key}.part").lstat()
    except OSError:
        return
    if os.path.samestat(found, os.fstat(fd)):
        hint = "run resume-dl resume, or resume-dl fetch, which continue it"
        raise ConfigurationError("it is resume-dl's own unfinished download", hint=hint)


def _forget_damage(part: PartFile, copied: list[tuple[int, int]]) -> int:
    """Forget the bytes of a complete and wrong copy that nothing proves right; returns how many were ``copied``.

    Raises IntegrityError if its format proves nothing: to compare all of it with a mirror costs as much as to fetch it.
    """
    suspects = part.locate_damage()
    wrong = RangeSet(copied if suspects is None else suspects)
    part.forget(list(wrong))
    if suspects is None:
        raise IntegrityError("its digest is wrong, and nothing in it proves what is right", hint=_HINT)
    return sum(end - start for each in copied for start, end in wrong.within(*each))


def _ranges(fd: int, artifact: Artifact, cancelled: Callable[[], bool]) -> list[tuple[int, int]]:
    """Return what the file has of the artifact, as far as its form shows. Raises IntegrityError if that is nothing."""
    size = os.fstat(fd).st_size
    if artifact.size is not None and size > artifact.size:
        raise IntegrityError(f"it has {size:,} bytes, more than the {artifact.size:,} of the package", hint=_HINT)
    os.lseek(fd, 0, os.SEEK_SET)
    first = os.read(fd, _HEAD)
    failure = check_magic(artifact.filename, first) if any(first) else None
    if failure is not None:
        raise IntegrityError(f"its content is no {artifact.filename.rpartition('.')[2]} file", hint=_HINT)
    ranges = data_ranges(fd, cancelled)
    if len(ranges) == 1 and ranges[0][0] == 0 and ranges[0][1] != artifact.size:
        ranges = [(0, believable(fd, ranges[0][1], artifact))]
    if not sum(end - start for start, end in ranges):
        raise IntegrityError("it has no byte of the package yet", hint=_HINT)
    return ranges


def data_ranges(fd: int, cancelled: Callable[[], bool] = lambda: False) -> list[tuple[int, int]]:
    """Return the ranges of an open file between its pages of zeros, without zeros beside such a page."""
    found: list[tuple[int, int]] = []
    for at, data in _pieces(fd, cancelled):
        for start in range(0, len(data), PAGE):
            page = data[start : start + PAGE]
            if page == _ZEROS[: len(page)]:
                continue
            low = at + start
            if found and found[-1][1] == low:
                found[-1] = found[-1][0], low + len(page)
            else:
                found.append((low, low + len(page)))
    size = os.fstat(fd).st_size
    return [_trimmed(fd, start, end, size) for start, end in found]


def _trimmed(fd: int, start: int, end: int, size: int) -> tuple[int, int]:
    """Leave out zeros at the ends of a range of pages: the data may begin and end within a page."""
    if start:
        os.lseek(fd, start, os.SEEK_SET)
        first = os.read(fd, PAGE)
        start += len(first) - len(first.lstrip(b"\0"))
    if end < size:
        os.lseek(fd, end - PAGE, os.SEEK_SET)
        last = os.read(fd, PAGE)
        end -= len(last) - len(last.rstrip(b"\0"))
    return start, end


def _pieces(fd: int, cancelled: Callable[[], bool]) -> Iterator[tuple[int, bytes]]:
    """Return offset and bytes of each piece of the open file. Raises Interrupted and OSError."""
    os.lseek(fd, 0, os.SEEK_SET)
    at = 0
    while True:
        if cancelled():
            raise _stopped()
        data = _full_read(fd, _PIECE)
        if not data:
            return
        yield at, data
        at += len(data)


def _full_read(fd: int, count: int) -> bytes:
    parts = []
    while count and (data := os.read(fd, count)):
        parts.append(data)
        count -= len(data)
    return b"".join(parts)


def _stopped() -> ResumeDLError:
    return Interrupted("stopped", hint="run the same command again: what is on disk is kept")
