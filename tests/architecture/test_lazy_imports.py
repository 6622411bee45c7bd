"""Start-up stays light: what is heavy is loaded by the command that needs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from transport.tiny import TinyServer, answer

HEAVY = {
    "httpx", "httpcore", "tqdm", "rattler", "ruamel", "packaging", "cyclonedx", "asyncio", "ssl", "http", "unittest",
    "conda",
}  # fmt: skip
NOT_FOR_GET = {
    "rich", "pygments", "tqdm", "rattler", "ruamel", "packaging", "cyclonedx", "asyncio", "unittest", "conda",
    "subprocess",
    "resume_dl.resolve", "resume_dl.transfer.extraction", "resume_dl.caches.conda.publish",
    "resume_dl.settings.conda_ask",
}  # fmt: skip
"""What one plain download needs nothing of: the solver, unpacking, package caches, bars, asking a conda."""


PROGRAM = """
import atexit, sys
atexit.register(lambda: print(*(f"loaded: {name}" for name in [*sys.modules]), sep="\\n", file=sys.stderr))
import runpy
runpy.run_module("resume_dl", run_name="__main__", alter_sys=True)
"""
"""Its ``-X importtime`` would list imports that fail too."""


def modules_loaded_by(*arguments: str, folder: Path | None = None, **variables: str) -> set[str]:
    """Modules that ``python -m resume_dl <arguments>`` imports."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=folder,
        env={**os.environ, **variables},
    )
    modules = {line.partition(": ")[2] for line in done.stderr.splitlines() if line.startswith("loaded: ")}
    assert "resume_dl.cli.main" in modules or "resume_dl.cli" in modules
    return modules


def loaded_by(*arguments: str) -> set[str]:
    """Top-level packages of them."""
    return {module.partition(".")[0] for module in modules_loaded_by(*arguments)}


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("fetch", "--help")], ids=" ".join)
def test_help_loads_nothing_heavy(arguments):
    """Neither the HTTP client, the bars, the solver nor YAML are loaded to print a help text."""
    assert loaded_by(*arguments) & HEAVY == set()


def test_get_loads_only_what_one_download_needs(tmp_path):
    """A whole ``get`` over HTTP, settings read, byte fetched: what other commands need is not loaded."""
    server = TinyServer(lambda conn, _: conn.sendall(answer(b"file")))
    places = {f"RESUME_DL_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "CACHE", "STATE")}
    own = {**places, "HOME": str(tmp_path), "RESUME_DL_CONDA": "none"}
    try:
        loaded = modules_loaded_by("get", f"{server.base}/f", "-o", "f", folder=tmp_path, **own)
    finally:
        server.stop()
    assert (tmp_path / "f").read_bytes() == b"file"
    assert "resume_dl.transport.client" in loaded
    assert (loaded | {module.partition(".")[0] for module in loaded}) & NOT_FOR_GET == set()


def modules_of_main(*arguments: str) -> set[str]:
    """Modules that ``resume-dl <arguments>``, which is refused, has loaded when it ends."""
    program = (
        "import sys; from resume_dl.cli.main import main; code = main(sys.argv[1:]); print(*sys.modules); exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2, done.stderr
    return set(done.stdout.split())


def test_a_bundle_that_is_refused_loads_neither_network_nor_description(tmp_path):
    """What describes a bundle is loaded once there is one to describe, and the transport when something is fetched."""
    out = str(tmp_path / "bundle")
    loaded = modules_of_main("bundle", "create", "mkl", "--split", "1MB", "-o", out, "--platform", "linux-64")
    assert "resume_dl.app.bundle_create" in loaded
    heavy = {
        "cyclonedx",
        "httpx",
        "httpcore",
        "packaging.metadata",
        "packaging.pylock",
        "http.server",
        "resume_dl.resolution.pip_resolution",
    }
    assert loaded & heavy == set()


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
    """httpx loads its own command line, with rich and pygments where they are installed; not with us."""
    loaded = modules_of("import resume_dl.transport.client, httpx; httpx.Client; httpx.main")
    assert {"httpx", "httpcore"} <= loaded
    assert not {name.partition(".")[0] for name in loaded} & {"click", "rich", "pygments", "asyncio"}


DURING_THE_IMPORT = """
import importlib, sys, threading

def during(event, _details):
    if event == "import" and "httpx" in sys.modules and not other.ident:
        other.start()
        other.join(60)

other = threading.Thread(target=lambda: importlib.import_module("click"))
sys.addaudithook(during)
import resume_dl.transport.client
assert "click" in sys.modules
import rich.console
"""


def test_all_other_imports_find_the_packages_that_httpx_does_without():
    """The whole of conda may run beside us: its threads import them while we import httpx, and any thread later."""
    pytest.importorskip("rich")
    assert {"click", "rich.console"} <= modules_of(DURING_THE_IMPORT)


def test_no_finder_is_removed():
    """The import of another thread, which goes through the list of them at that moment, would skip the next one."""
    code = "import sys; before = [*sys.meta_path]; import resume_dl.transport; assert sys.meta_path[1:] == before"
    assert "httpx" in modules_of(code)
