"""Fixtures of the tests that run real programs."""

from __future__ import annotations

import pytest

from support.conda_cache import Offer, build_offer
from support.conda_env import test_conda  # noqa: F401 - a fixture, found here by its name


@pytest.fixture(scope="session")
def offer(tmp_path_factory: pytest.TempPathFactory) -> Offer:
    """Two small channels on disk with what a solve of pytorch=1.7 needs."""
    return build_offer(tmp_path_factory.mktemp("offer"))
