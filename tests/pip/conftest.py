"""Fixtures of the tests of pip's side."""

from __future__ import annotations

from pathlib import Path

import pytest

from resume_dl.settings import pip_settings
from settings.users_machine import Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A user with a home and no setting of pip's, whose system has none either."""
    monkeypatch.setattr(pip_settings, "_ETC", tmp_path / "no etc")
    (tmp_path / "home").mkdir()
    env = {"HOME": str(tmp_path / "home"), "USERPROFILE": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    env |= {f"RESUME_DL_{kind}_DIR": str(tmp_path / kind.lower()) for kind in ("CONFIG", "CACHE", "STATE")}
    return Machine(tmp_path, {**env, "RESUME_DL_CONDA": "none", "XDG_CONFIG_DIRS": str(tmp_path / "etc")})
