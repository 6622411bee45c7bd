"""Where rattler and pixi keep their packages, by what they document and do."""

from __future__ import annotations

import sys

import pytest

from resume_dl.settings.rattler_cache import rattler_packages_dir

pytestmark = pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="the user's cache folder of Linux")


@pytest.mark.parametrize(
    ("env", "place"),
    [
        ({}, "caches/rattler/cache/pkgs"),
        ({"RATTLER_CACHE_DIR": "r"}, "r/pkgs"),
        ({"RATTLER_CACHE_DIR": ""}, "caches/rattler/cache/pkgs"),
        ({"RATTLER_CACHE_DIR": "r", "PIXI_CACHE_DIR": "p"}, "p/pkgs"),
        ({"PIXI_CACHE_DIR": "p", "PIXI_CACHE_CONDA_PACKAGES_DIR": "c"}, "c"),
    ],
)
def test_places(tmp_path, monkeypatch, env, place):
    """pixi's own variables, then rattler's, then rattler's folder; a relative one is from here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.chdir(tmp_path)
    assert rattler_packages_dir(env) == tmp_path / place


def test_pixis_own_folder(tmp_path, monkeypatch):
    """A folder pixi that is there is pixi's cache; a variable or a named folder goes before it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "pixi").mkdir()
    assert rattler_packages_dir({}) == tmp_path / "pixi" / "pkgs"
    assert rattler_packages_dir({"RATTLER_CACHE_DIR": "/r"}).as_posix() == "/r/pkgs"
    assert rattler_packages_dir({"PIXI_CACHE_DIR": "/p"}, tmp_path / "x") == tmp_path / "x" / "pkgs"
