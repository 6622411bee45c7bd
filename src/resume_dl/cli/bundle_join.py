"""``resume-dl bundle join``, the same as join.py beside the parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resume_dl.cli.options import option
from resume_dl.cli.run import guarded, say, say_json, show_error, stopped, tell
from resume_dl.errors import ConfigurationError, IntegrityError, ResumeDLError, StoreError, TransferError

if TYPE_CHECKING:
    from resume_dl.offline_tools.parts.join_parts import Report

_PATH = click.Path(path_type=Path)
_ERRORS: dict[int, type[ResumeDLError]] = {1: TransferError, 2: ConfigurationError, 4: IntegrityError, 5: StoreError}
"""Errors by exit code."""


@click.command("join")
@click.argument("what", metavar="LIST|PART|TAR|FOLDER", type=_PATH)
@option(
    "-o", "--output", "output", type=_PATH, metavar="OUT", help="The tar, or the folder for it.  [default: beside them]"
)
@option("--remove-parts/--keep-parts", "remove_parts", help="Remove the parts once the whole file is verified.")
@option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(what: Path, output: Path | None, *, remove_parts: bool, as_json: bool) -> int:
    """Join the parts; name those that are missing or damaged, and keep the others."""
    codes = [0]

    def call() -> None:
        from resume_dl.offline_tools.parts.join_parts import join
        from resume_dl.offline_tools.parts.parts_list import JoinError

        try:
            log = tell if as_json else say
            report = join(what, output, remove_parts=remove_parts, log=log)
        except JoinError as error:
            raise _ERRORS[error.exit_code](error.message, hint=error.hint) from error
        except KeyboardInterrupt as error:
            raise stopped() from error
        codes.append(report.exit_code)
        _show(report, as_json=as_json)

    return guarded("bundle join", call, as_json=as_json) or codes[-1]


def _show(report: Report, *, as_json: bool) -> None:
    from resume_dl.offline_tools.parts.advice import advice, summary
    from resume_dl.transfer.report import error_json

    code, whole, hints = report.exit_code, report.whole, advice(report)
    error = None
    if not report.joined:
        error = _ERRORS[code](summary(report), hint="\n  ".join(hints))
        show_error(error)
    for warning in report.warnings:
        tell(f"warning: {warning}")
    if as_json:
        about: dict[str, Any] = {"path": str(report.path), "size": whole.size, "sha256": whole.sha256}
        about |= {"missing": list(report.missing), "damaged": dict(report.damaged)}
        found = {"ok": report.joined, "exit_code": code, "error": None if error is None else error_json(error)}
        say_json({"schema": 1, "command": "bundle join", **found, **about})
    elif report.joined:
        for line in (summary(report), *hints):
            say(line)
