"""Results of small requests: a body, a part of a file, a refusal, or no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.errors import no_network
from resume_dl.model.artifact import Source
from resume_dl.model.http import ResponseHead
from resume_dl.model.url import RedactedUrl

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Body:
    """A complete answer. ``url`` is its URL after redirects, to which its relative links refer."""

    data: bytes
    content_type: str
    url: RedactedUrl
    source: Source
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The answer's headers, names in lower case."""
    received: int = 0
    """Size of the body as transferred, compressed or not."""
    unchanged: bool = False
    """Whether the server has confirmed the caller's copy (304); ``data`` is then empty."""


@dataclass(frozen=True, slots=True)
class Part:
    """A range of a file, the file's size, and the validator that binds further ranges to the same version."""

    data: bytes
    size: int
    validator: str | None
    answered_by: str = ""
    """The host that sent the bytes, after redirects."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The start of an answer of any status, with its times in seconds."""

    head: ResponseHead
    first_byte: float
    """From the request, new connection included, to the head of the answer."""
    data: bytes = b""
    seconds: float = 0.0
    """From the head to the last byte received."""
    whole: bool = False
    """Whether the body ended by itself."""
    failure: Failure | None = None
    """Why the body ended early, if it broke off."""


@dataclass(frozen=True, slots=True)
class Refused(Generic[T]):
    """The result of an attempt whose answer was unusable."""

    failure: Failure
    progressed: bool = False
    """Whether bytes of it were kept, so that earlier failures no longer count."""


class Unanswered(Exception):  # noqa: N818 - a result, from which the caller makes a user-facing error
    """No source supplied it; ``failures`` has the last failure of each source."""

    def __init__(self, failures: Sequence[tuple[Source, Failure]]) -> None:
        super().__init__()
        self.failures = tuple(failures)

    @property
    def kinds(self) -> frozenset[FailureKind]:
        """The failure kinds of all sources."""
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
