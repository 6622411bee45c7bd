"""Mirrors that have blocked us: skipped for a day, reported to the user, unblocked once they serve us again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from resume_dl.core.failures import FailureKind
from resume_dl.engine.job import Outcome
from resume_dl.errors import StoreError
from resume_dl.model.artifact import Source
from resume_dl.model.mirror import MirrorTable
from resume_dl.ports import Reporter
from resume_dl.settings.blocks import Block, blocks_file, read_blocks, write_blocks
from resume_dl.store.lock import FileLock

_LOCK_SECONDS = 2.0
"""Another run holds the lock for milliseconds; a suspended process that holds it must not delay us for long."""


class Blocks:
    """The blocks that one command knows, those of earlier runs and those that it meets.

    ``asked_for``: mirrors that the user named (``--mirror``). They are used in spite of a recorded block.
    """

    def __init__(
        self,
        state: Path,
        table: MirrorTable,
        *,
        asked_for: Iterable[str] = (),
        lasting: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = blocks_file(state)
        self._mirrors = frozenset(mirror.name for mirror in table.mirrors)
        self._asked_for = frozenset(asked_for)
        self._lasting = lasting
        self._clock = clock
        self._known = read_blocks(self._path, now=clock(), lasting=lasting)
        self._left_out: dict[str, Block] = {}
        self._told: set[str] = set()
        self._refusing: dict[str, str] = {}
        self._serving: set[str] = set()

    def allowed(self, sources: Sequence[Source]) -> tuple[Source, ...]:
        """Return ``sources`` without blocked mirrors; the next ``warn_left_out`` names these."""
        kept = []
        for source in sources:
            block = self._known.get(source.url.host)
            if block is None or source.mirror not in self._mirrors or source.mirror in self._asked_for:
                kept.append(source)
            else:
                self._left_out.setdefault(source.mirror, Block(source.mirror, block.host, block.since))
        return tuple(kept)

    def describe(self, block: Block) -> str:
        """Say since when and until when a mirror is blocked, and how to use it all the same."""
        until = moment(block.since + self._lasting)
        return f"since {moment(block.since)}; it is left out until {until}, --mirror {block.mirror} asks it again"

    def current(self) -> dict[str, str]:
        """Return ``describe`` of each block, by mirror."""
        return {block.mirror: self.describe(block) for block in self._known.values()}

    def warn_left_out(self, reporter: Reporter) -> None:
        """Name the mirrors that were left out, each once per command."""
        for name, block in self._left_out.items():
            if name not in self._told:
                self._told.add(name)
                reporter.message(f"the mirror {name} has blocked us {self.describe(block)}", level="warning")

    def left_out(self) -> tuple[str, ...]:
        """Return the mirrors that were left out so far."""
        return tuple(self._left_out)

    def record(self, outcomes: Iterable[Outcome]) -> None:
        """Note which sources served us and which blocked us."""
        for outcome in outcomes:
            hosts = {source.mirror: source.url.host for source in outcome.artifact.sources}
            if outcome.reason == "unchanged" and not outcome.sources:  # 304, from the first source
                self.note_served(outcome.artifact.sources[0].url.host)
            for report in outcome.sources:
                host = hosts.get(report.mirror, "")
                if report.bytes:
                    self.note_served(host)
                if FailureKind.BLOCKED.value in report.failures:
                    self.note_refused(report.mirror, host)

    def note_served(self, host: str) -> None:
        """Note that ``host`` (``host[:port]``) has served us."""
        self._serving.add(host)

    def note_refused(self, mirror: str, host: str) -> None:
        """Note that ``host`` of ``mirror`` has blocked us."""
        self._refusing[host] = mirror

    def save(self, reporter: Reporter) -> None:
        """Write new and lifted blocks to the state folder, and report new ones. Never raises if it is read-only."""
        refusing = {host: name for host, name in self._refusing.items() if host not in self._serving}
        is_network = len(refusing) > 1  # several at once: a firewall answers, not the mirrors
        new = {host: name for host, name in refusing.items() if name in self._mirrors and not is_network}
        served = self._serving & self._known.keys()
        if not new and not served:
            return
        with suppress(OSError, StoreError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lock = self._locked()
            try:
                now = self._clock()
                blocks = read_blocks(self._path, now=now, lasting=self._lasting)
                blocks = {host: block for host, block in blocks.items() if host not in served}
                blocks |= {host: Block(name, host, now) for host, name in new.items()}
                write_blocks(self._path, blocks)
            finally:
                lock.release()
            for host, name in new.items():
                text = f"the mirror {name} blocks us with a web page (status 403) {self.describe(blocks[host])}"
                reporter.message(text, level="warning")

    def _locked(self) -> FileLock:
        lock = FileLock(self._path.with_suffix(".lock"))
        lock.acquire_within(_LOCK_SECONDS)
        return lock


def moment(when: float) -> str:
    """Format a time (seconds since 1970) as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))
