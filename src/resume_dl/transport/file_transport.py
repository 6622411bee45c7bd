"""Exchanges for ``file://``: channels and mirrors on a disk or a share."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from resume_dl.errors import NetworkError
from resume_dl.model.http import RangeRequest, ResponseHead
from resume_dl.model.url import path_from_url, unc_host
from resume_dl.ports import Response

_CHUNK = 256 * 1024
_WINDOWS = sys.platform == "win32"


class FileExchange:
    """``ports.Exchange`` for a local file, with the response heads of an HTTP server."""

    def __init__(self, request: RangeRequest, shares: frozenset[str] = frozenset()) -> None:
        """``shares``: the hosts that may be asked for a file, which matters on Windows alone."""
        self._request = request
        self._shares = shares
        self._aborted = False

    def open(self) -> Response:
        """Open the file. Status 200, 206, 304, 404, 403 or 416. Raises NetworkError (invalid URL, read error)."""
        source = str(self._request.url)
        url = self._request.url.reveal()
        try:
            named = path_from_url(url, windows=_WINDOWS)
            self._check_share(named, source)
            path = Path(named)
            file = _opened(path)
        except ValueError as error:
            raise NetworkError(f"{error}", source=source, retryable=False, hint="Write it as file:///path.") from None
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return self._empty(404)
        except PermissionError:
            # Windows raises this for a folder too; so does a file below a folder that we may not enter.
            return self._empty(404 if os.path.isdir(path) else 403)  # noqa: PTH112 - Path.is_dir raises PermissionError
        except OSError as error:
            raise NetworkError(f"cannot read {source}: {error.strerror}", source=source) from error
        if file is None:
            return self._empty(404)
        try:
            return self._answer(file)
        except OSError as error:
            file.close()
            raise NetworkError(f"cannot read {source}: {error.strerror}", source=source) from error

    def _check_share(self, path: str, source: str) -> None:
        if _WINDOWS and (host := unc_host(path)) and host not in self._shares:
            why = f"{source}: your settings do not name {host}, and Windows would send it your login"
            hint = "name it on the command line, in condarc, pip.ini or mirrors.toml, or copy the file"
            raise NetworkError(why, source=source, retryable=False, hint=hint)

    def abort(self) -> None:
        """End the body at its next chunk; reads from a disk are short."""
        self._aborted = True

    def _answer(self, file: BinaryIO) -> Response:
        request = self._request
        status = os.fstat(file.fileno())  # of the open file: its path may name another file by now
        size, etag = status.st_size, f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
        headers = {"content-type": "application/octet-stream", "accept-ranges": "bytes", "etag": etag}
        asked = {name.lower(): value for name, value in request.headers.items()}
        if etag in (tag.strip() for tag in asked.get("if-none-match", "").split(",")):
            file.close()
            return self._empty(304, {"etag": etag})
        if request.whole or request.if_range not in {None, etag}:
            return self._body(200, headers | {"content-length": str(size)}, file, 0, size)
        end = size if request.end is None else min(request.end, size)
        if request.start >= end:
            file.close()
            return self._empty(416, {"content-range": f"bytes */{size}"})
        headers["content-range"] = f"bytes {request.start}-{end - 1}/{size}"
        headers["content-length"] = str(end - request.start)
        return self._body(206, headers, file, request.start, end)

    def _empty(self, status: int, headers: dict[str, str] | None = None) -> Response:
        head = ResponseHead(status, {"content-length": "0", **(headers or {})})
        return FileResponse(head, self, None, (0, 0), source=str(self._request.url))

    def _body(self, status: int, headers: dict[str, str], file: BinaryIO, start: int, end: int) -> Response:
        return FileResponse(ResponseHead(status, headers), self, file, (start, end), source=str(self._request.url))

    @property
    def aborted(self) -> bool:
        """Whether ``abort`` was called."""
        return self._aborted


def _opened(path: Path) -> BinaryIO | None:
    """Open the file for reading; None if it is not a regular file. Raises OSError.

    Reading a pipe or a device may block or never end.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    return None


class FileResponse:
    """``ports.Response`` for bytes ``[start, end)`` of an open file, which it owns."""

    def __init__(
        self, head: ResponseHead, exchange: FileExchange, file: BinaryIO | None, span: tuple[int, int], *, source: str
    ) -> None:
        self._head = head
        self._exchange = exchange
        self._file = file
        self._start, self._end = span
        self._source = source

    @property
    def head(self) -> ResponseHead:
        """Status and headers; ``final_host`` is empty."""
        return self._head

    def chunks(self) -> Iterator[bytes]:
        """The bytes, 256 KiB at a time. Raises NetworkError if the file cannot be read or became shorter."""
        left = self._end - self._start
        if self._file is None:
            return
        try:
            self._file.seek(self._start)
            while left and not self._exchange.aborted:
                chunk = self._file.read(min(_CHUNK, left))
                if not chunk:
                    raise NetworkError(f"{self._source} became shorter while it was read", source=self._source)
                left -= len(chunk)
                yield chunk
        except OSError as error:
            raise NetworkError(f"cannot read {self._source}: {error.strerror}", source=self._source) from error
        finally:
            self.close()

    def close(self) -> None:
        """Close the file. Never raises."""
        if self._file is not None:
            self._file.close()
            self._file = None
