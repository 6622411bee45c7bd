"""The ``resume-dl`` command group; every command of it is loaded when it is called."""

from __future__ import annotations

import importlib
import os

import click

from resume_dl import __version__

COMMANDS = {
    "fetch": "Resolve conda packages, download, verify, put them into conda's package cache.",
    "get": "Download any URL, resumable and verified.",
    "pip": "pip install with the files fetched first; the lines of pip.conf for it.",
    "bundle": "Offline bundles: prepared here, verified and installed on a machine without a net.",
    "probe": "This machine's profile, as a file for who prepares a bundle for it.",
    "status": "Unfinished downloads: what is safe on disk, what is left.",
    "clean": "Remove unfinished downloads.",
    "mirrors": "The mirrors and what they carry.",
    "demo": "The main job against built-in flaky mirrors, killed and resumed.",
}


_OF_BUNDLE = ("create", "verify", "install", "inventory", "split", "join")


class _Lazy(click.Group):
    """Loads a command's module when it is called: ``--help`` loads none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"resume_dl.cli.{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101 - for the type checker
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="resume-dl")
@click.pass_context
def cli(context: click.Context) -> None:
    """Fetch conda packages whole, over slow, breaking or censored lines."""
    from resume_dl.settings.config import load_config  # noqa: PLC0415 - not needed for --help
    from resume_dl.settings.paths import find_paths  # noqa: PLC0415 - see above

    if {"-h", "--help"} & set(context.obj or ()):
        return  # help must come beside a config.toml that is broken: it is what one looks into then
    defaults = load_config(find_paths(os.environ).config_file)
    as_json = {"as_json": defaults["json"]} if "json" in defaults else {}
    looking = {
        "status": as_json,
        "clean": as_json,
        "mirrors": {"list": as_json},
        "pip": {"install": defaults, "config": {**defaults, **as_json}},
        "bundle": {name: {**defaults, **as_json} for name in _OF_BUNDLE},
    }
    context.default_map = {**dict.fromkeys(COMMANDS, defaults), **looking}
