"""``resume-dl bundle``: prepared on a connected machine, verified and installed on one without a net."""

from __future__ import annotations

import click

from resume_dl.cli.lazy import LazyGroup

COMMANDS = {
    "create": "Fetch everything for one or more platforms into a folder or a tar.",
    "verify": "Verify every file of a bundle.",
    "install": "Verify a bundle, then install it with the conda and pip of this machine.",
    "inventory": "List what this machine's caches hold, by digest.",
    "split": "Cut a tar into parts that fit on a disk.",
    "join": "Put the parts together again.",
}


@click.group("bundle", cls=LazyGroup, commands_help=COMMANDS, modules="resume_dl.cli.bundle_")
def command() -> None:
    """Prepare bundles for machines without a net, verify and install them there."""
