"""The run of one command: signals, progress, the JSON object, exit codes, error messages."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click

from resume_dl.cli.page import page_of
from resume_dl.errors import InternalError, Interrupted, NoNetworkError, ResumeDLError, StoreError, missing_library
from resume_dl.fs.system import reader_has_gone
from resume_dl.model.proxy_auth import ProxyAuth
from resume_dl.model.units import show_bytes
from resume_dl.progress.console import presentable
from resume_dl.zip_application import zip_application

if TYPE_CHECKING:
    from resume_dl.ports import Reporter
    from resume_dl.transfer.report import RunResult
    from resume_dl.transfer.setup import TransferOptions

Cancelled = Callable[[], bool]
_PROSE = {"message", "hint", "notes", "note"}
"""Keys of the JSON object with texts for people."""


class Stop:
    """Ctrl-C handling: the first ends the run cleanly (``cancelled()``), the second raises KeyboardInterrupt.

    ``announce`` is called once, in the main thread, after the first. With ``at_once`` the second ends the process
    without another step: no thread and no clean-up may delay it, and what is on disk survives a kill at any moment.
    """

    def __init__(self, announce: Callable[[], None] = lambda: None, *, at_once: bool = False) -> None:
        self._asked = threading.Event()
        self._announce: Callable[[], None] | None = announce
        self._at_once = at_once
        self.number = 0
        """The signal received; 0 if none."""

    def cancelled(self) -> bool:
        """Whether the user wants to stop."""
        is_asked = self._asked.is_set()
        if is_asked and self.number != signal.SIGTERM and threading.current_thread() is threading.main_thread():
            announce, self._announce = self._announce, None  # not in the handler: it may interrupt a drawing
            if announce is not None:
                announce()
        return is_asked

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Catch SIGINT and SIGTERM (on Windows also Ctrl-Break) while the block runs.

        An ignored signal stays ignored, as for background jobs (POSIX shells, nohup).
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGBREAK"):
            numbers.append(signal.SIGBREAK)
        heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._handle) for number in heeded}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        del frame
        if self._asked.is_set() and number != signal.SIGTERM:
            if self._at_once:
                _end_at_once()
            raise KeyboardInterrupt
        self.number = self.number or number
        self._asked.set()


def _end_at_once() -> NoReturn:
    """End the process. Its children end with the terminal's Ctrl-C, or as their pipes close."""
    text = "stopped at once: what is on disk is kept; run the same command again\n"
    with suppress(OSError):
        # over the echoed ^C, which stands in the first column below the bars
        os.write(2, (("\r" if os.isatty(2) else "") + text).encode("ascii"))
    os._exit(Interrupted.exit_code)


def transfer_of(options: Mapping[str, Any]) -> TransferOptions:
    """The common options as values for the use cases."""
    from resume_dl.transfer.setup import TransferOptions

    return TransferOptions(
        mirrors_file=options["mirrors"],
        mirrors=tuple(options["mirror"]),
        upstream=not options["no_upstream"],
        index_from=tuple(options["index_from"]),
        connections=options["connections"],
        per_host=options["per_host"],
        limit_rate=options["limit_rate"],
        give_up_after=options["give_up_after"],
        max_index_size=options["max_index_size"],
        refresh=options["refresh"],
        index_max_age=options["index_max_age"],
        proxy_auth=None if options["proxy_auth"] is None else ProxyAuth(options["proxy_auth"]),
        wait=not options["no_wait"],
        offline=options["offline"],
        debug_trace=options["debug_trace"],
        command=_words(),
    )


def _words() -> tuple[str, ...]:
    """This command line; empty in the conda plugin."""
    context = click.get_current_context(silent=True)
    given = None if context is None else context.find_root().obj
    archive = zip_application()
    program = ("resume-dl",) if archive is None else (sys.executable, archive.archive)
    return (*program, *given) if isinstance(given, list) else ()


def run(
    command: str,
    options: Mapping[str, Any],
    call: Callable[[Reporter, Cancelled], RunResult],
    *,
    empty: Callable[[], RunResult] | None = None,
    report: Callable[[RunResult], None] = lambda _: None,
) -> tuple[RunResult | None, int]:
    """Run ``call``; print its errors, and the JSON object with --json. Returns its result and the exit code.

    ``empty`` makes the result of a failed run, if the JSON object has keys of its own. ``report`` prints the result,
    before the errors, which come last.
    """
    from resume_dl.progress.choose import choose
    from resume_dl.transfer.report import RunResult, error_json

    reporter = choose(options["progress"], sys.stderr, quiet=options["quiet"], verbose=options["verbose"])
    for_programs = options["json"] or options["progress"] == "json"
    stop = Stop(lambda: _announce_stop(reporter), at_once=not for_programs)
    result: RunResult | None = None
    error: ResumeDLError | None = None
    started = time.monotonic()
    try:
        with stop.listening():
            Path.cwd()  # nothing works without one, and each part would report it differently
            result = call(reporter, stop.cancelled)
    except ResumeDLError as caught:
        _trace(options)
        # Ctrl-C reaches our child processes too: their failures are only a consequence
        error = stopped() if stop.cancelled() else caught
    except KeyboardInterrupt:
        error = stopped()
    except Exception as caught:  # noqa: BLE001 - an internal error is one line, with its exit code and the JSON object
        _trace(options)
        error = as_error(caught)
    if result is None:
        result = RunResult(command) if empty is None else empty()
        result.error, result.elapsed = error, time.monotonic() - started
    if options["debug"]:
        for each in _errors(result):  # from a thread: its own traceback, not that of the collector
            if isinstance(each, InternalError) and each.__cause__ is not None and each is not error:
                _tell(presentable("".join(traceback.format_exception(each.__cause__))))
    as_lines = options["progress"] == "json"
    for shown in _errors(result) if as_lines else ():
        reporter.event("error", error_json(shown))  # readers of JSON lines must find nothing else there
    reporter.close()
    if error is None and not options["json"] and not options["quiet"]:
        report(result)
    if not as_lines:
        show_errors(_errors(result))
    if options["json"]:
        say_json(result.as_json())
    return (result if error is None else None), result.exit_code


def _announce_stop(reporter: Reporter) -> None:
    if page_of(sys.stderr).columns is not None:  # for the person at the keys
        reporter.message("stopping; press Ctrl-C again to end at once")


def _trace(options: Mapping[str, Any]) -> None:
    """``--debug``: the traceback, and everything else as without it (a bare exception would end in 1: try again)."""
    if options["debug"]:
        _tell(presentable(traceback.format_exc()))


def stopped() -> Interrupted:
    """The error for a run stopped by the user."""
    return Interrupted("stopped", hint="run the same command again: what is on disk is kept")


def as_error(caught: Exception) -> ResumeDLError:
    """Convert any exception: OSErrors concern this machine, unexpected ones are internal errors."""
    if isinstance(caught, ResumeDLError):
        return caught
    if isinstance(caught, ModuleNotFoundError) and (found := caught.name) and not found.startswith("resume_dl"):
        return missing_library(found.partition(".")[0], "a library that this needs")
    if not isinstance(caught, OSError):
        hint = "run it again with --debug and report the traceback"
        return ResumeDLError(f"internal error: {type(caught).__name__}", hint=hint)
    try:
        Path.cwd()
    except OSError:
        return StoreError("the current folder no longer exists", hint="change to another folder, and try again")
    named = f"{caught.filename}: " if caught.filename else ""
    return StoreError(f"{named}{caught.strerror or caught}", hint="check this file or folder and its permissions")


def guarded(command: str, call: Callable[[], None], *, as_json: bool) -> int:
    """Run a command that downloads nothing, show its error, and return its exit code."""
    try:
        call()
    except Exception as caught:  # noqa: BLE001 - as in run
        from resume_dl.transfer.report import error_json

        error = as_error(caught)
        show_error(error)
        if as_json:
            code = error.exit_code
            say_json({"schema": 1, "command": command, "ok": False, "exit_code": code, "error": error_json(error)})
        return error.exit_code
    return 0


def _errors(result: RunResult) -> list[ResumeDLError]:
    """The errors to show, without duplicates: files stopped together share one line."""
    errors = result.errors
    stopped = [error for error in errors if isinstance(error, Interrupted)]
    if len(stopped) > 1:
        safe = sum(error.resumable_bytes for error in stopped)
        one = Interrupted(f"stopped; {len(stopped)} files are unfinished", hint=stopped[0].hint, resumable_bytes=safe)
        errors = [one, *(error for error in errors if not isinstance(error, Interrupted))]
    missing = [error for error in errors if isinstance(error, NoNetworkError)]
    if len(missing) > 1:
        hosts = tuple(dict.fromkeys(host for error in missing for host in error.hosts))
        causes = tuple(dict.fromkeys(cause for error in missing for cause in error.causes))
        safe = sum(error.resumable_bytes for error in missing)
        rest = [error for error in errors if not isinstance(error, NoNetworkError)]
        errors = [*rest, NoNetworkError(hosts, causes=causes, resumable_bytes=safe)]
    return errors


def show_error(error: ResumeDLError) -> None:
    """Print what happened, why, what to do next, and what is safe on disk, to stderr."""
    show_errors([error])


def show_errors(errors: Sequence[ResumeDLError]) -> None:
    """Print the errors; a shared hint follows the last of them."""
    for number, error in enumerate(errors):
        tell_marked("error", f"error: {error.message}")
        if error.resumable_bytes:
            tell(f"  safe on disk: {show_bytes(error.resumable_bytes)}")
        if error.hint and error.hint not in {later.hint for later in errors[number + 1 :]}:
            tell(f"  {error.hint}")


def tell(text: str) -> None:
    """Print a line to stderr, in lines that fit its terminal; a closed stderr or pipe is no error."""
    _tell(page_of(sys.stderr).lines(text))


def tell_marked(mark: str, text: str) -> None:
    """``tell`` for a text that begins with ``mark``, which gets its colour (``progress.colours.TONES``)."""
    page = page_of(sys.stderr)
    _tell(page.paint_first(page.lines(text), mark))


def _tell(shown: str) -> None:
    try:
        click.echo(shown, file=sys.stderr)  # not its own choice, which is UTF-8 where the stream says ASCII
    except OSError:
        _give_up(sys.stderr)
    except ValueError:
        pass


def say(text: str) -> None:
    """Print a line to stdout, in lines that fit its terminal; a closed pipe is no error.

    Raises StoreError if it cannot be written.
    """
    say_shown(page_of(sys.stdout).lines(text))


def say_whole(text: str) -> None:
    """``say`` for what may be copied into a file: no line is broken."""
    say_shown(presentable(text))


def say_marked(mark: str, text: str) -> None:
    """``say`` for a text that begins with ``mark``, which gets its colour (``progress.colours.TONES``)."""
    say_shown(page_of(sys.stdout).paint_first(presentable(text), mark))


def say_json(report: Mapping[str, Any]) -> None:
    """Print the JSON object to stdout as ``say`` does, with presentable texts.

    It is ASCII, so no name in it can control a terminal.
    """
    say_shown(json.dumps(_scrubbed(report), indent=2))


def _scrubbed(value: Any, *, prose: bool = False) -> Any:
    if isinstance(value, str):
        return presentable(value) if prose else value
    if isinstance(value, Mapping):
        return {name: _scrubbed(one, prose=prose or name in _PROSE) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_scrubbed(one, prose=prose) for one in value]
    return value


def say_shown(text: str) -> None:
    """``say_whole`` for a text that is presentable already."""
    try:
        click.echo(text, file=sys.stdout)  # as in _tell
    except OSError as error:
        unsaid = give_up_stdout(error)
        if not reader_has_gone(error):
            raise unsaid from error


def _give_up(stream: TextIO) -> None:
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def give_up_stdout(error: OSError) -> StoreError:
    """The error for a failed write; closes stdout, on which Python would fail again at exit.

    (docs.python.org, signal: "Note on SIGPIPE".)
    """
    _give_up(sys.stdout)
    return StoreError(
        f"cannot write to standard output: {error.strerror or error}",
        hint="what was downloaded is kept; check where the output goes",
    )
