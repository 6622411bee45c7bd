"""``resume-dl fetch``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from resume_dl.cli.options import option, transfer_options
from resume_dl.cli.run import Cancelled, run, say, transfer_of
from resume_dl.errors import ConfigurationError

if TYPE_CHECKING:
    from resume_dl.app.report import RunResult
    from resume_dl.app.request import PipOptions
    from resume_dl.ports import Reporter
    from resume_dl.resolve.worker import RattlerWorker

_PATH = click.Path(path_type=Path)
_VERSION = re.compile(r"\d+(\.\d+){1,2}")
_PYLOCK = re.compile(r"pylock(\.[^.]+)?\.toml")
"""The names that PEP 751 allows."""
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("fetch")
@click.argument("specs", nargs=-1, metavar="[SPEC]...")
@option("-c", "--channel", "channel", multiple=True, metavar="NAME|URL", help="A channel; repeatable.")
@option("--override-channels", "override_channels", is_flag=True, help="Only the channels given by -c.")
@option("--platform", multiple=True, metavar="SUBDIR", help="As linux-64 or win-64; repeatable.  [default: this one]")
@option("--no-deps", "no_deps", is_flag=True, help="Only what is named.")
@option("--only-deps", "only_deps", is_flag=True, help="Only what the named ones need.")
@option(
    "--file",
    "file",
    multiple=True,
    type=_FILE,
    help="environment.yml, @EXPLICIT list, requirements.txt, pyproject.toml, pylock.toml; repeatable.",
)
@option(
    "--pip", "pip", multiple=True, metavar="REQUIREMENT", help="As 'torch==1.6.0+cu101', by pip's rules; repeatable."
)
@option("--index-url", "index_url", metavar="URL", help="The package index.  [default: pip's own]")
@option("--extra-index-url", "extra_index_url", multiple=True, metavar="URL", help="Asked before it; repeatable.")
@option("--find-links", "find_links", multiple=True, metavar="URL|DIR", help="A page or folder of wheels; repeatable.")
@option("--python", "python", metavar="VERSION", help="The Python that the wheels are for, as 3.10.")
@option("--allow-sdist", "allow_sdist", is_flag=True, help="Source archives too, where there is no wheel.")
@option("--pre", "pre", is_flag=True, help="Pre-releases of pip packages too.")
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
@option("--wheel-dir", "wheel_dir", type=_PATH, help="Where wheels go.  [default: one in our cache]")
@option(
    "--rattler-cache",
    "rattler_cache",
    is_flag=False,
    flag_value="",
    metavar="[DIR]",
    help="Into rattler's and pixi's cache instead.  [default: where they keep it]",
)
@option("--dest", type=_PATH, help="Plain files into this folder, no cache.")
@option("--no-extract", "no_extract", is_flag=True, help="Leave the archives packed.")
@option("--dry-run", "dry_run", is_flag=True, help="Resolve and say what would be fetched.")
@option(
    "--lock",
    "lock",
    multiple=True,
    type=_PATH,
    help="Write the result: an @EXPLICIT list, or the pip side if it is named pylock.toml (or pylock.NAME.toml).",
)
@transfer_options
def command(specs: tuple[str, ...], **options: Any) -> int:
    """Resolve conda specs (as pytorch=1.7), download, verify, and put them into conda's package cache.

    With --pip (or a requirements file) wheels too, into a folder that pip installs from.
    Interrupted in any way, the same command goes on where it was. Afterwards conda or pip installs without a download.
    """
    if options["prefix"] and options["name"]:
        raise click.UsageError("--prefix and --name are two names for one thing: give one of them")
    if options["no_deps"] and options["only_deps"]:
        raise click.UsageError("--no-deps and --only-deps leave nothing together: give one of them")
    if options["lock"] and len(options["platform"]) > 1:
        raise click.UsageError("--lock writes a list for one platform: give one --platform at a time")
    _check_rattler_cache(options)
    if not specs and not options["file"] and not options["pip"]:
        raise click.UsageError("nothing to fetch: name a package, as in resume-dl fetch pytorch=1.7")
    from resume_dl.resolve.worker import RattlerWorker  # noqa: PLC0415 - loaded when it runs, not for --help

    with RattlerWorker() as worker:
        if specs:
            worker.start()  # it loads beside what we load; a list needs none, and what a file needs it says later
        return _fetch(specs, options, worker)


def _fetch(specs: tuple[str, ...], options: Mapping[str, Any], worker: RattlerWorker) -> int:
    from resume_dl.app.fetch import FetchRequest, fetch  # noqa: PLC0415 - as above
    from resume_dl.app.setup import load_setup  # noqa: PLC0415 - see above

    locks = _locks(options["lock"])
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
        rattler_cache=options["rattler_cache"],
        dest=options["dest"],
        extract=not options["no_extract"],
        dry_run=options["dry_run"],
        lock=locks[False],
    )

    def call(reporter: Reporter, cancelled: Cancelled) -> RunResult:
        setup = load_setup(transfer_of(options), os.environ)
        whole = replace(request, pip=_pip_options(options, locks[True]))
        return fetch(whole, setup, reporter, cancelled=cancelled, worker=worker)

    result, code = run("fetch", options, call)
    if result is not None and not options["json"] and not options["quiet"]:
        say_summary(result)
    return code


def _check_rattler_cache(options: Mapping[str, Any]) -> None:
    """One place for the packages, unpacked; and no package taken for the folder that may follow the option."""
    named = options["rattler_cache"]
    if named is None:
        return
    if options["pkgs_dir"] or options["dest"]:
        other = "--pkgs-dir" if options["pkgs_dir"] else "--dest"
        raise click.UsageError(f"--rattler-cache and {other} are two places for one thing: give one of them")
    if options["no_extract"]:
        raise click.UsageError("--no-extract leaves nothing for --rattler-cache: rattler keeps unpacked packages only")
    if named and Path(named).name == named and not Path(named).is_dir():
        raise click.UsageError(f"is {named!r} a package or a folder? Put --rattler-cache last, or write ./{named}")


def _pip_options(options: Mapping[str, Any], lock: Path | None) -> PipOptions:
    """What they say of pip; paths are from the current folder. Raises ConfigurationError."""
    from resume_dl.app.request import PipOptions  # noqa: PLC0415 - see above
    from resume_dl.model.pip import PipIndexes, index_from, place_from  # noqa: PLC0415 - see above

    here = Path.cwd()
    index = options["index_url"]
    try:
        indexes = PipIndexes(
            index_url=None if index is None else index_from(index, here),
            extra=tuple(index_from(word, here) for word in options["extra_index_url"]),
            find_links=tuple(place_from(word, here) for word in options["find_links"]),
            pre=options["pre"],
        )
    except ValueError:  # its own text may quote a password
        what = "--index-url, --extra-index-url or --find-links is no address"
        raise ConfigurationError(what, hint="as https://host/simple, or a folder") from None
    python = options["python"]
    if python is not None and not _VERSION.fullmatch(python):
        raise ConfigurationError(f"--python {python!r} is no version of Python", hint="write it as 3.10 or 3.10.4")
    return PipOptions(
        requirements=tuple(options["pip"]),
        indexes=indexes,
        python=python,
        wheel_dir=options["wheel_dir"],
        allow_sdist=options["allow_sdist"],
        lock=lock,
    )


def _locks(paths: Sequence[Path]) -> dict[bool, Path | None]:
    """Whether it is pip's -> the one lock of that kind."""
    found: dict[bool, Path | None] = {False: None, True: None}
    for path in paths:
        is_pip = _PYLOCK.fullmatch(path.name) is not None
        if found[is_pip] is not None:
            raise click.UsageError(f"--lock {found[is_pip]} and {path} are for one and the same list: give one of them")
        found[is_pip] = path
    return found


def say_summary(result: RunResult) -> None:
    """A line for each file, and one for all of them."""
    from resume_dl.app.plan import show_bytes  # noqa: PLC0415 - see above

    totals = result.as_json()["totals"]
    for each in result.artifacts:
        artifact = each.artifact
        where = f"{artifact.channel}/{artifact.subdir}/{artifact.filename}"
        if artifact.kind != "conda":
            where = artifact.filename if each.path is None else str(each.path)
        say(f"{each.status:<10} {show_bytes(artifact.size or 0):>9}  {where}")
    counts = ", ".join(f"{show_bytes(totals[kind])} {kind}" for kind in ("downloaded", "resumed", "cached", "wasted"))
    say(f"{totals['artifacts']} packages, {show_bytes(totals['bytes'])}: {counts}")
    if result.next_command:
        say(f"To use exactly these files: {result.next_command}")
