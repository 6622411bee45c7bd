"""The real engine, transport and store, with numbers so small that no test waits for real minutes."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from resume_dl.core.policy import Policy
from resume_dl.engine.clock import MonotonicClock
from resume_dl.engine.engine import Engine
from resume_dl.engine.job import Job, Outcome
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import ArtifactProgress, Clock, PlannedFile
from resume_dl.store.part import PartStore
from resume_dl.transport.client import HttpTransport

KIB, MIB = 1 << 10, 1 << 20
NAME = "a-1-0.conda"
DATA = b"PK\x03\x04" + random.Random(3).randbytes(3 * MIB - 4)

POLICY = Policy(
    piece_size=64 * KIB,
    small_file=256 * KIB,
    journal_from=64 * KIB,
    first_segment=256 * KIB,
    segment_seconds=0.1,
    sync_bytes=512 * KIB,
    sync_seconds=0.1,
    sync_least_seconds=0.0,
    stall_seconds=0.4,
    first_byte_seconds=0.8,
    first_byte_most=1.6,
    backoff_first=0.02,
    backoff_most=0.1,
    retry_after_most=0.2,
    give_up_after=1.5,
    unreached_give_up=0.6,
    lock_retry=0.05,
)


def artifact(*bases: str, data: bytes = DATA, name: str = NAME, digest: bool = True, sized: bool = True) -> Artifact:
    """``name`` at every base, in this order; the first base's URL is its canonical one."""
    return Artifact(
        kind="conda",
        filename=name,
        url=RedactedUrl(f"{bases[0]}/{name}"),
        size=len(data) if sized else None,
        sha256=hashlib.sha256(data).hexdigest() if digest else None,
        sources=tuple(Source(f"m{i}", RedactedUrl(f"{base}/{name}")) for i, base in enumerate(bases)),
    )


@dataclass
class Told:
    """A reporter that remembers."""

    states: list[ArtifactProgress] = field(default_factory=list)
    events: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def plan(self, files: Sequence[PlannedFile], *, replaces: Collection[str] = ()) -> None:
        return

    def progress(self, progress: ArtifactProgress) -> None:
        self.states.append(progress)

    def message(self, text: str, *, level: str = "info") -> None:
        return

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        self.events.append((kind, fields))

    def close(self) -> None:
        return


class Place:
    """A folder to download into; whatever gets a name in it is looked at the moment it is there."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.folder = folder
        self.clock = clock or MonotonicClock()
        self.told = Told()
        self.wrong: list[str] = []

    def job(self, what: Artifact, **options: Any) -> Job:
        return Job(what, PartStore(self.folder / ".resume-dl"), self.folder / what.filename, **options)

    def run(
        self,
        *what: Artifact,
        policy: Policy = POLICY,
        cancelled: Callable[[], bool] = lambda: False,
        limit_rate: float | None = None,
        tracer: Any = None,
        **changes: Any,
    ) -> list[Outcome]:
        """One run of the engine; afterwards its threads must be gone."""
        transport = HttpTransport(NetworkSettings(connect_timeout=60.0, first_byte_timeout=60.0, read_timeout=60.0))
        engine = Engine(
            transport,
            self.told,
            changed(policy, **changes) if changes else policy,
            cancelled=cancelled,
            clock=self.clock,
            limit_rate=limit_rate,
            tracer=tracer,
        )
        over = threading.Event()
        digests = {each.filename: each.sha256 for each in what}
        watcher = threading.Thread(target=self._watch, args=(digests, over))
        watcher.start()
        try:
            return engine.run([self.job(each) for each in what])
        finally:
            over.set()
            watcher.join()
            transport.close()
            assert self.wrong == []

    def _watch(self, digests: Mapping[str, str | None], over: threading.Event) -> None:
        seen: set[str] = set()
        while True:
            last = over.wait(0.002)
            for path in self.folder.iterdir():
                if path.is_file() and path.name not in seen:
                    seen.add(path.name)
                    expected = digests.get(path.name)
                    if expected is not None and hashlib.sha256(path.read_bytes()).hexdigest() != expected:
                        self.wrong.append(path.name)
            if last:
                return

    @property
    def left(self) -> list[str]:
        """Suffixes of what is unfinished."""
        return sorted(path.suffix for path in (self.folder / ".resume-dl").glob("*"))

    def content(self, name: str = NAME) -> bytes | None:
        path = self.folder / name
        return path.read_bytes() if path.exists() else None
