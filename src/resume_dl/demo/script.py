"""The demo: ``fetch pytorch=1.7`` from three flaky mirrors, killed half way, run again, and checked.

Everything happens in a temporary folder and on loopback ports; the fetching runs are real child processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resume_dl.core.failures import FailureKind
from resume_dl.demo.channel import BuiltPackage, build_channel, hash_file, pytorch_like
from resume_dl.demo.servers import FlakyMirror, Flaws
from resume_dl.model.units import show_bytes
from resume_dl.progress.live import clear_cut_line

_MB = 1_000_000
_LARGE = 72 * _MB
_MEDIUM = 6 * _MB
_DAMAGE_EVERY = 64 * 1024
"""Bytes between damaged ones: so dense that every longer response is damaged."""
_DROP_AFTER = 5 * _MB
_PATIENCE = 600.0
"""Seconds for a run: a guard for the slowest machine; a run takes about 20."""
_WASTE_A_CONNECTION = _MB
"""Bytes that a kill may cost for each open connection, without damaged ones."""
_CONNECTIONS = 8
_DROPPED_VARIABLES = ("CONDA", "RESUME_DL_", "MAMBA", "PIP_", "UV_")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Stage:
    """The demo's set-up: packages, mirrors and folders."""

    folder: Path
    packages: tuple[BuiltPackage, ...]
    """The complete solution of ``pytorch=1.7``."""
    mirrors: tuple[FlakyMirror, ...]
    damaged: BuiltPackage
    """The archive of which the last mirror has a wrong copy.

    It is the largest, so it is requested first, and over more connections than two mirrors may have: every mirror
    serves parts of it, in each run.
    """

    @property
    def pkgs(self) -> Path:
        return self.folder / "pkgs"

    @property
    def total(self) -> int:
        """Bytes of all archives together."""
        return sum(package.size for package in self.packages)

    @property
    def corrupting(self) -> FlakyMirror:
        return self.mirrors[-1]

    @property
    def damaged_bytes(self) -> int:
        """Bytes of responses with wrong bytes."""
        return self.corrupting.counts.damaged.get(self.damaged.filename, 0)

    @property
    def dropped_bytes(self) -> int:
        """Bytes of responses that ended early."""
        return sum(mirror.counts.dropped_bytes for mirror in self.mirrors)

    @property
    def sent(self) -> int:
        """Archive body bytes that the mirrors have sent so far."""
        return sum(mirror.counts.body_bytes for mirror in self.mirrors)


@dataclass(frozen=True, slots=True)
class _Killed:
    """The mirrors' counts when the first run was killed, in bytes."""

    sent: int
    dropped: int


def run_demo(say: Say = print) -> int:
    """Run the demo and report each step to ``say``; returns 0 only if everything is as expected."""
    with (
        tempfile.TemporaryDirectory(prefix="resume-dl-demo-", ignore_cleanup_errors=True) as name,
        _stage(Path(name).resolve()) as stage,
    ):
        started = time.monotonic()
        problems = _play(stage, say)
        say("")
        say(f"{time.monotonic() - started:.1f} s in all; nothing outside {stage.folder} was changed.")
    for problem in problems:
        say(f"FAILED: {problem}")
    return 1 if problems else 0


@contextmanager
def _stage(folder: Path) -> Iterator[_Stage]:
    """Build the channels in ``folder`` and serve them."""
    root = folder / "channels"
    built = [
        package
        for name, specs in pytorch_like(large=_LARGE, medium=_MEDIUM).items()
        for package in build_channel(root / name, specs).packages
    ]
    wanted = tuple(package for package in built if package.spec.version != "1.7.0")
    damaged = max(wanted, key=lambda package: package.size)
    mirrors = (
        FlakyMirror("slow", root, Flaws(rate=_MB)),
        FlakyMirror("dropping", root, Flaws(rate=4 * _MB, drop_after=_DROP_AFTER)),
        FlakyMirror("corrupting", root, Flaws(rate=_MB, damage={damaged.filename: _DAMAGE_EVERY})),
    )
    (folder / "mirrors.toml").write_text(_mirrors_toml(mirrors), encoding="utf-8")
    for mirror in mirrors:
        mirror.start()
    try:
        yield _Stage(folder, wanted, mirrors, damaged)
    finally:
        for mirror in mirrors:
            mirror.stop()


def _mirrors_toml(mirrors: Sequence[FlakyMirror]) -> str:
    text = "schema = 1\n"
    for mirror in mirrors:
        text += f'\n[[mirror]]\nname = "{mirror.name}"\n[mirror.carries]\n'
        text += "".join(f'"conda:{channel}" = "{mirror.base}/{channel}"\n' for channel in ("pytorch", "pkgs/main"))
    return text


def _play(stage: _Stage, say: Say) -> list[str]:
    """Do both runs and the checks; returns the problems."""
    size = show_bytes(stage.total)
    say(f"pytorch=1.7 and what it needs: {len(stage.packages)} archives, {size}, from three mirrors:")
    say(f"  slow        sends {show_bytes(_MB)} a second on each connection")
    say(f"  dropping    ends each connection after {show_bytes(_DROP_AFTER)}")
    say(f"  corrupting  has a wrong copy of the largest archive (one byte in {_DAMAGE_EVERY:,})")
    say("")
    command = _command(stage)
    say("$ resume-dl " + " ".join(command[3:]))
    problem = _run_and_kill(stage, command)
    clear_cut_line(sys.stderr)  # below its bars
    if problem:
        return [problem]
    killed = _Killed(_settled(stage), stage.dropped_bytes)
    say("")
    say(f"killed (SIGKILL) when the mirrors had sent {show_bytes(killed.sent)}. The same command again:")
    say("")
    code, report = _run(stage, command)
    if code != 0 or report is None:
        return [f"the second run ended with exit code {code}"]
    _tell_mirrors(stage, report, say)
    return _check_files(stage, report) + _tell_costs(stage, report, killed, say)


def _command(stage: _Stage) -> list[str]:
    fetch = ["fetch", "pytorch=1.7", "--override-channels", "--channel", "pytorch", "--channel", "pkgs/main"]
    where = ["--platform", "linux-64", "--mirrors", str(stage.folder / "mirrors.toml"), "--no-upstream"]
    trusted = [word for mirror in stage.mirrors for word in ("--index-from", mirror.name)]
    how = ["--pkgs-dir", str(stage.pkgs), "--connections", str(_CONNECTIONS), "--json"]
    return [sys.executable, "-m", "resume_dl", *fetch, *where, *trusted, *how]


def _environment(folder: Path) -> dict[str, str]:
    """The child's environment: no settings of this user, every folder inside ``folder``, no way to other machines."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(_DROPPED_VARIABLES) and not name.upper().endswith("_PROXY")
    }
    own = {name: folder / name.lower() for name in ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    own |= {"XDG_STATE_HOME": folder / "xdg_state_home", "XDG_DATA_HOME": folder / "xdg_data_home"}
    own |= {"USERPROFILE": own["HOME"], "TMP": own["TMPDIR"], "TEMP": own["TMPDIR"]}
    own |= {f"RESUME_DL_{kind}_DIR": folder / kind.lower() for kind in ("CONFIG", "CACHE", "STATE")}
    for place in own.values():
        place.mkdir(exist_ok=True)
    condarc = own["HOME"] / ".condarc"
    condarc.touch()
    # Nothing listens there: requests beyond loopback in spite of --no-upstream fail.
    nowhere = {f"{scheme}_PROXY": "http://127.0.0.1:9" for scheme in ("HTTP", "HTTPS", "ALL")}
    loopback = {"NO_PROXY": "127.0.0.1", "CONDARC": str(condarc)}
    return kept | {name: str(place) for name, place in own.items()} | nowhere | loopback


def _run_and_kill(stage: _Stage, command: Sequence[str]) -> str:
    """Start the fetch and kill it half way, once wrong bytes have come too; returns the problem (or '')."""
    child = subprocess.Popen(command, env=_environment(stage.folder), stdout=subprocess.DEVNULL, cwd=stage.folder)
    deadline = time.monotonic() + _PATIENCE
    try:
        while stage.sent < stage.total // 2 or stage.damaged_bytes < _MB:
            if child.poll() is not None:
                return f"the first run ended with exit code {child.returncode} before it could be killed"
            if time.monotonic() > deadline:
                return f"the first run got only {show_bytes(stage.sent)} in {_PATIENCE:g} s"
            time.sleep(0.01)
    finally:
        child.kill()  # SIGKILL; TerminateProcess on Windows: no clean-up of any kind runs in the child
        child.wait()
    return ""


def _settled(stage: _Stage) -> int:
    """The bytes sent, once the mirrors have noticed that their client is gone."""
    sent = -1
    while sent != stage.sent:
        sent = stage.sent
        time.sleep(0.2)
    return sent


def _run(stage: _Stage, command: Sequence[str]) -> tuple[int, dict[str, Any] | None]:
    """Run the fetch to its end; returns its exit code and its report."""
    done = subprocess.run(
        command,
        env=_environment(stage.folder),
        stdout=subprocess.PIPE,
        cwd=stage.folder,
        timeout=_PATIENCE,
        check=False,
    )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return done.returncode, None
    return done.returncode, report if isinstance(report, dict) else None


def _check_files(stage: _Stage, report: Mapping[str, Any]) -> list[str]:
    """Check that every archive is in the package cache, verified and unpacked, and nothing is unfinished."""
    problems = []
    reported = {artifact["filename"] for artifact in report["artifacts"]}
    if reported != {package.filename for package in stage.packages}:
        problems.append(f"other archives than expected were fetched: {sorted(reported)}")
    for package in stage.packages:
        archive = stage.pkgs / package.filename
        if not archive.is_file():
            problems.append(f"{package.filename} is not in the package cache")
        elif hash_file(archive).sha256 != package.sha256:
            problems.append(f"{package.filename} has a wrong digest")
        if not (stage.pkgs / package.spec.stem / "info" / "repodata_record.json").is_file():
            problems.append(f"{package.filename} is not unpacked as conda requires")
    return problems


def _tell_mirrors(stage: _Stage, report: Mapping[str, Any], say: Say) -> None:
    """Print each mirror's own counts, and the bytes that the second run kept."""
    kept: Counter[str] = Counter()
    for artifact in report["artifacts"]:
        for source in artifact["sources"]:
            kept[source["mirror"]] += source["bytes"]
    say("")
    say(f"  {'mirror':<11} {'requests':>8} {'sent':>10} {'run 2 kept':>11}  what it did")
    for mirror in stage.mirrors:
        counts = mirror.counts
        did = [f"{counts.dropped} connections dropped"] if counts.dropped else []
        did += [f"{show_bytes(sum(counts.damaged.values()))} with wrong bytes"] if counts.damaged else []
        sizes = f"{show_bytes(counts.body_bytes):>10} {show_bytes(kept[mirror.name]):>11}"
        say(f"  {mirror.name:<11} {counts.requests:>8} {sizes}  {', '.join(did) or '-'}")


def _tell_costs(stage: _Stage, report: Mapping[str, Any], killed: _Killed, say: Say) -> list[str]:
    """Print the bytes saved and fetched twice; returns the problems."""
    totals = report["totals"]
    saved, again = totals["resumed"] + totals["cached"], stage.sent - stage.total
    say("")
    say(f"  saved by resume {show_bytes(saved):>10}  of the {show_bytes(killed.sent)} that came before the kill")
    say(f"  fetched again   {show_bytes(again):>10}  beyond the archives' {show_bytes(stage.total)}")
    say(f"  archives        {len(stage.packages):>10}  in the package cache, every digest compared")
    caught = _is_caught(stage, report)
    if caught:
        wrong = show_bytes(stage.damaged_bytes)
        say(f"  corrupting      {'caught':>10}  by the digest; its {wrong} came from the others")
    _tell_without(stage, totals["cached"], killed, say)
    problems = [] if caught else ["the corrupting mirror was not caught"]
    if saved <= 0:
        problems.append("the second run did not use the bytes of the first one")
    if saved + totals["downloaded"] != stage.total:
        problems.append(f"the report's sums are wrong: {totals}")
    if again > stage.damaged.size + _CONNECTIONS * _WASTE_A_CONNECTION:
        problems.append(f"{show_bytes(again)} were fetched again")
    return problems


def _is_caught(stage: _Stage, report: Mapping[str, Any]) -> bool:
    """Whether wrong bytes were sent, and the report names their sender and no other."""
    corrupt = {
        (artifact["filename"], source["mirror"])
        for artifact in report["artifacts"]
        for source in artifact["sources"]
        if FailureKind.LIED.value in source["failures"]
    }
    return stage.damaged_bytes > 0 and corrupt == {(stage.damaged.filename, stage.corrupting.name)}


def _tell_without(stage: _Stage, finished: int, killed: _Killed, say: Say) -> None:
    """Print the cost of this run's faults for a downloader that restarts an archive after each of them.

    A low estimate from the mirrors' counts: a dropped connection costs only its own bytes, not all of its archive so
    far; the wrong copy counts once. ``finished``: bytes of archives that were complete at the kill.
    """
    dropped = sum(mirror.counts.dropped for mirror in stage.mirrors)
    costs = {
        "of archives that were unfinished at the kill": max(0, killed.sent - killed.dropped - finished),
        f"of {dropped} connections, before they were dropped": stage.dropped_bytes,
        "of the archive with the wrong digest, once": stage.damaged.size,
    }
    say("")
    say("The same faults cost a downloader that restarts archives, at least:")
    for what, count in costs.items():
        say(f"  {show_bytes(count):>26}  {what}")
    say(f"  {show_bytes(sum(costs.values())):>26}  to fetch again in all, by the mirrors' own counts")
    say(f"(and dropping, which ends after {show_bytes(_DROP_AFTER)}, never gives it the large archive)")
