"""Runs one command: signals, progress, the JSON object, exit codes, and errors as people should see them."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from resume_dl.errors import Interrupted, ResumeDLError

if TYPE_CHECKING:
    from resume_dl.app.report import RunResult
    from resume_dl.app.setup import TransferOptions
    from resume_dl.ports import Reporter

Cancelled = Callable[[], bool]


class Stop:
    """Ctrl-C once: ``cancelled()`` turns True and the run ends cleanly. Twice: KeyboardInterrupt."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def cancelled(self) -> bool:
        """Whether the user wants to stop."""
        return self._asked.is_set()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Catch SIGINT and SIGTERM (on Windows also Ctrl-Break) while the block runs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGBREAK"):
            numbers.append(signal.SIGBREAK)
        before = {number: signal.signal(number, self._handle) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        del frame
        if self._asked.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._asked.set()


def transfer_of(options: Mapping[str, Any]) -> TransferOptions:
    """The common options as the use cases take them."""
    from resume_dl.app.setup import TransferOptions  # noqa: PLC0415 - loaded when a command runs, not for --help

    return TransferOptions(
        mirrors_file=options["mirrors"],
        mirrors=tuple(options["mirror"]),
        upstream=not options["no_upstream"],
        connections=options["connections"],
        per_host=options["per_host"],
        limit_rate=options["limit_rate"],
        give_up_after=options["give_up_after"],
        wait=not options["no_wait"],
        offline=options["offline"],
    )


def run(
    command: str, options: Mapping[str, Any], call: Callable[[Reporter, Cancelled], RunResult]
) -> tuple[RunResult | None, int]:
    """Run ``call``; print its errors, and the JSON object where asked for. Returns its result and the exit code."""
    from resume_dl.app.report import RunResult, error_json  # noqa: PLC0415 - see above
    from resume_dl.progress.choose import choose  # noqa: PLC0415

    reporter = choose(options["progress"], sys.stderr, quiet=options["quiet"], verbose=options["verbose"])
    stop = Stop()
    result: RunResult | None = None
    error: ResumeDLError | None = None
    started = time.monotonic()
    try:
        with stop.listening():
            result = call(reporter, stop.cancelled)
    except ResumeDLError as caught:
        _trace(options)
        # Ctrl-C reaches our child processes too: what they then fail with is not the story
        error = _stopped() if stop.cancelled() else caught
    except KeyboardInterrupt:
        error = _stopped()
    except Exception as bug:  # noqa: BLE001 - a bug is told in one line, with its exit code and the JSON object
        _trace(options)
        error = ResumeDLError(
            f"a bug in resume-dl: {type(bug).__name__}", hint="run it again with --debug and report what it says"
        )
    if result is None:
        result = RunResult(command, error=error, elapsed=time.monotonic() - started)
    as_lines = options["progress"] == "json"
    for shown in _errors(result) if as_lines else ():
        reporter.event("error", error_json(shown))  # whoever reads lines of JSON must find nothing else there
    reporter.close()
    for shown in () if as_lines else _errors(result):
        show_error(shown)
    if options["json"]:
        say(json.dumps(result.as_json(), indent=2))
    return (result if error is None else None), result.exit_code


def _trace(options: Mapping[str, Any]) -> None:
    """``--debug``: the traceback, and everything else as without it (a bare exception would end in 1: try again)."""
    if options["debug"]:
        tell(traceback.format_exc())


def _stopped() -> Interrupted:
    return Interrupted("stopped", hint="run the same command again: what is on disk is kept")


def guarded(call: Callable[[], None]) -> int:
    """Run a command that downloads nothing; returns its exit code, its error shown."""
    try:
        call()
    except ResumeDLError as error:
        show_error(error)
        return error.exit_code
    return 0


def _errors(result: RunResult) -> list[ResumeDLError]:
    """What to tell, each once: files that were stopped together share one line."""
    errors = [error for error in (result.error, *(each.error for each in result.artifacts)) if error is not None]
    stopped = [error for error in errors if isinstance(error, Interrupted)]
    if len(stopped) > 1:
        safe = sum(error.resumable_bytes for error in stopped)
        one = Interrupted(f"stopped; {len(stopped)} files are unfinished", hint=stopped[0].hint, resumable_bytes=safe)
        errors = [one, *(error for error in errors if not isinstance(error, Interrupted))]
    return errors


def show_error(error: ResumeDLError) -> None:
    """What and why, what to do next, and how much is safe; to stderr."""
    tell(f"error: {error.message}")
    if error.resumable_bytes:
        from resume_dl.app.plan import show_bytes  # noqa: PLC0415 - see above

        tell(f"  safe on disk: {show_bytes(error.resumable_bytes)}")
    if error.hint:
        tell(f"  {error.hint}")


def tell(text: str) -> None:
    """A line on stderr; a closed stderr is no error."""
    with suppress(OSError, ValueError):
        click.echo(text, err=True)


def say(text: str) -> None:
    """A line on stdout; a reader that has gone away is no error."""
    try:
        click.echo(text)
    except BrokenPipeError:
        # Python would complain again while it ends (docs: signal, "Note on SIGPIPE")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
