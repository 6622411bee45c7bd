"""Fixtures that several folders of tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from faults.server import FaultServer
from support.conda_env import TestConda, condas_at_hand
from support.nginx import INSTALL_HINT, NginxMirrors, find_nginx
from support.order import slowest_first
from support.signals import restore_defaults
from support.skips import summary
from windows.exceptions import reason_for, refuse_links

settings.register_profile(
    "suite",
    deadline=None,  # a busy machine fails no example
    derandomize=True,  # the same examples at every run
    database=None,
    max_examples=100,  # what a test needs more or less of is a share of this
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", settings.get_profile("suite"), derandomize=False, max_examples=2000)
settings.load_profile("explore" if os.environ.get("RESUME_DL_EXPLORE") else "suite")

StartMirrors = Callable[..., NginxMirrors]
StartFaults = Callable[..., FaultServer]


@pytest.fixture
def nginx_mirrors(tmp_path: Path) -> Iterator[StartMirrors]:
    """Start nginx: ``nginx_mirrors([root, root, root], rate=...)`` gives a running ``support.nginx.NginxMirrors``."""
    if find_nginx() is None:
        pytest.skip(INSTALL_HINT)
    with ExitStack() as running:

        def start(roots: Sequence[Path], **options: object) -> NginxMirrors:
            folder = tmp_path / f"nginx-{len(list(tmp_path.glob('nginx-*')))}"
            mirrors = NginxMirrors(roots, folder, **options)
            running.callback(mirrors.stop)
            mirrors.start()
            return mirrors

        yield start


@pytest.fixture
def fault_server() -> Iterator[StartFaults]:
    """Start a fault server: ``fault_server(ports=2)`` gives a running ``faults.server.FaultServer``."""
    with ExitStack() as running:

        def start(ports: int = 1, **options: Any) -> FaultServer:
            server = FaultServer(ports, **options)
            server.start()
            running.callback(server.stop)
            return server

        yield start


@pytest.fixture(params=condas_at_hand(), ids=lambda conda: conda.label)
def test_conda(request: pytest.FixtureRequest, tmp_path: Path) -> TestConda:
    """A real conda with nothing in its cache, once for each conda at hand."""
    return TestConda(request.param, tmp_path / "conda")


def pytest_configure(config: pytest.Config) -> None:
    """Restore default signals where tests run; the process that only hands them out stays as it was started.

    The tests start some thousand processes: without bytecode each would compile all of it anew (0.25 s of 0.6).
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    refuse_links()
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        restore_defaults()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses nginx carries its mark; the slowest files come first."""
    for item in items:
        if reason := reason_for(item.nodeid):
            item.add_marker(pytest.mark.skip(reason=reason))
        if "nginx_mirrors" in getattr(item, "fixturenames", ()):
            item.add_marker("nginx")
    slowest_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give every test that is skipped for want of nginx one and the same place, so that the summary is one line."""
    report = yield
    if report.skipped and INSTALL_HINT in str(report.longrepr):
        report.longrepr = (__file__, 1, f"Skipped: {INSTALL_HINT}")
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the reasons for which tests were skipped, each with what would enable them."""
    reasons = [
        str(report.longrepr[2]).removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", ())
    ]
    if reasons:
        terminalreporter.section("skipped tests, and what would enable them")
        for line in summary(reasons):
            terminalreporter.write_line(line)
