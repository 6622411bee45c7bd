"""The tutorial, typed: its commands in their order, in an empty home, by a shell, a real conda, nginx as the mirrors.

What is typed is read from the page. Only the machine around it is the test's: ``machine`` lists all of it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from resume_dl.demo.channel import PackageSpec, build_channel, pytorch_like
from support.installable import PYTHON, is_linux, pip_package, python_package
from support.installed_wheels import lay_wheels
from support.processes import Run

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
CHECKOUT = ("src", "pyproject.toml", "README.md", "LICENSE", "mirrors.toml")
LARGE = 4_000_000
"""Bytes of the archive of pytorch."""
SLOW = 250_000
"""Bytes a second of each connection until the first fetch has been interrupted."""
FETCH = "resume-dl fetch -c pytorch pytorch=1.7 --cuda 11.0"
_HOOK = """\
if [ "$*" = "shell.posix hook" ]; then
    echo 'conda() {{ shift; eval "$({conda} shell.posix activate "$@")"; }}'
    exit
fi
"""
"""The function by which ``conda run`` activates: the bundled conda lacks ``conda.sh``, which has it."""
GUARD = 600
"""Seconds after which a command is taken for hung."""
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = [
    pytest.mark.conda,
    pytest.mark.nginx,
    pytest.mark.slow,
    pytest.mark.skipif(not is_linux(), reason="the package python is a script for bash"),
]


def commands(page: Path) -> list[str]:
    """What the page says to type, in order."""
    lines = "".join(_BLOCK.findall(page.read_text(encoding="utf-8"))).splitlines()
    assert all(line.startswith("$ ") for line in lines)
    return [line[2:] for line in lines]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """What pip would download: the dependencies and the build backend, in one folder."""
    folder = tmp_path_factory.mktemp("index") / "wheels"
    lay_wheels(folder, ["hatchling", *(metadata.requires("resume-dl") or ())])
    return folder


@pytest.fixture(scope="module")
def channels(tmp_path_factory):
    """The channels ``pytorch`` and ``pkgs/main`` of 2021 in small, with a python that runs."""
    root = tmp_path_factory.mktemp("channels")
    for name, specs in pytorch_like(large=LARGE, medium=100_000).items():
        build_channel(root / name, map(runnable, specs))
    return root


def runnable(spec: PackageSpec) -> PackageSpec:
    """The package for the Python of this machine; python and pip themselves are replaced."""
    if spec.name in {"python", "pip"}:
        return {"python": python_package, "pip": pip_package}[spec.name]()
    depends = tuple(f"python {PYTHON}.*" if each.startswith("python >=3.8,") else each for each in spec.depends)
    files = {path.replace("python3.8", f"python{PYTHON}"): data for path, data in spec.files.items()}
    return replace(spec, depends=depends, files=files)


def machine(test_conda, served, wheels, folder: Path) -> dict[str, str]:
    """The environment of the shell: everything that differs from a new user's machine.

    | what | here | a user's |
    | --- | --- | --- |
    | CONDARC | the channels' addresses at nginx, folders below ``folder``, ``always_yes`` | conda's defaults, Enter |
    | RESUME_DL_MIRRORS | two mirrors, both nginx | the built-in table |
    | PIP_NO_INDEX, PIP_FIND_LINKS | the folder ``wheels`` | PyPI |
    | PIP_NO_COMPILE | no bytecode at the installation: half of its time | unset |
    | PIP_DISABLE_PIP_VERSION_CHECK, PIP_CONFIG_FILE | nothing that this machine's own pip.conf says | unset |
    | HTTP_PROXY, HTTPS_PROXY, NO_PROXY | nothing but this machine is reached | unset |
    | PATH | ``conda`` and ``python``, in front of the system's | conda's and Python's folders |
    """
    base = served.base(0)
    test_conda.configure(
        channels=["defaults"], custom_channels={"pytorch": base}, default_channels=[f"{base}/pkgs/main"]
    )
    table = f'schema = 1\n[origins]\n"conda:pytorch" = "{base}/pytorch"\n"conda:pkgs/main" = "{base}/pkgs/main"\n'
    table += '[[mirror]]\nname = "second"\n[mirror.carries]\n'
    table += "".join(f'"conda:{name}" = "{served.base(1)}/{name}"\n' for name in ("pytorch", "pkgs/main"))
    (folder / "mirrors.toml").write_text(table, encoding="utf-8")
    environment = test_conda.environment()
    bin_dir = test_conda.root / "bin"  # where `conda run` looks for conda
    bin_dir.mkdir()
    hook = _HOOK.format(conda=shlex.quote(str(bin_dir / "conda"))) if test_conda.conda.python is None else ""
    path = f"export PYTHONPATH={shlex.quote(environment.pop('PYTHONPATH'))}"
    _program(bin_dir / "conda", f"{hook}{path}", test_conda.python, "-m", "conda")
    _program(bin_dir / "python", ":", Path(getattr(sys, "_base_executable", sys.executable)))
    nowhere = "http://127.0.0.1:9"
    return {
        **environment,
        "RESUME_DL_MIRRORS": str(folder / "mirrors.toml"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_COMPILE": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1",
        "PATH": f"{bin_dir}:/usr/local/bin:/usr/bin:/bin",
    }


def _program(path: Path, before: str, *command: object) -> None:
    path.write_text(f'#!/bin/sh\n{before}\nexec {shlex.join(map(str, command))} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


class Shell:
    """A bash in which a person types: what one command exports, the next one sees."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.state = folder.parent / "exported.sh"
        self.environment = environment
        self.state.touch()

    def start(self, command: str) -> Run:
        """Start a command, as Enter does."""
        keep = f"status=$?\nexport -p > {shlex.quote(str(self.state))}\nexit $status"
        script = f". {shlex.quote(str(self.state))}\n{command}\n{keep}"
        return Run(
            ["bash", "-c", script],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # a group of its own, to which a terminal's Ctrl-C goes
        )

    def type(self, command: str) -> str:
        """Run a command to its end, which has to be a good one; returns what is on the screen."""
        with self.start(command) as process:
            screen, _ = process.communicate(timeout=GUARD)
        print(f"$ {command}\n{screen}")
        assert process.returncode == 0, command
        return screen

    def interrupt(self, command: str, pkgs: Path) -> int:
        """Run a command, press Ctrl-C when a megabyte is on the disk; returns how many bytes were then."""
        with self.start(command) as process:
            deadline = time.monotonic() + GUARD
            while (come := unfinished(pkgs)) < 1_000_000:
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < deadline, "nothing came"
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGINT)
            screen, _ = process.communicate(timeout=GUARD)
        assert process.returncode in {130, -signal.SIGINT}, screen
        return come


def unfinished(pkgs: Path) -> int:
    """Bytes of unfinished files that are on the disk."""
    total = 0
    for path in pkgs.glob(".resume-dl/*.part"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue  # it was finished just now
    return total


@pytest.mark.parametrize("name", ["tutorial.md", "tutorial.zh-CN.md"])
def test_what_the_tutorial_says_is_typed(name, test_conda, nginx_mirrors, channels, wheels, tmp_path):
    served = nginx_mirrors([channels, channels], rate=SLOW)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for each in CHECKOUT:
        source = PROJECT / each
        if source.is_dir():
            shutil.copytree(source, checkout / each, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, checkout / each)
    shell = Shell(checkout, machine(test_conda, served, wheels, tmp_path))
    assert [*test_conda.home.iterdir()] == []
    lines = iter(commands(DOCS / name))
    screens: dict[str, str] = {}

    for line in lines:  # 1 and 2: installed, and what would be fetched
        if line == FETCH:
            break
        screens[line] = shell.type(line)
    assert served.archive_requests() == []
    assert "pytorch-1.7.1-py3.8_cuda11.0" in screens[f"{FETCH} --dry-run"]

    shell.interrupt(FETCH, test_conda.pkgs)  # 3: fetched in part, and status says so
    assert FETCH in shell.type(next(lines))
    before = served.body_bytes()

    for mirror in (0, 1):
        served.set_rate(mirror, None)
    line = next(lines)  # 4: continued
    assert line == FETCH
    assert "resumed" in shell.type(line)
    again = served.body_bytes() - before
    whole = sum(path.stat().st_size for path in channels.glob("p*/**/*") if path.name.endswith((".conda", ".bz2")))
    assert again < whole - 500_000

    served.reset_log()
    for line in lines:  # all night, which is over at once; 5: installed without a download
        screens[line] = shell.type(line)
    assert screens[line].strip() == "1.7.1"
    assert line.startswith("conda run -n torch python")
    assert served.archive_requests() == []
