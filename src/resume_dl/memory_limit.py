"""A limit of the memory of a process that reads what others wrote: a parser of dependencies' markers may need 2^n."""

from __future__ import annotations

import sys
from contextlib import suppress

MOST_FOR_LOCKS = 2 << 30
"""Bytes for the reader of a lock file; the largest known ones need some 100 MB."""
OURS = 0
"""In place of a process id: this process."""


def limit_memory(pid: int, most: int) -> int | None:
    """Limit what a process may allocate, in bytes; return the limit until now, None where there is none to set.

    Linux only: elsewhere such limits do not hold for mapped memory. An allocation beyond it fails, which ends programs
    in Rust with SIGABRT.
    """
    if sys.platform != "linux":
        return None
    import resource  # noqa: PLC0415 - Windows has none

    with suppress(OSError, ValueError):  # it has ended, or a container forbids it
        # not RLIMIT_AS: a machine of many processors reserves more for its threads than it ever uses
        soft, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        wanted = hard if resource.RLIM_INFINITY not in {most, hard} and hard < most else most
        resource.prlimit(pid, resource.RLIMIT_DATA, (wanted, hard))
        return soft
    return None
