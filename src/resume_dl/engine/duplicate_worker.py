"""The worker of Mode.HOLD, an end-game duplicate: its bytes stay in memory until it has won or lost."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

from resume_dl.core.actions import OpenRange
from resume_dl.core.events import BytesReceived, RangeHeld
from resume_dl.engine.recorder import Recorder
from resume_dl.engine.worker import Worker


class DuplicateWorker(Worker):
    """Holds at most the bytes of its order in memory; ``label`` names the source in the journal."""

    def __init__(self, order: OpenRange, *, label: str, **more: Any) -> None:
        super().__init__(order, **more)
        self._recorder = Recorder(self._part, label)
        self._held: list[bytes | memoryview] = []
        self._written = order.start
        self._verdict: SimpleQueue[tuple[tuple[int, int], ...] | None] = SimpleQueue()

    def write(self, gaps: tuple[tuple[int, int], ...]) -> None:
        """Write the held bytes that are in ``gaps``, because this duplicate has won. Called by the main thread."""
        self._verdict.put(gaps)

    def shut(self) -> None:
        """Stop as ``Worker.shut`` does, and drop the held bytes."""
        super().shut()
        self._verdict.put(None)

    @property
    def _position(self) -> int:
        return self._written

    def _take(self, data: bytes | memoryview, start: int, end: int) -> None:
        del start, end  # the pieces come in order
        self._held.append(data)

    def _report(self) -> BytesReceived:
        return BytesReceived(self._id, self._received)

    def _end_body(self) -> None:
        """Do nothing: no byte is written yet."""

    def _finish(self) -> None:
        self._post(RangeHeld(self._id, self._received))
        gaps = self._verdict.get()
        if gaps is None:
            return
        try:
            for piece in self._held:
                with self._fence:
                    if self._closed.is_set():
                        return
                    self._write(piece, gaps)
        finally:
            with self._fence:
                self._recorder.flush()

    def _write(self, piece: bytes | memoryview, gaps: tuple[tuple[int, int], ...]) -> None:
        start, end = self._written, self._written + len(piece)
        view = memoryview(piece)
        for first, last in gaps:
            lo, hi = max(first, start), min(last, end)
            if lo < hi:
                self._recorder.put(lo, hi, view[lo - start : hi - start])
        self._written = end
