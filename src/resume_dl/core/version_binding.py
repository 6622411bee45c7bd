"""The version on disk of a file without a digest: one source and its strong validator (RFC 9110 8.8)."""

from __future__ import annotations

from collections.abc import Sequence

from resume_dl.core.events import Prepared, ResponseStarted
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import Policy
from resume_dl.core.sources import SourceState
from resume_dl.model.http import CacheHeaders, by_validator


class VersionBinding:
    """``source``: index of the only source that may continue the bytes on disk; always None ``by_digest``.

    ``validator``: for If-Range; None if the source sent none.
    """

    def __init__(self, sources: Sequence[SourceState], policy: Policy, *, by_digest: bool) -> None:
        self.source: int | None = None
        self.validator: str | None = None
        self.by_digest = by_digest
        self._sources = sources
        self._policy = policy
        self._said: CacheHeaders | None = None

    @property
    def said(self) -> CacheHeaders:
        """The validator for later conditional requests; None if its source sent none."""
        return self._said or by_validator(self.validator)

    def resume(self, event: Prepared) -> bool:
        """Take over an earlier run's binding; False if its bytes cannot be continued."""
        if self.by_digest:
            return True
        labels = [source.label for source in self._sources]
        if event.validator is None or event.bound_source is None or labels.count(event.bound_source) != 1:
            return False
        if event.ranges:  # without bytes, the validator may be that of an older file
            self.source, self.validator = labels.index(event.bound_source), event.validator
        return True

    def answered(self, source: int, event: ResponseStarted, *, holds_bytes: bool) -> bool:
        """Take the answer of a source; True if it binds the file from now on."""
        if self.by_digest:
            return False
        binds = self.validator is None or not holds_bytes
        if binds:
            self.source, self.validator = source, event.validator
        self._said = event.said  # one that continued was bound to the same version
        return binds

    def unchanged(self, failure: Failure) -> None:
        """The copy that the caller has is still the right one."""
        self._said = failure.said

    def breaks(self, source: int, failure: Failure, *, holds_bytes: bool) -> bool:
        """Whether this failure means that the bytes on disk cannot, or should not, be continued from its source."""
        if self.by_digest or source != self.source:
            return False
        own = self._sources[source]
        others = any(other.usable for other in self._sources if other is not own)
        unhealthy = own.failures_in_a_row >= self._policy.solo_failures and others
        resumable = self.validator is not None and not own.one_stream and own.usable
        return failure.kind is FailureKind.CHANGED or not holds_bytes or not resumable or unhealthy

    def clear(self) -> None:
        """Nothing is on disk."""
        self.source = self.validator = self._said = None
