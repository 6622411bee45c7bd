"""``conda resume-dl …``: the command line, with its own words and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from resume_dl.cli.main import main
from resume_dl.settings.conda_find import SWITCH


def run(arguments: Sequence[str]) -> int:
    """What ``resume-dl <arguments>`` does; returns its exit code. The conda that runs us is the one it asks."""
    os.environ.setdefault(SWITCH, sys.executable)
    return main(arguments)
