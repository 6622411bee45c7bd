"""A question to the user's keyring: to the library in pip's Python, or to the program ``keyring``, in a child process.

As pip does it (pip/_internal/network/auth.py). The login comes back over a pipe. The library is that of pip's Python,
never one beside us: in this process a keyring that opens a dialog could not be ended.
"""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from resume_dl.errors import required
from resume_dl.model.index_logins import AUTO, IMPORT, SUBPROCESS, KeyringAnswer, KeyringQuestion
from resume_dl.offline_tools.machine.programs import find_program
from resume_dl.python_command import users_command, utf8_output
from resume_dl.settings.child_process import ChildNotStartedError, ChildProcess
from resume_dl.threads import start_thread

_MOST_BYTES = 64 << 10
"""Most of an answer that is read; tokens have some kilobytes."""
_POLL = 0.05
"""Seconds between two checks whether to stop."""
_AFTER_EXIT = 2.0
"""Seconds for the rest of the output, whose pipe a grandchild may keep open."""
_USAGE = 2
"""Exit code of a keyring before 25.2.1, which does not know ``--mode``."""
_BATCH = {".bat", ".cmd"}
"""Their arguments are parsed by cmd.exe, which would expand a URL's ``%``."""
_UNUSABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_LIBRARY = """
import json, os, sys
out = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # what a backend prints is no answer
asked, said = json.loads(sys.stdin.buffer.read()), {}
try:
    import keyring
except Exception:
    said = {"missing": True}
try:
    for service in () if said else asked["services"]:
        user = asked["username"]
        if hasattr(keyring, "get_credential"):
            found = keyring.get_credential(service, user)
            said = {} if found is None else {"username": found.username, "password": found.password}
        elif user is not None and (password := keyring.get_password(service, user)):
            said = {"username": user, "password": password}
        if said:
            break
except Exception as error:
    said = {"error": type(error).__name__}
out.write(json.dumps(said))
out.close()
"""


class KeyringFailedError(Exception):
    """A keyring that gave no answer; the text says why. Never leaves the settings package."""


def ask_keyring(
    question: KeyringQuestion,
    provider: str,
    python: Path,
    env: Mapping[str, str],
    *,
    patience: float,
    stop: threading.Event,
) -> KeyringAnswer:
    """The login that the keyring has, or why there is none.

    ``auto``: the library, or the program if there is no library. Raises KeyringFailedError if the keyring fails, which
    it would do again.
    """
    until = _Until(time.monotonic() + patience, patience, stop)
    if provider in {AUTO, IMPORT}:
        answer = _ask_library(question, python, env, until, alone=provider == IMPORT)
        if answer is not None:
            return answer
    if provider in {AUTO, SUBPROCESS}:
        program = find_program("keyring", env)
        if program is not None and program.suffix.lower() not in _BATCH:
            return _ask_program(question, program, env, until)
        if provider == SUBPROCESS:
            return KeyringAnswer(why="no program keyring is on PATH (--keyring-provider subprocess)")
    return KeyringAnswer()


class _Until:
    """The end of a question."""

    def __init__(self, deadline: float, patience: float, stop: threading.Event) -> None:
        self.deadline, self.patience, self.stop = deadline, patience, stop


def _ask_library(
    question: KeyringQuestion, python: Path, env: Mapping[str, str], until: _Until, *, alone: bool
) -> KeyringAnswer | None:
    """The answer of the module ``keyring``; None if it cannot be imported and is not ``alone``."""
    whose = f"the keyring of {python}"
    # Not an argument, which other users can see: a token may stand in place of the user name.
    asked = json.dumps({"services": question.services, "username": question.username}).encode("ascii")
    code, output = _output(users_command(str(python), "-c", _LIBRARY), env, until, whose, asked=asked)
    said = _parsed(output)
    if code != 0 or said is None:
        raise KeyringFailedError(f"{whose} gave no answer (exit code {code})")
    if said.get("missing"):
        why = f"{python} cannot import keyring (--keyring-provider import)"
        return KeyringAnswer(why=why) if alone else None
    if "error" in said:
        raise KeyringFailedError(f"{whose} failed ({str(said['error'])[:60]})")
    return _login(said, whose) if said else KeyringAnswer(why=f"{whose} has no login for it")


def _ask_program(question: KeyringQuestion, program: Path, env: Mapping[str, str], until: _Until) -> KeyringAnswer:
    """The answer of the program ``keyring``."""
    user = () if question.username is None else (question.username,)
    for service in question.services:
        line = [str(program), "--mode=creds", "--output=json", "get", service, *user]
        code, output = _output(line, env, until, str(program))
        if code == 0:
            said = _parsed(output)
            if said is None:
                raise KeyringFailedError(f"{program} gave an answer that cannot be read")
            return _login(said, str(program))
        if code == _USAGE and question.username is not None:
            code, output = _output([str(program), "get", service, *user], env, until, str(program))
            if code == 0:
                password = output.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
                return _login({"username": question.username, "password": password}, str(program))
        if code not in {1, _USAGE}:
            raise KeyringFailedError(f"{program} ended with exit code {code}")
    return KeyringAnswer(why=f"{program} gave no login for it")


def _login(said: Mapping[str, Any], whose: str) -> KeyringAnswer:
    name, password = said.get("username"), said.get("password")
    if not isinstance(name, str) or not isinstance(password, str):
        raise KeyringFailedError(f"{whose} gave an answer that cannot be read")
    if _UNUSABLE.search(name + password):  # RFC 7617 2
        return KeyringAnswer(why=f"the login from {whose} has a control character, such as a line break: store it anew")
    return KeyringAnswer((name, password))


def _parsed(output: bytes) -> dict[str, Any] | None:
    try:
        said = json.loads(output)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _output(
    line: Sequence[str], env: Mapping[str, str], until: _Until, whose: str, *, asked: bytes = b""
) -> tuple[int, bytes]:
    """Exit code and output of a child process that reads ``asked`` from its stdin.

    Raises KeyringFailedError if it does not end, or prints too much.
    """
    read: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    try:
        # not the current folder: -c imports from it
        with ChildProcess(
            line, utf8_output(env), subprocess.PIPE, folder=Path(line[0]).parent, asked=bool(asked)
        ) as child:
            process = required(child.process, "the process")
            if asked:
                with suppress(OSError), required(process.stdin, "its input") as stdin:  # it may have ended
                    stdin.write(asked)
            pipe = required(process.stdout, "its output")
            start_thread(lambda: read.put(_read(pipe)), lambda _: read.put(None), name="keyring-answer")
            code = None
            while code is None and time.monotonic() < until.deadline and not until.stop.is_set() and read.empty():
                code = child.wait(time.monotonic() + _POLL)
            if code is None and not read.empty():  # its output has ended, or is too long
                code = child.wait(min(until.deadline, time.monotonic() + _AFTER_EXIT))
    except (ChildNotStartedError, RuntimeError) as error:
        raise KeyringFailedError(f"{whose} could not be started") from error
    if code is None:
        raise KeyringFailedError(
            f"{whose} did not answer within {until.patience:g} s: if it asks for a password, unlock it first"
        )
    try:
        output = read.get(timeout=_AFTER_EXIT)
    except queue.Empty:
        output = b""
    if output is None:
        raise KeyringFailedError(f"{whose} gave an answer that cannot be read")
    return code, output


def _read(pipe: IO[bytes]) -> bytes | None:
    """The output to its end; None if it is too long."""
    found = b""
    with pipe:
        while chunk := os.read(pipe.fileno(), _MOST_BYTES):
            found += chunk
            if len(found) > _MOST_BYTES:
                return None
    return found
