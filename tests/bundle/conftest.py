"""Fixtures of the tests of bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.bundles import Maker, World, build_world
from support.nginx import INSTALL_HINT, NginxMirrors, find_nginx
from support.pythons import python_of


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Channels and an index for two platforms (``support.bundles``), with small packages only."""
    return build_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def servers(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NginxMirrors]:
    """Two mirrors of the world, for what a module's tests make once; nobody may change them."""
    if find_nginx() is None:
        pytest.skip(INSTALL_HINT)
    nginx = NginxMirrors([world.root, world.root], tmp_path_factory.mktemp("servers"))
    nginx.start()
    yield nginx
    nginx.stop()


@pytest.fixture
def maker(world: World, nginx_mirrors: Callable[..., NginxMirrors], tmp_path: Path) -> Maker:
    """Somebody who makes bundles from two mirrors of the world."""
    return Maker(tmp_path / "maker", nginx_mirrors([world.root, world.root]))


@pytest.fixture
def python(request: pytest.FixtureRequest) -> str:
    """A Python of this machine by its name in ``support.pythons``, looked for when the test runs."""
    return python_of(request.param)
