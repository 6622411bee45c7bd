"""``resume-dl mirrors list``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from resume_dl.cli.options import option
from resume_dl.cli.run import guarded, say, say_json

_PIP = {"pypi:simple": "package index", "pypi:files": "its files", "wheels:pytorch": "pytorch's wheels"}
"""The origins of pip's packages: names to show, in order."""


@click.command("list")
@click.option(
    "--mirrors",
    "mirrors_file",
    type=click.Path(path_type=Path),
    help="Use this mirrors.toml instead of the built-in one and your own.",
)
@option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(mirrors_file: Path | None, *, as_json: bool) -> int:
    """List every mirror with the origins it carries, best first."""

    def call() -> None:
        from resume_dl.core.policy import Policy
        from resume_dl.settings.mirrors import load_mirrors, updated_file
        from resume_dl.settings.paths import find_paths
        from resume_dl.transfer.blocks import Blocks

        paths = find_paths(os.environ)
        table = load_mirrors(override=mirrors_file, user=paths.mirrors_file)
        blocked = Blocks(paths.state, table, lasting=Policy().blocked_seconds).current()
        if as_json:
            rows = [
                {
                    "name": m.name,
                    "title": m.title,
                    "status": m.status,
                    "note": m.note,
                    "carries": dict(m.carries),
                    "blocked": blocked.get(m.name),
                }
                for m in table.mirrors
            ]
            say_json({"schema": 1, "command": "mirrors", "ok": True, "exit_code": 0, "mirrors": rows})
            return
        for mirror in table.mirrors:
            say(f"{mirror.name:<12} {mirror.title}" + ("" if mirror.active else f"  [retired: {mirror.note}]"))
            for line in _coverage(mirror.carries):
                say(f"{'':<12} {line}")
            if mirror.name in blocked:
                say(f"{'':<12} has blocked this machine {blocked[mirror.name]}")
        if mirrors_file is None and updated_file(paths.mirrors_file).exists():
            say(f"from {updated_file(paths.mirrors_file)}; resume-dl mirrors update --built-in goes back")

    return guarded("mirrors", call, as_json=as_json)


def _coverage(carries: Mapping[str, str]) -> list[str]:
    """The origins of a mirror: conda's channels in one line, pip's in another."""
    channels = [origin.removeprefix("conda:") for origin in carries if origin.startswith("conda:")]
    known = [words for origin, words in _PIP.items() if origin in carries]
    other = [origin for origin in carries if not origin.startswith("conda:") and origin not in _PIP]
    kinds = (("conda", channels), ("pip", known + other))
    return [f"{client}: {', '.join(names)}" for client, names in kinds if names]
