"""Where pages, files and METADATA of package indexes may be asked for, and what each place counts for."""

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
    """The sources of one page by what they count for."""

    believed: tuple[tuple[Source, Vouched], ...]
    """Each decides where those before it cannot be reached: mirrors that the user named, the authority."""
    carriers: tuple[Source, ...] = ()
    """They count as far as two of them agree."""


@dataclass(frozen=True, slots=True)
class PageSources:
    """The sources of one run. ``named``: mirrors as of ``--index-from``; ``offline``: only this machine is asked."""

    places: Places
    named: tuple[str, ...] = ()
    offline: bool = False
    network: Reachability = field(default_factory=Reachability)
    """Of the run: a host that it has given up is not waited for again where others can take its place."""
    patience: float = DEFAULTS.authority_give_up
    """Seconds, for a source in whose place others can answer."""

    @property
    def table(self) -> MirrorTable:
        """The mirrors and origins."""
        return self.places.table

    def standing(self, page: RedactedUrl) -> PageStanding:
        """The sources of a page by what they count for, those too that are not asked while ``offline``.

        The authority is the place that the address names: a mirror of the table where it is one of its, else the
        origin's own. A mirror that is retired leaves it to the origin.
        """
        sources = self.places.of(page)
        if self.table.origin_of(page.reveal()) is None:  # a place of its own, which no mirror carries
            return PageStanding(tuple((source, Vouched.AUTHORITY) for source in sources))
        mirror = self.table.mirror_at(page.reveal())
        name = mirror.name if mirror is not None and mirror.active else UPSTREAM
        found = standing(sources, name, RedactedUrl(self.table.canonical(page.reveal())), self.named)
        believed = [*((source, Vouched.NAMED) for source in found.named)]
        believed += [(source, Vouched.AUTHORITY) for source in found.authority]
        return PageStanding(tuple(believed), found.carriers)

    def is_silent(self, source: Source) -> bool:
        """Whether it was waited for in vain in this run."""
        return self.network.is_given_up([source.url.host])

    def give_up(self, sources: Iterable[Source]) -> None:
        """They were waited for in vain."""
        for source in sources:
            self.network.give_up([source.url.host])

    def operators(self, source: Source, answered_by: Iterable[str] = ()) -> Operators:
        """The operators behind a source; ``answered_by``: the hosts that gave its answers."""
        return operators_of(source, self.table, answered_by)

    def is_asked(self, source: Source) -> bool:
        """Whether it may be asked now."""
        return not self.offline or source.url.reveal()[:5] == "file:"

    def anywhere(self, file: ListedFile, ending: str = "") -> tuple[Source, ...]:
        """Every source of the file whose name has this ``ending`` more, for bytes that a digest identifies."""
        every = (*self._of(RedactedUrl(file.url + ending)), *self.own(file, ending))
        return tuple({source.url.reveal(): source for source in every}.values())

    def own(self, file: ListedFile, ending: str = "") -> tuple[Source, ...]:
        """The address that the index's authority gives, alone; nothing where no authority gave one."""
        stated = file.url if file.stated is None else file.stated
        return self._at(RedactedUrl(stated + ending)) if stated else ()

    def of_file(self, file: ListedFile) -> tuple[Source, ...]:
        """Where the file's bytes may come from: anywhere by its digest, without one from its own address."""
        return self.anywhere(file) if file.is_identified else self.own(file)

    def _at(self, url: RedactedUrl) -> tuple[Source, ...]:
        """The source at this very address: its scheme may differ, where the table knows a mirror by https."""
        there = _place(url)
        return tuple(source for source in self._of(url) if source.url == url or _place(source.url) == there)[:1]

    def _of(self, url: RedactedUrl) -> tuple[Source, ...]:
        found: Sequence[Source] = [source for source in self.places.of(url) if self.is_asked(source)]
        return tuple(sorted(found, key=lambda source: source.url != url or source.mirror == UPSTREAM))


@dataclass(frozen=True, slots=True)
class WheelSources:
    """The sources of one wheel and of its METADATA (``metadata.MetadataSources``)."""

    sources: PageSources
    file: ListedFile

    def anywhere(self, ending: str = "") -> tuple[Source, ...]:
        """Every source, for bytes that a digest identifies."""
        return self.sources.anywhere(self.file, ending)

    def own(self, ending: str = "") -> tuple[Source, ...]:
        """The address that the index's authority gives; perhaps none."""
        return self.sources.own(self.file, ending)

    def operators(self, source: Source, answered_by: Iterable[str] = ()) -> Operators:
        """The operators behind a source; ``answered_by``: the hosts that gave its answers."""
        return self.sources.operators(source, answered_by)

    def carriers(self) -> list[Source]:
        """The mirrors that have the wheel, which a digest has to identify.

        An address that a page gives is no witness of what that page says: only mirrors of the table are.
        """
        own = {source.url for source in self.own()}
        every = self.anywhere() if self.file.is_identified else ()
        mirrors = [source for source in every if not source.mirror.startswith(GIVEN)]
        return [source for source in mirrors if source.url not in own]

    @property
    def patience(self) -> float:
        """Seconds, for a source in whose place others can answer."""
        return self.sources.patience

    def is_silent(self, source: Source) -> bool:
        """Whether it was waited for in vain in this run."""
        return self.sources.is_silent(source)

    def give_up(self, sources: Iterable[Source]) -> None:
        """They were waited for in vain."""
        self.sources.give_up(sources)


def _place(url: RedactedUrl) -> tuple[str, str]:
    return url.host, urlsplit(url.reveal()).path
