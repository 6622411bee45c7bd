"""Fixtures of the tests that run real programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from faults.server import FaultServer
from support.adopting import Adoptable, Place, build_adoptable
from support.conda_cache import Offer, build_offer
from support.fetching import User
from support.nginx import NginxMirrors


@pytest.fixture(scope="session")
def offer(tmp_path_factory: pytest.TempPathFactory) -> Offer:
    """Two small channels on disk with what a solve of pytorch=1.7 needs."""
    return build_offer(tmp_path_factory.mktemp("offer"))


@pytest.fixture
def server(offer: Offer, fault_server: Callable[..., FaultServer]) -> FaultServer:
    """A fault server with the offer at two mirrors; a module's own ``offer`` is what it serves there."""
    server = fault_server(ports=2)
    server.mount(offer.root)
    return server


@pytest.fixture
def user(tmp_path: Path, server: FaultServer) -> User:
    """A user with both mirrors of ``server``."""
    user = User(tmp_path / "user")
    user.mirrors(one=server.base(0), two=server.base(1))
    return user


@pytest.fixture
def faulty(tmp_path: Path, server: FaultServer) -> tuple[FaultServer, User]:
    """``server``, and a user with both its mirrors, where a module's own ``user`` has others."""
    user = User(tmp_path / "user")
    user.mirrors(one=server.base(0), two=server.base(1))
    return server, user


@pytest.fixture(scope="session")
def adoptable(tmp_path_factory: pytest.TempPathFactory) -> Adoptable:
    """A channel and a package index with what ``adopt`` may find."""
    return build_adoptable(tmp_path_factory.mktemp("adopt"))


@pytest.fixture
def place(tmp_path: Path, nginx_mirrors: Callable[..., NginxMirrors], adoptable: Adoptable) -> Place:
    """A user with a folder of downloads, and both indexes on one mirror."""
    nginx = nginx_mirrors([adoptable.root])
    user = User(tmp_path / "user")
    user.mirrors(one=nginx.base(0))
    folder = tmp_path / "Downloads"
    folder.mkdir()
    wheels = tmp_path / "wheels"
    options = ["--index-url", f"{nginx.base(0)}/simple", "--wheel-dir", str(wheels)]
    return Place(user, adoptable, nginx, folder, options)
