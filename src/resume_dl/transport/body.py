"""A body of announced length, read from its connection without httpx, httpcore and h11 in between.

They copy each byte four times and cost a few dozen calls a read, more than all the rest of a fast download together
(docs/performance.md). So they are asked for the head and the body's first bytes; the middle is read here, and h11's
own count of what is missing is lowered by what was read. The end, a connection that closes too early, a time-out and
every other trouble are left to them: the body ends, its connection goes back and errors are named as ever.

h11 has no public place for that count. Where a later version keeps it elsewhere, or the body's end is not told by a
Content-Length (RFC 9112 6.3), everything is read through httpx as before; a test says which way was taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import httpx

from resume_dl.transport.wire import Wire

MOST = 256 * 1024
"""Bytes of one read. Larger ones bring nothing (docs/performance.md), and sixteen connections hold 4 MiB so."""
_WAY = ("_httpcore_stream", "_stream", "_connection", "_h11_state")
"""From httpx's stream down to the h11 connection: each the next one's private name."""


def chunks_of(response: httpx.Response, timeout: float) -> Iterator[bytes]:
    """The raw body as it comes, at most ``MOST`` bytes each; ``timeout`` in seconds for each read.

    Raises what httpx raises. The first chunk comes through httpx, so that nothing is left in its buffers.
    """
    # httpx's stream itself: iter_raw does the same through one more layer for each chunk.
    for chunk in cast("httpx.SyncByteStream", response.stream):
        yield chunk
        yield from _middle(response, timeout)


def _middle(response: httpx.Response, timeout: float) -> Iterator[bytes]:
    """What can be read directly, h11's count kept right at every step; nothing where it cannot be done safely."""
    wire = response.extensions.get("network_stream")
    counter = _counter(response)
    if counter is None or not isinstance(wire, Wire):
        return
    while counter._remaining:  # noqa: SLF001 - see the module's text
        data = wire.read_or_keep_trouble(min(MOST, counter._remaining), timeout)  # noqa: SLF001
        if not data:
            return
        counter._remaining -= len(data)  # noqa: SLF001
        yield data


def _counter(response: httpx.Response) -> Any:
    """h11's reader of this body if it counts down a Content-Length and h11 holds nothing unread, else None."""
    step: Any = response.stream
    for name in _WAY:
        step = getattr(step, name, None)
    if getattr(step, "trailing_data", None) != (b"", False):
        return None
    reader = getattr(step, "_reader", None)
    counts = type(reader).__name__ == "ContentLengthReader" and isinstance(getattr(reader, "_remaining", None), int)
    return reader if counts else None
