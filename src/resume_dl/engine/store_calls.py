"""Calls on a part file that run in a pool, and the event that each of them ends as."""

from __future__ import annotations

from resume_dl.core import events as ev
from resume_dl.engine.running import Running
from resume_dl.errors import LockedError
from resume_dl.ports import PartFile


def prepare(running: Running, *, journaled: bool) -> ev.Event:
    """Open the job's part file, with its lock. Raises what the store raises, except LockedError."""
    job = running.job
    try:
        part = job.store.open(job.artifact, journaled=journaled)
    except LockedError as error:
        return ev.LockBusy(error.owner)
    running.part = part
    if job.is_published():
        return ev.FoundPublished()
    resumed = part.resume()
    return ev.Prepared(resumed.ranges, resumed.size, resumed.validator, resumed.bound_source, resumed.owners)


def advance(part: PartFile, upto: int) -> ev.DigestAdvanced:
    """Hash up to byte ``upto``."""
    progress = part.advance_digest(upto)
    return ev.DigestAdvanced(progress.position, progress.damaged)


def check(running: Running, part: PartFile) -> ev.Event:
    """Hash what is left and compare with the artifact's digest."""
    expected = running.job.artifact.digest
    if expected is None:
        raise AssertionError("nothing to check against")
    advanced = advance(part, running.download.size or 0)
    if advanced.damaged:
        return advanced
    actual = part.digest()[expected.algorithm]
    return ev.DigestChecked(actual == expected.hex, expected.hex, actual)


def publish(running: Running, part: PartFile) -> ev.Event:
    """Give the verified file its name, once every record is in the journal."""
    running.recorded.wait()
    part.publish(running.job.destination)
    return ev.Published()
