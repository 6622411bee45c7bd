"""``resume-dl mirrors test``."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from resume_dl.cli.option_values import channel_names, mirror_names
from resume_dl.cli.options import Duration, Size, option
from resume_dl.cli.page import page_of
from resume_dl.cli.run import Stop, guarded, say, say_json

if TYPE_CHECKING:
    from resume_dl.diagnosis.mirror_row import MirrorReport

_WIDEST = 120
_PATH = click.Path(path_type=Path)
_LARGEST_SAMPLE = 64 << 20
_LONGEST = 3600.0
"""Seconds; ``never`` means this, because every wait has an end."""


@click.command("test")
@click.option(
    "--origin",
    "origins",
    multiple=True,
    metavar="NAME",
    shell_complete=channel_names,
    help="Test this channel or origin; repeatable.  [default: your channels and pip's index]",
)
@click.option("--all", "every", is_flag=True, help="Test every origin that a mirror carries.")
@click.option("--platform", "platforms", multiple=True, metavar="SUBDIR", help="Test this platform; repeatable.")
@click.option(
    "--mirror", "mirrors", multiple=True, metavar="NAME", shell_complete=mirror_names, help="Test only this mirror."
)
@click.option("--mirrors", "mirrors_file", type=_PATH, help="Use this mirrors.toml instead.")
@option("--no-upstream", "no_upstream", is_flag=True, help="Never contact canonical origins.")
@click.option("--sample", type=Size(), default="1MiB", show_default=True, help="Bytes to read from each mirror.")
@click.option("--within", type=Duration(), default="60s", show_default=True, help="Longest time for the whole test.")
@click.option("--html", "html_file", type=_PATH, metavar="FILE", help="Write a page for a browser, without scripts.")
@option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def command(
    *,
    origins: tuple[str, ...],
    platforms: tuple[str, ...],
    mirrors: tuple[str, ...],
    mirrors_file: Path | None,
    sample: int,
    within: float,
    html_file: Path | None,
    every: bool,
    no_upstream: bool,
    as_json: bool,
) -> int:
    """Measure status, ranges, age and speed of the mirrors, by a bounded part of each index.

    The result is remembered for a week, and downloads ask the fastest mirror first. Exit code 1 if no mirror works.
    """
    works = True

    def call() -> None:
        nonlocal works
        from resume_dl.app.mirror_test import MirrorTest, check_page, run_mirror_test, write_page
        from resume_dl.diagnosis.mirror_screen import lines_of
        from resume_dl.progress.choose import choose
        from resume_dl.transfer.setup import TransferOptions, load_setup

        options = TransferOptions(mirrors_file=mirrors_file, mirrors=mirrors, upstream=not no_upstream)
        page = None if html_file is None else check_page(html_file)
        setup = load_setup(options, os.environ)
        test = MirrorTest(
            origins=origins,
            platforms=platforms,
            every=every,
            sample=min(sample, _LARGEST_SAMPLE),
            seconds=min(within, _LONGEST),
        )
        reporter = choose("none", sys.stderr)
        stop = Stop()
        with stop.listening():
            report = run_mirror_test(setup, test, reporter, stop.cancelled)
        if page is not None:
            write_page(page, report)
        works = any(row.ok for row in report.rows)
        if as_json:
            say_json(_as_json(report, works=works))
        else:
            columns = page_of(sys.stdout).columns or shutil.get_terminal_size((_WIDEST, 24)).columns - 1
            for line in lines_of(report, min(columns, _WIDEST)):
                say(line)

    return guarded("mirrors test", call, as_json=as_json) or (0 if works else 1)


def _as_json(report: MirrorReport, *, works: bool) -> dict[str, object]:
    return {
        "schema": 1,
        "command": "mirrors test",
        "ok": works,
        "exit_code": 0 if works else 1,
        "elapsed": round(report.elapsed, 1),
        "rows": [row.as_json(report.when) for row in report.rows],
    }
