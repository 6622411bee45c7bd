"""``resume-dl self``, a command of ``resume-dl.pyz``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resume_dl.cli.help_sections import WHERE_TO, SectionedCommand
from resume_dl.cli.options import option, transfer_options
from resume_dl.cli.run import Cancelled, run, say, transfer_of
from resume_dl.cli.summary import sums

if TYPE_CHECKING:
    from resume_dl.ports import Reporter
    from resume_dl.transfer.report import RunResult


@click.group("self")
def command() -> None:
    """Fetch and install the whole program."""


@command.command("install", cls=SectionedCommand, examples=("python resume-dl.pyz self install",))
@option(
    "--folder",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The environment to make.  [default: one in our state folder]",
    section=WHERE_TO,
)
@transfer_options
def install(**options: Any) -> int:
    """Fetch everything that the whole program needs, resumable, and install it into an environment of its own.

    An interrupted download goes on when the command is run again.
    """

    def call(reporter: Reporter, cancelled: Cancelled) -> RunResult:
        from resume_dl.app.self_install import self_install
        from resume_dl.transfer.setup import load_setup

        setup = load_setup(transfer_of(options), os.environ)
        return self_install(options["folder"], setup, reporter, cancelled=cancelled)

    return run("self install", options, call, report=_say_where)[1]


def _say_where(result: RunResult) -> None:
    for text in (sums(result, "package"), *result.notes):
        say(text)
