"""Small things from servers that keep silent: the next one is asked soon, and the question ends."""

from __future__ import annotations

import time

import pytest

from faults.behaviours import NeverAnswer, Rate, Stall, Status
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import Policy
from resume_dl.errors import SourceError
from resume_dl.indexes.small_answers import Body, Refused, Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.transport.client import HttpxTransport

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
    transport = HttpxTransport(NetworkSettings())
    yield lambda **numbers: Reader(transport, Policy(**numbers))
    transport.close()


@pytest.mark.parametrize(("behaviour", "said"), [(NeverAnswer(), "no answer within 1 s"), (Stall(100), "came for 1 s")])
def test_a_silent_one_makes_way(server, reader, behaviour, said):
    """From the start, or in the middle of its page."""
    server.always(0, behaviour)
    reading, failures = reader(stall_seconds=1.0), []

    def attempt(source: Source) -> Body | Refused[Body]:
        try:
            found = reading.get(source)
        except SourceError as error:
            failures.append(error.message)
            raise
        return Refused(found) if isinstance(found, Failure) else found

    found = reading.ask(sources(server, 2), attempt)
    assert (found.data, found.source.mirror) == (_PAGE, "1")
    (told,) = failures
    assert said in told
    assert [len(server.requests(port)) for port in (0, 1)] == [1, 1]


def test_the_last_one_has_the_time_that_is_left(server, reader):
    """The other does not have it: the silent one is asked again, until the time is over, and no more."""
    server.always(0, NeverAnswer())
    server.always(1, Status(404))
    with pytest.raises(Unanswered, match=r"no answer within [12] s"):
        reader(stall_seconds=1.0, give_up_after=3.0).whole(sources(server, 2))
    assert [len(server.requests(port)) for port in (0, 1)] == [2, 1]


def test_a_lone_silent_one_is_given_up_in_time(server, reader):
    """When the user says so, and not after so many tries."""
    server.always(0, NeverAnswer())
    with pytest.raises(Unanswered, match="no answer within 2 s"):
        reader(give_up_after=2.0).whole(sources(server, 1))
    assert len(server.requests()) == 1


def test_an_answer_that_is_coming_may_come(server, reader):
    """It takes longer than the whole time, and is never silent for so long."""
    server.always(0, Rate(2000))
    assert reader(give_up_after=1.0).whole(sources(server, 1)).data == _PAGE
    assert len(server.requests()) == 1


class Nightly:
    """A clock that the test moves on."""

    def __init__(self) -> None:
        self.night = 0.0

    def now(self) -> float:
        return time.monotonic() + self.night


def test_a_night_in_the_middle_of_a_request_is_no_silence(server):
    """A process that slept for longer than its patience asks again, also sources that had failed before."""
    clock, asked = Nightly(), []

    def attempt(source: Source) -> str | Refused[str]:
        asked.append(source.mirror)
        if len(asked) < 3:
            clock.night += 8 * 3600.0
            return Refused(Failure(FailureKind.BROKEN, "the connection broke"))
        return "answer"

    transport = HttpxTransport(NetworkSettings())
    reading = Reader(transport, Policy(give_up_after=5.0, backoff_first=0.01), clock=clock)
    assert reading.ask(sources(server, 1), attempt) == "answer"
    assert asked == ["0", "0", "0"]
    transport.close()
