"""``resume-dl pip``: install with the files fetched first, and pip's own configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resume_dl.cli.help_sections import OUTPUT, WHAT, WHERE_TO, SectionedCommand, SectionedOption
from resume_dl.cli.options import network_options, option
from resume_dl.cli.pip_config import command as config
from resume_dl.cli.run import Cancelled, run, transfer_of
from resume_dl.cli.spec_arguments import SHARED_WHEELS
from resume_dl.cli.summary import say_summary

if TYPE_CHECKING:
    from resume_dl.app.pip_install import PipInstall
    from resume_dl.ports import Reporter
    from resume_dl.transfer.report import RunResult

_PATH = click.Path(path_type=Path)


@click.group("pip")
def command() -> None:
    """Install with pip from fetched files, and configure pip for mirrors."""


command.add_command(config)


@command.command(
    "install",
    cls=SectionedCommand,
    examples=(
        "resume-dl pip install torch==1.6.0",
        "resume-dl pip install -r requirements.txt --mirror tuna",
        "resume-dl pip install --python .venv numpy --limit-rate 500k",
    ),
    context_settings={"ignore_unknown_options": True},
)
@click.option(
    "--python",
    "python",
    type=_PATH,
    help="Install into this Python or environment.  [default: the active one]",
    cls=SectionedOption,
    section=WHERE_TO,
)
@option(
    "--wheel-dir", "wheel_dir", type=_PATH, help="The folder for wheels.  [default: one in our cache]", section=WHERE_TO
)
@SHARED_WHEELS
@option("--allow-sdist", "allow_sdist", is_flag=True, help="Allow source archives if there is no wheel.", section=WHAT)
@option(
    "--progress",
    type=click.Choice(["bar", "plain", "json", "none"]),
    help="Form of the progress on stderr.",
    section=OUTPUT,
)
@network_options
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS OF PIP INSTALL]...")
def install(args: tuple[str, ...], **options: Any) -> int:
    """Fetch the files first, resumable, verified and from every mirror; then run pip install with them.

    Options of pip install have their usual meaning; pip itself installs, without an index.
    """
    shared = {"quiet": bool({"-q", "-qq", "-qqq", "--quiet"} & {*args}), "debug": "--debug" in args}
    job: PipInstall | None = None

    def call(reporter: Reporter, cancelled: Cancelled) -> RunResult:
        from resume_dl.app.pip_install import PipInstall
        from resume_dl.settings.pip_find import python_at
        from resume_dl.transfer.setup import load_setup

        nonlocal job
        env = dict(os.environ)
        if options["python"] is not None:
            env["RESUME_DL_PIP_PYTHON"] = str(python_at(options["python"].absolute()))
        setup = load_setup(transfer_of(options), env)
        wheels = {"wheel_dir": options["wheel_dir"], "shared_wheel_dirs": options["shared_wheel_dir"]}
        job = PipInstall(args, setup, allow_sdist=options["allow_sdist"], **wheels)
        return job.fetch(reporter, cancelled)

    result, code = run("pip install", {**options, **shared, "json": False, "verbose": False}, call)
    if result is None or code != 0 or job is None:
        return code
    if job.arguments.dry_run:
        say_summary(result)
        return code
    return job.install()
