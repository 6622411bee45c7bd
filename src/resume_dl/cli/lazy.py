"""A command group that loads a command's module on use; ``--help`` loads none."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, cast

import click


class LazyGroup(click.Group):
    """A group of lazy commands; ``commands_help``: name -> line of help, in module ``<modules><name>``."""

    def __init__(self, *args: Any, commands_help: Mapping[str, str], modules: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._help = commands_help
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the help."""
        del ctx
        return list(self._help)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and return the command."""
        del ctx
        if cmd_name not in self._help:
            return None
        return cast("click.Command", importlib.import_module(f"{self._modules}{cmd_name}").command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands' lines of help, without imports."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(self._help.items()))
