"""Fixtures of commands that run in this process, in a terminal."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from support.fetching import User


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give this process the environment and the folder of a user: ``at_home(user, NO_COLOR="1")``."""

    def settle(user: User, **more: str) -> None:
        wanted = user.environment({"LANG": "C.UTF-8", "TERM": "xterm", **more})
        for name in set(os.environ) - set(wanted):
            monkeypatch.delenv(name)
        for name, value in wanted.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(user.folder)

    return settle
