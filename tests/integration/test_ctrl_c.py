"""Ctrl-C while nothing comes, in each phase of a download: the command ends long before any time-out does.

In this process, as the system delivers it to the main thread; on systems where a socket's ``shutdown`` wakes no reader
(Windows) too.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from resume_dl.cli.main import main
from resume_dl.fs import system
from transport.tiny import Request, SilentListener, TinyServer, answer

WITHIN = 10.0
"""Seconds; it takes less than one. The shortest time-out that could end the wait instead is 15 s."""


class Stalled:
    """A server that says nothing more in one phase; ``reached`` is set once the command waits there."""

    def __init__(self, phase: str) -> None:
        self.options: list[str] = []
        self.env: dict[str, str] = {}
        self.stack = contextlib.ExitStack()
        getattr(self, phase)()

    def connect(self) -> None:
        """The queue of connections is full: no answer to the first packet (Linux)."""
        listener = self.stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(3):
            filling = self.stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(address)
        self.url = f"http://127.0.0.1:{address[1]}/f"
        self.reached = threading.Event()
        self.reached.set()

    def tls(self) -> None:
        silent = SilentListener()
        self.stack.callback(silent.stop)
        self.url, self.reached = f"https://127.0.0.1:{silent.port}/f", silent.heard

    def proxy(self) -> None:
        silent = SilentListener()
        self.stack.callback(silent.stop)
        self.env = {"https_proxy": f"http://127.0.0.1:{silent.port}"}
        self.url, self.reached = "https://example.invalid/f", silent.heard

    def head(self) -> None:
        self._server(lambda conn, request: self.reached.set())

    def body(self) -> None:
        def begin(conn: socket.socket, request: Request) -> None:
            conn.sendall(answer(b"x" * 300_000, length=1 << 30))
            self.reached.set()

        self._server(begin)

    def _server(self, handler: Callable[[socket.socket, Request], None]) -> None:
        self.reached = threading.Event()
        server = TinyServer(handler)
        self.stack.callback(server.stop)
        self.url = f"{server.base}/f"


@pytest.mark.parametrize("woken", [True, False])
@pytest.mark.parametrize("phase", ["connect", "proxy", "tls", "head", "body"])
def test_ctrl_c_ends_a_stalled_download(phase: str, woken: bool, tmp_path: Path, monkeypatch, capfd) -> None:
    """Exit code 130, at once."""
    if woken and system.WINDOWS:
        pytest.skip("there shutdown wakes no reader")
    monkeypatch.setattr(system, "shutdown_wakes_readers", lambda: woken)
    stalled = Stalled(phase)
    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in stalled.env.items():
        monkeypatch.setenv(name, value)
    pressed: list[float] = []

    def press() -> None:
        stalled.reached.wait(60)
        time.sleep(0.5)  # from what the server saw to the wait itself
        pressed.append(time.monotonic())
        _thread.interrupt_main()

    pressing = threading.Thread(target=press, daemon=True)
    with stalled.stack:
        pressing.start()
        code = main(["get", stalled.url, "-o", str(tmp_path / "f"), "--progress", "none"])
        took = time.monotonic() - pressed[0]
    pressing.join(60)
    assert code == 130, capfd.readouterr().err
    assert took < WITHIN
    print(f"{phase}: {took:.2f} s")
