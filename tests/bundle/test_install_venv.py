"""install.py -n NAME on a machine that has only pip: real virtual environments, at a place that is named."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.installable import PYTHON, is_linux, lay_bundle
from support.pip_index import BuiltFile, build_wheel

pytestmark = pytest.mark.skipif(not is_linux(), reason="the bundle is for linux-64")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[BuiltFile]:
    return [build_wheel(tmp_path_factory.mktemp("wheels"), "demo-app", "1.0")]


@pytest.fixture
def bundle(wheels: list[BuiltFile], tmp_path: Path) -> Path:
    """One wheel, for this Python."""
    lay_bundle(tmp_path / "bundle", (), wheels, python=PYTHON, platform="linux-64")
    return tmp_path / "bundle"


def environment(tmp_path: Path, env: Mapping[str, str]) -> dict[str, str]:
    """A user whose machine has no conda, and whose pip reaches no index."""
    own = {"HOME": str(tmp_path / "the home"), "PATH": "/usr/bin:/bin", "RESUME_DL_CONDA": "none"}
    return {**own, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", **env}


def install(bundle: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """``python install.py`` in a bundle."""
    return subprocess.run(
        [sys.executable, bundle / "install.py", *arguments],
        env=environment(bundle.parent, env),
        cwd=bundle.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def version_in(shell: str, bundle: Path) -> str:
    """What a shell says of the package after that line."""
    line = f"{shell} && python -c 'import demo_app; print(demo_app.VERSION)'"
    done = subprocess.run(
        ["sh", "-c", line], env=environment(bundle.parent, {}), capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr


def test_a_name_becomes_a_venv_in_the_home(bundle: Path, tmp_path: Path) -> None:
    """It says where, and its last line is what to type; a second time it installs into that one."""
    (tmp_path / "the home").mkdir()
    prefix = tmp_path / "the home" / ".virtualenvs" / "lab"
    done = install(bundle, "-n", "lab")
    assert done.returncode == 0, done.stderr
    assert f"'lab' is the virtual environment {prefix}" in done.stderr
    assert (prefix / "pyvenv.cfg").is_file()
    typed = done.stdout.splitlines()[-1].partition("activate it: ")[2].partition(";")[0]
    assert typed == f". {shlex.quote(str(prefix / 'bin' / 'activate'))}"
    assert version_in(typed, bundle) == "1.0"
    again = install(bundle, "-n", "lab")
    assert again.returncode == 0, again.stderr
    assert "the existing environment" in again.stderr
    assert sorted(path.name for path in prefix.parent.iterdir()) == ["lab"]


def test_workon_home_says_where(bundle: Path, tmp_path: Path) -> None:
    """The folder that virtualenvwrapper and others use, made if it is not there."""
    done = install(bundle, "-n", "lab", WORKON_HOME=str(tmp_path / "envs" / "mine"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "envs" / "mine" / "lab" / "pyvenv.cfg").is_file()


def test_a_dry_run_says_where_and_makes_nothing(bundle: Path, tmp_path: Path) -> None:
    done = install(bundle, "-n", "lab", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert f"as a new environment: {tmp_path / 'the home' / '.virtualenvs' / 'lab'}" in done.stderr
    assert not (tmp_path / "the home").exists()


@pytest.mark.parametrize(
    ("name", "env", "words"),
    [
        ("lab", {"WORKON_HOME": "relative"}, "-p ./lab"),
        ("lab", {"WORKON_HOME": "/proc/self/envs"}, "-p ./lab"),
        ("base", {}, "give -p PREFIX"),
        ("lab", {"RESUME_DL_CONDA": "/nowhere/conda"}, "RESUME_DL_CONDA names /nowhere/conda"),
    ],
)
def test_impossible_requests_are_refused_with_a_remedy(
    bundle: Path, tmp_path: Path, name: str, env: dict[str, str], words: str
) -> None:
    """A folder that nothing can be made in, conda's own base, a conda that is named and lost: nothing is made."""
    done = install(bundle, "-n", name, **env)
    assert done.returncode == 5, done.stderr
    assert words in done.stderr
    assert not (tmp_path / "the home").exists()
    assert not os.path.lexists(tmp_path / "relative")
