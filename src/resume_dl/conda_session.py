"""The request that conda's own session would send for a URL: in conda's process, and as a script in its Python.

The plugin imports this module. ``settings.plugin_logins`` gives its text to the Python of a conda without resume-dl, so
it imports the standard library and conda alone, and runs on Python 3.8. There ``serve`` answers a question a line:
``{"id": 1, "url": "https://…", "channel": "https://…"}`` by ``{"id": 1, "url": …, "headers": {…}, "by_handler": true}``
or ``{"id": 1, "error": "RuntimeError"}``. An error's text is left out: it may quote a password.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from dataclasses import dataclass, field
from typing import IO, Mapping
from urllib.parse import urlsplit


@dataclass(frozen=True)
class SessionRequest:
    """A request as conda's own session prepares it."""

    url: str = field(repr=False)
    """Includes the token that conda adds, if any."""
    headers: Mapping[str, str] = field(repr=False)
    """Headers beyond the session's defaults."""
    by_handler: bool
    """Whether condarc's ``channel_settings`` assigns this channel to an authentication plugin."""
    by_plugins: tuple[str, ...]
    """Names of the headers that plugins add for this host (since 25)."""


def session_request(url: str, *, channel: str = "") -> SessionRequest:
    """Prepare the request that conda would send for ``url``. conda's plugins are called and may raise anything.

    ``channel``: the channel's URL, for files by whose names conda does not find it (shards).
    """
    from conda.base.context import context
    from conda.gateways.connection.session import CondaHttpAuth, get_session
    from requests import Request

    session = get_session(url)
    if channel and isinstance(session.auth, CondaHttpAuth):
        session = get_session(channel + "/noarch/repodata.json")
    prepared = session.prepare_request(Request("GET", url))
    usual = {name.lower(): value for name, value in session.headers.items()}
    headers = {
        name: value.decode("latin-1") if isinstance(value, bytes) else value
        for name, value in prepared.headers.items()
        if usual.get(name.lower()) != value
    }
    parts = urlsplit(url)
    manager = context.plugin_manager
    added = {}
    if hasattr(manager, "get_cached_request_headers"):
        added.update(manager.get_cached_session_headers(host=parts.netloc))
        added.update(manager.get_cached_request_headers(host=parts.netloc, path=parts.path))
    return SessionRequest(
        str(prepared.url), headers, by_handler=not isinstance(session.auth, CondaHttpAuth), by_plugins=tuple(added)
    )


def serve() -> None:
    """Answer the questions on stdin until it ends; then, or if the parent dies, the process ends at once."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # a plugin that prints or prompts must not reach the questions and answers
        os.dup2(nothing, stream)
    coming: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_receive, args=(questions, coming), daemon=True).start()
    begun = False
    while True:
        asked = json.loads(coming.get())
        try:
            if not begun:
                _begin()
                begun = True
            request = session_request(asked["url"], channel=asked["channel"])
            headers = {str(name): str(value) for name, value in request.headers.items()}
            said = {"url": request.url, "headers": headers, "by_handler": request.by_handler}
        except BaseException as error:  # noqa: BLE001 - a plugin may raise SystemExit too
            said = {"error": type(error).__name__}
        answers.write(json.dumps({"id": asked["id"], **said}).encode("ascii") + b"\n")
        answers.flush()


def _receive(questions: IO[bytes], coming: queue.Queue[bytes]) -> None:
    try:
        for line in questions:
            coming.put(line)
    finally:
        os._exit(0)  # a plugin may be waiting for something in the main thread


def _begin() -> None:
    """Read conda's settings, as each of its commands does."""
    from conda.base.context import context, reset_context

    reset_context()
    if getattr(context, "no_plugins", False):
        context.plugin_manager.disable_external_plugins()


if __name__ == "__main__":
    sys.argv[1:] = []
    serve()
