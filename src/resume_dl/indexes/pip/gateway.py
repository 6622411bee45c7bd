"""HTTP server on the loopback interface that is uv's only index; its pages are read by our rule of trust.

It serves pages (PEP 691 for indexes, HTML for find-links) whose links lead back to it, and the METADATA of every wheel
(PEP 658). It serves wheels only if source archives may be built, as builds may need them. An instance is for one Python
and offers only compatible files. It listens on 127.0.0.1, below an unguessable path. As a proxy it refuses every
request, so that uv cannot reach any other host.
"""

from __future__ import annotations

import io
import re
import secrets
import shutil
import socket
import socketserver
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import TracebackType
from typing import BinaryIO, cast, final
from urllib.parse import quote, unquote

from resume_dl.errors import ConfigurationError, ResumeDLError, internal_error
from resume_dl.indexes.pip.catalogue import Catalogue
from resume_dl.model.exclude_newer import UploadCutoff
from resume_dl.model.url import RedactedUrl, redact
from resume_dl.resolve.index_page import HTML_TYPE, JSON_TYPE, ListedFile, placeholder, render_html, render_json
from resume_dl.resolve.target import accepts_python
from resume_dl.threads import start_thread

_DIRECT = "direct"
_METADATA = ".metadata"
_NO_CUTOFF = UploadCutoff()
_PATIENCE = 10.0
"""Time limit in seconds for a connection to the loopback interface."""


@final
class Gateway:
    """Context manager that serves a catalogue. ``errors`` has the errors of its requests, in order."""

    def __init__(
        self, catalogue: Catalogue, *, python: str = "", with_files: bool = False, cutoff: UploadCutoff = _NO_CUTOFF
    ) -> None:
        """Bind to a port; raise ConfigurationError if the loopback interface is unusable, as ``__enter__`` does.

        ``python``: leave out files that refuse this version (the resolver respects only lower bounds); empty: offer
        all. ``with_files``: serve the files, too, for builds. ``cutoff``: leave out files of indexes that it does not
        allow; find-links pages have no upload times, and their files stay, as with uv.
        """
        self._catalogue = catalogue
        self._python = python
        self._with_files = with_files
        self._cutoff = cutoff
        self._lock = threading.Lock()
        self._files: list[ListedFile] = []
        self._numbers: dict[str, int] = {}
        try:
            self._server = _Server(("127.0.0.1", 0), _Handler)
        except OSError as error:
            raise _no_loopback(error) from error
        self._server.gateway = self
        self._prefix = f"/{secrets.token_urlsafe(24)}"
        self._thread: threading.Thread | None = None
        self.errors: list[BaseException] = []
        self.stray: set[str] = set()
        """Hosts that were requested through the proxy and refused."""
        self.left_out: dict[str, str] = {}
        """Files that are no longer offered: URL -> the Requires-Python of their METADATA."""

    def __enter__(self) -> Gateway:
        self._thread = start_thread(lambda: self._server.serve_forever(0.1), self._broke, name="gateway")
        try:  # the resolver would only report that there is no such package
            socket.create_connection(("127.0.0.1", self._server.server_port), timeout=_PATIENCE).close()
        except OSError as error:
            self.__exit__(None, None, None)
            raise _no_loopback(error) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        if self._thread is not None:
            self._thread.join()
        self._server.server_close()

    def _broke(self, error: BaseException) -> None:
        """Close the socket after the server has failed, so that the resolver's connections are refused at once."""
        self.errors.append(internal_error(error, "the index for uv"))
        self._server.server_close()

    # ------------------------------------------------------------------ URLs

    @property
    def proxy(self) -> str:
        """The URL of the proxy that refuses every request."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def base(self) -> str:
        """The base URL of everything that it serves."""
        return self.proxy + self._prefix

    def indexes(self) -> tuple[str, ...]:
        """The URLs of the catalogue's indexes."""
        return tuple(f"{self.base}/index/{number}/" for number in range(len(self._catalogue.indexes)))

    def find_links(self) -> tuple[str, ...]:
        """The URLs of the catalogue's find-links, with one for the files that were requested by URL."""
        pages = [f"{self.base}/links/{number}/" for number in range(len(self._catalogue.find_links))]
        return (*pages, *([f"{self.base}/{_DIRECT}/"] if self._catalogue.direct() else []))

    def file_of(self, url: str) -> ListedFile:
        """Return the file behind one of its URLs. Raises KeyError."""
        found = re.fullmatch(re.escape(self.base) + r"/file/(\d+)/[^/]+", url)
        if found is None or int(found[1]) >= len(self._files):
            raise KeyError(url)
        return self._files[int(found[1])]

    def shown(self, text: str) -> str:
        """Return ``text`` with the gateway's URLs replaced by the real ones, redacted."""
        base = re.escape(self.base)
        text = re.sub(base + r"/file/(\d+)/[^\s`'\")]+", lambda found: redact(self._files[int(found[1])].url), text)
        text = re.sub(base + r"/index/(\d+)/?", lambda found: str(self._catalogue.indexes[int(found[1])]), text)
        text = re.sub(base + r"/links/(\d+)/?", lambda found: str(self._catalogue.find_links[int(found[1])]), text)
        return re.sub(base + r"\S*", "the given URL", text)

    # ------------------------------------------------------------------ answers

    def answer(self, path: str) -> tuple[str, bytes | BinaryIO] | None:
        """Return content type and body for a path; None if there is nothing. Raises what the catalogue raises.

        A body that is a file is positioned at its start and closed by the caller.
        """
        if not path.startswith(f"{self._prefix}/"):
            return None
        parts = path[len(self._prefix) + 1 :].split("/")
        match parts:
            case ["index", number, name, ""] if self._is_index(number):
                files = self._catalogue.project(int(number), name)
                if files is None:
                    return None
                allowed = [file for file in files if self._cutoff.allows(name, file.uploaded)]
                return JSON_TYPE, render_json(name, self._offered(allowed))
            case ["links", number, ""] if number.isdecimal() and int(number) < len(self._catalogue.find_links):
                return HTML_TYPE, render_html(self._offered(self._catalogue.links(int(number))))
            case [page, ""] if page == _DIRECT:
                return HTML_TYPE, render_html(self._offered(self._catalogue.direct()))
            case ["file", number, name] if number.isdecimal() and int(number) < len(self._files):
                file = self._files[int(number)]
                if unquote(name) == file.filename + _METADATA and file.is_wheel:
                    return "text/plain", self._catalogue.metadata(file).data
                if unquote(name) == file.filename and self._with_files:
                    return "application/octet-stream", self._copy(file)
        return None

    def _copy(self, file: ListedFile) -> BinaryIO:
        copy = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - closed after it was sent
        try:
            self._catalogue.copy(file, copy)
        except BaseException:
            copy.close()
            raise
        copy.seek(0)
        return copy

    def _is_index(self, number: str) -> bool:
        return number.isdecimal() and int(number) < len(self._catalogue.indexes)

    def _offered(self, files: Sequence[ListedFile]) -> list[ListedFile]:
        """Return the files as offered: each with a sha256 (a placeholder if none is known), wheels with metadata."""
        return [
            replace(
                file,
                url=f"{self.base}/file/{self._number(file)}/{quote(file.filename)}",
                hashes={"sha256": file.hashes.get("sha256") or placeholder(RedactedUrl(file.url).fingerprint)},
                metadata={} if file.is_wheel else None,
            )
            for file in files
            if file.url not in self.left_out
            and (not self._python or accepts_python(file.requires_python, self._python))
        ]

    def _number(self, file: ListedFile) -> int:
        with self._lock:
            number = self._numbers.setdefault(file.url, len(self._files))
            if number == len(self._files):
                self._files.append(file)
            elif not self._files[number].hashes:  # another page that lists it may have a hash
                self._files[number] = file
            return number


def _no_loopback(error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"127.0.0.1 cannot be reached on this machine ({error.strerror or error}); the resolver reads "
        "package indexes there",
        hint="bring the loopback interface up (ip link set lo up), or allow connections to 127.0.0.1 in the firewall",
    )


class _Server(socketserver.ThreadingMixIn, HTTPServer):
    daemon_threads = True
    block_on_close = False
    gateway: Gateway

    def server_bind(self) -> None:
        """Bind without HTTPServer's DNS lookup of our own host name, which may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """Record an error of a request; a closed connection is not an error."""
        del request, client_address
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, ConnectionError):
            self.gateway.errors.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 64 * 1024
    disable_nagle_algorithm = True
    """Send head and body in one packet: else each answer waits 40 ms for a delayed ACK of the head."""
    server: _Server

    def do_GET(self) -> None:
        """Answer one request."""
        gateway = self.server.gateway
        if not self.path.startswith("/"):
            self._refuse_stray(self.path)
            return
        try:
            found = gateway.answer(self.path)
        except Exception as error:  # noqa: BLE001 - raised by the caller that runs the resolver
            name = unquote(self.path.rstrip("/").rpartition("/")[2])
            gateway.errors.append(error if isinstance(error, ResumeDLError) else internal_error(error, name))
            self._send(HTTPStatus.BAD_GATEWAY)
            return
        if found is None:
            self._send(HTTPStatus.NOT_FOUND)
            return
        kind, body = found
        if isinstance(body, bytes):
            self._send(HTTPStatus.OK, kind, body)
        else:
            with body:
                self._send_file(kind, body)

    def do_HEAD(self) -> None:
        """Answer like GET, without the body."""
        self.do_GET()

    def do_CONNECT(self) -> None:
        """Refuse to be a proxy."""
        self._refuse_stray(f"//{self.path}")

    def _refuse_stray(self, address: str) -> None:
        self.server.gateway.stray.add(RedactedUrl(address).host)
        self._send(HTTPStatus.FORBIDDEN)

    def _send(self, status: HTTPStatus, content_type: str = "text/plain", body: bytes = b"") -> None:
        self._send_head(status, content_type, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_file(self, content_type: str, file: BinaryIO) -> None:
        self._send_head(HTTPStatus.OK, content_type, file.seek(0, io.SEEK_END))
        file.seek(0)
        if self.command != "HEAD":
            shutil.copyfileobj(file, self.wfile)

    def _send_head(self, status: HTTPStatus, content_type: str, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(length))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Do not log: errors are in ``Gateway.errors``."""
