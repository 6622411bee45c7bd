"""Reports of a run's progress: states, counts, and failures of sources."""

from __future__ import annotations

from resume_dl.core.actions import NoteFailure
from resume_dl.core.transitions import State
from resume_dl.engine.running_job import RunningJob
from resume_dl.ports import ArtifactProgress, Reporter

SHOW_EVERY = 0.1
"""Seconds between two reports of one file in the same state."""

_SHOWN = {
    State.QUEUED: "waiting",
    State.PREPARING: "checking",
    State.LOCKED: "locked",
    State.TRANSFERRING: "downloading",
    State.VERIFYING: "verifying",
    State.LOCATING: "verifying",
    State.COMPARING: "verifying",
    State.PUBLISHING: "verifying",
}


class ProgressNotifier:
    """Reports the progress of each job, at a limited rate."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def show(self, running: RunningJob, now: float) -> None:
        """Report the job's progress, if its state has changed or the last report is old enough."""
        download = running.download
        if download.over or download.state is State.QUEUED:
            return
        state = _SHOWN[download.state]
        if download.state is State.TRANSFERRING and not running.workers and not download.kept:
            state = "waiting"  # for a connection: other files use all of them
        if state == running.shown_state and now - running.shown_at < SHOW_EVERY:
            return
        running.shown_at, running.shown_state = now, state
        note = f"waits for {download.lock_owner}" if download.state is State.LOCKED else ""
        self._report(running, download.done.total, download.resumed, state, note)

    def ended(self, running: RunningJob, status: str, *, safe: int | None, note: str = "") -> None:
        """Report how the job ended; ``safe``: after a failure, the bytes that a later run can resume from."""
        download = running.download
        done, resumed = download.done.total, download.resumed
        if status == "cached":  # another process has downloaded all of it
            done = resumed = download.size or 0
        elif safe is not None:
            done = safe
            resumed = min(resumed, safe)
        self._report(running, done, resumed, status, note)

    def _report(self, running: RunningJob, done: int, resumed: int, state: str, note: str) -> None:
        artifact, size = running.job.artifact, running.download.size
        index = artifact.channel if artifact.kind == "index" else ""
        self._reporter.progress(ArtifactProgress(artifact.key, artifact.title, size, done, resumed, state, note, index))

    def failure(self, running: RunningJob, action: NoteFailure) -> None:
        """Report that a source of the job has failed."""
        artifact = running.job.artifact
        mirror = artifact.sources[action.source].mirror
        self._reporter.message(f"{artifact.title}: {mirror} {action.failure.message}", level="debug")
        self._reporter.event(
            "source_failed",
            {
                "filename": artifact.filename,
                "mirror": mirror,
                "kind": action.failure.kind.value,
                "message": action.failure.message,
            },
        )
