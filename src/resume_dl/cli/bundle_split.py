"""``resume-dl bundle split``."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from resume_dl.cli.options import Size, option
from resume_dl.cli.run import guarded, say, say_json, stopped, tell

_PATH = click.Path(path_type=Path)
_EVERY = 5.0
"""Seconds between progress lines."""


@click.command("split")
@click.argument("what", metavar="TAR|FOLDER", type=_PATH)
@option("--size", type=Size(), default="4GiB", show_default=True, help="Largest part; 4GiB means the limit of FAT32.")
@option("-o", "--output", "output", type=_PATH, metavar="DIR", help="The folder for the parts.  [default: beside it]")
@option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(what: Path, size: int, output: Path | None, *, as_json: bool) -> int:
    """Split the tar or the folder of a bundle into parts that fit on a disk, with the script that joins them."""

    def call() -> None:
        from resume_dl.app.bundle_split import cut
        from resume_dl.offline_tools.parts.parts_list import LIST, SCRIPT

        try:
            whole = cut(what, output, size=size, env=os.environ, progress=_Progress(), log=tell)
        except KeyboardInterrupt as error:
            raise stopped() from error
        folder = what.resolve().parent if output is None else output.resolve()
        if as_json:
            parts = [{"name": part.name, "size": part.size, "sha256": part.sha256} for part in whole.parts]
            path = str(folder / f"{whole.name}{LIST}")
            about = {"path": path, "size": whole.size, "sha256": whole.sha256, "parts": parts}
            say_json({"schema": 1, "command": "bundle split", "ok": True, "exit_code": 0, "error": None, **about})
            return
        for part in whole.parts:
            say(f"{part.sha256}  {part.name}  {part.size:,} bytes")
        say(f"copy all of them, {whole.name}{LIST} and {SCRIPT}; then, in their folder: python {SCRIPT}")

    return guarded("bundle split", call, as_json=as_json)


class _Progress:
    """A progress line on stderr every few seconds."""

    def __init__(self) -> None:
        self._written, self._said = 0, time.monotonic()

    def __call__(self, count: int) -> None:
        self._written += count
        if time.monotonic() - self._said >= _EVERY:
            self._said = time.monotonic()
            tell(f"{self._written:,} bytes written")
