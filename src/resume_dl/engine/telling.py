"""What people see of a run: states and counts, and which source failed."""

from __future__ import annotations

from resume_dl.core.actions import NoteFailure
from resume_dl.core.download import State
from resume_dl.engine.running import Running
from resume_dl.ports import ArtifactProgress, Reporter

SHOW_EVERY = 0.1
"""Seconds between two lines of one file in the same state."""

_SHOWN = {
    State.QUEUED: "waiting",
    State.PREPARING: "checking",
    State.LOCKED: "locked",
    State.TRANSFERRING: "downloading",
    State.VERIFYING: "verifying",
    State.LOCATING: "verifying",
    State.INQUIRING: "verifying",
    State.PUBLISHING: "verifying",
}


class Teller:
    """Tells a reporter of each job, no oftener than people can read."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def show(self, running: Running, now: float) -> None:
        """Where the job stands, if that is news."""
        download = running.download
        if download.over or download.state is State.QUEUED:
            return
        state = _SHOWN[download.state]
        if state == running.shown_state and now - running.shown_at < SHOW_EVERY:
            return
        running.shown_at, running.shown_state = now, state
        self.tell(running, state, f"waits for {download.lock_owner}" if download.state is State.LOCKED else "")

    def tell(self, running: Running, state: str, note: str = "") -> None:
        """Where the job stands; the last word when it is over."""
        artifact, download = running.job.artifact, running.download
        self._reporter.progress(
            ArtifactProgress(
                artifact.key, artifact.title, download.size, download.done.total, download.resumed, state, note
            )
        )

    def failure(self, running: Running, action: NoteFailure) -> None:
        """A source of the job has failed."""
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
