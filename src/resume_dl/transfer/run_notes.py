"""Notes of unfinished downloads, for ``status`` and ``clean``: written before the first byte, removed at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from resume_dl.engine.job import Job
from resume_dl.model.url import scrub
from resume_dl.store.begun import Begun, BegunFile, BegunNotes
from resume_dl.store.part import PartStore


class RunNotes:
    """Notes the downloads of one command, given as its words, without secrets. Does nothing without ``notes``."""

    def __init__(self, notes: BegunNotes | None = None, command: Sequence[str] = ()) -> None:
        self._notes = notes
        self._command = tuple(scrub(word) for word in command)

    @contextmanager
    def during(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Note ``jobs`` while the block runs; at its end keep only the notes of unfinished ones."""
        begun = [] if self._notes is None else self._begun(jobs)
        for each in begun:
            self._add(each)
        try:
            yield
        finally:
            for each in begun:
                self._settle(each)

    def _add(self, begun: Begun) -> None:
        if self._notes is not None:
            self._notes.add(begun)

    def _settle(self, begun: Begun) -> None:
        if self._notes is not None:
            self._notes.settle(begun)

    def _begun(self, jobs: Sequence[Job]) -> list[Begun]:
        by_folder: dict[Path, dict[str, BegunFile]] = {}
        for job in jobs:
            if not isinstance(job.store, PartStore) or job.artifact.kind == "index":
                continue  # --dry-run fetches indexes too, and must leave nothing behind
            file = BegunFile(job.artifact.title, str(job.artifact.url), job.artifact.size)
            by_folder.setdefault(job.store.folder.absolute(), {})[job.artifact.key] = file
        try:
            cwd = Path.cwd()
        except OSError:
            return []
        return [Begun(folder, self._command, cwd, files) for folder, files in by_folder.items()]
