"""The end of this process with its parent, even while a library holds Python's global lock.

rattler's extraction holds that lock from start to end, so the thread that reads stdin cannot act on its end. On Linux
the kernel can: a signal for "something happened to this pipe" (``O_ASYNC``), whose default action ends the process
without any Python. The parent sends nothing while a request is worked on, so what can happen is that its end is closed.
Elsewhere the process finishes its archive first, and then ends. Not ``PR_SET_PDEATHSIG``: that one follows the thread
that started the process, not the parent.
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
    """End this process if its stdin is closed during one request."""
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
        if hung_up.poll(0):  # it was closed before the signal was set up
            os._exit(0)
        yield
    finally:
        fcntl.fcntl(_STDIN, fcntl.F_SETFL, flags)
