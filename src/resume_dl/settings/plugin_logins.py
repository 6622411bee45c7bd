"""The logins of conda's plugins: a child process of conda's Python is asked what conda's session would send for a URL.

The process (``conda_session``) starts at the first question and ends with the run. Answers stay in memory.
"""

from __future__ import annotations

import json
import pkgutil
import queue
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any
from urllib.parse import urlsplit

from resume_dl.errors import required
from resume_dl.model.access import PluginLogin, is_of_login
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.child_process import ChildNotStartedError, ChildProcess
from resume_dl.settings.conda_answer import CondaAnswerError
from resume_dl.settings.conda_find import conda_python
from resume_dl.threads import start_thread

TIMEOUT = 30.0
"""Seconds without an answer, the start of conda included, after which no plugin is asked in this run."""
MOST_LINE = 256 << 10
MOST_HEADERS = 64
MOST_TEXT = 16 << 10
"""Most bytes of one header's value; servers take 8 to 16 KiB in all."""
_MOST_STRAY = 100
"""Most lines that are no answers: a site customization may print before the script starts."""
_UNREADABLE = "the answer of conda's process is unreadable"
_IN_VAIN = 3
"""Renewals that brought the same login, after which there is none: some servers answer 403 for a missing file."""
_TICK = 0.1
"""Seconds between two looks at ``cancelled``."""
_START = (
    "import sys; sys.path[:] = [place for place in sys.path if place]; "
    "exec(compile(sys.argv[1], 'conda_session', 'exec'))"
)
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
"""A header's name (RFC 9110 5.6.2)."""
_VALUE = re.compile(r"(?:[\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff\t]*[\x21-\x7e\x80-\xff])?)?")
"""A header's value (RFC 9110 5.5): no control characters, no space at its ends."""
_ADDRESS = re.compile(r"https?://[\x21-\x7e]{1,8000}")
_ERROR = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}")
_FRAMING = frozenset({"content-length", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})

Cancelled = Callable[[], bool]
Warn = Callable[[str], None]


class CondaLogins:
    """``ports.PluginLogins`` for the conda at hand; ``channel_of``: ``ChannelAccess.plugin_channel``."""

    def __init__(
        self,
        conda: CondaSettings,
        channel_of: Callable[[RedactedUrl], str | None],
        env: Mapping[str, str],
        *,
        timeout: float = TIMEOUT,
    ) -> None:
        self._channel_of = channel_of
        self._env = env
        self._timeout = timeout
        python = conda_python(conda) if conda.conda_command else None
        self._line = None if python is None else (str(python), "-c", _START)
        self._turn = threading.Lock()
        self._session: _Session | None = None
        self._process = 1
        self._accepted = False
        self._in_vain = 0
        self._known: dict[str, PluginLogin | str] = {}
        """URL -> the answer, or why there is none."""
        self._broken = ""
        """Why no further question is asked."""
        self._told: set[str] = set()

    def login(self, url: RedactedUrl, *, cancelled: Cancelled, warn: Warn) -> PluginLogin | None:
        """See ``ports.PluginLogins``."""
        if self._channel_of(url) is None:
            return None
        with self._my_turn(cancelled) as mine:
            return self._find(url, cancelled, warn) if mine else None

    def renewed(
        self, refused: PluginLogin, url: RedactedUrl, *, cancelled: Cancelled, warn: Warn
    ) -> PluginLogin | None:
        """See ``ports.PluginLogins``.

        A new process is asked, for plugins keep their tokens in memory: once, and again after a server has accepted
        what it said, but for ``_IN_VAIN``.
        """
        with self._my_turn(cancelled) as mine:
            if not mine or self._in_vain >= _IN_VAIN:
                return None
            if refused.process == self._process:
                if self._process > 1 and not self._accepted:
                    return None
                self._end()
                self._process += 1
                self._accepted = False
                self._known.clear()
            found = self._find(url, cancelled, warn)
            same = found is not None and (found.url, found.headers) == (refused.url, refused.headers)
            self._in_vain += same
        return None if same else found

    def accepted(self, login: PluginLogin) -> None:
        """See ``ports.PluginLogins``."""
        if login.process == self._process:
            self._accepted = True

    def close(self) -> None:
        """See ``ports.PluginLogins``; a later question starts another process."""
        self._end()

    @contextmanager
    def _my_turn(self, cancelled: Cancelled) -> Iterator[bool]:
        while not (mine := self._turn.acquire(timeout=_TICK)) and not cancelled():
            pass
        try:
            yield mine
        finally:
            if mine:
                self._turn.release()

    def _find(self, url: RedactedUrl, cancelled: Cancelled, warn: Warn) -> PluginLogin | None:
        address = url.reveal().partition("#")[0]
        if address not in self._known and not self._broken:
            try:
                if not self._ask(address, self._channel_of(url) or "", cancelled):
                    return None
            except CondaAnswerError as error:
                self._broken = str(error)
                self._end()
        found = self._known.get(address, self._broken)
        if isinstance(found, PluginLogin):
            return found
        text = (
            f"the login for {url.host} is provided by a conda plugin (channel_settings) and not available here: {found}"
        )
        if text not in self._told:
            self._told.add(text)
            warn(f"{text}; if the server refuses access, install with conda itself")
        return None

    def _ask(self, address: str, channel: str, cancelled: Cancelled) -> bool:
        """Ask for ``address``; False if cancelled. Raises CondaAnswerError if no further question makes sense."""
        if self._line is None:
            raise CondaAnswerError("no conda answers on this machine")
        session = self._session
        if session is None:
            session = self._session = _Session(self._line, self._env, self._timeout)
        session.ask(address, channel)
        while address not in self._known:
            answer = session.answer(cancelled)
            if answer is None:
                return False
            self._known[answer[0]] = checked(answer[0], answer[1], self._process)
        return True

    def _end(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.end()


class _Session:
    """The process, with a thread that reads its answers."""

    def __init__(self, line: Sequence[str], env: Mapping[str, str], timeout: float) -> None:
        script = required(pkgutil.get_data("resume_dl", "conda_session.py"), "conda_session.py").decode()
        self._timeout = timeout
        self._asked: dict[int, str] = {}
        """Number -> URL of the questions without an answer: a cancelled one is answered later."""
        self._number = 0
        self._stray = 0
        self._flooded = False
        self._since = 0.0
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        try:
            self._child = ChildProcess((*line, script), env, subprocess.PIPE, asked=True).__enter__()
        except ChildNotStartedError as error:
            raise CondaAnswerError(str(error)) from error
        process = required(self._child.process, "conda's process")
        self._questions = required(process.stdin, "its stdin")
        answers = required(process.stdout, "its stdout")
        try:
            start_thread(lambda: self._receive(answers), lambda _: self._answers.put(b""), name="conda-logins")
        except RuntimeError as error:
            answers.close()
            self._child.end()
            raise CondaAnswerError("no thread can be started") from error

    def ask(self, address: str, channel: str) -> None:
        """Send a question, unless it is still without an answer."""
        if address in self._asked.values():
            return
        if not self._asked:
            self._since = time.monotonic()
        self._number += 1
        self._asked[self._number] = address
        question = json.dumps({"id": self._number, "url": address, "channel": channel}).encode("ascii") + b"\n"
        with suppress(OSError, ValueError):  # the process has ended, as the thread will report
            self._questions.write(question)
            self._questions.flush()

    def answer(self, cancelled: Cancelled) -> tuple[str, dict[str, Any]] | None:
        """The next answer, with its URL; None if cancelled. Raises CondaAnswerError."""
        while not cancelled():
            left = self._since + self._timeout - time.monotonic()
            try:
                line = self._answers.get(timeout=max(0.0, min(_TICK, left)))
            except queue.Empty:
                if left <= 0:
                    raise CondaAnswerError(f"conda's plugin did not answer within {self._timeout:g} s") from None
                continue
            if not line and cancelled():
                return None
            if not line:
                raise CondaAnswerError(_UNREADABLE if self._flooded else "conda's process ended")
            if len(line) > MOST_LINE:
                raise CondaAnswerError("the answer of conda's process is too long")
            said = _object(line)
            number = said.get("id")
            if isinstance(number, int) and number in self._asked:
                self._since = time.monotonic()
                return self._asked.pop(number), said
            self._stray += 1
            if self._stray > _MOST_STRAY:
                raise CondaAnswerError(_UNREADABLE)
        return None

    def end(self) -> None:
        self._child.end()

    def _receive(self, pipe: IO[bytes]) -> None:
        with pipe:
            while line := pipe.readline(MOST_LINE + 1):
                self._answers.put(line)
                self._flooded = self._answers.qsize() > _MOST_STRAY
                if self._flooded or len(line) > MOST_LINE:
                    break
        self._answers.put(b"")


def _object(line: bytes) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def checked(asked: str, said: Mapping[str, Any], process: int) -> PluginLogin | str:
    """The login in an answer about the URL ``asked``, or why there is none, without a word of the answer: a secret."""
    error, url, headers = said.get("error"), said.get("url"), said.get("headers")
    if isinstance(error, str) and _ERROR.fullmatch(error):
        return f"it fails ({error})"
    if said.get("by_handler") is False:
        return "conda has no such plugin"
    if not isinstance(url, str) or not _ADDRESS.fullmatch(url) or not isinstance(headers, dict):
        return "its answer has an unexpected form"
    if _origin(url) != _origin(asked):
        return "it names another server"
    if len(headers) > MOST_HEADERS or not all(map(_is_header, headers.items())):
        return "its headers are invalid"
    sent = {name.lower(): value for name, value in headers.items() if is_of_login(name)}
    return PluginLogin(RedactedUrl(url), {name: sent[name] for name in sent if name not in _FRAMING}, process)


def _is_header(header: tuple[str, object]) -> bool:
    name, value = header
    known = isinstance(value, str) and len(value) <= MOST_TEXT and _VALUE.fullmatch(value) is not None
    return known and _NAME.fullmatch(name) is not None


def _origin(url: str) -> tuple[str, str, int | None] | None:
    try:
        parts = urlsplit(url)
        return parts.scheme.lower(), (parts.hostname or "").lower(), parts.port
    except ValueError:
        return None
