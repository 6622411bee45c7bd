"""Which sources of an index are believed, and why. Pure.

The *authority* of a channel is the place that the user's own settings resolve to. Every other place that has the same
files is a *carrier*: what it says counts only as far as the authority vouches for it, or carriers of different
operators agree, or the user has named it (``--index-from``). docs/indexes.md has the whole rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

from resume_dl.model.artifact import Source
from resume_dl.model.channel import Channel
from resume_dl.model.mirror import UPSTREAM, Mirror, MirrorTable
from resume_dl.model.url import RedactedUrl


class Vouched(str, Enum):
    """Why an index is believed; the values stand in ``--json`` and in manifests."""

    AUTHORITY = "authority"
    """The place that the user's settings name gave it."""
    AGREEMENT = "agreement"
    """Two carriers of different operators state the chosen records alike."""
    NAMED = "named"
    """The user named its source as one to be believed."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The sources of one file by what they count for, each in its order."""

    authority: tuple[Source, ...]
    """What decides; several only where the user named several. Empty where it may not be asked."""
    carriers: tuple[Source, ...]
    vouched: Vouched
    """What the authority's answer counts as."""


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
    trusted = [source for name in named for source in sources if source.mirror == name]
    if trusted:
        others = tuple(source for source in sources if source not in trusted)
        return Standing(tuple(trusted), others, Vouched.NAMED)
    # a mirror whose base is the origin's own address goes by the mirror's name
    own = [
        source
        for source in sources
        if source.mirror == authority or (authority == UPSTREAM and source.url == canonical)
    ]
    return Standing(tuple(own[:1]), tuple(source for source in sources if source not in own), Vouched.AUTHORITY)


def operator_of(source: Source, table: MirrorTable) -> str:
    """Who runs the source: as the table says, else the host of the mirror's home, else the source's own host."""
    mirror = next((each for each in table.mirrors if each.name == source.mirror), None)
    if mirror is not None and mirror.operator:
        return mirror.operator.casefold()
    home = _host(mirror)
    return home or _plain_host(source.url)


def _host(mirror: Mirror | None) -> str:
    try:
        return (urlsplit(mirror.home).hostname or "") if mirror is not None else ""
    except ValueError:
        return ""


def _plain_host(url: RedactedUrl) -> str:
    """The host without its port: two servers of one machine are one witness."""
    return urlsplit(url.reveal()).hostname or ""
