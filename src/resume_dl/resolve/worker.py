"""Client of the rattler worker: starts it on first use, sends requests, and survives its crashes.

The worker is started as a module and never imported, which keeps py-rattler, its memory, its event loop and its crashes
out of this process.
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
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from resume_dl import errors
from resume_dl.errors import ResumeDLError, WorkerCrashedError, missing_library, required
from resume_dl.python_command import module_arguments, users_command
from resume_dl.threads import start_thread

_START = module_arguments("resume_dl.rattler_worker", before="sys.path.append(sys.argv[1])")
_PACKAGES = Path(errors.__file__).resolve().parents[1]
"""The folder of this package, appended to the worker's sys.path."""
_CREATE_NO_WINDOW = 0x08000000
_END = None
_TICK = 0.2
"""Seconds between two calls of ``waits``; no longer, for on Windows a wait cannot be interrupted by Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """An unpacked archive: its digests as hex, the files' total size in bytes, and their number."""

    sha256: str
    md5: str
    unpacked: int
    files: int


class RattlerWorker:
    """A child process that handles one request at a time; a context manager.

    ``start`` or a request starts it, also again after a crash or ``close``. ``env`` is its environment (default: this
    process's). Requests of several threads are serialised; ``close`` may be called from any thread.
    """

    def __init__(self, *, python: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        self._python = str(python or sys.executable)
        self._env = env
        self._asking = threading.Lock()
        self._child: _Child | None = None
        self._number = 0
        self.waits: Callable[[str, float], None] = _ignore_wait
        """Called some times a second in the requesting thread, with the operation and the seconds waited so far.

        An exception of it ends the request, and the process at once.
        """

    def __enter__(self) -> RattlerWorker:  # noqa: PYI034 - typing.Self is of 3.11
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The child's process id, or None if it is not running."""
        return None if self._child is None else self._child.process.pid

    def start(self) -> None:
        """Start the process early, so that it loads its libraries while the caller continues.

        Errors are raised by the first request.
        """
        with self._asking, contextlib.suppress(WorkerCrashedError):
            if self._child is None:
                self._child = _Child(self._python, self._env)

    def request(self, op: str, args: Mapping[str, Any], timeout: float | None = None) -> Any:
        """Run one operation and return its result; see ``rattler_worker.operations``.

        Raises the operation's error (of ``resume_dl.errors``), and WorkerCrashedError if the process exited, could not
        start, or did not answer within ``timeout`` seconds (it is then killed); ConfigurationError without py-rattler.
        """
        with self._asking:
            if self._child is None:
                if self._python == sys.executable and find_spec("rattler") is None:
                    raise missing_library("py-rattler", "which resolves and unpacks conda packages")
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

        Raises IntegrityError, OutOfSpaceError, NotWritableError, WorkerCrashedError (``target`` may then be
        incomplete, and a second attempt in a new worker may succeed).
        """
        return Extracted(**self.request("extract", {"archive": str(archive), "target": str(target)}, timeout))

    def close(self) -> None:
        """End the process, even during a request. Never raises."""
        self._drop()

    def release(self) -> None:
        """End the process without waiting for its exit, which takes a while after a large solve. Never raises."""
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


def _ignore_wait(op: str, seconds: float) -> None:
    del op, seconds


class _Child:
    """The process, a thread that reads its answers, and one that keeps the last lines of its stderr."""

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
        self._stderr_tail: deque[str] = deque(maxlen=20)
        self._was_asked = False
        out = required(self.process.stdout, "the worker's stdout")
        err = required(self.process.stderr, "the worker's stderr")
        self._threads: list[threading.Thread] = []
        try:
            self._threads.append(start_thread(lambda: self._read_answers(out), self._fail, name="worker-answers"))
            self._threads.append(start_thread(lambda: self._read_stderr(err), self._fail, name="worker-stderr"))
        except RuntimeError as error:
            self.end()
            raise WorkerCrashedError(f"cannot start a thread: {error}", hint="end other programs") from error

    def ask(
        self, request: Mapping[str, Any], timeout: float | None, waits: Callable[[str, float], None]
    ) -> dict[str, Any]:
        self._was_asked = True
        stdin = required(self.process.stdin, "the worker's stdin")
        # Writing fails if the process has exited; the cause is reported below.
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
                try:
                    waits(str(request["op"]), waited)
                except BaseException:
                    self.process.kill()  # at the end of its stdin a library may go on for seconds
                    raise
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
                how = f"was killed by {signal.Signals(-code).name}"
                return WorkerCrashedError(f"the worker {how} during {op}", returncode=code, hint="run it again")
        reason = f": {self._stderr_tail[-1]}" if self._stderr_tail else ""
        return WorkerCrashedError(
            f"the worker exited with status {code} during {op}{reason}", returncode=code, hint="run it again"
        )

    def end(self) -> None:
        """End the process by closing its stdin, or kill it; wait for it and for both threads.

        A process without a request has no state to lose and may still be starting: it is killed.
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

    def _fail(self, error: BaseException) -> None:
        """Fail the waiting request after a read error on a pipe."""
        self._stderr_tail.append(f"its output cannot be read ({type(error).__name__})")
        self._answers.put(_END)

    def _read_answers(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                self._answers.put(line)
        self._answers.put(_END)

    def _read_stderr(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                if text := line.decode("utf-8", "replace").strip():
                    self._stderr_tail.append(text)


def _error(op: str, described: Mapping[str, Any]) -> ResumeDLError:
    kind = getattr(errors, described["type"], None)
    if not (isinstance(kind, type) and issubclass(kind, ResumeDLError)):
        message = f"the worker failed at {op}: {described['message']}"
        return ResumeDLError(message, hint="this is a bug: please report it")
    data = {name: tuple(value) if isinstance(value, list) else value for name, value in described["data"].items()}
    make: Any = kind
    error: ResumeDLError = make(described["message"], hint=described["hint"], **data)
    return error
