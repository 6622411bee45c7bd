"""Progress as one JSON object a line, for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from resume_dl.ports import ArtifactProgress, PlannedFile
from resume_dl.progress.console import Console, presentable
from resume_dl.progress.indexes import IndexTally
from resume_dl.progress.tally import Tally


class JsonReporter:
    """A ``ports.Reporter`` with events: ``plan``, ``progress``, ``message``, and those of ``event``.

    Each object has ``event`` (its kind) and ``elapsed`` (seconds since the reporter was made); all characters are
    ASCII, so that no encoding can break a line. Values that JSON does not support become their ``str``.
    """

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._started = clock()
        self._tally = Tally()
        self._indexes = IndexTally()

    def plan(self, files: Sequence[PlannedFile], *, replaces: Collection[str] = ()) -> None:
        """Emit all files with their sizes, in bytes."""
        self._tally.plan(files, replaces)
        artifacts = [
            {
                "key": file.artifact.key,
                "filename": file.artifact.filename,
                "size": file.artifact.size,
                "kind": file.artifact.kind,
                "here": file.here,
                "whole": file.whole,
            }
            for file in files
        ]
        sizes = {
            "total_bytes": sum(file.artifact.size or 0 for file in files),
            "cached_bytes": sum(file.here for file in files),
        }
        self._emit("plan", {"artifacts": artifacts, **sizes, "replaces": sorted(replaces), "run": self._run()})

    def progress(self, progress: ArtifactProgress) -> None:
        """Emit one file's state and counts, and the run's; for an index, those of all indexes."""
        self._tally.add(progress)
        self._indexes.add(progress)
        self._emit(
            "progress",
            {
                "key": progress.key,
                "filename": progress.filename,
                "size": progress.size,
                "done": progress.done,
                "resumed": progress.resumed,
                "state": progress.state,
                "note": progress.note,
                "run": self._run(),
                "index": self._index() if progress.index else None,
            },
        )

    def message(self, text: str, *, level: str = "info") -> None:
        """Emit a message, if its level is shown."""
        if self._console.shows(level):
            self._emit("message", {"level": level, "text": text})

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Emit any other event; ``fields`` cannot replace its kind and time."""
        self._emit(kind, fields)

    def close(self) -> None:
        """Do nothing: every line is complete."""

    def _run(self) -> dict[str, int] | None:
        tally = self._tally
        if not tally.planned:
            return None
        whole, files = tally.files
        counts = {"files": files, "files_done": whole, "files_of_unknown_size": tally.unsized}
        return {**counts, "total": tally.total, "done": tally.done, "fetched": tally.fetched}

    def _index(self) -> dict[str, Any]:
        indexes = self._indexes
        return {"channels": indexes.channels, "done": indexes.done, "total": indexes.total}

    def _emit(self, kind: str, fields: Mapping[str, Any]) -> None:
        record: dict[str, Any] = {"event": kind, "elapsed": round(self._clock() - self._started, 3)}
        record.update((name, value) for name, value in _shown(fields).items() if name not in record)
        self._console.write(json.dumps(record, ensure_ascii=True) + "\n")
        self._console.flush()


def _shown(value: Any) -> Any:
    """``value`` as JSON values, with presentable texts."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {presentable(str(name)): _shown(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_shown(one) for one in value]
    return presentable(str(value))
