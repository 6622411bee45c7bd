"""What would enable a test that was skipped, told once for each reason at the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

ENABLED_BY = (
    ("nginx", "install nginx (`make nginx` does where it may)"),
    ("micromamba", "name one: RESUME_DL_TEST_MICROMAMBA=/path/to/micromamba"),
    ("has conda-index", "name a conda's Python that has it: RESUME_DL_TEST_CONDA=/path/to/python"),
    ("RESUME_DL_TEST_CONDA", "name a newer conda's Python: RESUME_DL_TEST_CONDA=/path/to/python"),
    ("no conda for Windows", "name a conda's Python: RESUME_DL_TEST_CONDA=C:\\path\\to\\python.exe"),
    ("a conda of 2025", "name a newer conda's Python: RESUME_DL_TEST_CONDA=/path/to/python"),
    ("no Python", "install that Python, or keep it in ~/.pyenv/versions"),
    ("ssh-keygen", "install OpenSSH's client"),
    ("gcc", "install gcc"),
    ("sha256sum", "install GNU coreutils"),
    ("package index", "a connection to a package index"),
    ("root only", "run the tests as root"),
    ("can be mounted", "run the tests as root, with the right to mount (CAP_SYS_ADMIN)"),
    ("network namespace", "the right to make a user namespace (unshare --user --net)"),
    ("root may", "run the tests as another user than root"),
    ("has no pip", "a Python whose environment has pip"),
    ("this pip", "a newer pip"),
    ("second file system", "a writable file system besides the one of the temporary folder, as /dev/shm"),
    ("tmux", "install tmux"),
    ("bsdtar", "install libarchive-tools"),
    ("Chromium", "install chromium"),
)
"""Words of a reason, and what to do."""


def enabled_by(reason: str) -> str:
    """What would let the test run."""
    return next((what for words, what in ENABLED_BY if words in reason), "another operating system")


def summary(reasons: Iterable[str]) -> list[str]:
    """A line for each reason, the most frequent first."""
    return [
        f"{count:4} skipped: {reason}; to run: {enabled_by(reason)}" for reason, count in Counter(reasons).most_common()
    ]
