"""How many small defects the tests find: a seeded sample of mutants of store/, transport/ and app/'s unpacking.

    python benchmarks/mutation/run.py [--sample 200] [--seed 1] [--jobs 2] [--only store/lock.py] [--tests tests/store]
        [--keep FILE]

One run of the tests with coverage tells which tests reach which line. Each mutant is then tried with those tests
alone, in a copy of the tree, the quickest first, and is killed by the first one that fails or takes ten times as long
as it did. Prints the survivors and the share killed; exit 1 below ``BOUND``. Takes about four seconds a mutant.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import coverage
from mutants import Mutant, mutants

PROJECT = Path(__file__).resolve().parents[2]
BOUND = 0.85
PLACES = ("store", "transport", "app/extract.py", "app/unpacked_batch.py")
TESTS = (
    "tests/store",
    "tests/transport",
    "tests/contract",
    "tests/engine",
    "tests/hostile",
    "tests/crash",
    "tests/integration",
)
MOST_TESTS = 150
"""Of one line: the quickest ones. A line that more than these reach is reached by all of them."""
LONGEST_TEST = 20.0
"""Seconds; slower tests are not used for mutants."""
SPARE = 60.0
"""Seconds that a try may take beyond ten times its tests' own, for the start of Python on a busy machine."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Which tests run which lines, and how long each test took in seconds."""

    tests: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def of(self, file: str, line: int | None) -> set[str]:
        """The tests that reach a line; those that reach the module where ``line`` is None."""
        lines = self.tests.get(file, {})
        return set(lines.get(line, [])) if line is not None else {test for each in lines.values() for test in each}


def modules(only: list[str]) -> list[str]:
    """Paths below src/resume_dl, with slashes."""
    root = PROJECT / "src" / "resume_dl"
    found = [
        path for place in PLACES for path in ([root / place] if place.endswith(".py") else (root / place).rglob("*.py"))
    ]
    names = sorted(path.relative_to(root).as_posix() for path in found if path.is_file())
    return [name for name in names if not only or name in only]


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
    return {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": ""}


def measure(tree: Path, jobs: int, tests: Sequence[str]) -> Reached:
    """Run the tests once with coverage, of the processes that they start too. Raises SystemExit where they fail."""
    beside = tree / ".reached"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    for name, text in _BESIDE.items():
        (beside / name).write_text(text.format(tree=tree), encoding="utf-8")
    shutil.copytree(Path(coverage.__file__).parent, beside / "coverage")  # for other Pythons of this version too
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs + 1), "-p", "reached", "-p", "no:cacheprovider"]
    command += ["--cov=resume_dl", f"--cov-config={beside / 'settings'}", "--cov-context=test", "--cov-report="]
    env = surroundings(tree)
    env["PYTHONPATH"] += os.pathsep + str(beside)
    done = subprocess.run(
        [*command, *(test for test in tests if (tree / test).exists())],
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
    if report.when == "call" and "PYTEST_XDIST_WORKER" not in os.environ:
        with pathlib.Path("{tree}/.reached/durations").open("a", encoding="utf-8") as file:
            print(json.dumps([report.nodeid, report.duration]), file=file)
""",
}


_PHASE = re.compile(r"\|(setup|run|teardown)$")
"""Added to a test's name by pytest-cov."""


def _read(tree: Path, durations: Path) -> Reached:
    data = coverage.CoverageData(str(tree / ".coverage"))
    data.read()
    seconds = dict(json.loads(line) for line in durations.read_text(encoding="utf-8").splitlines())
    root = tree / "src" / "resume_dl"
    tests: dict[str, dict[int, list[str]]] = {}
    for file in data.measured_files():
        if Path(file).is_relative_to(root):
            tests[Path(file).relative_to(root).as_posix()] = {
                line: sorted({_PHASE.sub("", each) for each in contexts if each})
                for line, contexts in data.contexts_by_lineno(file).items()
            }
    return Reached(tests, seconds)


def is_killed(tree: Path, module: str, mutant: Mutant, reached: Reached) -> bool | None:
    """Whether a test fails with this mutant; None where no test reaches it."""
    tests = reached.of(module, mutant.statement)
    chosen = sorted(tests & reached.seconds.keys(), key=lambda test: (reached.seconds[test], test))
    chosen = [test for test in chosen if reached.seconds[test] <= LONGEST_TEST][:MOST_TESTS]
    if not chosen:
        return None
    path = tree / "src" / "resume_dl" / module
    text = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied(text), encoding="utf-8")
    limit = SPARE + 10 * sum(reached.seconds[test] for test in chosen)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--no-header",
        "--no-cov",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    process = subprocess.Popen(
        [*command, *chosen],
        cwd=tree,
        env=surroundings(tree),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(limit) != 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return True
    finally:
        path.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=200, help="how many mutants (200); 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", action="append", default=[], metavar="MODULE", help="below src/resume_dl; repeatable")
    parser.add_argument("--tests", action="append", default=[], metavar="PATH", help="instead of all; repeatable")
    parser.add_argument("--keep", type=Path, help="keep what the run with coverage tells in FILE, or use what is there")
    given = parser.parse_args()
    trees = [copied(PROJECT / ".cache" / "mutation" / str(number)) for number in range(given.jobs)]
    reached = known(trees[0], given)
    all_of = [(name, each) for name in modules(given.only) for each in mutants(_text(name))]
    chosen = random.Random(given.seed).sample(all_of, min(given.sample or len(all_of), len(all_of)))
    print(f"{len(chosen)} of {len(all_of)} mutants, seed {given.seed}", flush=True)
    killed = tried(trees, chosen, reached)
    share = killed / max(1, len(chosen))
    print(f"{killed} of {len(chosen)} killed: {share:.1%} (bound {BOUND:.0%})")
    return 0 if share >= BOUND else 1


def known(tree: Path, given: argparse.Namespace) -> Reached:
    if given.keep and given.keep.is_file():
        kept = json.loads(given.keep.read_text(encoding="utf-8"))
        lines = {name: {int(line): tests for line, tests in of.items()} for name, of in kept["tests"].items()}
        return Reached(lines, kept["seconds"])
    begun = time.monotonic()
    reached = measure(tree, given.jobs, given.tests or TESTS)
    print(f"{len(reached.seconds)} tests, {time.monotonic() - begun:.0f} s with coverage", flush=True)
    if given.keep:
        given.keep.write_text(json.dumps({"tests": reached.tests, "seconds": reached.seconds}), encoding="utf-8")
    return reached


def tried(trees: list[Path], chosen: list[tuple[str, Mutant]], reached: Reached) -> int:
    free = list(trees)

    def one(module: str, mutant: Mutant) -> bool:
        tree = free.pop()
        try:
            verdict = is_killed(tree, module, mutant, reached)
        finally:
            free.append(tree)
        if not verdict:
            reason = "no test reaches it" if verdict is None else "survived"
            old, new = (" ".join(text.split())[:70] for text in (mutant.old, mutant.new))
            print(f"{module}:{mutant.line}: {reason}: {old} -> {new}", flush=True)
        return bool(verdict)

    with ThreadPoolExecutor(len(trees)) as pool:
        return sum(pool.map(lambda each: one(*each), chosen))


def _text(module: str) -> str:
    return (PROJECT / "src" / "resume_dl" / module).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
