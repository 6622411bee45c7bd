"""Measured processes, medians, bounds: what every benchmark does around what it measures."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
MB = 1_000_000
MIB = 1 << 20
ROUNDS = 5


@dataclass(frozen=True)
class Run:
    """One process that has ended. Times in seconds, ``rss`` in bytes; ``cpu`` with the children it waited for."""

    wall: float
    cpu: float
    rss: int
    code: int
    out: str
    err: str
    started: float
    """When it was started, as ``time.monotonic()`` says it."""

    def events(self) -> list[dict[str, Any]]:
        """stderr of ``--progress json``."""
        return [json.loads(line) for line in self.err.splitlines() if line.startswith("{")]


@dataclass
class Machine:
    """A folder for everything, and an environment in which nothing of the user's is read."""

    folder: Path
    number: int = 0

    def environment(self) -> dict[str, str]:
        """No proxies, no settings; PYTHONPATH goes through, so that another version can be measured."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH", "TMPDIR") if name in os.environ}
        own = {f"RESUME_DL_{name}_DIR": str(self.folder / name.lower()) for name in ("CONFIG", "CACHE", "STATE")}
        return {**kept, **own, "HOME": str(self.folder / "home"), "RESUME_DL_CONDA": "none", "PYTHONUTF8": "1"}

    def place(self) -> Path:
        """A new empty folder for one run."""
        self.number += 1
        path = self.folder / f"run-{self.number}"
        path.mkdir()
        return path

    def mirrors(self, bases: Mapping[str, str], origin: str) -> Path:
        """A mirrors.toml in which each of ``bases`` carries the one ``origin``, which nobody needs to reach."""
        text = f'schema = 1\n[origins]\n"conda:bench" = "{origin}"\n'
        for name, base in bases.items():
            text += f'\n[[mirror]]\nname = "{name}"\n[mirror.carries]\n"conda:bench" = "{base}"\n'
        path = self.folder / "mirrors.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def start(self, command: Sequence[str | Path], cwd: Path) -> Started:
        """Start a process in a group of its own; its output goes to files."""
        out, err = cwd / ".stdout", cwd / ".stderr"
        with out.open("wb") as to_out, err.open("wb") as to_err:
            started = time.monotonic()
            process = subprocess.Popen(
                [str(each) for each in command],
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=to_err,
                cwd=cwd,
                env=self.environment(),
                start_new_session=True,
            )
        return Started(process, started, out, err)

    def run(self, command: Sequence[str | Path], cwd: Path, *, patience: float = 600.0) -> Run:
        """Run a process to its end. Raises SystemExit with its output if it failed or took ``patience`` seconds."""
        started = self.start(command, cwd)
        with _alarm(patience, started.process):
            run = started.wait()
        if run.code != 0:
            raise SystemExit(
                f"{' '.join(map(str, command))}\nended with {run.code} after {run.wall:.1f} s\n{run.err}{run.out}"
            )
        return run


@dataclass
class Started:
    """A process at work."""

    process: subprocess.Popen[bytes]
    started: float
    out: Path
    err: Path

    def wait(self) -> Run:
        """Wait for its end; the kernel's own accounting says what it used."""
        _, status, used = os.wait4(self.process.pid, 0)
        wall = time.monotonic() - self.started
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return Run(
            wall,
            used.ru_utime + used.ru_stime,
            used.ru_maxrss * 1024,
            self.process.returncode,
            self.out.read_text(encoding="utf-8", errors="replace"),
            self.err.read_text(encoding="utf-8", errors="replace"),
            self.started,
        )

    def running(self, seconds: float = 0.0) -> bool:
        """Whether it still runs, after waiting so long; what it used can still be asked for."""
        time.sleep(seconds)
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None

    def kill(self) -> None:
        """SIGKILL to it and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _alarm(seconds: float, process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill the process when it takes too long: a hang is a result, too."""

    def late(_signum: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def resume_dl(*arguments: str | Path) -> list[str]:
    """The command line of ours."""
    return [sys.executable, "-m", "resume_dl", *map(str, arguments)]


def get(urls: Sequence[str], sha256: str, *options: str) -> list[str]:
    """``resume-dl get`` of one file from several places into ``file.bin``; ends with the JSON object."""
    mirrors = [word for url in urls[1:] for word in ("--mirror-url", url)]
    return resume_dl(
        "get", urls[0], *mirrors, "--sha256", sha256, "-o", "file.bin", "--json", "--progress", "none", *options
    )


def make_file(path: Path, size: int, *, seed: int = 1, magic: bytes = b"") -> str:
    """Write ``size`` random bytes that begin with ``magic``; returns their sha256."""
    chance, digest = random.Random(seed), hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for start in range(0, size, MIB):
            block = chance.randbytes(min(MIB, size - start))
            if start == 0:
                block = magic + block[len(magic) :]
            file.write(block)
            digest.update(block)
    return digest.hexdigest()


def make_zeros(path: Path, size: int) -> str:
    """Write ``size`` zeros that take no room on the disk; returns their sha256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return sha256_of(path)


def sha256_of(path: Path) -> str:
    """The sha256 of a file as it lies on disk."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(MIB):
            digest.update(block)
    return digest.hexdigest()


def remove(folder: Path) -> None:
    """Remove a run's folder."""
    shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Bounds:
    """Prints each figure beside its bound and remembers what was above."""

    broken: list[str] = field(default_factory=list)

    def check(self, what: str, value: float, bound: float, unit: str = "") -> None:
        """Print ``value``; above ``bound`` the benchmark fails."""
        above = not value <= bound
        if above:
            self.broken.append(what)
        print(f"  {'ABOVE' if above else 'ok   '} {what}: {value:.3f}{unit} (bound {bound:g}{unit})", flush=True)

    def require(self, what: str, *, holds: bool) -> None:
        """The same for what is true or not."""
        if not holds:
            self.broken.append(what)
        print(f"  {'ok   ' if holds else 'WRONG'} {what}", flush=True)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median and extremes as text."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def interleaved(rounds: int, ways: Mapping[str, Callable[[], Run]]) -> dict[str, list[Run]]:
    """Every way once a round, so that whatever else the machine does falls on all of them."""
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            runs[name].append(way())
    return runs


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)


@contextlib.contextmanager
def machine() -> Iterator[Machine]:
    """A machine whose folder goes with it; RESUME_DL_BENCH_DIR names where (the default is the system's place)."""
    with tempfile.TemporaryDirectory(prefix="resume-dl-bench-", dir=os.environ.get("RESUME_DL_BENCH_DIR")) as name:
        folder = Path(name)
        (folder / "home").mkdir()
        yield Machine(folder)


def arguments(doc: str | None, *, rounds: int = ROUNDS) -> argparse.ArgumentParser:
    """A parser with ``--rounds``."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=rounds, help=f"medians of so many (default {rounds})")
    return parser


def say_where(title: str) -> None:
    """One line on what is measured and on what machine."""
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{title}\n  {time.strftime('%Y-%m-%d')}, {system}", flush=True)


def conclude(bounds: Bounds) -> int:
    """The exit code."""
    if bounds.broken:
        print(f"  above its bound: {'; '.join(bounds.broken)}")
    return int(bool(bounds.broken))
