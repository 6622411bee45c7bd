"""The worker of Mode.WRITE: writes and records bytes as they arrive."""

from __future__ import annotations

from collections import deque
from typing import Any

from resume_dl.core.actions import OpenRange
from resume_dl.core.events import BytesWritten
from resume_dl.core.scheduling.leases import NO_END
from resume_dl.engine.recorder import Recorder
from resume_dl.engine.worker import Worker


class Writer(Worker):
    """Writes what it receives; ``label`` names the source in the journal. Other arguments: see ``Worker``."""

    def __init__(self, order: OpenRange, *, label: str, **more: Any) -> None:
        super().__init__(order, **more)
        self._recorder = Recorder(self._part, label)
        self._gaps = deque((start, NO_END if stop is None else stop) for start, stop in order.gaps)
        """The ranges still to come that may be written, in order."""

    @property
    def _position(self) -> int:
        return self._at

    def _take(self, data: bytes | memoryview, start: int, end: int) -> None:
        gaps = self._gaps
        while gaps and gaps[0][1] <= start:
            gaps.popleft()
        if not gaps:
            return
        first, last = gaps[0]
        if first <= start and end <= last:
            self._recorder.put(start, end, data)
            return
        view = memoryview(data)
        for first, last in gaps:
            if first >= end:
                break
            lo, hi = max(first, start), min(last, end)
            self._recorder.put(lo, hi, view[lo - start : hi - start])

    def _report(self) -> BytesWritten:
        return BytesWritten(self._id, self._at, self._received)

    def _end_body(self) -> None:
        self._recorder.flush()
