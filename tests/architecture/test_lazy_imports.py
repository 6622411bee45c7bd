"""Start-up stays light: what is heavy is loaded by the command that needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"httpx", "tqdm", "rattler", "yaml", "packaging", "asyncio", "ssl", "http", "unittest", "conda"}


def loaded_by(*arguments: str) -> set[str]:
    """Top-level packages that ``python -m resume_dl <arguments>`` imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "resume_dl", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    modules = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert "resume_dl.cli.main" in modules or "resume_dl.cli" in modules
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("fetch", "--help")], ids=" ".join)
def test_help_loads_nothing_heavy(arguments):
    """Neither the HTTP client, the bars, the solver nor YAML are loaded to print a help text."""
    assert loaded_by(*arguments) & HEAVY == set()


def modules_of(code: str) -> set[str]:
    """All modules that a new process has loaded after ``code``."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.split())


def test_the_transport_loads_no_command_line_of_httpx():
    """httpx tries to load its own command line, with rich and pygments where they are installed; not with us."""
    loaded = modules_of("import resume_dl.transport.client, httpx; httpx.Client; httpx.main")
    assert "httpx" in loaded
    assert not {name.partition(".")[0] for name in loaded} & {"rich", "pygments"}
    assert "httpx._main" not in loaded
