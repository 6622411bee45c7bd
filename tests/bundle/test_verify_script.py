"""verify.py as a file of its own, as a machine without resume-dl runs it, and the command over the same code."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from resume_dl.model.bundle import BundlePackage, Manifest
from resume_dl.offline_tools.verification.check import check
from support.fetching import User
from support.hand_bundle import NUMPY, PYTZ, TQDM, bundle_tar, hand_bundle, packages, paths_in, zipped
from support.pythons import OURS_AND_3_8

HOSTILE = "raise SystemExit('somebody else is running')\n"
SHADOWS = (
    "json.py",
    "__future__.py",
    "argparse.py",
    "hashlib.py",
    "typing.py",
    "pathlib.py",
    "zipfile.py",
    "bz2.py",
    "runpy.py",
    "zipimport.py",
    "pkgutil.py",
    "resume_dl.py",
)


def run(python: str, *words: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script; unless ``environment`` names an encoding it writes UTF-8, also where the system does not.

    The progress that a slow machine gets to see every 5 s is left out.
    """
    done = subprocess.run(
        [python, "-X", "utf8", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    done.stderr = re.sub(r"^verified [^\n]* of [^\n]* files\n", "", done.stderr, flags=re.MULTILINE)
    return done


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "Bündel 包"
    hand_bundle(folder)
    return folder


@pytest.mark.parametrize("python", OURS_AND_3_8, indirect=True)
@pytest.mark.parametrize("flags", [[], ["-I"]])
def test_it_runs_alone_from_anywhere(bundle: Path, tmp_path: Path, python: str, flags: list[str]) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for words, cwd in (([], elsewhere), ([bundle], elsewhere), (["."], bundle), ([], bundle)):
        done = run(python, *flags, bundle / "verify.py", *words, cwd=cwd)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("\n")
        assert "verified: 17 files" in done.stdout
        assert "only accidental damage is detected" in done.stdout
    assert check(bundle).problems == []  # it left nothing behind


@pytest.mark.parametrize("python", OURS_AND_3_8, indirect=True)
@pytest.mark.parametrize("flags", [[], ["-I"]])
@pytest.mark.parametrize("there", [True, False])
def test_nothing_beside_it_is_run(bundle: Path, tmp_path: Path, python: str, flags: list[str], there: bool) -> None:
    for name in SHADOWS:
        (bundle / name).write_text(HOSTILE, encoding="utf-8")
    script = bundle / "verify.py"
    cwd = bundle if there else tmp_path
    done = run(python, *flags, script.name if there else script, cwd=cwd)
    assert done.returncode == 4
    assert "somebody else" not in done.stdout + done.stderr
    assert "json.py: is not part of this bundle, and Python would read it" in done.stderr
    # by the way that Python itself imports, they would run: the test would notice
    assert run(python, "-c", "import sys; sys.path.insert(0, ''); import bz2", cwd=bundle).returncode == 1


def test_output_and_exit_codes(bundle: Path, tmp_path: Path) -> None:
    script = [sys.executable, bundle / "verify.py"]
    assert run(*script, tmp_path / "nobody", cwd=tmp_path).returncode == 2
    assert run(*script, "--manifest-sha256", "12", cwd=tmp_path).returncode == 2
    assert run(*script, "--signer", "me", cwd=tmp_path).returncode == 2
    assert run(*script, "--colour", cwd=tmp_path).returncode == 2
    part = tmp_path / "x.tar.001"
    part.touch()
    done = run(*script, part, cwd=tmp_path)
    assert (done.returncode, "join.py" in done.stderr) == (2, True)

    (bundle / NUMPY).write_bytes(b"")
    (bundle / TQDM).unlink()
    done = run(*script, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert f"error: {NUMPY}: is empty\n  copy it again" in done.stderr
    assert f"error: {TQDM}: is missing\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_tar_and_a_digest(bundle: Path, tmp_path: Path) -> None:
    tar = bundle_tar(bundle, tmp_path / "x.tar")
    digest = hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    done = run(sys.executable, bundle / "verify.py", tar, "--manifest-sha256", digest, cwd=tmp_path)
    assert done.returncode == 0
    assert "has the given digest" in done.stdout
    assert run(sys.executable, bundle / "verify.py", tar, "--manifest-sha256", "0" * 64, cwd=tmp_path).returncode == 4


def test_verify_py_alone_reads_a_tar_too(bundle: Path, tmp_path: Path) -> None:
    """A verify.py that somebody keeps is enough for folders and for tars."""
    tar = bundle_tar(bundle, tmp_path / "x.tar")
    alone = tmp_path / "kept" / "verify.py"
    alone.parent.mkdir()
    shutil.copyfile(bundle / "verify.py", alone)
    assert run(sys.executable, alone, bundle, cwd=tmp_path).returncode == 0
    assert run(sys.executable, alone, tar, cwd=tmp_path).returncode == 0
    assert paths_in(alone.parent) == ["verify.py"]


def test_a_console_that_cannot_show_a_name(bundle: Path, tmp_path: Path) -> None:
    (bundle / "包.txt").touch()
    for encoding in ("cp1252", "ascii"):
        done = run(sys.executable, bundle / "verify.py", cwd=tmp_path, PYTHONIOENCODING=encoding)
        assert (done.returncode, done.stderr) == (0, "")
        assert "warning: \\u5305.txt: is not part of this bundle" in done.stdout
    (bundle / "wheels" / "包\x1b[2J.whl").touch()
    for encoding in ("cp1252", "ascii"):
        done = run(sys.executable, bundle / "verify.py", cwd=tmp_path, PYTHONIOENCODING=encoding)
        assert done.returncode == 4
        assert "wheels/\\u5305\\x1b[2J.whl: is not part of this bundle" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_closed_output_does_not_change_the_result(bundle: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        for expected in (0, 4):
            done = subprocess.run([sys.executable, str(bundle / "verify.py")], stdout=full, stderr=full, check=False)
            assert done.returncode == expected
            (bundle / NUMPY).write_bytes(b"")


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path / "user")


def answer(user: User, *words: str | Path) -> tuple[int, dict[str, Any]]:
    done = user.run("bundle", "verify", *(str(word) for word in words), "--json")
    return done.code, done.report


def test_the_command_says_the_same(user: User, bundle: Path, tmp_path: Path) -> None:
    code, said = answer(user, bundle)
    assert (code, said["ok"], said["exit_code"], said["command"]) == (0, True, 0, "bundle verify")
    assert [(each["filename"], each["status"]) for each in said["artifacts"]] == [
        (path.rpartition("/")[2], "verified") for path in (NUMPY, PYTZ, TQDM)
    ]
    assert said["artifacts"][0]["path"] == str(bundle / NUMPY)
    assert said["totals"] == {"artifacts": 3, "bytes": sum(map(len, packages().values()))}
    assert (said["problems"], said["warnings"], said["trust"], said["error"]) == ([], [], "accidents", None)
    assert said["manifest_sha256"] == hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()

    (bundle / TQDM).write_bytes(b"")
    (bundle / "verify.py").write_bytes(b"exit()")
    tar = bundle_tar(bundle, tmp_path / "x.tar")  # there, what is not listed is a problem
    (bundle / ".DS_Store").touch()
    for path, left in ((bundle, [".DS_Store"]), (tar, [])):
        code, said = answer(user, path)
        assert (code, said["ok"], said["exit_code"], said["trust"]) == (4, False, 4, None)
        assert [each["status"] for each in said["artifacts"]] == ["verified", "verified", "failed"]
        assert said["artifacts"][2]["error"]["type"] == "IntegrityError"
        assert said["error"]["type"] == "IntegrityError"
        assert [(each["path"], each["what"]) for each in said["problems"]] == [
            ("verify.py", "truncated"),
            (TQDM, "truncated"),
        ]
        assert [each["path"] for each in said["warnings"]] == left

    done = user.run("bundle", "verify", str(bundle))
    assert (done.code, done.out) == (4, "")
    assert f"error: {TQDM}: is empty" in done.err


def test_wrong_usage_of_the_command(user: User, bundle: Path, tmp_path: Path) -> None:
    for words in ([tmp_path / "nobody"], [bundle, "--manifest-sha256", "1"], [bundle, "--signer", "me"]):
        code, said = answer(user, *words)
        assert (code, said["error"]["type"]) == (2, "ConfigurationError")


def test_fifty_thousand_packages_fit_into_memory(tmp_path: Path) -> None:
    """A delta of which the target has all but a few: the list is what costs memory, the files only time."""
    pytest.importorskip("resource", reason="nobody here says how much memory a process took")
    count = 50_000
    wheel = zipped(a=b"a")
    digest = hashlib.sha256(wheel).hexdigest()

    def more(manifest: Manifest) -> Manifest:
        listed = [
            BundlePackage(
                path=f"channel/linux-64/package-of-some-length-{number}-1.26.4-py310h5f9d8c6_0.conda",
                kind="conda",
                name=f"package-of-some-length-{number}",
                version="1.26.4",
                build="py310h5f9d8c6_0",
                subdir="linux-64",
                channel="conda-forge",
                license="BSD-3-Clause",
                url=f"https://packages.example/conda-forge/linux-64/package-of-some-length-{number}-1.26.4.conda",
                size=len(wheel),
                sha256=hashlib.sha256(str(number).encode()).hexdigest() if number else digest,
                md5=hashlib.md5(str(number).encode()).hexdigest(),
                requested_by=("environment.yml",),
                included=number == 0,
            )
            for number in range(count)
        ]
        (tmp_path / "bundle" / listed[0].path).write_bytes(wheel)
        return replace(manifest, packages=tuple(sorted((*manifest.packages, *listed), key=lambda each: each.path)))

    hand_bundle(tmp_path / "bundle", changed=more)
    assert (tmp_path / "bundle" / "manifest.json").stat().st_size > 20_000_000
    assert len(paths_in(tmp_path / "bundle")) == 20
    measured = (
        "import resource, runpy, sys; sys.argv = sys.argv[1:]\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "finally:\n"
        # its own on Linux; elsewhere with what forked it
        "    try: peak = open('/proc/self/status').read().split('VmHWM:')[1].split()[0]\n"
        "    except OSError: peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    print(peak, file=sys.stderr)"
    )
    script = tmp_path / "bundle" / "verify.py"
    done = run(sys.executable, "-I", "-c", measured, script, cwd=tmp_path)
    assert (done.returncode, "verified: 18 files" in done.stdout) == (0, True)
    # before it a slow machine says how far it is
    assert int(done.stderr.splitlines()[-1]) * (1 if sys.platform == "darwin" else 1024) < 400_000_000
