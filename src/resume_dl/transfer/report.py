"""The results of a run, and their JSON object (docs/interface.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resume_dl.engine.job import Outcome, SourceReport
from resume_dl.errors import Interrupted, ResumeDLError, worst_exit_code
from resume_dl.model.artifact import Artifact
from resume_dl.shell_commands import Shell, Step, command_line, native_shell
from resume_dl.transfer.plan import Planned

if TYPE_CHECKING:  # one plain download resolves nothing
    from resume_dl.model.index_report import IndexReport
    from resume_dl.model.pip import PipSolution
    from resume_dl.resolve.request import Solution


@dataclass(slots=True)
class ArtifactResult:
    """The result for one artifact. Counts in bytes; docs/interface.md defines them and the values of ``status``.

    ``left-out``: not downloaded, because the target machine has it.
    """

    artifact: Artifact
    status: str
    path: Path | None = None
    downloaded: int = 0
    resumed: int = 0
    wasted: int = 0
    sources: tuple[SourceReport, ...] = ()
    error: ResumeDLError | None = None
    reason: str = ""
    """Why it failed (``Outcome.reason``)."""
    held_by: str = ""
    """How a wheel without a published digest was verified: ``record`` (its own RECORD; its hash was first seen in
    this run) or ``pin`` (the hash first seen in an earlier one)."""

    is_still_packed: bool = False
    """Whether its archive is complete, verified and kept, and the next run has only to unpack it."""

    @classmethod
    def of(cls, outcome: Outcome, path: Path) -> ArtifactResult:
        """Make the result of an engine's job; ``path`` is where the file is after a success."""
        return cls(
            outcome.artifact,
            outcome.status,
            path if outcome.error is None else None,
            downloaded=outcome.downloaded,
            resumed=outcome.resumed,
            wasted=outcome.wasted,
            sources=outcome.sources,
            error=outcome.error,
            reason=outcome.reason,
        )

    @classmethod
    def of_plan(cls, planned: Planned) -> ArtifactResult:
        """Make the result of a dry run."""
        return cls(planned.artifact, "cached" if planned.state == "cached" else "planned", planned.path)

    @property
    def outcome(self) -> str:
        """``status``; ``stopped`` for a file that is unfinished only because the run was stopped."""
        return "stopped" if isinstance(self.error, Interrupted) else self.status

    @property
    def verified_by(self) -> str | None:
        """``digest``, ``record`` or ``pin``; None if nothing was verified."""
        if not self.is_still_packed and (self.error is not None or self.status in {"planned", "failed"}):
            return None
        return self.held_by or (None if self.artifact.digest is None else "digest")

    def as_json(self) -> dict[str, Any]:
        """Return the object for ``artifacts``."""
        artifact = self.artifact
        return {
            "name": artifact.name,
            "version": artifact.version,
            "build": artifact.build,
            "subdir": artifact.subdir,
            "channel": artifact.channel,
            "kind": artifact.kind,
            "filename": artifact.filename,
            "url": str(artifact.url),
            "size": artifact.size,
            "sha256": artifact.sha256,
            "md5": artifact.md5,
            "path": None if self.path is None else str(self.path),
            "status": self.outcome,
            "verified_by": self.verified_by,
            "sources": [
                {
                    "mirror": source.mirror,
                    "bytes": source.bytes,
                    "failures": [kind for kind, count in source.failures.items() for _ in range(count)],
                }
                for source in self.sources
            ],
            "error": None if self.error is None else error_json(self.error),
        }


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a request was resolved to, by platform."""

    conda: tuple[tuple[str, Solution], ...] = ()
    """Platforms and their solutions."""
    explicit: tuple[Artifact, ...] = ()
    """Artifacts of explicit lists, in their order."""
    pip: tuple[PipSolution, ...] = ()


@dataclass(slots=True)
class RunResult:
    """The result of a run."""

    command: str
    artifacts: list[ArtifactResult] = field(default_factory=list)
    elapsed: float = 0.0
    transfer_seconds: float = 0.0
    """The part of ``elapsed`` in which files were downloaded; speeds are computed from it."""
    error: ResumeDLError | None = None
    notes: tuple[str, ...] = ()
    next_steps: tuple[Step, ...] = ()
    """The commands of conda and pip that use exactly these files."""
    resolved: Resolved = field(default_factory=Resolved)
    index_bytes: int = 0
    """Body bytes of the downloaded channel indexes."""
    indexes: tuple[IndexReport, ...] = ()
    """The channel indexes that were used, and why each is trusted."""

    @property
    def exit_code(self) -> int:
        """The most severe exit code of all errors, by the order of docs/interface.md."""
        return worst_exit_code([error.exit_code for error in self.errors])

    @property
    def errors(self) -> list[ResumeDLError]:
        """The error of the run and those of its files."""
        errors: Sequence[ResumeDLError | None] = [self.error, *(result.error for result in self.artifacts)]
        return [error for error in errors if error is not None]

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        code = self.exit_code
        return {
            "schema": 1,
            "command": self.command,
            "ok": code == 0,
            "exit_code": code,
            "elapsed": round(self.elapsed, 3),
            "error": None if self.error is None else error_json(self.error),
            "totals": {
                "artifacts": len(self.artifacts),
                "bytes": sum(result.artifact.size or 0 for result in self.artifacts),
                "downloaded": sum(result.downloaded for result in self.artifacts),
                "resumed": sum(result.resumed for result in self.artifacts),
                "cached": sum(result.artifact.size or 0 for result in self.artifacts if result.status == "cached"),
                "wasted": sum(result.wasted for result in self.artifacts),
            },
            "artifacts": [result.as_json() for result in self.artifacts],
            "indexes": [index.as_json() for index in self.indexes],
            "notes": list(self.notes),
            "next_command": command_line(self.next_steps, native_shell()),
            "next_command_powershell": command_line(self.next_steps, Shell.POWERSHELL),
            "index_bytes": self.index_bytes,
        }


def error_json(error: ResumeDLError) -> dict[str, Any]:
    """Return the JSON object of an error (docs/interface.md)."""
    return {
        "type": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "retryable": error.retryable,
        "resumable_bytes": error.resumable_bytes,
    }
