"""``resume-dl help``."""

from __future__ import annotations

import click

from resume_dl.cli.run import say_whole


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(context: click.Context, words: tuple[str, ...]) -> int:
    """Show the help of a command, as its --help does: resume-dl help bundle create."""
    shown = context.find_root()
    for word in words:
        if not isinstance(shown.command, click.Group):
            raise click.UsageError(f"{shown.command_path} has no subcommands")
        name, found, _ = shown.command.resolve_command(shown, [word])
        if name is None or found is None:
            raise click.UsageError(f"No such command {word!r}")
        shown = click.Context(found, info_name=name, parent=shown, **found.context_settings)
    say_whole(shown.get_help())
    return 0
