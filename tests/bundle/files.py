"""Files to make tars and parts of, and the commands that do."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from pathlib import Path

from resume_dl.bundle.tar import Member

MIB = 1024 * 1024
LONG = "channel/noarch/" + "x" * 120 + ".conda"
LONGER = "/".join(["wheels", "ö" * 100, "y" * 150, "z.whl"])
NAMES = [
    "manifest.json",
    "manifest.json.sig",
    "SHA256SUMS",
    "README.txt",
    "channel/linux-64/a 0.conda",
    "channel/noarch/" + "n" * 85,  # 100 bytes
    "channel/noarch/" + "n" * 86,
    LONG,
    LONGER,
    "wheels/pkg-ünïcode-雪.whl",
    "wheels/empty.whl",
]


def contents(name: str) -> bytes:
    return b"" if "empty" in name else name.encode() * 777


def make(folder: Path, names: list[str]) -> list[Member]:
    """Files below ``folder`` in the order given, as members."""
    members = []
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents(name))
        members.append(Member(name, path, path.stat().st_size, hashlib.sha256(contents(name)).hexdigest()))
    return members


def some_file(path: Path, size: int, seed: int = 1) -> Path:
    """A file of random bytes."""
    path.write_bytes(random.Random(seed).randbytes(size))
    return path


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run_command(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """``resume-dl bundle …``"""
    command = [sys.executable, "-m", "resume_dl", "bundle", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
