"""No progress at all; messages still come."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from resume_dl.ports import ArtifactProgress, PlannedFile
from resume_dl.progress.console import Console, labelled


class NoneReporter:
    """``ports.Reporter`` that shows messages only."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def plan(self, files: Sequence[PlannedFile], *, replaces: Collection[str] = ()) -> None:
        """Not shown."""

    def progress(self, progress: ArtifactProgress) -> None:
        """Not shown."""

    def message(self, text: str, *, level: str = "info") -> None:
        """A line, if its level is wanted."""
        if self._console.shows(level):
            self._console.line(labelled(text, level))

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """For programs; not shown."""

    def close(self) -> None:
        """Nothing stays open."""
