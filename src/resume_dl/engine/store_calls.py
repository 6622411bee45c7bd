"""Calls of a part file that run in a pool; each returns the event to be posted."""

from __future__ import annotations

from resume_dl.core import events as ev
from resume_dl.engine.running_job import RunningJob
from resume_dl.errors import LockedError
from resume_dl.ports import PartFile

AT_ONCE = 64 << 20
"""Bytes that are hashed between two looks at whether the run is stopped: some tenths of a second."""


def prepare(running: RunningJob, *, journaled: bool) -> ev.Event:
    """Lock and open the job's part file. Raises the store's errors, except LockedError."""
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


def advance(running: RunningJob, part: PartFile, upto: int) -> ev.DigestAdvanced:
    """Hash the part file up to byte ``upto``, or less far once the run is stopped."""
    position = 0
    while True:
        progress = part.advance_digest(min(upto, position + AT_ONCE))
        position = progress.position
        if progress.damaged or position >= upto or running.stopped:
            return ev.DigestAdvanced(position, progress.damaged)


def check(running: RunningJob, part: PartFile) -> ev.Event:
    """Hash the rest of the file and compare its digest with the artifact's."""
    expected = running.job.artifact.digest
    if expected is None:
        raise AssertionError("nothing to check against")
    size = running.download.size or 0
    advanced = advance(running, part, size)
    if advanced.damaged or advanced.position < size:
        return advanced
    actual = part.digest()[expected.algorithm]
    return ev.DigestChecked(actual == expected.hex, expected.hex, actual)


def publish(running: RunningJob, part: PartFile) -> ev.Event:
    """Publish the verified file, once every record is in the journal."""
    running.recorded.wait()
    part.publish(running.job.destination)
    return ev.Published()
