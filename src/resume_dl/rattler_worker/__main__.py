"""Entry point of the child process: JSON lines in on stdin, one JSON line out on stdout for each.

Request ``{"id": n, "op": name, "args": {...}}``; answer ``{"id": n, "ok": true, "result": ...}`` or ``{"id": n,
"ok": false, "error": {"type": <class of resume_dl.errors>, "message", "hint", "data": {...}}}``. Requests are handled
in order, one at a time. The process exits as soon as stdin is closed, even during a request (see ``lifeline``), so it
never outlives its parent. Output of libraries goes to stderr.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Any

from resume_dl.errors import ConfigurationError, ResumeDLError
from resume_dl.threads import start_thread

Operation = Callable[[Mapping[str, Any]], Any]
_SHOWN = ("part", "nearest", "needed", "free", "index")
"""Error attributes that are sent to the parent."""


def main() -> None:
    """Serve requests until stdin ends."""
    # Interrupts are for the parent, which ends this process by closing stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    # Without stdin no request can arrive; exit, because the parent waits for an answer or for our exit.
    start_thread(lambda: _read(sys.stdin.buffer, requests), lambda _: os._exit(1), name="requests")
    with suppress(ConfigurationError):
        _operations()  # load early; a failure is reported by the first request
    while True:
        line = requests.get()
        answer = json.dumps(_answer(json.loads(line))) + "\n"
        try:
            answers.write(answer)
            answers.flush()
        except OSError:  # the parent no longer reads answers
            os._exit(1)  # a normal exit would abort: the reading thread holds stdin's lock


def _read(stdin: IO[bytes], requests: queue.SimpleQueue[bytes]) -> None:
    for line in stdin:
        requests.put(line)
    os._exit(0)


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        result = _operation(request["op"])(request["args"])
    except ResumeDLError as error:
        return {"id": request["id"], "ok": False, "error": _describe(error)}
    except BaseException as error:  # noqa: BLE001 - a Rust panic is a BaseException; every error goes to the parent
        text = f"{type(error).__name__}: {error}".strip()
        return {"id": request["id"], "ok": False, "error": {"type": "bug", "message": text, "hint": "", "data": {}}}
    return {"id": request["id"], "ok": True, "result": result}


def _describe(error: ResumeDLError) -> dict[str, Any]:
    data = {name: getattr(error, name) for name in _SHOWN if hasattr(error, name)}
    return {"type": type(error).__name__, "message": error.message, "hint": error.hint, "data": data}


def _operations() -> Mapping[str, Operation]:
    """Import the operations lazily: py-rattler takes 0.1 s to load, and may be missing or broken."""
    try:
        from resume_dl.rattler_worker.operations import OPERATIONS
    except ImportError as error:
        raise ConfigurationError(
            f"py-rattler cannot be loaded: {error}", hint="install it: pip install 'py-rattler>=0.23'"
        ) from error
    return OPERATIONS


def _operation(name: str) -> Operation:
    operations = _operations()
    if name not in operations:
        raise ConfigurationError(f"the worker has no operation {name!r}")
    return operations[name]


if __name__ == "__main__":
    main()
