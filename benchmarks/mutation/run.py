"""How many small defects the tests find: a seeded sample of mutants of store/, transport/ and app/'s unpacking.

    python benchmarks/mutation/run.py [--sample 200] [--seed 1] [--jobs 2] [--only store/lock.py]
        [--at store/lock.py:40] [--tests tests/store] [--keep FILE] [--log FILE] [--trees FOLDER]

One run of the tests with coverage tells which tests reach which line. Each mutant is then tried with those tests
alone, in a copy of the tree, the quickest first, in a process forked from one that has collected the tests. It is
killed by the first test that fails with it and passes right after without it. A test that does not end counts only if
it takes a fifth of the time without the mutant. The sample holds of each module its share of all mutants. Prints the
survivors and the share killed; exit 1 below ``BOUND``. Takes about two seconds a mutant.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from measurement import PROJECT, Reached, copied, measure
from mutants import Mutant, mutants
from trial import Tree, Verdict

BOUND = 0.85
PLACES = ("store", "caches", "transport", "transfer/extraction.py", "transfer/unpacked_batch.py")
TESTS = (
    "tests/store",
    "tests/transport",
    "tests/contract",
    "tests/engine",
    "tests/hostile",
    "tests/crash",
    "tests/integration",
)


def modules(only: Sequence[str] = ()) -> list[str]:
    """Paths below src/resume_dl, with slashes."""
    root = PROJECT / "src" / "resume_dl"
    found = [
        path for place in PLACES for path in ([root / place] if place.endswith(".py") else (root / place).rglob("*.py"))
    ]
    names = sorted(path.relative_to(root).as_posix() for path in found if path.is_file())
    return [name for name in names if not only or name in only]


def sample(every: Sequence[tuple[str, Mutant]], number: int, seed: int) -> list[tuple[str, Mutant]]:
    """``number`` of them at random (0: all), of each module its share; in random order."""
    chance = random.Random(seed)
    shuffled = sorted(((module, chance.random(), mutant) for module, mutant in every), key=lambda each: each[:2])
    wanted = min(number or len(shuffled), len(shuffled))
    begin = chance.random()
    places = [int((place + begin) * len(shuffled) / wanted) for place in range(wanted)]
    chosen = [(shuffled[place][0], shuffled[place][2]) for place in places]
    chance.shuffle(chosen)
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=200, help="how many mutants (200); 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", action="append", default=[], metavar="MODULE", help="below src/resume_dl; repeatable")
    parser.add_argument("--at", action="append", default=[], metavar="MODULE:LINE", help="all mutants of these lines")
    parser.add_argument("--tests", action="append", default=[], metavar="PATH", help="instead of all; repeatable")
    parser.add_argument(
        "--keep", type=Path, help="keep what the run with coverage tells in FILE; if it is there, only --tests are run"
    )
    parser.add_argument(
        "--trees", type=Path, default=PROJECT / ".cache" / "mutation", help="where copies of the project are made"
    )
    parser.add_argument("--log", type=Path, help="append a line of JSON for each mutant to FILE")
    given = parser.parse_args()
    given.trees = given.trees.absolute()
    with alone(given.trees):
        return run(given)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Raises SystemExit where another run works in these trees."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"another run is at work in {folder}; --trees names another place") from None
        yield


def run(given: argparse.Namespace) -> int:
    reached = known(given)
    every = [(name, each) for name in modules(given.only) for each in mutants(_text(name))]
    chosen = sample(every, given.sample, given.seed)
    if given.at:
        chosen = [(name, each) for name, each in every if f"{name}:{each.line}" in given.at]
    print(f"{len(chosen)} of {len(every)} mutants, seed {given.seed}", flush=True)
    begun = time.monotonic()
    verdicts = tried([copied(given.trees / str(number)) for number in range(given.jobs)], chosen, reached, given.log)
    killed = [each for each in verdicts if each.by is not None]
    share = len(killed) / max(1, len(chosen))
    print(
        f"{sum(each.tests > 0 for each in verdicts)} of {len(chosen)} reached by a test; "
        f"{sum(each.hung for each in killed)} killed by a test that does not end; {time.monotonic() - begun:.0f} s"
    )
    print(f"{len(killed)} of {len(chosen)} killed: {share:.1%} (bound {BOUND:.0%})")
    return 0 if share >= BOUND else 1


def known(given: argparse.Namespace) -> Reached:
    reached = Reached({}, {})
    if given.keep and given.keep.is_file():
        reached = Reached.read(given.keep)
        if not given.tests:
            return reached
    begun = time.monotonic()
    newer = measure(copied(given.trees / "measured"), given.jobs, given.tests or TESTS)
    print(f"{len(newer.seconds)} tests, {time.monotonic() - begun:.0f} s with coverage", flush=True)
    reached = reached.joined(newer)
    if given.keep:
        reached.write(given.keep)
    return reached


def tried(
    roots: Sequence[Path], chosen: Sequence[tuple[str, Mutant]], reached: Reached, log: Path | None
) -> list[Verdict]:
    paths = sorted({test.split("::")[0] for test in reached.seconds})
    with ThreadPoolExecutor(len(roots)) as pool:
        free = list(pool.map(lambda root: Tree(root, paths), roots))

        def one(module: str, mutant: Mutant) -> Verdict:
            tree = free.pop()
            begun = time.monotonic()
            try:
                verdict = tree.verdict(module, mutant, reached)
            finally:
                free.append(tree)
            _tell(module, mutant, verdict, time.monotonic() - begun, log)
            return verdict

        verdicts = list(pool.map(lambda each: one(*each), chosen))
    for tree in free:
        tree.close()
    return verdicts


def _tell(module: str, mutant: Mutant, verdict: Verdict, seconds: float, log: Path | None) -> None:
    old, new = (" ".join(text.split())[:70] for text in (mutant.old, mutant.new))
    if verdict.by is None:
        reason = f"survived {verdict.tests} tests" if verdict.tests else "no test reaches it"
        unsteady = f" (unsteady: {', '.join(verdict.unsteady)})" if verdict.unsteady else ""
        print(f"{module}:{mutant.line}: {reason}: {old} -> {new}{unsteady}", flush=True)
    if log:
        with log.open("a", encoding="utf-8") as file:
            told = {"module": module, "line": mutant.line, "old": old, "new": new, "tests": verdict.tests}
            told |= {"by": verdict.by, "hung": verdict.hung, "unsteady": verdict.unsteady, "seconds": round(seconds, 2)}
            print(json.dumps(told), file=file)


def _text(module: str) -> str:
    return (PROJECT / "src" / "resume_dl" / module).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
