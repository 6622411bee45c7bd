"""``pip install .`` into an empty environment gives a working ``resume-dl`` with its mirrors."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from resume_dl import __version__
from support.fetching import User
from support.installable import venv_with_pip

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_pip_install(tmp_path, offer, nginx_mirrors):
    """The wheel holds all modules and mirrors.toml, its command runs away from the checkout, conda's hook is there."""
    place = tmp_path / "venv"
    python = venv_with_pip(place)
    folder = python.parent
    # most of what it depends on is never imported here: to compile all of it takes longer than all of the runs
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", PROJECT]
    done = subprocess.run(install, capture_output=True, text=True, cwd=tmp_path, check=False)
    if done.returncode != 0 and "No matching distribution" in done.stderr:
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RESUME_DL", "CONDA"))}
    env |= {f"RESUME_DL_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "CACHE", "STATE")}
    env |= {"RESUME_DL_CONDA": "none", "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}

    def run(*line):
        return subprocess.run([*line], capture_output=True, text=True, cwd=tmp_path, env=env, check=False)

    command = folder / "resume-dl"
    assert run(command, "--version").stdout.strip().endswith(__version__)
    inside = run(python, "-c", "import resume_dl; print(resume_dl.__path__[0])").stdout.strip()
    assert Path(inside).is_relative_to(place)
    assert (Path(inside) / "mirrors.toml").read_bytes() == (PROJECT / "mirrors.toml").read_bytes()
    for name in ("tests", "benchmarks", "docs"):
        assert not (Path(inside).parent / name).exists()
    shipped = {path.relative_to(PROJECT / "src") for path in (PROJECT / "src" / "resume_dl").rglob("*.py")}
    assert {path for path in shipped if not (Path(inside).parent / path).is_file()} == set()
    refused = run(command, "fetch", "a", "--mirror", "no-such-mirror")
    assert refused.returncode == 2
    assert "tuna" in refused.stderr  # it knows the shipped mirrors
    entry = "import importlib.metadata as m; print([e.value for e in m.entry_points(group='conda')])"
    assert run(python, "-c", entry).stdout.strip() == "['resume_dl.conda_plugin']"
    served = nginx_mirrors([offer.root])
    user = User(tmp_path / "user")
    user.mirrors(only=served.base(0))
    fetched = subprocess.run(
        [command, "fetch", *user.options, "pytorch=1.7", "--no-deps", "--json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**user.environment(), "PYTHONPATH": ""},
        check=False,
    )
    assert fetched.returncode == 0, fetched.stderr
    user.assert_complete(
        [offer.wanted[f"pytorch/{one['filename']}"] for one in json.loads(fetched.stdout)["artifacts"]]
    )
