"""Builds everything that a release publishes, into dist/: `make release`, or for any commit `make release SNAPSHOT=1`.

    python release/make.py [--output DIR] [--snapshot] [--no-lock]

wheel, sdist, resume-dl.pyz, the lock inside it, sbom.cdx.json, SHA256SUMS. With the same SOURCE_DATE_EPOCH (default:
the last commit's time), lock and libraries the bytes are the same. A version that the changelog, the recipe or the tag
contradicts is refused, and a checkout with changes; a snapshot is built all the same.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import components
import zip_application

PROJECT = Path(__file__).resolve().parents[1]
OLDEST_PYTHON = "3.10"


def problems(version: str) -> Iterator[str]:
    """What forbids a release of ``version``."""
    changelog = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[?([^\]\s]+)", changelog, re.MULTILINE)
    if newest is None or newest[1] != version:
        yield f"the newest entry of CHANGELOG.md is {newest[1] if newest else 'missing'}, not {version}"
    recipe = (PROJECT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    if f'version: "{version}"' not in recipe:
        yield f"recipe/recipe.yaml is not of version {version}"
    tags = _git("tag", "--points-at", "HEAD").split()
    if f"v{version}" not in tags:
        yield f"the last commit has {f'the tag {tags[0]}' if tags else 'no tag'}, not v{version}"
    if _git("status", "--porcelain"):
        yield "the checkout has changes that are not committed"


def build(output: Path, epoch: int, lock: Path | None) -> list[Path]:
    """Build all files but the lock, which is ``lock``, into ``output``; return their paths."""
    output.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(output.resolve())]
    subprocess.run(command, cwd=PROJECT, env=env, check=True, stdout=subprocess.DEVNULL)
    version = own_version()
    wheel = output / f"resume_dl-{version}-py3-none-any.whl"
    sdist = output / f"resume_dl-{version}.tar.gz"
    application, sbom = output / "resume-dl.pyz", output / "sbom.cdx.json"
    zip_application.build(wheel, application, lock)
    parts = {} if lock is None else components.of_lock(lock)
    sbom.write_text(components.document(version, parts, components.of_libraries(), epoch), encoding="ascii")
    return [wheel, sdist, application, sbom, *([] if lock is None else [lock])]


def make_lock(wheel: Path, output: Path) -> None:
    """Lock what our wheel with all extras needs, on every platform, and pip, which installs it."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        needed = Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist") or []
    lines = []
    for each in needed:
        requirement = re.sub(r"(; | and )extra == '\w+'", "", each)
        lines += [] if requirement.startswith("resume-dl[") else [requirement]
    source = output.with_name("requirements.in")
    source.write_text("\n".join([*lines, "pip", ""]), encoding="utf-8")
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--format", "pylock.toml", "--no-header"]
    command += ["--only-binary", ":all:", "--python-version", OLDEST_PYTHON, "--output-file", str(output), str(source)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    source.unlink()


def write_sums(paths: list[Path]) -> None:
    """Write SHA256SUMS beside the files, as `sha256sum -c` reads it."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(paths)]
    (paths[0].parent / "SHA256SUMS").write_text("".join(lines), encoding="ascii", newline="\n")


def own_version() -> str:
    """Return the version of this checkout."""
    text = (PROJECT / "src" / "resume_dl" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise SystemExit("src/resume_dl/__init__.py has no __version__")
    return found[1]


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=PROJECT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main() -> None:
    """Build a release."""
    parser = argparse.ArgumentParser(description="build everything that a release publishes")
    parser.add_argument("--output", type=Path, default=PROJECT / "dist")
    parser.add_argument("--snapshot", action="store_true", help="of any commit, tagged or not")
    parser.add_argument("--no-lock", action="store_true", help="ask no package index: without self install")
    given = parser.parse_args()
    found = list(problems(own_version()))
    for text in found:
        print(f"{'note' if given.snapshot else 'error'}: {text}", file=sys.stderr)
    if found and not given.snapshot:
        raise SystemExit(2)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or 315532800)
    paths = build(given.output, epoch, None)
    if not given.no_lock:
        lock = given.output / "pylock.toml"
        make_lock(paths[0], lock)
        paths = build(given.output, epoch, lock)
    write_sums(paths)
    for path in paths:
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
