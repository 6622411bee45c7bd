"""One range request and the head of its answer, as values: what the core checks before a byte is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from resume_dl.model.url import RedactedUrl


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """A GET for bytes ``[start, end)`` of one URL; ``end`` None means to the end of the file.

    ``if_range`` is a strong validator (RFC 9110 13.1.5); ``headers`` are further ones (conditional requests).
    With ``whole`` no Range header is sent at all (a source that ignores ranges, or one request for a small file).
    ``packed`` lets the body come in gzip, which the caller unpacks: for pages, never for files.
    ``patience``: seconds that may pass without a byte, where the connection's own settings allow more.
    """

    url: RedactedUrl
    start: int = 0
    end: int | None = None
    whole: bool = False
    if_range: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    packed: bool = False
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """Status and headers (lower-case names) of the answer after redirects; ``final_host`` is who sent it.

    ``final_url`` is the address that gave it, where a redirect led there; None for the one that was asked.
    """

    status: int
    headers: Mapping[str, str]
    final_host: str = ""
    final_url: RedactedUrl | None = None


@dataclass(frozen=True, slots=True)
class CacheHeaders:
    """What an answer says of asking for the same file again: its validators, and how long it is fresh (RFC 9111).

    ``max_age`` in seconds from the answer on; None where the server does not say.
    """

    etag: str = ""
    """Weak ones count too: they ask whether the whole file has changed, and bind no bytes."""
    last_modified: str = ""
    max_age: float | None = None

    @property
    def validator(self) -> str | None:
        """The better of the two validators, where there is one (RFC 9110 13.1.3)."""
        return self.etag or self.last_modified or None

    def conditions(self) -> dict[str, str]:
        """The headers that ask for the file only if it is another version (RFC 9110 13.1.2, 13.1.3)."""
        both = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in both.items() if value}

    def confirmed(self, said: CacheHeaders) -> CacheHeaders:
        """What holds of a copy after a 304 that said ``said``: its freshness, unless it leaves that out.

        The validators stay. RFC 9111 3.2, 4.3.4.
        """
        return self if said.max_age is None else replace(self, max_age=said.max_age)


def by_validator(validator: str | None) -> CacheHeaders:
    """Of an answer of which only this validator is known."""
    is_tag = validator is not None and validator.startswith(('"', 'W/"'))
    return CacheHeaders(etag=validator or "") if is_tag else CacheHeaders(last_modified=validator or "")
