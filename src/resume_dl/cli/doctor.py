"""``resume-dl doctor``."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from resume_dl.cli.options import option
from resume_dl.cli.page import page_of
from resume_dl.cli.run import guarded, say, say_json, say_marked, tell
from resume_dl.progress.console import presentable
from resume_dl.progress.text_width import wrapped

if TYPE_CHECKING:
    from resume_dl.diagnosis.finding import Finding

_WIDEST = 100
_NARROW = 60
"""Columns; below, a finding's text begins on a line of its own."""
_MARK, _NAME = 9, 10


@click.command("doctor")
@option("--offline", is_flag=True, help="Ask no server.")
@option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(*, offline: bool, as_json: bool) -> int:
    """Examine this machine: conda and its plugin, caches, disk, network, settings, GPU driver, console.

    Each problem comes with the command that corrects it, where one does. Exit code 1 if there is a problem.
    """
    problems = 0

    def call() -> None:
        nonlocal problems
        from resume_dl.app.checkup import examine_machine

        log = tell if sys.stderr.isatty() and not as_json else lambda _: None
        encoding = sys.stdout.encoding or "ascii"
        findings = examine_machine(os.environ, offline=offline, encoding=encoding, log=log)
        problems = sum(each.status.value == "problem" for each in findings)
        if as_json:
            say_json(_as_json(findings, problems))
        else:
            _show(findings, problems)

    return guarded("doctor", call, as_json=as_json) or (1 if problems else 0)


def _as_json(findings: Sequence[Finding], problems: int) -> dict[str, object]:
    checks = [
        {
            "name": each.name,
            "status": each.status.value,
            "text": presentable(each.text),
            "command": presentable(each.command) or None,
        }
        for each in findings
    ]
    code = 1 if problems else 0
    return {"schema": 1, "command": "doctor", "ok": not problems, "exit_code": code, "checks": checks}


def _show(findings: Sequence[Finding], problems: int) -> None:
    columns = page_of(sys.stdout).columns or shutil.get_terminal_size((_WIDEST, 24)).columns - 1
    columns = min(columns, _WIDEST)
    for each in findings:
        for number, line in enumerate(lines_of(each, columns)):
            if number:
                say(line)
            else:
                say_marked(each.status.value, line)
    notes = sum(each.status.value == "note" for each in findings)
    say(f"\n{_count(problems, 'problem')}, {_count(notes, 'note')}")


def lines_of(each: Finding, columns: int) -> Iterator[str]:
    """The lines of a finding, at most ``columns`` wide but for long words and its command, which stays whole."""
    head = f"{each.status.value:<{_MARK - 1}} {each.name:<{_NAME - 1}} "
    text = " ".join(presentable(each.text).split())
    if columns < _NARROW:
        yield head.rstrip()
        indent = "  "
        yield from (indent + line for line in wrapped(text, columns - len(indent)))
    else:
        indent = " " * len(head)
        for number, line in enumerate(wrapped(text, columns - len(head))):
            yield (indent if number else head) + line
    if each.command:
        yield f"{indent}run: {presentable(each.command)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
