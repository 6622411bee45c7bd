"""Threads are started at one place, which delivers what they end with."""

from __future__ import annotations

import ast
from pathlib import Path

import resume_dl

ROOT = Path(resume_dl.__file__).parent
ALLOWED = {"threads.py", "demo/servers.py", "conda_session.py"}
"""The one place; the demo's servers, which nothing waits for; a script that ends its process with its thread."""


def starts(source: str) -> list[int]:
    """Lines that make a thread by themselves."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if ast.unparse(call.func).rpartition(".")[2] in {"Thread", "Timer"}]


def test_threads_are_started_by_the_helper():
    """An exception in any other thread would be printed by Python, and whatever waits would wait for ever."""
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in sorted(ROOT.rglob("*.py"))
        if (lines := starts(path.read_text(encoding="utf-8"))) and path.relative_to(ROOT).as_posix() not in ALLOWED
    }
    assert found == {}


def test_the_check_sees_threads():
    """Both spellings are found."""
    assert starts("import threading\nthreading.Thread(target=print)\nThread()") == [2, 3]
