"""``resume-dl pip config``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from resume_dl.cli.options import option
from resume_dl.cli.run import Stop, guarded, say_json, say_whole, tell

_PATH = click.Path(path_type=Path)


@click.command("config")
@click.option("--apply", "do_apply", is_flag=True, help="Write them with pip config set, for this user.")
@option("--wheel-dir", "wheel_dir", type=_PATH, help="The folder of finished wheels.  [default: the one of fetch]")
@option("--mirrors", "mirrors", type=_PATH, help="Use this mirrors.toml instead of the built-in one and your own.")
@option("--mirror", "mirror", multiple=True, metavar="NAME", help="Use only this mirror; repeatable.")
@option("--no-upstream", "no_upstream", is_flag=True, help="Never contact canonical origins.")
@option("--offline", is_flag=True, help="Do not measure; use the table's order of mirrors.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(
    *,
    do_apply: bool,
    wheel_dir: Path | None,
    mirrors: Path | None,
    mirror: tuple[str, ...],
    no_upstream: bool,
    offline: bool,
    as_json: bool,
) -> int:
    """Show the lines of pip.conf that make pip use the fastest mirror and the fetched wheels."""

    def call() -> None:
        from resume_dl.app.pip_config import advise, apply
        from resume_dl.transfer.setup import TransferOptions, load_setup

        options = TransferOptions(mirrors_file=mirrors, mirrors=mirror, upstream=not no_upstream, offline=offline)
        setup = load_setup(options, os.environ)
        wheels = (wheel_dir or setup.paths.wheels).absolute()
        stop = Stop()
        with stop.listening():
            advice = advise(setup, wheels, cancelled=stop.cancelled)
        file, warnings = None, advice.warnings
        if do_apply:
            file, overruled = apply(advice, setup, wheels)
            warnings += overruled
        for text in warnings:
            tell(f"warning: {text}")
        if as_json:
            report = {"schema": 1, "command": "pip config", "ok": True, "exit_code": 0, **advice.as_json()}
            say_json({**report, "warnings": [*warnings], "written": None if file is None else str(file)})
            return
        if file is not None:
            say_whole(f"# written to {file}")
        for line in advice.lines():
            say_whole(line)

    return guarded("pip config", call, as_json=as_json)
