"""What of this machine the set-up needs: Wine, a compiler for Windows, locales, and a Python of the right version."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

DEBIAN_PACKAGES = {
    "wine64": "Wine",
    "gcc-mingw-w64-x86-64": "a compiler for Windows",
    "locales": "the locales of the code pages",
}
WINE = (Path("/usr/lib/wine/wine64"), Path("/usr/bin/wine64"), Path("/usr/bin/wine"))
COMPILER = "x86_64-w64-mingw32-gcc"
PYTHON = (3, 11)
"""The version whose DLLs ``windows/requirements-runtime.txt`` names."""


class CannotSetUpError(Exception):
    """This machine cannot run a Windows Python; the message says why."""


def wine() -> Path:
    """The Wine program that starts 64-bit programs."""
    found = next((path for path in WINE if path.exists()), None)
    if found is None:
        raise CannotSetUpError("Wine is not installed")
    return found


def install_missing() -> None:
    """Install what is missing by apt where this user may. Raises CannotSetUpError if something stays missing."""
    if not (missing := _missing()):
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        words = ["install", "-y", "-qq", "--no-install-recommends", *missing]
        for command in (["update", "-qq"], words):
            subprocess.run(["apt-get", *command], env=quiet, stdout=subprocess.DEVNULL, check=False)
        missing = _missing()
    if missing:
        names = ", ".join(f"{name} ({DEBIAN_PACKAGES[name]})" for name in missing)
        raise CannotSetUpError(f"not installed, and this user cannot install it by apt-get: {names}")


def _missing() -> list[str]:
    here = {
        "wine64": any(path.exists() for path in WINE),
        "gcc-mingw-w64-x86-64": shutil.which(COMPILER) is not None,
        "locales": Path("/usr/share/i18n/locales/zh_CN").exists() and shutil.which("localedef") is not None,
    }
    return [name for name, found in here.items() if not found]


def check_this_python() -> None:
    """The standard library comes from the Python that runs this: it must fit the DLLs."""
    if sys.version_info[:2] != PYTHON:
        wanted = ".".join(map(str, PYTHON))
        raise CannotSetUpError(
            f"the standard library of a Python {wanted} is needed (make test-windows PYTHON=python{wanted})"
        )
