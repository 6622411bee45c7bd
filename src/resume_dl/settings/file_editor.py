"""The user's editor, for a settings file."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from resume_dl.errors import ConfigurationError, NotWritableError

_WINDOWS = sys.platform == "win32"
_USUAL = ("notepad",) if _WINDOWS else ("sensible-editor", "nano", "vim", "vi")


def edit_file(file: Path, env: Mapping[str, str], *, template: str) -> None:
    """Run the editor on ``file`` and wait for it; a missing file starts as ``template``, and is removed if unchanged.

    Raises ConfigurationError without a working editor, NotWritableError.
    """
    words = editor_command(env)
    is_new = not file.exists()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_new:
            with file.open("x", encoding="utf-8") as made:
                made.write(template)
    except OSError as error:
        hint = "check this folder and its permissions, or set RESUME_DL_CONFIG_DIR"
        raise NotWritableError(f"cannot create {file}: {error.strerror or error}", hint=hint) from error
    try:
        code = subprocess.run([*words, str(file)], check=False).returncode
    except OSError as error:
        hint = "name another editor in EDITOR"
        raise ConfigurationError(f"cannot start the editor {words[0]}: {error.strerror}", hint=hint) from error
    finally:
        if is_new:
            _remove_unchanged(file, template)
    if code:
        raise ConfigurationError(f"the editor {words[0]} ended with exit code {code}", hint="set EDITOR to another one")


def editor_command(env: Mapping[str, str]) -> list[str]:
    """The words of ``VISUAL``, else ``EDITOR``, else the platform's usual editor. Raises ConfigurationError."""
    named = env.get("VISUAL", "").strip() or env.get("EDITOR", "").strip()
    if named:
        return _words(named)
    for name in _USUAL:
        if found := shutil.which(name, path=env.get("PATH")):
            return [found]
    raise ConfigurationError("no editor was found", hint="set EDITOR, for example to nano")


def _words(named: str) -> list[str]:
    if Path(named).is_file():  # a path with blanks, without quotation marks
        return [named]
    try:
        words = [word.strip('"') for word in shlex.split(named, posix=not _WINDOWS)]
    except ValueError as error:
        raise ConfigurationError(
            f"VISUAL or EDITOR is not a command: {error}", hint="quote it as in a shell"
        ) from error
    if not words:
        raise ConfigurationError("VISUAL or EDITOR is empty", hint="set EDITOR, for example to nano")
    return [shutil.which(words[0]) or words[0], *words[1:]]


def _remove_unchanged(file: Path, template: str) -> None:
    try:
        if file.read_text(encoding="utf-8") == template:
            file.unlink()
    except (OSError, UnicodeDecodeError):
        return  # the check that follows says what is wrong
