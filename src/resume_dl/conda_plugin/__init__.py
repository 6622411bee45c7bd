"""conda's plugin: after a solve, what is verified and at hand already is handed to conda instead of downloaded again.

conda imports this module at every command, so it defines hooks and imports nothing else of ours; the work is in
``post_solve``, and all that depends on conda's version in ``compat``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conda.plugins import hookimpl
from conda.plugins.types import CondaPostSolve


@hookimpl  # type: ignore[untyped-decorator,unused-ignore]
def conda_post_solves() -> Iterator[CondaPostSolve]:
    """Reuse what is at hand before conda prints its plan, asks, and downloads."""
    yield CondaPostSolve(name="resume-dl", action=_reuse)


def _reuse(repodata_fn: str, unlink_precs: tuple[Any, ...], link_precs: tuple[Any, ...]) -> None:
    """Import the rest only now, and let nothing of ours ever stop conda (post_solve catches, this is the net)."""
    del repodata_fn, unlink_precs
    if not link_precs:
        return
    try:
        from resume_dl.conda_plugin.post_solve import reuse_at_hand  # noqa: PLC0415

        reuse_at_hand(link_precs)
    except Exception as error:  # noqa: BLE001
        import sys  # noqa: PLC0415

        sys.stderr.write(f"resume-dl: nothing is reused ({type(error).__name__}: {error}); conda goes on by itself\n")
