"""``resume-dl fetch``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resume_dl.cli.options import option, transfer_options
from resume_dl.cli.run import Cancelled, run, say, transfer_of

if TYPE_CHECKING:
    from resume_dl.app.report import RunResult
    from resume_dl.ports import Reporter
    from resume_dl.resolve.worker import RattlerWorker

_PATH = click.Path(path_type=Path)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("fetch")
@click.argument("specs", nargs=-1, metavar="[SPEC]...")
@option("-c", "--channel", "channel", multiple=True, metavar="NAME|URL", help="A channel; repeatable.")
@option("--override-channels", "override_channels", is_flag=True, help="Only the channels given by -c.")
@option("--platform", multiple=True, metavar="SUBDIR", help="As linux-64 or win-64; repeatable.  [default: this one]")
@option("--no-deps", "no_deps", is_flag=True, help="Only what is named.")
@option("--only-deps", "only_deps", is_flag=True, help="Only what the named ones need.")
@option("--file", "file", multiple=True, type=_FILE, help="environment.yml or @EXPLICIT list; repeatable.")
@option("--virtual-package", "virtual_package", multiple=True, metavar="NAME=VERSION", help="As __glibc=2.17.")
@option("--cuda", metavar="VERSION|none", help="The CUDA of the machine that will run it.")
@option(
    "--channel-priority",
    "channel_priority",
    type=click.Choice(["strict", "flexible", "disabled"]),
    help="[default: condarc's]",
)
@option("-p", "--prefix", "prefix", type=_PATH, help="Solve for the environment in this folder.")
@option("-n", "--name", "name", help="Solve for the environment of this name.")
@option("--solver", type=click.Choice(["rattler", "conda"]), default="rattler", show_default=True, help="Who solves.")
@option("--pkgs-dir", "pkgs_dir", type=_PATH, help="The package cache.  [default: conda's first writable]")
@option("--dest", type=_PATH, help="Plain files into this folder, no cache.")
@option("--no-extract", "no_extract", is_flag=True, help="Leave the archives packed.")
@option("--dry-run", "dry_run", is_flag=True, help="Resolve and say what would be fetched.")
@option("--lock", type=_PATH, help="Write the result as an @EXPLICIT list.")
@transfer_options
def command(specs: tuple[str, ...], **options: Any) -> int:
    """Resolve conda specs (as pytorch=1.7), download, verify, and put them into conda's package cache.

    Interrupted in any way, the same command goes on where it was. Afterwards conda installs without a download.
    """
    if options["prefix"] and options["name"]:
        raise click.UsageError("--prefix and --name are two names for one thing: give one of them")
    if options["no_deps"] and options["only_deps"]:
        raise click.UsageError("--no-deps and --only-deps leave nothing together: give one of them")
    if options["lock"] and len(options["platform"]) > 1:
        raise click.UsageError("--lock writes a list for one platform: give one --platform at a time")
    if not specs and not options["file"]:
        raise click.UsageError("nothing to fetch: name a package, as in resume-dl fetch pytorch=1.7")
    from resume_dl.resolve.worker import RattlerWorker  # noqa: PLC0415 - loaded when it runs, not for --help

    with RattlerWorker() as worker:
        if specs:
            worker.start()  # it loads beside what we load; a list needs none, and what a file needs it says later
        return _fetch(specs, options, worker)


def _fetch(specs: tuple[str, ...], options: Mapping[str, Any], worker: RattlerWorker) -> int:
    from resume_dl.app.fetch import FetchRequest, fetch  # noqa: PLC0415 - as above
    from resume_dl.app.setup import load_setup  # noqa: PLC0415

    request = FetchRequest(
        specs=specs,
        files=tuple(options["file"]),
        channels=tuple(options["channel"]),
        override_channels=options["override_channels"],
        platforms=tuple(options["platform"]),
        no_deps=options["no_deps"],
        only_deps=options["only_deps"],
        virtual_packages=tuple(options["virtual_package"]),
        cuda=options["cuda"],
        channel_priority=options["channel_priority"],
        prefix=options["prefix"],
        name=options["name"],
        solver=options["solver"],
        pkgs_dir=options["pkgs_dir"],
        dest=options["dest"],
        extract=not options["no_extract"],
        dry_run=options["dry_run"],
        lock=options["lock"],
    )

    def call(reporter: Reporter, cancelled: Cancelled) -> RunResult:
        setup = load_setup(transfer_of(options), os.environ)
        return fetch(request, setup, reporter, cancelled=cancelled, worker=worker)

    result, code = run("fetch", options, call)
    if result is not None and not options["json"] and not options["quiet"]:
        _summary(result)
    return code


def _summary(result: RunResult) -> None:
    from resume_dl.app.plan import show_bytes  # noqa: PLC0415 - see above

    totals = result.as_json()["totals"]
    for each in result.artifacts:
        artifact = each.artifact
        where = f"{artifact.channel}/{artifact.subdir}/{artifact.filename}"
        say(f"{each.status:<10} {show_bytes(artifact.size or 0):>9}  {where}")
    counts = ", ".join(f"{show_bytes(totals[kind])} {kind}" for kind in ("downloaded", "resumed", "cached", "wasted"))
    say(f"{totals['artifacts']} packages, {show_bytes(totals['bytes'])}: {counts}")
    if result.next_command:
        say(f"To use exactly these files: {result.next_command}")
