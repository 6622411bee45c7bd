"""One range request and the head of its answer, as values: what the core checks before a byte is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
