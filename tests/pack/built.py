"""What `make release` makes, for tests: our wheel, resume-dl.pyz, and wheels of installed libraries."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from support.conda_env import PROJECT

LOCK_HEAD = 'lock-version = "1.0"\ncreated-by = "tests"\n'


def script(name: str) -> ModuleType:
    """A module of release/."""
    found = importlib.util.spec_from_file_location(f"release_{name}", PROJECT / "release" / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


def wheel(folder: Path) -> Path:
    """Our wheel, in a process of its own as anybody builds it."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


def wheel_of(name: str, folder: Path) -> Path:
    """A wheel of an installed pure library: it has exactly the files that its RECORD lists."""
    distribution = metadata.distribution(name)
    path = folder / f"{name}-{distribution.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        lines = []
        for each in distribution.files or ():
            kept = each.parts[0] != ".." and "__pycache__" not in each.parts
            if kept and each.name not in {"RECORD", "INSTALLER", "REQUESTED"}:
                archive.write(str(each.locate()), each.as_posix())
                lines.append(f"{each.as_posix()},,\n")
        record = f"{name}-{distribution.version}.dist-info/RECORD"
        archive.writestr(record, "".join([*lines, f"{record},,\n"]))
    return path


def lock_of(wheels: list[Path], base: str) -> str:
    """A pylock.toml of these wheels, served below ``base``."""
    parts = [LOCK_HEAD]
    for each in wheels:
        name, version = each.name.split("-")[:2]
        digest = hashlib.sha256(each.read_bytes()).hexdigest()
        parts.append(
            f'[[packages]]\nname = "{name}"\nversion = "{version}"\n[[packages.wheels]]\nname = "{each.name}"\n'
            f'url = "{base}/{each.name}"\nsize = {each.stat().st_size}\nhashes = {{ sha256 = "{digest}" }}\n'
        )
    return "\n".join(parts)


def plain_python() -> list[str]:
    """The system's Python without anything installed; where there is none that is new enough, ours without it."""
    found = shutil.which("python3", path="/usr/bin:/bin")
    if found is not None:
        new_enough = "import sys; sys.exit(sys.version_info < (3, 10))"
        if subprocess.run([found, "-c", new_enough], check=False).returncode == 0:
            return [found, "-I", "-S"]
    return [sys.executable, "-I", "-S"]


def own_places(folder: Path) -> dict[str, str]:
    """Variables for a run that has nothing of this machine's user."""
    places: dict[str, Any] = {f"RESUME_DL_{kind}_DIR": folder / kind.lower() for kind in ("CONFIG", "CACHE", "STATE")}
    places |= {"HOME": folder, "USERPROFILE": folder, "RESUME_DL_CONDA": "none", "RESUME_DL_PIP_PYTHON": ""}
    return {name: str(place) for name, place in places.items() if name != "RESUME_DL_PIP_PYTHON"}
