"""Messages without progress."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from resume_dl.ports import ArtifactProgress, PlannedFile
from resume_dl.progress.console import Console, labelled


class NoneReporter:
    """A ``ports.Reporter`` that shows only messages."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def plan(self, files: Sequence[PlannedFile], *, replaces: Collection[str] = ()) -> None:
        """Not shown."""

    def progress(self, progress: ArtifactProgress) -> None:
        """Not shown."""

    def message(self, text: str, *, level: str = "info") -> None:
        """Print a line, if its level is shown."""
        if self._console.shows(level):
            self._console.line(labelled(text, level))

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Ignore events, which are for programs."""

    def close(self) -> None:
        """Do nothing: nothing is open."""
