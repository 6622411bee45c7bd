"""``resume-dl bundle create``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resume_dl.cli.help_sections import OUTPUT, WHAT, WHERE_TO, SectionedCommand, SectionedOption
from resume_dl.cli.options import Size, option, transfer_options
from resume_dl.cli.run import Cancelled, run, say, say_whole, transfer_of
from resume_dl.cli.spec_arguments import check_specs, environment_of, request_of, spec_options
from resume_dl.cli.summary import say_indexes, say_summary
from resume_dl.errors import required
from resume_dl.model.units import show_bytes

if TYPE_CHECKING:
    from resume_dl.app.bundle_create import CreateRequest, CreateResult
    from resume_dl.ports import Reporter
    from resume_dl.transfer.report import RunResult

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(
    "create",
    cls=SectionedCommand,
    examples=(
        "resume-dl bundle create -c pytorch pytorch=1.7 -o torch.tar",
        "resume-dl bundle create --file environment.yml --target target.json -o lab",
        "resume-dl bundle create --pip 'torch==1.6.0' --platform win-64 --python 3.8 --split 4GiB -o torch.tar",
    ),
)
@spec_options
@click.option(
    "-o",
    "--output",
    "output",
    type=click.Path(path_type=Path),
    required=True,
    help="A folder, or FILE.tar.",
    cls=SectionedOption,
    section=WHERE_TO,
)
@click.option(
    "--target",
    multiple=True,
    type=_FILE,
    help="The profile that `probe` wrote on the target; repeatable.",
    cls=SectionedOption,
    section=WHAT,
)
@click.option(
    "--since",
    multiple=True,
    type=_FILE,
    help="Leave out the packages in this inventory (or profile); repeatable.",
    cls=SectionedOption,
    section=WHAT,
)
@option("--split", type=Size(), help="Parts of at most this size, as 4GiB.", section=WHERE_TO)
@option("--sign", type=_FILE, metavar="KEY", help="Sign with this SSH key.", section=WHERE_TO)
@click.option(
    "--env-name",
    "env_name",
    default="",
    help="The environment's name in environment.yml.",
    cls=SectionedOption,
    section=WHERE_TO,
)
@click.option(
    "--dry-run",
    "dry_run",
    is_flag=True,
    help="Resolve, and show what would be in it.",
    cls=SectionedOption,
    section=OUTPUT,
)
@transfer_options
def command(specs: tuple[str, ...], **options: Any) -> int:
    """Fetch everything for one or more platforms into a folder or a tar, to install on an offline machine.

    This machine's own packages and hardware do not count. Describe the target by --target, or by --platform, --cuda
    and --virtual-package. After any interruption, the same command continues.
    """
    check_specs(options, specs, hint="resume-dl bundle create pytorch=1.7 -o torch.tar")
    from resume_dl.resolve.worker import RattlerWorker

    result: CreateResult | None = None
    with RattlerWorker() as worker:
        if specs:
            worker.start()  # it loads while we do

        def call(reporter: Reporter, cancelled: Cancelled) -> RunResult:
            nonlocal result
            from resume_dl.app.bundle_create import create
            from resume_dl.transfer.setup import load_setup

            setup = load_setup(transfer_of(options), environment_of(options))
            result = create(_request(specs, options), setup, reporter, cancelled=cancelled, worker=worker)
            return result

        def report(_: RunResult) -> None:
            _say_summary(required(result, "what call gave"), options)

        return run("bundle create", options, call, empty=_empty, report=report)[1]


def _empty() -> RunResult:
    from resume_dl.app.bundle_create import CreateResult

    return CreateResult("bundle create")


def _request(specs: tuple[str, ...], options: Mapping[str, Any]) -> CreateRequest:
    from resume_dl.app.bundle_create import CreateRequest
    from resume_dl.bundle_creation.target_description import read_inventory, read_target

    return CreateRequest(
        fetch=replace(request_of(specs, options), dry_run=options["dry_run"]),
        output=options["output"],
        targets=tuple(map(read_target, options["target"])),
        since=tuple(map(read_inventory, options["since"])),
        split=options["split"],
        sign=options["sign"],
        name=options["env_name"],
    )


def _say_summary(result: CreateResult, options: Mapping[str, Any]) -> None:
    if options["dry_run"] or result.output is None:
        say_summary(result, verbose=options["verbose"])
        return
    count, left_out = len(result.artifacts), ""
    if result.left_out:
        left_out = f"; {result.left_out} of them are left out: the target has them"
    packages = f"{count} package{'' if count == 1 else 's'} for {', '.join(result.platforms)}"
    say(f"{result.output}: {packages}, {show_bytes(result.size)}{left_out}")
    for part in result.parts:
        say(f"  {part.name}")
    say_indexes(result)
    for line in result.passed_over:
        say(f"not included, because only pip itself can handle it: {line}")
    if result.left_out:
        say("It is for that target only, and only install.py can install it: conda and pip need all files.")
    say(f"manifest sha256: {result.manifest_sha256}")
    if result.signature is not None:
        say(f"signed by {result.signature.fingerprint}; a line for the target's allowed signers (NAME is yours):")
        say_whole(f"  {result.signature.allowed_signer('NAME')}")
    else:
        say("Transfer this digest to the target separately from the bundle: it reveals a modified bundle.")
    name = result.output.name
    unpack = f"in a new folder, tar -xf {name}, then " if result.output.is_file() or result.parts else ""
    join = "copy the parts, {name}.parts.json and join.py, and run python join.py; " if result.parts else ""
    install = f"python install.py -n NAME --manifest-sha256 {result.manifest_sha256}"
    say(f"On the target: {join.format(name=name)}{unpack}{install}")
