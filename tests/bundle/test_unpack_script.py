"""unpack.py as a machine without resume-dl runs it, and that nothing beside the scripts of a bundle is loaded."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bundle.test_verify_script import SHADOWS, run
from resume_dl.offline_tools.verification.check import check
from support.hand_bundle import TQDM, bundle_tar, hand_bundle, paths_in
from support.pythons import OURS_AND_3_8


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "made"
    hand_bundle(folder)
    return folder


@pytest.fixture
def tar(bundle: Path, tmp_path: Path) -> Path:
    return bundle_tar(bundle, tmp_path / "Bündel 包.tar")


@pytest.fixture
def scripts(bundle: Path, tmp_path: Path) -> Path:
    """A folder with unpack.py and verify.py alone, as somebody takes them to a tar."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    for name in ("unpack.py", "verify.py"):
        shutil.copyfile(bundle / name, folder / name)
    return folder


@pytest.mark.parametrize("python", OURS_AND_3_8, indirect=True)
@pytest.mark.parametrize("flags", [[], ["-I"]])
def test_it_verifies_and_unpacks(
    bundle: Path, tar: Path, scripts: Path, tmp_path: Path, *, python: str, flags: list[str]
) -> None:
    digest = hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    for words, folder in (([], tar.with_suffix("")), ([tmp_path / "there"], tmp_path / "there")):
        done = run(python, *flags, scripts / "unpack.py", tar, *words, "--manifest-sha256", digest, cwd=scripts)
        assert (done.returncode, done.stderr) == (0, "")
        assert "has the given digest" in done.stdout
        assert done.stdout.splitlines()[-1] == f"unpacked: {folder}"
        assert paths_in(folder) == paths_in(bundle)
        assert check(folder).problems == []
    assert paths_in(scripts) == ["unpack.py", "verify.py"]  # it left nothing behind


def test_output_and_exit_codes(bundle: Path, tar: Path, scripts: Path, tmp_path: Path) -> None:
    script = [sys.executable, scripts / "unpack.py"]
    part = tmp_path / "x.tar.001"
    part.touch()
    for words, said in (
        ([], "BUNDLE.tar"),
        ([tmp_path / "nobody"], "no such folder or tar"),
        ([bundle], "is a folder"),
        ([part], "join.py"),
        ([tar, "--signer", "me"], "--allowed-signers"),
    ):
        done = run(*script, *words, cwd=tmp_path)
        assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False), words
    done = run(*script, tar, "--manifest-sha256", "0" * 64, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert not tar.with_suffix("").exists()
    done = run(*script, tar, scripts, cwd=tmp_path)
    assert (done.returncode, "is not empty" in done.stderr) == (5, True)

    good = tar.read_bytes()
    tar.write_bytes(good.replace(b"tqdm tqdm", b"tqdm tQdm", 1))
    done = run(*script, tar, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert f"error: {TQDM}: " in done.stderr
    tar.write_bytes(good)
    assert run(*script, tar, cwd=tmp_path).returncode == 0, "the same command continues"

    (scripts / "verify.py").unlink()
    assert run(*script, tar, tmp_path / "alone", cwd=tmp_path).returncode == 0, "it needs nothing beside it"


@pytest.mark.parametrize("python", OURS_AND_3_8, indirect=True)
@pytest.mark.parametrize("script", ["unpack.py", "verify.py"])
@pytest.mark.parametrize("there", [True, False])
def test_nothing_beside_them_is_run(
    tar: Path, scripts: Path, tmp_path: Path, python: str, script: str, *, there: bool
) -> None:
    """No module that somebody added, and no bytecode in the name of the script that is loaded."""
    hostile = "raise SystemExit('somebody else is running')\n"
    loaded = scripts / {"unpack.py": "verify.py", "verify.py": "unpack.py"}[script]
    evil, own = tmp_path / "evil" / loaded.name, loaded.stat()
    evil.parent.mkdir()
    evil.write_bytes(hostile.ljust(own.st_size).encode())
    os.utime(evil, ns=(own.st_atime_ns, own.st_mtime_ns))
    subprocess.run([python, "-m", "compileall", "-q", str(evil)], check=True)
    shutil.copytree(evil.parent / "__pycache__", scripts / "__pycache__")
    # by the way that Python itself imports, it would run: the test would notice
    imported = f"import sys; sys.path.insert(0, {str(scripts)!r}); import {loaded.stem}"
    assert "somebody else" in run(python, "-c", imported, cwd=tmp_path).stderr
    for name in SHADOWS:
        (scripts / name).write_text(hostile, encoding="utf-8")
    done = run(python, script if there else scripts / script, tar, cwd=scripts if there else tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "somebody else" not in done.stdout


@pytest.mark.parametrize("script", ["unpack.py", "verify.py"])
def test_the_whole_file_is_compared_with_the_list(bundle: Path, tar: Path, tmp_path: Path, script: str) -> None:
    """In a bundle; beside a tar there is no list."""
    data = (bundle / script).read_bytes()
    (bundle / script).write_bytes(b"print('it ran')\n" + data)
    done = run(sys.executable, bundle / script, tar, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert f"error: {script} is not the file that SHA256SUMS lists" in done.stderr
    assert f"copy {script} and SHA256SUMS again" in done.stderr
    other = bundle / {"unpack.py": "verify.py", "verify.py": "unpack.py"}[script]
    (bundle / script).write_bytes(data)
    other.write_text("raise SystemExit('it ran')", encoding="utf-8")
    assert run(sys.executable, bundle / script, tar, cwd=tmp_path).returncode == 0, "the other is not loaded"
