"""Small things from servers that keep silent: the next one is asked soon, and the question ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from faults.behaviours import NeverAnswer, Stall
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import Policy
from resume_dl.errors import SourceError, StalledError
from resume_dl.indexes.small_answers import Body, Refused, Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.http import RangeRequest, ResponseHead
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.transport.client import HttpTransport

_PAGE = b"<html>" + b"x" * 4096


@pytest.fixture
def server(fault_server):
    """Two servers of one page."""
    server = fault_server(ports=2)
    server.put("/page", _PAGE)
    return server


def sources(server, count: int) -> list[Source]:
    return [Source(str(port), RedactedUrl(f"{server.base(port)}/page")) for port in range(count)]


@pytest.fixture
def reader():
    """A reader whose policy has these numbers."""
    transport = HttpTransport(NetworkSettings())
    yield lambda **numbers: Reader(transport, Policy(**numbers))
    transport.close()


@pytest.mark.parametrize(
    ("behaviour", "said"), [(NeverAnswer(), "no answer within 1 s"), (Stall(100), "no data for 1 s")]
)
def test_a_silent_source_is_doubled_by_another(server, reader, behaviour, said):
    """From the start, or in the middle of its page."""
    server.always(0, behaviour)
    reading, failures = reader(stall_seconds=1.0), []

    def attempt(source: Source) -> Body | Refused[Body]:
        try:
            found = reading.get(source)
        except SourceError as error:
            failures.append((source.mirror, error.message))
            raise
        return Refused(found) if isinstance(found, Failure) else found

    found = reading.ask(sources(server, 2), attempt)
    assert (found.data, found.source.mirror) == (_PAGE, "1")
    mirror, told = failures[0]
    assert mirror == "0"
    assert said in told
    assert len(server.requests(1)) == sum(mirror == "1" for mirror, _ in failures) + 1  # 1 where it is not held up


class Scripted:
    """A transport and its clock: a request to ``mirror`` takes the time that its script says, and no real time."""

    def __init__(self, **scripts: Script) -> None:
        self.reader: Reader | None = None
        self.seconds = 0.0
        self.asked: list[tuple[str, float | None]] = []
        """The mirror and how long it may be silent, in order."""
        self._scripts = scripts

    def now(self) -> float:
        return self.seconds

    def sources(self) -> list[Source]:
        return [Source(name, RedactedUrl(f"http://{name}.example/page")) for name in self._scripts]

    def exchange(self, request: RangeRequest) -> _Exchange:
        name = request.url.host.partition(".")[0]
        self.asked.append((name, request.patience))
        return _Exchange(self, self._scripts[name], request.patience)

    def close(self) -> None:
        pass


@dataclass
class Script:
    """A status and a body, of which each chunk takes ``seconds``; None: no answer at all."""

    status: int | None = 200
    chunks: tuple[bytes, ...] = ()
    seconds: float = 0.0


@dataclass(eq=False)
class _Exchange:
    """Exchange and Response at once."""

    scripted: Scripted
    script: Script
    patience: float | None

    def open(self) -> _Exchange:
        attempt = self.scripted.reader._exchanges.attempt
        while attempt.request.began_at is None:  # no time passes until its beginning is noted
            time.sleep(0.001)
        if self.script.status is None:
            self.scripted.seconds += self.patience
            raise StalledError(f"no answer within {self.patience:g} s")
        return self

    @property
    def head(self) -> ResponseHead:
        return ResponseHead(self.script.status, {})

    def chunks(self) -> Iterator[bytes]:
        for chunk in self.script.chunks:
            self.scripted.seconds += self.script.seconds
            yield chunk

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass


def scripted_reader(scripted: Scripted, **numbers: float) -> Reader:
    """Its steps of seconds at once are no sleep, and it does not rest: the clock would stand still meanwhile."""
    scripted.reader = Reader(scripted, Policy(longest_step=60.0, backoff_first=0.0, **numbers), clock=scripted)
    return scripted.reader


def test_the_last_source_gets_the_remaining_time():
    """The other does not have it: the silent one is asked again, until the time is over, and no more."""
    scripted = Scripted(silent=Script(None), other=Script(404))
    reading = scripted_reader(scripted, stall_seconds=1.0, give_up_after=3.0)
    with pytest.raises(Unanswered, match="no answer within 2 s"):
        reading.whole(scripted.sources())
    assert scripted.asked == [("silent", 1.0), ("other", 1.0), ("silent", 2.0)]


def test_a_single_silent_source_is_given_up_in_time():
    """When the user says so, and not after so many tries."""
    scripted = Scripted(silent=Script(None))
    with pytest.raises(Unanswered, match="no answer within 2 s"):
        scripted_reader(scripted, give_up_after=2.0).whole(scripted.sources())
    assert scripted.asked == [("silent", 2.0)]


def test_an_answer_in_progress_may_arrive():
    """It takes longer than the whole time, and is never silent for so long."""
    scripted = Scripted(slow=Script(200, (b"<html>", b"x", b"y", b"z"), seconds=0.75))
    assert scripted_reader(scripted, give_up_after=1.0).whole(scripted.sources()).data == b"<html>xyz"
    assert scripted.asked == [("slow", 1.0)]
    assert scripted.now() == 3.0


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), SystemExit(3)], ids=["exception", "exit"])
def test_an_unexpected_exception_of_an_attempt_reaches_the_caller(error):
    """It is raised where the answer is waited for, at once, without another source being asked; no waiter is left."""
    scripted = Scripted(first=Script(), second=Script())
    reading, asked = scripted_reader(scripted), []

    def attempt(source: Source) -> str:
        asked.append(source.mirror)
        if len(asked) == 1:
            raise error
        return "answer"

    with pytest.raises((ZeroDivisionError, RuntimeError)) as caught:
        reading.ask(scripted.sources(), attempt)
    assert caught.value is error or "SystemExit in a thread" in str(caught.value)
    assert asked == ["first"]
    assert not reading._attempts._answers
    assert reading.ask(scripted.sources(), attempt) == "answer"
    reading.stop()


class Nightly:
    """A clock that the test moves on."""

    def __init__(self) -> None:
        self.night = 0.0

    def now(self) -> float:
        return time.monotonic() + self.night


def test_a_suspend_during_a_request_does_not_count_as_silence(server):
    """A process that slept for longer than its patience asks again, also sources that had failed before."""
    clock, asked = Nightly(), []

    def attempt(source: Source) -> str | Refused[str]:
        asked.append(source.mirror)
        if len(asked) < 3:
            clock.night += 8 * 3600.0
            return Refused(Failure(FailureKind.BROKEN, "the connection broke"))
        return "answer"

    transport = HttpTransport(NetworkSettings())
    reading = Reader(transport, Policy(give_up_after=5.0, backoff_first=0.01), clock=clock)
    assert reading.ask(sources(server, 1), attempt) == "answer"
    assert asked == ["0", "0", "0"]
    transport.close()
