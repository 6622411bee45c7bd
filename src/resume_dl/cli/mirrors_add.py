"""``resume-dl mirrors add``."""

from __future__ import annotations

import os

import click

from resume_dl.cli.options import option
from resume_dl.cli.run import guarded, say, say_json
from resume_dl.errors import ConfigurationError
from resume_dl.model.mirror import Mirror

_KINDS = ("conda:", "pypi:", "wheels:")


@click.command("add")
@click.argument("name")
@click.argument("places", nargs=-1, metavar="[ORIGIN=URL]...")
@click.option("--title", default="", help="Its name for people.")
@click.option("--home", default="", metavar="URL", help="The site's own page.")
@click.option("--operator", default="", metavar="NAME", help="Who runs it: mirrors of one operator count once.")
@click.option("--sync-status", "sync_status", default="", metavar="URL", help="Its tunasync or MirrorZ status file.")
@click.option("--connections", type=click.IntRange(1, 16), metavar="N", help="Most connections to one of its hosts.")
@option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(
    *,
    name: str,
    places: tuple[str, ...],
    title: str,
    home: str,
    operator: str,
    sync_status: str,
    connections: int | None,
    as_json: bool,
) -> int:
    """Add the mirror NAME to your own mirrors.toml, with the URL at which it carries each ORIGIN.

    ORIGIN is a channel (conda-forge, pkgs/main), pypi:simple, pypi:files or wheels:pytorch. A built-in mirror gets the
    origins in addition; without any, one that was removed is used again.

    For example: resume-dl mirrors add lab conda-forge=https://mirror.lab.example/conda-forge
    """

    def call() -> None:
        from resume_dl.settings.paths import find_paths
        from resume_dl.transfer.mirror_file import MirrorFile

        carries = dict(_place(text) for text in places)
        mirror = Mirror(
            name,
            title=title,
            home=home,
            operator=operator,
            sync_status=sync_status,
            connections=connections,
            carries=carries,
        )
        file = find_paths(os.environ).mirrors_file
        MirrorFile(file).add(mirror)
        if as_json:
            say_json(
                {"schema": 1, "command": "mirrors add", "ok": True, "exit_code": 0, "path": str(file), "name": name}
            )
        else:
            say(f"{name} is in {file}; resume-dl mirrors test --mirror {name} tests it")

    return guarded("mirrors add", call, as_json=as_json)


def _place(text: str) -> tuple[str, str]:
    origin, mark, url = text.partition("=")
    if not mark or not origin or not url:
        hint = "write it as conda-forge=https://…/conda-forge"
        raise ConfigurationError(f"{text!r} is not an origin with its address", hint=hint)
    return origin if origin.startswith(_KINDS) else f"conda:{origin}", url
