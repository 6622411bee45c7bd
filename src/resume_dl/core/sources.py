"""What one download knows of its sources, and how it answers their failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import Policy

_NEVER_FOR_THIS_FILE = frozenset(
    {
        FailureKind.LACKS,
        FailureKind.REFUSED,
        FailureKind.BLOCKED,
        FailureKind.CONTENT,
        FailureKind.LIED,
        FailureKind.PORTAL,
        FailureKind.FATAL,
    }
)
_HOST_RESTS = frozenset({FailureKind.THROTTLED, FailureKind.UNREACHABLE})
OF_THE_HOST = frozenset(
    {FailureKind.UNREACHABLE, FailureKind.BROKEN, FailureKind.STALLED, FailureKind.SERVER_ERROR, FailureKind.THROTTLED}
)
"""Failures that say something about the host's health; the others concern one file."""
_AS_ONE_STREAM = frozenset({FailureKind.RANGE_IGNORED, FailureKind.RANGE_WRONG})


@dataclass(slots=True, eq=False)
class SourceState:
    """One source of one file. Counts in bytes, ``not_before`` on the injected clock."""

    label: str
    """The redacted URL: what binds the bytes of a file that has no digest."""
    host: str
    connections: int | None = None
    """The mirror's own limit for its host."""
    knows: bool = False
    """Whether the caller's copy came from it: it has the first try, as it may answer 304."""
    dropped: Failure | None = None
    quarantined: bool = False
    """It gave wrong bytes."""
    one_stream: bool = False
    """It cannot give ranges: only the whole file, from 0, over one connection."""
    gives_ranges: bool = False
    """It has said so, or given one."""
    alone: bool = False
    """It would not take a second connection for a file without a digest."""
    not_before: float = 0.0
    failures_in_a_row: int = 0
    waited: float = 0.0
    """Seconds of the last wait for its answer, successful or not."""
    asked: int = 0
    """Requests that it was sent in this run."""
    received: int = 0
    answered_by: set[str] = field(default_factory=set)
    """The hosts (``host[:port]``) whose answers were accepted, redirects followed."""
    failures: Counter[str] = field(default_factory=Counter)
    last_failure: Failure | None = None

    @property
    def usable(self) -> bool:
        """Whether it may still be used for this file in this run."""
        return self.dropped is None and not self.quarantined

    @property
    def has_another_size(self) -> bool:
        """Whether it was dropped only because its file is not as long as ours was thought to be."""
        return self.dropped is not None and self.dropped.size is not None

    def progressed(self) -> None:
        """Take received bytes: its failures in a row end."""
        self.failures_in_a_row = 0

    def failed(
        self,
        failure: Failure,
        now: float,
        policy: Policy,
        jitter: Callable[[], float],
        *,
        whole: bool = False,
        host_failures: int = 0,
    ) -> float:
        """Take a failure; return until when the whole host has to rest (0 for no rest).

        ``whole``: the request was for the whole file, as one stream. Simultaneous ranges are refused together, which
        is not a failure of the stream that follows them. ``host_failures``: failures of the host in a row, for this
        file and others.
        """
        if self.dropped is None:  # another connection may break after the source has said that it lacks the file
            self.last_failure = failure
        self.failures[failure.kind.value] += 1
        if failure.kind in _NEVER_FOR_THIS_FILE:
            self.dropped = failure
            return 0.0
        if failure.kind in _AS_ONE_STREAM:
            if whole:
                self.dropped = failure
            self.one_stream = True
            return 0.0
        if failure.kind is FailureKind.CHANGED:
            changes = self.failures[failure.kind.value]
            if changes > 1:  # once a file is replaced; one that is another at each request is not asked for at once
                self.not_before = now + jitter() * min(
                    policy.backoff_most, policy.backoff_first * 2 ** min(changes, 30)
                )
            return 0.0
        if failure.kind is FailureKind.SLOW:
            return 0.0
        row = min(max(self.failures_in_a_row, host_failures), 30)
        delay = jitter() * min(policy.backoff_most, policy.backoff_first * 2**row)
        self.failures_in_a_row += 1
        broke = whole and self.one_stream and failure.kind in {FailureKind.BROKEN, FailureKind.STALLED}
        if broke and self.failures_in_a_row >= policy.one_stream_failures:
            self.dropped = failure
        if failure.kind is FailureKind.THROTTLED and failure.retry_after is not None:
            delay = max(delay, min(failure.retry_after, policy.retry_after_most))
        self.not_before = now + delay
        return self.not_before if failure.kind in _HOST_RESTS else 0.0
