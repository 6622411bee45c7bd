"""The ``resume-dl`` command group; every command of it is loaded when it is called."""

from __future__ import annotations

import os

import click

from resume_dl import __version__
from resume_dl.cli.lazy import LazyGroup

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


@click.group(
    cls=LazyGroup,
    commands_help=COMMANDS,
    modules="resume_dl.cli.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="resume-dl")
@click.pass_context
def cli(context: click.Context) -> None:
    """Fetch conda packages whole, over slow, breaking or censored lines."""
    from resume_dl.cli.bundle import COMMANDS as OF_BUNDLE
    from resume_dl.settings.config import load_config
    from resume_dl.settings.paths import find_paths

    if {"-h", "--help"} & set(context.obj or ()):
        return  # help must come beside a config.toml that is broken: it is what one looks into then
    defaults = load_config(find_paths(os.environ).config_file)
    as_json = {"as_json": defaults["json"]} if "json" in defaults else {}
    looking = {
        "status": as_json,
        "clean": as_json,
        "mirrors": {"list": as_json},
        "pip": {"install": defaults, "config": {**defaults, **as_json}},
        "bundle": {name: {**defaults, **as_json} for name in OF_BUNDLE},
    }
    context.default_map = {**dict.fromkeys(COMMANDS, defaults), **looking}
