"""Commands run in the test's own process: a worker that outlives them, and a reporter that keeps what they say."""

from __future__ import annotations

from types import TracebackType

from resume_dl.resolve.worker import RattlerWorker


class LastingWorker(RattlerWorker):
    """One process for all cells: what a command closes is left open."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Left to the module's end."""

    def end(self) -> None:
        super().__exit__(None, None, None)


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
