"""``resume-dl pip``: install with the files fetched first, and pip's own configuration."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resume_dl.cli.options import network_options, option
from resume_dl.cli.pip_config import command as config
from resume_dl.cli.run import Cancelled, run, transfer_of
from resume_dl.cli.summary import say_summary

if TYPE_CHECKING:
    from resume_dl.app.pip_install import PipInstall
    from resume_dl.ports import Reporter
    from resume_dl.transfer.report import RunResult

_PATH = click.Path(path_type=Path)


@click.group("pip")
def command() -> None:
    """Install with pip what was fetched first, and tell pip of mirrors."""


command.add_command(config)


@command.command("install", context_settings={"ignore_unknown_options": True})
@click.option(
    "--python",
    "python",
    type=_PATH,
    help="Install into this Python, or environment.  [default: the active one]",
)
@option("--wheel-dir", "wheel_dir", type=_PATH, help="Where wheels go.  [default: one in our cache]")
@option("--allow-sdist", "allow_sdist", is_flag=True, help="Source archives too, where there is no wheel.")
@option("--progress", type=click.Choice(["bar", "plain", "json", "none"]), help="How progress goes to stderr.")
@network_options
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS OF PIP INSTALL]...")
def install(args: tuple[str, ...], **options: Any) -> int:
    """Do what pip install does, with the files fetched first: resumable, from every mirror, verified.

    The options of pip install have their meaning there; pip itself installs in the end, and asks no index.
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
        job = PipInstall(args, setup, wheel_dir=options["wheel_dir"], allow_sdist=options["allow_sdist"])
        return job.fetch(reporter, cancelled)

    result, code = run("pip install", {**options, **shared, "json": False, "verbose": False}, call)
    if result is None or code != 0 or job is None:
        return code
    if job.arguments.dry_run:
        say_summary(result)
        return code
    return job.install()
