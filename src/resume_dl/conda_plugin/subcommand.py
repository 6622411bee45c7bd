"""``conda resume-dl …``: the resume-dl command line, with its own messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from resume_dl.cli.main import main
from resume_dl.settings.conda_find import SWITCH


def run(arguments: Sequence[str]) -> int:
    """Run ``resume-dl <arguments>``, with the running conda as the one to query, and return its exit code."""
    os.environ.setdefault(SWITCH, sys.executable)
    return main(arguments)
