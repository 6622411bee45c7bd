"""Artifacts, and part files written as the engine writes them."""

from __future__ import annotations

import hashlib
import random
import zlib
from pathlib import Path

from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.store.part import JournaledPart, PartStore

SIZE = 10_000
DATA = random.Random(7).randbytes(SIZE)


def artifact(data: bytes = DATA, *, size: int | None = -1, sha256: bool = True, md5: bool = False) -> Artifact:
    """One whose bytes are ``data``; ``size`` None where no record gave one."""
    return Artifact(
        kind="conda",
        filename="a-1-0.conda",
        url=RedactedUrl("https://example.org/a-1-0.conda"),
        size=len(data) if size == -1 else size,
        sha256=hashlib.sha256(data).hexdigest() if sha256 else None,
        md5=hashlib.md5(data).hexdigest() if md5 else None,
    )


def put(part: JournaledPart, start: int, end: int, source: str = "one", data: bytes = DATA) -> None:
    """Write a range and its record."""
    part.write(start, data[start:end])
    part.record_written(start, end, zlib.crc32(data[start:end]), source)


def settle(part: JournaledPart) -> None:
    """Make all so far durable."""
    part.record_durable(part.sync_data())


def crash(part: JournaledPart) -> None:
    """What the end of a process does to it: handles close, nothing else happens."""
    part._close_files()
    part._lock.release()


def reopen(folder: Path, what: Artifact | None = None) -> JournaledPart:
    return PartStore(folder).open(what or artifact(), journaled=True)


def resumed(folder: Path, what: Artifact | None = None) -> tuple[tuple[int, int], ...]:
    """What the next run believes; that run is killed at once."""
    part = reopen(folder, what)
    try:
        return tuple(sorted(part.resume().ranges))
    finally:
        crash(part)


def part_path(folder: Path, what: Artifact | None = None) -> Path:
    return folder / f"{(what or artifact()).key}.part"


def journal_path(folder: Path, what: Artifact | None = None) -> Path:
    return folder / f"{(what or artifact()).key}.journal"
