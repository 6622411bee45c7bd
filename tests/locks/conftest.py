"""Fixtures of the tests of lock files: channels and a package index at nginx, and a user of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.bundles import Maker, World, build_world
from support.conda_cache import Offer, build_offer
from support.fetching import CHANNELS
from support.nginx import NginxMirrors


@pytest.fixture(scope="session")
def offer(tmp_path_factory: pytest.TempPathFactory) -> Offer:
    """Two small channels on disk with what a solve of pytorch=1.7 needs."""
    return build_offer(tmp_path_factory.mktemp("offer"))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Channels and wheels for two platforms (``support.bundles``)."""
    return build_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def maker(world: World, nginx_mirrors: Callable[..., NginxMirrors], tmp_path: Path) -> Maker:
    """Somebody who fetches and makes bundles from two mirrors of the world, which carry the wheels too."""
    nginx = nginx_mirrors([world.root, world.root])
    maker = Maker(tmp_path / "maker", nginx)
    maker.write_mirrors(
        {
            f"mirror{number}": {f"conda:{name}": f"{nginx.base(number)}/{name}" for name in CHANNELS}
            | {"pypi:files": f"{nginx.base(number)}/packages"}
            for number in range(2)
        }
    )
    return maker
