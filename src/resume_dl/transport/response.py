"""An answer: its head, and its body as it comes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import cast

import httpcore

from resume_dl.errors import SourceError, StalledError
from resume_dl.model.http import ResponseHead
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.transport.abortable_stream import AbortableStream
from resume_dl.transport.cancel_handle import CancelHandle
from resume_dl.transport.failures import FOREIGN, to_ours


class HttpResponse:
    """``ports.Response``; used by the thread that opened it."""

    def __init__(
        self,
        response: httpcore.Response,
        handle: CancelHandle,
        timeouts: dict[str, float | None],
        *,
        url: str,
        asked: str,
        source: str,
        network: NetworkSettings,
    ) -> None:
        self._response = response
        self._handle = handle
        self._timeouts = timeouts
        self._source = source
        self._network = network
        stream = response.extensions.get("network_stream")
        self._stream = stream if isinstance(stream, AbortableStream) else None
        headers = _headers_of(response)
        if self._stream is not None and self._stream.body.length is not None:
            headers["content-length"] = str(self._stream.body.length)  # httpcore was given 0
        moved = None if url == asked else RedactedUrl(url)
        self._head = ResponseHead(response.status, headers, RedactedUrl(url).host, moved)

    @property
    def head(self) -> ResponseHead:
        """Status, headers and host of the last answer."""
        return self._head

    def chunks(self) -> Iterator[bytes]:
        """Raw body bytes as they come, at most 256 KiB each; see ``ports.Response``."""
        # httpcore reads the time-out of a body from this very dictionary when it waits for the first byte.
        self._timeouts["read"] = self._network.read_timeout
        return self._read()

    def _read(self) -> Iterator[bytes]:
        handle = self._handle
        try:
            for chunk in self._received():
                if handle.cancelled:
                    break
                yield chunk
        except FOREIGN as error:
            if not handle.cancelled:
                raise self._broken(error) from error
        finally:
            self.close()

    def _received(self) -> Iterator[bytes]:
        """The body past httpcore if it is taken out there, then what httpcore has of it.

        That comes also where it is empty: only after its end does httpcore use the connection again.
        """
        if self._stream is not None:
            while chunk := self._stream.read_body(self._network.read_timeout):
                yield chunk
        yield from cast("Iterator[bytes]", self._response.stream)

    def drain(self, most: int) -> None:
        """Read a short body to its end, so that the connection can be used again; give up silently."""
        with contextlib.suppress(SourceError):
            for chunk in self._read():
                most -= len(chunk)
                if most < 0:
                    break
        self.close()

    def close(self) -> None:
        """Give the connection back, or drop it if the body was not read to its end. Never raises."""
        with contextlib.suppress(Exception):  # an error here says nothing of the bytes that came
            self._response.close()
        self._handle.detach()

    def _broken(self, error: Exception) -> SourceError:
        host = self._head.final_host
        if isinstance(error, httpcore.TimeoutException):
            return StalledError(f"{host}: no byte came for {self._network.read_timeout:g} s", source=self._source)
        return to_ours(error, host=host, source=self._source, network=self._network)


def _headers_of(response: httpcore.Response) -> dict[str, str]:
    """By lower-case name; the values of fields of one name are joined (RFC 9110 5.3)."""
    headers: dict[str, str] = {}
    for name, value in response.headers:
        key, text = _text(name).lower(), _text(value)
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
