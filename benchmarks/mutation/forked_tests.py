"""Run chosen tests against a changed module in a process forked from one that has collected all tests.

As a pytest plugin (``-p forked_tests``) it takes the place of the run of tests. Each request is one line of JSON on the
descriptor ``MUTATION_REQUESTS``: ``{"module": name, "old": text, "new": text, "tests": [node ids]}``; ``module`` is
None for a run without a change. The answers are lines of JSON on ``MUTATION_ANSWERS``: ``{"pid": ...}``,
``{"begun": test}``, ``{"failed": test}``, ``{"ended": status}``, and ``{"unchangeable": true}`` where the change is in
what runs at import.
Without it each mutant would import and collect everything anew: five seconds, of which its tests take a tenth.

The change is made by giving the functions that the module's import has made the code of the new text. What the module
has computed at its import stays as it was.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import pytest

OPTIMIZED = 1
"""Flag of the code of functions; that of modules and class bodies has it not."""


class UnchangeableError(Exception):
    """The change is not in a function's code alone."""


class ForkedTests:
    """The plugin; ``_failed`` is the first test that failed in this process."""

    def __init__(self, requests: int, answers: int) -> None:
        self._requests = requests
        self._answers = answers
        self._failed: str | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        by_name = {item.nodeid: item for item in session.items}
        self._say({"collected": sorted(by_name)})
        gc.collect()
        with os.fdopen(self._requests, encoding="utf-8") as requests:
            for line in requests:
                wanted = json.loads(line)
                items = [by_name[name] for name in wanted["tests"] if name in by_name]
                child = os.fork()
                if not child:
                    self._run_and_exit(items, wanted)
                self._say({"pid": child})
                status = os.waitpid(child, 0)[1]
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)  # what its tests left running
                self._say({"ended": os.waitstatus_to_exitcode(status)})
                shutil.rmtree(_folder(child), ignore_errors=True)
        return True

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._failed is None:
            self._failed = report.nodeid
            self._say({"failed": report.nodeid})

    def _run_and_exit(self, items: list[pytest.Item], wanted: dict[str, str]) -> None:
        status = 70
        try:
            os.setsid()
            quiet = os.open(os.devnull, os.O_RDWR)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            _folder(os.getpid()).mkdir()
            os.environ["PYTEST_DEBUG_TEMPROOT"] = str(_folder(os.getpid()))  # of tmp_path
            if wanted["module"] is not None:
                change(wanted["module"], wanted["old"], wanted["new"])
            for item, following in zip(items, [*items[1:], None], strict=True):
                self._say({"begun": item.nodeid})
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._failed:
                    with contextlib.suppress(Exception):  # what fixtures started ends with them
                        item.config.hook.pytest_runtest_teardown(item=item, nextitem=None)
                    break
            status = 1 if self._failed else 0
        except UnchangeableError:
            self._say({"unchangeable": True})
        finally:
            os._exit(status)

    def _say(self, what: dict[str, object]) -> None:
        os.write(self._answers, json.dumps(what).encode() + b"\n")


def _folder(pid: int) -> Path:
    """Of the files of the tests that a child runs."""
    return Path(tempfile.gettempdir()) / f"mutant-{pid}"


def change(module: str, old: str, new: str) -> None:
    """Give the functions of an imported module the code of its new text; raises UnchangeableError."""
    if module not in sys.modules:
        return  # it is imported from the changed file when a test needs it
    file = str(sys.modules[module].__file__)
    changed = {
        (before.co_qualname, before.co_firstlineno): after
        for before, after in _changed(compile(old, file, "exec"), compile(new, file, "exec"))
    }
    functions = [
        each for each in gc.get_objects() if isinstance(each, FunctionType) and each.__code__.co_filename == file
    ]
    for function in functions:
        after = changed.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
        if after is not None:
            try:
                function.__code__ = after
            except ValueError as error:  # it closes over other variables
                raise UnchangeableError from error
    made = {(each.__code__.co_qualname, each.__code__) for each in functions}
    if not changed or any((after.co_qualname, after) not in made for after in changed.values()):
        raise UnchangeableError


def _changed(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The functions whose code differs, those of classes too; raises UnchangeableError where other code does."""
    if before.co_flags & OPTIMIZED:
        if not _is_same(before, after):
            yield before, after
        return
    if _shallow(before) != _shallow(after):
        raise UnchangeableError
    for one, other in zip(_codes(before), _codes(after), strict=True):
        yield from _changed(one, other)


def _is_same(one: CodeType, other: CodeType) -> bool:
    """Whether both do the same, on whatever lines they stand."""
    inner = list(zip(_codes(one), _codes(other), strict=False))
    return (
        _shallow(one) == _shallow(other)
        and len(_codes(one)) == len(_codes(other))
        and all(_is_same(*each) for each in inner)
    )


def _shallow(code: CodeType) -> tuple[object, ...]:
    constants = [(type(each), each) for each in code.co_consts if not isinstance(each, CodeType)]
    return (code.co_code, code.co_names, code.co_varnames, code.co_exceptiontable, constants, len(_codes(code)))


def _codes(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def pytest_configure(config: pytest.Config) -> None:
    plugin = ForkedTests(int(os.environ.pop("MUTATION_REQUESTS")), int(os.environ.pop("MUTATION_ANSWERS")))
    config.pluginmanager.register(plugin, "forked-tests")
