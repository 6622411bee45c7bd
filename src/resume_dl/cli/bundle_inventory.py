"""``resume-dl bundle inventory``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from resume_dl.cli.probe import collect, inventory_options, line_printer, named, print_or_write
from resume_dl.cli.run import guarded


@click.command("inventory")
@inventory_options
def command(caches: tuple[Path, ...], wheels: tuple[Path, ...], output: Path | None, *, json: bool, quiet: bool) -> int:
    """List the packages in this machine's caches, by digest, for `bundle create --since`."""

    def call() -> None:
        from resume_dl.offline_tools.machine.conda_clients import find_clients
        from resume_dl.offline_tools.machine.conda_info import first_answer
        from resume_dl.offline_tools.machine.inventory import INVENTORY_KIND
        from resume_dl.offline_tools.machine.package_places import pkgs_dirs
        from resume_dl.offline_tools.machine.profile import SCHEMA

        folders = [named(caches), named(wheels)]
        answered = first_answer(find_clients(), os.environ, log=line_printer(quiet=quiet))
        found = pkgs_dirs(None if answered is None else answered[1])
        collected = collect(found, *folders, quiet=quiet)
        answer = {"schema": SCHEMA, "kind": INVENTORY_KIND, "inventory": collected}
        print_or_write(answer, output)

    return guarded("bundle inventory", call, as_json=json)
