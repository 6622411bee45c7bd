"""A change of one user setting of pip: by pip itself, or in its file without pip or with a login to hide."""

from __future__ import annotations

import configparser
import io
import os
import stat
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import ConfigurationError, NotWritableError
from resume_dl.model.url import scrub
from resume_dl.python_command import utf8_output
from resume_dl.settings.pip_find import TargetPython
from resume_dl.settings.pip_settings import PipParser, parse_file, user_file
from resume_dl.shell_commands import Step, command_line
from resume_dl.text_encoding import system_encoding

_PATIENCE = 60.0


def file_to_write(env: Mapping[str, str]) -> Path:
    """The file of the user's settings. Raises ConfigurationError if pip is set to read none."""
    named = env.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        raise ConfigurationError(
            f"PIP_CONFIG_FILE is {named}: pip reads no settings",
            hint="unset it, or write the lines where you need them",
        )
    return Path(named).absolute() if named else user_file(env)


def write_setting(python: TargetPython, env: Mapping[str, str], name: str, value: str) -> Path:
    """Set ``[global] name`` for the user, and return the written file.

    Done by ``pip config set``, except for a value with a login: every user of the machine can read a command line.
    Raises ConfigurationError, NotWritableError.
    """
    place = file_to_write(env)
    if python.has_pip and scrub(value) == value:
        _by_pip(python, env, f"global.{name}", value, place)
    else:
        _in_file(place, name, value)
    return place


def _by_pip(python: TargetPython, env: Mapping[str, str], key: str, value: str, place: Path) -> None:
    command = [*python.pip, "config", "--user", "set", key, value]
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    try:
        done = subprocess.run(
            command,
            env=utf8_output({**env, **quiet}),
            cwd=python.executable.parent,  # a folder named pip in the current folder would be run
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError) as error:
        show = command_line([Step((str(python.executable), "-m", "pip", "config", "list"))])
        raise ConfigurationError("pip cannot be run", hint=f"try {show}") from error
    if done.returncode != 0:
        reason = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "pip config set failed")
        raise NotWritableError(
            f"pip cannot change its settings in {place}: {scrub(reason)}", hint="check this file and its permissions"
        )


def _in_file(place: Path, name: str, value: str) -> None:
    """Write as pip does (comments are lost), but atomically, synced, and with the file's permissions."""
    place = place.resolve()  # a link stays one
    parser = parse_file(place) if place.exists() else PipParser()
    with suppress(configparser.DuplicateSectionError):
        parser.add_section("global")
    parser.set("global", name, value)
    text = io.StringIO()
    parser.write(text)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        data = text.getvalue().replace("\n", os.linesep).encode(system_encoding())
        mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o600
        fs.replace_below(place.parent, place.name, data=data, sync=True, mode=mode)
    except (OSError, UnicodeEncodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise NotWritableError(f"cannot write {place}: {why}", hint="check its permissions") from error
