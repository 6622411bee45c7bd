"""Try a mutant with the tests that reach it, and tell a defect that a test finds from a slow or unsteady machine."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from measurement import Reached, surroundings
from mutants import Mutant

MOST_TESTS = 150
"""Of one line: the quickest ones. A line that more than these reach is reached by all of them."""
LONGEST_TEST = 20.0
"""Seconds; slower tests are not used for mutants."""
SPARE = 45.0
"""Seconds that a test may take beyond twenty times its own, for the start of Python on a busy machine."""
FAR_LESS = 5
"""A test that does not end is a kill if it ends in this part of the time without the mutant."""
COLLECTING = 600.0
"""Seconds within which tests are collected."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a test fails with a mutant and passes right after without it.

    ``tests`` of those that reach the mutant were chosen; ``by`` is the test that killed it, None for a survivor.
    """

    tests: int
    by: str | None = None
    hung: bool = False
    unsteady: tuple[str, ...] = ()
    """Tests that failed with the mutant, and without it too."""


@dataclass(slots=True)
class _Run:
    failed: str | None = None
    hung: bool = False
    changeable: bool = True
    seconds: float = 0.0
    """Of the test begun last."""


class TestsDidNotStartError(Exception):
    """The process that collects the tests ended."""


class TestProcess:
    """A process of a copy of the tree that has collected tests and forks for each run (``forked_tests``)."""

    __test__ = False

    def __init__(self, tree: Path, paths: Sequence[str]) -> None:
        requests, self._requests = os.pipe()
        self._answers, low = os.pipe()
        answers = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 200)  # a mutant may write to a descriptor near its own
        os.close(low)
        env = surroundings(tree)
        env["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
        env["MUTATION_REQUESTS"], env["MUTATION_ANSWERS"] = str(requests), str(answers)
        options = ["-q", "--no-header", "--no-cov", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "forked_tests"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *paths],
            cwd=tree,
            env=env,
            pass_fds=(requests, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(requests)
        os.close(answers)
        self._left = b""
        collected = self._answer(COLLECTING)
        if collected is None:
            self.close()
            raise TestsDidNotStartError
        self.tests = frozenset(collected["collected"])

    def close(self) -> None:
        os.close(self._requests)
        self._process.wait()
        os.close(self._answers)

    def run(self, tests: Sequence[str], limits: dict[str, float], change: dict[str, str] | None) -> _Run:
        """To the first failure; a test that takes longer than its limit (seconds) is stopped."""
        wanted = {"module": None, **(change or {}), "tests": tests}
        os.write(self._requests, json.dumps(wanted).encode() + b"\n")
        run, pid, at_work, begun = _Run(), 0, "", time.monotonic()
        while True:
            limit = limits[at_work] if at_work else COLLECTING
            answer = self._answer(limit - (time.monotonic() - begun))
            if answer is None:
                if self._process.poll() is not None or not pid or run.hung:
                    raise TestsDidNotStartError
                begun = time.monotonic() + COLLECTING
                with suppress(ProcessLookupError):  # it ends in this very moment, and will be told
                    os.kill(pid, signal.SIGKILL)
                    run.hung, run.failed = True, at_work
            elif "pid" in answer:
                pid = answer["pid"]
            elif "begun" in answer:
                at_work, begun = answer["begun"], time.monotonic()
            elif "failed" in answer:
                run.failed = answer["failed"]
            elif "unchangeable" in answer:
                run.changeable = False
            elif "ended" in answer:
                run.seconds = time.monotonic() - begun
                if answer["ended"] != 0 and run.changeable and run.failed is None:
                    run.failed = at_work  # the process of the tests died
                return run

    def _answer(self, patience: float) -> dict | None:
        """The next line, None where none comes in ``patience`` seconds or the process has ended."""
        deadline = time.monotonic() + patience
        while b"\n" not in self._left:
            if not select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            data = os.read(self._answers, 1 << 16)
            if not data:
                return None
            self._left += data
        line, self._left = self._left.split(b"\n", 1)
        return json.loads(line[max(0, line.rfind(b'{"')) :])  # behind what a mutant has written there all the same


class Tree:
    """A copy of the project in which one mutant after the other is tried."""

    def __init__(self, root: Path, paths: Sequence[str]) -> None:
        self.root = root
        self._tests = TestProcess(root, paths)
        self._written = 0

    def close(self) -> None:
        self._tests.close()

    def verdict(self, module: str, mutant: Mutant, reached: Reached) -> Verdict:
        limits = {test: SPARE + 20 * seconds for test, seconds in reached.seconds.items()}
        at_hand = reached.of(module, mutant.statement) & limits.keys() & self._tests.tests
        chosen = sorted(at_hand, key=lambda test: (reached.seconds[test], test))
        chosen = [test for test in chosen if reached.seconds[test] <= LONGEST_TEST][:MOST_TESTS]
        left, unsteady = list(chosen), []
        while left:
            with self._changed(module, mutant) as change:
                run = self._tests.run(left, limits, change)
                if not run.changeable:
                    run = self._freshly(left, limits)
            if run.failed is None:
                break
            without = self._tests.run([run.failed], limits, None)
            limit = limits[run.failed] / FAR_LESS if run.hung else limits[run.failed]
            if without.failed is None and without.seconds < limit:
                return Verdict(len(chosen), run.failed, run.hung, tuple(unsteady))
            unsteady.append(run.failed)
            left = left[left.index(run.failed) + 1 :]
        return Verdict(len(chosen), unsteady=tuple(unsteady))

    def _freshly(self, tests: Sequence[str], limits: dict[str, float]) -> _Run:
        """With a process that imports the changed module; where it cannot even be imported, the first test fails."""
        try:
            process = TestProcess(self.root, sorted({test.split("::")[0] for test in tests}))
        except TestsDidNotStartError:
            return _Run(failed=tests[0])
        try:
            gone = [test for test in tests if test not in process.tests]
            return _Run(failed=gone[0]) if gone else process.run(tests, limits, None)
        finally:
            process.close()

    @contextmanager
    def _changed(self, module: str, mutant: Mutant) -> Iterator[dict[str, str]]:
        path = self.root / "src" / "resume_dl" / module
        old = path.read_text(encoding="utf-8")
        new = mutant.applied(old)
        self._write(path, new)
        try:
            name = "resume_dl." + module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            yield {"module": name, "old": old, "new": new}
        finally:
            self._write(path, old)

    def _write(self, path: Path, text: str) -> None:
        """With a time of its own: Python takes bytecode of the same second and size for this text's."""
        path.write_text(text, encoding="utf-8")
        self._written += 1
        os.utime(path, (1_500_000_000 + self._written, 1_500_000_000 + self._written))
