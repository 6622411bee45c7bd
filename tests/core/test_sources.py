"""What each failure means for its source, for its host and for when it is asked again."""

from __future__ import annotations

import pytest

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import Policy
from resume_dl.core.sources import SourceState

POLICY = Policy()
BACKS_OFF = [FailureKind.UNREACHABLE, FailureKind.BROKEN, FailureKind.STALLED, FailureKind.SERVER_ERROR]
DROPPED = [FailureKind.LACKS, FailureKind.REFUSED, FailureKind.CONTENT, FailureKind.FATAL]


def fail(source: SourceState, kind: FailureKind, jitter: float = 1.0, after: float | None = None) -> float:
    return source.failed(Failure(kind, "why", after), 100.0, POLICY, lambda: jitter)


@pytest.mark.parametrize("kind", BACKS_OFF)
def test_back_off_doubles_up_to_its_most(kind: FailureKind) -> None:
    """Each failure in a row doubles the most that jitter chooses from; a host that nobody can reach rests as long."""
    source = SourceState("s", "h")
    waits = []
    for _ in range(9):
        rest = fail(source, kind)
        assert rest == (source.not_before if kind is FailureKind.UNREACHABLE else 0.0)
        waits.append(source.not_before - 100.0)
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert source.usable
    assert source.failures[kind.value] == 9


def test_jitter_is_full() -> None:
    """The wait is anything between nothing and the whole step."""
    source = SourceState("s", "h")
    fail(source, FailureKind.BROKEN, jitter=0.0)
    assert source.not_before == 100.0
    fail(source, FailureKind.BROKEN, jitter=0.25)
    assert source.not_before == 100.25


def test_progress_forgets() -> None:
    """After bytes came, back-off begins small again."""
    source = SourceState("s", "h")
    for _ in range(5):
        fail(source, FailureKind.BROKEN)
    source.progressed()
    fail(source, FailureKind.BROKEN)
    assert source.not_before == 100.5


@pytest.mark.parametrize("kind", DROPPED)
def test_never_for_this_file(kind: FailureKind) -> None:
    """A source that lacks, refuses, falsifies or cannot be trusted is not asked for this file again."""
    source = SourceState("s", "h")
    assert fail(source, kind) == 0.0
    assert not source.usable
    assert source.last_failure is source.dropped


@pytest.mark.parametrize("kind", [FailureKind.RANGE_IGNORED, FailureKind.RANGE_WRONG])
def test_without_ranges_then_without_use(kind: FailureKind) -> None:
    """A source whose ranges are wrong, however many were asked at once, is asked for one stream; then it is dropped."""
    source = SourceState("s", "h")
    for _ in range(3):
        fail(source, kind)
        assert source.one_stream
        assert source.usable
    source.failed(Failure(kind, "why"), 100.0, POLICY, lambda: 1.0, whole=True)
    assert not source.usable


@pytest.mark.parametrize(
    ("after", "rest"),
    [(None, 0.5), (7.0, 7.0), (0.0, 0.5), (0.1, 0.5), (120.0, 120.0), (86_400.0, 120.0)],
)
def test_throttled_hosts_rest(after: float | None, rest: float) -> None:
    """Retry-After is kept for the whole host, up to two minutes, and never less than back-off."""
    source = SourceState("s", "h")
    assert fail(source, FailureKind.THROTTLED, after=after) == 100.0 + rest
    assert source.not_before == 100.0 + rest


def test_a_changed_file_does_not_count_against_its_host() -> None:
    """The source is asked again at once, from the start."""
    source = SourceState("s", "h")
    fail(source, FailureKind.CHANGED)
    assert source.usable
    assert source.not_before == 0.0
    assert source.failures_in_a_row == 0


def test_a_file_that_changes_all_the_time_is_asked_for_less_and_less() -> None:
    """The second time and later there is a wait, whatever bytes came in between."""
    source = SourceState("s", "h")
    waits = []
    for _ in range(4):
        fail(source, FailureKind.CHANGED)
        source.progressed()
        waits.append(source.not_before)
    assert waits == [0.0, 102.0, 104.0, 108.0]


def test_quarantine_and_another_size() -> None:
    """Who gave wrong bytes is out; who was measured by a doubtful size can be told from who has nothing."""
    assert not SourceState("s", "h", quarantined=True).usable
    lacking, other = SourceState("s", "h"), SourceState("s", "h")
    fail(lacking, FailureKind.LACKS)
    other.failed(Failure(FailureKind.LACKS, "why", size=7), 0.0, POLICY, lambda: 1.0)
    assert (lacking.has_another_size, other.has_another_size) == (False, True)
    assert not SourceState("s", "h").has_another_size
