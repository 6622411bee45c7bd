"""config.toml and the folders that it lies in."""

from __future__ import annotations

from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.settings.config import load_config
from resume_dl.settings.paths import find_paths
from settings.users_machine import Machine


def test_options(tmp_path: Path) -> None:
    """A flat file gives option names with underscores; no file gives nothing."""
    file = tmp_path / "config.toml"
    assert load_config(file) == {}
    file.write_text(
        'limit-rate = "2M"\nconnections = 4\nno_upstream = true\nmirror = ["tuna", "bfsu"]\n', encoding="utf-8"
    )
    assert load_config(file) == {
        "limit_rate": "2M",
        "connections": 4,
        "no_upstream": True,
        "mirror": ["tuna", "bfsu"],
    }


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("conections = 4", "'conections' is not an option", "connections"),
        ("zzz = 4", "'zzz' is not an option", "--help"),
        ("[fetch]\nconnections = 4", "'fetch' is not an option", ""),
        ("dest = {a = 1}", "'dest' is a dict", "string"),
        ("mirror = [1]", "'mirror' is a list", "texts"),
        ("connections = 3.5", "'connections' is 3.5", "whole number"),
        ("connections = true", "'connections' is True", "whole number"),
        ("no-deps = 'yes'", "'no-deps' is 'yes'", "true or false"),
        ("progress = ['bar']", "'progress' is a list", "text"),
        ("dest = 5", "'dest' is 5", "path"),
        ("sha256 = 'ab'", "'sha256' cannot be set for every download", "--sha256"),
        ("mirror-url = 'http://h/x'", "'mirror-url' cannot be set for every download", "--mirror-url"),
        ("proxy = 'http://h'", "'proxy' is not an option", ""),
        ("urls = 'http://h'", "'urls' is not an option", ""),
        ("per-host = 1\nper_host = 2", "'per_host' occurs twice", "keep one"),
        ("x", "not valid TOML", ""),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str, hint: str) -> None:
    """An unknown option, a wrong value or broken TOML is a ConfigurationError that names the file and the key."""
    file = tmp_path / "config.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_config(file)
    assert str(file) in caught.value.message
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_paths_and_single_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``~`` is the home folder where a path is meant; one text stands for a list of one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    file = tmp_path / "config.toml"
    file.write_text('dest = "~/x"\nfile = "~/e.yml"\nmirror = "tuna"\nname = "~"\ncuda = 11.0\n', encoding="utf-8")
    assert load_config(file) == {
        "dest": str(tmp_path / "x"),
        "file": [str(tmp_path / "e.yml")],
        "mirror": ["tuna"],
        "name": "~",
        "cuda": 11.0,
    }


def test_folders(machine: Machine) -> None:
    """RESUME_DL_*_DIR name the folders; without them they are the platform's, each named after the program."""
    assert machine.paths.config_file == machine.folder / "config" / "config.toml"
    assert machine.paths.mirrors_file == machine.folder / "config" / "mirrors.toml"
    usual = find_paths({})
    for folder in (usual.config, usual.cache, usual.state):
        assert folder.is_absolute()
        assert "resume-dl" in folder.parts
    mixed = find_paths({"RESUME_DL_CACHE_DIR": str(machine.folder)})
    assert (mixed.cache, mixed.config) == (machine.folder, usual.config)
