"""A bundle from the real ``bundle create`` for a machine without a network, and that machine: conda, pip, no network.

    from support.offline import offline                  # a fixture; the bundle is made once a session
    with Cut(offline.port) as cut:                       # nobody is reached by what it runs
        cut.run(Target(test_conda), "python", "install.py", "-n", "lab", cwd=offline.copy(tmp_path / "bundle"))

The channels are those of 2021 in small, with a python and a pip that run (``support.installable``) and one archive of
6.5 MiB, so that the bundle is cut into four parts of 2 MiB. ``pytorch`` for Linux wants a CUDA that is not here.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, final

import pytest

from resume_dl.demo.channel import PackageSpec, build_channel
from support.bundles import BOTH, Maker, World, manifest
from support.installable import PYTHON, SITE, Target, is_linux, pip_package, python_package
from support.nginx import INSTALL_HINT, NginxMirrors, find_nginx
from support.pip_index import build_wheel, write_index

MIB = 1 << 20
LARGE = 13 * MIB // 2
WANTED = ("pytorch", "ninja", *BOTH, "--cuda", "11.0", "--pip", "demo-app")
NEEDS = [
    pytest.mark.conda,
    pytest.mark.nginx,
    pytest.mark.skipif(not is_linux(), reason="the package python is a script for bash"),
]
_TAG = f"cp{PYTHON.replace('.', '')}"


# --- what the mirrors have --------------------------------------------------------------------------------------------


def build_real_world(root: Path, *, large: int = LARGE) -> World:
    """Channels ``pytorch`` and ``pkgs/main`` and an index below ``root``; ``large`` bytes in cudatoolkit."""
    specs = {"pytorch": [*_pytorch()], "pkgs/main": [*_main("linux-64", large), *_main("win-64", large), *_noarch()]}
    channels = {
        name: build_channel(root / name, each, subdirs=("linux-64", "win-64", "noarch")) for name, each in specs.items()
    }
    built = root / "built"
    wheels = [
        build_wheel(built, "demo-app", "1.0", requires=["tqdm>=4", "fast"]),
        build_wheel(built, "tqdm", "4.66.0", requires=["colorama; sys_platform == 'win32'"]),
        build_wheel(built, "colorama", "0.4.6", filler=20_000),
        build_wheel(built, "fast", "2.0", tag=f"{_TAG}-{_TAG}-manylinux_2_17_x86_64", filler=30_000),
        build_wheel(built, "fast", "2.0", tag=f"{_TAG}-{_TAG}-win_amd64", filler=40_000),
    ]
    write_index(root, wheels)
    return World(root, channels, wheels)


def _pytorch() -> Iterator[PackageSpec]:
    needs = ("blas * mkl", "mkl >=2018", "numpy >=1.11", f"python {PYTHON}.*", "tzdata", "libuv")
    cuda = ("__cuda >=11.0", "cudatoolkit >=11.0,<11.1", "typing_extensions")
    for platform, build, depends, number in (
        ("linux-64", "py_cuda11.0", (*needs, *cuda), 1),
        ("linux-64", "py_cpu", needs, 0),
        ("win-64", "py_cpu", needs, 0),
    ):
        yield PackageSpec(
            name="pytorch", version="1.7.1", build=build, subdir=platform, depends=depends, build_number=number,
            payload_size=300_000, files={f"{SITE}/torch/__init__.py": f"BUILD = {build!r}\n".encode()},
        )  # fmt: skip


def _main(platform: str, large: int) -> Iterator[PackageSpec]:
    linux, python = platform == "linux-64", ("python",)
    yield replace(python_package(), subdir=platform, md5_only=True)
    yield replace(pip_package(), subdir=platform, **({} if linux else {"files": {}}))

    def small(name: str, version: str, depends: tuple[str, ...] = (), *, old: bool = False, size: int = 30_000):
        return PackageSpec(
            name=name, version=version, depends=depends, subdir=platform, payload_size=size, seed=int(linux),
            format="tar.bz2" if old else "conda", md5_only=old, build="mkl" if name == "blas" else "0",
            files={f"{SITE}/{name}/__init__.py": f"VERSION = {version!r}\n".encode()},
        )  # fmt: skip

    yield small("numpy", "1.19.2", ("blas 1.0 mkl", "mkl >=2019", *python), old=True)
    yield small("blas", "1.0", old=True)
    yield small("mkl", "2020.2", size=60_000)
    yield small("libuv", "1.40.0")
    yield small("ninja", "1.10.2", python, old=True)
    if linux:
        yield small("cudatoolkit", "11.0.221", size=large)


def _noarch() -> Iterator[PackageSpec]:
    """The first is for both; for the other one conda asks the environment's own python to compile it."""
    yield PackageSpec(name="tzdata", version="2020d", subdir="noarch", files={"share/tzdata/zone.txt": b"UTC\n"})
    yield PackageSpec(
        name="typing_extensions", version="3.7.4.3", build="py_0", subdir="noarch", noarch="python",
        depends=("python >=3.6",), files={"site-packages/typing_extensions.py": b"VERSION = '3.7.4.3'\n"},
    )  # fmt: skip


# --- the bundle -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Offline:
    """A finished bundle in ``folder``, and ``port``: of a mirror that it came from and that is gone."""

    world: World
    folder: Path
    port: int
    manifest_sha256: str

    def copy(self, place: Path) -> Path:
        """The bundle as it comes to another machine: nothing of it is shared with the original."""
        shutil.copytree(self.folder, place)
        return place

    def listed(self, platform: str, kind: str) -> list[str]:
        """What the manifest lists for a platform, by path; ``kind`` is ``conda`` or ``pip``."""
        found: list[str] = manifest(self.folder)["platforms"][platform][kind]
        return found


@pytest.fixture(scope="session")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Offline:
    """The bundle of ``WANTED``; nobody may change it."""
    if find_nginx() is None:
        pytest.skip(INSTALL_HINT)
    return _make_once(tmp_path_factory.getbasetemp() / "offline")


@functools.cache  # each module that imports the fixture has one of its own
def _make_once(root: Path) -> Offline:
    root.mkdir()
    world = build_real_world(root / "world")
    nginx = NginxMirrors([world.root, world.root], root / "nginx")
    nginx.start()
    try:
        maker = Maker(root / "maker", nginx)
        done = maker.create(*WANTED, "--json")
    finally:
        nginx.stop()
    assert done.code == 0, done.err
    return Offline(world, maker.out, nginx.port(), done.report["bundle"]["manifest_sha256"])


# --- the machine without a network ------------------------------------------------------------------------------------


_INSIDE = """
import os, socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 3).close()
except OSError:
    os.execvp(sys.argv[2], sys.argv[2:])
sys.exit("the network is not cut: somebody answers at port " + sys.argv[1])
"""


@final
class Cut:
    """Runs programs that reach nobody, and finds out each time that they do not reach ``port``.

    In a network namespace of their own where that is allowed: somebody listens at the port all the while, and would be
    reached by who is outside. Elsewhere nobody listens, and the proxies lead nowhere.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._namespace = _namespace()
        self._listener: socket.socket | None = None

    def __enter__(self) -> Cut:
        if self._namespace:
            self._listener = socket.create_server(("127.0.0.1", self._port))
            socket.create_connection(("127.0.0.1", self._port), 3).close()
        return self

    def __exit__(self, *error: object) -> None:
        if self._listener is not None:
            self._listener.close()

    def run(
        self, target: Target, *command: str | Path, cwd: Path, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of this machine in ``cwd`` to its end, with the first ``PATH`` that Target gives it."""
        nowhere = {f"{name}_PROXY": "http://127.0.0.1:9" for name in ("HTTP", "HTTPS", "ALL")}
        nowhere |= {name.lower(): value for name, value in nowhere.items()}
        words = [*self._namespace, sys.executable, "-c", _INSIDE, str(self._port), *map(str, command)]
        return subprocess.run(
            words, env=target.environment({**nowhere, **(env or {})}), cwd=cwd, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=240, check=False,
        )  # fmt: skip


def _namespace() -> list[str]:
    """The command that takes the network away from what follows; empty where it is not allowed."""
    found = shutil.which("unshare")
    if found is None:
        return []
    more = [] if os.geteuid() == 0 else ["--map-current-user"]  # root would lose the right to give files away
    command = [found, *more, "--net"]
    works = subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    return command if works else []


def programs(folder: Path, **commands: Sequence[str | Path]) -> str:
    """Make programs of these names in ``folder``; returns a PATH that has them first."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, command in commands.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(map(str, command))} "$@"\n', encoding="utf-8")
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


# --- README.txt -------------------------------------------------------------------------------------------------------


class Command(NamedTuple):
    """A line to type: under which title, for which system or platform ('' for all), and what."""

    title: str
    where: str
    line: str


def commands_of(readme: str) -> list[Command]:
    """The lines that README.txt sets in; what follows ``Linux:``, there or in lines set in further, is for that one."""
    found: list[Command] = []
    title = where = ""
    depth = 0
    lines = readme.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        indent = len(line) - len(line.lstrip())
        if indent < 4:
            title = line if line and following == "=" * len(line) else title
            continue
        label = re.match(r" +(Linux, macOS|Linux|macOS|Windows(?:, cmd)?|PowerShell|\w+-\d+)[^:]*:(.*)", line)
        if label is not None:
            where, depth = label[1], indent
        elif indent <= depth:
            where = ""
        text = line.strip() if label is None else label[2].strip()
        if text:
            found.append(Command(title, where, text))
    return found
