"""The ``resume-dl`` command group; each command is loaded on use."""

from __future__ import annotations

import os
from typing import Any

import click

from resume_dl import __version__
from resume_dl.cli.lazy import LazyGroup
from resume_dl.errors import ConfigurationError
from resume_dl.zip_application import zip_application

COMMANDS = {
    "fetch": "Resolve conda packages, then download and verify them into conda's package cache.",
    "get": "Download any URL, resumable and verified.",
    "adopt": "Use packages that a browser or download manager has fetched, whole or in part.",
    "pip": "Run pip install with files fetched first; configure pip for mirrors.",
    "bundle": "Make bundles, and verify and install them on an offline machine.",
    "probe": "Print this machine's profile, from which a bundle is made for it.",
    "status": "Show unfinished downloads: what is safe on disk, what is missing.",
    "resume": "Continue everything that is unfinished.",
    "clean": "Remove unfinished downloads.",
    "verify": "Hash package caches and wheels; name, and with --repair fetch again, what is damaged.",
    "mirrors": "List, test and change the mirrors.",
    "config": "Show the settings and where each is set; edit config.toml.",
    "doctor": "Examine this machine: conda, caches, network, settings, GPU driver.",
    "demo": "Run a fetch from built-in flaky mirrors, killed and resumed.",
    "completion": "Print the script for completion in bash, zsh, fish or PowerShell.",
    "help": "Show the help of a command.",
}
if zip_application() is not None:
    COMMANDS["self"] = "Fetch and install the whole program, resumable."


@click.group(
    cls=LazyGroup,
    commands_help=COMMANDS,
    modules="resume_dl.cli.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="resume-dl")
@click.pass_context
def cli(context: click.Context) -> None:
    """Fetch conda packages reliably over slow, breaking or censored connections."""
    from resume_dl.cli.bundle import COMMANDS as OF_BUNDLE
    from resume_dl.cli.mirrors import COMMANDS as OF_MIRRORS
    from resume_dl.settings.config import load_config
    from resume_dl.settings.paths import find_paths

    if {"-h", "--help"} & set(context.obj or ()) or context.invoked_subcommand in {"completion", "help"}:
        return  # help must work with a broken config.toml, which it helps to correct
    try:
        defaults = load_config(find_paths(os.environ).config_file)
    except ConfigurationError:
        if context.invoked_subcommand == "config":
            return  # it names every mistake, and opens the file
        raise
    as_json = {"as_json": defaults["json"]} if "json" in defaults else {}
    shown: dict[str, Any] = {name: defaults[name] for name in ("quiet", "verbose", "progress") if name in defaults}
    looking: dict[str, dict[str, Any]] = {
        "status": as_json,
        "clean": as_json,
        "verify": {name: value for name, value in defaults.items() if name not in {"pkgs_dir", "wheel_dir"}},
        "doctor": {**as_json, **({"offline": defaults["offline"]} if "offline" in defaults else {})},
        "mirrors": dict.fromkeys(OF_MIRRORS, as_json),
        "config": {"show": as_json},
        "resume": {**shown, **as_json},
        "pip": {"install": defaults, "config": {**defaults, **as_json}},
        "bundle": {name: {**defaults, **as_json} for name in OF_BUNDLE},
    }
    context.default_map = {**dict.fromkeys(COMMANDS, defaults), **looking}
