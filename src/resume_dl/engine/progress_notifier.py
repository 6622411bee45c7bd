"""What people see of a run: states and counts, and which source failed."""

from __future__ import annotations

from resume_dl.core.actions import NoteFailure
from resume_dl.core.transitions import State
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
    State.COMPARING: "verifying",
    State.PUBLISHING: "verifying",
}


class ProgressNotifier:
    """Reports the progress of each job, at most as often as people can read."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def show(self, running: Running, now: float) -> None:
        """Where the job stands, if that is news."""
        download = running.download
        if download.over or download.state is State.QUEUED:
            return
        state = _SHOWN[download.state]
        if download.state is State.TRANSFERRING and not running.workers and not download.kept:
            state = "waiting"  # for a connection: others have them all
        if state == running.shown_state and now - running.shown_at < SHOW_EVERY:
            return
        running.shown_at, running.shown_state = now, state
        self.tell(running, state, f"waits for {download.lock_owner}" if download.state is State.LOCKED else "")

    def tell(self, running: Running, state: str, note: str = "") -> None:
        """Where the job stands."""
        download = running.download
        self._tell(running, download.done.total, download.resumed, state, note)

    def ended(self, running: Running, status: str, *, safe: int | None, note: str = "") -> None:
        """How the job ended; ``safe``: of a download that came to nothing, the bytes that a later run will have."""
        download = running.download
        done, resumed = download.done.total, download.resumed
        if status == "cached":  # another process has brought all of it
            done = resumed = download.size or 0
        elif safe is not None:
            done = safe
            resumed = min(resumed, safe)
        self._tell(running, done, resumed, status, note)

    def _tell(self, running: Running, done: int, resumed: int, state: str, note: str) -> None:
        artifact, size = running.job.artifact, running.download.size
        index = artifact.channel if artifact.kind == "index" else ""
        self._reporter.progress(ArtifactProgress(artifact.key, artifact.title, size, done, resumed, state, note, index))

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
