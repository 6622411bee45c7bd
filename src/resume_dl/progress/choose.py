"""Choice of the reporter for the options and the stream."""

from __future__ import annotations

import os
from typing import TextIO

from resume_dl.errors import ConfigurationError
from resume_dl.ports import Reporter
from resume_dl.progress.console import Console, can_be_drawn_on
from resume_dl.progress.json_events import JsonReporter
from resume_dl.progress.none import NoneReporter
from resume_dl.progress.plain import PlainReporter

MODES = ("bar", "plain", "json", "none")


def choose(mode: str | None, stream: TextIO, *, quiet: bool = False, verbose: bool = False) -> Reporter:
    """The reporter for ``--progress MODE``; None: bars on a terminal, lines elsewhere, nothing with ``--quiet``.

    ``quiet`` shows only errors among messages (an explicit mode stays), ``verbose`` debug messages too.
    Raises ConfigurationError for an unknown mode.
    """
    console = Console(stream, "error" if quiet else "debug" if verbose else "info")
    chosen = mode or ("none" if quiet else "bar" if _is_terminal(stream) else "plain")
    if chosen == "bar" and not quiet:
        from resume_dl.progress.bars import BarReporter

        return BarReporter(console)
    if chosen == "plain" and not quiet:
        return PlainReporter(console)
    if chosen == "json":
        return JsonReporter(console)
    if chosen in MODES:
        return NoneReporter(console)
    raise ConfigurationError(f"unknown way to show progress: {chosen!r}", hint=f"Use one of {', '.join(MODES)}.")


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb" and can_be_drawn_on(stream)
    except ValueError:  # closed
        return False
