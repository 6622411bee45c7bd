"""Who is asked next for a page."""

from __future__ import annotations

from resume_dl.core.asking import TRIES, Ask, Rest, next_to_ask
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import Policy
from resume_dl.core.sources import SourceState

BROKEN = Failure(FailureKind.BROKEN, "broken")
LACKS = Failure(FailureKind.LACKS, "lacks it")


def two() -> list[SourceState]:
    return [SourceState("one", "one"), SourceState("two", "two")]


def fail(source: SourceState, failure: Failure, now: float = 0.0, jitter: float = 1.0) -> None:
    source.failed(failure, now, Policy(), lambda: jitter, whole=True)


def test_in_their_order():
    assert next_to_ask(two(), 0.0, {}) == Ask(0)


def test_who_lacks_it_is_not_asked_again():
    sources = two()
    fail(sources[0], LACKS)
    assert next_to_ask(sources, 0.0, {}) == Ask(1)
    fail(sources[1], LACKS)
    assert next_to_ask(sources, 0.0, {}) is None


def test_who_failed_least():
    """A failure makes the next one first, and two failures there bring the first one back."""
    sources = two()
    fail(sources[0], BROKEN, jitter=0.0)
    assert next_to_ask(sources, 0.0, {}) == Ask(1)
    fail(sources[1], BROKEN, jitter=0.0)
    fail(sources[1], BROKEN, jitter=0.0)
    assert next_to_ask(sources, 0.0, {}) == Ask(0)


def test_a_rest_until_the_first_may_be_asked():
    sources = two()
    fail(sources[0], BROKEN, now=10.0)
    fail(sources[1], BROKEN, now=11.0)
    assert next_to_ask(sources, 10.0, {}) == Rest(10.5)
    assert next_to_ask(sources, 10.5, {}) == Ask(0)


def test_the_end():
    """Each source has so many failures; then nobody is left."""
    sources = two()[:1]
    for _ in range(TRIES):
        assert next_to_ask(sources, 0.0, {}) == Ask(0)
        fail(sources[0], BROKEN, jitter=0.0)
    assert next_to_ask(sources, 0.0, {}) is None


def test_fewer_tries():
    """For what can be done without."""
    sources = two()
    fail(sources[0], BROKEN, jitter=0.0)
    assert next_to_ask(sources, 0.0, {}, tries=1) == Ask(1)
    fail(sources[1], BROKEN, jitter=0.0)
    assert next_to_ask(sources, 0.0, {}, tries=1) is None


def test_a_host_that_fails_for_others_comes_last():
    sources = two()
    assert next_to_ask(sources, 0.0, {"one": 1}) == Ask(1)
    assert next_to_ask(sources, 0.0, {"one": 1, "two": 1}) == Ask(0)


def test_nobody():
    assert next_to_ask([], 0.0, {}) is None
