"""What fetch leaves in a package cache is taken by micromamba without asking for an archive.

Never run so far: no micromamba could be had where this was written. It follows micromamba's documentation and the
source of libmamba (``package_cache.cpp``): an unpacked folder counts if its record has the size, a digest and the URL,
whatever the scheme; else an archive that has the size and the digest, whatever its URL.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.conda_cache import Offer
from support.fetching import User
from support.nginx import NginxMirrors

VARIABLE = "RESUME_DL_TEST_MICROMAMBA"
pytestmark = pytest.mark.skipif(
    not os.environ.get(VARIABLE), reason=f"no micromamba: name one by {VARIABLE}=/path/to/micromamba"
)


@pytest.fixture
def mirrors(offer: Offer, nginx_mirrors) -> NginxMirrors:
    return nginx_mirrors([offer.root, offer.root])


@pytest.fixture
def user(tmp_path: Path, mirrors: NginxMirrors) -> User:
    user = User(tmp_path / "user")
    user.mirrors(one=mirrors.base(0), two=mirrors.base(1))
    return user


def create(user: User, offer: Offer, base: str) -> Path:
    """``micromamba create`` with the mirror at ``base`` as its channels; the prefix."""
    prefix = user.folder / "env"
    channels = [word for url in offer.urls(base) for word in ("-c", url)]
    own = {
        "MAMBA_ROOT_PREFIX": str(user.folder / "root"),
        "CONDA_PKGS_DIRS": str(user.pkgs),
        "CONDA_SUBDIR": "linux-64",
    }
    done = subprocess.run(
        [
            os.environ[VARIABLE], "create", "-y", "--no-rc", "-p", prefix, "--override-channels", *channels,
            "pytorch=1.7", "python", "pip",
        ],
        capture_output=True, text=True, env=user.environment(own), timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return prefix


@pytest.mark.parametrize("client", [0, 1], ids=["the URL that fetch was told", "another mirror's URL"])
def test_micromamba_takes_what_fetch_left(user, offer, mirrors, client):
    """It links the very files, under the URL that they were fetched for and, by their digest, under another one."""
    channels = [word for url in offer.urls(mirrors.base(0)) for word in ("-c", url)]
    done = user.fetch("pytorch=1.7", "python", "pip", "--override-channels", *channels)
    assert done.code == 0, done.err
    mirrors.reset_log()
    prefix = create(user, offer, mirrors.base(client))
    assert mirrors.archive_requests() == []
    installed = {path.name.removesuffix(".json") for path in (prefix / "conda-meta").glob("*.json")}
    assert installed == {package.spec.stem for package in offer.wanted.values()}


def test_without_fetch_micromamba_downloads(user, offer, mirrors):
    """What the count is worth: without us each archive is asked for."""
    create(user, offer, mirrors.base(0))
    asked = {request.uri.rpartition("/")[2] for request in mirrors.archive_requests()}
    assert asked == {package.filename for package in offer.wanted.values()}
