"""``resume-dl adopt``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from resume_dl.cli.help_sections import OUTPUT, SectionedCommand
from resume_dl.cli.options import option, transfer_options
from resume_dl.cli.run import Cancelled, run, say, transfer_of
from resume_dl.cli.spec_arguments import (
    check_rattler_cache,
    destination_options,
    environment_of,
    request_of,
    where_options,
)
from resume_dl.cli.summary import say_next
from resume_dl.model.units import show_bytes, show_part
from resume_dl.zip_application import zip_application

if TYPE_CHECKING:
    from resume_dl.ports import Reporter
    from resume_dl.transfer.adoption_result import AdoptedFile, AdoptResult
    from resume_dl.transfer.report import RunResult

_OF_SPECS: Mapping[str, Any] = {
    "file": (),
    "environment": (),
    "pip": (),
    "no_deps": True,
    "only_deps": False,
    "virtual_package": (),
    "cuda": None,
    "channel_priority": None,
    "solver": "rattler",
    "exclude_newer": None,
    "pre": False,
    "python": None,
    "allow_sdist": False,
}
"""The options of ``fetch`` that choose packages, which are the files here."""
_OF_THIS_RUN = {"json", "progress", "quiet", "verbose", "debug", "debug_trace", "dry_run", "refresh", "offline"}
"""Options that the command which continues an unfinished file does not take over."""


@click.command(
    "adopt",
    cls=SectionedCommand,
    examples=(
        "resume-dl adopt ~/Downloads",
        "resume-dl adopt -c pytorch 'pytorch-1.7.1-py3.7_cuda11.0.221_cudnn8.0.5_0(1).tar.bz2.crdownload'",
        "resume-dl adopt --dry-run ~/Downloads",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR...", type=click.Path(path_type=Path))
@where_options
@destination_options
@option("--dry-run", "dry_run", is_flag=True, help="Show what would be adopted, and change nothing.", section=OUTPUT)
@transfer_options
@click.pass_context
def command(context: click.Context, /, paths: tuple[Path, ...], **options: Any) -> int:
    """Use conda packages and wheels that a browser or a download manager has fetched.

    A whole file is found by its name or content in the indexes, verified by its digest, and put where fetch puts it. An
    unfinished or damaged one becomes the start of a download that fetch continues. A folder is searched for such files,
    not the folders in it. The files themselves are not changed.
    """
    check_rattler_cache(options)
    made: list[AdoptResult] = []
    given = _given(context)

    def call(reporter: Reporter, cancelled: Cancelled) -> RunResult:
        from resume_dl.app.adoption import adopt
        from resume_dl.transfer.setup import load_setup

        setup = load_setup(transfer_of(options), environment_of(options))
        asked = request_of((), {**_OF_SPECS, **options})
        request = replace(
            asked,
            pkgs_dir=options["pkgs_dir"],
            rattler_cache=options["rattler_cache"],
            dest=options["dest"],
            extract=not options["no_extract"] and zip_application() is None,  # which has nothing to unpack with
            dry_run=options["dry_run"],
            pip=replace(asked.pip, wheel_dir=options["wheel_dir"]),
        )
        finishes = zip_application() is not None  # which has no fetch to go on with
        made.append(adopt(paths, request, setup, reporter, cancelled=cancelled, options=given, finishes=finishes))
        return made[0]

    def report(result: RunResult) -> None:
        for each in made[0].files:
            if each.error is None:
                say(_line(each))
        if not made[0].files:
            say("no file looks like a conda package or a wheel")
        say_next(result, "To download what is missing:")

    return run("adopt", options, call, empty=_empty, report=report)[1]


def _empty() -> RunResult:
    from resume_dl.transfer.adoption_result import AdoptResult

    return AdoptResult("adopt")


def _line(each: AdoptedFile) -> str:
    artifact = each.artifact
    name = "" if artifact is None else artifact.filename
    known = None if artifact is None else artifact.size
    part = show_bytes(each.bytes) if known is None else show_part(each.bytes, known)
    if each.status == "planned":
        what = "would be adopted" if each.is_whole else f"would be the start, {part}"
    elif each.status == "started":
        what = f"the start, {part}; fetch continues it"
    elif each.status == "here":
        what = "is here already"
    elif each.is_whole:
        what = f"adopted, {show_bytes(each.bytes)}"
    else:
        what = f"adopted, {part}; the rest was downloaded"
    return f"{name}: {what} (from {each.path})"


def _given(context: click.Context) -> list[str]:
    """The options of this command line that the command which continues needs too, with absolute paths."""
    words: list[str] = []
    for each in context.command.params:
        name = each.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not isinstance(each, click.Option) or not given or name in _OF_THIS_RUN:
            continue
        long, value = next(word for word in each.opts if word.startswith("--")), context.params[name]
        for one in value if each.multiple else (value,):
            words += [long] if each.is_flag or one == "" else [long, _word(one)]
    return words


def _word(value: Any) -> str:
    if value == math.inf:
        return "never"
    return str(value.absolute() if isinstance(value, Path) else value)
