"""The sources of one command's channel indexes, by their standing (``trust``)."""

from __future__ import annotations

from collections.abc import Sequence

from resume_dl.indexes.trust import Standing, authority_of, standing
from resume_dl.indexes.whole import FORMATS, Asked, SourcesOf, Wanted
from resume_dl.model.artifact import Source
from resume_dl.model.channel import Channel
from resume_dl.model.index_report import Vouched
from resume_dl.model.mirror import UPSTREAM, MirrorTable
from resume_dl.transfer.source_places import Places


class IndexSources:
    """Selects the sources of an index. ``named``: mirrors of ``--index-from``; ``alone``: no carriers."""

    def __init__(self, places: Places, named: Sequence[str] = (), *, alone: bool = False) -> None:
        self._places = places
        self.named = tuple(named)
        self._alone = alone

    @property
    def table(self) -> MirrorTable:
        """The mirrors and origins."""
        return self._places.table

    def standing(self, wanted: Asked, name: str = FORMATS[-1]) -> Standing:
        """Return the sources of the file ``name`` beside an index, by their standing."""
        channel, subdir = wanted[:2]
        url = channel.file_url(subdir, name)
        stand = standing(self._places.of(url), authority_of(channel, self.table), url, self.named)
        return Standing(stand.named, stand.authority, ()) if self._alone else stand

    def nth_named(self, at: int) -> SourcesOf:
        """Return a function for the sources of the mirror at position ``at`` of ``named``."""
        return lambda wanted, name: self.standing(wanted, name).named[at : at + 1]

    def authorities(self, wanted: Asked, name: str = FORMATS[-1]) -> tuple[Source, ...]:
        """Return the authority's source; none if it is excluded."""
        return self.standing(wanted, name).authority

    def copy_of(self, asked: Asked, name: str) -> tuple[Source, ...]:
        """Return the source of the mirror that ``asked`` names (``of_mirror``)."""
        stand = self.standing(asked, name)
        every = (*stand.named, *stand.authority, *stand.carriers)
        return tuple(source for source in every if source.mirror == asked[-1])

    def has_others(self, wanted: Wanted, vouched: Vouched) -> bool:
        """Whether there are further sources if those of this standing do not answer."""
        stand = self.standing(wanted)
        return bool(stand.carriers) or (vouched is Vouched.NAMED and bool(stand.authority))

    def is_nowhere(self, wanted: Wanted) -> bool:
        """Whether all its mirrors are excluded because they blocked us, for which the engine has an error message."""
        stand = self.standing(wanted)
        return bool(self._places.left_out) and not (stand.named or stand.authority or stand.carriers)

    def host_of(self, channel: Channel) -> str:
        """Return the host of the channel's authority."""
        base = channel.canonical_base
        if authority_of(channel, self.table) != UPSTREAM:
            base = channel.client_base
        return base.host


def of_mirror(wanted: Wanted, mirror: str) -> Asked:
    """Return the key of this mirror's copy of an index."""
    channel, subdir = wanted
    return channel, subdir, mirror
