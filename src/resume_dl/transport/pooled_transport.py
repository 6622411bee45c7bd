"""httpx's transport interface over httpcore's pools, to which our network backend can be passed.

``httpx.HTTPTransport`` makes its own pools and has no parameter for a backend.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import cast

import httpcore
import httpx

from resume_dl.errors import ResumeDLError
from resume_dl.transport.abortable_stream import AbortableStream
from resume_dl.transport.proxy_connection import ProxyConnection

TRANSLATIONS: dict[type[Exception], type[httpx.TransportError]] = {
    httpcore.TimeoutException: httpx.TimeoutException,
    httpcore.ConnectTimeout: httpx.ConnectTimeout,
    httpcore.ReadTimeout: httpx.ReadTimeout,
    httpcore.WriteTimeout: httpx.WriteTimeout,
    httpcore.PoolTimeout: httpx.PoolTimeout,
    httpcore.NetworkError: httpx.NetworkError,
    httpcore.ConnectError: httpx.ConnectError,
    httpcore.ReadError: httpx.ReadError,
    httpcore.WriteError: httpx.WriteError,
    httpcore.ProxyError: httpx.ProxyError,
    httpcore.UnsupportedProtocol: httpx.UnsupportedProtocol,
    httpcore.ProtocolError: httpx.ProtocolError,
    httpcore.LocalProtocolError: httpx.LocalProtocolError,
    httpcore.RemoteProtocolError: httpx.RemoteProtocolError,
    httpcore.ConnectionNotAvailable: httpx.TransportError,
}
"""The exception of httpx for each of httpcore."""


class PooledTransport(httpx.BaseTransport):
    """Sends requests through one pool of httpcore's; may be used from any number of threads.

    Bodies of announced length are read past httpcore (``announced_body``). ``proxied``: the pool uses a proxy.
    """

    def __init__(self, pool: httpcore.ConnectionPool, *, proxied: bool = False) -> None:
        self._pool = pool
        self._proxied = proxied

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send ``request``. Returns its response with the body not read yet; ``close`` it, or read it to its end.

        ``request.extensions["timeout"]``: see httpx; its ``read`` may be changed before the body is read. Raises
        httpx.TransportError, and OSError, ValueError and our own errors unchanged.
        """
        url = request.url
        with translated(proxied=self._proxied):
            response = self._pool.handle_request(
                httpcore.Request(
                    request.method,
                    httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                    headers=request.headers.raw,
                    content=cast("httpx.SyncByteStream", request.stream),
                    extensions=request.extensions,
                )
            )
        stream = response.extensions.get("network_stream")
        if isinstance(stream, ProxyConnection):
            stream = stream.stream
        headers = response.headers
        if not isinstance(stream, AbortableStream):
            stream = None
        elif stream.body.length is not None:  # httpcore was given 0 in its place
            length = str(stream.body.length).encode()
            headers = [(name, length if name.lower() == b"content-length" else value) for name, value in headers]
        body = PooledBody(response, stream, request.extensions.get("timeout", {}))
        return httpx.Response(response.status, headers=headers, stream=body, extensions=response.extensions)

    def close(self) -> None:
        """Close all connections. Raises RuntimeError if a response is still open."""
        self._pool.close()


class PooledBody(httpx.SyncByteStream):
    """The raw body of one response, at most ``announced_body.MAX_READ`` bytes a chunk."""

    def __init__(
        self, response: httpcore.Response, stream: AbortableStream | None, timeouts: Mapping[str, float | None]
    ) -> None:
        self._response = response
        self._stream = stream
        self._timeouts = timeouts

    def __iter__(self) -> Iterator[bytes]:
        """Yield the body read past httpcore, if any, then httpcore's own body.

        The latter is read even if it is empty, because httpcore reuses the connection only after its end.
        """
        with translated():
            if self._stream is not None:
                while chunk := self._stream.read_body(self._timeouts.get("read")):
                    yield chunk
            yield from cast("Iterator[bytes]", self._response.stream)

    def close(self) -> None:
        """Release the connection, or close it if the body was not read to its end."""
        self._response.close()


@contextlib.contextmanager
def translated(*, proxied: bool = False) -> Iterator[None]:
    """Raise httpx's exceptions in place of httpcore's, which become their causes.

    ``proxied``: the answer may be a SOCKS proxy's, which is parsed with assertions and indices: a malformed one may
    raise any exception. It becomes httpx.ProxyError.
    """
    try:
        yield
    except Exception as error:
        kind = next((TRANSLATIONS[each] for each in type(error).__mro__ if each in TRANSLATIONS), None)
        if kind is not None:
            raise kind(str(error)) from error
        if not proxied or isinstance(error, (OSError, ValueError, ResumeDLError)):
            raise
        raise httpx.ProxyError("its answer cannot be read") from error
