"""Two small packages, a bundle of them and a machine to install it on, for tests of install.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from resume_dl.demo.channel import ChannelInfo, PackageSpec, build_channel
from support.conda_env import TestConda
from support.installable import Target, lay_bundle

__all__ = ["bundle", "channel", "first_do", "target"]


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> ChannelInfo:
    specs = [
        PackageSpec(name="letters", version="1.0", format="tar.bz2", files={"share/letters/a.txt": b"a"}),
        PackageSpec(name="signs", version="1.0", subdir="noarch", files={"share/signs/plus.txt": b"+"}),
    ]
    return build_channel(tmp_path_factory.mktemp("channel"), specs)


@pytest.fixture
def target(test_conda: TestConda) -> Target:
    return Target(test_conda)


@pytest.fixture
def bundle(channel: ChannelInfo, tmp_path: Path) -> Path:
    lay_bundle(tmp_path / "bundle", channel.packages)
    return tmp_path / "bundle"


def first_do(target: Target, command: str) -> str:
    """Whenever conda is to change something, the shell does this first; returns the script as it was."""
    script = target.program.read_text()
    target.program.write_text(script.replace("exec ", f'test "$1" = info || {{ {command}; }}\nexec '))
    return script
