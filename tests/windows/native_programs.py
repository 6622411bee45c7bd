"""The programs and libraries that no wheel brings, compiled from ``native/``."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from windows.machine import COMPILER

SOURCES = Path(__file__).with_name("native")
PREFIX = COMPILER.removesuffix("gcc")


def compile_all(folder: Path) -> None:
    """Compile into ``folder``, which holds python311.dll."""
    dll = folder / "python311.dll"
    _import_library(dll, ["Py_Main"], folder / "libpython311.a")
    _compile(SOURCES / "python.c", folder / "python.exe", "-municode", str(folder / "libpython311.a"))
    _compile(SOURCES / "venvlauncher.c", folder / "venvlauncher.exe", "-municode")
    _compile(SOURCES / "bcryptprimitives.c", folder / "bcryptprimitives.dll", "-shared", "-ladvapi32")
    _forwarder(dll, folder / "python3.dll")
    (folder / "libpython311.a").unlink()


def _compile(source: Path, target: Path, *options: str) -> None:
    command = [COMPILER, "-O1", "-s", "-Wall", "-Werror", "-static-libgcc", "-o", str(target), str(source), *options]
    subprocess.run(command, check=True)


def _import_library(dll: Path, names: list[str], target: Path) -> None:
    listing = target.with_suffix(".def")
    listing.write_text("\n".join([f"LIBRARY {dll.name}", "EXPORTS", *names, ""]), encoding="ascii")
    subprocess.run([f"{PREFIX}dlltool", "-d", str(listing), "-l", str(target)], check=True)
    listing.unlink()


def _forwarder(dll: Path, target: Path) -> None:
    """A DLL whose every export is the one of the same name in ``dll``: extension modules of the stable ABI link it."""
    listing = target.with_suffix(".def")
    lines = [f"  {name} = {dll.stem}.{name}" for name in exports(dll)]
    listing.write_text("\n".join([f"LIBRARY {target.name}", "EXPORTS", *lines, ""]), encoding="ascii")
    empty = target.with_suffix(".c")
    empty.write_text("", encoding="ascii")
    _compile(empty, target, str(listing), "-shared", "-nostartfiles", "-nodefaultlibs", "-Wl,--entry=0")
    for path in (listing, empty):
        path.unlink()


def exports(dll: Path) -> list[str]:
    """The names that a DLL exports."""
    done = subprocess.run([f"{PREFIX}objdump", "-p", str(dll)], capture_output=True, text=True, check=True)
    table = done.stdout.partition("[Ordinal/Name Pointer] Table")[2]
    return re.findall(r"^\s*\[\s*\d+\]\s+(?:\+base\[\s*\d+\]\s+\w+\s+)?(\w+)$", table, re.MULTILINE)
