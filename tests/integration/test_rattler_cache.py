"""``fetch --rattler-cache``: what py-rattler installs from afterwards without asking for an archive, as pixi would.

Every version at hand installs: the one of this environment, and each interpreter that ``RESUME_DL_TEST_RATTLER`` names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.conda_cache import Offer
from support.fetching import User
from support.nginx import NginxMirrors

PYTHONS = [sys.executable, *filter(None, os.environ.get("RESUME_DL_TEST_RATTLER", "").split(os.pathsep))]
INSTALL = """
import asyncio, json, sys
from rattler import Channel, PackageName, SparseRepoData, install

async def main(prefix, *repodata):
    records = []
    for base, subdir, path in zip(repodata[::3], repodata[1::3], repodata[2::3]):
        index = SparseRepoData(Channel(base), subdir, path)
        for name in index.package_names():
            records += index.load_records(PackageName(name))
    wanted = [record for record in records if str(record.version) != "1.7.0"]  # pytorch is there twice
    await install(wanted, target_prefix=prefix, show_progress=False)
    print(len(wanted))

asyncio.run(main(*sys.argv[1:]))
"""
"""Where the packages are cached is the default that py-rattler finds by itself."""


@pytest.fixture
def mirror(offer: Offer, nginx_mirrors) -> NginxMirrors:
    return nginx_mirrors([offer.root])


@pytest.fixture
def at_nginx(tmp_path: Path, mirror: NginxMirrors) -> User:
    user = User(tmp_path / "user")
    user.mirrors(one=mirror.base())
    return user


def install(python: str, user: User, offer: Offer, mirror: NginxMirrors, prefix: Path, **env: str) -> int:
    """Install all that the offer's solve needs, by rattler; how many packages."""
    index: list[str] = []
    for channel in ("pytorch", "pkgs/main"):
        for subdir in ("linux-64", "noarch"):
            index += [f"{mirror.base()}/{channel}", subdir, str(offer.root / channel / subdir / "repodata.json")]
    done = subprocess.run(
        [python, "-c", INSTALL, prefix, *index],
        capture_output=True,
        text=True,
        env=user.environment(env),
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def archives(mirror: NginxMirrors) -> Sequence[str]:
    return [request.uri for request in mirror.archive_requests()]


@pytest.mark.parametrize("python", PYTHONS)
def test_rattler_installs_without_a_download(at_nginx, offer, mirror, tmp_path, python):
    """After fetch rattler asks for no archive; conda's package cache is left alone, and so is a second fetch."""
    done = at_nginx.fetch("pytorch=1.7", "--json", "--rattler-cache")
    assert done.code == 0, done.err
    cache = at_nginx.home / ".cache" / "rattler" / "cache" / "pkgs"
    paths = {Path(each["path"]) for each in done.report["artifacts"]}
    assert paths == {cache / package.spec.stem for package in offer.wanted.values()}
    assert at_nginx.archives() == set()
    assert not (cache / ".resume-dl").exists()
    mirror.reset_log()
    assert install(python, at_nginx, offer, mirror, tmp_path / "env") == len(offer.wanted)
    assert archives(mirror) == []
    assert (tmp_path / "env" / "share" / "pytorch" / "payload.bin").is_file()
    again = at_nginx.fetch("pytorch=1.7", "--json", "--rattler-cache")
    assert set(again.statuses.values()) == {"cached"}
    assert archives(mirror) == []
