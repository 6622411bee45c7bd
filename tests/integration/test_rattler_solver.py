"""A base whose conda solves with conda-rattler-solver: installing ours there by pip leaves it what it needs.

pip looks at the requirements of what it installs, not at those of what is there. So ours must take any py-rattler that
conda-rattler-solver permits, and the extra ``rattler_solver`` makes pip look at its range, whatever is upgraded.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from resume_dl.demo.channel import PackageSpec, build_channel
from support.conda_env import PROJECT, CondaAtHand, TestConda, condas_at_hand

pytestmark = [
    pytest.mark.conda,
    pytest.mark.slow,
    pytest.mark.skipif("RESUME_DL_TEST_INDEX" not in os.environ, reason="asks a package index: make test-long"),
]
WHAT_CONDA_NEEDS = (
    *("archspec", "boltons", "charset-normalizer", "conda-package-handling", "distro", "frozendict", "msgpack"),
    *("packaging", "pluggy", "platformdirs", "pycosat", "requests", "ruamel.yaml", "setuptools", "tqdm", "truststore"),
    "backports.zstd; python_version < '3.14'",
)
"""Whatever of conda's requirements the index has; conda itself it has only of 2017."""


def run(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """A wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=PROJECT, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture
def base(tmp_path):
    """An environment with the newest conda at hand and conda-rattler-solver, without ours."""
    named = [conda.python for conda in condas_at_hand() if conda.python is not None]
    if not named:
        pytest.skip("24.7 is too old for conda-rattler-solver; name a newer conda by RESUME_DL_TEST_CONDA")
    code = "import conda; print(conda.__path__[0])"
    package = run(named[-1], "-c", code).stdout.strip()
    folder = tmp_path / "base"
    run(named[-1], "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "conda-rattler-solver", *WHAT_CONDA_NEEDS)
    (site,) = folder.glob("lib/python*/site-packages")
    shutil.copytree(package, site / "conda")
    (folder / "conda-meta").mkdir()
    (folder / "conda-meta" / "history").touch()
    return python


def required(python):
    """The version of py-rattler, and whether conda-rattler-solver permits it."""
    code = """
from importlib.metadata import requires, version
from packaging.requirements import Requirement
(wanted,) = [r for r in map(Requirement, requires("conda-rattler-solver")) if r.name == "py-rattler"]
found = version("py-rattler")
print(found, wanted.specifier.contains(found))
"""
    found, permitted = run(python, "-c", code).stdout.split()
    return found, permitted == "True"


def solved(python, folder):
    """The versions that a solve of this conda comes to, by its rattler solver, with our plugin as pip installed it."""
    build_channel(folder / "channel", [PackageSpec(name="app", version=f"{n}.0", payload_size=500) for n in (1, 2)])
    conda = TestConda(CondaAtHand("base", python), folder / "conda")
    conda.configure(solver="rattler", channels=[(folder / "channel").as_uri()])
    as_installed = {"PYTHONPATH": ""}
    known = conda.run("resume-dl", "--version", env=as_installed)
    assert known.stdout.startswith("resume-dl"), known.stdout + known.stderr
    done = conda.run("create", "-p", folder / "env", "--json", "app", env=as_installed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "solver" in json.loads(conda.run("info", "--json", env=as_installed).stdout)["user_agent"]
    return [each["version"] for each in json.loads(done.stdout)["actions"]["LINK"]]


def test_pip_leaves_the_solver_what_it_needs(base, ours, tmp_path):
    """Neither an installation nor an upgrade of everything moves py-rattler out of the solver's range.

    With the extra pip refuses what no version satisfies, and leaves everything as it is.
    """
    before = required(base)
    assert before[1]
    pip = [base, "-m", "pip", "install", "--quiet"]
    with_extra = f"resume-dl[rattler_solver] @ {ours.as_uri()}"

    too_old = tmp_path / "constraints.txt"
    too_old.write_text("py-rattler<0.23\n", encoding="utf-8")
    done = subprocess.run([*pip, "-c", too_old, with_extra], capture_output=True, text=True, check=False)
    assert (done.returncode, "conflict" in done.stderr) == (1, True), done.stderr
    assert required(base) == before
    assert not list(base.parent.parent.glob("lib/python*/site-packages/resume_dl*"))

    run(*pip, ours)
    assert required(base) == before
    assert solved(base, tmp_path / "plain") == ["2.0"]
    run(*pip, "--upgrade", "--upgrade-strategy", "eager", with_extra)
    assert required(base)[1]
    assert solved(base, tmp_path / "upgraded") == ["2.0"]
