"""``conda create --file`` with a lock file that conda-lockfiles reads: its packages come through the plugin.

They run with a conda that has conda-lockfiles, named by RESUME_DL_TEST_CONDA; that one makes the lock files too.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from resume_dl.yaml_text import load_yaml
from support.conda_cache import SPEC
from support.plugin import our_lines, use_mirrors

pytestmark = [pytest.mark.conda, pytest.mark.nginx]

FORMATS = {"conda-lock.yml": "conda-lock-v1", "pixi.lock": "rattler-lock-v6"}


@pytest.fixture
def served(offer, nginx_mirrors):
    return nginx_mirrors([offer.root, offer.root])


@pytest.fixture
def conda(test_conda, served):
    """A conda that reads lock files, with the channels at a mirror."""
    known = subprocess.run([test_conda.python, "-c", "import conda_lockfiles"], capture_output=True, check=False)
    if known.returncode != 0:
        pytest.skip("this conda has no conda-lockfiles; name one that has by RESUME_DL_TEST_CONDA")
    use_mirrors(test_conda, served.base(0), [served.base(1)])
    return test_conda


@pytest.fixture
def locked(conda):
    """A function: the lock file of this name that conda writes of an environment; its packages are in another cache."""

    def lock(name):
        elsewhere = {"CONDA_PKGS_DIRS": str(conda.folder / "other")}
        source, path = conda.folder / "source", conda.folder / name
        for words in (["create", "-p", source, *SPEC], ["export", "-p", source, "--format", FORMATS[name], "-f", path]):
            done = conda.run(*words, plugin=False, env=elsewhere)
            assert done.returncode == 0, done.stdout + done.stderr
        return path

    return lock


def create(conda, lock):
    done = conda.run("create", "-p", conda.folder / "env", "--file", lock)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def linked(conda, name="env"):
    return {json.loads(path.read_text())["fn"] for path in (conda.folder / name / "conda-meta").glob("*.json")}


@pytest.mark.parametrize("name", FORMATS)
def test_every_archive_is_fetched_by_us(conda, locked, offer, served, name):
    """conda sends no request for an archive, and installs what it locked."""
    lock = locked(name)
    before = served.archive_requests()
    assert not any(request.is_ours for request in before)
    done = create(conda, lock)
    names = {package.filename for package in offer.wanted.values()}
    assert linked(conda) == linked(conda, "source") == names
    asked = served.archive_requests()[len(before) :]
    assert {request.uri.rpartition("/")[2] for request in asked} == names
    assert all(request.is_ours for request in asked), done.stderr
    assert {request.mirror for request in asked} > {0}


def test_other_categories_and_platforms_are_left_out(conda, locked, served):
    """As conda-lockfiles leaves them out."""
    lock = locked("conda-lock.yml")
    document = load_yaml(lock.read_text(encoding="utf-8"))
    development, foreign, *rest = document["package"]
    development["category"] = "dev"
    document["metadata"]["platforms"].append("osx-64")
    foreign["platform"] = "osx-64"
    lock.write_text(json.dumps(document), encoding="utf-8")
    before = len(served.archive_requests())
    create(conda, lock)
    wanted = {each["url"].rpartition("/")[2] for each in rest}
    assert linked(conda) == wanted
    asked = served.archive_requests()[before:]
    assert {request.uri.rpartition("/")[2] for request in asked} == wanted
    assert all(request.is_ours for request in asked)


def test_a_lock_that_we_refuse_is_left_to_conda(conda, locked, served):
    """A package without a digest cannot be verified: one line says it, and conda installs by itself."""
    lock = locked("conda-lock.yml")
    document = load_yaml(lock.read_text(encoding="utf-8"))
    document["package"][0]["hash"] = {}
    lock.write_text(json.dumps(document), encoding="utf-8")
    before = len(served.archive_requests())
    done = create(conda, lock)
    assert linked(conda) == linked(conda, "source")
    (line,) = our_lines(done.stderr)
    assert "has no digest" in line
    assert "conda continues on its own" in line
    assert not any(request.is_ours for request in served.archive_requests()[before:])
