"""Channels behind logins: small ones, served at a path that holds a token or wants a header; and a search for leaks."""

from __future__ import annotations

import base64
from pathlib import Path

from faults.server import FaultServer, Received
from resume_dl.demo.channel import PackageSpec, build_channel

SECRET = "s3cr3tS3CR3T"
BASIC = "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()


def build_small_channels(root: Path, names: str) -> Path:
    """A channel for each letter, with the one package of that name, version 1, build 0, for linux-64."""
    for name in names:
        build_channel(root / name, [PackageSpec(name=name, version="1", build="0", payload_size=300_000)])
    return root


def serve(server: FaultServer, channel: Path, at: str) -> None:
    """The channel's files below the path ``at`` of every port, and nowhere else."""
    for file in channel.rglob("*"):
        if file.is_file():
            server.put(f"{at}/{file.relative_to(channel).as_posix()}", file.read_bytes())


def archives(server: FaultServer, port: int | None = None) -> list[Received]:
    """The requests for packages."""
    return server.requests(port, "*.conda")


def files_with_a_secret(folder: Path) -> set[str]:
    """Every file that holds ``SECRET``, plain or as Basic; its path in ``folder``."""
    found = set()
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if SECRET.encode() in content or BASIC.encode() in content:
                found.add(path.relative_to(folder).as_posix())
    return found
