"""Tiny servers that stop by themselves, one authority for all TLS tests, and a transport that is closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol, TypeVar

import pytest

from resume_dl.fs import system
from resume_dl.model.network import NetworkSettings
from resume_dl.transport.client import HttpTransport
from transport.tiny import Authority, authority


class Stoppable(Protocol):
    def stop(self) -> None: ...


T = TypeVar("T", bound=Stoppable)
Run = Callable[[T], T]
MakeTransport = Callable[..., HttpTransport]


@pytest.fixture
def run() -> Iterator[Callable[[Any], Any]]:
    """``run(TinyServer(...))`` returns the server and stops it at the end."""
    with ExitStack() as stack:

        def start(server: Any) -> Any:
            stack.callback(server.stop)
            return server

        yield start


@pytest.fixture
def transport() -> Iterator[MakeTransport]:
    """``transport(verify=...)`` gives an HttpTransport with short time-outs, closed at the end."""
    with ExitStack() as stack:

        def make(**settings: Any) -> HttpTransport:
            warn = settings.pop("warn", None)
            short = {"connect_timeout": 5.0, "first_byte_timeout": 10.0, "read_timeout": 10.0} | settings
            made = HttpTransport(NetworkSettings(**short), warn=warn)
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    """A self-made authority."""
    with authority(tmp_path_factory.mktemp("tls")) as made:
        yield made


@pytest.fixture(params=["woken", "in slices"])
def either_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems on which ``shutdown`` wakes a reader, and those on which it does not; each test runs on both.

    Where it truly wakes none, the first kind cannot be tried.
    """
    if request.param == "woken" and not system.shutdown_wakes_readers():
        pytest.skip("there shutdown wakes no reader")
    monkeypatch.setattr(system, "shutdown_wakes_readers", lambda: request.param == "woken")
