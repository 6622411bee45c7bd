"""The scripts of a bundle, each as a file of its own: readers that go away, Pythons that are too old."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from resume_dl.standalone import install, join, probe, unpack, verify
from support.hand_bundle import NUMPY, bundle_tar, hand_bundle

MODULES = (install, join, probe, unpack, verify)
SCRIPTS = {str(module.__name__).rpartition(".")[2]: Path(str(module.__file__)) for module in MODULES}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "made"
    hand_bundle(folder)
    return folder


# --------------------------------------------------------------------------------------------- readers that go away


def code_without_reader(*words: str | Path, stream: str, python: str = sys.executable) -> int:
    """The exit code of a script whose stdout, stderr or both nobody reads; with buffers, whatever the shell says."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    read, write = os.pipe()
    os.close(read)
    streams = {
        "stdout": {"stdout": write, "stderr": subprocess.DEVNULL},
        "stderr": {"stdout": subprocess.DEVNULL, "stderr": write},
        "both": {"stdout": write, "stderr": write},
    }[stream]
    try:
        return subprocess.run([python, *map(str, words)], **streams, env=env, timeout=60, check=False).returncode
    finally:
        os.close(write)


@pytest.mark.parametrize("stream", ["stdout", "stderr", "both"])
def test_a_reader_that_has_gone_away_changes_no_exit_code(bundle: Path, tmp_path: Path, stream: str) -> None:
    tar = bundle_tar(bundle, tmp_path / "x.tar")
    assert code_without_reader(SCRIPTS["verify"], bundle, stream=stream) == 0
    assert code_without_reader(SCRIPTS["unpack"], tar, tmp_path / "out", stream=stream) == 0
    assert code_without_reader(SCRIPTS["join"], tmp_path, stream=stream) == 2
    (bundle / NUMPY).write_bytes(b"")
    assert code_without_reader(SCRIPTS["verify"], bundle, stream=stream) == 4
    assert code_without_reader(SCRIPTS["install"], bundle, "--dry-run", "-p", tmp_path / "e", stream=stream) == 4


def version_of(python: str) -> str:
    asked = [python, "-c", "import sys; sys.stdout.write(sys.version.split()[0])"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def old_pythons() -> list[str]:
    """Those before 3.8 that this machine has, pyenv's too."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [str(place) for form in ("2.*", "3.[0-7].*") for place in sorted(kept.glob(f"{form}/bin/python"))]
    return [place for place in places if version_of(place)]


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_python_that_is_too_old_is_told(name: str) -> None:
    """3.6 and 3.7 in a line; one that has no annotations ends with a SyntaxError, and shows the line that says it."""
    for python in old_pythons():
        version = version_of(python)
        done = subprocess.run([python, str(SCRIPTS[name])], capture_output=True, text=True, timeout=60, check=False)
        if version.startswith("2."):
            assert done.returncode == 1
            assert 'needed: str = "Python 3.8 or newer is needed"' in done.stderr.splitlines()[1]
        else:
            said = f"Python 3.8 or newer is needed; this is {version}\n"
            assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_version_before_3_8_is_refused_before_anything_is_imported(name: str) -> None:
    """Where no such Python is at hand: this one, told to be one."""
    pretend = "import sys; sys.version_info = (3, 6, 15); sys.version = '3.6.15 (of a test)'; known = set(sys.modules)"
    start = f"exec(compile(open({str(SCRIPTS[name])!r}, encoding='utf-8').read(), 'it', 'exec'))"
    end = "print(sorted(set(sys.modules) - known))"
    program = f"{pretend}\ntry:\n    {start}\nfinally:\n    {end}\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    said = "Python 3.8 or newer is needed; this is 3.6.15\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "[]\n", said)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_the_scripts_are_ascii(name: str) -> None:
    """Python 2 reads nothing else without being told to, and stops before it has shown a word."""
    assert SCRIPTS[name].read_bytes().isascii()


# ----------------------------------------------------------------------------------------------------- many warnings
