"""``resume-dl bundle inventory``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from resume_dl.cli.probe import collect, inventory_options, named, print_or_write, teller
from resume_dl.cli.run import guarded


@click.command("inventory")
@inventory_options
def command(caches: tuple[Path, ...], wheels: tuple[Path, ...], output: Path | None, *, json: bool, quiet: bool) -> int:
    """List what this machine's caches hold, by digest, for `bundle create --since`."""

    def call() -> None:
        from resume_dl.standalone import probe  # noqa: PLC0415 - loaded when it runs, not for --help

        folders = [named(probe, caches), named(probe, wheels)]
        answered = probe.first_answer(probe.find_clients(), os.environ, told=teller(quiet=quiet))
        found = probe.pkgs_dirs(None if answered is None else answered[1])
        collected = collect(probe, found, *folders, quiet=quiet)
        answer = {"schema": probe.SCHEMA, "kind": probe.INVENTORY_KIND, "inventory": collected}
        print_or_write(answer, output)

    return guarded("bundle inventory", call, as_json=json)
