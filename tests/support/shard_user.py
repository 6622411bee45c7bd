"""A user of the channel ``forge``, whose own place has shards, with two mirrors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.fetching import Done, User
from support.shard_mirrors import ShardMirrors


class ShardUser(User):
    """Runs are dry: what would be fetched is the answer."""

    def __init__(self, folder: Path, mirrors: ShardMirrors) -> None:
        super().__init__(folder)
        self.of = mirrors
        carried = {f"carrier{number}": {"conda:forge": f"{mirrors.nginx.base(number)}/forge"} for number in (1, 2)}
        origins = {"conda:forge": f"{mirrors.nginx.base(0)}/forge"}
        table = self.write_mirrors(carried, origins=origins)
        self.options += ["--mirrors", str(table), "--dry-run", "--json", "--override-channels", "-c", "forge"]

    def chosen(self, done: Done) -> dict[str, str]:
        """File name -> SHA-256 of what would be fetched."""
        found: list[dict[str, Any]] = done.report["artifacts"]
        return {artifact["filename"]: artifact["sha256"] for artifact in found}

    def asked(self, mirror: int | None = None) -> set[str]:
        """The last parts of the addresses that gave a body."""
        return {each.uri.rpartition("/")[2] for each in self.of.nginx.requests(mirror) if each.status in {200, 206}}


@pytest.fixture
def shard_user(shard_mirrors: ShardMirrors, tmp_path: Path) -> ShardUser:
    return ShardUser(tmp_path / "user", shard_mirrors)
