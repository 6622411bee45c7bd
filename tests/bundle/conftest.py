"""Fixtures of the tests of bundles."""

from __future__ import annotations

from support.conda_env import test_conda  # noqa: F401 - a fixture, found here by its name
