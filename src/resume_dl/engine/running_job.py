"""A job of the current run: its state machine, part file and connections."""

from __future__ import annotations

import threading
from dataclasses import replace

from resume_dl.core.actions import Fail
from resume_dl.core.download import Download
from resume_dl.engine.job import Job, Outcome, SourceReport
from resume_dl.engine.worker import Worker
from resume_dl.errors import ResumeDLError
from resume_dl.ports import PartFile


class RunningJob:
    """Used from the main thread; only ``part`` is set by the thread that opens it, before it posts its event.

    Threads that hash read ``stopped``.
    """

    def __init__(self, job: Job, download: Download) -> None:
        self.job = job
        self.download = download
        self.part: PartFile | None = None
        self.workers: dict[int, Worker] = {}
        self.recorded = threading.Event()
        """Set once the last requested durable record is in the journal or has failed."""
        self.recorded.set()
        self.stopped = False
        """Set when the core is told that the user has stopped the run; threads that hash look at it."""
        self.shown_at = float("-inf")
        self.shown_state = ""

    def outcome(self, status: str, fail: Fail | None, error: ResumeDLError | None) -> Outcome:
        """Make the job's outcome; ``fail`` and ``error`` are those of a failure."""
        download, artifact = self.download, self.job.artifact
        reports = tuple(
            SourceReport(source.mirror, download.kept_of(index), dict(state.failures), tuple(sorted(state.answered_by)))
            for index, (source, state) in enumerate(zip(artifact.sources, download.sources, strict=True))
            if state.received or state.failures
        )
        is_lost = fail is not None and not fail.resumable_bytes  # the next run cannot use what was received
        if fail is not None and fail.reason == "cancelled" and artifact.size is None and download.size is not None:
            artifact = replace(artifact, size=download.size)  # as learned from a source or the journal
        return Outcome(
            artifact,
            status,
            downloaded=0 if is_lost else download.kept,
            resumed=0 if is_lost else download.resumed,
            wasted=download.wasted + (download.kept if is_lost else 0),
            sources=reports,
            error=error,
            reason=fail.reason if fail else "",
            said=download.said,
            agreeing=tuple(artifact.sources[index].mirror for index in fail.agreeing) if fail else (),
        )
