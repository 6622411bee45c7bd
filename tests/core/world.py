"""An engine made of numbers: plays disk, servers and clock for a ``Session`` and holds it to the seven invariants."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.budget import Budget
from resume_dl.core.download import Download, State
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import Policy
from resume_dl.core.session import Session
from resume_dl.core.sources import SourceState

SMALL = Policy(
    connections=4,
    per_host=2,
    files_in_flight=3,
    piece_size=4,
    small_file=24,
    journal_from=8,
    first_segment=8,
    window=20,
    sync_bytes=6,
    segment_seconds=2.0,
)
"""The real policy in bytes instead of megabytes, so that a whole disk is a few dozen entries."""


@dataclass
class Server:
    """One source as it really is. ``length`` is of its own copy; ``version`` changes when somebody replaces it."""

    host: str
    honest: bool = True
    length: int = 0
    version: int = 0
    has_validator: bool = True
    says_length: bool = True

    @property
    def validator(self) -> str | None:
        """What ResponseStarted and If-Range carry."""
        return f'"{self.version}"' if self.has_validator else None


Byte = tuple[int, int, bool]
"""Who wrote it: the source, its version, and whether it is the true byte."""


@dataclass
class Wire:
    """One connection: ``written`` is where the disk is, which may be more than the core has heard of."""

    order: act.OpenRange
    lease: set[int]
    version: int
    written: int
    end: int
    answered: bool = False
    closing: bool = False


@dataclass
class File:
    """One download's disk and what the engine still owes it."""

    download: Download
    servers: list[Server]
    digest: bool
    length: int
    disk: dict[int, Byte] = field(default_factory=dict)
    believed: set[int] = field(default_factory=set)
    wires: dict[int, Wire] = field(default_factory=dict)
    owed: set[str] = field(default_factory=set)
    prepared: bool = False
    verified: bool = False
    mark: int = 0
    marks: set[int] = field(default_factory=set)
    end: act.Finish | act.Fail | None = None

    @property
    def true(self) -> bool:
        """Whether the disk holds the file and nothing else."""
        size = self.download.size
        return size == self.length and all(self.disk.get(at, (0, 0, False))[2] for at in range(self.length))


class World:
    """Drives one session; every method that tells the core something checks every invariant afterwards."""

    def __init__(self, policy: Policy = SMALL, jitter: float = 0.5) -> None:
        self.policy = policy
        self.session = Session(policy)
        self.budget = Budget(policy)
        self.jitter = jitter
        self.now = 100.0
        self.files: dict[str, File] = {}
        self.log: list[tuple[str, act.Action]] = []

    def add(self, length: int, servers: Iterable[Server], *, stated: bool = True, digest: bool = True) -> str:
        """Give the session one more file; servers without a length of their own have all of it."""
        key = f"file{len(self.files)}"
        places = list(servers)
        for place in places:
            place.length = place.length or length
        sources = [SourceState(f"https://{s.host}/{i}", s.host) for i, s in enumerate(places)]
        download = Download(
            size=length if stated else None,
            sources=sources,
            budget=self.budget,
            policy=self.policy,
            jitter=lambda: self.jitter,
            bound_by_digest=digest,
        )
        self.files[key] = File(download, places, digest, length)
        self.session.add(key, download)
        return key

    def start(self) -> None:
        """Let the session begin."""
        self._perform(self.session.fill(self.now))

    # ------------------------------------------------------------------ what the engine can say

    def tell(self, key: str | None, event: ev.Event) -> None:
        """Hand an event to the session and carry out what it says."""
        self._perform(self.session.handle(key, event, self.now))

    def prepare(self, key: str, resumed: ev.Prepared | None = None) -> None:
        """The lock is taken; ``resumed`` is the journal of an earlier run."""
        file = self.files[key]
        file.owed.remove("prepare")
        file.prepared = True
        event = resumed or ev.Prepared(size=file.download.size)
        file.believed = {at for start, end in event.ranges for at in range(start, end)}
        # an unusable journal is discarded before anything else, which the actions show
        self.tell(key, event)

    def lock_busy(self, key: str) -> None:
        """Another process has the file."""
        self.files[key].owed.remove("prepare")
        self.tell(key, ev.LockBusy("process 7 on elsewhere"))

    def found_published(self, key: str) -> None:
        """Another process has finished the file."""
        self.files[key].owed.remove("prepare")
        self.tell(key, ev.FoundPublished())

    def local_failure(self, key: str, owed: str) -> None:
        """What was asked of the store fails."""
        self.files[key].owed.remove(owed)
        self.tell(key, ev.LocalFailed(OSError(28, "full"), sync=owed == "sync"))

    def respond(self, key: str, connection: int) -> None:
        """The head is accepted."""
        file = self.files[key]
        wire = file.wires[connection]
        server = file.servers[wire.order.source]
        wire.answered = True
        wire.version = server.version
        wire.end = server.length if wire.order.end is None else min(wire.order.end, server.length)
        stated = server.length if server.says_length or not wire.order.whole else wire.order.size
        self.tell(key, ev.ResponseStarted(connection, stated, server.validator))

    def may_respond(self, key: str, connection: int) -> bool:
        """Whether the server's answer would pass the checks of the head."""
        file = self.files[key]
        order = file.wires[connection].order
        server = file.servers[order.source]
        same = order.size in (None, server.length) and order.start < max(server.length, 1)
        return same and order.if_range in (None, server.validator)

    def write(self, key: str, connection: int, count: int) -> None:
        """``count`` more bytes of the stream come; those in the lease are written."""
        file = self.files[key]
        wire = file.wires[connection]
        server = file.servers[wire.order.source]
        assert not wire.closing, "a fenced connection writes"
        end = min(wire.end, wire.written + count)
        for at in range(wire.written, end):
            if at in wire.lease:
                assert at not in file.believed, "a finished byte is written again"
                file.disk[at] = (wire.order.source, wire.version, server.honest and at < file.length)
                file.verified = False
        wire.written = end

    def report(self, key: str, connection: int) -> None:
        """The worker's count reaches the core, perhaps after the core has closed the connection."""
        file = self.files[key]
        wire = file.wires[connection]
        if not wire.closing:
            self._believe(file, wire)
        self.tell(key, ev.BytesWritten(connection, wire.written, wire.written - wire.order.start))

    def close(self, key: str, connection: int, failure: Failure | None = None) -> None:
        """The connection's last word."""
        file = self.files[key]
        wire = file.wires.pop(connection)
        self._believe(file, wire)
        received = wire.written - wire.order.start
        size = None
        if failure is None and wire.answered and wire.order.whole and not wire.closing and wire.written == wire.end:
            size = wire.written if wire.order.size is None else None
        self.tell(key, ev.ConnectionClosed(connection, wire.written, received, failure, size))

    def finish_stream(self, key: str, connection: int) -> None:
        """All of the range comes."""
        self.write(key, connection, 1 << 30)
        self.report(key, connection)
        if connection in self.files[key].wires:
            self.close(key, connection)

    def sync(self, key: str) -> None:
        """The data are on the disk."""
        file = self.files[key]
        file.owed.remove("sync")
        file.mark += 1
        file.marks.add(file.mark)
        self.tell(key, ev.DataSynced(file.mark))

    def check(self, key: str) -> None:
        """The file is hashed as it lies there."""
        file = self.files[key]
        file.owed.remove("check")
        file.verified = file.true
        actual = "right" if file.true else "wrong"
        self.tell(key, ev.DigestChecked(file.true, "right", actual))

    def publish(self, key: str) -> None:
        """The file has its name."""
        self.files[key].owed.remove("publish")
        self.tell(key, ev.Published())

    def pass_time(self, seconds: float) -> None:
        """The clock goes on; timers that are due fire."""
        self.now += seconds
        if self.session.next_deadline() <= self.now:
            self._perform(self.session.tick(self.now))
            assert self.session.next_deadline() > self.now, "a busy loop"

    def next_timer(self) -> None:
        """Wait for the next timer."""
        self.pass_time(max(0.0, self.session.next_deadline() - self.now))

    # ------------------------------------------------------------------ playing on well

    def step(self) -> None:
        """Answer one thing that is owed, as a good engine on a good line would; else wait for a timer."""
        for key, file in self.files.items():
            if file.owed:
                getattr(self, min(file.owed))(key)
                return
            for connection, wire in file.wires.items():
                self._go_on(key, connection, wire)
                return
        assert math.isfinite(self.session.next_deadline()), "nothing to answer and nothing to wait for"
        self.next_timer()

    def _go_on(self, key: str, connection: int, wire: Wire) -> None:
        order = wire.order
        if wire.closing:
            self.close(key, connection)
        elif wire.answered:
            self.finish_stream(key, connection)
        elif self.may_respond(key, connection):
            self.respond(key, connection)
        else:
            server = self.files[key].servers[order.source]
            if order.size not in (None, server.length):
                failure = Failure(FailureKind.LACKS, "another size", size=server.length)
            elif order.if_range not in (None, server.validator):
                failure = Failure(FailureKind.CHANGED, "changed")
            else:
                failure = Failure(FailureKind.RANGE_WRONG, "beyond the end")
            self.close(key, connection, failure)

    def play(self, most: int = 2000) -> None:
        """Answer until the session is over; that it ends is invariant 4."""
        for _ in range(most):
            if self.session.over:
                break
            self.step()
        assert self.session.over, "a good line and no end"
        self.check_invariants()
        assert all(host.active == 0 for host in self.budget._hosts.values())
        assert self.budget._active == 0
        assert all(file.end is not None for file in self.files.values()), "a download without an end"

    # ------------------------------------------------------------------ carrying out, and judging

    def _believe(self, file: File, wire: Wire) -> None:
        file.believed |= {at for at in wire.lease if wire.order.start <= at < wire.written}

    def _perform(self, actions: list[tuple[str, act.Action]]) -> None:
        for key, action in actions:
            self.log.append((key, action))
            file = self.files[key]
            assert file.end is None, f"{action} after the end"
            self._carry_out(file, action)
        self.check_invariants()

    def _carry_out(self, file: File, action: act.Action) -> None:
        if isinstance(action, act.Prepare):
            self._owe(file, "prepare")
        elif isinstance(action, act.FixSize):
            self._fix_size(file, action)
        elif isinstance(action, act.OpenRange):
            self._open(file, action)
        elif isinstance(action, act.CloseConnection):
            wire = file.wires[action.connection]
            assert not wire.closing, "closed twice"
            wire.closing = True
        elif isinstance(action, act.SyncData):
            assert file.prepared
            self._owe(file, "sync")
        elif isinstance(action, act.RecordProgress):
            assert action.mark in file.marks, "recorded durable what was never synced"
            file.marks.remove(action.mark)
        elif isinstance(action, act.NoteFailure):
            assert 0 <= action.source < len(file.servers)
        else:
            assert not file.wires, f"{action} while a write may be under way"
            assert not file.owed, f"{action} while {file.owed}"
            self._judge(file, action)

    def _judge(self, file: File, action: act.Action) -> None:
        complete = file.download.size is not None and file.believed >= set(range(file.download.size))
        if isinstance(action, act.CheckDigest):
            assert file.digest
            assert complete
            self._owe(file, "check")
        elif isinstance(action, act.Publish):
            assert complete
            if file.digest:
                assert file.verified, "published unverified"
                assert file.true
            else:
                assert len({byte[:2] for byte in file.disk.values()}) <= 1, "two sources or versions in one file"
            self._owe(file, "publish")
        elif isinstance(action, act.DiscardPieces):
            file.disk.clear()
            file.believed.clear()
            file.verified = False
        else:
            assert isinstance(action, act.Finish | act.Fail)
            if isinstance(action, act.Fail):
                assert action.resumable_bytes in (0, len(file.believed))
            file.end = action

    @staticmethod
    def _owe(file: File, what: str) -> None:
        assert what not in file.owed, f"{what} asked twice"
        file.owed.add(what)

    def _fix_size(self, file: File, action: act.FixSize) -> None:
        assert file.prepared
        assert (action.source is None) == file.digest
        file.believed = {at for at in file.believed if at < action.size}
        file.disk = {at: byte for at, byte in file.disk.items() if at < action.size}

    def _open(self, file: File, action: act.OpenRange) -> None:
        assert file.prepared
        assert not file.owed & {"check", "publish"}, "a writer beside a judge"
        reach = 400 if action.size is None else action.size
        lease: set[int] = set()
        assert action.gaps
        for start, end in action.gaps:
            assert action.start <= start
            assert end is None or start < end
            assert action.end is None or (end is not None and end <= action.end)
            assert action.size is None or end is None or end <= action.size
            part = set(range(start, reach if end is None else end))
            assert part
            assert not part & lease
            lease |= part
        assert not lease & file.believed, "a finished byte is leased again"
        for other in file.wires.values():
            assert not lease & other.lease, "two leases overlap"
        if not action.whole and action.size is not None and action.size >= self.policy.small_file and file.digest:
            lowest = min(set(range(action.size)) - file.believed)
            assert max(lease) < lowest + self.policy.window, "beyond the window"
        if not file.digest:
            assert not file.wires, "two connections into a file that one source binds"
            if not action.whole:
                assert action.if_range is not None, "continued without a validator"
        if action.whole:
            assert (action.start, action.end, action.if_range) == (0, None, None)
        file.wires[action.connection] = Wire(action, lease, -1, action.start, action.start)

    def check_invariants(self) -> None:
        """What holds between any two events."""
        total: dict[str, int] = {}
        for file in self.files.values():
            download = file.download
            for wire in file.wires.values():
                host = file.servers[wire.order.source].host
                total[host] = total.get(host, 0) + 1
            if file.end is None:
                done = {at for start, end in download.done for at in range(start, end)}
                assert done == file.believed, "the core believes what is not on the disk, or not what is"
                assert set(download.connections) == set(file.wires)
            else:
                assert download.over
                assert (download.state is State.DONE) == isinstance(file.end, act.Finish)
            if not file.digest:
                assert len({byte[:2] for byte in file.disk.values()}) <= 1, "two sources or versions in one file"
            assert download.wasted >= 0
        assert sum(total.values()) == self.budget._active <= self.policy.connections
        for host, state in self.budget._hosts.items():
            assert total.get(host, 0) == state.active <= state.limit
        unfinished = [file for file in self.files.values() if file.end is None]
        begun = [file for file in unfinished if file.download.state is not State.QUEUED]
        assert bool(begun) == bool(unfinished) == (not self.session.over), "nobody begins, or it ends too soon"
        for file in begun:
            waits = math.isfinite(file.download.next_deadline())
            assert file.owed or file.wires or waits, "it hangs"
