"""What a small request gives: a body, a part of a file, a refusal, or no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.errors import no_network
from resume_dl.model.artifact import Source
from resume_dl.model.url import RedactedUrl

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Body:
    """A whole answer. ``url`` is where it came from in the end, which relative links in it start from."""

    data: bytes
    content_type: str
    url: RedactedUrl
    source: Source
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the answer, their names in lower case."""
    received: int = 0
    """Bytes of the body as they came, packed or not."""
    unchanged: bool = False
    """The server says that the copy which the caller has is still the right one (304); ``data`` is empty."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of a file, its whole size, and what binds further ones to the same version."""

    data: bytes
    size: int
    validator: str | None
    answered_by: str = ""
    """The host that gave them, redirects followed."""


@dataclass(frozen=True, slots=True)
class Refused(Generic[T]):
    """What an attempt gives where the source answered, but not with what was wanted."""

    failure: Failure
    progressed: bool = False
    """Bytes of it are kept: the failures before are not counted any more."""


class Unanswered(Exception):  # noqa: N818 - a result that the caller makes an error of, with words for people
    """No source gave it; ``failures`` are the last of each source."""

    def __init__(self, failures: Sequence[tuple[Source, Failure]]) -> None:
        super().__init__()
        self.failures = tuple(failures)

    @property
    def kinds(self) -> frozenset[FailureKind]:
        """What went wrong, of all sources."""
        return frozenset(failure.kind for _, failure in self.failures)

    def __str__(self) -> str:
        names = tuple(dict.fromkeys(failure.unresolved for _, failure in self.failures))
        if names and all(names):
            return no_network(names, self.failures[0][1].message)
        texts = dict.fromkeys(_told(source, failure) for source, failure in self.failures)
        return "; ".join(texts) or "no source is known for it"


def _told(source: Source, failure: Failure) -> str:
    where = source.url.host or "this machine"
    return failure.message if failure.message.startswith(where) else f"{where}: {failure.message}"
