"""``resume-dl clean``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from resume_dl.cli.options import option
from resume_dl.cli.run import guarded
from resume_dl.cli.status import show

_DIR = click.Path(path_type=Path, file_okay=False)


@click.command("clean")
@click.option("--pkgs-dir", "pkgs_dir", multiple=True, type=_DIR, help="Look here too; repeatable.")
@option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(pkgs_dir: tuple[Path, ...], *, as_json: bool) -> int:
    """Remove unfinished downloads that no process uses; finished packages stay."""

    def call() -> None:
        from resume_dl.app.leftovers import clean, folders, notes_of
        from resume_dl.indexes import shards
        from resume_dl.transfer.setup import TransferOptions, load_setup

        setup = load_setup(TransferOptions(), os.environ)
        if shards.are_readable():
            from resume_dl.resolution.conda_shards import shard_store

            shard_store(setup.paths).clean()
        show("clean", clean(folders(setup, pkgs_dir), notes_of(setup)), as_json=as_json)

    return guarded("clean", call, as_json=as_json)
