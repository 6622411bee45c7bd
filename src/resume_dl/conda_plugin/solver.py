"""The solver that conda is running, which the pre-solve hook does not receive as an argument.

Private names of conda: ``_repodata_fn``, and the method ``solve_for_transaction`` in the call stack of the hook (24.7
to 26.7).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from inspect import signature
from types import FrameType
from typing import Any

from conda.base.context import context
from conda.core.prefix_data import PrefixData


@dataclass(frozen=True, slots=True)
class Closure:
    """Which shards conda will read: those of ``names`` and, with ``follow``, of all their dependencies.

    ``names`` is called only if there is a shard index.
    """

    names: Callable[[], Collection[str]]
    follow: bool


def running_solver() -> Any:
    """The solver that is about to request its indexes; None if the hook was called in another way.

    ``context.channels`` does not say which ones: ``conda env create`` uses another list.
    """
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the only way to the caller's caller
    while frame is not None:
        solver = frame.f_locals.get("self") if frame.f_code.co_name == "solve_for_transaction" else None
        if hasattr(solver, "_repodata_fn"):
            return solver
        frame = frame.f_back
    return None


def root_names(solver: Any, specs: Iterable[Any]) -> set[str]:
    """The names whose shards a solver reads first: those of its specs and of everything installed.

    Pins and history add no names (conda 26.7: ``SolverInputState.installed`` and ``requested``).
    """
    installed = {record.name for record in PrefixData(str(solver.prefix)).iter_records()}
    return installed | {name for spec in specs if (name := spec.get_exact_value("name")) is not None}


def takes_shards(solver: Any) -> bool:
    """Whether this solver requests shards before whole indexes (since 26), by conda's own test of its class."""
    if not getattr(context, "repodata_use_shards", False):
        return False
    return "build_repodata_subset" in signature(type(solver)).parameters
