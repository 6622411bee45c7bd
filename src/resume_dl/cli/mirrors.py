"""``resume-dl mirrors``: what they carry, how they do from here, and the user's own table."""

from __future__ import annotations

import click

from resume_dl.cli.lazy import LazyGroup

COMMANDS = {
    "list": "List every mirror with the origins it carries, best first.",
    "test": "Measure the mirrors from here; fetch asks the fastest first from then on.",
    "add": "Add a mirror to your own mirrors.toml.",
    "remove": "Remove a mirror from your own mirrors.toml, or stop using a built-in one.",
    "update": "Replace the built-in table by a newer one from an address that you trust.",
}


@click.group("mirrors", cls=LazyGroup, commands_help=COMMANDS, modules="resume_dl.cli.mirrors_")
def command() -> None:
    """Show, test and change the mirrors."""
