"""The tutorial, typed: its commands in their order, in an empty home, by a shell, a real conda, nginx as the mirrors.

What is typed is read from the page. Only the machine around it is the test's: ``machine`` lists all of it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from resume_dl.demo.channel import PackageSpec, build_channel, pytorch_like
from support.installable import PYTHON, is_linux, pip_package, python_package
from support.installed_wheels import lay_wheels
from support.typed_page import GUARD, Shell, commands, program

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

pytestmark = [
    pytest.mark.conda,
    pytest.mark.nginx,
    pytest.mark.slow,
    pytest.mark.skipif(not is_linux(), reason="the package python is a script for bash"),
]


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
    program(bin_dir / "conda", f"{hook}{path}", test_conda.python, "-m", "conda")
    program(bin_dir / "python", ":", Path(getattr(sys, "_base_executable", sys.executable)))
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


def interrupt(shell: Shell, command: str, pkgs: Path) -> int:
    """Run a command, press Ctrl-C when a megabyte is on the disk; returns how many bytes were then."""
    with shell.start(command) as process:
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

    interrupt(shell, FETCH, test_conda.pkgs)  # 3: fetched in part, and status says so
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
