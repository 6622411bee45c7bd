"""The scripts of a bundle, each as a file of its own: readers that go away, Pythons that are too old."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from resume_dl import offline_tools
from resume_dl.offline_tools.tool_names import NAMES, TOOLS
from support.hand_bundle import NUMPY, bundle_tar, hand_bundle
from support.offline_scripts import archive, scripts
from support.pythons import SUPPORTED


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
def test_a_closed_pipe_does_not_change_the_exit_code(bundle: Path, tmp_path: Path, stream: str) -> None:
    tar = bundle_tar(bundle, tmp_path / "x.tar")
    assert code_without_reader(scripts() / "verify.py", bundle, stream=stream) == 0
    assert code_without_reader(scripts() / "unpack.py", tar, tmp_path / "out", stream=stream) == 0
    assert code_without_reader(scripts() / "join.py", tmp_path, stream=stream) == 2
    (bundle / NUMPY).write_bytes(b"")
    assert code_without_reader(scripts() / "verify.py", bundle, stream=stream) == 4
    assert code_without_reader(scripts() / "install.py", bundle, "--dry-run", "-p", tmp_path / "e", stream=stream) == 4


def version_of(python: str) -> str:
    asked = [python, "-c", "import sys; sys.stdout.write(sys.version.split()[0])"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def old_pythons() -> list[str]:
    """Those before 3.8 that this machine has, pyenv's too."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [str(place) for form in ("2.*", "3.[0-7].*") for place in sorted(kept.glob(f"{form}/bin/python"))]
    return [place for place in places if version_of(place)]


@pytest.mark.parametrize("name", NAMES)
def test_a_python_that_is_too_old_is_reported(name: str) -> None:
    """In a line, and not by a traceback."""
    for python in old_pythons():
        done = subprocess.run([python, str(scripts() / name)], capture_output=True, text=True, timeout=60, check=False)
        said = f"Python 3.8 or newer is needed; this is {version_of(python)}\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_version_before_3_8_is_refused_before_anything_is_imported() -> None:
    """Where no such Python is at hand: this one, told to be one."""
    with zipfile.ZipFile(io.BytesIO(archive("verify.py"))) as members:
        source = members.read("__main__.py").decode("ascii")
    pretend = "import sys; sys.version_info = (3, 6, 15); sys.version = '3.6.15 (of a test)'; known = set(sys.modules)"
    start = f"exec(compile({source!r}, 'it', 'exec'))"
    end = "print(sorted(set(sys.modules) - known))"
    program = f"{pretend}\ntry:\n    {start}\nfinally:\n    {end}\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    said = "Python 3.8 or newer is needed; this is 3.6.15\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "[]\n", said)


# ------------------------------------------------------------------------------------------------------- the archive


@pytest.mark.parametrize("name", NAMES)
def test_its_source_can_be_read_in_any_editor(name: str) -> None:
    """Nothing is packed: who has to let it in reads it. Python 2 reads nothing but ASCII without being told to."""
    with zipfile.ZipFile(io.BytesIO(archive(name))) as members:
        assert members.testzip() is None
        assert {each.compress_type for each in members.infolist()} == {zipfile.ZIP_STORED}
        assert members.infolist()[0].filename == "__main__.py"
        assert members.read("__main__.py").isascii()
        for each in members.infolist():
            assert members.read(each) in archive(name)
    assert archive(name).startswith(b"# one of resume-dl's offline tools: a zip archive of Python source.")


SHARED = {"__init__.py", "byte_units.py", "file_names.py", "python_command.py", "shell_commands.py", "text_encoding.py"}
"""What the tools and the rest of the package both use."""


@pytest.mark.parametrize("python", SUPPORTED, indirect=True)
def test_it_is_the_same_bytes_by_whatever_python_made_it(python: str, tmp_path: Path) -> None:
    """Else two bundles of one request would differ; the order and the times of the files on disk are not in it."""
    source, copy = Path(offline_tools.__file__).parents[1], tmp_path / "resume_dl"
    for path in sorted(source.rglob("*.py"), reverse=True):
        inside = path.relative_to(source)
        if inside.parts[0] in {"offline_tools", "fs", *SHARED}:
            (copy / inside).parent.mkdir(parents=True, exist_ok=True)
            (copy / inside).write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    program = (
        "import hashlib, sys; sys.path.insert(0, sys.argv[1])\n"
        "from resume_dl.offline_tools.archive import write_archive\n"
        "print(*(hashlib.sha256(write_archive(tool)).hexdigest() for tool in sys.argv[2:]))"
    )
    done = subprocess.run(
        [python, "-I", "-c", program, str(tmp_path), *TOOLS], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == [hashlib.sha256(archive(name)).hexdigest() for name in NAMES]


def test_its_name_says_which_tool_it_is(tmp_path: Path) -> None:
    """As browsers and file managers number it; under another name the first word does."""
    for of, name, words, option in (
        ("verify.py", "verify (1).py", [], "--deep"),
        ("probe.py", "PROBE.PY", [], "--no-inventory"),
        ("install.py", "install-0.2.py", [], "--prefix"),
        ("unpack.py", "tools.pyz", ["unpack"], "BUNDLE.tar"),
    ):
        (tmp_path / name).write_bytes(archive(of))
        done = tool_run(tmp_path / name, *words, "--help")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"usage: {name} " in done.stdout
        assert option in done.stdout
    for words in ([], ["--help"], ["delete"], ["verify"]):
        done = tool_run(tmp_path / "tools.pyz", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "is not the name of a tool in it" in done.stderr
        assert "rename it to one of unpack.py" in done.stderr


def test_each_archive_has_only_its_own_modules(tmp_path: Path) -> None:
    """Together they are a part of the megabyte that a delta may have beside its packages."""
    assert sum(len(archive(name)) for name in NAMES) < 600_000
    for name, others in (
        ("probe.py", ("verify", "install")),
        ("verify.py", ("install", "probe")),
        ("join.py", TOOLS[:1]),
    ):
        with zipfile.ZipFile(io.BytesIO(archive(name))) as members:
            assert not {f"resume_dl/offline_tools/commands/{each}.py" for each in others} & {*members.namelist()}
    everything = (
        "import importlib, sys, zipfile; sys.path.insert(0, sys.argv[1]);"
        "[importlib.import_module(name[:-3].replace('/', '.').replace('.__init__', ''))"
        " for name in zipfile.ZipFile(sys.argv[1]).namelist() if name != '__main__.py']"
    )
    for name in NAMES:
        (tmp_path / name).write_bytes(archive(name))
        done = tool_run("-I", "-c", everything, tmp_path / name)
        assert (done.returncode, done.stderr) == (0, ""), name


def tool_run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_script_is_not_started(tmp_path: Path, name: str) -> None:
    """Wherever a letter has changed behind what looks at it; and whatever else SHA256SUMS lists."""
    digest = hashlib.sha256(archive(name)).hexdigest()
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  some.iso\n{digest}  {name}\n", encoding="ascii")
    script = tmp_path / name
    script.write_bytes(archive(name))
    assert tool_run(script, "--help").returncode == 0
    at = archive(name).index(b"def main(", archive(name).index(f"commands/{name}".encode()))
    for damaged in (archive(name)[:at] + b"D" + archive(name)[at + 1 :], b"print('it ran')\n" + archive(name)):
        script.write_bytes(damaged)
        done = tool_run(script, "--help")
        assert (done.returncode, done.stdout) == (4, "")
        assert f"error: {name} is not the file that SHA256SUMS lists; nothing was started" in done.stderr
        assert f"copy {name} and SHA256SUMS again" in done.stderr
    script.write_bytes(archive(name))
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  some.iso\n", encoding="ascii")
    assert tool_run(script, "--help").returncode == 0, "a list of other files says nothing of it"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_for_a_list_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "SHA256SUMS")
    (tmp_path / "verify.py").write_bytes(archive("verify.py"))
    assert tool_run(tmp_path / "verify.py", "--help").returncode == 0
