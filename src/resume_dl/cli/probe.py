"""``resume-dl probe``: the same code as the script for machines without resume-dl."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from resume_dl import __version__
from resume_dl.cli.run import give_up_stdout, guarded, say_json, tell
from resume_dl.errors import ConfigurationError
from resume_dl.fs.system import reader_has_gone

_Command = TypeVar("_Command", bound=Callable[..., Any])
CREATED_BY = f"resume-dl {__version__}"
_PLACE = click.Path(path_type=Path)


def inventory_options(command: _Command) -> _Command:
    """Add the options for folders and output. Not ``pkgs_dir``: in config.toml that is the cache that fetch fills."""
    for add in (
        click.option("--json", "json", is_flag=True, help="Accepted and ignored: the output is JSON."),
        click.option("--quiet", is_flag=True, help="Errors only."),
        click.option("-o", "--output", type=_PLACE, help="Write to this file (PowerShell's > writes UTF-16)."),
        click.option("--wheels", "wheels", multiple=True, type=_PLACE, help="Also this folder of wheels; repeatable."),
        click.option("--pkgs-dir", "caches", multiple=True, type=_PLACE, help="Also this package cache; repeatable."),
    ):
        command = add(command)
    return command


@click.command("probe")
@inventory_options
@click.option("--no-inventory", is_flag=True, help="Do not hash the files in the caches.")
@click.option("--script", is_flag=True, help="Print the one-file script for a machine without resume-dl.")
def command(
    caches: tuple[Path, ...],
    wheels: tuple[Path, ...],
    output: Path | None,
    *,
    json: bool,
    quiet: bool,
    no_inventory: bool,
    script: bool,
) -> int:
    """Print this machine's profile, for `bundle create --target`: resume-dl probe > target.json.

    Nothing in it names the machine, its user or a path.
    """

    def call() -> None:
        from resume_dl.offline_tools.archive import write_archive
        from resume_dl.offline_tools.machine.profile import look

        if script:
            _write(write_archive("probe"), output)
            return
        folders = [named(caches), named(wheels)]
        profile = look(log=line_printer(quiet=quiet), created_by=CREATED_BY)
        answer = dict(profile.answer)
        if not no_inventory:
            answer["inventory"] = collect(profile.pkgs_dirs, *folders, quiet=quiet)
        print_or_write(answer, output)

    return guarded("probe", call, as_json=json)


def named(places: Iterable[Path]) -> list[Path]:
    """Folders that the user named. Raises ConfigurationError."""
    from resume_dl.offline_tools.machine.package_places import ProbeError, named_folders

    try:
        found: list[Path] = named_folders(map(str, places))
    except ProbeError as error:
        raise ConfigurationError(str(error), hint=error.hint) from error
    return found


def line_printer(*, quiet: bool) -> Callable[[str], None]:
    """A function that prints progress and notes to stderr, or nothing if ``quiet``."""
    return (lambda _: None) if quiet else tell


def collect(found: Iterable[Path], caches: Iterable[Path], wheels: Iterable[Path], *, quiet: bool) -> Any:
    """The inventory of the given folders, conda's caches and our own wheels; progress on stderr."""
    from resume_dl.offline_tools.machine.inventory import inventory
    from resume_dl.offline_tools.machine.package_places import wheel_dirs

    return inventory([*caches, *found], [*wheels, *wheel_dirs()], line_printer(quiet=quiet))


def print_or_write(answer: Mapping[str, Any], output: Path | None) -> None:
    """Print or write the JSON object. Raises StoreError if that fails."""
    if output is None:
        say_json(answer)
        return
    _write((json.dumps(answer, indent=2) + "\n").encode("ascii"), output)


def _write(data: bytes, output: Path | None) -> None:
    if output is not None:
        output.write_bytes(data)
        return
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        unsaid = give_up_stdout(error)
        if not reader_has_gone(error):
            raise unsaid from error
