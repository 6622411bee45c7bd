"""The folder of downloads of a user, and what ``adopt`` finds in the indexes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from resume_dl.demo.channel import PackageSpec, build_channel
from support.fetching import Done, User
from support.nginx import NginxMirrors
from support.pip_index import build_wheel, write_index

MIB = 1 << 20
SIZE = 12 * MIB
BIG = PackageSpec(name="big", version="1.0", build="h1_0", payload_size=SIZE)
OLD = PackageSpec(name="old", version="2.1", build="py37_0", format="tar.bz2", payload_size=SIZE)
LITTLE = PackageSpec(name="little", version="2.2", build="0", format="tar.bz2", payload_size=20_000)
TINY = PackageSpec(name="tiny", version="0.3", build="0", payload_size=20_000)


@dataclass(frozen=True)
class Adoptable:
    """A channel and a package index, below one root."""

    root: Path
    files: dict[str, Path]


def build_adoptable(root: Path) -> Adoptable:
    """A channel and a package index, below ``root``."""
    built = build_channel(root / "pytorch", [BIG, OLD, LITTLE, TINY])
    build_channel(root / "pkgs" / "main", [])
    wheel = build_wheel(root / "built", "wide", "1.5", filler=4 * MIB)
    write_index(root, [wheel])
    return Adoptable(root, {each.spec.name: each.path for each in built.packages} | {"wide": wheel.path})


@dataclass
class Place:
    """The folder of downloads, and the user."""

    user: User
    offer: Adoptable
    nginx: NginxMirrors
    folder: Path
    options: list[str] = field(default_factory=list)

    def whole(self, package: str) -> bytes:
        return self.offer.files[package].read_bytes()

    def name(self, package: str) -> str:
        return self.offer.files[package].name

    def put(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path

    def adopt(self, *words: str | Path) -> Done:
        return self.user.run("adopt", *self.user.options, *self.options, *words, "--json")
