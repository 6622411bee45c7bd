"""``resume-dl status``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from resume_dl.cli.options import option
from resume_dl.cli.run import guarded, say, say_json
from resume_dl.model.units import show_bytes
from resume_dl.progress.console import duration_text, presentable

if TYPE_CHECKING:
    from resume_dl.app.leftovers import Leftover
    from resume_dl.caches.conda.prefetched import Prefetched

_DIR = click.Path(path_type=Path, file_okay=False)


@click.command("status")
@click.option("--pkgs-dir", "pkgs_dir", multiple=True, type=_DIR, help="Look here too; repeatable.")
@option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(pkgs_dir: tuple[Path, ...], *, as_json: bool) -> int:
    """Show unfinished downloads: how much of each is safe on disk."""

    def call() -> None:
        from resume_dl.app.leftovers import (
            ahead,
            find,
            folders,
            notes_of,
        )
        from resume_dl.transfer.setup import TransferOptions, load_setup

        setup = load_setup(TransferOptions(), os.environ)
        places = folders(setup, pkgs_dir)
        show("status", find(places, notes_of(setup)), ahead(places), as_json=as_json)

    return guarded("status", call, as_json=as_json)


def show(name: str, found: Sequence[Leftover], waiting: Sequence[Prefetched] = (), *, as_json: bool) -> None:
    """Print the lists, or JSON; ``waiting``: complete packages that conda has not installed."""
    if as_json:
        rows = [
            {
                "folder": str(each.folder),
                "key": each.key,
                "size": each.size,
                "done": each.done,
                "busy": each.busy,
                "filename": each.filename or None,
                "url": each.url or None,
                "age": round(each.age, 3),
                "command": each.command or None,
            }
            for each in found
        ]
        ahead = [
            {"folder": str(each.pkgs_dir), "filename": each.filename, "size": each.size, "prefix": str(each.prefix)}
            for each in waiting
        ]
        report = {"schema": 1, "command": name, "ok": True, "exit_code": 0, "unfinished": rows}
        say_json(report if name != "status" else {**report, "fetched_ahead": ahead})
        return
    for each in found:
        of = "?" if each.size is None else show_bytes(each.size)
        outcome = "" if name != "clean" else "kept     " if each.busy else "removed  "
        sizes = f"{outcome}{show_bytes(each.done):>9} of {of:>9}"
        if name == "clean":
            busy = "  (in use by another process)" if each.busy else ""
            say(presentable(f"{sizes}  {each.filename + '  ' if each.filename else ''}{each.folder / each.key}{busy}"))
            continue
        when = "in use by another process" if each.busy else f"{duration_text(each.age)} ago"
        say(presentable(f"{sizes}  {each.filename or each.key}  ({when})"))
        if each.url:
            say(presentable(f"    from {each.url}"))
        say(presentable(f"    in {each.path}"))
    if not found:
        say("no unfinished downloads")
    if name == "status":
        for line in dict.fromkeys(each.command for each in found if each.command and not each.busy):
            say(presentable(f"to continue: {line}"))
            if "***" in line:
                say("    (replace *** by your own login or token)")
    for package in waiting:
        say(f"fetched ahead, not installed in {package.prefix}: {package.pkgs_dir / package.filename}")
