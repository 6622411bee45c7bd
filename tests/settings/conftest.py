"""Fixtures of the tests of settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from settings.users_machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "home").mkdir()
    env = {"HOME": str(tmp_path / "home"), "USERPROFILE": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    env |= {f"RESUME_DL_{kind}_DIR": str(tmp_path / kind.lower()) for kind in ("CONFIG", "CACHE", "STATE")}
    return Machine(tmp_path, {**env, "RESUME_DL_CONDA": "none"})
