"""The solver that conda runs now; the hook before a solve is not told it.

Private names of conda: ``_repodata_fn``, and the method ``solve_for_transaction`` among the frames that call the hook
(24.7 to 26.7).
"""

from __future__ import annotations

import sys
from inspect import signature
from types import FrameType
from typing import Any

from conda.base.context import context


def running_solver() -> Any:
    """The solver that is about to ask for its indexes; None where the hook is called in another way.

    ``context.channels`` does not tell what it will ask for: in ``conda env create`` it is another list.
    """
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the one way to the caller's caller
    while frame is not None:
        solver = frame.f_locals.get("self") if frame.f_code.co_name == "solve_for_transaction" else None
        if hasattr(solver, "_repodata_fn"):
            return solver
        frame = frame.f_back
    return None


def takes_shards(solver: Any) -> bool:
    """Whether this solver asks for shards before whole indexes (since 26), by conda's own test of its class."""
    if not getattr(context, "repodata_use_shards", False):
        return False
    return "build_repodata_subset" in signature(type(solver)).parameters
