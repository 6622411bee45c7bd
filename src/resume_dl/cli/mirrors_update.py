"""``resume-dl mirrors update``."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import click

from resume_dl.cli.options import option
from resume_dl.cli.run import Stop, guarded, say, say_json, tell
from resume_dl.errors import ConfigurationError

if TYPE_CHECKING:
    from resume_dl.indexes.mirror_table import NewTable


@click.command("update")
@click.argument("url", required=False)
@click.option("--sha256", "digest", metavar="HEX", help="Use the table only if it has this digest.")
@click.option("--yes", is_flag=True, help="Use it without a question.")
@click.option("--built-in", "built_in", is_flag=True, help="Go back to the built-in table.")
@option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(*, url: str | None, digest: str | None, yes: bool, built_in: bool, as_json: bool) -> int:
    """Replace the built-in table of mirrors by a newer one from URL, after showing what changes.

    There is no official address yet: name one that you trust, because mirrors of a table can confirm each other's
    indexes. Your own mirrors.toml stays and is merged over the new table.
    """

    def call() -> None:
        from resume_dl.settings.paths import find_paths

        own = find_paths(os.environ).mirrors_file
        if built_in == (url is not None):
            raise ConfigurationError("name the address of a table, or --built-in", hint="there is no official one yet")
        if built_in:
            from resume_dl.indexes.mirror_table import use_built_in

            changed = use_built_in(own)
            if as_json:
                say_json(_object({"written": None}))
            else:
                say("the built-in table is used again" if changed else "the built-in table is in use already")
            return
        if digest is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", digest):
            raise ConfigurationError("--sha256 needs 64 hex digits")
        from resume_dl.indexes.mirror_table import fetch_table
        from resume_dl.transfer.setup import TransferOptions, load_setup

        setup = load_setup(TransferOptions(command=("resume-dl", "mirrors", "update", str(url))), os.environ)
        stop = Stop()
        with stop.listening():
            table = fetch_table(setup, str(url), stop.cancelled, digest=digest, warn=tell)
        _use(table, yes=yes, as_json=as_json)

    return guarded("mirrors update", call, as_json=as_json)


def _use(table: NewTable, *, yes: bool, as_json: bool) -> None:
    from resume_dl.indexes.mirror_table import use_table
    from resume_dl.settings.paths import find_paths

    if not as_json:
        for line in table.lines or ("nothing would change",):
            say(line)
        say(f"sha256 {table.sha256}")
    asked = not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    accepted = yes or (asked and click.confirm("Use this table?"))
    written = str(use_table(table, find_paths(os.environ).mirrors_file)) if accepted else None
    names = {"added": list(table.added), "removed": list(table.removed), "changed": list(table.changed)}
    if as_json:
        say_json(_object({"sha256": table.sha256, **names, "written": written}))
    elif written is None:
        say(f"nothing was changed; to use it: --yes --sha256 {table.sha256}")
    else:
        say(f"{written} is in use; --built-in goes back")


def _object(fields: dict[str, object]) -> dict[str, object]:
    return {"schema": 1, "command": "mirrors update", "ok": True, "exit_code": 0, **fields}
