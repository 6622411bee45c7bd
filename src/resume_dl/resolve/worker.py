"""The client of the rattler worker: starts it on first use, sends requests, and survives its crashes.

The worker is started by its module's name and never imported: py-rattler stays out of this process, and so do its
memory, its event loop and its crashes.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from resume_dl import errors
from resume_dl.errors import ResumeDLError, WorkerCrashedError, required
from resume_dl.python_command import module_arguments, users_command
from resume_dl.threads import start_thread

_START = module_arguments("resume_dl.rattler_worker", before="sys.path.append(sys.argv[1])")
_PACKAGES = Path(errors.__file__).resolve().parents[1]
"""The folder of this package, last on the worker's path."""
_CREATE_NO_WINDOW = 0x08000000
_END = None
_TICK = 1.0
"""Seconds between calls of ``waits``."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """An unpacked archive: its digests as hex, and the files' total size in bytes and number."""

    sha256: str
    md5: str
    unpacked: int
    files: int


class RattlerWorker:
    """One child process that answers one request at a time; a context manager.

    It is started by ``start`` or a request, again after a crash or ``close``. ``env`` is its environment (default:
    this process's). Requests from several threads wait for each other; ``close`` may be called from any thread.
    """

    def __init__(self, *, python: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self._python = str(python or sys.executable)
        self._env = env
        self._asking = threading.Lock()
        self._child: _Child | None = None
        self._number = 0
        self.waits: Callable[[str, float], None] = _say_nothing
        """Called about once a second, in the requesting thread, with the operation and the seconds waited."""

    def __enter__(self) -> RattlerWorker:  # noqa: PYI034 - typing.Self is of 3.11
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The child's process id, or None while none runs."""
        return None if self._child is None else self._child.process.pid

    def start(self) -> None:
        """Start the process now, so that it loads its libraries while the caller continues.

        Errors are raised by the first request.
        """
        with self._asking, contextlib.suppress(WorkerCrashedError):
            if self._child is None:
                self._child = _Child(self._python, self._env)

    def request(self, op: str, args: Mapping[str, Any], timeout: float | None = None) -> Any:
        """The result of one operation; see ``rattler_worker.operations``.

        Raises the operation's error (of ``resume_dl.errors``), and WorkerCrashedError if the process ended, could not
        start, or did not answer within ``timeout`` seconds (it is killed then).
        """
        with self._asking:
            if self._child is None:
                self._child = _Child(self._python, self._env)
            self._number += 1
            try:
                answer = self._child.ask({"id": self._number, "op": op, "args": args}, timeout, self.waits)
            except BaseException:
                self._drop()
                raise
        if answer["ok"]:
            return answer["result"]
        raise _error(op, answer["error"])

    def extract(self, archive: Path, target: Path, timeout: float | None = None) -> Extracted:
        """Unpack ``archive`` into the new folder ``target``; the caller renames it into place.

        Raises IntegrityError, OutOfSpaceError, NotWritableError, WorkerCrashedError (then ``target`` may be half
        there, and once more in a fresh worker may help).
        """
        return Extracted(**self.request("extract", {"archive": str(archive), "target": str(target)}, timeout))

    def close(self) -> None:
        """End the process, in the middle of a request too. Never raises."""
        self._drop()

    def release(self) -> None:
        """End the process without waiting: releasing a solve's memory takes it a while. Never raises."""
        child, self._child = self._child, None
        if child is not None:
            try:
                start_thread(child.end, lambda _: None, name="worker-end")
            except RuntimeError:
                child.end()

    def _drop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


def _say_nothing(op: str, seconds: float) -> None:
    del op, seconds


class _Child:
    """The process, a thread that reads its answers, and one that keeps the end of its stderr."""

    def __init__(self, python: str, env: Mapping[str, str] | None) -> None:
        flags: int = _CREATE_NO_WINDOW if os.name == "nt" else 0
        try:
            self.process = subprocess.Popen(
                users_command(python, *_START, str(_PACKAGES)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=None if env is None else dict(env),
                creationflags=flags,
            )
        except OSError as error:
            raise WorkerCrashedError(
                f"cannot start {python}: {error.strerror or error}", hint="check that this Python is still installed"
            ) from error
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._said: deque[str] = deque(maxlen=20)
        self._was_asked = False
        out = required(self.process.stdout, "the worker's stdout")
        err = required(self.process.stderr, "the worker's stderr")
        self._threads: list[threading.Thread] = []
        try:
            self._threads.append(start_thread(lambda: self._read(out), self._broke, name="worker-answers"))
            self._threads.append(start_thread(lambda: self._listen(err), self._broke, name="worker-stderr"))
        except RuntimeError as error:
            self.end()
            raise WorkerCrashedError(f"cannot start a thread: {error}", hint="end other programs") from error

    def ask(
        self, request: Mapping[str, Any], timeout: float | None, waits: Callable[[str, float], None]
    ) -> dict[str, Any]:
        self._was_asked = True
        stdin = required(self.process.stdin, "the worker's stdin")
        # A process that has ended cannot be written to; the cause is reported below.
        with contextlib.suppress(OSError, ValueError):
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
        started = time.monotonic()
        line: bytes | None
        while True:
            waited = time.monotonic() - started
            try:
                line = self._answers.get(timeout=_TICK if timeout is None else max(0.0, min(_TICK, timeout - waited)))
                break
            except queue.Empty:
                waited = time.monotonic() - started
                if timeout is not None and waited >= timeout:
                    self.process.kill()
                    raise WorkerCrashedError(
                        f"the worker did not finish {request['op']} within {timeout:g} s", hint="run it again"
                    ) from None
                waits(str(request["op"]), waited)
        answer: Any = None
        if line is not _END:
            with contextlib.suppress(ValueError):
                answer = json.loads(line)
        if not isinstance(answer, dict) or answer.get("id") != request["id"]:
            raise self._crash(str(request["op"]))
        return answer

    def _crash(self, op: str) -> WorkerCrashedError:
        self.end()
        code = self.process.returncode
        if code < 0:
            with contextlib.suppress(ValueError):
                how = f"was ended by {signal.Signals(-code).name}"
                return WorkerCrashedError(f"the worker {how} during {op}", returncode=code, hint="run it again")
        said = f": {self._said[-1]}" if self._said else ""
        return WorkerCrashedError(
            f"the worker ended with status {code} during {op}{said}", returncode=code, hint="run it again"
        )

    def end(self) -> None:
        """Close its stdin, which ends it, or kill it. Waits for it and for both threads.

        A process without a request may still be starting and has nothing to lose: it is killed.
        """
        if not self._was_asked:
            self.process.kill()
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for thread in self._threads:
            thread.join()

    def _broke(self, error: BaseException) -> None:
        """Fail the waiting request, because a pipe cannot be read."""
        self._said.append(f"its output cannot be read ({type(error).__name__})")
        self._answers.put(_END)

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                self._answers.put(line)
        self._answers.put(_END)

    def _listen(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                if text := line.decode("utf-8", "replace").strip():
                    self._said.append(text)


def _error(op: str, described: Mapping[str, Any]) -> ResumeDLError:
    kind = getattr(errors, described["type"], None)
    if not (isinstance(kind, type) and issubclass(kind, ResumeDLError)):
        message = f"the worker failed at {op}: {described['message']}"
        return ResumeDLError(message, hint="this is a bug: please report it")
    data = {name: tuple(value) if isinstance(value, list) else value for name, value in described["data"].items()}
    make: Any = kind
    error: ResumeDLError = make(described["message"], hint=described["hint"], **data)
    return error
