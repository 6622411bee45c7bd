"""Puts the parts of a file together again: resume-dl's join.py.

The line above marks an archive as ours, so that a newer one may replace it (``bundle/parts.py``).
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import Iterable

from resume_dl.offline_tools.parts.advice import advice, summary
from resume_dl.offline_tools.parts.join_parts import join
from resume_dl.offline_tools.parts.parts_list import STOPPED, JoinError


def main(argv: list[str], script: Path) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog=script.name,
        description="Put the parts of a file together again.",
        epilog="It can be stopped and run again.",
    )
    parser.add_argument(
        "what",
        nargs="?",
        metavar="WHAT",
        type=Path,
        default=script.resolve().parent,
        help="X.tar.parts.json, a part, X.tar, or their folder; default: the folder of this script",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="the file, or the folder for it; else beside the parts"
    )
    parser.add_argument("--remove-parts", action="store_true", help="remove the parts once the whole file is verified")
    parser.add_argument("--keep-parts", action="store_false", dest="remove_parts", help="keep them (the default)")
    options = parser.parse_args(argv)
    try:
        report = join(options.what, options.output, remove_parts=options.remove_parts, log=_say)
    except JoinError as error:
        _complain(["error: " + error.message, error.hint])
        return error.exit_code
    except KeyboardInterrupt:
        _complain(["error: stopped", "run the same command again: what was joined is kept"])
        return STOPPED
    for warning in report.warnings:
        _complain(["warning: " + warning])
    if not report.joined:
        _complain(["error: " + summary(report), *advice(report)])
        return report.exit_code
    for line in (summary(report), *advice(report)):
        _say(line)
    return 0


def _say(line: str) -> None:
    with suppress(OSError):  # a closed pipe does not affect the join
        print(line, flush=True)


def _complain(lines: Iterable[str]) -> None:
    with suppress(OSError):
        for number, line in enumerate(lines):
            print(("  " if number else "") + line, file=sys.stderr)
