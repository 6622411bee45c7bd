"""CPython for Windows in a folder as its installer makes it: from wheels, and the standard library of this Python.

The DLLs and extension modules are the official ones, which panda3d's wheel brings for the programs that it freezes.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

from windows import native_programs
from windows.machine import CannotSetUpError
from windows.wine import windows_path

HERE = Path(__file__).parent
RUNTIME = HERE / "requirements-runtime.txt"
PACKAGES = HERE / "requirements.txt"
NOT_COPIED = ("site-packages", "test", "idlelib", "tkinter", "turtledemo", "lib-dynload", "config-*", "__pycache__")


def recipe() -> str:
    """A digest of everything that the installation follows from: another one, and it is made anew."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted([Path(__file__), Path(native_programs.__file__), RUNTIME, PACKAGES, *HERE.glob("native/*")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def update(folder: Path, downloads: Path) -> None:
    """Make the installation in ``folder``, unless the one there follows from the same recipe."""
    stamp, wanted = folder / "recipe.txt", recipe()
    if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    _make(folder, downloads)
    stamp.write_text(wanted, encoding="ascii")


def add_package(folder: Path, checkout: Path) -> None:
    """Let the installation find this checkout's package, as an editable install does: also without PYTHONPATH."""
    target = folder / "Lib" / "site-packages" / "resume_dl.pth"
    text = windows_path(checkout / "src") + "\n"
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.unlink(missing_ok=True)
        target.write_text(text, encoding="utf-8")


def _make(folder: Path, downloads: Path) -> None:
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    _runtime(unfinished, _download(RUNTIME, downloads / "runtime"))
    native_programs.compile_all(unfinished)
    library = unfinished / "Lib"
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=shutil.ignore_patterns(*NOT_COPIED))
    packages = library / "site-packages"
    _install(_download(PACKAGES, downloads / "packages"), packages)
    (packages / "bin").rename(unfinished / "Scripts")
    unfinished.rename(folder)


def _download(requirements: Path, folder: Path) -> list[Path]:
    """The wheels for Windows, whose digests pip checks."""
    wanted = f"--platform=win_amd64 --python-version={sys.version_info[0]}.{sys.version_info[1]} --implementation=cp"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    options = [
        *wanted.split(),
        "--only-binary=:all:",
        "--require-hashes",
        f"--dest={folder}",
        f"--requirement={requirements}",
    ]
    if subprocess.run([*command, *options], check=False).returncode:
        raise CannotSetUpError("pip cannot download the wheels for Windows")
    names = [line.split()[0] for line in requirements.read_text(encoding="utf-8").splitlines() if "==" in line]
    wheels = {_name(path): path for path in sorted(folder.glob("*.whl"))}
    return [wheels[name.replace("==", "-").replace("_", "-").lower()] for name in names]


def _name(wheel: Path) -> str:
    return "-".join(wheel.name.split("-")[:2]).replace("_", "-").lower()


def _runtime(folder: Path, wheels: list[Path]) -> None:
    (folder / "DLLs").mkdir(parents=True)
    with zipfile.ZipFile(wheels[0]) as archive:
        for name in archive.namelist():
            place, _, base = name.rpartition("/")
            if place != "deploy_libs" or base.startswith(("api-ms-", "tcl", "tk", "_tkinter")):
                continue  # Wine has the C library
            beside = base.lower().startswith(("python", "vcruntime"))
            target = folder / base.lower() if beside else folder / "DLLs" / base
            target.write_bytes(archive.read(name))


def _install(wheels: list[Path], folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-index",
    ]
    only = ["--only-binary=:all:", "--platform=win_amd64", "--implementation=cp", "--no-compile", f"--target={folder}"]
    subprocess.run([*command, *only, *map(str, wheels)], check=True)
