"""A range request and the head of its response, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from resume_dl.model.url import RedactedUrl


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """A GET for bytes ``[start, end)`` of one URL; ``end`` None means to the end of the file.

    ``if_range`` is a strong validator (RFC 9110 13.1.5); ``headers`` are further ones (conditional requests).
    With ``whole`` no Range header is sent at all (a source that ignores ranges, or one request for a small file).
    ``packed`` allows a gzip body, which the caller unpacks: for pages, never for files.
    ``patience``: seconds allowed without a byte, if less than the connection's own limit.
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
    """Status and headers (lower-case names) of the response after redirects; ``final_host`` has sent it.

    ``final_url`` is its URL after a redirect; None without one.
    """

    status: int
    headers: Mapping[str, str]
    final_host: str = ""
    final_url: RedactedUrl | None = None
    login: str = ""
    """Of a 401: why no other login was sent; empty if there is nothing to say."""


@dataclass(frozen=True, slots=True)
class CacheHeaders:
    """The cache headers of a response: validators and freshness (RFC 9111).

    ``max_age`` in seconds from the response on; None if the server states none.
    """

    etag: str = ""
    """Weak ones too: they are used only to ask whether the whole file has changed."""
    last_modified: str = ""
    max_age: float | None = None

    @property
    def validator(self) -> str | None:
        """The stronger validator, or None (RFC 9110 13.1.3)."""
        return self.etag or self.last_modified or None

    def conditions(self) -> dict[str, str]:
        """Headers that request the file only if it has changed (RFC 9110 13.1.2, 13.1.3)."""
        both = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in both.items() if value}

    def confirmed(self, said: CacheHeaders) -> CacheHeaders:
        """The headers of a copy after a 304 with headers ``said``: its freshness if stated, else the old one.

        The validators stay. RFC 9111 3.2, 4.3.4.
        """
        return self if said.max_age is None else replace(self, max_age=said.max_age)


def by_validator(validator: str | None) -> CacheHeaders:
    """Cache headers with only this validator."""
    is_tag = validator is not None and validator.startswith(('"', 'W/"'))
    return CacheHeaders(etag=validator or "") if is_tag else CacheHeaders(last_modified=validator or "")
