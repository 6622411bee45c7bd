"""A command group that loads a command's module on use; ``--help`` loads none."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, cast

import click

from resume_dl.zip_application import installs_all, is_full_only


class LazyGroup(click.Group):
    """A group of lazy commands; ``commands_help``: name -> line of help, in module ``<modules><name>``."""

    def __init__(self, *args: Any, commands_help: Mapping[str, str], modules: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._help = commands_help
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the help."""
        del ctx
        return [name for name in self._help if not is_full_only(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and return the command."""
        del ctx
        if cmd_name not in self._help:
            return None
        return cast("click.Command", importlib.import_module(f"{self._modules}{cmd_name}").command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; the message for an unknown command names the nearest one."""
        name = args[0]
        if is_full_only(name):
            raise click.UsageError(f"{name} is not part of resume-dl.pyz; {installs_all()}", ctx)
        if name not in self._help and not name.startswith("-") and not ctx.resilient_parsing:
            import difflib  # noqa: PLC0415 - only for a wrong name

            near = difflib.get_close_matches(name, self._help, n=1)
            hint = f"did you mean {near[0]}?" if near else f"commands: {', '.join(self._help)}"
            raise click.UsageError(f"No such command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands' lines of help, without imports."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._help[name]) for name in self.list_commands(ctx)])
