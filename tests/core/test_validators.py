"""What binds the bytes of a file without a digest, and what asks later whether it has changed."""

from __future__ import annotations

from core.line import Line
from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.budget import Budget
from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import MIB, Policy
from resume_dl.engine.worker import conditional


def started(line: Line, validator: str | None, cache_validator: str | None) -> None:
    line.tell(ev.ResponseStarted(0, 100 * MIB, validator, cache_validator=cache_validator))


def test_a_slow_stream_is_not_given_up_for_its_own_host() -> None:
    """One connection has a file without a digest: closed to make room, it could only begin again at the first byte."""
    policy = Policy(connections=1, sync_seconds=1e9)
    budget = Budget(policy)
    line = Line(digest=False, policy=policy, budget=budget)
    line.respond()
    for second in range(1, 2 * round(policy.slow_seconds)):
        line.now = float(second)
        line.bytes_to(0, second * 1000)
        budget.note_speed("a", MIB, steady=True)
        line.keep(line.download.fill(line.now))
    assert line.of(act.CloseConnection, ever=True) == []


def test_a_weak_validator_binds_nothing():
    """It is kept to ask for changes; after a break the file begins again, without If-Range."""
    line = Line(size=None, digest=False)
    started(line, None, 'W/"one"')
    line.bytes_to(0, 10 * MIB)
    assert (line.download.validator, line.download.cache_validator) == (None, 'W/"one"')
    line.close(0, kind=FailureKind.BROKEN)
    assert line.of(act.DiscardPieces)
    assert line.download.cache_validator is None
    line.wait()
    (again,) = line.of(act.OpenRange)
    assert (again.start, again.if_range) == (0, None)


def test_a_strong_validator_is_both():
    line = Line(size=None, digest=False)
    started(line, '"one"', '"one"')
    assert line.download.validator == line.download.cache_validator == '"one"'


def test_conditional_requests():
    """A tag of either kind goes into If-None-Match, a date into If-Modified-Since."""
    assert conditional('W/"one"') == {"If-None-Match": 'W/"one"'}
    assert conditional('"one"') == {"If-None-Match": '"one"'}
    assert conditional("Fri, 01 Jan 2021 00:00:00 GMT") == {"If-Modified-Since": "Fri, 01 Jan 2021 00:00:00 GMT"}
    assert conditional(None) == {}
