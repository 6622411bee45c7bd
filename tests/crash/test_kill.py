"""The main job, killed with SIGKILL at random moments and run again until it is done. nginx counts the bytes.

benchmarks/kill_waste.py is the long form: a hundred kills of one file.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from resume_dl.caches.conda.lookup import is_whole
from resume_dl.demo.channel import BuiltPackage
from resume_dl.store.part import FOLDER, PartStore
from support.channels import build_pytorch_channels
from support.fetching import User
from support.processes import Run

MIB = 1 << 20
LARGE = 100 * MIB
CONNECTIONS = 6
KILLS = 5
PATIENCE = 600.0
END_GAME = 4 * MIB
"""What a run that is not killed may fetch twice, at the end of a file."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and process groups")


def chosen_seed() -> int:
    """The same kills at every run; ``make test-long`` names others."""
    return int(os.environ.get("RESUME_DL_TEST_SEED") or 12)


@dataclass
class Job:
    """``fetch pytorch=1.7`` of one user, over and over."""

    user: User
    root: Path
    packages: list[BuiltPackage]
    seen: list[tuple[Path, dict[str, str]]] = field(default_factory=list)
    """Every extracted folder that was visible after a kill, and what was in it."""

    @property
    def total(self) -> int:
        return sum(package.size for package in self.packages)

    @property
    def on_disk(self) -> int:
        """About how many bytes are there; counts blocks, because part files have holes."""
        found = 0
        for folder in (self.user.pkgs / ".resume-dl", self.user.pkgs):
            with suppress(OSError):
                for entry in os.scandir(folder):
                    with suppress(OSError):
                        if entry.is_file() and not entry.name.endswith((".journal", ".lock")):
                            found += entry.stat().st_blocks * 512
        return found

    @property
    def kept(self) -> int:
        """The bytes that nobody should need to send again: what the journals say, and whole archives."""
        folder = self.user.pkgs / FOLDER
        whole = sum(
            package.size
            for package in self.packages
            if (self.user.pkgs / package.filename).exists() or any(folder.glob(f"*-{package.filename}"))
        )
        return whole + sum(each.done for each in PartStore(folder).unfinished())

    def start(self) -> Run:
        """A run in a process group of its own, so that its children can be killed with it."""
        options = [*self.user.options, "--connections", str(CONNECTIONS), "--json", "--progress", "none"]
        return Run(
            [sys.executable, "-m", "resume_dl", "fetch", *options, "pytorch=1.7"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.user.environment(),
            cwd=self.user.folder,
            start_new_session=True,
        )

    def check_what_is_visible(self) -> None:
        """Nothing that a client would take is anything but whole and right."""
        for package in self.packages:
            archive, folder = self.user.pkgs / package.filename, self.user.pkgs / package.spec.stem
            if archive.exists():
                assert digest(archive) == package.sha256, archive.name
            if folder.exists():
                self.seen.append((folder, contents(folder)))
        known = {package.filename for package in self.packages} | {package.spec.stem for package in self.packages}
        assert self.user.archives() <= known

    def check_the_end(self, report: dict[str, object]) -> None:
        """Every archive and folder is right, and whatever was visible earlier was as it is now."""
        assert report["ok"], report
        self.user.assert_complete(self.packages)
        for package in self.packages:
            assert digest(self.user.pkgs / package.filename) == package.sha256
            assert is_whole(self.user.pkgs / package.spec.stem)
        for folder, before in self.seen:
            now = contents(folder)
            now.pop("info/repodata_record.json")
            before.pop("info/repodata_record.json")
            assert before == now, folder.name
        left = [path.name for path in (self.user.pkgs / ".resume-dl").glob("*")]
        assert left == []


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if sys.version_info >= (3, 11) else slow_digest(path)


def slow_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): digest(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def wait_for_group(group: int) -> None:
    """Until every process of a group that was killed, or lost its leader, is gone."""
    deadline = time.monotonic() + 120
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.02)
        os.killpg(group, signal.SIGKILL)
        pytest.fail("a child outlived its parent by 120 s")


def wanted(channels: dict[str, object]) -> list[BuiltPackage]:
    return [p for channel in channels.values() for p in channel.packages if p.spec.version != "1.7.0"]


@pytest.fixture(scope="session")
def large_channels(tmp_path_factory):
    """Both channels with 100 MB in pytorch, which are stored as they are; built once."""
    root = tmp_path_factory.mktemp("large")
    return root, wanted(build_pytorch_channels(root, large=LARGE, medium=3 * MIB))


def make_job(tmp_path, nginx, root, packages):
    user = User(tmp_path / "user")
    user.mirrors(**{f"mirror{i}": nginx.base(i) for i in range(3)})
    return Job(user, root, packages)


@pytest.mark.slow
def test_a_run_killed_five_times_is_completed(large_channels, nginx_mirrors, tmp_path, record_property, capsys):
    """A kill costs at most 256 KiB a connection of what was read: bytes that servers sent and no journal has.

    Every other kill hits in the middle of the stream, where what lies in the kernel is lost too, and is not counted.
    """
    root, packages = large_channels
    assert {package.path.name.rpartition(".")[2] for package in packages} == {"conda", "bz2"}
    assert any("sha256" not in package.record for package in packages)
    assert max(package.size for package in packages) >= LARGE
    nginx = nginx_mirrors([root, root, root], rate=2 * MIB)
    job = make_job(tmp_path, nginx, root, packages)
    seed = chosen_seed()
    chance = random.Random(seed)
    points = sorted(chance.uniform(0.02, 0.97) for _ in range(KILLS))
    story = [f"seed {seed}"]
    sent = kept = 0
    wastes: list[int] = []
    for number, point in enumerate(points):
        started = time.monotonic()
        with job.start() as process:
            before, first = job.on_disk, None
            while job.on_disk < point * job.total:
                assert process.poll() is None, (seed, point, process.communicate())
                assert time.monotonic() - started < PATIENCE, (seed, point, job.on_disk)
                if first is None and job.on_disk > before:
                    first = time.monotonic() - started
                time.sleep(0.01)
            with nginx.paused() if number % 2 == 0 else nullcontext():
                if number % 3:
                    process.kill()  # its children must notice
                else:
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        wait_for_group(process.pid)
        job.check_what_is_visible()
        now, has = nginx.body_bytes(), job.kept
        wastes.append(now - sent - (has - kept))
        story.append(
            f"killed at {point:.2f}: sent {(now - sent) / MIB:.2f} MiB, wasted {wastes[-1] / 1024:.0f} KiB, "
            f"{time.monotonic() - started:.1f} s, first byte after {first if first is None else round(first, 2)} s"
        )
        sent, kept = now, has
    with job.start() as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (seed, out, err)
    report = json.loads(out)
    job.check_the_end(report)
    waste = nginx.body_bytes() - job.total
    story.append(f"wasted {waste / 1024:.0f} KiB in all, {(waste - sum(wastes)) / 1024:.0f} KiB of it by the last run")
    record_property("story", story)
    with capsys.disabled():
        print("\n  " + "\n  ".join(story))
    assert min(wastes) >= 0, story
    assert max(wastes[::2]) <= CONNECTIONS * MIB // 4, story
    totals = report["totals"]
    assert totals["wasted"] <= END_GAME, story
    assert totals["downloaded"] + totals["resumed"] + totals["cached"] == job.total
    assert len({request.mirror for request in nginx.archive_requests()}) == 3


def test_a_run_killed_during_unpacking_is_completed(nginx_mirrors, tmp_path):
    """Small files, so that most kills hit between download, unpacking and publishing: nothing half-made is visible."""
    root = tmp_path / "channels"
    packages = wanted(build_pytorch_channels(root, large=3 * MIB, medium=2 * MIB))
    nginx = nginx_mirrors([root, root, root])
    job = make_job(tmp_path, nginx, root, packages)
    seed = chosen_seed()
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(8):
        with job.start() as process:
            target = chance.randrange(len(packages))
            while process.poll() is None and len(job.user.archives()) <= 2 * target:
                time.sleep(0.001)
            time.sleep(chance.random() * 0.02)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        wait_for_group(process.pid)
        job.check_what_is_visible()
    published = [package for package in packages if package.filename in job.user.archives()]
    (job.user.pkgs / FOLDER).mkdir(0o700, exist_ok=True)
    (job.user.pkgs / FOLDER / f"sha256-{published[0].sha256}.lock").touch()  # killed before it had removed its lock
    with job.start() as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (seed, out, err)
    job.check_the_end(json.loads(out))
