"""What binds the bytes of a file without a digest, and what asks later whether it has changed."""

from __future__ import annotations

from core.line import Line
from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import MIB, Policy
from resume_dl.core.scheduling.budget import Budget
from resume_dl.model.http import CacheHeaders, by_validator

DATE = "Fri, 01 Jan 2021 00:00:00 GMT"
WEAK = CacheHeaders('W/"one"', DATE, 60.0)
STRONG = CacheHeaders('"one"', DATE, 60.0)


def started(line: Line, validator: str | None, said: CacheHeaders) -> None:
    line.tell(ev.ResponseStarted(0, 100 * MIB, validator, said=said))


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
    started(line, None, WEAK)
    line.bytes_to(0, 10 * MIB)
    assert (line.download.validator, line.download.said) == (None, WEAK)
    line.close(0, kind=FailureKind.BROKEN)
    assert line.of(act.DiscardPieces)
    assert line.download.said.validator is None
    line.wait()
    (again,) = line.of(act.OpenRange)
    assert (again.start, again.if_range) == (0, None)


def test_a_strong_validator_is_both():
    line = Line(size=None, digest=False)
    started(line, '"one"', STRONG)
    assert line.download.validator == line.download.said.validator == '"one"'


def test_an_answer_that_continues_says_how_long_the_file_is_fresh():
    """The journal of an earlier run has kept the validator alone."""
    line = Line(size=None, digest=False, prepare=False)
    line.tell(ev.Prepared(((0, 10 * MIB),), 100 * MIB, '"one"', "https://a/f"))
    assert line.download.said == CacheHeaders(etag='"one"')
    started(line, '"one"', STRONG)
    assert line.download.said == STRONG


def test_an_unchanged_file_says_how_long_it_is_fresh_from_now_on():
    line = Line(size=None, digest=False)
    line.close(0, kind=FailureKind.UNCHANGED, said=STRONG)
    assert line.download.said == STRONG


def test_conditional_requests():
    """A tag of either kind goes into If-None-Match, a date into If-Modified-Since."""
    assert WEAK.conditions() == {"If-None-Match": 'W/"one"', "If-Modified-Since": DATE}
    assert by_validator('"one"').conditions() == {"If-None-Match": '"one"'}
    assert by_validator(DATE).conditions() == {"If-Modified-Since": DATE}
    assert by_validator(None).conditions() == {}


def test_the_source_of_the_kept_copy_is_asked_first():
    """It may say that nothing has changed; another one could only send the whole file."""
    line = Line(size=None, hosts="ab", digest=False, knows="b")
    (order,) = line.of(act.OpenRange)
    assert (order.source, order.whole) == (1, True)
    line.close(0, kind=FailureKind.LACKS)
    (order,) = line.of(act.OpenRange)
    assert order.source == 0


def test_the_source_of_the_kept_copy_is_waited_for_while_its_host_is_busy():
    policy = Policy(per_host=1)
    budget = Budget(policy)
    budget.host("b")
    budget.take("b")
    line = Line(size=None, hosts="ab", digest=False, knows="b", policy=policy, budget=budget)
    assert not line.of(act.OpenRange)
    budget.release("b")
    line.keep(line.download.fill(line.now))
    assert [order.source for order in line.of(act.OpenRange)] == [1]


def test_the_source_of_the_kept_copy_is_not_waited_for_while_its_host_rests():
    policy = Policy()
    budget = Budget(policy)
    budget.host("b")
    budget.failed("b", 0.0, rests_until=60.0)
    line = Line(size=None, hosts="ab", digest=False, knows="b", policy=policy, budget=budget)
    assert [order.source for order in line.of(act.OpenRange)] == [0]


def test_a_source_that_two_of_this_run_may_be_binds_nothing() -> None:
    """Addresses that differ only in a secret have one name in a journal: it begins again, and neither is blamed."""
    resumed = ev.Prepared(((0, MIB),), 100 * MIB, '"v"', "https://a/f", (("https://a/f", ((0, MIB),)),))
    line = Line(hosts="aa", digest=False, resumed=resumed)
    assert line.of(act.DiscardPieces) == [act.DiscardPieces()]
    assert [order.start for order in line.of(act.OpenRange)] == [0]
    line = Line(hosts="aa", resumed=resumed)
    assert line.download.resumed == MIB
    assert all(owner < 0 for owner in line.download._coverage.owners())
    line = Line(hosts="ab", resumed=resumed)
    assert [*line.download._coverage.owners()] == [0]
