"""`make release`: two builds are equal byte for byte, and a version that anything contradicts is refused."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from resume_dl import __version__
from support.conda_env import PROJECT

LOCK = """lock-version = "1.0"
created-by = "tests"
[[packages]]
name = "click"
version = "8.5.1"
[[packages.wheels]]
name = "click-8.5.1-py3-none-any.whl"
url = "https://files.example/click-8.5.1-py3-none-any.whl"
hashes = { sha256 = "8bb5376d2006950386f8c6427613334a2acadc5f559cb80e638d00b4df957e37" }
"""
EPOCH = 1_700_000_000
BUILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import make
paths = make.build(Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
make.write_sums(paths)
"""


def build(project: Path, output: Path, epoch: int = EPOCH) -> dict[str, bytes]:
    """Name -> bytes of all that is made from ``project``."""
    output.mkdir()
    lock = output / "pylock.toml"
    lock.write_text(LOCK, encoding="utf-8")
    command = [sys.executable, "-c", BUILD, project / "release", output, str(epoch), lock]
    subprocess.run(command, check=True, capture_output=True, cwd=output, timeout=180)
    return {path.name: path.read_bytes() for path in sorted(output.iterdir())}


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> dict[str, bytes]:
    return build(PROJECT, tmp_path_factory.mktemp("release") / "dist")


@pytest.mark.slow
def test_two_builds_are_equal(released, tmp_path):
    """The second one is made of the first one's sdist: in another folder, with other times and other modes."""
    sdist = tmp_path / "sdist.tar.gz"
    sdist.write_bytes(released[f"resume_dl-{__version__}.tar.gz"])
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data") if sys.version_info >= (3, 12) else archive.extractall(tmp_path)
    project = tmp_path / f"resume_dl-{__version__}"
    for path in project.rglob("*"):
        os.utime(path, (1, 1))
        if path.is_file() and path.suffix == ".py":
            path.chmod(0o600)
    again = build(project, tmp_path / "dist")
    assert {*again} == {*released}
    assert [name for name in released if again[name] != released[name]] == []


def test_everything_is_there(released):
    """Each file, with its digest in SHA256SUMS; the archive holds the lock, and the list of components names both."""
    names = {f"resume_dl-{__version__}-py3-none-any.whl", f"resume_dl-{__version__}.tar.gz", "resume-dl.pyz"}
    assert {*released} == {*names, "pylock.toml", "sbom.cdx.json", "SHA256SUMS"}
    sums = dict(line.split("  ")[::-1] for line in released["SHA256SUMS"].decode().splitlines())
    assert sums == {name: hashlib.sha256(data).hexdigest() for name, data in released.items() if name != "SHA256SUMS"}
    sbom = json.loads(released["sbom.cdx.json"])
    assert sbom["metadata"]["component"]["version"] == __version__
    parts = {each["name"]: {one["value"] for one in each["properties"]} for each in sbom["components"]}
    assert parts["httpx"] == {"resume-dl.pyz"}
    assert "self install" in parts["click"]


def test_the_wheel_is_complete(released, tmp_path):
    """The mirrors, the licence, the types' marker, the plugin's entry point; no tests, and the lock is in the .pyz."""
    path = tmp_path / "one.whl"
    path.write_bytes(released[f"resume_dl-{__version__}-py3-none-any.whl"])
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    assert {"resume_dl/mirrors.toml", "resume_dl/py.typed"} <= {*names}
    assert not [name for name in names if not name.startswith(("resume_dl/", "resume_dl-"))]
    path.write_bytes(released["resume-dl.pyz"])
    with zipfile.ZipFile(path) as archive:
        assert archive.read("resume_dl_lock/pylock.toml").decode() == LOCK


def test_a_version_that_is_contradicted_is_refused(tmp_path):
    """This commit has no tag of its version, or the changelog says Unreleased: nothing is built."""
    command = [sys.executable, PROJECT / "release" / "make.py", "--no-lock", "--output", tmp_path / "dist"]
    probe = "import sys; sys.path.insert(0, sys.argv[1]); import make; print(*make.problems('99.1'), sep='\\n')"
    said = subprocess.run(
        [sys.executable, "-c", probe, PROJECT / "release"], capture_output=True, text=True, check=True
    ).stdout
    assert "not 99.1" in said
    assert "recipe/recipe.yaml is not of version 99.1" in said
    assert "not v99.1" in said
    changelog = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    if "## Unreleased" in changelog:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, (tmp_path / "dist").exists()) == (2, False), done.stderr
