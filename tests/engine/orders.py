"""In place of the core: gives connections their orders one by one, and hears what they say."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from engine.running import KIB, artifact
from resume_dl.core.actions import Mode, OpenRange
from resume_dl.core.events import Event
from resume_dl.engine.clock import MonotonicClock
from resume_dl.engine.comparer import Comparer
from resume_dl.engine.duplicate_worker import DuplicateWorker
from resume_dl.engine.worker import Worker
from resume_dl.engine.writer import Writer
from resume_dl.model.network import NetworkSettings
from resume_dl.store import journal as jn
from resume_dl.store.part import PartStore
from resume_dl.transport.client import HttpTransport

E = TypeVar("E")


class Orders:
    """One part file, one transport, and the events of every connection that was opened."""

    def __init__(self, folder: Path, base: str) -> None:
        self.what = artifact(base)
        self.size = self.what.size
        self.label = str(self.what.sources[0].url)
        self.part = PartStore(folder / ".resume-dl").open(self.what, journaled=True)
        self.part.resume()
        self._transport = HttpTransport(
            NetworkSettings(connect_timeout=30.0, first_byte_timeout=30.0, read_timeout=30.0)
        )
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._workers: list[Worker] = []

    def open(
        self,
        start: int,
        end: int | None,
        mode: Mode = Mode.WRITE,
        gaps: Any = None,
        *,
        whole: bool = False,
        block: int = 128 * KIB,
    ) -> Any:
        """A connection at work."""
        number = len(self._workers)
        order = OpenRange(
            number, 0, start, end, ((start, end),) if gaps is None else gaps, whole, self.size, None, mode
        )
        more: dict[str, Any] = {
            "source": self.what.sources[0],
            "filename": self.what.filename,
            "part": self.part,
            "transport": self._transport,
            "post": self._events.put,
            "clock": MonotonicClock(),
        }
        if mode is Mode.COMPARE:
            worker: Worker = Comparer(order, block=block, **more)
        else:
            worker = (DuplicateWorker if mode is Mode.HOLD else Writer)(order, label=self.label, **more)
        self._workers.append(worker)
        self._threads.append(threading.Thread(target=worker.run, daemon=True))
        self._threads[-1].start()
        return worker

    def hear(self) -> Event:
        """The next event."""
        return self._events.get(timeout=60)

    def hear_until(self, kind: type[E]) -> tuple[E, list[Event]]:
        """The next event of this kind, and all that were said before it."""
        before = []
        while not isinstance(event := self.hear(), kind):
            before.append(event)
        return event, before

    def silent(self) -> bool:
        """Whether nothing was said until now."""
        return self._events.empty()

    def on_disk(self, start: int, end: int) -> bytes:
        return self.part.read(start, end - start)

    @property
    def written(self) -> list[jn.Written]:
        """The journal's records, in order of their bytes."""
        return sorted(jn.read(self.part._journal_path.read_bytes()).written, key=lambda w: w.start)

    @property
    def recorded(self) -> list[tuple[int, int, str]]:
        """What the journal says was written, joined, and by whom."""
        names = jn.read(self.part._journal_path.read_bytes()).sources
        found: list[tuple[int, int, str]] = []
        for each in self.written:
            name = names[each.source]
            if found and found[-1][1] == each.start and found[-1][2] == name:
                found[-1] = (found[-1][0], each.end, name)
            else:
                found.append((each.start, each.end, name))
        return found

    def close(self) -> None:
        """Stop what is at work; every thread has ended afterwards."""
        for worker in self._workers:
            worker.shut()
        for thread in self._threads:
            thread.join(timeout=60)
            assert not thread.is_alive()
        self.part.close()
        self._transport.close()


def until(true: Callable[[], bool]) -> None:
    """Wait until something has become true."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)
