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
