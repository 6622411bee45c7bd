"""conda-lock.yml made by conda-lock itself: fetched without an index and a solve, installed offline by conda."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest

from support.conda_cache import SPEC
from support.conda_env import bundled_python
from support.fetching import user_of
from support.typed_page import program

CONDA_LOCK = """
import sys
sys.meta_path[:] = [each for each in sys.meta_path if type(each).__name__ != "BundledConda"]
for name in [name for name in sys.modules if name.partition(".")[0] == "conda_lock"]:
    del sys.modules[name]
from conda_lock.conda_lock import main
main(prog_name="conda-lock")
"""
"""The whole conda-lock, of which the tests' conda is a part."""

pytestmark = [pytest.mark.conda, pytest.mark.nginx]


@pytest.fixture
def served(offer, nginx_mirrors):
    return nginx_mirrors([offer.root, offer.root])


@pytest.fixture
def user(test_conda, served, tmp_path):
    test_conda.configure(channels=[f"{served.base(0)}/pytorch", f"{served.base(0)}/pkgs/main"])
    return user_of(test_conda, served, tmp_path)


def conda_lock(test_conda, folder, environment, *platforms):
    """The lock file that conda-lock makes of an environment.yml."""
    source = folder / "environment.yml"
    source.write_text(json.dumps(environment), encoding="utf-8")
    conda = folder / "bin" / "conda"
    conda.parent.mkdir()
    env = test_conda.environment(plugin=False)
    program(conda, f"export PYTHONPATH={env['PYTHONPATH']}", test_conda.python, "-m", "conda")
    words = [word for name in platforms for word in ("-p", name)]
    lock = folder / "conda-lock.yml"
    done = subprocess.run(
        [bundled_python(), "-c", CONDA_LOCK, "lock", "--conda", conda, "-f", source, *words, "--lockfile", lock],
        env={**env, "NO_PROXY": "127.0.0.1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    return lock


def test_what_conda_lock_locked_is_fetched_and_installed_offline(test_conda, user, served, offer, tmp_path):
    """No index is requested and nothing is solved; conda then installs without any request."""
    channels = offer.urls(served.base(0))
    lock = conda_lock(test_conda, tmp_path, {"channels": channels, "dependencies": list(SPEC)}, "linux-64")
    served.reset_log()
    done = user.fetch("--file", lock, "--json")
    assert done.code == 0, done.err
    user.assert_complete(offer.wanted)
    assert [each.uri for each in served.requests() if not each.is_archive] == []
    assert f"conda-lock.yml: {len(offer.wanted)} conda packages for linux-64, category main" in done.err
    assert "solving for" not in done.err

    served.reset_log()
    explicit = shlex.split(done.report["next_command"])[-1]
    made = test_conda.run("create", "-p", test_conda.folder / "env", "--file", explicit, "--offline", plugin=False)
    assert made.returncode == 0, made.stderr
    assert linked(test_conda) == {package.filename for package in offer.wanted.values()}
    assert served.requests() == []


def linked(conda):
    """File names of what is installed."""
    metas = (conda.folder / "env" / "conda-meta").glob("*.json")
    return {json.loads(path.read_text())["fn"] for path in metas}
