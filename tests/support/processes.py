"""Processes of a test that end with it."""

from __future__ import annotations

import subprocess


class Run(subprocess.Popen[str]):
    """A process that does not outlive its ``with`` block, however that is left: Popen alone would wait for it.

    Its pipes are closed then, so that a test that fails leaves nothing open for the next one to fail over.
    """

    def __exit__(self, *error: object) -> None:
        self.kill()
        super().__exit__(*error)
