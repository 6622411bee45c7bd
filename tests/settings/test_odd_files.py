"""config.toml and mirrors.toml that are no settings files: refused at once, by name, with exit code 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.settings.condarc import load_file
from resume_dl.settings.config import load_config
from resume_dl.settings.mirrors import load_mirrors
from resume_dl.settings.pip_settings import parse_file

READERS: dict[str, Callable[[Path], object]] = {
    "config": load_config,
    "own mirrors": lambda file: load_mirrors(user=file),
    "--mirrors": lambda file: load_mirrors(override=file),
}
ODD = {
    "pipe": "is not a regular file",
    "folder": "is not a regular file",
    "device": "is not a regular file",
    "1 GB": "is longer than",
    "deeply nested": "is not valid TOML",
}


def make(file: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "1 GB":
        file.touch()
        os.truncate(file, 10**9)  # sparse: it takes no room
    else:
        file.write_text("connections = " + "[" * 100_000)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices with names")
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_settings_file(tmp_path: Path, reader: str, kind: str) -> None:
    """Neither waited for nor read to its end; the message names the file."""
    file = tmp_path / "settings.toml"
    make(file, kind)
    with pytest.raises(ConfigurationError) as caught:
        READERS[reader](file)
    assert caught.value.exit_code == 2
    assert str(file) in caught.value.message
    assert ODD[kind] in caught.value.message


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege")
def test_a_link_of_ones_own_is_followed(tmp_path: Path) -> None:
    """Settings that lie in a repository and are linked to."""
    (tmp_path / "repository.toml").write_text("connections = 4")
    (tmp_path / "config.toml").symlink_to("repository.toml")
    assert load_config(tmp_path / "config.toml") == {"connections": 4}
    (tmp_path / "gone.toml").symlink_to("nowhere.toml")
    assert load_config(tmp_path / "gone.toml") == {}


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices with names")
@pytest.mark.parametrize("kind", ODD)
def test_settings_of_conda_and_pip(tmp_path: Path, kind: str) -> None:
    """conda's are passed over and told of, pip's are refused: pip itself would fail."""
    file = tmp_path / "settings"
    make(file, kind)
    if kind == "deeply nested":
        file.write_text("channels: " + "[" * 100_000)
    content, _, problem = load_file(file)
    assert content == {}
    assert str(file) in problem
    with pytest.raises(ConfigurationError, match="settings"):
        parse_file(file)
