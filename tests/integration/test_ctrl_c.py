"""Ctrl-C while nothing comes, in each phase of a command: it ends long before any time-out does.

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
from typing import Any

import pytest

from resume_dl.caches.conda import lookup
from resume_dl.cli.main import main
from resume_dl.demo.channel import PackageSpec, build_channel
from resume_dl.fs import system
from resume_dl.python_command import module_arguments
from resume_dl.resolve import worker
from resume_dl.transport.abortable_stream import AbortableBackend
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
        self.reached, connecting = threading.Event(), AbortableBackend.connect_tcp

        def connect_tcp(*arguments: Any, **more: Any) -> Any:
            self.reached.set()
            return connecting(*arguments, **more)

        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(AbortableBackend, "connect_tcp", connect_tcp)

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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user without settings, proxies and conda."""
    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RESUME_DL_CONDA", "none")
    return tmp_path


def stop(arguments: list[str], reached: threading.Event) -> float:
    """Run a command in this process, press Ctrl-C once it waits; the seconds from then to its end with 130."""
    pressed: list[float] = []

    def press() -> None:
        reached.wait(60)
        time.sleep(0.5)  # from what was seen to the wait itself
        pressed.append(time.monotonic())
        _thread.interrupt_main()

    pressing = threading.Thread(target=press, daemon=True)
    pressing.start()
    code = main([*arguments, "--progress", "none"])
    took = time.monotonic() - pressed[0]
    pressing.join(60)
    assert code == 130
    return took


@pytest.mark.parametrize("woken", [True, False])
@pytest.mark.parametrize("phase", ["connect", "proxy", "tls", "head", "body"])
def test_ctrl_c_ends_a_stalled_download(phase: str, woken: bool, home: Path, monkeypatch) -> None:
    """Exit code 130, at once."""
    if woken and system.WINDOWS:
        pytest.skip("there shutdown wakes no reader")
    monkeypatch.setattr(system, "shutdown_wakes_readers", lambda: woken)
    stalled = Stalled(phase)
    for name, value in stalled.env.items():
        monkeypatch.setenv(name, value)
    with stalled.stack:
        took = stop(["get", stalled.url, "-o", str(home / "f")], stalled.reached)
    assert took < WITHIN
    print(f"{phase}: {took:.2f} s")


@pytest.mark.parametrize("phase", ["tls", "head", "body"])
def test_ctrl_c_ends_the_wait_for_requirements_at_a_url(phase: str, home: Path, monkeypatch) -> None:
    monkeypatch.setattr(system, "shutdown_wakes_readers", lambda: False)
    stalled = Stalled(phase)
    listing = home / "requirements.txt"
    listing.write_text(f"-r {stalled.url}\n", encoding="utf-8")
    with stalled.stack:
        took = stop(["fetch", "--file", str(listing), "--dest", str(home / "wheels")], stalled.reached)
    assert took < WITHIN
    print(f"requirements, {phase}: {took:.2f} s")


def test_ctrl_c_ends_the_hashing_of_a_large_file(home: Path, monkeypatch) -> None:
    """One that is there already, 64 GiB of zeros: a minute and more."""
    reached, hashing = threading.Event(), lookup.hash_file

    def hash_file(*arguments: Any) -> str:
        reached.set()
        return hashing(*arguments)

    monkeypatch.setattr(lookup, "hash_file", hash_file)
    with (home / "f").open("wb") as file:
        file.truncate(64 << 30)
    took = stop(["get", "http://127.0.0.1:9/f", "-o", str(home / "f"), "--sha256", "0" * 64], reached)
    assert took < WITHIN
    print(f"hash: {took:.2f} s")


@pytest.mark.parametrize(("phase", "operation"), [("solve", "solve"), ("unpack", "extract")])
def test_ctrl_c_ends_the_wait_for_the_worker(phase: str, operation: str, home: Path, monkeypatch) -> None:
    """A solve or an archive that it does not come to the end of."""
    channel = build_channel(home / "channel", [PackageSpec(name="demo", version="1.0", subdir="noarch")])
    flag = home / "reached"
    hanging = f"known.OPERATIONS[{operation!r}] = lambda _: [open({str(flag)!r}, 'w').close(), time.sleep(600)]"
    before = (
        f"sys.path.append(sys.argv[1]); import time; import resume_dl.rattler_worker.operations as known; {hanging}"
    )
    monkeypatch.setattr(worker, "_START", module_arguments("resume_dl.rattler_worker", before=before))
    reached = threading.Event()

    def watch() -> None:
        while not flag.exists() and not reached.wait(0.05):
            pass
        reached.set()

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    command = ["fetch", "demo", "-c", channel.root.as_uri(), "--override-channels"]
    took = stop([*command, "--pkgs-dir", str(home / "pkgs")], reached)
    reached.set()
    watching.join(60)
    assert flag.exists()
    assert took < WITHIN
    print(f"{phase}: {took:.2f} s")
