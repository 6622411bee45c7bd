"""The first bytes of a small file with a known digest, collected from interrupted answers, to continue from.

The digest of the whole file decides, so bytes from any source can be joined (RFC 9110 14.2, without If-Range). If
joined bytes are wrong, no single source is to blame. They are forgotten, and from then on each source continues only
its own bytes; a source whose own bytes do not fit together is asked for the whole file only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import KIB

LEAST_PROGRESS = 4 * KIB
"""Bytes that an answer has to add before it broke off, so that this is not counted as a failure of its source."""
_NO_RANGES = frozenset({FailureKind.RANGE_IGNORED, FailureKind.RANGE_WRONG})


@dataclass(frozen=True, slots=True)
class Beginning:
    """The bytes that a request to ``source`` continues; if empty, the whole file is requested."""

    source: str
    data: bytes = b""
    apart: bool = False
    """Whether all bytes came from this source."""

    def from_zero(self) -> Beginning:
        """For an answer that turns out to be the whole file."""
        return replace(self, data=b"")


class FilePrefix:
    """The prefix, for all sources or for each. Every call is short; callers hold their own lock.

    Bounded: the prefix only grows, up to the largest size that the caller allows, and is forgotten at most once for all
    sources together and once for each.
    """

    def __init__(self) -> None:
        self._apart = False
        self._whole: set[str] = set()
        """Sources that are only asked for the whole file."""
        self._prefixes: dict[str, bytes] = {}
        """By source; while sources share their bytes, all of them are under ``""``."""

    def beginning(self, source: str) -> Beginning:
        """What the next answer of ``source`` continues."""
        data = b"" if source in self._whole else self._prefixes.get(self._key(source), b"")
        return Beginning(source, data, self._apart)

    def broke(self, begun: Beginning, data: bytes) -> bool:
        """Keep ``data`` (from the file's first byte on) of an answer that broke off; whether it made progress."""
        if begun.data and not self._holds(begun):
            return False
        key = self._key(begun.source)
        added = len(data) - len(self._prefixes.get(key, b""))
        if added > 0:
            self._prefixes[key] = data
        return added >= LEAST_PROGRESS

    def refused(self, begun: Beginning, failure: Failure) -> Failure:
        """What an answer that was not used means for its source: one that cannot continue may give the whole file."""
        if not begun.data or failure.kind not in _NO_RANGES:
            return failure
        self._whole.add(begun.source)
        return replace(failure, kind=FailureKind.CHANGED)

    def wrong(self, begun: Beginning, failure: Failure) -> Failure:
        """Rule on a source whose answer made the file wrong; joined bytes are forgotten."""
        if not begun.data:
            return failure
        if begun.apart:
            self._whole.add(begun.source)
        elif not self._apart:
            self._apart = True
            self._prefixes.clear()
        return replace(failure, kind=FailureKind.CHANGED)

    def _key(self, source: str) -> str:
        return source if self._apart else ""

    def _holds(self, begun: Beginning) -> bool:
        """Whether the bytes that it continues were not forgotten meanwhile."""
        return begun.apart == self._apart and begun.source not in self._whole
