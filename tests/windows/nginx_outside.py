"""nginx for tests under Wine: it runs on the Linux side, and is started, signalled and stopped over a socket.

One connection is one nginx: it lives as long. The address and a word that only this run knows stand in ``VARIABLE``.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

VARIABLE = "RESUME_DL_TEST_NGINX_OUTSIDE"
PATIENCE = 120.0


def outside() -> dict[str, str] | None:
    """What the Linux side said of itself, or None if this is no run under Wine."""
    text = os.environ.get(VARIABLE)
    return json.loads(text) if text and sys.platform == "win32" else None


def outside_path(path: Path) -> str:
    """The name on the Linux side: a prefix has a link for each of its drives."""
    said = outside()
    if said is None:
        return str(path)
    return f"{said['prefix']}/dosdevices/{path.drive.lower()}{path.as_posix()[len(path.drive) :]}"


class OutsideNginx:
    """As Popen, as far as tests use it of nginx."""

    def __init__(self, folder: Path) -> None:
        said = outside()
        assert said is not None
        self._socket = socket.create_connection(("127.0.0.1", int(said["port"])), timeout=PATIENCE)
        self._file = self._socket.makefile("rw", encoding="utf-8", newline="\n")
        self._ask({"word": said["word"], "folder": outside_path(folder)})

    def _ask(self, what: object) -> int | None:
        self._file.write(json.dumps(what) + "\n")
        self._file.flush()
        answer: int | None = json.loads(self._file.readline())
        return answer

    def poll(self) -> int | None:
        return self._ask("poll")

    def reload(self) -> None:
        self._ask("reload")

    def terminate(self) -> None:
        self._ask("end")

    def wait(self, timeout: float) -> None:
        self._file.close()
        self._socket.close()


@contextmanager
def serve(binary: str | None, prefix: Path) -> Iterator[dict[str, str]]:
    """Serve tests of this prefix; yields the variable that tells them, or nothing without nginx."""
    if binary is None:
        yield {}
        return
    word = secrets.token_hex(16)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked = json.loads(self.rfile.readline())
            if asked["word"] != word:
                return
            folder = asked["folder"]
            command = [binary, "-p", folder, "-c", f"{folder}/nginx.conf", "-e", f"{folder}/error.log"]
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
                with suppress(ConnectionError):
                    self._follow(process)
                process.terminate()

        def _follow(self, process: subprocess.Popen[bytes]) -> None:
            self._answer(None)
            for line in self.rfile:
                wanted = json.loads(line)
                if wanted == "reload":
                    process.send_signal(signal.SIGHUP)
                elif wanted == "end":
                    process.terminate()
                    process.wait(PATIENCE)
                self._answer(process.poll())

        def _answer(self, value: int | None) -> None:
            self.wfile.write(json.dumps(value).encode() + b"\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = {"port": str(server.server_address[1]), "word": word, "prefix": str(prefix)}
        said["user"] = "root" if os.geteuid() == 0 else ""
        yield {VARIABLE: json.dumps(said)}
        server.shutdown()
