"""``resume-dl bundle``: prepared on a connected machine, verified and installed on one without a net."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "create": "Fetch everything for one or more platforms into a folder or a tar.",
    "verify": "Verify every file of a bundle.",
    "install": "Verify a bundle, then install it with the conda and pip of this machine.",
    "inventory": "List what this machine's caches hold, by digest.",
    "split": "Cut a tar into parts that fit on a disk.",
    "join": "Put the parts together again.",
}


class _Lazy(click.Group):
    """Loads a command's module when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(f"resume_dl.cli.bundle_{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101 - for the type checker
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group("bundle", cls=_Lazy)
def command() -> None:
    """Prepare bundles for machines without a net, verify and install them there."""
