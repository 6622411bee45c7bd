"""The program uv: where it is, how it is run, and what its messages say.

uv's own settings, its cache and most of this process's environment are excluded, so that a request has the same result
everywhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from resume_dl.errors import ConfigurationError, Interrupted, missing_library
from resume_dl.memory_limit import limit_memory

OLDEST = (0, 10)
"""The oldest uv that is used; the extra ``pip`` in pyproject.toml asks for it too."""
_VERSION = re.compile(rb"uv (\d{1,6})\.(\d{1,6})\b")
_VERSION_SECONDS = 60.0
_KEPT = frozenset(("PATH", "SYSTEMROOT", "WINDIR", "COMSPEC", "LANG", "LC_ALL", "MACOSX_DEPLOYMENT_TARGET"))
"""Variables that programs need to run (and to find compilers, if source archives may be built)."""
_POLL = 0.1
"""Seconds between checks for cancellation."""
_CREATE_NO_WINDOW = 0x08000000
_CROSS = "\N{MULTIPLICATION SIGN}"
_FRAME = re.compile(rf"^[\s│╭╰├─▶{_CROSS}]+")
_MARKS = (_CROSS, "╰", "├", "▶")
_LABEL = re.compile(r"^(?:error|cause):\s*")
_BEGINNINGS = ("Because ", "And ", "hint:")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def find_uv() -> Path:
    """Return the path of uv's binary: from its Python package, beside this Python, or on PATH.

    Raises ConfigurationError if there is none, or if that on PATH is too old.
    """
    try:
        from uv import find_uv_bin
    except ImportError:  # conda-forge's package has only the program
        pass
    else:
        with suppress(FileNotFoundError):
            return Path(find_uv_bin())
    beside = [Path(sysconfig.get_path("scripts")), Path(sys.prefix, "Library", "bin")]
    on_path = [Path(place) for place in os.environ.get("PATH", "").split(os.pathsep)]
    for folder in (*beside, *(place for place in on_path if place.is_absolute())):
        # By its path: for a bare name `which` on Windows looks into the current folder first.
        found = shutil.which(str(folder / ("uv.exe" if os.name == "nt" else "uv")))
        if found is not None:
            if folder not in beside:
                _check_version(found)
            return Path(found)
    raise missing_library("uv", "which resolves pip requirements", extra="pip")


def _check_version(program: str) -> None:
    """Raise ConfigurationError for a uv of another installer that is too old, or that does not start."""
    hint = 'update it, or install one beside resume-dl: python -m pip install "resume-dl[pip]"'
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"{program} cannot be run: {error}", hint=hint) from error
    found = _VERSION.match(done.stdout)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        version = "of an unknown version" if found is None else f"{int(found[1])}.{int(found[2])}"
        needed = ".".join(map(str, OLDEST))
        raise ConfigurationError(f"{program} is uv {version}; {needed} or newer is needed", hint=hint)


def stopped_resolving() -> Interrupted:
    """The error for a resolution that the user has stopped."""
    return Interrupted("stopped while resolving", hint="run the same command again")


def uv_environment(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The variables of ``env`` that uv needs to run; ``folder`` is its home, without netrc and stored logins."""
    kept = {name: value for name, value in env.items() if name.upper() in _KEPT}
    home = str(folder)
    kept |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), home)  # a uv that is killed leaves its cache behind
    kept |= {"HOME": home, "USERPROFILE": home, "APPDATA": home, "LOCALAPPDATA": home, "PYTHONUTF8": "1"}
    return kept


def run_uv(
    command: list[str],
    folder: Path,
    env: Mapping[str, str],
    cancelled: Callable[[], bool],
    *,
    memory: int | None = None,
) -> tuple[int, str, str]:
    """Run a command in a folder; return exit status, stdout and stderr. Raises ConfigurationError and Interrupted.

    ``memory``: the most bytes that it may allocate, where the system can limit that.
    """
    flags: int = _CREATE_NO_WINDOW if os.name == "nt" else 0
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            creationflags=flags,
        )
    except OSError as error:
        raise ConfigurationError(f"uv cannot be started: {error.strerror or error}", hint="reinstall uv") from error
    with process:
        if memory is not None:
            limit_memory(process.pid, memory)
        try:
            while True:
                try:
                    out, err = process.communicate(timeout=_POLL)
                except subprocess.TimeoutExpired:
                    if cancelled():
                        raise stopped_resolving() from None
                else:
                    return process.returncode, out, err
        finally:
            process.kill()


def explanation(output: str) -> str:
    """Return the explanation in uv's output, one sentence per line, without colours, frames, warnings and labels.

    Newer versions write one sentence per line; older ones draw frames and wrap at the terminal's width.
    """
    lines = [line.rstrip() for line in _COLOUR.sub("", output).splitlines()]
    lines = [line for line in lines if line and not line.startswith("warning:")]
    start = next((number for number, line in enumerate(lines) if line.startswith(("error:", f"  {_CROSS}"))), 0)
    framed = any("▶" in line for line in lines[start:])
    sentences: list[str] = []
    for line in lines[start:]:
        text = _LABEL.sub("", _FRAME.sub("", line))
        begins = not framed or line.lstrip().startswith(_MARKS) or text.startswith(_BEGINNINGS)
        if begins or not sentences:
            sentences.append(text)
        else:
            sentences[-1] += f" {text}"
    return "\n".join(sentences)
