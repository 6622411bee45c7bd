"""Heads of answers: what is believed, and what each lie or refusal means for its source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.responses import (
    Accepted,
    cache_headers,
    check_head,
    check_length,
    check_magic,
    retry_after,
    strong_validator,
)
from resume_dl.model.http import CacheHeaders, RangeRequest, ResponseHead
from resume_dl.model.url import RedactedUrl

URL = RedactedUrl("https://mirror.example/file.conda")
SIZE = 1000
TAG = '"one"'
MODIFIED = "Sat, 21 Nov 2026 08:00:00 GMT"
LATER = "Sat, 21 Nov 2026 08:00:01 GMT"


def request(start: int = 100, end: int | None = 200, **more: object) -> RangeRequest:
    return RangeRequest(URL, start, end, **more)


WHOLE = request(0, None, whole=True)
CONTINUED = request(if_range=TAG)
CONTINUED_BY_DATE = request(if_range=MODIFIED)
CONDITIONAL = request(0, None, whole=True, headers={"If-None-Match": TAG})


def partial(content_range: str, **headers: str) -> ResponseHead:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ResponseHead(206, {"content-range": content_range, **named})


def whole(**headers: str) -> ResponseHead:
    return ResponseHead(200, {name.replace("_", "-"): value for name, value in headers.items()})


ACCEPTED = [
    ("exact", request(), partial("bytes 100-199/1000"), SIZE, Accepted(100, 200, SIZE, None)),
    ("size learnt", request(), partial("bytes 100-199/1000"), None, Accepted(100, 200, SIZE, None)),
    ("unit in capitals", request(), partial("Bytes 100-199/1000"), SIZE, Accepted(100, 200, SIZE, None)),
    ("total *", request(), partial("bytes 100-199/*"), SIZE, Accepted(100, 200, SIZE, None)),
    (
        "length fits",
        request(),
        partial("bytes 100-199/1000", content_length="100"),
        SIZE,
        Accepted(100, 200, SIZE, None),
    ),
    (
        "length unreadable",
        request(),
        partial("bytes 100-199/1000", content_length="²"),
        SIZE,
        Accepted(100, 200, SIZE, None),
    ),
    ("to the end", request(900, None), partial("bytes 900-999/1000"), SIZE, Accepted(900, SIZE, SIZE, None)),
    (
        "to the end, size learnt",
        request(900, None),
        partial("bytes 900-999/1000"),
        None,
        Accepted(900, SIZE, SIZE, None),
    ),
    ("beyond the end", request(0, 4000), partial("bytes 0-999/1000"), None, Accepted(0, SIZE, SIZE, None)),
    ("strong tag", request(), partial("bytes 100-199/1000", etag=TAG), SIZE, Accepted(100, 200, SIZE, TAG)),
    (
        "identity",
        request(),
        partial("bytes 100-199/1000", content_encoding="Identity"),
        SIZE,
        Accepted(100, 200, SIZE, None),
    ),
    ("same tag", CONTINUED, partial("bytes 100-199/1000", etag=TAG), SIZE, Accepted(100, 200, SIZE, TAG)),
    ("tag not repeated", CONTINUED, partial("bytes 100-199/1000"), SIZE, Accepted(100, 200, SIZE, None)),
    (
        "date not repeated",
        CONTINUED_BY_DATE,
        partial("bytes 100-199/1000", etag=TAG),
        SIZE,
        Accepted(100, 200, SIZE, TAG),
    ),
    (
        "whole",
        WHOLE,
        whole(content_length="1000", last_modified=MODIFIED, date=LATER),
        SIZE,
        Accepted(0, SIZE, SIZE, MODIFIED),
    ),
    ("whole, no length", WHOLE, whole(), SIZE, Accepted(0, SIZE, SIZE, None)),
    ("whole, size learnt", WHOLE, whole(content_length="1000"), None, Accepted(0, SIZE, SIZE, None)),
    ("whole, nothing known", WHOLE, whole(), None, Accepted(0, None, None, None)),
    ("whole and empty", WHOLE, whole(content_length="0"), None, Accepted(0, 0, 0, None)),
]
K = FailureKind
REFUSED = [
    ("shifted", request(), partial("bytes 101-200/1000"), SIZE, K.RANGE_WRONG),
    ("from the start", request(), partial("bytes 0-99/1000"), SIZE, K.RANGE_WRONG),
    ("short", request(), partial("bytes 100-198/1000"), SIZE, K.RANGE_WRONG),
    ("long", request(), partial("bytes 100-200/1000"), SIZE, K.RANGE_WRONG),
    ("backwards", request(100, None), partial("bytes 100-98/1000"), SIZE, K.RANGE_WRONG),
    ("beyond its own total", request(), partial("bytes 100-199/150"), None, K.RANGE_WRONG),
    ("not to the end", request(900, None), partial("bytes 900-998/1000"), SIZE, K.RANGE_WRONG),
    ("another total", request(), partial("bytes 100-199/999"), SIZE, K.LACKS),
    ("total * and no size", request(), partial("bytes 100-199/*"), None, K.RANGE_WRONG),
    ("total * to the end, no size", request(100, None), partial("bytes 100-199/*"), None, K.RANGE_WRONG),
    ("no Content-Range", request(), ResponseHead(206, {}), SIZE, K.RANGE_WRONG),
    ("unreadable Content-Range", request(), partial("lines 1-2/3"), SIZE, K.RANGE_WRONG),
    ("endless number", request(), partial("bytes 100-" + "9" * 5000 + "/*"), SIZE, K.RANGE_WRONG),
    ("length does not fit", request(), partial("bytes 100-199/1000", content_length="99"), SIZE, K.RANGE_WRONG),
    ("a part where the whole was asked", WHOLE, partial("bytes 0-999/1000"), SIZE, K.RANGE_WRONG),
    ("several parts", request(), partial("", content_type="multipart/byteranges; boundary=x"), SIZE, K.RANGE_WRONG),
    ("the whole for a range", request(), whole(content_length="1000"), SIZE, K.RANGE_IGNORED),
    ("whole, other length", WHOLE, whole(content_length="999"), SIZE, K.LACKS),
    ("a web page", WHOLE, whole(content_type="Text/HTML; charset=utf-8"), SIZE, K.PORTAL),
    ("an XHTML page", WHOLE, whole(content_type="application/xhtml+xml"), SIZE, K.PORTAL),
    ("a web page as a part", request(), partial("bytes 100-199/1000", content_type="text/html"), SIZE, K.PORTAL),
    ("gzip", request(), partial("bytes 100-199/1000", content_encoding="gzip"), SIZE, K.CONTENT),
    ("gzip, whole", WHOLE, whole(content_encoding="GZIP"), SIZE, K.CONTENT),
    ("If-Range: the whole", CONTINUED, whole(content_length="1000"), SIZE, K.CHANGED),
    ("If-Range ignored, other tag", CONTINUED, partial("bytes 100-199/1000", etag='"two"'), SIZE, K.CHANGED),
    ("If-Range ignored, weak tag", CONTINUED, partial("bytes 100-199/1000", etag='W/"one"'), SIZE, K.CHANGED),
    (
        "If-Range ignored, other date",
        CONTINUED_BY_DATE,
        partial("bytes 100-199/1000", last_modified="Sat, 21 Nov 2026 09:00:00 GMT"),
        SIZE,
        K.CHANGED,
    ),
    ("304", CONDITIONAL, ResponseHead(304, {}), None, K.UNCHANGED),
    ("304 that nobody asked for", request(), ResponseHead(304, {}), SIZE, K.REFUSED),
    ("416, same size", request(), ResponseHead(416, {"content-range": "bytes */1000"}), SIZE, K.RANGE_WRONG),
    ("416, shorter", request(), ResponseHead(416, {"content-range": "bytes */90"}), SIZE, K.LACKS),
    ("416, size unknown", request(), ResponseHead(416, {"content-range": "bytes */90"}), None, K.RANGE_WRONG),
    ("416 bare", request(), ResponseHead(416, {}), SIZE, K.RANGE_WRONG),
    ("404", request(), ResponseHead(404, {}), SIZE, K.LACKS),
    ("410", request(), ResponseHead(410, {}), SIZE, K.LACKS),
    ("403", request(), ResponseHead(403, {}), SIZE, K.REFUSED),
    ("403 with a page", request(), ResponseHead(403, {"content-type": "Text/HTML; charset=x"}), SIZE, K.BLOCKED),
    ("403 of a bucket", request(), ResponseHead(403, {"content-type": "application/xml"}), SIZE, K.REFUSED),
    ("401 with a page", request(), ResponseHead(401, {"content-type": "text/html"}), SIZE, K.REFUSED),
    ("511", request(), ResponseHead(511, {"content-type": "text/html"}), SIZE, K.PORTAL),
    ("302 to nowhere with a page", request(), ResponseHead(302, {"content-type": "text/html"}), SIZE, K.PORTAL),
    ("401", request(), ResponseHead(401, {}), SIZE, K.REFUSED),
    ("302 left over", request(), ResponseHead(302, {}), SIZE, K.REFUSED),
    ("408", request(), ResponseHead(408, {}), SIZE, K.SERVER_ERROR),
    ("500", request(), ResponseHead(500, {}), SIZE, K.SERVER_ERROR),
    ("429", request(), ResponseHead(429, {}), SIZE, K.THROTTLED),
    ("503", request(), ResponseHead(503, {}), SIZE, K.THROTTLED),
]


@pytest.mark.parametrize(
    ("asked", "head", "size", "verdict"), [row[1:] for row in ACCEPTED], ids=[r[0] for r in ACCEPTED]
)
def test_accepted(asked: RangeRequest, head: ResponseHead, size: int | None, verdict: Accepted) -> None:
    """A body that is what was asked for may be written, from where to where it says."""
    assert check_head(asked, head, size) == verdict


@pytest.mark.parametrize(("asked", "head", "size", "kind"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused(asked: RangeRequest, head: ResponseHead, size: int | None, kind: FailureKind) -> None:
    """Nothing of any other answer is written, and its kind says what becomes of the source."""
    verdict = check_head(asked, head, size)
    assert isinstance(verdict, Failure)
    assert verdict.kind is kind
    assert "\n" not in verdict.message


@pytest.mark.parametrize("header", ["via", "Via", "x-squid-error", "x-cache", "proxy-status"])
def test_a_proxys_refusal_is_not_the_mirrors(header: str) -> None:
    """A block page that a proxy on the way sends does not count against the mirror behind it."""
    verdict = check_head(request(), ResponseHead(403, {"content-type": "text/html", header: "1.1 gate"}), SIZE)
    assert isinstance(verdict, Failure)
    assert verdict.kind is FailureKind.REFUSED


def test_a_proxy_that_wants_a_login_is_named() -> None:
    """With the setting for it, where the proxy asks for more than a password."""
    verdict = check_head(request(), ResponseHead(407, {"proxy-authenticate": "Negotiate, NTLM"}), SIZE)
    assert isinstance(verdict, Failure)
    assert verdict.kind is FailureKind.REFUSED
    assert "--proxy-auth ntlm or negotiate" in verdict.message


@pytest.mark.parametrize("page", [b"<html><body>", b"\n <!DOCTYPE html>", b"\xef\xbb\xbf<HTML lang=en>"])
def test_a_page_of_another_type_is_seen(page: bytes) -> None:
    """A page that is sent as a package's type is known by its first bytes, and told as what it is."""
    verdict = check_magic("a.conda", page)
    assert verdict is not None
    assert verdict.kind is FailureKind.PORTAL


@pytest.mark.parametrize(
    ("asked", "head", "stated"),
    [
        (request(), partial("bytes 100-199/999"), 999),
        (WHOLE, whole(content_length="999"), 999),
        (request(), ResponseHead(416, {"content-range": "bytes */90"}), 90),
        (request(), ResponseHead(404, {}), None),
    ],
)
def test_another_size_is_told(asked: RangeRequest, head: ResponseHead, stated: int | None) -> None:
    """A source that has another size is told apart from one that has nothing: the size may be ours that is wrong."""
    verdict = check_head(asked, head, SIZE)
    assert isinstance(verdict, Failure)
    assert verdict.size == stated


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 120 "}, 120.0),
        ({}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "²"}, None),
        ({"retry-after": "9" * 5000}, None),
        ({"retry-after": "Sat, 21 Nov 2026 08:01:30 GMT", "date": MODIFIED}, 90.0),
        ({"retry-after": "Sat, 21 Nov 2026 08:01:30", "date": MODIFIED}, 90.0),
        ({"retry-after": "Sat, 21 Nov 2026 07:00:00 GMT", "date": MODIFIED}, 0.0),
        ({"retry-after": "Sat, 21 Nov 2026 08:01:30 GMT"}, None),
        ({"retry-after": "Sat, 21 Nov 2026 08:01:30 +" + "9" * 30, "date": MODIFIED}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds, or a date against the server's own clock; what cannot be read is no wish."""
    assert retry_after(ResponseHead(503, headers)) == seconds
    verdict = check_head(request(), ResponseHead(429, headers), SIZE)
    assert isinstance(verdict, Failure)
    assert verdict.retry_after == seconds


@given(
    st.sampled_from([200, 206, 304, 416, 429, 503]),
    st.dictionaries(
        st.sampled_from(
            ["content-range", "content-length", "content-type", "content-encoding", "retry-after", "date", "etag"]
        ),
        st.one_of(st.text(max_size=30), st.from_regex(r"bytes \d+-\d+/(\d+|\*)", fullmatch=True), st.just(MODIFIED)),
    ),
    st.one_of(st.none(), st.integers(0, 300)),
    st.booleans(),
)
def test_no_response_head_crashes_the_check(
    status: int, headers: dict[str, str], size: int | None, everything: bool
) -> None:
    """Whatever a hostile server says, there is a verdict, and an accepted body lies where it was asked for."""
    asked = WHOLE if everything else request()
    verdict = check_head(asked, ResponseHead(status, headers), size)
    if isinstance(verdict, Accepted):
        assert verdict.start == asked.start
        assert verdict.end is None or asked.end is None or verdict.end <= asked.end
        assert size is None or verdict.size == size


@pytest.mark.parametrize(
    ("headers", "validator"),
    [
        ({"etag": TAG, "last-modified": MODIFIED}, TAG),
        ({"etag": 'W/"one"', "last-modified": MODIFIED, "date": LATER}, None),
        ({"etag": 'W/"one"'}, None),
        ({"last-modified": MODIFIED, "date": LATER}, MODIFIED),
        ({"last-modified": MODIFIED, "date": MODIFIED}, None),
        ({"last-modified": LATER, "date": MODIFIED}, None),
        ({"last-modified": MODIFIED, "date": "soon"}, None),
        ({"last-modified": MODIFIED}, None),
        ({"last-modified": "soon", "date": LATER}, None),
        ({"last-modified": ""}, None),
        ({}, None),
    ],
)
def test_validators(headers: dict[str, str], validator: str | None) -> None:
    """A strong tag, else a date at least a second before the answer; a weak tag cannot vouch for bytes."""
    assert strong_validator(ResponseHead(200, headers)) == validator


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"etag": 'W/"one"', "last-modified": MODIFIED}, CacheHeaders('W/"one"', MODIFIED)),
        ({"last-modified": MODIFIED, "date": MODIFIED}, CacheHeaders(last_modified=MODIFIED)),
        ({}, CacheHeaders()),
        ({"cache-control": "public, Max-Age=60"}, CacheHeaders(max_age=60.0)),
        ({"cache-control": 'max-age="60"', "age": "50"}, CacheHeaders(max_age=10.0)),
        ({"cache-control": "max-age=60", "age": "90"}, CacheHeaders(max_age=0.0)),
        ({"cache-control": "max-age=60", "age": "old"}, CacheHeaders(max_age=60.0)),
        ({"cache-control": "max-age=-1"}, CacheHeaders()),
        ({"cache-control": "max-age=soon, s-maxage=9"}, CacheHeaders()),
        ({"cache-control": "max-age=60, no-cache"}, CacheHeaders(max_age=0.0)),
        ({"cache-control": "no-store", "etag": '"one"'}, CacheHeaders('"one"', max_age=0.0)),
    ],
)
def test_validators_for_conditional_requests(headers: dict[str, str], said: CacheHeaders) -> None:
    """Whether a whole file has changed is asked by weak validators too, and not before it may have."""
    assert cache_headers(ResponseHead(200, headers)) == said


@pytest.mark.parametrize(
    ("filename", "first", "fits"),
    [
        ("a.conda", b"PK\x03\x04rest", True),
        ("a.conda", b"PK", True),
        ("a.conda", b"<htmx>", False),
        ("a.whl", b"PK\x05\x06", False),
        ("a.tar.bz2", b"BZh9", True),
        ("a.tar.bz2", b"\x1f\x8b", False),
        ("repodata.json.zst", b"\x28\xb5\x2f\xfd", True),
        ("repodata.json", b"anything", True),
        ("a.tar.bz2", b"", True),
    ],
)
def test_magic(filename: str, first: bytes, fits: bool) -> None:
    """The first bytes give away a page that pretends to be a package; a name without a known form says nothing."""
    verdict = check_magic(filename, first)
    assert (verdict is None) == fits
    assert verdict is None or verdict.kind is FailureKind.CONTENT


@pytest.mark.parametrize(("size", "largest"), [(None, 5), (5, 5), (0, 5), (5, None), (None, None)])
def test_a_file_that_is_not_too_long(size: int | None, largest: int | None) -> None:
    assert check_length(size, largest) is None


def test_a_file_that_is_too_long_is_not_the_file() -> None:
    """Its source is not asked for it again."""
    failure = check_length(6, 5)
    assert failure is not None
    assert (failure.kind, failure.message) == (
        FailureKind.CONTENT,
        "its file is larger than the 5 bytes that are allowed",
    )
