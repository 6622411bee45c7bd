"""An HTTP response: its head, and its body as a stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import httpx

from resume_dl.errors import SourceError, StalledError
from resume_dl.model.http import ResponseHead
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.transport.cancel_handle import CancelHandle
from resume_dl.transport.failures import FOREIGN, to_ours


class HttpResponse:
    """``ports.Response``; used by the thread that opened it."""

    def __init__(
        self,
        response: httpx.Response,
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
        self._closed = False
        headers = dict(response.headers.items())  # by lower-case name, joined where a name has several (RFC 9110 5.3)
        moved = None if url == asked else RedactedUrl(url)
        self._head = ResponseHead(response.status_code, headers, RedactedUrl(url).host, moved)

    @property
    def head(self) -> ResponseHead:
        """Status, headers and host of the final response."""
        return self._head

    def chunks(self) -> Iterator[bytes]:
        """Yield raw body bytes as they arrive, at most 256 KiB each; see ``ports.Response``."""
        # PooledTransport reads the time-out from this dictionary object before each read.
        self._timeouts["read"] = self._network.read_timeout
        return self._read()

    def _read(self) -> Iterator[bytes]:
        handle = self._handle
        if self._closed:  # a 401's body is read before the caller has it; another read would wait for more
            return
        try:
            for chunk in cast("httpx.SyncByteStream", self._response.stream):
                if handle.cancelled:
                    break
                yield chunk
        except FOREIGN as error:
            if not handle.cancelled:
                raise self._broken(error) from error
        finally:
            self.close()

    def explain(self, why: str) -> None:
        """Add to the head why the server got no other login."""
        self._head = replace(self._head, login=why)

    def drain(self, most: int) -> None:
        """Read a short body to its end, so that the connection can be reused; errors are ignored."""
        with contextlib.suppress(SourceError):
            for chunk in self._read():
                most -= len(chunk)
                if most < 0:
                    break
        self.close()

    def close(self) -> None:
        """Release the connection, or close it if the body was not read to its end. Never raises."""
        self._closed = True
        with contextlib.suppress(Exception):  # an error of closing does not affect the received bytes
            self._response.close()
        self._handle.detach()

    def _broken(self, error: Exception) -> SourceError:
        host = self._head.final_host
        if isinstance(error, httpx.TimeoutException):
            return StalledError(f"{host}: no data for {self._network.read_timeout:g} s", source=self._source)
        return to_ours(error, host=host, source=self._source, network=self._network)
