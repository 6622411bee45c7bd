"""Fetch the shards that conda's solver will read into conda's own database before the solve.

conda (26.7) reads the shard index of each channel and subdir from its index cache. It then reads the shards of all
installed and requested packages and of their dependencies from its database, and requests those that are missing. If
shards cannot be fetched here, conda requests them itself; ``-v`` prints the reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from conda.base.context import context

from resume_dl.conda_plugin import compat
from resume_dl.conda_plugin.index_cache import CondaIndex
from resume_dl.conda_plugin.messages import in_one_line, say
from resume_dl.conda_plugin.shard_database import CondaShards
from resume_dl.settings.paths import find_paths

if TYPE_CHECKING:
    from resume_dl.cli.run import Stop
    from resume_dl.conda_plugin.solver import Closure
    from resume_dl.ports import Reporter
    from resume_dl.transfer.setup import Setup

_done: set[tuple[frozenset[tuple[str, str]], frozenset[str]]] = set()
"""Indexes and names whose shards were fetched: a solver may solve more than once."""


def fetch_solver_shards(
    indexes: Sequence[CondaIndex], closure: Closure, setup: Callable[[], Setup], reporter: Reporter, stop: Stop
) -> None:
    """Fetch the missing shards; ``setup`` is called only if there are any.

    Raises KeyboardInterrupt only.
    """
    try:
        sharded = [index for index in indexes if index.has_shards()]
        names = frozenset(closure.names()) if sharded else frozenset()
        key = frozenset(index.key for index in sharded), names
        if not names or key in _done:
            return
        _done.add(key)
        from resume_dl.resolution.client_shards import ClosureOptions, fetch_shards_ahead

        options = ClosureOptions(names, closure.follow, add_pip=bool(context.add_pip_as_python_dependency))
        refused = fetch_shards_ahead(
            sharded,
            CondaShards(),
            options,
            paths=find_paths(os.environ),
            setup=setup,
            reporter=reporter,
            cancelled=stop.cancelled,
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, conda requests its shards itself
        refused = [in_one_line(error)]
    if refused and compat.is_verbose():
        more = f", and {len(refused) - 1} more" if refused[1:] else ""
        say(f"shards are left to conda ({refused[0]}{more})")
