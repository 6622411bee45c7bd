"""Commands run in the test's own process: a worker that outlives them, and a reporter that keeps what they say."""

from __future__ import annotations

from resume_dl.resolve.worker import RattlerWorker


class LastingWorker(RattlerWorker):
    """One process for all cells: what a command closes is left open."""

    def close(self) -> None:
        """Left to the module's end."""

    def release(self) -> None:
        """As ``close``."""

    def end(self) -> None:
        super().close()


class Heard:
    """A reporter that keeps its messages."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str, *, level: str = "info") -> None:
        del level
        self.lines.append(text)

    def plan(self, files: object, *, replaces: object = ()) -> None:
        pass

    def progress(self, progress: object) -> None:
        pass

    def event(self, kind: str, fields: object) -> None:
        pass

    def close(self) -> None:
        pass
