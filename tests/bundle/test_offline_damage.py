"""Damage to a real bundle, one file at a time: each case is named, with what to do, before conda or pip is started.

What ``verify`` finds is proved in process for every file of the bundle: install.py refuses by that report alone, and a
handful of cases are run as real processes, with programs on PATH that note that they were started.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, final

import pytest

from resume_dl.offline_tools.verification.bundle_source import Expected
from resume_dl.offline_tools.verification.check import check
from resume_dl.offline_tools.verification.findings import Report
from resume_dl.offline_tools.verification.judge import Judge
from support.bundles import files_of
from support.offline import NEEDS, Offline, offline, programs

__all__ = ["offline"]
pytestmark = NEEDS
CUDATOOLKIT = "channel/linux-64/cudatoolkit-11.0.221-0.conda"
LIBUV = "channel/linux-64/libuv-1.40.0-0.conda", "channel/win-64/libuv-1.40.0-0.conda"
"""Of one size."""
WHEEL = "wheels/demo_app-1.0-py3-none-any.whl"
TIES = {"manifest.json", "SHA256SUMS"}
"""Each is checked by the other: who looks at two files that contradict each other may name either."""


@pytest.fixture(scope="module")
def bundle(offline: Offline, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that tests damage and mend again."""
    return offline.copy(tmp_path_factory.mktemp("damaged") / "the bundle")


@pytest.fixture(autouse=True)
def whole(bundle: Path, offline: Offline):
    """After each test the bundle is as it was, or the next one proves nothing."""
    yield
    assert files_of(bundle) == files_of(offline.folder)


@final
class Harm:
    """Changes files, and puts them back at the end of the block."""

    def __init__(self, bundle: Path) -> None:
        self.bundle = bundle
        self._before: dict[str, bytes | None] = {}
        self.changed: Callable[[str], object] = lambda _: None
        """Told each path that is written, also when it is put back."""

    def __enter__(self) -> Harm:
        return self

    def __exit__(self, *error: object) -> None:
        for path, data in self._before.items():
            self.changed(path)
            if data is None:
                (self.bundle / path).unlink()
            else:
                (self.bundle / path).write_bytes(data)

    def write(self, path: str, change: Callable[[bytes], bytes | None]) -> None:
        """Write what ``change`` makes of the bytes; None removes the file."""
        place = self.bundle / path
        before = place.read_bytes() if place.exists() else None
        self._before.setdefault(path, before)
        after = change(before or b"")
        self.changed(path)
        if after is None:
            place.unlink()
        else:
            place.write_bytes(after)

    def flip(self, path: str, where: float = 0.5) -> None:
        self.write(path, lambda data: flipped(data, int(len(data) * where)))

    def truncate(self, path: str) -> None:
        self.write(path, lambda data: data[: len(data) // 2])

    def remove(self, path: str) -> None:
        self.write(path, lambda _: None)

    def add(self, path: str, data: bytes = b"added") -> None:
        assert not (self.bundle / path).exists()
        self.write(path, lambda _: data)

    def swap(self, one: str, other: str) -> None:
        first, second = ((self.bundle / path).read_bytes() for path in (one, other))
        self.write(one, lambda _: second)
        self.write(other, lambda _: first)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.fixture
def harm(bundle: Path):
    with Harm(bundle) as harm:
        yield harm


def every_file(offline: Offline) -> list[str]:
    return sorted(files_of(offline.folder))


class Machine:
    """A target whose conda, mamba, micromamba and pip are recorders: they note that they were started, and fail."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "started.txt"
        note = ["sh", "-c", f'echo "$0 $*" >> "{self.log}"; exit 9']
        names = ("conda", "mamba", "micromamba", "pip", "uv")
        path = programs(folder / "bin", **{name: [*note, name] for name in names})
        conda = folder / "bin" / "conda"
        mamba = folder / "bin" / "mamba"
        self.env = {"PATH": path, "CONDA_EXE": str(conda), "MAMBA_EXE": str(mamba), "HOME": str(folder)}
        self.folder = folder

    def install(self, bundle: Path, *more: str) -> subprocess.CompletedProcess[str]:
        """``python install.py`` in the bundle's folder."""
        prefix = self.folder / "env"
        done = subprocess.run(
            [sys.executable, "install.py", "-p", str(prefix), *more], cwd=bundle, env=self.env, check=False,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert not prefix.exists()
        return done

    @property
    def started(self) -> str:
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_recorders_are_seen_where_nothing_is_wrong(machine: Machine, bundle: Path) -> None:
    """Else nobody knew that they would be."""
    done = machine.install(bundle)
    assert done.returncode == 5, done.stderr
    assert "conda info" in machine.started


def named(report: Report) -> set[str]:
    return {problem.path for problem in report.problems}


@pytest.fixture
def harmed_alone(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Harm]:
    """``with harmed_alone() as harm``: a check hashes and opens only what was written since it was last found right.

    The others have the same bytes and are held against the same line of the manifest as before.
    """
    right: dict[str, object] = {}
    real = Judge.is_right

    def is_right(judge: Judge, each: Expected, file: BinaryIO, size: int) -> bool:
        if right.get(each.path) == each:
            judge.passed(each, size)
            return False  # which says here that there is nothing more to look at
        if found := real(judge, each, file, size):
            right[each.path] = each
        return found

    monkeypatch.setattr(Judge, "is_right", is_right)

    def make() -> Harm:
        harm = Harm(bundle)
        harm.changed = lambda path: right.pop(path, None)
        return harm

    return make


def test_one_flipped_byte_in_each_file_in_turn(
    bundle: Path, offline: Offline, harmed_alone: Callable[[], Harm]
) -> None:
    """At the beginning, in the middle and at the end; the file is named, and from where to take it again."""
    seen = 0
    assert check(bundle).exit_code == 0
    for path in every_file(offline):
        large = (bundle / path).stat().st_size > 5_000_000
        for where in (0.5,) if large else (0, 0.5, 0.999999):
            with harmed_alone() as harm:
                harm.flip(path, where)
                report = check(bundle)
            assert report.exit_code == 4, path
            assert named(report) & TIES if path in TIES else named(report) == {path}, (path, named(report))
            assert all("copy" in problem.hint and "again" in problem.hint for problem in report.problems), path
            seen += 1
    assert seen > 100


@pytest.mark.parametrize("change", ["truncate", "remove"])
def test_each_file_cut_or_gone(bundle: Path, offline: Offline, harmed_alone: Callable[[], Harm], change: str) -> None:
    for path in every_file(offline):
        with harmed_alone() as harm:
            getattr(harm, change)(path)
            report = check(bundle)
        assert report.exit_code == 4, path
        assert path in named(report), (path, named(report))
        assert path in TIES or {problem.what for problem in report.problems} == {
            "truncated" if change == "truncate" else "missing"
        }


def test_a_hint_says_where_a_package_comes_from(harm: Harm, bundle: Path) -> None:
    harm.flip(CUDATOOLKIT)
    (problem,) = check(bundle).problems
    assert problem.what == "damaged"
    url = "https://repo.anaconda.com/pkgs/main/linux-64/cudatoolkit-11.0.221-0.conda"
    assert f"resume-dl get {url} --sha256" in problem.hint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        LIBUV,
        ("channel/linux-64/mkl-2020.2-0.conda", "wheels/tqdm-4.66.0-py3-none-any.whl"),
        ("channel/linux-64/repodata.json", "channel/noarch/repodata.json"),
        ("explicit/linux-64.txt", "explicit/win-64.txt"),
        ("simple/fast/index.html", "simple/tqdm/index.html"),
        ("manifest.json", "SHA256SUMS"),
    ],
)
def test_two_swapped(harm: Harm, bundle: Path, one: str, other: str) -> None:
    harm.swap(one, other)
    report = check(bundle)
    assert report.exit_code == 4
    assert named(report) >= ({one, other} if one not in TIES else TIES)
    if one not in TIES:
        assert {problem.what for problem in report.problems} == {"swapped"}


CASES = {
    "an archive of more than one block": lambda harm: harm.flip(CUDATOOLKIT, 0.99),
    "a wheel, cut": lambda harm: harm.truncate(WHEEL),
    "the manifest": lambda harm: harm.flip("manifest.json", 0.7),
    "SHA256SUMS": lambda harm: harm.flip("SHA256SUMS", 0.3),
    "another of the scripts": lambda harm: harm.flip("probe.py"),
    "two swapped": lambda harm: harm.swap(*LIBUV),
    "one gone": lambda harm: harm.remove("requirements/linux-64.txt"),
    "another archive in the channel": lambda harm: harm.add("channel/linux-64/evil-1.0-0.conda"),
    "a newer index in the channel": lambda harm: harm.add("channel/linux-64/current_repodata.json", b"{}"),
    "another wheel": lambda harm: harm.add("wheels/demo_app-2.0-py3-none-any.whl"),
    "another page": lambda harm: harm.add("simple/demo-app/index.json", b"{}"),
    "a module beside the scripts": lambda harm: harm.add("json.py", b"raise SystemExit('it ran')"),
    "settings of pip": lambda harm: harm.add("pip.conf", b"[global]\nindex-url = http://evil.example\n"),
}


@pytest.mark.skipif(os.name == "nt", reason="the recorders are scripts for sh")
@pytest.mark.parametrize("case", CASES)
def test_install_py_refuses_before_anything_is_started(machine: Machine, harm: Harm, bundle: Path, case: str) -> None:
    CASES[case](harm)
    damaged = {*harm._before}
    done = machine.install(bundle)
    assert done.returncode == 4, done.stderr
    assert any(path in done.stderr for path in (TIES if damaged & TIES else damaged)), done.stderr
    assert "copy" in done.stderr
    assert "again" in done.stderr
    assert "nothing was installed" in done.stderr
    assert "Traceback" not in done.stderr
    assert machine.started == ""


@pytest.mark.parametrize("script", ["probe.py", "verify.py", "unpack.py"])
def test_no_other_script_is_run_where_it_is_damaged(machine: Machine, harm: Harm, bundle: Path, script: str) -> None:
    """install.py has all that it needs in it; another script is a file like all others, and is named."""
    for where in (0.1, 0.5, 0.9):
        harm.flip(script, where)
    harm.write(script, lambda data: b"print('it ran')\n" + data)
    done = machine.install(bundle)
    assert (done.returncode, done.stdout) == (4, "")
    assert f"error: {script}: " in done.stderr
    assert "nothing was installed" in done.stderr
    harm.remove(script)
    gone = machine.install(bundle)
    assert gone.returncode == 4
    assert script in gone.stderr
    assert machine.started == ""


@pytest.mark.parametrize("where", [0.1, 0.5, 0.9, "before"])
def test_a_damaged_install_py_does_not_run(machine: Machine, harm: Harm, bundle: Path, where: float | str) -> None:
    """It runs before anything is verified: a flipped letter may be a crash, and an added line anything."""
    if isinstance(where, float):
        harm.flip("install.py", where)
    else:
        harm.write("install.py", lambda data: b"print('it ran')\n" + data)
    done = machine.install(bundle)
    assert (done.returncode, done.stdout) == (4, "")
    assert "error: install.py is not the file that SHA256SUMS lists" in done.stderr
    assert "copy install.py and SHA256SUMS again" in done.stderr
    assert machine.started == ""


@pytest.mark.parametrize("path", [".DS_Store", "channel/.DS_Store", "wheels/Thumbs.db", "notes of mine.md"])
def test_added_files_that_no_client_reads_cause_a_warning(
    harm: Harm, bundle: Path, machine: Machine, path: str
) -> None:
    harm.add(path)
    report = check(bundle)
    assert (report.exit_code, [warning.path for warning in report.warnings]) == (0, [path])
    done = machine.install(bundle)
    assert done.returncode == 5, "only the recorder failed"
    assert f"warning: {path}" in done.stderr
    assert "conda info" in machine.started


@pytest.mark.parametrize("script", ["install.py", "verify.py", "unpack.py", "probe.py"])
@pytest.mark.parametrize("change", ["flip", "replace"])
def test_the_scripts_own_damage_is_found_by_others(harm: Harm, bundle: Path, script: str, change: str) -> None:
    """No script vouches for itself: `bundle verify` and `sha256sum -c` do."""
    if change == "flip":
        harm.flip(script)
    else:
        harm.write(script, lambda _: b"print('all is well')\n")
    done = subprocess.run(
        [sys.executable, "-m", "resume_dl", "bundle", "verify", str(bundle)], capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 4
    assert f"{script}: " in done.stderr
    if shutil.which("sha256sum") is None:
        pytest.skip("there is no sha256sum here")
    sums = subprocess.run(
        ["sha256sum", "-c", "SHA256SUMS"], cwd=bundle, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    assert sums.returncode == 1
    assert f"{script}: FAILED" in sums.stdout


def test_mended_it_installs(machine: Machine, bundle: Path) -> None:
    """What the hint says is all that has to be done."""
    with Harm(bundle) as harm:
        harm.flip(WHEEL)
        assert machine.install(bundle).returncode == 4
        assert machine.started == ""
    assert machine.install(bundle).returncode == 5
    assert machine.started
