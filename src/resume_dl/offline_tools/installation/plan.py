"""All that is decided before anything is started."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from resume_dl.offline_tools.machine.conda_clients import Client
from resume_dl.offline_tools.machine.conda_info import CondaInfo

_ADDRESS = re.compile(r"https?://[!-\"$-?A-~]+")
"""Printable ASCII without blank, ``#`` and ``@``: it becomes a line of a list."""


class Package(NamedTuple):
    """One of the manifest's."""

    entry: dict[str, Any]
    source: Path
    """Where its bytes are."""

    @property
    def filename(self) -> str:
        """The archive's name without its folder."""
        return str(self.entry["path"]).rpartition("/")[2]

    @property
    def stem(self) -> str:
        """What conda calls the unpacked folder."""
        return re.sub(r"(\.conda|\.tar\.bz2)$", "", self.filename)

    @property
    def url(self) -> str:
        """Canonical, with the file's name as it is on disk: conda compares it letter by letter."""
        url = str(self.entry["url"])
        if not _ADDRESS.fullmatch(url):
            url = "https://bundle.invalid/{}/{}".format(
                self.entry["path"].split("/")[1], self.filename
            )  # from a file: channel
        return url.rpartition("/")[0] + "/" + self.filename


class Plan(NamedTuple):
    """All that is decided before anything is started."""

    prefix: Path
    existed: bool
    platform: str
    foreign: bool
    """Not this machine's platform."""
    python: str
    client: Client | None
    info: CondaInfo | None
    conda: list[Package]
    pip: list[Package]
    rest: bool = False
    """There is what a killed run had begun to make."""

    @property
    def marks(self) -> bool:
        """Whether a new environment gets a token first: mamba and micromamba make none in a folder with a file."""
        return not self.conda or (self.client is not None and self.client.name == "conda")
