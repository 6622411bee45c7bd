"""An environment's own pip is kept: only one that is missing is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import pytest

from resume_dl.offline_tools.installation.options import Options, Run
from resume_dl.offline_tools.installation.pip_part import install_wheels
from resume_dl.offline_tools.installation.plan import Plan
from resume_dl.offline_tools.machine.pip_python import python_of

PYTHON = f"""#!/bin/sh
echo "$@" >> "$0.log"
case "$*" in *--version*) exit 1;; *-m\\ pip*) exit 0;; *ensurepip*) exit 0;; esac
exec {sys.executable} "$@"
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the environment's Python is a shell script")
@pytest.mark.parametrize("has_pip", [True, False])
def test_a_pip_that_fails_to_print_its_version_is_not_replaced(tmp_path: Path, *, has_pip: bool) -> None:
    """On Windows it failed over a path that the code page lacks, and the user's pip was overwritten."""
    python = python_of(tmp_path)
    python.parent.mkdir()
    python.write_text(PYTHON if has_pip else PYTHON.replace("exec", 'case "$*" in *find_spec*) exit 1;; esac\nexec'))
    python.chmod(0o755)
    version = "{}.{}".format(*sys.version_info)
    plan = Plan(tmp_path, True, "linux-64", False, version, None, None, [], [])
    run = Run(Options(), lambda _: None, {}, 1)

    class Stage:
        folder = tmp_path
        descriptors: tuple[int, ...] = ()

    install_wheels(run, plan, cast("Any", Stage()), existed=True)
    said = python.with_name("python.log").read_text()
    assert ("ensurepip" in said) is not has_pip
    assert "-m pip install" in said
