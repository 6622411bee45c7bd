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

from resume_dl.demo.channel import BuiltPackage, build_channel, hash_file, pytorch_like
from resume_dl.demo.servers import FlakyMirror, Flaws

_MIB = 1024 * 1024
_LARGE = 72 * _MIB
_MEDIUM = 6 * _MIB
_DAMAGE = (2 * _MIB, 2 * _MIB + 64 * 1024)
_PATIENCE = 120.0
"""Seconds after which a run that does not end is a failure of the demo."""
_WASTE_A_CONNECTION = _MIB
"""What a kill may cost for each open connection, damaged bytes aside."""
_CONNECTIONS = 8
_DROPPED_VARIABLES = ("CONDA", "RESUME_DL_", "MAMBA", "PIP_", "UV_")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Stage:
    """The demo's world: what is offered, by whom, and where it shall go."""

    folder: Path
    packages: tuple[BuiltPackage, ...]
    """What ``pytorch=1.7`` needs, whole."""
    mirrors: tuple[FlakyMirror, ...]

    @property
    def pkgs(self) -> Path:
        return self.folder / "pkgs"

    @property
    def total(self) -> int:
        """Bytes of all archives together."""
        return sum(package.size for package in self.packages)

    @property
    def sent(self) -> int:
        """Archive body bytes that the mirrors have sent so far."""
        return sum(mirror.counts.body_bytes for mirror in self.mirrors)


def run_demo(say: Say = print) -> int:
    """Run the demo and tell its story line by line to ``say``; returns 0 only if everything was as it should be."""
    with (
        tempfile.TemporaryDirectory(prefix="resume-dl-demo-", ignore_cleanup_errors=True) as name,
        _stage(Path(name).resolve()) as stage,
    ):
        started = time.monotonic()
        problems = _play(stage, say)
        say("")
        say(f"{time.monotonic() - started:.1f} s in all; nothing outside {stage.folder} was touched.")
    for problem in problems:
        say(f"NOT AS IT SHOULD BE: {problem}")
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
    damage = {package.filename: _DAMAGE for package in wanted if package.spec.payload_size == _MEDIUM}
    mirrors = (
        FlakyMirror("slow", root, Flaws(rate=_MIB)),
        FlakyMirror("dropping", root, Flaws(rate=4 * _MIB, drop_after=5 * _MIB)),
        FlakyMirror("corrupting", root, Flaws(rate=4 * _MIB, damage=damage)),
    )
    (folder / "mirrors.toml").write_text(_mirrors_toml(mirrors), encoding="utf-8")
    for mirror in mirrors:
        mirror.start()
    try:
        yield _Stage(folder, wanted, mirrors)
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
    """Both runs and the checks; returns what was not as it should be."""
    say(f"pytorch=1.7 and what it needs: {len(stage.packages)} archives, {_mib(stage.total)}, from three mirrors:")
    say(f"  slow        sends {_mib(_MIB)} a second on each connection")
    say(f"  dropping    ends each connection after {_mib(5 * _MIB)}")
    damaged = ", ".join(sorted(stage.mirrors[2].flaws.damage))
    say(f"  corrupting  sends one range of 64 KiB wrong, in each of {damaged}")
    say("")
    command = _command(stage)
    say("$ resume-dl " + " ".join(command[3:]))
    before_kill, problem = _run_and_kill(stage, command)
    if problem:
        return [problem]
    say(f"killed (SIGKILL) when the mirrors had sent {_mib(before_kill)}. The same command again:")
    say("")
    code, report = _run(stage, command)
    if code != 0 or report is None:
        return [f"the second run ended with exit code {code}"]
    _tell_mirrors(stage, report, say)
    return _check_files(stage, report) + _tell_costs(stage, report, before_kill, say)


def _command(stage: _Stage) -> list[str]:
    fetch = ["fetch", "pytorch=1.7", "--override-channels", "--channel", "pytorch", "--channel", "pkgs/main"]
    where = ["--platform", "linux-64", "--mirrors", str(stage.folder / "mirrors.toml"), "--no-upstream"]
    how = ["--pkgs-dir", str(stage.pkgs), "--connections", str(_CONNECTIONS), "--json"]
    return [sys.executable, "-m", "resume_dl", *fetch, *where, *how]


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
    # Nothing listens there: what would go beyond loopback in spite of --no-upstream fails instead.
    nowhere = {f"{scheme}_PROXY": "http://127.0.0.1:9" for scheme in ("HTTP", "HTTPS", "ALL")}
    loopback = {"NO_PROXY": "127.0.0.1", "CONDARC": str(condarc)}
    return kept | {name: str(place) for name, place in own.items()} | nowhere | loopback


def _run_and_kill(stage: _Stage, command: Sequence[str]) -> tuple[int, str]:
    """Start the fetch and kill it half way; returns the bytes sent by then, and what went wrong (or '')."""
    child = subprocess.Popen(command, env=_environment(stage.folder), stdout=subprocess.DEVNULL, cwd=stage.folder)
    deadline = time.monotonic() + _PATIENCE
    try:
        while stage.sent < stage.total // 2:
            if child.poll() is not None:
                return stage.sent, f"the first run ended with exit code {child.returncode} before it could be killed"
            if time.monotonic() > deadline:
                return stage.sent, f"the first run got only {_mib(stage.sent)} in {_PATIENCE:g} s"
            time.sleep(0.01)
    finally:
        child.kill()  # SIGKILL; TerminateProcess on Windows: no clean-up of any kind runs in the child
        child.wait()
    return _settled(stage), ""


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
    """Every archive lies in the package cache with the right digest, unpacked, and nothing is left unfinished."""
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
            problems.append(f"{package.filename} is not unpacked as conda needs it")
    return problems


def _tell_mirrors(stage: _Stage, report: Mapping[str, Any], say: Say) -> None:
    """Print what each mirror did, as it counted itself, and what the second run kept of it."""
    kept: Counter[str] = Counter()
    for artifact in report["artifacts"]:
        for source in artifact["sources"]:
            kept[source["mirror"]] += source["bytes"]
    say("")
    say(f"  {'mirror':<11} {'requests':>8} {'sent':>10} {'run 2 kept':>11}  what it did")
    for mirror in stage.mirrors:
        counts = mirror.counts
        wrong = sum(counts.damaged.values())
        did = [f"{counts.dropped} connections dropped"] if counts.dropped else []
        did += [f"{wrong} answers with wrong bytes"] if wrong else []
        sizes = f"{_mib(counts.body_bytes):>10} {_mib(kept[mirror.name]):>11}"
        say(f"  {mirror.name:<11} {counts.requests:>8} {sizes}  {', '.join(did) or '-'}")


def _tell_costs(stage: _Stage, report: Mapping[str, Any], before_kill: int, say: Say) -> list[str]:
    """Print what was saved and wasted; returns what was not as it should be."""
    totals = report["totals"]
    saved = totals["resumed"] + totals["cached"]
    wasted = stage.sent - stage.total
    say("")
    say(f"  saved by resume   {_mib(saved):>10}  of the {_mib(before_kill)} that were sent before the kill")
    say(f"  wasted            {_mib(wasted):>10}  sent beyond the archives' {_mib(stage.total)}")
    say(f"  archives          {len(stage.packages):>10}  in the package cache, every digest compared")
    damaged = sum(
        package.size * mirror.counts.damaged.get(package.filename, 0)
        for mirror in stage.mirrors
        for package in stage.packages
    )
    problems = []
    if saved <= 0:
        problems.append("the second run did not use what the first one had left")
    if saved + totals["downloaded"] != stage.total:
        problems.append(f"the report's sums are wrong: {totals}")
    if wasted > damaged + _CONNECTIONS * _WASTE_A_CONNECTION:
        problems.append(f"{_mib(wasted)} were wasted")
    return problems


def _mib(count: int) -> str:
    return f"{count / _MIB:.1f} MiB"
