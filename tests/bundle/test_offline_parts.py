"""A real bundle cut into parts of 2 MiB: one missing, one damaged, copied again, joined, installed from the tar."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.bundles import Maker
from support.installable import SITE, Target
from support.offline import MIB, NEEDS, WANTED, Cut, Offline, offline

__all__ = ["offline"]
pytestmark = NEEDS
NAME = "lab.tar"


def resume_dl(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "resume_dl", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


@pytest.fixture(scope="module")
def parts(offline: Offline, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the parts as ``bundle split`` leaves them."""
    folder = tmp_path_factory.mktemp("parts")
    whole = offline.copy(tmp_path_factory.mktemp("whole") / NAME.removesuffix(".tar"))
    done = resume_dl("bundle", "split", whole, "--size", "2MiB", "-o", folder, "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["parts"]) >= 4
    return folder


@pytest.fixture
def stick(parts: Path, tmp_path: Path) -> Path:
    """What arrived: part 2 was forgotten, of part 3 a byte is wrong."""
    folder = tmp_path / "a stick"
    shutil.copytree(parts, folder)
    (folder / f"{NAME}.002").unlink()
    third = folder / f"{NAME}.003"
    data = bytearray(third.read_bytes())
    data[5 * MIB // 4] ^= 1
    third.write_bytes(data)
    return folder


def states(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Of the parts that are not good, as join.py lists them: ``002`` -> ``MISSING``."""
    return dict(re.findall(rf"^ *{re.escape(NAME)}\.(\d+)  ([A-Z]+)", done.stdout + done.stderr, re.MULTILINE))


def test_parts_of_two_mebibytes(parts: Path) -> None:
    listed = json.loads((parts / f"{NAME}.parts.json").read_text("utf-8"))
    sizes = [(parts / each["name"]).stat().st_size for each in listed["parts"]]
    assert {*sizes[:-1]} == {2 * MIB}
    assert 0 < sizes[-1] <= 2 * MIB
    assert (parts / "join.py").is_file()


@pytest.mark.parametrize("how", ["bundle install", "install.py"])
def test_named_copied_again_joined_installed(parts: Path, stick: Path, offline: Offline, test_conda, how: str) -> None:
    target = Target(test_conda)
    with Cut(offline.port) as cut:
        refused = cut.run(target, sys.executable, "join.py", cwd=stick)
        assert refused.returncode == 4, refused.stderr
        assert states(refused) == {"002": "MISSING", "003": "DAMAGED"}
        assert not (stick / NAME).exists()
        words = [sys.executable, "-m", "resume_dl", "bundle", "install", "-n", "lab"]
        as_part = cut.run(target, *words, f"{NAME}.001", cwd=stick)
        assert as_part.returncode == 2, as_part.stderr
        assert "join.py" in as_part.stderr
        assert target.calls == []

        shutil.copy(parts / f"{NAME}.003", stick)
        missing = cut.run(target, sys.executable, "join.py", cwd=stick)
        assert missing.returncode == 1, missing.stderr
        assert states(missing) == {"002": "MISSING"}

        shutil.copy(parts / f"{NAME}.002", stick)
        joined = cut.run(target, sys.executable, "join.py", cwd=stick)
        assert joined.returncode == 0, joined.stderr

        digest = ("--manifest-sha256", offline.manifest_sha256)
        if how == "bundle install":
            done = cut.run(target, *words, NAME, *digest, cwd=stick)
        else:
            folder = stick / "unpacked"
            folder.mkdir()
            subprocess.run(["tar", "-xf", str(stick / NAME), "-C", str(folder)], check=True, timeout=60)
            done = cut.run(target, sys.executable, "install.py", "-n", "lab", *digest, cwd=folder)
        assert done.returncode == 0, done.stderr
        prefix = test_conda.folder / "envs" / "lab"
        code = "import torch, demo_app; print(torch.BUILD)"
        ran = cut.run(target, prefix / "bin" / "python", "-I", "-c", code, cwd=prefix)
    assert ran.stdout == "py_cuda11.0\n", ran.stderr
    assert (prefix / SITE / "demo_app" / "__init__.py").is_file()
    assert len([*prefix.glob("conda-meta/*.json")]) == len(offline.listed("linux-64", "conda"))


def test_resume_dl_joins_them_too(parts: Path, stick: Path) -> None:
    """`bundle join` says the same as join.py, and what it joins is verified."""
    refused = resume_dl("bundle", "join", stick, "--json")
    assert refused.returncode == 4
    said = json.loads(refused.stdout)
    assert said["missing"] == [f"{NAME}.002"]
    assert [*said["damaged"]] == [f"{NAME}.003"]
    for number in (2, 3):
        shutil.copy(parts / f"{NAME}.00{number}", stick)
    assert resume_dl("bundle", "join", stick).returncode == 0
    done = resume_dl("bundle", "verify", stick / NAME)
    assert done.returncode == 0, done.stderr


def test_created_in_parts(offline: Offline, nginx_mirrors, tmp_path: Path) -> None:
    """`bundle create --split` leaves parts and no tar; joined they are a bundle."""
    maker = Maker(tmp_path / "maker", nginx_mirrors([offline.world.root]))
    done = maker.create(*WANTED, "--split", "2MiB", out=tmp_path / "out" / NAME)
    assert done.code == 0, done.err
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "out").iterdir()}
    numbers = [name for name in sizes if name.startswith(f"{NAME}.0")]
    assert {*sizes} == {*numbers, "join.py", f"{NAME}.parts.json"}
    assert len(numbers) >= 4
    assert max(sizes.values()) == 2 * MIB
    assert resume_dl("bundle", "join", tmp_path / "out").returncode == 0
    assert resume_dl("bundle", "verify", tmp_path / "out" / NAME).returncode == 0
