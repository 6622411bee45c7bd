"""What became of the files that ``adopt`` was given, and its JSON object (docs/interface.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resume_dl.errors import ResumeDLError
from resume_dl.model.artifact import Artifact
from resume_dl.transfer.report import RunResult, error_json


@dataclass(slots=True)
class AdoptedFile:
    """What became of one file.

    ``status``: ``adopted`` (the package is published), ``started`` (a download goes on from it), ``here`` (the package,
    or as much of it, was there before), ``planned`` (a dry run) or ``failed``.
    """

    path: Path
    status: str = "failed"
    artifact: Artifact | None = None
    bytes: int = 0
    """Bytes of the package that this file has, as far as it is known."""
    is_whole: bool = False
    error: ResumeDLError | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the object for ``files``."""
        return {
            "path": str(self.path),
            "status": self.status,
            "filename": None if self.artifact is None else self.artifact.filename,
            "size": None if self.artifact is None else self.artifact.size,
            "bytes": self.bytes,
            "whole": self.is_whole,
            "error": None if self.error is None else error_json(self.error),
        }


@dataclass(slots=True)
class AdoptResult(RunResult):
    """The result of ``adopt``; ``artifacts`` are the packages that were published."""

    files: list[AdoptedFile] = field(default_factory=list)

    @property
    def errors(self) -> list[ResumeDLError]:
        """The errors of the run and of its files, each once."""
        every = [self.error, *(each.error for each in self.artifacts), *(each.error for each in self.files)]
        return list({id(error): error for error in every if error is not None}.values())

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints."""
        return {**RunResult.as_json(self), "files": [each.as_json() for each in self.files]}

    def adopted(self) -> set[str]:
        """Return the keys of the artifacts of which one of the files is all."""
        return {each.artifact.key for each in self.files if each.status == "adopted" and each.artifact is not None}

    def unfinished(self) -> list[Artifact]:
        """Return what a download goes on from, each once; a start beside a whole file becomes ``here``."""
        whole, begun = self.adopted(), dict[str, Artifact]()
        for each in self.files:
            if each.status == "started" and each.artifact is not None:
                if each.artifact.key in whole:
                    each.status = "here"
                else:
                    begun[each.artifact.key] = each.artifact
        return list(begun.values())
