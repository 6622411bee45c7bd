"""Checks of a response against its request, before a byte is written (RFC 9110: 14.4, 15.3.7, 15.5.17)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.model.http import CacheHeaders, RangeRequest, ResponseHead
from resume_dl.model.proxy_auth import wanted_by_status

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", re.IGNORECASE)
_UNSATISFIED = re.compile(r"bytes \*/([0-9]{1,18})", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,18}")
_PROXY_HEADERS = frozenset({"via", "x-squid-error", "x-cache", "x-cache-lookup", "proxy-status", "proxy-authenticate"})
"""Headers of intermediaries: a refusal that carries one says nothing about the mirror (RFC 9110 7.6.3)."""
STRONG_AFTER = 1.0
"""Seconds by which an answer's Date has to follow its Last-Modified: dates have whole seconds (RFC 9110 8.8.2.2)."""
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)
_MAGIC = {
    ".conda": b"PK\x03\x04",
    ".whl": b"PK\x03\x04",
    ".zip": b"PK\x03\x04",
    ".bz2": b"BZh",
    ".zst": b"\x28\xb5\x2f\xfd",
}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The body is bytes ``[start, end)`` of the file; ``end`` and ``size`` are None if the server states neither."""

    start: int
    end: int | None
    size: int | None
    validator: str | None


def check_head(request: RangeRequest, head: ResponseHead, size: int | None) -> Accepted | Failure:
    """Whether the body of this response may be written; ``size``: the file's, if known."""
    status, headers = head.status, head.headers
    if status == 206:
        return _check_body_kind(headers) or _other_version(request, head) or _check_partial(request, head, size)
    if status == 200:
        refused = _check_body_kind(headers)
        if refused:
            return refused
        if request.if_range is not None:
            return Failure(FailureKind.CHANGED, "the file has changed since its first bytes were received")
        if not request.whole:
            return Failure(FailureKind.RANGE_IGNORED, "answers a range with the whole file")
        return _check_whole(head, size)
    return _check_status(request, head, size)


def check_length(size: int | None, largest: int | None) -> Failure | None:
    """Whether a file of this size, as stated or received so far, is allowed; ``largest`` None: any size."""
    if size is None or largest is None or size <= largest:
        return None
    return Failure(FailureKind.CONTENT, f"its file is larger than the {largest} bytes that are allowed")


def check_magic(filename: str, first_bytes: bytes) -> Failure | None:
    """Check the first bytes against the file name's format; None if they match, or the name has no known format.

    A web page of another type is distinguished from other wrong bytes.
    """
    for suffix, magic in _MAGIC.items():
        if filename.endswith(suffix):
            if first_bytes[: len(magic)] == magic[: len(first_bytes)]:
                return None
            if _PAGE.match(first_bytes):
                return _portal()
            return Failure(FailureKind.CONTENT, f"what came is no {suffix} file")
    return None


def strong_validator(head: ResponseHead) -> str | None:
    """The validator for If-Range: a strong ETag, or a date that is a strong validator; None if there is neither.

    A date counts only without any ETag (RFC 9110 13.1.5), and only if the answer was made a second or more after it
    (8.8.2.2): a file that changes twice within a second has one Last-Modified for different bytes.
    """
    etag = head.headers.get("etag", "")
    if etag:
        return etag if etag.startswith('"') else None
    modified = head.headers.get("last-modified", "")
    changed, answered = _http_date(modified), _http_date(head.headers.get("date", ""))
    if changed is None or answered is None or (answered - changed).total_seconds() < STRONG_AFTER:
        return None
    return modified


def cache_headers(head: ResponseHead) -> CacheHeaders:
    """The validators, and how long the response is fresh: ``max-age`` less its ``Age`` in caches.

    ``no-cache`` and ``no-store`` come to 0 seconds (RFC 9111 4.2.1, 4.2.3, 5.2.2).
    """
    said = head.headers
    directives = [part.strip().lower() for part in said.get("cache-control", "").split(",")]
    max_age: float | None = None
    for directive in directives:
        name, _, value = directive.partition("=")
        number = value.strip().strip('"')
        if name.strip() == "max-age" and _NUMBER.fullmatch(number):
            age = said.get("age", "").strip()
            max_age = max(0.0, float(number) - (float(age) if _NUMBER.fullmatch(age) else 0.0))
        elif name.strip() in {"no-cache", "no-store"}:
            return CacheHeaders(said.get("etag", ""), said.get("last-modified", ""), 0.0)
    return CacheHeaders(said.get("etag", ""), said.get("last-modified", ""), max_age)


def gives_ranges(head: ResponseHead) -> bool:
    """Whether this response announces support for ranges, or is one (RFC 9110 14.3, 15.3.7)."""
    units = [unit.strip().lower() for unit in head.headers.get("accept-ranges", "").split(",")]
    return head.status == 206 or "bytes" in units


def _check_body_kind(headers: Mapping[str, str]) -> Failure | None:
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding not in {"", "identity"}:
        return Failure(FailureKind.CONTENT, f"the body is encoded ({encoding[:20]}) though identity was asked for")
    content_type = headers.get("content-type", "").strip().lower()
    if content_type.startswith("multipart/byteranges"):
        return Failure(FailureKind.RANGE_WRONG, "answers one range with several parts")
    return _portal() if _is_page(content_type) else None


def _is_page(content_type: str) -> bool:
    return content_type.strip().lower().startswith(("text/html", "application/xhtml"))


def _portal() -> Failure:
    return Failure(FailureKind.PORTAL, "a web page came instead of the file (the login page of this network?)")


def _check_partial(request: RangeRequest, head: ResponseHead, size: int | None) -> Accepted | Failure:
    match = _CONTENT_RANGE.fullmatch(head.headers.get("content-range", "").strip())
    if match is None:
        return Failure(FailureKind.RANGE_WRONG, "a partial answer without a readable Content-Range")
    start, end = int(match[1]), int(match[2]) + 1
    total = None if match[3] == "*" else int(match[3])
    if request.whole or start != request.start:
        return Failure(FailureKind.RANGE_WRONG, f"bytes from {start} came, from {request.start} were asked for")
    if size is not None and total is not None and total != size:
        return Failure(FailureKind.LACKS, f"its file has {total} bytes, ours {size}", size=total)
    known = total if size is None else size
    wanted_end = request.end if known is None or request.end is None else min(request.end, known)
    if wanted_end is None:
        wanted_end = known
    if end <= start or (wanted_end is not None and end != wanted_end) or (total is not None and end > total):
        return Failure(FailureKind.RANGE_WRONG, f"bytes to {end} came, to {wanted_end} were asked for")
    length = _content_length(head)
    if length is not None and length != end - start:
        return Failure(
            FailureKind.RANGE_WRONG, f"Content-Length {length} does not fit the range of {end - start} bytes"
        )
    if known is None:
        return Failure(FailureKind.RANGE_WRONG, "does not say how long the whole file is")
    return Accepted(start, end, known, strong_validator(head))


def _other_version(request: RangeRequest, head: ResponseHead) -> Failure | None:
    """Refuse a 206 with another validator than If-Range named: its server does not support If-Range."""
    asked = request.if_range
    if asked is not None:
        said = head.headers.get("etag" if asked.startswith('"') else "last-modified", asked)
        if said != asked:
            return Failure(FailureKind.CHANGED, "the file has changed since its first bytes were received")
    return None


def _check_whole(head: ResponseHead, size: int | None) -> Accepted | Failure:
    length = _content_length(head)
    if size is not None and length is not None and length != size:
        return Failure(FailureKind.LACKS, f"its file has {length} bytes, ours {size}", size=length)
    known = length if size is None else size
    return Accepted(0, known, known, strong_validator(head))


def _check_status(request: RangeRequest, head: ResponseHead, size: int | None) -> Failure:
    status = head.status
    if status == 304 and any(name.lower() in {"if-none-match", "if-modified-since"} for name in request.headers):
        return Failure(FailureKind.UNCHANGED, "has not changed", said=cache_headers(head))
    if status == 416:
        match = _UNSATISFIED.fullmatch(head.headers.get("content-range", "").strip())
        if match and size is not None and int(match[1]) != size:
            return Failure(FailureKind.LACKS, f"its file has {match[1]} bytes, ours {size}", size=int(match[1]))
        return Failure(FailureKind.RANGE_WRONG, f"cannot give bytes from {request.start} (status 416)")
    if status in {404, 410}:
        return Failure(FailureKind.LACKS, f"does not have it (status {status})")
    if status in {429, 503}:
        return Failure(FailureKind.THROTTLED, f"asks to wait (status {status})", retry_after=retry_after(head))
    page = _is_page(head.headers.get("content-type", ""))
    if status == 511 or (page and 300 <= status < 400):
        return Failure(FailureKind.PORTAL, f"this network wants a login first (status {status})")  # RFC 6585 6
    if status == 403 and page and not _PROXY_HEADERS.intersection(name.lower() for name in head.headers):
        return Failure(FailureKind.BLOCKED, "refuses with a page of its own (status 403): it may have blocked us")
    if status >= 500 or status == 408:
        return Failure(FailureKind.SERVER_ERROR, f"server error (status {status})")
    if status == 407:
        return Failure(FailureKind.REFUSED, wanted_by_status(head.headers.get("proxy-authenticate", "")))
    return Failure(FailureKind.REFUSED, f"refuses (status {status})" + (f": {head.login}" if head.login else ""))


def retry_after(head: ResponseHead) -> float | None:
    """Seconds that Retry-After names, as a number or a date against the answer's own Date (RFC 9110 10.2.3)."""
    text = head.headers.get("retry-after", "").strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    until, since = _http_date(text), _http_date(head.headers.get("date", ""))
    if until is None or since is None:
        return None
    return max(0.0, (until - since).total_seconds())


def _http_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=timezone.utc)


def _content_length(head: ResponseHead) -> int | None:
    text = head.headers.get("content-length", "").strip()
    return int(text) if _NUMBER.fullmatch(text) else None
