"""Notes of what a run begins, for ``status`` and ``clean``: taken before its first byte, forgotten when all is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from resume_dl.engine.job import Job
from resume_dl.model.url import scrub
from resume_dl.store.begun import Begun, BegunFile, BegunNotes
from resume_dl.store.part import PartStore


class Remember:
    """For one command, whose words are ``command``; secrets in them are not written. Does nothing without notes."""

    def __init__(self, notes: BegunNotes | None = None, command: Sequence[str] = ()) -> None:
        self._notes = notes
        self._command = tuple(scrub(word) for word in command)

    @contextmanager
    def during(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Note ``jobs`` while the block runs, and afterwards what is left of them."""
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
                continue  # an index is ours alone, in the cache, and --dry-run asks for it too: that leaves no trace
            file = BegunFile(job.artifact.title, str(job.artifact.url), job.artifact.size)
            by_folder.setdefault(job.store.folder.absolute(), {})[job.artifact.key] = file
        try:
            cwd = Path.cwd()
        except OSError:
            return []
        return [Begun(folder, self._command, cwd, files) for folder, files in by_folder.items()]
