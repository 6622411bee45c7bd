"""``resume-dl bundle``: bundles, made on a connected machine, verified and installed on an offline machine."""

from __future__ import annotations

import click

from resume_dl.cli.lazy import LazyGroup

COMMANDS = {
    "create": "Fetch everything for one or more platforms into a folder or a tar.",
    "verify": "Verify every file of a bundle.",
    "install": "Verify a bundle, then install it with the conda and pip of this machine.",
    "inventory": "List the packages in this machine's caches, by digest.",
    "split": "Split a tar into parts that fit on a disk.",
    "join": "Join the parts of a tar.",
}


@click.group("bundle", cls=LazyGroup, commands_help=COMMANDS, modules="resume_dl.cli.bundle_")
def command() -> None:
    """Make bundles for offline machines, verify and install them there."""
