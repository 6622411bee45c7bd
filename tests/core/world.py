"""An engine made of numbers: plays disk, servers and clock for a ``Session`` and holds it to the invariants."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.download import Download
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import Policy
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.session import Session
from resume_dl.core.sources import SourceState
from resume_dl.core.transitions import State

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
    split_seconds=0.5,
    steal_least=2,
    steal_grain=1,
    endgame_bytes=10,
    endgame_share=0.5,
    digest_step=6,
    digest_most=12,
    compare_block=4,
    compare_step=8,
    dispute_bytes=16,
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
    shorten_to: int | None = None
    """Asked to write less, not answered yet."""
    held: bool = False
    gaps: tuple[tuple[int, int], ...] = ()
    """Of a duplicate that may write."""
    compared: int = 0

    @property
    def mode(self) -> act.Mode:
        """What becomes of its bytes."""
        return self.order.mode


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
    digest_at: int = 0
    digest_to: int = 0
    rotten: set[int] = field(default_factory=set)
    """Bytes of an earlier run that the disk has lost since."""
    doubled: int = 0
    mark: int = 0
    marks: set[int] = field(default_factory=set)
    recording: int = 0
    """Records whose end nobody waits for: they may still fail."""
    end: act.Finish | act.Fail | None = None

    @property
    def true(self) -> bool:
        """Whether the disk holds the file and nothing else."""
        size = self.download.size
        good = size == self.length and all(self.disk.get(at, (0, 0, False))[2] for at in range(self.length))
        return good and not self.rotten


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

    def add(
        self,
        length: int,
        servers: Iterable[Server],
        *,
        stated: bool = True,
        digest: bool = True,
        thorough: bool = True,
    ) -> str:
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
            thorough=thorough,
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
        call = owed in {"check", "advance", "locate"}
        self.tell(key, ev.LocalFailed(OSError(28, "full"), sync=owed == "sync", digest=call, publish=owed == "publish"))

    def fail_record(self, key: str) -> None:
        """A *durable* record that was asked for earlier cannot be appended."""
        self.files[key].recording -= 1
        self.tell(key, ev.LocalFailed(OSError(28, "full")))

    def respond(self, key: str, connection: int) -> None:
        """The head is accepted."""
        file = self.files[key]
        wire = file.wires[connection]
        server = file.servers[wire.order.source]
        wire.answered = True
        wire.version = server.version
        wire.end = server.length if wire.order.end is None else min(wire.order.end, server.length)
        stated = server.length if server.says_length or not wire.order.whole else wire.order.size
        if wire.shorten_to is None:
            wire.end = min(wire.end, max(wire.lease, default=-1) + 1) if not wire.order.whole else wire.end
        self.tell(key, ev.ResponseStarted(connection, stated, server.validator, server.host, ranges=True))

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
        if wire.mode is act.Mode.WRITE:
            for at in range(wire.written, end):
                if at in wire.lease:
                    self._put(file, at, wire, honest=server.honest)
        wire.written = max(wire.written, end)

    @staticmethod
    def _put(file: File, at: int, wire: Wire, *, honest: bool) -> None:
        assert at not in file.believed, "a finished byte is written again"
        assert at >= file.digest_at, "a hashed byte is written again"
        file.disk[at] = (wire.order.source, wire.version, honest and at < file.length)
        file.verified = False

    def report(self, key: str, connection: int) -> None:
        """The worker's count reaches the core, perhaps after the core has closed the connection."""
        file = self.files[key]
        wire = file.wires[connection]
        received = wire.written - wire.order.start
        if wire.mode is act.Mode.COMPARE:
            differing = self._differing(file, wire)
            wire.compared = wire.written
            self.tell(key, ev.RangeCompared(connection, wire.written, received, differing))
        elif wire.mode is act.Mode.HOLD:
            if wire.written == wire.order.end and not wire.held:
                wire.held = True
                self.tell(key, ev.RangeHeld(connection, received))
            else:
                self.tell(key, ev.BytesReceived(connection, received))
        else:
            if not wire.closing:
                self._believe(file, wire)
            self.tell(key, ev.BytesWritten(connection, wire.written, received))

    def _differing(self, file: File, wire: Wire) -> tuple[tuple[int, int], ...]:
        """Blocks, since the last report, in which the server's bytes are not the disk's."""
        source, block = wire.order.source, self.policy.compare_block
        honest = file.servers[source].honest
        found = []
        for at in range(wire.compared, wire.written):
            on_disk = file.disk.get(at, (-1, 0, False))
            same = honest == on_disk[2] and (honest or on_disk[0] == source)
            if not same or at in file.rotten:
                start = max(wire.order.start, at // block * block)
                found.append((start, min(wire.order.end or 0, at // block * block + block)))
        return tuple(sorted(set(found)))

    def shorten(self, key: str, connection: int) -> None:
        """The worker has taken notice that it may write less."""
        wire = self.files[key].wires[connection]
        assert wire.shorten_to is not None
        end = max(wire.shorten_to, wire.written if wire.answered else wire.order.start)
        wire.shorten_to = None
        wire.lease = {at for at in wire.lease if at < end}
        if wire.answered:
            wire.end = min(wire.end, end)
        self.tell(key, ev.LeaseShortened(connection, end))

    def close(self, key: str, connection: int, failure: Failure | None = None) -> None:
        """The connection's last word."""
        file = self.files[key]
        wire = file.wires[connection]
        if wire.mode is act.Mode.COMPARE and wire.compared < wire.written and not wire.closing:
            self.report(key, connection)
        received = wire.written - wire.order.start
        if wire.mode is act.Mode.HOLD:
            wins = bool(wire.gaps) and failure is None and not wire.closing
            for at in [at for start, end in wire.gaps * wins for at in range(start, end)]:
                self._put(file, at, wire, honest=file.servers[wire.order.source].honest)
            wire.lease = {at for start, end in wire.gaps for at in range(start, end)} if wins else set()
            wire.written = wire.written if wins else wire.order.start
        file.wires.pop(connection)
        if wire.mode is not act.Mode.COMPARE:
            self._believe(file, wire)
        size = None
        if failure is None and wire.answered and wire.order.whole and not wire.closing and wire.written == wire.end:
            size = wire.written if wire.order.size is None else None
        self.tell(key, ev.ConnectionClosed(connection, wire.written, received, failure, size))

    def finish_stream(self, key: str, connection: int) -> None:
        """All of the range comes."""
        self.write(key, connection, 1 << 30)
        self.report(key, connection)
        wire = self.files[key].wires.get(connection)
        if wire is not None and (wire.mode is not act.Mode.HOLD or wire.closing):
            self.close(key, connection)

    def sync(self, key: str) -> None:
        """The data are on the disk."""
        file = self.files[key]
        file.owed.remove("sync")
        file.mark += 1
        file.marks.add(file.mark)
        self.tell(key, ev.DataSynced(file.mark))

    def advance(self, key: str) -> None:
        """The digest has got as far as it was sent, or up to the first byte that the disk has lost."""
        file = self.files[key]
        file.owed.remove("advance")
        self._tell_digest(key, file, file.digest_to)

    def _tell_digest(self, key: str, file: File, upto: int) -> None:
        lost = {at for at in file.rotten if at < upto}
        file.digest_at = min(lost, default=upto)
        self.tell(key, ev.DigestAdvanced(file.digest_at, tuple((at, at + 1) for at in sorted(lost))))

    def locate(self, key: str) -> None:
        """The format's own checksums tell where it is wrong, or for every other file that they cannot."""
        file = self.files[key]
        file.owed.remove("locate")
        wrong = tuple((at, at + 1) for at in range(file.download.size or 0) if not file.disk.get(at, (0, 0, False))[2])
        self.tell(key, ev.DamageLocated(wrong if file.length % 2 else None))

    def check(self, key: str) -> None:
        """The file is hashed as it lies there."""
        file = self.files[key]
        file.owed.remove("check")
        if file.rotten:
            self._tell_digest(key, file, file.download.size or 0)
            return
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
            waiting = [number for number, wire in file.wires.items() if wire.shorten_to is not None]
            if waiting:
                self.shorten(key, waiting[0])
                return
            for connection, wire in file.wires.items():
                self._go_on(key, connection, wire)
                return
        assert math.isfinite(self.session.next_deadline()), "nothing to answer and nothing to wait for"
        self.next_timer()

    def _go_on(self, key: str, connection: int, wire: Wire) -> None:
        order = wire.order
        if wire.closing or wire.gaps or not wire.lease:
            self.close(key, connection)
        elif wire.held:
            raise AssertionError("a duplicate that is all here waits for nothing")
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
            file.recording += 1
        elif isinstance(action, act.ShortenLease):
            wire = file.wires[action.connection]
            assert not wire.closing
            assert wire.shorten_to is None, "shortened twice at once"
            assert wire.mode is act.Mode.WRITE
            wire.shorten_to = action.end
        elif isinstance(action, act.WriteHeld):
            self._write_held(file, action)
        elif isinstance(action, act.AdvanceDigest):
            assert not file.owed & {"check", "advance", "locate"}, "two calls on the digest"
            assert file.digest_at < action.upto
            assert file.believed >= set(range(action.upto)), "hashed before it is finished"
            file.digest_to = action.upto
            self._owe(file, "advance")
        elif isinstance(action, act.ForgetRanges):
            assert not file.owed & {"check", "advance", "locate"}, "forgotten while the digest is at work"
            gone = {at for start, end in action.ranges for at in range(start, end)}
            assert gone <= file.believed
            file.believed -= gone
            file.rotten -= gone
            file.digest_at = min([file.digest_at, *gone])
            file.verified = False
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
        elif isinstance(action, act.LocateDamage):
            assert complete
            assert not file.true
            self._owe(file, "locate")
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
            file.rotten.clear()
            file.digest_at = 0
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

    @staticmethod
    def _write_held(file: File, action: act.WriteHeld) -> None:
        wire = file.wires[action.connection]
        assert wire.held
        assert not wire.closing
        assert not wire.gaps, "won twice"
        gaps = {at for start, end in action.gaps for at in range(start, end)}
        assert gaps
        assert gaps <= wire.lease
        assert not gaps & file.believed
        for other in file.wires.values():
            assert other is wire or not gaps & other.lease, "a duplicate writes beside its rival"
        wire.gaps = action.gaps

    def _open_reader(self, file: File, action: act.OpenRange) -> None:
        """A connection that does not write, or not yet."""
        assert action.end is not None
        assert action.gaps == ((action.start, action.end),)
        lease = set(range(action.start, action.end))
        if action.mode is act.Mode.COMPARE:
            assert lease <= file.believed
            assert len(lease) <= self.policy.compare_step
        else:
            rivals = [wire for wire in file.wires.values() if wire.lease & lease]
            assert not lease & file.believed
            assert len(rivals) == 1, "a duplicate of nothing, or a second one"
            file.doubled += len(lease)
            assert file.doubled <= self.policy.endgame_share * (action.size or 0), "too many duplicates"
        wire = Wire(action, lease, -1, action.start, action.start, compared=action.start)
        file.wires[action.connection] = wire

    def _open(self, file: File, action: act.OpenRange) -> None:
        assert file.prepared
        if action.mode is not act.Mode.WRITE:
            self._open_reader(file, action)
            return
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
            others = [wire for wire in file.wires.values() if not wire.closing]
            assert {wire.order.source for wire in others} <= {action.source}, "two sources of a file that one binds"
            assert not others or not action.whole, "a second connection without a validator"
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
