"""The sources of package indexes' pages, files and METADATA, by their standing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from resume_dl.core.policy import DEFAULTS
from resume_dl.core.reachability import Reachability
from resume_dl.indexes.operators import Operators, operators_of
from resume_dl.indexes.trust import standing
from resume_dl.model.artifact import Source
from resume_dl.model.index_report import Vouched
from resume_dl.model.mirror import GIVEN, UPSTREAM, MirrorTable
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import ListedFile
from resume_dl.transfer.source_places import Places


@dataclass(frozen=True, slots=True)
class PageStanding:
    """The sources of one page by their standing."""

    believed: tuple[tuple[Source, Vouched], ...]
    """Authoritative sources in order of precedence: the mirrors that the user named, the authority."""
    carriers: tuple[Source, ...] = ()
    """Sources that are trusted as far as two of them agree."""


@dataclass(frozen=True, slots=True)
class PageSources:
    """The sources of one run. ``named``: mirrors of ``--index-from``; ``offline``: local sources only."""

    places: Places
    named: tuple[str, ...] = ()
    offline: bool = False
    network: Reachability = field(default_factory=Reachability)
    """Reachability of hosts in this run; an unreachable host is not waited for again if others can replace it."""
    patience: float = DEFAULTS.authority_give_up
    """Time limit in seconds for a source that others can replace."""

    @property
    def table(self) -> MirrorTable:
        """The mirrors and origins."""
        return self.places.table

    def standing(self, page: RedactedUrl) -> PageStanding:
        """Return the sources of a page by their standing, including those that are not asked while ``offline``.

        The authority is the source at the page's URL: a mirror of the table if the URL is below its base, else the
        origin. For a retired mirror it is the origin.
        """
        sources = self.places.of(page)
        if self.table.origin_of(page.reveal()) is None:  # an index that no mirror carries
            return PageStanding(tuple((source, Vouched.AUTHORITY) for source in sources))
        mirror = self.table.mirror_at(page.reveal())
        name = mirror.name if mirror is not None and mirror.active else UPSTREAM
        found = standing(sources, name, RedactedUrl(self.table.canonical(page.reveal())), self.named)
        believed = [*((source, Vouched.NAMED) for source in found.named)]
        believed += [(source, Vouched.AUTHORITY) for source in found.authority]
        return PageStanding(tuple(believed), found.carriers)

    def is_silent(self, source: Source) -> bool:
        """Whether it has timed out in this run."""
        return self.network.is_given_up([source.url.host])

    def give_up(self, sources: Iterable[Source]) -> None:
        """Record that they have timed out."""
        for source in sources:
            self.network.give_up([source.url.host])

    def operators(self, source: Source, answered_by: Iterable[str] = ()) -> Operators:
        """Return the operators behind a source; ``answered_by``: the hosts that sent its answers."""
        return operators_of(source, self.table, answered_by)

    def is_asked(self, source: Source) -> bool:
        """Whether it may be asked."""
        return not self.offline or source.url.reveal()[:5] == "file:"

    def anywhere(self, file: ListedFile, ending: str = "") -> tuple[Source, ...]:
        """Return every source of the file with the suffix ``ending``, for bytes that a digest identifies."""
        every = (*self._of(RedactedUrl(file.url + ending)), *self.own(file, ending))
        return tuple({source.url.reveal(): source for source in every}.values())

    def own(self, file: ListedFile, ending: str = "") -> tuple[Source, ...]:
        """Return only the source at the URL from the index's authority; empty if there is no such URL."""
        stated = file.url if file.stated is None else file.stated
        return self._at(RedactedUrl(stated + ending)) if stated else ()

    def of_file(self, file: ListedFile) -> tuple[Source, ...]:
        """Return the sources of the file's bytes: all with a digest, only its own URL without one."""
        return self.anywhere(file) if file.is_identified else self.own(file)

    def _at(self, url: RedactedUrl) -> tuple[Source, ...]:
        """Return the source at exactly this URL; its scheme may differ if the table has the mirror with https."""
        there = _place(url)
        return tuple(source for source in self._of(url) if source.url == url or _place(source.url) == there)[:1]

    def _of(self, url: RedactedUrl) -> tuple[Source, ...]:
        found: Sequence[Source] = [source for source in self.places.of(url) if self.is_asked(source)]
        return tuple(sorted(found, key=lambda source: source.url != url or source.mirror == UPSTREAM))


@dataclass(frozen=True, slots=True)
class WheelSources:
    """The sources of one wheel and its METADATA (``metadata.MetadataSources``)."""

    sources: PageSources
    file: ListedFile

    def anywhere(self, ending: str = "") -> tuple[Source, ...]:
        """Return every source, for bytes that a digest identifies."""
        return self.sources.anywhere(self.file, ending)

    def own(self, ending: str = "") -> tuple[Source, ...]:
        """Return the source at the URL from the index's authority; may be empty."""
        return self.sources.own(self.file, ending)

    def operators(self, source: Source, answered_by: Iterable[str] = ()) -> Operators:
        """Return the operators behind a source; ``answered_by``: the hosts that sent its answers."""
        return self.sources.operators(source, answered_by)

    def carriers(self) -> list[Source]:
        """Return the mirrors that carry the wheel, which a digest has to identify.

        A URL from a page cannot confirm that page; only mirrors of the table count.
        """
        own = {source.url for source in self.own()}
        every = self.anywhere() if self.file.is_identified else ()
        mirrors = [source for source in every if not source.mirror.startswith(GIVEN)]
        return [source for source in mirrors if source.url not in own]

    @property
    def patience(self) -> float:
        """Time limit in seconds for a source that others can replace."""
        return self.sources.patience

    def is_silent(self, source: Source) -> bool:
        """Whether it has timed out in this run."""
        return self.sources.is_silent(source)

    def give_up(self, sources: Iterable[Source]) -> None:
        """Record that they have timed out."""
        self.sources.give_up(sources)


def _place(url: RedactedUrl) -> tuple[str, str]:
    return url.host, urlsplit(url.reveal()).path
