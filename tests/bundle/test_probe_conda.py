"""The probe beside a real conda: what it says is what that conda would solve with; and what a reader makes of it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest

from resume_dl.bundle_creation.target_description import read_inventory, read_target
from resume_dl.cli.probe import CREATED_BY
from support.conda_env import TestConda
from support.offline_scripts import archive

pytestmark = pytest.mark.conda
CHANNELS = [
    "https://conda.anaconda.org/t/tk-123-secret/private",
    "https://user:secret@nexus.example/conda/main",
    "conda-forge",
]


def environment(conda: TestConda, **more: str) -> dict[str, str]:
    """A user's, for whom this is the conda; conda says no other platform than the machine has."""
    conda.configure(channels=[*CHANNELS, (conda.folder / "own channel").as_uri()], subdir=None)
    places = {f"RESUME_DL_{kind}_DIR": str(conda.folder / kind.lower()) for kind in ("CONFIG", "CACHE", "STATE")}
    environment = conda.environment()
    del environment["CONDA_OVERRIDE_CUDA"]  # the probe asks without it
    return {**environment, **places, "RESUME_DL_CONDA": str(conda.python), **more}


def ours(env: dict[str, str], *arguments: str, text: bool = True) -> subprocess.CompletedProcess[str]:
    """Our command line."""
    command = [sys.executable, "-m", "resume_dl", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=text, timeout=180, check=False)


def test_the_profile_has_condas_platform_and_virtual_packages(test_conda, tmp_path):
    """Platform and virtual packages as that conda solves with, without what an override makes of them."""
    conda = test_conda
    env = environment(conda)
    command = [str(conda.python), "-m", "conda", "info", "--json"]
    known = json.loads(subprocess.run(command, env=env, capture_output=True, check=True).stdout)
    script = tmp_path / "probe.py"
    script.write_bytes(archive("probe.py"))
    env |= {"CONDA_OVERRIDE_CUDA": "12.0", "CONDA_OVERRIDE_GLIBC": "2.99", "HOSTNAME": "lab-host"}
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert said["platform"] == known["platform"]
    assert said["virtual_packages"] == {
        name: version if build == "0" else f"{version}={build}" for name, version, build in known["virtual_pkgs"]
    }
    assert said["conda"] == {
        "client": "conda",
        "version": known["conda_version"],
        "channels": [
            "https://conda.anaconda.org/private",
            "https://nexus.example/conda/main",
            "https://conda.anaconda.org/conda-forge",
        ],
        "channels_left_out": 1,
        "solver": "classic",
        "channel_priority": "flexible",
    }
    assert "note: channels left out: 1" in done.stderr
    for word in ("secret", "tk-123", str(conda.folder), "own channel", "lab-host", os.uname().nodename):
        assert word not in done.stdout + done.stderr.replace(str(tmp_path), "")


def test_what_it_says_is_read_as_it_was(test_conda, tmp_path):
    """probe -> target.json -> the machine that is solved for; with conda's cache found by conda's own word."""
    conda = test_conda
    env = environment(conda)
    conda.pkgs.mkdir()
    (conda.pkgs / "a-1.0-0.conda").write_bytes(b"an archive")
    (conda.folder / "cache" / "wheels").mkdir(parents=True)
    (conda.folder / "cache" / "wheels" / "b-1.0-py3-none-any.whl").write_bytes(b"a wheel")
    done = ours(env, "probe")
    assert done.returncode == 0, done.stderr
    (tmp_path / "target.json").write_text(done.stdout, encoding="utf-8")
    said = json.loads(done.stdout)
    assert said["created_by"] == CREATED_BY

    target = read_target(tmp_path / "target.json")
    machine, inventory = target.machine, target.inventory
    assert machine.platform == said["platform"]
    assert machine.python == said["python"]
    assert machine.channels == tuple(said["conda"]["channels"])
    assert machine.cuda == "none"
    assert set(machine.virtual_packages) == {f"{name}={value}" for name, value in said["virtual_packages"].items()}
    assert machine.glibc == tuple(int(part) for part in os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))
    assert inventory is not None
    (package,), (wheel,) = inventory.packages, inventory.wheels
    content = b"an archive"
    assert (package.filename, package.size) == ("a-1.0-0.conda", len(content))
    assert package.sha256 == hashlib.sha256(content).hexdigest()
    assert package.md5 == hashlib.md5(content).hexdigest()
    assert (wheel.filename, wheel.sha256) == ("b-1.0-py3-none-any.whl", hashlib.sha256(b"a wheel").hexdigest())
    assert any("left out: 1" in note for note in target.notes)

    done = ours(env, "bundle", "inventory", "--json", "-o", str(tmp_path / "inventory.json"))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    alone = json.loads((tmp_path / "inventory.json").read_text(encoding="ascii"))
    assert alone == {"schema": 1, "kind": "resume-dl inventory", "inventory": said["inventory"]}
    assert read_inventory(tmp_path / "inventory.json") == read_inventory(tmp_path / "target.json") == inventory


def test_a_platform_that_conda_was_told_is_the_one(test_conda):
    """A condarc's ``subdir`` is what it would install."""
    env = environment(test_conda)
    test_conda.configure(subdir="osx-64")
    test_conda.environment()
    done = ours(env, "probe", "--no-inventory")
    said = json.loads(done.stdout)
    assert said["platform"] == "osx-64"
    assert "__glibc" not in said["virtual_packages"]
