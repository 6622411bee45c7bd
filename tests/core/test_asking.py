"""Who is asked next for a page."""

from __future__ import annotations

from typing import Any

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import Policy
from resume_dl.core.small_requests import TRIES, Ask, Rest, next_to_ask
from resume_dl.core.sources import SourceState

BROKEN = Failure(FailureKind.BROKEN, "broken")
LACKS = Failure(FailureKind.LACKS, "lacks it")


def two() -> list[SourceState]:
    return [SourceState("one", "one"), SourceState("two", "two")]


def fail(source: SourceState, failure: Failure, now: float = 0.0, jitter: float = 1.0) -> None:
    source.failed(failure, now, Policy(), lambda: jitter, whole=True)


def asked(*arguments: Any, **options: Any) -> int:
    """Whom to ask, whatever time it has."""
    found = next_to_ask(*arguments, **options)
    assert isinstance(found, Ask)
    return found.source


def test_in_their_order():
    assert asked(two(), 0.0, {}) == 0


def test_a_source_without_the_file_is_not_asked_again():
    sources = two()
    fail(sources[0], LACKS)
    assert asked(sources, 0.0, {}) == 1
    fail(sources[1], LACKS)
    assert next_to_ask(sources, 0.0, {}) is None


def test_the_source_with_the_fewest_failures():
    """A failure makes the next one first, and two failures there bring the first one back."""
    sources = two()
    fail(sources[0], BROKEN, jitter=0.0)
    assert asked(sources, 0.0, {}) == 1
    fail(sources[1], BROKEN, jitter=0.0)
    fail(sources[1], BROKEN, jitter=0.0)
    assert asked(sources, 0.0, {}) == 0


def test_a_rest_until_the_first_may_be_asked():
    sources = two()
    fail(sources[0], BROKEN, now=10.0)
    fail(sources[1], BROKEN, now=11.0)
    assert next_to_ask(sources, 10.0, {}) == Rest(10.5)
    assert asked(sources, 10.5, {}) == 0


def test_the_end():
    """Each source has so many failures; then nobody is left."""
    sources = two()[:1]
    for _ in range(TRIES):
        assert asked(sources, 0.0, {}) == 0
        fail(sources[0], BROKEN, jitter=0.0)
    assert next_to_ask(sources, 0.0, {}) is None


def test_fewer_tries():
    """For what can be done without."""
    sources = two()
    fail(sources[0], BROKEN, jitter=0.0)
    assert asked(sources, 0.0, {}, tries=1) == 1
    fail(sources[1], BROKEN, jitter=0.0)
    assert next_to_ask(sources, 0.0, {}, tries=1) is None


def test_a_host_that_fails_for_others_comes_last():
    sources = two()
    assert asked(sources, 0.0, {"one": 1}) == 1
    assert asked(sources, 0.0, {"one": 1, "two": 1}) == 0


def test_no_source_is_left():
    assert next_to_ask([], 0.0, {}) is None


STALLED = Failure(FailureKind.STALLED, "no byte")


def test_a_silent_one_makes_way_with_more_time_at_each_return():
    """10 s, then 20, where another may be asked; who is alone has as long as it takes."""
    sources = two()
    assert next_to_ask(sources, 0.0, {}, ends=600.0) == Ask(0, 10.0)
    fail(sources[0], STALLED, jitter=0.0)
    assert next_to_ask(sources, 0.0, {}, ends=600.0) == Ask(1, 10.0)
    fail(sources[1], STALLED, jitter=0.0)
    assert next_to_ask(sources, 0.0, {}, ends=600.0) == Ask(0, 20.0)
    fail(sources[1], LACKS)
    assert next_to_ask(sources, 0.0, {}) == Ask(0, None)
    assert next_to_ask(sources, 0.0, {}, tries=2) == Ask(0, 20.0)


def test_all_are_asked_before_the_time_is_over():
    """It is shared among those who were not asked yet; who was, is not asked again after it."""
    sources = [*two(), SourceState("three", "three")]
    assert next_to_ask(sources, 0.0, {}, ends=18.0) == Ask(0, 6.0)
    fail(sources[0], STALLED, now=6.0)
    assert next_to_ask(sources, 6.0, {}, ends=18.0) == Ask(1, 6.0)
    fail(sources[1], STALLED, now=18.0, jitter=0.0)
    assert next_to_ask(sources, 18.0, {}, ends=18.0) == Ask(2, 1.0)
    fail(sources[2], STALLED, now=19.0, jitter=0.0)
    assert next_to_ask(sources, 19.0, {}, ends=18.0) is None


def test_no_rest_beyond_the_end():
    sources = two()[:1]
    fail(sources[0], BROKEN, now=10.0)
    assert next_to_ask(sources, 10.0, {}, ends=10.2) == Rest(10.2)
