"""Which sources of an index are believed, and why. Pure.

The *authority* of a channel is the place that the user's own settings resolve to. Every other place that has the same
files is a *carrier*: what it says counts only where carriers of different operators agree, or where the user has named
it (``--index-from``). docs/indexes.md has the whole rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.channel import Channel
from resume_dl.model.mirror import UPSTREAM, MirrorTable
from resume_dl.model.url import RedactedUrl


class Stated(Enum):
    """What an index says of a record of another index."""

    ALIKE = "alike"
    ABSENT = "absent"
    """It has no such file, or nothing that could be compared."""
    OTHERWISE = "otherwise"
    """Another digest for a file of this name."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The sources of one file by what they count for, each in its order."""

    named: tuple[Source, ...]
    """Those that the user named: they decide before the authority."""
    authority: tuple[Source, ...]
    """The one that decides; empty where it may not be asked."""
    carriers: tuple[Source, ...]
    """All others."""


def without_witness(host: str) -> str:
    """The hint where one mirror alone has answered for the authority ``host``.

    It does not name that mirror: the only one that states something may be the one that lies.
    """
    return (
        f"try again later or from another network, where {host} or a mirror of another operator answers; or use the "
        "index of a mirror that you trust: --index-from, with a name of `resume-dl mirrors list`"
    )


def among(sides: Iterable[str]) -> str:
    """The hint where these mirrors contradict each other."""
    ways = " or ".join(f"--index-from {side}" for side in dict.fromkeys(sides))
    return f"run it again where the index's own server can be reached; or, if you know which one is right, add {ways}"


def authority_of(channel: Channel, table: MirrorTable) -> str:
    """The name of the source that is the channel's authority: a mirror's, or ``upstream``.

    A retired mirror in the user's settings, and an address that the table replaces, stand for the canonical origin.
    """
    if channel.origin is None:
        return UPSTREAM
    mirror = table.mirror_at(channel.client_base.reveal())
    return mirror.name if mirror is not None and mirror.active else UPSTREAM


def standing(sources: Sequence[Source], authority: str, canonical: RedactedUrl, named: Sequence[str] = ()) -> Standing:
    """``sources`` of the file at ``canonical``, by what they count for; ``named`` are mirrors as of ``--index-from``.

    A source that alone knows the file is its authority, whatever it is called.
    """
    trusted = tuple(source for name in named for source in sources if source.mirror == name)
    others = [source for source in sources if source not in trusted]
    # a mirror whose base is the origin's own address goes by the mirror's name
    own = [
        source for source in others if source.mirror == authority or (authority == UPSTREAM and source.url == canonical)
    ][:1]
    return Standing(trusted, tuple(own), tuple(source for source in others if source not in own))


def compare(artifact: Artifact, record: Mapping[str, Any] | None) -> Stated:
    """What ``record``, another index's for the same file name, says of ``artifact``.

    Alike: every digest of ``artifact`` is stated there, and so is all that a solver or an installer acts on. A digest
    that the witness lacks would be the leading index's word alone, and it may be the one that is verified.
    """
    if record is None:
        return Stated.ABSENT
    own = {kind: getattr(artifact, kind) for kind in ("sha256", "md5")}
    theirs = {kind: value if isinstance(value := record.get(kind), str) else "" for kind in own}
    stated = {kind: value.lower() for kind, value in own.items() if value}
    if any(theirs[kind] and theirs[kind].lower() != value for kind, value in stated.items()):
        return Stated.OTHERWISE
    same = all(record.get(key) == getattr(artifact, key) for key in ("name", "version", "build"))
    same = same and (artifact.size is None or artifact.size == record.get("size"))  # which may be of any type
    same = same and all(_acted_on(artifact.record, key) == _acted_on(record, key) for key in _ACTED_ON)
    return Stated.ALIKE if stated and same and all(theirs[kind] for kind in stated) else Stated.ABSENT


_ACTED_ON = ("depends", "constrains", "noarch", "subdir", "track_features", "python_site_packages_path")
"""What of a record decides which other packages come, and where files are linked."""


def _acted_on(record: Mapping[str, Any], key: str) -> Any:
    value = record.get(key)
    if key == "depends" and isinstance(value, list):
        return [each for each in value if each != "pip"]  # which conda's own setting adds to python
    return value or None
