"""``resume-dl resume``."""

from __future__ import annotations

import io
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resume_dl.cli.options import option
from resume_dl.cli.run import guarded, say, say_json, stopped, tell
from resume_dl.errors import worst_exit_code
from resume_dl.model.units import show_bytes
from resume_dl.progress.console import duration_text

if TYPE_CHECKING:
    from resume_dl.app.leftovers import Continuation, Leftover

_DIR = click.Path(path_type=Path, file_okay=False)
_COUNTS = ("downloaded", "resumed", "cached", "wasted")
_LOGIN = re.compile(r"\b40[13]\b")
_NO_LOGIN = "notes hold no login: if its server wants one, set the same variables and settings as for the first run"


@dataclass(slots=True)
class _Outcome:
    """What became of one command; ``report`` is its own JSON object, empty if it has none."""

    continuation: Continuation
    status: str
    code: int = 0
    report: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    hint: str = ""


@click.command("resume")
@click.option("--pkgs-dir", "pkgs_dir", multiple=True, type=_DIR, help="Look here too; repeatable.")
@option("--dry-run", "dry_run", is_flag=True, help="Show the commands, and run none.")
@option("--progress", type=click.Choice(["bar", "plain", "json", "none"]), help="Form of the progress on stderr.")
@option("-q", "--quiet", is_flag=True, help="Show errors only.")
@option("-v", "--verbose", is_flag=True, help="Show every failure of every source.")
@option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(pkgs_dir: tuple[Path, ...], **options: Any) -> int:
    """Continue everything that is unfinished: run the commands that status shows, one after the other.

    One that fails does not stop the others; Ctrl-C stops all.
    """
    codes: list[int] = []

    def call() -> None:
        from resume_dl.app.leftovers import (
            continuations,
            find,
            folders,
            notes_of,
        )
        from resume_dl.transfer.setup import TransferOptions, load_setup

        started = time.monotonic()
        setup = load_setup(TransferOptions(), os.environ)
        places = folders(setup, pkgs_dir)
        planned, unknown = continuations(find(places, notes_of(setup)), os.environ)
        outcomes = _run_all(planned, options)
        later = find(places, notes_of(setup)) if any(each.status == "done" for each in outcomes) else []
        for each in outcomes:
            if each.status == "done":
                _note_left(each, later)
        codes.append(worst_exit_code([each.code for each in outcomes]))
        elapsed = time.monotonic() - started
        if options["as_json"]:
            say_json(_as_json(outcomes, unknown, codes[-1], elapsed))
        else:
            _show(outcomes, unknown, elapsed, quiet=options["quiet"])

    return guarded("resume", call, as_json=options["as_json"]) or codes[-1]


def _run_all(planned: Sequence[Continuation], options: Mapping[str, Any]) -> list[_Outcome]:
    outcomes: list[_Outcome] = []
    for number, each in enumerate(planned, 1):
        if outcomes and outcomes[-1].code == stopped().exit_code:
            outcomes.append(_Outcome(each, "stopped", outcomes[-1].code))
        elif each.busy:
            outcomes.append(_Outcome(each, "busy", message="another process is working on it"))
        elif each.obstacle:
            outcomes.append(_Outcome(each, "skipped", 2, message=each.obstacle, hint=each.hint))
        elif options["dry_run"]:
            outcomes.append(_Outcome(each, "planned"))
        else:
            if not options["quiet"]:
                tell(f"[{number} of {len(planned)}] {each.line}  (in {each.run.cwd})")
            outcomes.append(_run(each, options))
    return outcomes


def _run(each: Continuation, options: Mapping[str, Any]) -> _Outcome:
    """Run one command in this process, in its folder, with its JSON object taken for ours."""
    from resume_dl.cli.outcome import outcome

    is_pips = each.name == ("pip", "install")
    flags = [] if is_pips else ["--json", *(f"--{name}" for name in ("quiet", "verbose") if options[name])]
    flags += ["--progress", options["progress"]] if options["progress"] else []
    words = [*each.name, *flags, *each.arguments[len(each.name) :]]
    captured = io.StringIO()
    try:
        with _in_folder(each.run.cwd), _output_of_children_apart(), redirect_stdout(captured):
            code = outcome(words, noted=list(each.arguments))
    except KeyboardInterrupt:
        code = stopped().exit_code
    except OSError as error:
        return _Outcome(each, "failed", 5, message=f"{each.run.cwd}: {error.strerror or error}")
    report = _object(captured.getvalue())
    made = _Outcome(each, "done" if code == 0 else "stopped" if code == stopped().exit_code else "failed", code, report)
    if made.status == "failed" and _was_refused(report):
        made.hint = _NO_LOGIN
    return made


@contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _output_of_children_apart() -> Iterator[None]:
    """Send to stderr what pip and conda print: stdout is for our summary or JSON object."""
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _was_refused(report: Mapping[str, Any]) -> bool:
    rows = report.get("artifacts") or ()
    errors = [report.get("error"), *(row.get("error") for row in rows)]
    texts = [f"{error['message']} {error['hint']}" for error in errors if error]
    refused = any("refused" in source["failures"] for row in rows for source in row.get("sources") or ())
    return refused or any(_LOGIN.search(text) for text in texts)


def _note_left(each: _Outcome, later: Sequence[Leftover]) -> None:
    """Name the files that the command left, though it ended well: it fetches others today."""
    before = {(file.folder, file.key) for file in each.continuation.files}
    names = sorted(file.filename or file.key for file in later if (file.folder, file.key) in before and not file.busy)
    if names:
        each.message = f"no longer needed: {', '.join(names)}"
        each.hint = "resume-dl clean removes it"


def _as_json(outcomes: Sequence[_Outcome], unknown: Sequence[Leftover], code: int, elapsed: float) -> dict[str, Any]:
    return {
        "schema": 1,
        "command": "resume",
        "ok": code == 0,
        "exit_code": code,
        "elapsed": round(elapsed, 3),
        "error": None,
        "totals": _totals(outcomes),
        "runs": [
            {
                "command": each.continuation.line,
                "folder": str(each.continuation.run.cwd),
                "status": each.status,
                "exit_code": each.code,
                "message": each.message,
                "hint": each.hint,
                "files": [
                    {"filename": file.filename, "size": file.size, "done": file.done}
                    for file in each.continuation.files
                ],
                "report": dict(each.report) or None,
            }
            for each in outcomes
        ],
        "without_command": [{"folder": str(each.folder), "key": each.key} for each in unknown],
    }


def _file(each: Leftover) -> dict[str, Any]:
    return {"filename": each.filename, "size": each.size, "done": each.done}


def _totals(outcomes: Sequence[_Outcome]) -> dict[str, int]:
    totals = [each.report.get("totals") or {} for each in outcomes]
    return {name: sum(int(each.get(name, 0)) for each in totals) for name in _COUNTS}


def _show(outcomes: Sequence[_Outcome], unknown: Sequence[Leftover], elapsed: float, *, quiet: bool) -> None:
    for each in outcomes:
        if quiet and each.code == 0:
            continue
        files = each.continuation.files
        done, sizes = sum(file.done for file in files), [file.size for file in files]
        of = "?" if None in sizes else show_bytes(sum(size for size in sizes if size is not None))
        had = f"  ({show_bytes(done)} of {of})" if each.status != "done" else ""
        say(f"{each.status:<8} {each.continuation.line}{had}")
        for text in filter(None, (each.message, each.hint)):
            say(f"{'':9}{text}")
    if quiet:
        return
    if unknown:
        what = "1 unfinished download has" if len(unknown) == 1 else f"{len(unknown)} unfinished downloads have"
        say(f"{what} no known command: see resume-dl status")
    if not outcomes:
        say("nothing to resume")
        return
    counts = [f"{number} {status}" for status in _STATUSES if (number := sum(o.status == status for o in outcomes))]
    totals = _totals(outcomes)
    sums = [f"{show_bytes(totals[name])} {name}" for name in ("downloaded", "resumed") if totals[name]]
    count = "1 command" if len(outcomes) == 1 else f"{len(outcomes)} commands"
    say("; ".join([f"{count}: {', '.join(counts)}", *sums, duration_text(elapsed)]))


_STATUSES = ("done", "planned", "busy", "skipped", "failed", "stopped")
