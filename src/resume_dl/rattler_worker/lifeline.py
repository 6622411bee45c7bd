"""Termination of this process when its parent ends, even while a library holds Python's global interpreter lock.

rattler holds the GIL for a whole extraction, so the thread that reads stdin cannot react when stdin is closed. On Linux
the kernel can: with ``O_ASYNC`` it signals activity on the pipe, and the signal's default action ends the process
without running any Python. The parent sends nothing during a request, so the only possible event is that the pipe is
closed. Elsewhere the process finishes its archive first, then exits. ``PR_SET_PDEATHSIG`` does not serve: it follows
the thread that started the process, not the parent process.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_STDIN = 0


@contextmanager
def ends_with_parent() -> Iterator[None]:
    """End this process if its stdin is closed inside the block."""
    if sys.platform != "linux":
        yield
        return
    import fcntl

    signal.signal(signal.SIGIO, signal.SIG_DFL)
    flags = fcntl.fcntl(_STDIN, fcntl.F_GETFL)
    fcntl.fcntl(_STDIN, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(_STDIN, fcntl.F_SETFL, flags | os.O_ASYNC)
    try:
        hung_up = select.poll()
        hung_up.register(_STDIN, 0)
        if hung_up.poll(0):  # closed before the signal was set up
            os._exit(0)
        yield
    finally:
        fcntl.fcntl(_STDIN, fcntl.F_SETFL, flags)
