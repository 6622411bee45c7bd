"""A world to make bundles in: two conda channels for two platforms, an index of wheels, and who makes the bundle.

    world = build_world(tmp_path / "world")              # the fixture world: built once a session
    nginx = nginx_mirrors([world.root, world.root])
    maker = Maker(tmp_path / "maker", nginx)             # the fixture maker: two mirrors, one index
    done = maker.create("pytorch", *BOTH, "--cuda", "11.0", "--pip", "demo-app", "-o", maker.folder / "out")
    manifest(maker.folder / "out")["packages"]

For both platforms there are packages of one file name and other bytes (mkl-2020.2-256.conda as in reality), for Linux
a pytorch that wants CUDA 11.0; what is for all platforms is noarch, and some records have an md5 only. Of the wheels,
``fast`` is another for each platform, and colorama is for Windows alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resume_dl.demo.channel import BuiltPackage, ChannelInfo, PackageSpec, build_channel
from resume_dl.store.part import FOLDER, PartStore
from support.fetching import TIMEOUT, Done, Run, User
from support.nginx import NginxMirrors
from support.pip_index import BuiltFile, build_wheel, write_index

PLATFORMS = ("linux-64", "win-64")
BOTH = ("--platform", "linux-64", "--platform", "win-64")
LARGE = 300_000
LINUX = {
    "channel/linux-64/blas-1.0-mkl.tar.bz2",
    "channel/linux-64/cudatoolkit-11.0.221-0.conda",
    "channel/linux-64/mkl-2020.2-256.conda",
    "channel/linux-64/numpy-1.19.2-py38.tar.bz2",
    "channel/linux-64/pip-20.3.3-py38.tar.bz2",
    "channel/linux-64/python-3.8.5-0.tar.bz2",
    "channel/linux-64/pytorch-1.7.1-py3.8_cuda11.0.conda",
    "channel/noarch/typing_extensions-3.7.4.3-py_0.tar.bz2",
}
"""What ``pytorch`` comes to with CUDA 11.0."""
WINDOWS = {
    "channel/win-64/blas-1.0-mkl.tar.bz2",
    "channel/win-64/mkl-2020.2-256.conda",
    "channel/win-64/numpy-1.19.2-py38.tar.bz2",
    "channel/win-64/pip-20.3.3-py38.tar.bz2",
    "channel/win-64/python-3.8.5-0.tar.bz2",
    "channel/win-64/pytorch-1.7.1-py3.8_cpu.conda",
    "channel/noarch/typing_extensions-3.7.4.3-py_0.tar.bz2",
}
"""And on Windows, where no build for CUDA is to be had."""
COMMON = {"wheels/demo_app-1.0-py3-none-any.whl", "wheels/tqdm-4.66.0-py3-none-any.whl"}
FAST = {
    "linux-64": "wheels/fast-2.0-cp38-cp38-manylinux_2_17_x86_64.whl",
    "win-64": "wheels/fast-2.0-cp38-cp38-win_amd64.whl",
}
COLORAMA = "wheels/colorama-0.4.6-py3-none-any.whl"


@dataclass(frozen=True)
class World:
    """A web server's folder: ``pytorch`` and ``pkgs/main`` as channels, ``simple/`` and ``packages/`` as an index."""

    root: Path
    channels: Mapping[str, ChannelInfo]
    wheels: Sequence[BuiltFile]

    @property
    def packages(self) -> dict[str, BuiltPackage]:
        """Path in a bundle -> archive."""
        every = (package for channel in self.channels.values() for package in channel.packages)
        return {f"channel/{package.url_path}": package for package in every}

    @property
    def bytes(self) -> dict[str, bytes]:
        """Path in a bundle -> what must lie there."""
        conda = {path: package.path.read_bytes() for path, package in self.packages.items()}
        return conda | {f"wheels/{wheel.filename}": wheel.path.read_bytes() for wheel in self.wheels}

    def size(self, paths: Sequence[str] | set[str]) -> int:
        """Of these paths' files together."""
        contents = self.bytes
        return sum(len(contents[path]) for path in paths)


def build_world(root: Path, *, large: int = LARGE) -> World:
    """Build it below ``root``; pytorch holds ``large`` bytes that do not compress."""
    channels = {"pytorch": build_channel(root / "pytorch", _pytorch(large), subdirs=(*PLATFORMS, "noarch"))}
    channels["pkgs/main"] = build_channel(
        root / "pkgs/main",
        [*_noarch(), *(spec for platform in PLATFORMS for spec in _main(platform))],
        subdirs=(*PLATFORMS, "noarch"),
    )
    built = root / "built"
    wheels = [
        build_wheel(built, "demo-app", "1.0", requires=["tqdm>=4", "fast"]),
        build_wheel(built, "tqdm", "4.66.0", requires=["colorama; sys_platform == 'win32'"]),
        build_wheel(built, "colorama", "0.4.6", filler=20_000),
        build_wheel(built, "fast", "2.0", tag="cp38-cp38-manylinux_2_17_x86_64", filler=30_000),
        build_wheel(built, "fast", "2.0", tag="cp38-cp38-win_amd64", filler=40_000),
    ]
    write_index(root, wheels)
    return World(root, channels, wheels)


def _pytorch(large: int) -> list[PackageSpec]:
    needs = ("blas * mkl", "mkl >=2018", "numpy >=1.11", "python >=3.8,<3.9.0a0", "typing_extensions")
    cuda = ("__cuda >=11.0", "cudatoolkit >=11.0,<11.1")
    return [
        PackageSpec(name="pytorch", version="1.7.1", build=build, subdir=platform, depends=depends, payload_size=size,
                    build_number=number)
        for platform, build, depends, size, number in (
            ("linux-64", "py3.8_cuda11.0", (*needs, *cuda), large, 1),
            ("linux-64", "py3.8_cpu", needs, 10_000, 0),
            ("win-64", "py3.8_cpu", needs, 20_000, 0),
        )
    ]  # fmt: skip


def _main(platform: str) -> list[PackageSpec]:
    python, seed = ("python >=3.8,<3.9.0a0",), PLATFORMS.index(platform)

    def small(name: str, version: str, build: str, depends: tuple[str, ...] = (), *, old: bool = False) -> PackageSpec:
        return PackageSpec(
            name=name, version=version, build=build, depends=depends, subdir=platform, format="tar.bz2",
            payload_size=30_000, md5_only=old, seed=seed,
        )  # fmt: skip

    found = [
        small("python", "3.8.5", "0", old=True),
        small("pip", "20.3.3", "py38", python),
        small("numpy", "1.19.2", "py38", ("blas 1.0 mkl", "mkl >=2019", *python)),
        small("blas", "1.0", "mkl", old=True),
        PackageSpec(name="mkl", version="2020.2", build="256", subdir=platform, payload_size=60_000, seed=seed),
    ]
    if platform == "linux-64":
        found.append(PackageSpec(name="cudatoolkit", version="11.0.221", payload_size=50_000))
    return found


def _noarch() -> list[PackageSpec]:
    return [
        PackageSpec(
            name="typing_extensions", version="3.7.4.3", build="py_0", subdir="noarch", format="tar.bz2",
            payload_size=20_000, license="PSF-2.0", depends=("python >=3.6",),
        )
    ]  # fmt: skip


class Maker(User):
    """Makes bundles with the world's servers: all of them are mirrors of the channels, the first is the index."""

    def __init__(self, folder: Path, nginx: NginxMirrors) -> None:
        super().__init__(folder)
        self.nginx = nginx
        self.options = ["--give-up-after", "20s"]
        self.mirrors(**{f"mirror{number}": nginx.base(number) for number in range(len(nginx))})
        self.index = f"{nginx.base()}/simple/"
        self.out = folder / "out"

    def arguments(self, *more: str | Path, out: Path | None = None) -> list[str | Path]:
        """Of ``bundle create``."""
        chosen: list[str | Path] = ["bundle", "create", *self.options, "--index-url", self.index]
        return [*chosen, "-o", self.out if out is None else out, *more]

    def create(
        self, *more: str | Path, out: Path | None = None, env: Mapping[str, str] | None = None, as_root: bool = True
    ) -> Done:
        """``resume-dl bundle create -o OUT``; ``out`` is ``self.out`` if it is not given."""
        return self.run(*self.arguments(*more, out=out), env=env, as_root=as_root, timeout=2 * TIMEOUT)

    def create_in(
        self, folder: Path, *more: str | Path, env: Mapping[str, str] | None = None, umask: int = -1
    ) -> subprocess.CompletedProcess[str]:
        """The same with ``folder`` as the current one, and ``-o`` among ``more``."""
        command = [
            sys.executable,
            "-m",
            "resume_dl",
            "bundle",
            "create",
            *self.options,
            "--index-url",
            self.index,
            *more,
        ]
        return subprocess.run(
            [*map(str, command)], cwd=folder, env=self.environment(env), umask=umask, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=2 * TIMEOUT,
        )  # fmt: skip

    def begin(self, *more: str | Path, out: Path | None = None) -> Run:
        """Start it, and leave it running."""
        return self.start(*self.arguments(*more, out=out))

    def interrupt(self, process: Run, how: signal.Signals, *, at: int, folder: Path) -> Done:
        """Send ``how`` once the part files below ``folder`` hold ``at`` bytes, and nothing waits in the kernel."""
        wait_until(lambda: begun(folder) >= at, process)
        with self.nginx.paused():
            process.send_signal(how)
            out, err = process.communicate(timeout=TIMEOUT)
        return Done(process.returncode, out, err)


def begun(folder: Path) -> int:
    """Bytes that unfinished downloads have, by their journals."""
    return sum(part.done for part in PartStore(folder / FOLDER).unfinished()) if (folder / FOLDER).is_dir() else 0


def wait_until(holds: Callable[[], bool], process: Run) -> None:
    """Until it holds; the process must go on running."""
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.01)


def manifest(folder: Path) -> dict[str, Any]:
    """What the bundle in this folder says of itself."""
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    return found


def by_path(folder: Path) -> dict[str, dict[str, Any]]:
    """The manifest's packages."""
    return {each["path"]: each for each in manifest(folder)["packages"]}


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of the folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def archives_of(folder: Path) -> set[str]:
    """The packages that lie in it."""
    return {
        path
        for path in files_of(folder)
        if path.startswith(("channel/", "wheels/")) and not path.endswith("repodata.json") and f"/{FOLDER}/" not in path
    }


def sums_hold(folder: Path) -> bool:
    """Whether SHA256SUMS is right for each file, and names every one but itself."""
    files = files_of(folder)
    lines = (line.split("  ", 1) for line in files.pop("SHA256SUMS").decode().splitlines())
    told = {path: digest for digest, path in lines}
    return told == {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder below: path -> inode (0 of folders) and time of its last change."""
    return {
        path.relative_to(folder).as_posix(): (0, 0) if path.is_dir() else (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
    }


def has_no_secret(folder: Path, *secrets: str | os.PathLike[str]) -> list[str]:
    """Files below ``folder`` that hold one of these texts, which must be none: file and text."""
    needles = [os.fspath(each).encode() for each in secrets]
    return [
        f"{path}: {needle.decode()}"
        for path, content in files_of(folder).items()
        for needle in needles
        if needle in content or needle in path.encode()
    ]
