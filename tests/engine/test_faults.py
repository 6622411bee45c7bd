"""Every fault that a mirror is known for, with that mirror alone and with a good one beside it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from engine.running import DATA, KIB, MIB, NAME, artifact
from faults.behaviours import (
    Answer,
    ChangingETag,
    Drop,
    Flip,
    Gzip,
    IgnoreRange,
    Multipart,
    NeverAnswer,
    Ok,
    Page,
    RangeNotSatisfiable,
    Redirect,
    Stall,
    Status,
    Step,
    Truncate,
    WrongContentLength,
    WrongContentRange,
    times,
)
from resume_dl.errors import DigestMismatchError, ResumeDLError, SourcesExhaustedError


@dataclass(frozen=True)
class NoRange:
    """416 to every range; a request for the whole file is answered."""

    def apply(self, answer: Answer) -> None:
        if answer.status == 206:
            RangeNotSatisfiable().apply(answer)


@dataclass(frozen=True)
class Row:
    """What a mirror does, and what is wanted of us when there is no other.

    ``error`` None: the file arrives. ``waste``: most bytes that the server may have sent beyond the file, in all
    its runs. ``requests``: the most that may be asked. ``kept``: at least so many bytes are safe after the error.
    """

    name: str
    steps: list[Step]
    error: type[ResumeDLError] | None = None
    says: str = ""
    requests: int = 40
    waste: int = 0
    kept: int = 0


BUFFERS = MIB
"""What may be under way to us when we hang up: socket buffers of both sides, for two connections."""

SHORTENED = 256 * KIB
"""What a server has sent beyond the end of a lease that was shortened meanwhile: helping depends on who is fast."""
ROWS = [
    Row("drops", [Drop(after=200 * KIB)]),
    Row("drops hard", [Drop(after=200 * KIB, how="rst")]),
    Row("stalls", [Stall(after=700 * KIB)]),
    Row("stalls once", [Stall(after=100 * KIB), Ok()]),
    Row("a web page", [Page()], SourcesExhaustedError, "web page", requests=2, waste=1000),
    Row("ignores Range", [IgnoreRange()], waste=BUFFERS, requests=3),
    Row(
        "drops once and ignores Range",
        [IgnoreRange(), (IgnoreRange(), Drop(after=MIB)), (IgnoreRange(), Drop(after=MIB)), IgnoreRange()],
        waste=2 * MIB + BUFFERS,
        requests=5,
    ),
    Row("one byte flipped", [Flip(MIB)], DigestMismatchError, "digest", waste=len(DATA)),
    # in whichever of the first ranges arrives first
    Row("bytes flipped once", [Flip(*range(100, len(DATA), MIB // 8)), Ok()], DigestMismatchError, "digest"),
    Row("wrong Content-Range", [WrongContentRange(shift=5)], waste=BUFFERS),
    Row("bytes of another range", [WrongContentRange(shift=5, body=True)], waste=BUFFERS),
    Row("another total", [WrongContentRange(total=7)], SourcesExhaustedError, "7 bytes", requests=2, waste=BUFFERS),
    Row("503 twice, Retry-After", [*times(2, Status(503, retry_after=1)), Ok()], waste=100),
    Row("503 for ever", [Status(503, retry_after=1)], SourcesExhaustedError, "status 503", waste=1000),
    Row("404", [Status(404)], SourcesExhaustedError, "does not have it", requests=2, waste=100),
    Row("403 page", [Page(403)], SourcesExhaustedError, "status 403", requests=2, waste=1000),
    Row("500 for ever", [Status(500)], SourcesExhaustedError, "status 500", requests=400, waste=10_000),
    Row(
        "416 to every Range, drops",
        [(NoRange(), Drop(after=MIB))],
        SourcesExhaustedError,
        "ended before the body did",
        requests=400,
        waste=400 * MIB,
        kept=MIB,
    ),
    Row("an ETag for each request", [ChangingETag()]),
    Row("gzip", [Gzip()], SourcesExhaustedError, "encoded (gzip)", requests=2, waste=BUFFERS),
    Row("several parts", [Multipart()], waste=BUFFERS),
    Row("a copy half way through its sync", [Truncate(MIB)], SourcesExhaustedError, "1048576 bytes", waste=BUFFERS),
    Row("wrong Content-Length", [WrongContentLength(-3)], SourcesExhaustedError, "bytes", waste=BUFFERS),
    Row("redirects", [Redirect(f"/elsewhere/{NAME}")], waste=BUFFERS),
    Row("redirects in a circle", [Redirect(f"/{NAME}")], SourcesExhaustedError, "redirect", waste=10_000),
    Row("never answers", [NeverAnswer()], SourcesExhaustedError, requests=20),
]
IDS = [row.name for row in ROWS]


def serve(fault_server, row, ports=1):
    server = fault_server(ports=ports)
    server.put(f"/{NAME}", DATA)
    server.put(f"/elsewhere/{NAME}", DATA)
    server.script(0, row.steps, path=f"/{NAME}")
    return server


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_alone(fault_server, place, row):
    """The one mirror there is: the file arrives, or a clear error keeps what is right."""
    server = serve(fault_server, row)
    what = artifact(server.base())
    (outcome,) = place.run(what)
    if row.error is None:
        assert outcome.error is None
        assert (outcome.status, place.content()) == ("downloaded", DATA)
        assert place.left == []
    else:
        assert type(outcome.error) is row.error
        assert row.says in str(outcome.error)
        assert outcome.status == "failed"
        assert place.content() is None
        assert outcome.error.resumable_bytes >= row.kept
        assert bool(place.left) is bool(outcome.error.resumable_bytes)
    assert len(server.requests()) <= row.requests
    assert server.body_bytes() <= len(DATA) + row.waste + SHORTENED


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_with_a_good_one(fault_server, place, row):
    """The bad mirror first, a good one second: the file arrives, and is right."""
    server = serve(fault_server, row, ports=2)
    what = artifact(server.base(0), server.base(1))
    (outcome,) = place.run(what)
    assert outcome.error is None
    assert place.content() == DATA
    assert place.left == []
    assert len(server.requests()) <= max(row.requests, 40)
    assert sum(report.bytes for report in outcome.sources) >= len(DATA)


def test_without_any_server(fault_server, place):
    """Nobody listens: an error soon, which says that it is the line."""
    server = fault_server(ports=2)
    bases = [server.base(0), server.base(1)]
    for port in range(2):
        server.close_port(port)
    (outcome,) = place.run(artifact(*bases))
    assert isinstance(outcome.error, SourcesExhaustedError)
    assert "no source can be reached" in str(outcome.error)
    assert (outcome.reason, place.left) == ("unreachable", [])
