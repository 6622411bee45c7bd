"""The plan of an installation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from resume_dl.offline_tools.machine.conda_clients import Client
from resume_dl.offline_tools.machine.conda_info import CondaInfo

_ADDRESS = re.compile(r"https?://[!-\"$-?A-~]+")
"""Printable ASCII without blank, ``#`` and ``@``, as it becomes a line of a list."""


class Package(NamedTuple):
    """A package of the manifest."""

    entry: dict[str, Any]
    source: Path
    """The file with its bytes."""

    @property
    def filename(self) -> str:
        """The archive's name without its folder."""
        return str(self.entry["path"]).rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name of the unpacked folder."""
        return re.sub(r"(\.conda|\.tar\.bz2)$", "", self.filename)

    @property
    def url(self) -> str:
        """The canonical URL with the file name as on disk: conda compares them literally."""
        url = str(self.entry["url"])
        if not _ADDRESS.fullmatch(url):
            url = "https://bundle.invalid/{}/{}".format(
                self.entry["path"].split("/")[1], self.filename
            )  # from a file: channel
        return url.rpartition("/")[0] + "/" + self.filename


class Plan(NamedTuple):
    """Every decision of an installation, made before any program starts."""

    prefix: Path
    existed: bool
    platform: str
    foreign: bool
    """Whether the platform is not this machine's."""
    python: str
    client: Client | None
    info: CondaInfo | None
    conda: list[Package]
    pip: list[Package]
    rest: bool = False
    """Whether a killed run has left an unfinished environment."""

    @property
    def marks(self) -> bool:
        """Whether a new environment gets a token first: mamba and micromamba make none in a folder with a file."""
        return not self.conda or (self.client is not None and self.client.name == "conda")
