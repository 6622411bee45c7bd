"""``resume-dl fetch``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resume_dl.cli.help_sections import OUTPUT, WHAT, WHERE_FROM, WHERE_TO, SectionedCommand
from resume_dl.cli.option_values import environment_folders, environment_names
from resume_dl.cli.options import option, transfer_options
from resume_dl.cli.run import Cancelled, run, transfer_of
from resume_dl.cli.spec_arguments import (
    check_rattler_cache,
    check_specs,
    destination_options,
    environment_of,
    request_of,
    spec_options,
)
from resume_dl.cli.summary import say_summary

if TYPE_CHECKING:
    from resume_dl.ports import Reporter
    from resume_dl.resolve.worker import RattlerWorker
    from resume_dl.transfer.report import RunResult

_PATH = click.Path(path_type=Path)
_PYLOCK = re.compile(r"pylock(\.[^.]+)?\.toml")
"""The names that PEP 751 allows."""
_SHOWN = 5
"""Most requested names in one line."""


@click.command(
    "fetch",
    cls=SectionedCommand,
    examples=(
        "resume-dl fetch -c pytorch pytorch=1.7 cudatoolkit=11.0",
        "resume-dl fetch --file environment.yml --platform win-64 --dest packages",
        "resume-dl fetch --pip 'torch==1.6.0' --mirror tuna --limit-rate 2M",
    ),
)
@spec_options
@option(
    "-p",
    "--prefix",
    "prefix",
    type=_PATH,
    shell_complete=environment_folders,
    help="Solve for the environment in this folder.",
    section=WHAT,
)
@option(
    "-n",
    "--name",
    "name",
    shell_complete=environment_names,
    help="Solve for the environment of this name.",
    section=WHAT,
)
@destination_options
@option(
    "--shared-rattler-cache",
    "shared_rattler_cache",
    multiple=True,
    type=_PATH,
    help="A read-only cache of rattler whose packages are not downloaded; repeatable.",
    section=WHERE_FROM,
)
@option("--dry-run", "dry_run", is_flag=True, help="Resolve, and show what would be fetched.", section=OUTPUT)
@option(
    "--lock",
    "lock",
    multiple=True,
    type=_PATH,
    help="Write an @EXPLICIT list, or pip's lock if named pylock.toml (pylock.NAME.toml); repeatable.",
    section=WHERE_TO,
)
@transfer_options
def command(specs: tuple[str, ...], **options: Any) -> int:
    """Resolve conda specs such as pytorch=1.7, then download and verify the packages into conda's package cache.

    With --pip or a requirements file, wheels go into a folder that pip installs from.
    After any interruption, the same command continues. Then conda or pip installs without a download.
    """
    if options["prefix"] and options["name"]:
        raise click.UsageError("--prefix and --name exclude each other")
    if options["lock"] and len(options["platform"]) > 1:
        raise click.UsageError("--lock writes a list for one platform: give one --platform")
    check_rattler_cache(options)
    check_specs(options, specs, hint="resume-dl fetch pytorch=1.7")
    from resume_dl.resolve.worker import RattlerWorker

    with RattlerWorker() as worker:
        if specs:
            worker.start()  # it loads while we do; a list needs no solver, and a file's needs are not known yet
        return _fetch(specs, options, worker)


def _fetch(specs: tuple[str, ...], options: Mapping[str, Any], worker: RattlerWorker) -> int:
    from resume_dl.app.fetch import fetch
    from resume_dl.transfer.setup import load_setup

    locks = _locks(options["lock"])

    def call(reporter: Reporter, cancelled: Cancelled) -> RunResult:
        # now: conda's settings and the solver take seconds to load
        reporter.message(f"resolving {_wanted(specs, options)}", level="info")
        setup = load_setup(transfer_of(options), environment_of(options))
        asked = request_of(specs, options)
        request = replace(
            asked,
            prefix=options["prefix"],
            name=options["name"],
            pkgs_dir=options["pkgs_dir"],
            rattler_cache=options["rattler_cache"],
            shared_rattler_caches=options["shared_rattler_cache"],
            dest=options["dest"],
            extract=not options["no_extract"],
            dry_run=options["dry_run"],
            lock=locks[False],
            pip=replace(asked.pip, wheel_dir=options["wheel_dir"], lock=locks[True]),
        )
        return fetch(request, setup, reporter, cancelled=cancelled, worker=worker)

    return run("fetch", options, call, report=lambda result: say_summary(result, verbose=options["verbose"]))[1]


def _wanted(specs: tuple[str, ...], options: Mapping[str, Any]) -> str:
    """The request in one line."""
    words = [*specs, *options["pip"], *(path.name for path in options["file"])]
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


def _locks(paths: Sequence[Path]) -> dict[bool, Path | None]:
    """Whether it is pip's -> the lock file of that kind."""
    found: dict[bool, Path | None] = {False: None, True: None}
    for path in paths:
        is_pip = _PYLOCK.fullmatch(path.name) is not None
        if found[is_pip] is not None:
            raise click.UsageError(f"--lock {found[is_pip]} and {path} are the same kind of list: give one of them")
        found[is_pip] = path
    return found
