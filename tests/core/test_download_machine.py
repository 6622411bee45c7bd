"""Downloads under an adversarial engine: whatever is answered, in whatever order, the invariants hold."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core.world import SMALL, Server, World
from resume_dl.core import events as ev
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.transitions import State

HOSTS = ("a.example", "b.example", "c.example")
servers = st.builds(
    Server,
    host=st.sampled_from(HOSTS),
    honest=st.sampled_from([True, True, True, False]),
    length=st.sampled_from([0, 0, 0, 0, 17]),
    has_validator=st.sampled_from([True, True, False]),
    says_length=st.sampled_from([True, True, False]),
)
lengths = st.one_of(st.integers(1, 7), st.integers(8, 23), st.integers(24, 60), st.integers(40, 90))
PASSING = (FailureKind.BROKEN, FailureKind.STALLED, FailureKind.THROTTLED, FailureKind.UNREACHABLE)
failures = st.builds(
    Failure,
    # as often what passes as what does not, or most downloads would end before they began
    st.sampled_from([*PASSING * 3, *(kind for kind in FailureKind if kind is not FailureKind.LOCAL)]),
    st.just("so it is"),
    st.sampled_from([None, 0.0, 7.0, 10_000.0]),
)
picks = st.integers(0, 1 << 16)
STORE_CALLS = ("sync", "advance", "locate", "check", "publish")


class Adversary(RuleBasedStateMachine):
    """Up to three files from up to three hosts."""

    digests = True

    @initialize(
        files=st.lists(
            st.tuples(
                lengths,
                st.lists(servers, min_size=1, max_size=3),
                st.booleans(),
                st.sampled_from([True, True, False]),
            ),
            min_size=1,
            max_size=3,
        ),
        jitter=st.sampled_from([0.0, 0.5, 0.99]),
    )
    def begin(self, files: list[tuple[int, list[Server], bool, bool]], jitter: float) -> None:
        self.world = World(SMALL, jitter)
        for length, places, stated, digest in files:
            self.world.add(length, places, stated=stated, digest=digest and self.digests)
        self.world.start()

    def _owing(self, what: str) -> list[str]:
        return [key for key, file in self.world.files.items() if what in file.owed]

    def _wires(self, *, answered: bool | None = None, closing: bool | None = None) -> list[tuple[str, int]]:
        return [
            (key, number)
            for key, file in self.world.files.items()
            for number, wire in file.wires.items()
            if answered in (None, wire.answered) and closing in (None, wire.closing)
        ]

    # ------------------------------------------------------------------ the store answers

    @precondition(lambda self: self._owing("prepare"))
    @rule(pick=picks, resumed=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=4), how=picks)
    def prepared(self, pick: int, resumed: list[tuple[int, int]], how: int) -> None:
        """With a fresh part file, or the journal of an earlier run with honest or other bytes, fitting or not."""
        key = self._owing("prepare")[pick % len(self._owing("prepare"))]
        file = self.world.files[key]
        ranges: list[tuple[int, int]] = []
        at = 0
        for start, length in sorted(resumed):
            begin = max(start, at + 1 if ranges else start)
            if begin < file.length:
                ranges.append((begin, min(begin + length, file.length)))
                at = ranges[-1][1]
        if not ranges or not file.servers or file.download.state is not State.PREPARING:
            self.world.prepare(key)
            return
        source = how % len(file.servers)
        server = file.servers[source]
        if server.length != file.length:
            self.world.prepare(key)
            return
        right = how % 5 != 0
        for start, end in ranges:
            for each in range(start, end):
                file.disk[each] = (source, server.version, right)
        size = [file.length, file.length, None, file.length + 1][how % 4]
        label = f"https://{server.host}/{source}" if how % 3 else "https://gone.example/"
        owners = ((label, tuple(ranges)),) if how % 2 else ()
        self.world.prepare(key, ev.Prepared(tuple(ranges), size, server.validator, label, owners))
        if file.download.resumed and how % 7 == 0 and file.digest:
            file.rotten = {ranges[0][0]} & file.believed

    @precondition(lambda self: self._owing("prepare"))
    @rule(pick=picks, how=st.sampled_from([*["lock_busy"] * 8, "found_published", "local"]))
    def not_prepared(self, pick: int, how: str) -> None:
        key = self._owing("prepare")[pick % len(self._owing("prepare"))]
        if how == "local":
            self.world.local_failure(key, "prepare")
        else:
            getattr(self.world, how)(key)

    @precondition(lambda self: self._owing("sync"))
    @rule(pick=picks)
    def synced(self, pick: int) -> None:
        self.world.sync(self._owing("sync")[pick % len(self._owing("sync"))])

    @precondition(lambda self: self._owing("advance"))
    @rule(pick=picks)
    def digest_advanced(self, pick: int) -> None:
        self.world.advance(self._owing("advance")[pick % len(self._owing("advance"))])

    @precondition(lambda self: self._owing("locate"))
    @rule(pick=picks)
    def damage_located(self, pick: int) -> None:
        self.world.locate(self._owing("locate")[pick % len(self._owing("locate"))])

    @precondition(lambda self: self._owing("check"))
    @rule(pick=picks)
    def checked(self, pick: int) -> None:
        self.world.check(self._owing("check")[pick % len(self._owing("check"))])

    @precondition(lambda self: self._owing("publish"))
    @rule(pick=picks)
    def published(self, pick: int) -> None:
        self.world.publish(self._owing("publish")[pick % len(self._owing("publish"))])

    @precondition(lambda self: any(self._owing(what) for what in STORE_CALLS))
    @rule(pick=picks, rarely=st.integers(0, 7))
    def store_fails(self, pick: int, rarely: int) -> None:
        if rarely == 7:
            what = next(what for what in STORE_CALLS if self._owing(what))
            self.world.local_failure(self._owing(what)[pick % len(self._owing(what))], what)

    def _recording(self) -> list[str]:
        return [key for key, file in self.world.files.items() if file.recording and file.end is None]

    @precondition(lambda self: self._recording())
    @rule(pick=picks, rarely=st.integers(0, 7))
    def record_fails(self, pick: int, rarely: int) -> None:
        if rarely == 7:
            self.world.fail_record(self._recording()[pick % len(self._recording())])

    # ------------------------------------------------------------------ the network answers

    @precondition(lambda self: self._wires(answered=False, closing=False))
    @rule(pick=picks)
    def responds(self, pick: int) -> None:
        wires = self._wires(answered=False, closing=False)
        key, number = wires[pick % len(wires)]
        if self.world.may_respond(key, number) and self.world.files[key].wires[number].lease:
            self.world.respond(key, number)
        else:
            self.world._go_on(key, number, self.world.files[key].wires[number])

    @precondition(lambda self: self._wires(answered=True, closing=False))
    @rule(pick=picks, count=st.integers(1, 30), tell=st.booleans())
    def bytes_come(self, pick: int, count: int, tell: bool) -> None:
        wires = self._wires(answered=True, closing=False)
        key, number = wires[pick % len(wires)]
        self.world.write(key, number, count)
        if tell:
            self.world.report(key, number)

    @precondition(lambda self: self._wires(answered=True, closing=False))
    @rule(pick=picks)
    def stream_ends_well(self, pick: int) -> None:
        wires = self._wires(answered=True, closing=False)
        self.world.finish_stream(*wires[pick % len(wires)])

    @precondition(lambda self: any(self._shortened()))
    @rule(pick=picks)
    def lease_shortened(self, pick: int) -> None:
        wires = self._shortened()
        self.world.shorten(*wires[pick % len(wires)])

    def _shortened(self) -> list[tuple[str, int]]:
        return [
            (key, number) for key, number in self._wires() if self.world.files[key].wires[number].shorten_to is not None
        ]

    @precondition(lambda self: self._wires(closing=True))
    @rule(pick=picks)
    def late_report(self, pick: int) -> None:
        wires = self._wires(closing=True)
        self.world.report(*wires[pick % len(wires)])

    @precondition(lambda self: self._wires(answered=True, closing=False))
    @rule(pick=picks, count=st.integers(1, 30))
    def news_comes_late(self, pick: int, count: int) -> None:
        """Bytes are written, the connection is closed for its silence, and only then the bytes are told."""
        wires = self._wires(answered=True, closing=False)
        key, number = wires[pick % len(wires)]
        self.world.write(key, number, count)
        for _ in range(5):
            wire = self.world.files[key].wires.get(number)
            if wire is None or wire.closing or self.world.session.next_deadline() > 1e9:
                break
            self.world.next_timer()
        if number in self.world.files[key].wires:
            self.world.report(key, number)

    @precondition(lambda self: self._wires())
    @rule(pick=picks, failure=failures)
    def breaks(self, pick: int, failure: Failure) -> None:
        wires = self._wires()
        self.world.close(*wires[pick % len(wires)], failure)

    @precondition(lambda self: self._wires(closing=True))
    @rule(pick=picks)
    def closes(self, pick: int) -> None:
        wires = self._wires(closing=True)
        self.world.close(*wires[pick % len(wires)])

    @precondition(lambda self: self._wires())
    @rule(pick=picks)
    def disk_full(self, pick: int) -> None:
        wires = self._wires()
        if pick % 32 == 17:
            self.world.close(*wires[pick % len(wires)], Failure(FailureKind.LOCAL, "full"))

    # ------------------------------------------------------------------ the world goes on

    @rule()
    def timer(self) -> None:
        if self.world.session.next_deadline() < 1e9:
            self.world.next_timer()

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.3, 1.9, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(seconds=st.sampled_from([5.0, 3600.0]))
    def awakes(self, seconds: float) -> None:
        """The process was stopped; the clock has left that out."""
        self.world.tell(None, ev.Awoke(seconds))

    @rule(pick=picks)
    def file_replaced(self, pick: int) -> None:
        """Somebody uploads another version; streams that run go on with the old one."""
        every = [server for file in self.world.files.values() for server in file.servers if not file.digest]
        if every:
            every[pick % len(every)].version += 1

    @rule(pick=picks)
    def cancelled(self, pick: int) -> None:
        if pick % 40 == 17:
            self.world.tell(None, ev.Cancelled())
        elif pick % 40 == 18:
            keys = list(self.world.files)
            self.world.tell(keys[pick % len(keys)], ev.Cancelled())

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check_invariants()

    def teardown(self) -> None:
        """From wherever it stands, a good engine brings it to its end."""
        if hasattr(self, "world"):
            self.world.play()


class Unverified(Adversary):
    """Files without a digest only: one source and one validator bind each."""

    digests = False


TestAdversary = Adversary.TestCase
TestAdversary.settings = settings(max_examples=settings.default.max_examples * 5 // 4, stateful_step_count=70)
TestUnverified = Unverified.TestCase
TestUnverified.settings = settings(max_examples=settings.default.max_examples * 3 // 4, stateful_step_count=70)
