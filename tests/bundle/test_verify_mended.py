"""Trust options that are empty, readers that go away, Pythons that are too old, manifests that lie of a platform."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from resume_dl.model.bundle import Manifest
from resume_dl.standalone import install, join, probe, unpack, verify
from support.fetching import User
from support.hand_bundle import NUMPY, TQDM, bundle_tar, hand_bundle

MODULES = (install, join, probe, unpack, verify)
SCRIPTS = {str(module.__name__).rpartition(".")[2]: Path(str(module.__file__)) for module in MODULES}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "made"
    hand_bundle(folder)
    return folder


# ----------------------------------------------------------------------------------------------------------- trust


@pytest.mark.parametrize("value", ["", " "])
@pytest.mark.parametrize("option", ["--manifest-sha256", "--signer", "--allowed-signers"])
def test_an_empty_value_is_wrong_usage(bundle: Path, tmp_path: Path, option: str, value: str) -> None:
    """As of a variable that is not set: without the option this bundle would pass."""
    tar = bundle_tar(bundle, tmp_path / "x.tar")
    commands: list[list[str | Path]] = [
        [SCRIPTS["verify"], bundle],
        [SCRIPTS["unpack"], tar, tmp_path / "out"],
        [SCRIPTS["install"], bundle, "--dry-run", "-p", tmp_path / "env"],
    ]
    for command in commands:
        done = subprocess.run(
            [sys.executable, *map(str, command), option, value], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert f"argument {option}: is empty" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--manifest-sha256", "--signer", "--allowed-signers"])
def test_an_empty_value_is_wrong_usage_of_the_commands_too(bundle: Path, tmp_path: Path, option: str) -> None:
    user = User(tmp_path / "user")
    for words in (["verify"], ["install", "--dry-run", "-p", str(tmp_path / "env")]):
        done = user.run("bundle", words[0], str(bundle), *words[1:], option, "")
        assert (done.code, done.out) == (2, "")
        assert "it is empty" in done.err


def test_for_a_caller_none_is_not_given(bundle: Path, tmp_path: Path) -> None:
    tar = bundle_tar(bundle, tmp_path / "x.tar")
    for report in (
        verify.check(bundle, manifest_sha256=None, signer=None),
        unpack.check_any(tar, manifest_sha256=None, allowed_signers=None, signer=None),
    ):
        assert (report.problems, report.trust) == ([], "accidents")


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


# ------------------------------------------------------------------------------------------------ Pythons of before


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


# ---------------------------------------------------------------------------------- what a manifest says of a platform


def with_platform(folder: Path, **changes: object) -> verify.Report:
    """The verification of a sealed bundle whose manifest says this of its platform."""

    def changed(manifest: Manifest) -> Manifest:
        return replace(manifest, platforms=(replace(manifest.platforms[0], **changes),))  # type: ignore[arg-type]

    hand_bundle(folder, changed=changed)
    return verify.check(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"python": "3.10; rm -rf ~"}, "python is no version"),
        ({"python": "3"}, "python is no version"),
        ({"python": "3.10\n"}, "python is no version"),
        ({"python": "\N{ARABIC-INDIC DIGIT THREE}.10"}, "python is no version"),
        ({"python": "3." + "1" * 5000}, "python is no version"),
        ({"virtual_packages": ("__glibc=2.17", "glibc=2.17")}, "virtual_packages is none"),
        ({"virtual_packages": ("__glibc",)}, "virtual_packages is none"),
        ({"virtual_packages": ("__glibc=2.17\x1b[2J",)}, "virtual_packages is none"),
        ({"virtual_packages": ("__glibc=2.17=0=0",)}, "virtual_packages is none"),
        ({"virtual_packages": ("__glibc=" + "9" * 5000,)}, "virtual_packages is none"),
        ({"virtual_packages": ("__" + "g" * 5000 + "=1",)}, "virtual_packages is none"),
        ({"conda": (NUMPY, NUMPY)}, "conda names a package twice"),
        ({"pip": (TQDM, TQDM)}, "pip names a package twice"),
        ({"explicit": "explicit/win-64.txt"}, "explicit names no file"),
        ({"explicit": NUMPY}, "explicit names no file"),
        ({"requirements": "../requirements.txt"}, "requirements names no file"),
    ],
)
def test_a_platform_that_lies_is_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    """Although the bundle is sealed as it is: every digest in it fits."""
    report = with_platform(tmp_path / "evil", **changes)
    assert [(problem.path, problem.what) for problem in report.problems] == [("manifest.json", "unsafe")]
    assert said in report.problems[0].text
    assert (report.manifest, report.exit_code) == (None, 4)
    assert "\x1b" not in "".join(verify.lines(report))


@pytest.mark.parametrize("python", ["", "3.10", "3.10.4", "3.15.0rc1", "3.15.0.a2"])
def test_what_platforms_say_otherwise(tmp_path: Path, python: str) -> None:
    virtual = ("__archspec=1=x86_64_v3", "__cuda=12.2=0", "__glibc=2.17", "__unix=0=0", "__win=10.0.22631=0")
    report = with_platform(tmp_path / "fine", python=python, virtual_packages=virtual)
    assert report.problems == []


# ----------------------------------------------------------------------------------------------------- many warnings


@pytest.mark.parametrize("count", [20, 21, 1500])
def test_of_many_warnings_the_first_are_told(bundle: Path, count: int) -> None:
    """Of each kind; the report has them all."""
    for number in range(count):
        (bundle / f"{number:04}.txt").touch()
    (bundle / ".DS_Store").touch()
    report = verify.check(bundle)
    assert (len(report.warnings), report.exit_code) == (count + 1, 0)
    told = [line for line in verify.lines(report) if line.startswith("warning: ")]
    foreign = "is no part of this bundle; nothing of it will be used"
    assert told[:21] == [
        "warning: .DS_Store: was left by a file manager or file system; nothing of it will be used",
        *(f"warning: {number:04}.txt: {foreign}" for number in range(20)),
    ]
    assert told[21:] == ([f"warning: and {count - 20:,} more, of each: {foreign}"] if count > 20 else [])
