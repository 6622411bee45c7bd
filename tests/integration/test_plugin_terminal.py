"""The plugin's question on a real terminal."""

from __future__ import annotations

import os
import subprocess

import pytest

from support.plugin import use_mirrors

pty = pytest.importorskip("pty", reason="pseudo-terminals are POSIX's")

pytestmark = pytest.mark.conda


@pytest.mark.parametrize(("typed", "agreed"), [(b"\x04", False), (b"\n", True)])
def test_the_end_of_input_means_no(test_conda, offer, nginx_mirrors, typed, agreed):
    """Ctrl-D is no consent, the Return key is; conda's own question comes afterwards, and is answered with no."""
    served = nginx_mirrors([offer.root])
    use_mirrors(test_conda, served.base(0), [])
    test_conda.configure(always_yes=None)
    ours, theirs = pty.openpty()
    command = [str(test_conda.python), "-m", "conda", "create", "-p", str(test_conda.folder / "env"), "libuv"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=test_conda.environment(), cwd=test_conda.folder
    ) as process:
        os.close(theirs)
        shown, answers = b"", {b"fetch them now": typed, b"Proceed (": b"n\n"}
        try:
            while data := os.read(ours, 4096):
                shown += data
                for question in [each for each in answers if each in shown]:
                    os.write(ours, answers.pop(question))
        except OSError:  # the other end is closed: conda has ended
            pass
        process.wait(60)
    os.close(ours)
    assert answers == {}, shown
    assert bool([request for request in served.archive_requests() if request.is_ours]) is agreed, shown
