"""README.txt: its commands are run as they stand there, by a real conda, pip, uv and sha256sum."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from resume_dl.bundle.readme import write_readme
from resume_dl.demo.channel import PackageSpec
from resume_dl.model.bundle import Manifest
from resume_dl.resolve.uv_program import find_uv
from support.conda_env import TestConda
from support.installable import venv_with_pip
from support.laid_out import LaidOut, lay_out
from support.pip_index import build_wheel

TOOL = PackageSpec(name="tool", version="1.0", files={"share/tool": b"here"})
CUDA = ("__cuda=9.2=0", "__glibc=2.17=0")


@pytest.fixture
def bundle(tmp_path: Path) -> LaidOut:
    return lay_out(
        tmp_path / "my bundle",
        conda={"linux-64": [TOOL], "win-64": [replace(TOOL, subdir="win-64")]},
        wheels={"linux-64": [build_wheel(tmp_path / "built", "demo.app", "1!2.0+cu101")]},
        python={"linux-64": f"{sys.version_info.major}.{sys.version_info.minor}"},
        virtual_packages=CUDA,
        requested=["tool"],
    )


def commands(bundle: LaidOut, word: str) -> list[str]:
    """The README's lines that start with ``word``, NAME filled in; a title (``Linux:``) before it is passed over."""
    lines = (line.strip() for line in bundle.text("README.txt").splitlines() if line.startswith("    "))
    plain = (line.partition(":  ")[2].strip() or line for line in lines)
    return [line.replace("NAME", "demo").replace("PACKAGE ...", "tool") for line in plain if line.startswith(word)]


def program(folder: Path, name: str, *command: str | Path) -> None:
    """Make ``name`` a program of ``folder``."""
    folder.mkdir(exist_ok=True)
    words = " ".join(f'"{word}"' for word in command)
    (folder / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    (folder / name).chmod(0o755)


def typed(line: str, bundle: LaidOut, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """What a user's shell makes of a line, in the bundle's folder."""
    path = f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}"
    environment = {"HOME": str(tmp_path), **env, "PATH": path}
    return subprocess.run(
        line, shell=True, cwd=bundle.folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.conda
def test_commands_of_conda_make_the_environment(test_conda: TestConda, bundle: LaidOut, tmp_path: Path) -> None:
    program(tmp_path / "programs", "conda", test_conda.python, "-m", "conda")
    offline = [line for line in commands(bundle, "conda") if "--offline" in line]
    assert [line.split()[1] for line in offline] == ["create", "create", "env", "create"]
    for line, platform in zip(offline, ("linux-64", "win-64", "linux-64", "linux-64"), strict=True):
        name = f"demo{offline.index(line)}"
        done = typed(
            line.replace("demo", name), bundle, tmp_path, **{**test_conda.environment(), "CONDA_SUBDIR": platform}
        )
        assert done.returncode == 0, line + done.stdout + done.stderr
        installed = test_conda.folder / "envs" / name / "share" / "tool"
        assert installed.read_bytes() == b"here", line


def test_commands_of_pip_and_uv_install_the_wheels(bundle: LaidOut, tmp_path: Path) -> None:
    lines = [*commands(bundle, "python -m pip"), *commands(bundle, "uv pip")]
    (offline,) = {line for line in lines if "requirements/linux-64.txt" in line}
    (by_uv,) = [line for line in lines if line.startswith("uv")]
    program(tmp_path / "programs", "uv", find_uv())
    for number, line in enumerate((offline, by_uv)):
        programs = venv_with_pip(tmp_path / f"venv{number}").parent
        activated = f'. "{programs}/activate"; {line}'
        done = typed(activated, bundle, tmp_path, PIP_DISABLE_PIP_VERSION_CHECK="1")
        assert done.returncode == 0, line + done.stderr
        assert [*programs.parent.glob("lib/python*/site-packages/demo_app-1!2.0+cu101.dist-info")]


def test_the_check_without_python_finds_a_flip(bundle: LaidOut, tmp_path: Path) -> None:
    (line,) = commands(bundle, "sha256sum")
    assert typed(line, bundle, tmp_path).returncode == 0
    (bundle.folder / "pylock.toml").write_text("x", encoding="utf-8")
    done = typed(line, bundle, tmp_path)
    assert done.returncode == 1
    assert "pylock.toml: FAILED" in done.stdout


def test_the_readme_says_for_whom_the_bundle_is(bundle: LaidOut) -> None:
    text = bundle.text("README.txt")
    assert "conda: tool" in text
    assert "linux-64: Python 3." in text
    assert "1 conda package, 1 pip package" in text
    assert "win-64: Python 3.11, 1 conda package\n        solved for __cuda=9.2=0, __glibc=2.17=0" in text
    assert "export CONDA_OVERRIDE_CUDA=9.2" in text
    assert "What is not in it" not in text
    assert "allowed_signers" not in text
    assert max(len(line) for line in text.splitlines()) <= 110
    assert "\r" not in text


def test_the_newest_cuda_is_the_one_to_tell(bundle: LaidOut) -> None:
    """By version and not by letters."""
    linux, windows = bundle.manifest.platforms
    platforms = (linux, replace(windows, virtual_packages=("__cuda=11.0=0",)))
    text = written(replace(bundle.manifest, platforms=platforms))
    assert "export CONDA_OVERRIDE_CUDA=11.0" in text
    plain = tuple(replace(each, virtual_packages=()) for each in platforms)
    assert "CUDA" not in written(replace(bundle.manifest, platforms=plain))


def test_a_delta_says_what_it_lacks_and_a_signed_one_how_to_check(bundle: LaidOut) -> None:
    first, *others = bundle.manifest.packages
    delta = replace(bundle.manifest, packages=(replace(first, included=False, size=5_250_000), *others))
    text = written(delta, signed=True)
    assert "1 package (5.2 MB) that the target had" in text
    assert "ssh-keygen -Y verify -f allowed_signers -I IDENTITY -n resume-dl-bundle -s manifest.json.sig" in text


def test_what_is_not_there_is_not_written_of(tmp_path: Path) -> None:
    wheels = lay_out(tmp_path / "wheels", wheels={"linux-64": [build_wheel(tmp_path / "built", "app", "1.0")]})
    assert "By plain conda" not in wheels.text("README.txt")
    assert "conda create" not in wheels.text("README.txt")
    conda = lay_out(tmp_path / "conda", conda={"linux-64": [TOOL]})
    assert "By plain pip" not in conda.text("README.txt")
    assert "pylock" not in conda.text("README.txt")


def written(manifest: Manifest, *, signed: bool = False) -> str:
    return b"".join(write_readme(manifest, signed=signed)).decode()
