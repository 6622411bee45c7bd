"""The runs of the tests in the Windows Python: what each code page runs, and what came of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from support.nginx import find_nginx
from windows import linux_bundle, wine
from windows.nginx_outside import serve

FOLDERS = (
    *("core", "contract", "store", "engine", "faults", "transport", "settings", "progress", "cli"),
    *("resolve", "caches", "indexes", "pip", "bundle", "demo", "integration/test_ctrl_c.py"),
    "windows/test_bundle_of_linux.py",
)
CODE_PAGE_MATTERS = ("store", "settings", "progress", "cli", "demo", "windows/test_bundle_of_linux.py")
"""Folders whose tests read and write users' text: names, configuration, messages."""

WORKERS = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
"""Of each code page, and the slowest files first, as in the Makefile: half of a test is waiting."""
NOTHING: Mapping[str, str] = {}


def run_all(root: Path, code_pages: Sequence[int], more: Sequence[str]) -> int:
    """Run the tests at all these code pages at once; the highest exit code. The output of the others comes after."""
    with contextlib.ExitStack() as running:
        others = [running.enter_context(_beside(code_page, more)) for code_page in code_pages[1:]]
        codes = [run(root, code_pages[0], more)]
        for process, said in others:
            codes.append(process.wait())
            said.seek(0)
            print(said.read().decode("utf-8", "replace"), end="", flush=True)
    return max(codes)


@contextlib.contextmanager
def _beside(code_page: int, more: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    command = [sys.executable, "-m", "windows", "run", *more]
    variables = {**os.environ, "RESUME_DL_CODE_PAGE": str(code_page)}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, env=variables, stdout=said, stderr=subprocess.STDOUT)
        try:
            yield process, said
        finally:
            process.terminate()
            process.wait()


def run(root: Path, code_page: int, more: Sequence[str]) -> int:
    """Run pytest at this code page; its exit code. ``more`` are its arguments, else the folders of that code page."""
    folders = FOLDERS if code_page == 1252 else CODE_PAGE_MATTERS
    words = list(more) or [*WORKERS, *(f"tests/{folder}" for folder in folders)]
    print(f"--- the tests in the Windows Python, code page {code_page}", flush=True)
    began = time.monotonic()
    command = wine.command(root, ["-m", "pytest", "-q", "-p", "no:cacheprovider", *words])
    with tempfile.TemporaryDirectory() as folder:
        linux_bundle.make(Path(folder))
        parts = wine.windows_path(Path(folder) / "parts")
        code = run_with_nginx(root, code_page, command, {linux_bundle.VARIABLE: parts})
    wine.end_all(root, code_page)
    print(f"--- code page {code_page}: exit code {code} after {time.monotonic() - began:.0f} s", flush=True)
    return code


def run_with_nginx(root: Path, code_page: int, command: Sequence[str], more: Mapping[str, str] = NOTHING) -> int:
    """Run a Windows program whose tests may start nginx on this side; ``more``: variables for it."""
    variables = {**wine.environment(root, code_page), **more}
    with serve(find_nginx(), Path(variables["WINEPREFIX"])) as nginx:
        return wine.run(command, {**variables, **nginx})
