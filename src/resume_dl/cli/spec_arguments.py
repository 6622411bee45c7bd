"""Arguments and options that name the packages, for fetch and bundle create, and the request made of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from resume_dl.cli.help_sections import WHAT, WHERE_FROM, WHERE_TO
from resume_dl.cli.option_values import channel_names, platform_names
from resume_dl.cli.options import option
from resume_dl.errors import ConfigurationError
from resume_dl.model.index_logins import KEYRING_PROVIDERS
from resume_dl.zip_application import installs_all

if TYPE_CHECKING:
    from resume_dl.resolution.fetch_request import FetchRequest, PipOptions

_Command = TypeVar("_Command", bound=Callable[..., Any])
_VERSION = re.compile(r"\d+(\.\d+){1,2}")
_PATH = click.Path(path_type=Path)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)

_CHANNELS = (
    option(
        "-c",
        "--channel",
        "channel",
        multiple=True,
        metavar="NAME|URL",
        shell_complete=channel_names,
        help="A channel; repeatable.",
        section=WHERE_FROM,
    ),
    option(
        "--override-channels",
        "override_channels",
        is_flag=True,
        help="Use only the channels given by -c.",
        section=WHERE_FROM,
    ),
    option(
        "--platform",
        multiple=True,
        metavar="SUBDIR",
        shell_complete=platform_names,
        help="Such as linux-64 or win-64; repeatable.  [default: this machine's]",
        section=WHAT,
    ),
)
SHARED_WHEELS = option(
    "--shared-wheel-dir",
    "shared_wheel_dir",
    multiple=True,
    type=_PATH,
    help="A read-only folder of wheels that are not downloaded; repeatable.",
    section=WHERE_FROM,
)
_INDEXES = (
    option(
        "--index-url", "index_url", metavar="URL", help="The package index.  [default: pip's own]", section=WHERE_FROM
    ),
    option(
        "--extra-index-url",
        "extra_index_url",
        multiple=True,
        metavar="URL",
        help="Extra index, tried before --index-url; repeatable.",
        section=WHERE_FROM,
    ),
    option(
        "--find-links",
        "find_links",
        multiple=True,
        metavar="URL|DIR",
        help="A page or folder of wheels; repeatable.",
        section=WHERE_FROM,
    ),
    option(
        "--keyring-provider",
        "keyring_provider",
        type=click.Choice(KEYRING_PROVIDERS),
        help="Where logins of package indexes are looked up.  [default: pip's]",
        section=WHERE_FROM,
    ),
)
_NO_SHARDS = option(
    "--no-shards", "no_shards", is_flag=True, help="Fetch whole channel indexes, not shards.", section=WHERE_FROM
)
_SPECS = (
    click.argument("specs", nargs=-1, metavar="[SPEC]..."),
    *_CHANNELS,
    option(
        "--environment",
        "environment",
        multiple=True,
        metavar="NAME",
        help="Of a lock file: pixi's environment, conda-lock's category, uv's extra or group; repeatable.",
        section=WHAT,
    ),
    option("--no-deps", "no_deps", is_flag=True, help="Without dependencies.", section=WHAT),
    option("--only-deps", "only_deps", is_flag=True, help="Only the dependencies.", section=WHAT),
    option(
        "--file",
        "file",
        multiple=True,
        type=_FILE,
        help="environment.yml, @EXPLICIT list, requirements.txt, pyproject.toml, a lock file; repeatable.",
        section=WHAT,
    ),
    option(
        "--pip",
        "pip",
        multiple=True,
        metavar="REQUIREMENT",
        help="A pip requirement, such as 'torch==1.6.0+cu101'; repeatable.",
        section=WHAT,
    ),
    *_INDEXES,
    SHARED_WHEELS,
    option("--python", "python", metavar="VERSION", help="The Python of the wheels, such as 3.10.", section=WHAT),
    option(
        "--allow-sdist", "allow_sdist", is_flag=True, help="Allow source archives if there is no wheel.", section=WHAT
    ),
    option("--pre", "pre", is_flag=True, help="Allow pre-releases of pip packages.", section=WHAT),
    option(
        "--virtual-package",
        "virtual_package",
        multiple=True,
        metavar="NAME=VERSION",
        help="A property of the target, such as __glibc=2.17; repeatable.",
        section=WHAT,
    ),
    option("--cuda", metavar="VERSION|none", help="The CUDA version of the target's driver.", section=WHAT),
    option(
        "--channel-priority",
        "channel_priority",
        type=click.Choice(["strict", "flexible", "disabled"]),
        help="How channels rank.  [default: condarc's]",
        section=WHERE_FROM,
    ),
    option(
        "--exclude-newer",
        "exclude_newer",
        metavar="DATE|DURATION",
        help="Leave out packages newer than this: 2026-04-01, 7d, none.  [default: condarc's, uv's]",
        section=WHAT,
    ),
    _NO_SHARDS,
    option(
        "--solver",
        type=click.Choice(["rattler", "conda"]),
        default="rattler",
        show_default=True,
        help="The solver.",
        section=WHAT,
    ),
)
_DESTINATIONS = (
    option(
        "--pkgs-dir",
        "pkgs_dir",
        type=_PATH,
        help="The package cache.  [default: conda's first writable]",
        section=WHERE_TO,
    ),
    option(
        "--wheel-dir",
        "wheel_dir",
        type=_PATH,
        help="The folder for wheels.  [default: one in our cache]",
        section=WHERE_TO,
    ),
    option(
        "--rattler-cache",
        "rattler_cache",
        is_flag=False,
        flag_value="",
        metavar="[DIR]",
        help="Put packages into rattler's and pixi's cache.  [default: theirs]",
        section=WHERE_TO,
    ),
    option("--dest", type=_PATH, help="Put plain files into this folder, not into a cache.", section=WHERE_TO),
    option("--no-extract", "no_extract", is_flag=True, help="Leave the archives packed.", section=WHERE_TO),
)


def spec_options(command: _Command) -> _Command:
    """Add specs, channels, platforms, pip's requirements and indexes."""
    for add in reversed(_SPECS):
        command = add(command)
    return command


def where_options(command: _Command) -> _Command:
    """Add channels, platforms and package indexes, for a command that looks packages up without a solve."""
    for add in reversed((*_CHANNELS, *_INDEXES, _NO_SHARDS)):
        command = add(command)
    return command


def destination_options(command: _Command) -> _Command:
    """Add the options that choose where packages and wheels go."""
    for add in reversed(_DESTINATIONS):
        command = add(command)
    return command


def check_specs(options: Mapping[str, Any], specs: tuple[str, ...], *, hint: str) -> None:
    """Raise UsageError for an empty or contradictory request."""
    if options["no_deps"] and options["only_deps"]:
        raise click.UsageError("--no-deps and --only-deps exclude each other")
    if not specs and not options["file"] and not options["pip"]:
        raise click.UsageError(f"nothing to fetch: name a package, as in {hint}")


def request_of(specs: tuple[str, ...], options: Mapping[str, Any]) -> FetchRequest:
    """The request made by these options. Raises ConfigurationError."""
    from resume_dl.resolution.fetch_request import FetchRequest

    return FetchRequest(
        specs=specs,
        files=tuple(options["file"]),
        channels=tuple(options["channel"]),
        override_channels=options["override_channels"],
        platforms=tuple(options["platform"]),
        environments=tuple(options["environment"]),
        no_deps=options["no_deps"],
        only_deps=options["only_deps"],
        virtual_packages=tuple(options["virtual_package"]),
        cuda=options["cuda"],
        channel_priority=options["channel_priority"],
        solver=options["solver"],
        exclude_newer=options["exclude_newer"],
        shards=not options["no_shards"],
        pip=_pip_options(options),
    )


def environment_of(options: Mapping[str, Any]) -> dict[str, str]:
    """The environment with the options that pip reads as variables, which override its files."""
    provider = options["keyring_provider"]
    return dict(os.environ) if provider is None else {**os.environ, "PIP_KEYRING_PROVIDER": provider}


def _pip_options(options: Mapping[str, Any]) -> PipOptions:
    """The options for pip; paths start from the current folder. Raises ConfigurationError."""
    from resume_dl.model.pip import PipIndexes, index_from, place_from
    from resume_dl.resolution.fetch_request import PipOptions

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
        what = "--index-url, --extra-index-url or --find-links is not a URL"
        raise ConfigurationError(what, hint="as https://host/simple, or a folder") from None
    python = options["python"]
    if python is not None and not _VERSION.fullmatch(python):
        raise ConfigurationError(f"--python {python!r} is not a Python version", hint="write it as 3.10 or 3.10.4")
    return PipOptions(
        requirements=tuple(options["pip"]),
        indexes=indexes,
        python=python,
        allow_sdist=options["allow_sdist"],
        shared_wheel_dirs=options.get("shared_wheel_dir", ()),
    )


def check_rattler_cache(options: Mapping[str, Any]) -> None:
    """Refuse conflicting options, and a package name taken for the option's folder."""
    named = options["rattler_cache"]
    if named is None:
        return
    if whole := installs_all():
        raise click.UsageError(f"--rattler-cache is not part of resume-dl.pyz, which cannot unpack packages; {whole}")
    if options["pkgs_dir"] or options["dest"]:
        other = "--pkgs-dir" if options["pkgs_dir"] else "--dest"
        raise click.UsageError(f"--rattler-cache and {other} exclude each other")
    if options["no_extract"]:
        raise click.UsageError(
            "--no-extract and --rattler-cache exclude each other: rattler keeps unpacked packages only"
        )
    if named and Path(named).name == named and not Path(named).is_dir():
        raise click.UsageError(f"is {named!r} a package or a folder? Put --rattler-cache last, or write ./{named}")
