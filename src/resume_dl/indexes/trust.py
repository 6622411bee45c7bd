"""The rule of trust: which sources of an index are authoritative. Pure.

The *authority* of a channel is the URL to which the user's own settings resolve. Every other source of the same files
is a *carrier*: it is trusted only where carriers of different operators agree, or if the user has named it
(``--index-from``). docs/indexes.md has the whole rule.
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
    """How an index relates to a record of another index."""

    ALIKE = "alike"
    ABSENT = "absent"
    """It has no such file, or nothing comparable."""
    OTHERWISE = "otherwise"
    """It has a different digest for a file of this name."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The sources of one file by their standing, each group in its order."""

    named: tuple[Source, ...]
    """The mirrors that the user named, which take precedence over the authority."""
    authority: tuple[Source, ...]
    """The authority; empty if it is excluded."""
    carriers: tuple[Source, ...]
    """All others."""


def without_witness(host: str) -> str:
    """Return the hint for when only one mirror has answered in place of the authority ``host``.

    It does not name that mirror, because the only one with a statement may be a malicious one.
    """
    return (
        f"try again later or from another network, where {host} or a mirror of another operator answers; or use the "
        "index of a mirror that you trust: --index-from, with a name of `resume-dl mirrors list`"
    )


def among(sides: Iterable[str]) -> str:
    """Return the hint for mirrors that contradict each other."""
    ways = " or ".join(f"--index-from {side}" for side in dict.fromkeys(sides))
    return f"run it again where the index's own server can be reached; or, if you know which one is right, add {ways}"


def authority_of(channel: Channel, table: MirrorTable) -> str:
    """Return the name of the channel's authority: a mirror's, or ``upstream``.

    A retired mirror in the user's settings, or a URL that the table replaces, stands for the canonical origin.
    """
    if channel.origin is None:
        return UPSTREAM
    mirror = table.mirror_at(channel.client_base.reveal())
    return mirror.name if mirror is not None and mirror.active else UPSTREAM


def standing(sources: Sequence[Source], authority: str, canonical: RedactedUrl, named: Sequence[str] = ()) -> Standing:
    """Group ``sources`` of the file at ``canonical`` by their standing; ``named`` are mirrors of ``--index-from``.

    The only source of a file is its authority, whatever its name.
    """
    trusted = tuple(source for name in named for source in sources if source.mirror == name)
    others = [source for source in sources if source not in trusted]
    # a mirror whose base is the origin's own URL has the mirror's name
    own = [
        source for source in others if source.mirror == authority or (authority == UPSTREAM and source.url == canonical)
    ][:1]
    return Standing(trusted, tuple(own), tuple(source for source in others if source not in own))


def compare(artifact: Artifact, record: Mapping[str, Any] | None) -> Stated:
    """Compare ``artifact`` with ``record``, another index's record of the same file name.

    They agree if the record states every digest of ``artifact`` and everything that a solver or installer acts on. A
    digest that the witness lacks would be unconfirmed, and it may be the one that is verified.
    """
    if record is None:
        return Stated.ABSENT
    own = {kind: getattr(artifact, kind) for kind in ("sha256", "md5")}
    theirs = {kind: value if isinstance(value := record.get(kind), str) else "" for kind in own}
    stated = {kind: value.lower() for kind, value in own.items() if value}
    if any(theirs[kind] and theirs[kind].lower() != value for kind, value in stated.items()):
        return Stated.OTHERWISE
    same = all(record.get(key) == getattr(artifact, key) for key in ("name", "version", "build"))
    same = same and (artifact.size is None or artifact.size == record.get("size"))  # may be of any type
    same = same and all(_acted_on(artifact.record, key) == _acted_on(record, key) for key in _ACTED_ON)
    return Stated.ALIKE if stated and same and all(theirs[kind] for kind in stated) else Stated.ABSENT


_ACTED_ON = ("depends", "constrains", "noarch", "subdir", "track_features", "python_site_packages_path")
"""The members of a record that determine further packages and where files are linked."""


def _acted_on(record: Mapping[str, Any], key: str) -> Any:
    value = record.get(key)
    if key == "depends" and isinstance(value, list):
        return [each for each in value if each != "pip"]  # conda's add_pip_as_python_dependency adds it to python
    return value or None
