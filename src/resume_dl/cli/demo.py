"""``resume-dl demo``."""

from __future__ import annotations

import click

from resume_dl.cli.run import say


@click.command("demo")
def command() -> int:
    """Fetch pytorch=1.7 from three built-in flaky mirrors, kill it half way, resume it; all in a temporary folder."""
    from resume_dl.demo.script import run_demo

    return run_demo(say)
