"""Threads whose exceptions reach the code that waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable


def start_thread(
    call: Callable[[], object], failed: Callable[[BaseException], object], *, name: str
) -> threading.Thread:
    """Run ``call`` in a daemon thread; an exception that leaves it is given to ``failed``, in that thread.

    So no failure goes unnoticed, and nothing waits for an answer that cannot come. Raises RuntimeError where the
    system has no thread left; ``failed`` is not called then.
    """

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - SystemExit too would leave the waiter alone
            failed(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
