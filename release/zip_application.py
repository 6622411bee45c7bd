"""Builds resume-dl.pyz from our wheel: the program and its pure-Python libraries, as one file for any Python 3.10+.

    python release/zip_application.py WHEEL OUTPUT [--lock pylock.toml]

The libraries are copied from the environment that runs this, with their licences and without extension modules. Left
out is what has none without those (py-rattler, uv, msgspec, zstd), and anyio, which httpx needs for asyncio alone. The
lock is what `self install` installs. The same input gives the same bytes, for one version of zlib.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

LIBRARIES = (
    "certifi", "click", "colorama", "h11", "httpcore", "httpx", "idna", "packaging", "platformdirs", "ruamel.yaml",
    "socksio", "tomli", "tqdm",
)  # fmt: skip
KEPT = (".py", ".pem")
LOCK = "resume_dl_lock/pylock.toml"
TIME = (1980, 1, 1, 0, 0, 0)
HEAD = b"#!/usr/bin/env python3\n"
MAIN = b"""\
import sys

if sys.version_info < (3, 10):
    sys.exit("resume-dl needs Python 3.10 or newer; this is Python " + sys.version.split()[0])

from resume_dl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
"""


def build(wheel: Path, output: Path, lock: Path | None = None) -> None:
    """Write the application. Raises PackageNotFoundError for a library that is not installed."""
    members = {"__main__.py": MAIN, **dict(_libraries())}
    with zipfile.ZipFile(wheel) as archive:
        members.update((name, archive.read(name)) for name in archive.namelist())
    if lock is not None:
        members[LOCK] = lock.read_bytes()
    # before Python 3.13, zipimport finds a namespace package (ruamel) by the entry of its folder alone
    members.update((f"{name.partition('/')[0]}/", b"") for name in [*members] if "/" in name)
    file = io.BytesIO()
    file.write(HEAD)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, data in sorted(members.items()):
            member = zipfile.ZipInfo(path, TIME)
            member.create_system = 3  # Unix, on every system
            member.external_attr = (0o40755 if member.is_dir() else 0o100644) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, data)
    output.write_bytes(file.getvalue())
    output.chmod(0o755)


def _libraries() -> Iterator[tuple[str, bytes]]:
    for name in LIBRARIES:
        for path in metadata.distribution(name).files or ():
            if _is_kept(path):
                yield path.as_posix(), Path(str(path.locate())).read_bytes()


def _is_kept(path: metadata.PackagePath) -> bool:
    """Whether it is source, data or a licence inside the folder of packages."""
    if path.parts[0] == ".." or "__pycache__" in path.parts:
        return False
    if path.parts[0].endswith(".dist-info"):
        return path.name == "METADATA" or "LICEN" in path.as_posix().upper()
    return path.suffix in KEPT


def main() -> None:
    """Build it, and print its size."""
    parser = argparse.ArgumentParser(description="build resume-dl.pyz")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--lock", type=Path)
    given = parser.parse_args()
    build(given.wheel, given.output, given.lock)
    print(f"{given.output}: {given.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
