"""``python -m resume_dl.trace FILE [-o PICTURE.svg]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from resume_dl.errors import NotWritableError, ResumeDLError
from resume_dl.progress.console import Console
from resume_dl.trace.picture import draw
from resume_dl.trace.trace_file import read_trace
from resume_dl.transfer.destination import refuse_others_link


def main(given: Sequence[str] | None = None) -> int:
    """The exit code of docs/interface.md; the picture's place on stdout, what is wrong on stderr."""
    parser = argparse.ArgumentParser("python -m resume_dl.trace", description="Draw what --debug-trace wrote.")
    parser.add_argument("trace", type=Path, metavar="FILE", help="the trace")
    parser.add_argument("-o", "--output", type=Path, metavar="PICTURE.svg", help="by default FILE with .svg added")
    options = parser.parse_args(given)
    output: Path = options.output or options.trace.with_name(options.trace.name + ".svg")
    try:
        picture = draw(read_trace(options.trace))
        refuse_others_link(output, "name another file with -o")
        try:
            output.write_bytes(picture)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise NotWritableError(f"{output} cannot be written: {why}", hint="name another file with -o") from error
    except ResumeDLError as error:
        Console(sys.stderr).line(f"error: {error.message}\n  {error.hint}")
        return error.exit_code
    Console(sys.stdout).line(str(output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
