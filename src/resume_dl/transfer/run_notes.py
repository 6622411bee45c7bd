"""Notes of unfinished downloads, for ``status`` and ``clean``: written before the first byte, removed at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from resume_dl.engine.job import Job
from resume_dl.model.url import scrub
from resume_dl.store.part import PartStore
from resume_dl.store.unfinished_runs import UnfinishedFile, UnfinishedNotes, UnfinishedRun


class RunNotes:
    """Notes the downloads of one command, given as its words, without secrets. Does nothing without ``notes``.

    ``environment``: the active one, by ``environment_of``.
    """

    def __init__(
        self, notes: UnfinishedNotes | None = None, command: Sequence[str] = (), *, environment: str = ""
    ) -> None:
        self._notes = notes
        self._environment = environment
        self._command = tuple(scrub(word) for word in command)

    @contextmanager
    def during(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Note ``jobs`` while the block runs; at its end keep only the notes of unfinished ones."""
        runs = [] if self._notes is None else self._runs_of(jobs)
        for each in runs:
            self._add(each)
        try:
            yield
        finally:
            for each in runs:
                self._remove_if_done(each)

    def _add(self, run: UnfinishedRun) -> None:
        if self._notes is not None:
            self._notes.add(run)

    def _remove_if_done(self, run: UnfinishedRun) -> None:
        if self._notes is not None:
            self._notes.remove_if_done(run)

    def _runs_of(self, jobs: Sequence[Job]) -> list[UnfinishedRun]:
        by_folder: dict[Path, dict[str, UnfinishedFile]] = {}
        for job in jobs:
            if not isinstance(job.store, PartStore) or job.artifact.kind == "index":
                continue  # --dry-run fetches indexes too, and must leave nothing behind
            file = UnfinishedFile(job.artifact.title, str(job.artifact.url), job.artifact.size)
            by_folder.setdefault(job.store.folder.absolute(), {})[job.artifact.key] = file
        try:
            cwd = Path.cwd()
        except OSError:
            return []
        return [
            UnfinishedRun(folder, self._command, cwd, files, self._environment) for folder, files in by_folder.items()
        ]
