"""The ``resume-dl`` command."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence

import click

from resume_dl import __version__
from resume_dl.errors import ConfigurationError

_COMMANDS = {
    "fetch": "Resolve conda packages, download, verify, put them into conda's package cache.",
    "get": "Download any URL, resumable and verified.",
    "status": "Unfinished downloads: what is safe on disk, what is left.",
    "clean": "Remove unfinished downloads.",
    "mirrors": "The mirrors and what they carry.",
    "demo": "The main job against built-in flaky mirrors, killed and resumed.",
}


class _Lazy(click.Group):
    """Loads a command's module when it is called: ``--help`` loads none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(f"resume_dl.cli.{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101 - for the type checker
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="resume-dl")
@click.pass_context
def cli(context: click.Context) -> None:
    """Fetch conda packages whole, over slow, breaking or censored lines."""
    from resume_dl.settings.config import load_config  # noqa: PLC0415 - not needed for --help
    from resume_dl.settings.paths import find_paths  # noqa: PLC0415

    if {"-h", "--help"} & set(context.obj or ()):
        return  # help must come beside a config.toml that is broken: it is what one looks into then
    defaults = load_config(find_paths(os.environ).config_file)
    context.default_map = dict.fromkeys(_COMMANDS, defaults)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code of interface.md."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = cli.main(args=given, prog_name="resume-dl", standalone_mode=False, obj=given)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return _usage(given, error.format_message())
    except ConfigurationError as error:
        click.echo(f"error: {error.message}\n  {error.hint}", err=True)
        return _usage(given, error.message)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return 130
    return code if isinstance(code, int) else 0


def _usage(arguments: Sequence[str], message: str) -> int:
    """Exit code 2; scripts that asked for JSON get their object all the same."""
    if "--json" in arguments:
        from resume_dl.app.report import RunResult  # noqa: PLC0415 - not needed for --help

        command = next((word for word in arguments if word in _COMMANDS), "")
        click.echo(json.dumps(RunResult(command, error=ConfigurationError(message)).as_json(), indent=2))
    return 2
