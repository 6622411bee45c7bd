"""Other users of this machine, for tests that run as root: real processes with another user id.

ran = as_user(ALICE, "import os; print(os.getuid())", umask=0o022)     # a Python program of hers
ran.returncode, ran.stdout, ran.stderr
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ALICE, BOB, MALLORY = 54301, 54302, 54303
GROUP = 54300
"""Of which Alice and Bob are members."""

needs_users = pytest.mark.skipif(
    os.name == "nt" or os.geteuid() != 0, reason="only root can act as two other users; run the tests as root"
)


def as_user(
    user: int, *command: str | Path, group: int | None = None, umask: int = 0o022, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments (``-c CODE``, ``-m resume_dl …``) as ``user``; ``group`` is a second group."""
    home = cwd or Path("/")
    places = {f"RESUME_DL_{kind}_DIR": str(home / f".{user}-{kind}") for kind in ("CONFIG", "CACHE", "STATE")}
    return subprocess.run(
        [*_becoming(user, group), sys.executable, *map(str, command)],
        umask=umask,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "RESUME_DL_CONDA": "none", **places},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _becoming(user: int, group: int | None) -> list[str]:
    """What starts a program as that user; one whose Python is in root's home may read all, and write no more for it."""
    if user == 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("there is no setpriv (util-linux), which starts a program as another user")
    groups = "--clear-groups" if group is None else f"--groups={group}"
    words = [setpriv, f"--reuid={user}", f"--regid={user}", groups, "--bounding-set=-all", "--inh-caps=-all"]
    if not _may_start(tuple(words)):
        reading = "dac_read_search"
        words[-2:] = [f"--bounding-set=-all,+{reading}", f"--inh-caps=-all,+{reading}", f"--ambient-caps=+{reading}"]
    return words


@functools.cache
def _may_start(words: tuple[str, ...]) -> bool:
    return subprocess.run([*words, sys.executable, "-c", ""], capture_output=True, check=False).returncode == 0


@contextmanager
def common_folder(mode: int = 0o1777) -> Iterator[Path]:
    """A folder that all users reach, as ``/tmp`` by default; pytest's own is root's alone."""
    with tempfile.TemporaryDirectory(prefix="resume-dl-users-") as name:
        folder = Path(name)
        folder.chmod(mode)
        yield folder


def give(path: Path, user: int, group: int | None = None, mode: int | None = None) -> Path:
    """Make ``path`` the user's, with this mode; returns it."""
    os.chown(path, user, user if group is None else group, follow_symlinks=False)
    if mode is not None:
        path.chmod(mode)
    return path
