"""Which tests of a copy of the tree run which lines of the package, and how long each test takes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import coverage

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Reached:
    """Which tests run which lines of which file below src/resume_dl, and how long each test took in seconds."""

    tests: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def of(self, file: str, line: int | None) -> set[str]:
        """The tests that reach a line; those that reach the module where ``line`` is None."""
        lines = self.tests.get(file, {})
        return set(lines.get(line, [])) if line is not None else {test for each in lines.values() for test in each}

    def joined(self, newer: Reached) -> Reached:
        """Of both; of tests that ``newer`` has measured, what it tells."""
        tests = {
            file: {line: [test for test in names if test not in newer.seconds] for line, names in lines.items()}
            for file, lines in self.tests.items()
        }
        for file, lines in newer.tests.items():
            for line, names in lines.items():
                tests.setdefault(file, {}).setdefault(line, []).extend(names)
        return Reached(tests, {**self.seconds, **newer.seconds})

    def write(self, path: Path) -> None:
        path.write_text(json.dumps({"tests": self.tests, "seconds": self.seconds}), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Reached:
        kept = json.loads(path.read_text(encoding="utf-8"))
        lines = {name: {int(line): tests for line, tests in of.items()} for name, of in kept["tests"].items()}
        return cls(lines, kept["seconds"])


def copied(target: Path) -> Path:
    """The parts of the tree that tests need, in ``target``; the environments that tests made there before are kept."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("src", "tests", "docs", "recipe", "benchmarks"):
        shutil.rmtree(target / name, ignore_errors=True)
        shutil.copytree(PROJECT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in PROJECT.glob("*.*"):
        if path.is_file():
            shutil.copy(path, target)
    return target


def surroundings(tree: Path) -> dict[str, str]:
    """The environment of tests; all processes that they start import the package from ``tree``, changes included."""
    return {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "PYTHONDONTWRITEBYTECODE": "",
        "RESUME_DL_TEST_FRESH": "1",
    }


def measure(tree: Path, jobs: int, tests: Sequence[str]) -> Reached:
    """Run the tests once with coverage, of the processes that they start too. Raises SystemExit where they fail."""
    beside = tree / ".reached"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    for path in tree.glob(".coverage*"):  # of runs before, of one that was stopped too
        path.unlink()
    for name, text in _BESIDE.items():
        (beside / name).write_text(text.format(tree=tree), encoding="utf-8")
    shutil.copytree(Path(coverage.__file__).parent, beside / "coverage")  # for other Pythons of this version too
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs + 1), "-p", "reached", "-p", "no:cacheprovider"]
    command += ["--cov=resume_dl", f"--cov-config={beside / 'settings'}", "--cov-context=test", "--cov-report="]
    env = surroundings(tree)
    env["PYTHONPATH"] += os.pathsep + str(beside)
    done = subprocess.run(
        [*command, *(test for test in tests if (tree / test.split("::")[0]).exists())],
        cwd=tree,
        env=env,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        print(done.stdout[-3000:])
        raise SystemExit("the tests fail without any mutant")
    subprocess.run(
        [sys.executable, "-m", "coverage", "combine", "-q", "--append", f"--rcfile={beside / 'settings'}"],
        cwd=tree,
        env=env,
        check=False,
    )
    return _read(tree, beside / "durations")


_BESIDE = {
    "settings": """
[run]
branch = true
parallel = true
source = resume_dl
data_file = {tree}/.coverage
context = ${{TEST_AT_WORK-}}
""",
    "sitecustomize.py": """
import os
if "TEST_AT_WORK" in os.environ:
    import coverage
    coverage.process_startup()
""",
    "reached.py": """
import json, os, pathlib, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    os.environ["TEST_AT_WORK"] = item.nodeid
    os.environ["COVERAGE_PROCESS_START"] = "{tree}/.reached/settings"

def pytest_runtest_logreport(report):
    if report.when != "teardown" and "PYTEST_XDIST_WORKER" not in os.environ:
        with pathlib.Path("{tree}/.reached/durations").open("a", encoding="utf-8") as file:
            print(json.dumps([report.nodeid, report.duration]), file=file)
""",
}


_PHASE = re.compile(r"\|(setup|run|teardown)$")
"""Added to a test's name by pytest-cov."""


def _read(tree: Path, durations: Path) -> Reached:
    data = coverage.CoverageData(str(tree / ".coverage"))
    data.read()
    seconds: dict[str, float] = {}
    for line in durations.read_text(encoding="utf-8").splitlines():  # of what it starts with, and of itself
        test, took = json.loads(line)
        seconds[test] = seconds.get(test, 0.0) + took
    root = tree / "src" / "resume_dl"
    tests: dict[str, dict[int, list[str]]] = {}
    for file in data.measured_files():
        if Path(file).is_relative_to(root):
            tests[Path(file).relative_to(root).as_posix()] = {
                line: sorted({_PHASE.sub("", each) for each in contexts if each})
                for line, contexts in data.contexts_by_lineno(file).items()
            }
    return Reached(tests, seconds)
