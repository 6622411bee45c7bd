"""The sources of one command's channel indexes, by what they count for (``trust``)."""

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
    """``named``: mirrors as of ``--index-from``; ``alone``: authorities only, no carriers."""

    def __init__(self, places: Places, named: Sequence[str] = (), *, alone: bool = False) -> None:
        self._places = places
        self.named = tuple(named)
        self._alone = alone

    @property
    def table(self) -> MirrorTable:
        """The mirrors and origins."""
        return self._places.table

    def standing(self, wanted: Asked, name: str = FORMATS[-1]) -> Standing:
        """The sources of the file ``name`` beside an index, by what they count for."""
        channel, subdir = wanted[:2]
        url = channel.file_url(subdir, name)
        stand = standing(self._places.of(url), authority_of(channel, self.table), url, self.named)
        return Standing(stand.named, stand.authority, ()) if self._alone else stand

    def nth_named(self, at: int) -> SourcesOf:
        """The sources that are named at this place of those that the user named."""
        return lambda wanted, name: self.standing(wanted, name).named[at : at + 1]

    def authorities(self, wanted: Asked, name: str = FORMATS[-1]) -> tuple[Source, ...]:
        """The source that decides; none where it may not be asked."""
        return self.standing(wanted, name).authority

    def copy_of(self, asked: Asked, name: str) -> tuple[Source, ...]:
        """The one mirror's copy that ``asked`` names (``of_mirror``)."""
        stand = self.standing(asked, name)
        every = (*stand.named, *stand.authority, *stand.carriers)
        return tuple(source for source in every if source.mirror == asked[-1])

    def has_others(self, wanted: Wanted, vouched: Vouched) -> bool:
        """Whether others can be asked where those of this standing do not answer."""
        stand = self.standing(wanted)
        return bool(stand.carriers) or (vouched is Vouched.NAMED and bool(stand.authority))

    def is_nowhere(self, wanted: Wanted) -> bool:
        """Whether all its mirrors are left out because they have blocked us: the engine says what to do about that."""
        stand = self.standing(wanted)
        return bool(self._places.left_out) and not (stand.named or stand.authority or stand.carriers)

    def host_of(self, channel: Channel) -> str:
        """The host of the channel's authority."""
        base = channel.canonical_base
        if authority_of(channel, self.table) != UPSTREAM:
            base = channel.client_base
        return base.host


def of_mirror(wanted: Wanted, mirror: str) -> Asked:
    """The copy of an index that this mirror has."""
    channel, subdir = wanted
    return channel, subdir, mirror
