r"""Command lines to show and paste, in the shell that the user has: for resume-dl and the offline tools (Python 3.8).

Three shells: POSIX ones, cmd.exe, and PowerShell, which is written for 5.1: it has no ``&&``, a variable of the
environment is ``$env:NAME``, and a ``"`` in an argument of a program needs a ``\`` before it (no more from 7.3 on).
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from enum import Enum
from functools import lru_cache
from typing import Iterable, Iterator, NamedTuple, Sequence


class Shell(Enum):
    """The ways to quote."""

    POSIX = "sh"
    CMD = "cmd"
    POWERSHELL = "powershell"


class Step(NamedTuple):
    """One command: run in ``folder`` (empty: the current one) with ``variables`` in its environment."""

    words: Sequence[str]
    variables: Sequence[tuple[str, str]] = ()
    folder: str = ""


_PLAIN = re.compile(r"-{0,2}[A-Za-z_][A-Za-z0-9_-]*|[A-Za-z](?::[\\/])?[A-Za-z0-9_./\\-]*")
"""Words that mean themselves in cmd and PowerShell; not numbers, lists, or options with a dot, which it cuts."""
_POWERSHELL_QUOTES = re.compile("['\u2018\u2019\u201a\u201b]")
_CMD_SIGNS = re.compile(r'[()%!^"<>&|]')
_PROGRAMS = {
    "cmd": Shell.CMD,
    "powershell": Shell.POWERSHELL,
    "powershell_ise": Shell.POWERSHELL,
    "pwsh": Shell.POWERSHELL,
    **dict.fromkeys(("bash", "sh", "zsh", "fish", "dash", "busybox"), Shell.POSIX),
}


def command_line(steps: Iterable[Step], shell: Shell | None = None) -> str:
    """One line that runs the steps, each only if the one before it has worked. ``shell``: default ``this_shell()``."""
    shell = shell or this_shell()
    parts = [part for step in steps for part in _parts(step, shell)]
    if shell is not Shell.POWERSHELL:
        return " && ".join(parts)
    line = parts.pop() if parts else ""
    for part in reversed(parts):
        line = f"{part}; {line}" if line.startswith("$env:") else f"{part}; if ($?) {{ {line} }}"
    return line


def quote_word(word: str, shell: Shell | None = None) -> str:
    """``word`` as one argument of a program."""
    shell = shell or this_shell()
    if shell is Shell.POSIX:
        return shlex.quote(word)
    if _PLAIN.fullmatch(word):
        return word
    if shell is Shell.CMD:
        return _in_cmd(word)
    return _in_powershell(_escaped(word) if '"' in word else word)


def activation(script: str, shell: Shell | None = None) -> str:
    """The command that takes a virtual environment's ``activate`` into this shell; ``script`` is its path."""
    shell = shell or this_shell()
    if shell is Shell.POSIX:
        return f". {shlex.quote(script)}"
    if shell is Shell.CMD:
        return _in_cmd(script)
    folder = script[: len(script) - len("activate")]
    return f"& {_in_powershell(folder + 'Activate.ps1')}"


def _parts(step: Step, shell: Shell) -> Iterator[str]:
    words = " ".join(quote_word(word, shell) for word in step.words)
    if shell is Shell.POWERSHELL:
        if step.folder:
            yield f"Set-Location -LiteralPath {_in_powershell(step.folder)}"
        yield from (f"$env:{name}={_in_powershell(value)}" for name, value in step.variables)
        yield f"& {words}" if words.startswith("'") else words
    elif shell is Shell.CMD:
        if step.folder:
            yield f"cd /d {_folder_in_cmd(step.folder)}"
        yield from (_set_in_cmd(name, value) for name, value in step.variables)
        yield words
    else:
        if step.folder:
            yield f"cd {shlex.quote(step.folder)}"
        yield " ".join([*(f"{name}={shlex.quote(value)}" for name, value in step.variables), words])


def _in_powershell(text: str) -> str:
    """A single-quoted string, in which nothing is replaced; every kind of single quote ends one."""
    return "'" + _POWERSHELL_QUOTES.sub(lambda found: found[0] * 2, text) + "'"


def _in_cmd(word: str) -> str:
    """In quotation marks, which end before a ``%`` and begin again behind it; with a ``"`` each sign behind ``^``.

    A ``%`` counts inside of quotation marks too, and the name in ``%"x"%`` is that of no variable: a prompt leaves it
    as it is. In a .bat file it would vanish.
    """
    text = re.sub(r"(\\*)%", r'\1\1"%"', _escaped(word, closing=True))
    return _behind_carets(f'"{text}"') if '"' in word else f'"{text}"'


def _folder_in_cmd(folder: str) -> str:
    """For ``cd``, which takes no argument apart: there is no ``"`` in a name."""
    return _behind_carets(f'"{folder}"') if "%" in folder else f'"{folder}"'


def _set_in_cmd(name: str, value: str) -> str:
    text = f'"{name}={value}"'
    return "set " + (_behind_carets(text) if re.search('[%"]', value) else text)


def _behind_carets(text: str) -> str:
    return re.sub(r"\^%(?=[^\^])", "^%^", _CMD_SIGNS.sub(r"^\g<0>", text))


def _escaped(word: str, *, closing: bool = False) -> str:
    r"""For Microsoft's C library: a quotation mark behind ``\``, the backslashes before it doubled."""
    word = re.sub(r'(\\*)"', r'\1\1\\"', word)
    return re.sub(r"(\\+)$", r"\1\1", word) if closing else word


@lru_cache(maxsize=1)
def this_shell() -> Shell:
    """The shell that started this process: by the programs above it on Windows, a POSIX one elsewhere."""
    if sys.platform == "win32":
        return shell_of(_programs_above())
    return Shell.POSIX


def native_shell() -> Shell:
    """The same for programs that ask for a form other than PowerShell's."""
    return Shell.CMD if this_shell() is Shell.POWERSHELL and sys.platform == "win32" else this_shell()


def shell_of(programs: Iterable[str]) -> Shell:
    """The shell of Windows by the names of the programs that started each other, the nearest first."""
    names = (re.split(r"[\\/]", program.lower())[-1] for program in programs)
    stems = (name[: -len(".exe")] if name.endswith(".exe") else name for name in names)
    return next((_PROGRAMS[stem] for stem in stems if stem in _PROGRAMS), Shell.CMD)


if sys.platform == "win32":

    def _programs_above() -> list[str]:
        """Names of the programs above this process; empty where Windows does not tell."""
        found: list[str] = []
        processes = _processes()
        number, seen = os.getpid(), set()
        while number in processes and number not in seen:
            seen.add(number)
            number, name = processes[number]
            found.append(name)
        return found

    def _processes() -> dict[int, tuple[int, str]]:
        """Process -> the one that started it, and its program's name. Source: Microsoft, "Taking a Snapshot"."""
        import ctypes
        from ctypes import wintypes

        class Entry(ctypes.Structure):
            _fields_ = (
                ("size", wintypes.DWORD),
                ("usage", wintypes.DWORD),
                ("process", wintypes.DWORD),
                ("heap", ctypes.c_size_t),
                ("module", wintypes.DWORD),
                ("threads", wintypes.DWORD),
                ("parent", wintypes.DWORD),
                ("priority", wintypes.LONG),
                ("flags", wintypes.DWORD),
                ("name", wintypes.WCHAR * 260),
            )

        kernel32 = ctypes.WinDLL("kernel32")
        kernel32.CreateToolhelp32Snapshot.restype = wintypes.HANDLE
        for function in (kernel32.Process32FirstW, kernel32.Process32NextW):
            function.argtypes = (wintypes.HANDLE, ctypes.POINTER(Entry))
        kernel32.CloseHandle.argtypes = (wintypes.HANDLE,)
        all_processes = 0x2  # TH32CS_SNAPPROCESS
        snapshot = kernel32.CreateToolhelp32Snapshot(all_processes, 0)
        if snapshot in (None, wintypes.HANDLE(-1).value):
            return {}
        entry, found = Entry(size=ctypes.sizeof(Entry)), {}
        try:
            more = kernel32.Process32FirstW(snapshot, ctypes.byref(entry))
            while more:
                found[int(entry.process)] = (int(entry.parent), str(entry.name))
                more = kernel32.Process32NextW(snapshot, ctypes.byref(entry))
        finally:
            kernel32.CloseHandle(snapshot)
        return found
