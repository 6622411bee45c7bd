"""A bundle for Windows that ``bundle create`` makes on the Linux side, in parts; a test under Wine installs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.pip_index import build_wheel
from windows.machine import PYTHON

VARIABLE = "RESUME_DL_TEST_LINUX_BUNDLE"
"""Names the folder of the parts to the test, as a path of its system."""
NAME = "实验 ü.tar"


def make(folder: Path) -> None:
    """Write the parts of a bundle with one wheel, and what joins them, into ``folder``."""
    wheel = build_wheel(folder / "built", "demo-app", "1.0").path
    settings = {"HOME": str(folder), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "RESUME_DL_CONDA": "none"}
    request = ["--pip", "demo-app", "--find-links", str(wheel.parent), "--platform", "win-64"]
    output = ["-o", str(folder / "parts" / NAME), "--split", "100kB", "--progress", "none", "--quiet"]
    (folder / "parts").mkdir()
    subprocess.run(
        [sys.executable, "-m", "resume_dl", "bundle", "create", *request, "--python", _dotted(PYTHON), *output],
        env={**os.environ, **settings},
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
