"""The conda recipe says what pyproject.toml says, builds, and passes its own tests inside a real conda.

It is built on a channel of this machine whose packages are empty. Their python is a script that starts this
environment's Python for pip, and the one that has conda for the tests. So the build, the package and the commands are
real; what conda-forge's own packages hold is not looked at.
"""

from __future__ import annotations

import configparser
import importlib.metadata
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rattler_build import Stage0Recipe, VariantConfig

from resume_dl import __version__
from resume_dl.demo.channel import build_channel
from resume_dl.demo.package import PackageSpec
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.settings.condarc import native_subdir
from support.conda_env import PROJECT, bundled_python

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RECIPE = Path("recipe", "recipe.yaml")
NEEDED = ("src", "recipe", "pyproject.toml", "mirrors.toml", "README.md", "LICENSE")
PYTHON = "3.10"
OF_CONDA = {"backports-zstd >=1.0": "zstandard >=0.22", "ruamel-yaml >=0.17.21": "ruamel.yaml >=0.17.21"}
"""What conda names differently, or has in its place: conda depends on zstandard, and Python 3.14 has no backport."""
BUILD = """
import sys
from rattler_build import Stage0Recipe, ToolConfiguration

recipe, output, channel = sys.argv[1:]
tool = ToolConfiguration(test_strategy="native", use_sharded=False)
for result in Stage0Recipe.from_file(recipe).run_build(tool_config=tool, output_dir=output, channels=[channel]):
    print(*result.packages)
"""


@pytest.fixture(scope="module")
def rendered() -> dict[str, Any]:
    """The recipe as the builder reads it."""
    (variant,) = Stage0Recipe.from_file(PROJECT / RECIPE).render(VariantConfig())
    return variant.recipe.to_dict()


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))


def as_conda(requirement: str) -> set[str]:
    """A requirement of pyproject.toml as the recipe has to say it; what an extra adds is said too, markers are not.

    One noarch package serves every Python and platform, so it needs what any of them needs.
    """
    wanted = Requirement(requirement)
    name = canonicalize_name(wanted.name)
    bounds = str(wanted.specifier).removeprefix("==")
    found = {f"{name} {bounds}".strip()}
    for extra in wanted.extras:
        for more in map(Requirement, importlib.metadata.requires(wanted.name) or ()):
            if more.marker is not None and not more.marker.evaluate({"extra": ""}):
                found |= as_conda(f"{more.name}{more.specifier}") if more.marker.evaluate({"extra": extra}) else set()
    return found


def test_it_says_what_pyproject_says(rendered, project):
    """Name, version, summary, licence, lowest Python, commands."""
    about = project["project"]
    assert rendered["package"] == {"name": about["name"], "version": __version__}
    assert (rendered["about"]["summary"], rendered["about"]["license"]) == (about["description"], about["license"])
    assert rendered["about"]["license_file"] == about["license-files"]
    assert rendered["build"]["noarch"] == "python"
    commands = [f"{name} = {place}" for name, place in about["scripts"].items()]
    assert rendered["build"]["python"]["entry_points"] == commands
    assert f"python {about['requires-python']}" == f"python >={PYTHON}"
    assert f"python {PYTHON}.*" in rendered["requirements"]["host"]


def test_dependencies_are_those_of_pyproject(rendered, project):
    """Names and bounds, in both directions, with the extras; conda is the one that is declared in the recipe alone."""
    extras = project["project"]["optional-dependencies"]
    del extras["rattler_solver"]  # conda's own solvers keep the ranges of all that is installed
    del extras["proxy-login"]  # few need it: conda install pyspnego
    assert extras.pop("all") == [f"resume-dl[{','.join(extras)}]"]
    wanted = [*project["project"]["dependencies"], *(each for extra in extras.values() for each in extra)]
    run = set().union(*map(as_conda, wanted))
    run = {OF_CONDA.get(each, each) for each in run}
    assert "socksio 1.*" in run  # httpx's extra: nobody would miss it before a SOCKS proxy is used
    assert set(rendered["requirements"]["run"]) == run | {f"python >={PYTHON}", "conda >=24.7"}
    build = set().union(*map(as_conda, project["build-system"]["requires"]))
    assert set(rendered["requirements"]["host"]) == build | {f"python {PYTHON}.*", "pip"}


@pytest.mark.slow
@pytest.mark.conda
@pytest.mark.skipif(sys.platform == "win32", reason="the channel's python is a shell script")
def test_it_builds_and_passes_its_own_tests(rendered, tmp_path):
    """The package has the command, the mirrors, the licence and the plugin's entry point; its tests run a conda."""
    for name in NEEDED:
        source, target = PROJECT / name, tmp_path / "project" / name
        target.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
    channel = make_channel(tmp_path / "channel", rendered)
    built = build(tmp_path, channel)
    assert built.parent.name == "noarch"
    unpacked = tmp_path / "unpacked"
    with RattlerWorker() as worker:
        worker.extract(built, unpacked)
    index = json.loads((unpacked / "info" / "index.json").read_text())
    assert set(index["depends"]) == set(rendered["requirements"]["run"])
    link = json.loads((unpacked / "info" / "link.json").read_text())
    assert link["noarch"]["entry_points"] == rendered["build"]["python"]["entry_points"]
    (metadata,) = (unpacked / "site-packages").glob("*.dist-info")
    points = configparser.ConfigParser()
    points.read(metadata / "entry_points.txt")
    assert dict(points["conda"]) == {"resume-dl": "resume_dl.conda_plugin"}
    assert (unpacked / "info" / "licenses" / "LICENSE").read_bytes() == (PROJECT / "LICENSE").read_bytes()
    shipped = unpacked / "site-packages" / "resume_dl"
    assert (shipped / "mirrors.toml").read_bytes() == (PROJECT / "mirrors.toml").read_bytes()
    assert {path.name for path in unpacked.iterdir()} == {"info", "site-packages"}  # no tests, no scripts of ours


def make_channel(root: Path, rendered: dict[str, Any]) -> str:
    """A channel with an empty package for all that the recipe needs, and that python; its URL."""
    script = f"""#!/bin/sh
prefix=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$prefix/lib/python{PYTHON}/site-packages"
if [ "$1 $2" = "-m pip" ]; then
    PIP_TARGET="$PYTHONPATH" exec {shlex.quote(sys.executable)} "$@"
fi
exec {shlex.quote(str(bundled_python()))} "$@"
"""
    files = {name: script.encode() for name in ("bin/python", f"bin/python{PYTHON}")}
    packages = [PackageSpec(name="python", version=f"{PYTHON}.0", subdir=native_subdir(), files=files)]
    for needed in rendered["requirements"]["host"] + rendered["requirements"]["run"]:
        name, _, bounds = needed.partition(" ")
        if name not in {package.name for package in packages}:
            version = bounds.lstrip(">=").removesuffix(".*") or "1"
            packages.append(PackageSpec(name=name, version=version, subdir="noarch"))
    build_channel(root, packages, subdirs=(native_subdir(), "noarch"))
    return root.as_uri()


def build(folder: Path, channel: str) -> Path:
    """Build and test in a process of its own, which has nothing of this machine's user; the one archive."""
    places = {"HOME": folder / "home", "RATTLER_CACHE_DIR": folder / "cache", "TMPDIR": folder}
    done = subprocess.run(
        [sys.executable, "-c", BUILD, folder / "project" / RECIPE, folder / "built", channel],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **{name: str(place) for name, place in places.items()}},
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = done.stdout.split()
    return Path(archive)
