"""Wine's prefixes, one for each code page, and the environment in which a Windows program starts."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from windows.machine import CannotSetUpError, wine

LOCALES = {1252: "en_US", 936: "zh_CN"}
"""The ANSI code page, and the locale from which Wine derives it."""
KEPT = ("HOME", "PATH", "USER", "LOGNAME", "DISPLAY", "PYTEST_ADDOPTS")
QUIET = {"WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml=;winemenubuilder.exe=d", "WINEARCH": "win64"}


def environment(root: Path, code_page: int) -> dict[str, str]:
    """The variables with which Wine runs programs at this code page; of this process's, those that the tests read.

    What names files of this machine, such as certificates, would be read as a path of Windows.
    """
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    ours = {
        name: value for name, value in os.environ.items() if name.startswith(("RESUME_DL_TEST_", "RESUME_DL_EXPLORE"))
    }
    return {
        **kept,
        **ours,
        **QUIET,
        "WINEPREFIX": str(root / f"prefix-{code_page}"),
        "LOCPATH": str(root / "locales"),
        "LC_ALL": f"{LOCALES[code_page]}.UTF-8",
    }


def make_locales(root: Path) -> None:
    """Compile the locales: a small machine has none but C."""
    folder = root / "locales"
    folder.mkdir(parents=True, exist_ok=True)
    for name in LOCALES.values():
        target = folder / f"{name}.utf8"
        if not target.exists():
            subprocess.run(["localedef", "-i", name, "-f", "UTF-8", str(target)], check=True)


def make_prefix(root: Path, code_page: int) -> None:
    """Make the prefix; the second one shares the files of the first one by hard links, but not its registry."""
    prefix = root / f"prefix-{code_page}"
    if (prefix / "system.reg").exists():
        return
    other = next((path for path in root.glob("prefix-*") if (path / "system.reg").exists()), None)
    if other is not None:
        shutil.copytree(other / "drive_c", prefix / "drive_c", copy_function=os.link, symlinks=True)
    else:
        prefix.mkdir(parents=True, exist_ok=True)
    booted = environment(root, code_page)
    subprocess.run([wine(), "wineboot", "--init"], env=booted, capture_output=True, timeout=600, check=False)
    subprocess.run([_server(), "--wait"], env=booted, timeout=600, check=False)
    if not (prefix / "system.reg").exists():
        raise CannotSetUpError(f"wineboot made no prefix in {prefix}")


def add_libraries(root: Path, code_page: int) -> None:
    """Copy into Windows' own folder what each program may need from it."""
    folder = root / f"prefix-{code_page}" / "drive_c" / "windows" / "system32"
    for name in ("bcryptprimitives.dll", "vcruntime140.dll"):
        (folder / name).unlink(missing_ok=True)
        shutil.copy(root / "python" / name, folder)


def end_all(root: Path, code_page: int) -> None:
    """End every Windows program of this prefix."""
    subprocess.run([_server(), "--kill"], env=environment(root, code_page), check=False)


def windows_path(path: Path) -> str:
    """The name under which a program in Wine finds a file of this machine."""
    return "Z:" + str(path.resolve()).replace("/", "\\")


def command(root: Path, arguments: Sequence[str]) -> list[str]:
    """A command line that runs the Windows Python."""
    return [str(wine()), str(root / "python" / "python.exe"), *arguments]


def run(words: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a Windows program to its end; its exit code.

    What it writes passes through a pipe, except to a terminal: of files that were opened outside, Wine 8 knows no
    size, and Wine's own processes, which stay for some seconds, would keep the caller's pipe open.
    """
    relays = [_relay(fd) for fd in (1, 2)]
    outputs = [relay and relay.stdin for relay in relays]
    process = subprocess.Popen(words, env=dict(variables), stdout=outputs[0], stderr=outputs[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program was interrupted too: it decides what that means
    signal.signal(signal.SIGTERM, lambda *_: process.kill())
    for output in filter(None, outputs):
        output.close()
    code = process.wait()
    for relay in filter(None, relays):
        with contextlib.suppress(subprocess.TimeoutExpired):
            relay.wait(5)
        relay.kill()
    return code


def _relay(fd: int) -> subprocess.Popen[bytes] | None:
    return None if os.isatty(fd) else subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=fd)


def _server() -> str:
    beside = wine().with_name("wineserver64")
    return str(beside if beside.exists() else shutil.which("wineserver") or "wineserver")
