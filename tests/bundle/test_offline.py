"""A bundle made on a machine with a network, used on one without: by install.py, plain conda, plain pip, sha256sum.

The servers that it came from are stopped and the network is cut; each run finds out that it is. The plain commands are
those that the bundle's own README.txt prints.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from resume_dl.resolve.uv_program import find_uv
from support.bundles import sums_hold
from support.installable import PYTHON, SITE, Target, content, venv_with_pip
from support.offline import MIB, NEEDS, Command, Cut, Offline, commands_of, offline, programs

__all__ = ["offline"]
pytestmark = NEEDS
SHELL_FUNCTION = """\
conda() {
    if [ "$1" = activate ]; then eval "$(command conda shell.posix activate "$2")"; else command conda "$@"; fi
}
"""
"""What `conda init` puts into a shell, in short."""
READS_LOCK_FILES = [26, 1]
IMPORTS = "import demo_app, fast, torch, numpy, typing_extensions; print(demo_app.VERSION, torch.BUILD)"


@pytest.fixture
def target(test_conda) -> Target:
    return Target(test_conda)


@pytest.fixture
def bundle(offline: Offline, tmp_path: Path) -> Path:
    return offline.copy(tmp_path / "the bundle")


class Shell:
    """A shell on the target: conda, python and uv are on PATH, the current folder is the bundle."""

    def __init__(self, target: Target, cut: Cut, bundle: Path) -> None:
        self.target, self.cut, self.bundle = target, cut, bundle
        own = {"conda": [target.program], "python": [sys.executable], "uv": [find_uv()]}
        self.path = programs(target.conda.folder / "bin", **own)

    def type(self, *lines: str, name: str = "lab") -> subprocess.CompletedProcess[str]:
        """Lines of README.txt, one after another until one fails; NAME is filled in."""
        script = SHELL_FUNCTION + " &&\n".join(line.replace("NAME", name) for line in lines) + "\n"
        # an activated environment's python comes before this machine's, which pip's settings may lead elsewhere
        env = {"PATH": self.path, "PIP_CONFIG_FILE": "/dev/null", "PIP_USER": "0"}
        return self.cut.run(self.target, "bash", "-c", script, cwd=self.bundle, env=env)


@pytest.fixture
def cut(offline: Offline):
    with Cut(offline.port) as cut:
        yield cut


@pytest.fixture
def shell(target: Target, cut: Cut, bundle: Path) -> Shell:
    return Shell(target, cut, bundle)


@pytest.fixture
def readme(offline: Offline) -> list[Command]:
    return commands_of((offline.folder / "README.txt").read_text(encoding="utf-8"))


def lines(readme: list[Command], title: str, *where: str) -> list[str]:
    """What README.txt says under a title for this system."""
    return [each.line for each in readme if each.title == title and each.where in {"", *where}]


def check_environment(offline: Offline, prefix: Path, target: Target, cut: Cut, *, by: str = "") -> None:
    """Python runs, modules are there, and every file that the archives describe has the bytes that they say."""
    records = {path.stem: json.loads(path.read_text("utf-8")) for path in (prefix / "conda-meta").glob("*.json")}
    paths = offline.listed("linux-64", "conda")
    stems = {Path(path).name.removesuffix(".conda").removesuffix(".tar.bz2"): path for path in paths}
    assert {*records} == {*stems}, by
    packages = offline.world.packages
    for stem, path in stems.items():
        spec = packages[path].spec
        assert records[stem]["md5"] == packages[path].md5
        for name, data in spec.files.items():
            place = prefix / name.replace("site-packages/", f"{SITE}/") if spec.noarch == "python" else prefix / name
            assert place.read_bytes() == data, f"{by}: {place}"
        if spec.payload_size:
            listed = records[stem]["paths_data"]["paths"]
            payload = next(each for each in listed if each["_path"].endswith("payload.bin"))
            place = prefix / payload["_path"]
            assert place.stat().st_size == spec.payload_size
            assert hashlib.sha256(place.read_bytes()).hexdigest() == payload["sha256"]
    check_imports(prefix, target, cut)


def check_imports(prefix: Path, target: Target, cut: Cut, code: str = IMPORTS) -> None:
    """What is imported comes from there."""
    where = "; import sys; print(sys.prefix); print(demo_app.__file__)"
    done = cut.run(target, prefix / "bin" / "python", "-I", "-c", code + where, cwd=prefix)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == ("1.0 py_cuda11.0" if code == IMPORTS else "1.0")
    assert said[1:] == [str(prefix), str(prefix / SITE / "demo_app" / "__init__.py")]


def test_what_was_made(offline: Offline) -> None:
    """Both platforms, both kinds, a CUDA that this machine does not have, and large enough for four parts of 2 MiB."""
    assert "channel/linux-64/pytorch-1.7.1-py_cuda11.0.conda" in offline.listed("linux-64", "conda")
    assert "channel/win-64/pytorch-1.7.1-py_cpu.conda" in offline.listed("win-64", "conda")
    assert {Path(path).name.partition("-")[0] for path in offline.listed("win-64", "pip")} == {
        "colorama", "demo_app", "fast", "tqdm",
    }  # fmt: skip
    assert sum(path.stat().st_size for path in offline.folder.rglob("*")) > 6 * MIB
    assert sums_hold(offline.folder)


def test_the_cut_is_noticed(target: Target, offline: Offline, cut: Cut) -> None:
    """A run that reached somebody would fail: one outside of the cut does."""
    cut._namespace = []
    if cut._listener is None:
        pytest.skip("this system allows no network namespace")
    done = cut.run(target, "true", cwd=offline.folder)
    assert "the network is not cut" in done.stderr


@pytest.mark.parametrize("place", ["-n", "-p"])
def test_install_py(target: Target, cut: Cut, offline: Offline, bundle: Path, place: str) -> None:
    folder = target.conda.folder
    # newer condas refuse a new environment whose own name has a blank
    prefix = folder / "envs" / "lab" if place == "-n" else folder / "my envs" / "lab"
    digest = offline.manifest_sha256
    chosen = [place, "lab" if place == "-n" else prefix, "--manifest-sha256", digest]
    done = cut.run(target, sys.executable, "install.py", *chosen, cwd=bundle)
    assert done.returncode == 0, done.stderr
    assert "the manifest has the given digest" in done.stderr
    assert "the bundle was made for __cuda 11.0 or newer; no NVIDIA driver was found here" in done.stderr
    assert f"ready: {prefix}" in done.stdout
    check_environment(offline, prefix, target, cut)
    assert not (prefix / SITE / "colorama").exists()
    record = json.loads(next(prefix.glob("conda-meta/numpy-*.json")).read_text("utf-8"))
    assert record["url"] == "https://repo.anaconda.com/pkgs/main/linux-64/numpy-1.19.2-0.tar.bz2"
    assert sums_hold(bundle)


def test_the_command_of_resume_dl(target: Target, cut: Cut, offline: Offline, bundle: Path) -> None:
    """`bundle install` is the same."""
    words = ["-m", "resume_dl", "bundle", "install", bundle, "-n", "lab"]
    done = cut.run(target, sys.executable, *words, cwd=target.conda.folder)
    assert done.returncode == 0, done.stderr
    check_environment(offline, target.conda.folder / "envs" / "lab", target, cut)


def test_readme_install_and_check(shell: Shell, readme: list[Command], offline: Offline) -> None:
    checks = [line.replace("DIGEST", offline.manifest_sha256) for line in lines(readme, "Check it", "Linux")]
    assert [line.split()[0] for line in checks] == ["grep", "python", "sha256sum", "python"]
    done = shell.type(*checks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("install.py: OK\nprobe.py: OK\nunpack.py: OK\nverify.py: OK\n")
    assert "manifest.json: OK" in done.stdout
    assert "trust: only accidental damage is detected" in done.stdout
    assert "trust: the manifest has the given digest" in done.stdout
    install, into_folder = lines(readme, "Install it")
    assert into_folder == "python install.py -p FOLDER"
    done = shell.type(install)
    assert done.returncode == 0, done.stderr
    check_environment(offline, shell.target.conda.folder / "envs" / "lab", shell.target, shell.cut)


def test_readme_plain_conda_by_the_lists(shell: Shell, readme: list[Command], offline: Offline) -> None:
    """What was solved, without another solve: no CUDA is needed for it. pip goes on in the activated environment."""
    words = [each.line for each in readme if each.title == "By plain conda" and each.where == "linux-64"]
    assert [line.split()[:2] for line in words] == [["conda", "create"], ["conda", "activate"], ["python", "-m"]]
    done = shell.type(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    check_environment(offline, shell.target.conda.folder / "envs" / "lab", shell.target, shell.cut)


def test_readme_the_list_for_windows(shell: Shell, readme: list[Command], offline: Offline) -> None:
    """The conda part, by a conda that takes itself for one on Windows; nothing of it runs here."""
    words = [each.line for each in readme if each.title == "By plain conda" and each.where == "win-64"]
    done = shell.type("export CONDA_SUBDIR=win-64", words[0])
    assert done.returncode == 0, done.stdout + done.stderr
    prefix = shell.target.conda.folder / "envs" / "lab"
    installed = {json.loads(path.read_text("utf-8"))["fn"] for path in (prefix / "conda-meta").glob("*.json")}
    assert installed == {Path(path).name for path in offline.listed("win-64", "conda")}


def test_readme_plain_conda_that_solves(shell: Shell, readme: list[Command], offline: Offline) -> None:
    """By environment.yml, pip's part with it, and by the channel; the CUDA that is to come is told as it says."""
    (cuda,) = [line for line in lines(readme, "By plain conda", "Linux") if line.startswith("export")]
    env_create, create = lines(readme, "By plain conda")
    assert env_create == "conda env create --offline -n NAME --file environment.yml"
    refused = shell.type(env_create, name="none")
    assert refused.returncode != 0
    done = shell.type(cuda, env_create, name="whole")
    assert done.returncode == 0, done.stdout + done.stderr
    envs = shell.target.conda.folder / "envs"
    assert not (envs / "none" / "conda-meta").exists()
    check_environment(offline, envs / "whole", shell.target, shell.cut)

    assert create.endswith("-c ./channel PACKAGE ...")
    done = shell.type(cuda, create.replace("PACKAGE ...", "pytorch ninja"), name="conda-only")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in (envs / "conda-only" / "conda-meta").glob("*.json")} == {
        path.name for path in (envs / "whole" / "conda-meta").glob("*.json")
    }
    assert content(envs / "conda-only").items() < content(envs / "whole").items()


def test_environment_yml_under_its_own_name(shell: Shell, offline: Offline) -> None:
    """Without -n, as its first line says."""
    head = (shell.bundle / "environment.yml").read_text("utf-8").splitlines()
    line = next(each.partition(": ")[2] for each in head if each.startswith("# ") and "conda env create" in each)
    done = shell.type("export CONDA_OVERRIDE_CUDA=11.0", line)
    assert done.returncode == 0, done.stdout + done.stderr
    check_environment(offline, shell.target.conda.folder / "envs" / "bundle", shell.target, shell.cut)


def test_readme_plain_pip(shell: Shell, readme: list[Command], tmp_path: Path) -> None:
    """Into a venv of this Python, for which the wheels are: by pip's list, by uv and by pip from the lock file."""
    said = lines(readme, "By plain pip", "Linux, macOS", "linux-64")
    make, activate, listed, by_uv, by_lock = said
    assert make == "python -m venv FOLDER"
    done = shell.type(make.replace("FOLDER", "../venv0"))
    assert done.returncode == 0, done.stderr
    version = shell.type(activate.replace("FOLDER", "../venv0"), "python -m pip --version").stdout.split()[1]
    reads_lock_files = [int(part) for part in version.split(".")[:2]] >= READS_LOCK_FILES
    for number, line in enumerate([listed, by_uv, *([by_lock] if reads_lock_files else [])]):
        place = tmp_path / f"venv{number}"
        if number:
            venv_with_pip(place)
        done = shell.type(activate.replace("FOLDER", f"../{place.name}"), line)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        check_imports(place, shell.target, shell.cut, "import demo_app, fast, tqdm; print(demo_app.VERSION)")
    assert sums_hold(shell.bundle)


def test_every_command_of_the_readme_is_typed_somewhere(readme: list[Command]) -> None:
    """A new one wants a test: here, in test_lab, or on another system."""
    here = {"Check it", "Install it", "By plain conda", "By plain pip"}
    elsewhere = {"Offline bundle": "cd", "What is in it": "no commands", "For many machines": "test_lab"}
    assert {each.title for each in readme} == here | {*elsewhere}
    ours = [each for each in readme if each.title in here and each.where in {"", "Linux", "Linux, macOS", "linux-64"}]
    assert len(ours) == 4 + 2 + 6 + 5, ours


def test_the_wheels_are_for_this_python(offline: Offline) -> None:
    """Else the tests of pip would prove nothing."""
    fast = f"fast-2.0-cp{PYTHON.replace('.', '')}"
    assert [path for path in offline.listed("linux-64", "pip") if fast in path]
    assert shutil.which("sha256sum")
