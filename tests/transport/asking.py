"""Requests in one line."""

from __future__ import annotations

from typing import Any

from resume_dl.model.http import RangeRequest
from resume_dl.model.url import RedactedUrl
from resume_dl.transport.client import HttpTransport


def ask(url: str, **options: Any) -> RangeRequest:
    """A request for the whole file unless a range is named."""
    options.setdefault("whole", "start" not in options)
    return RangeRequest(RedactedUrl(url), **options)


def body_of(transport: HttpTransport, url: str, **options: Any) -> bytes:
    response = transport.exchange(ask(url, **options)).open()
    try:
        return b"".join(response.chunks())
    finally:
        response.close()
