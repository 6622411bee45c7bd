"""``resume-dl mirrors remove``."""

from __future__ import annotations

import os

import click

from resume_dl.cli.option_values import mirror_names
from resume_dl.cli.options import option
from resume_dl.cli.run import guarded, say, say_json


@click.command("remove")
@click.argument("name", shell_complete=mirror_names)
@option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(*, name: str, as_json: bool) -> int:
    """Remove the mirror NAME from your own mirrors.toml; a built-in one is marked there as not to be used."""

    def call() -> None:
        from resume_dl.settings.paths import find_paths
        from resume_dl.transfer.mirror_file import MirrorFile

        file = find_paths(os.environ).mirrors_file
        is_built_in = MirrorFile(file).remove(name)
        if as_json:
            say_json(
                {"schema": 1, "command": "mirrors remove", "ok": True, "exit_code": 0, "path": str(file), "name": name}
            )
        elif is_built_in:
            say(f"{name} is built in and no longer used; resume-dl mirrors add {name} undoes that")
        else:
            say(f"{name} is no longer in {file}")

    return guarded("mirrors remove", call, as_json=as_json)
