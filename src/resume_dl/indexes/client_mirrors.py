"""A client's channel indexes from mirrors, where the client's own address gives none (docs/indexes.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Protocol, TypeVar

from resume_dl.errors import ConfigurationError, IntegrityError, Interrupted, ResumeDLError, TransferError
from resume_dl.indexes.copies import Freshness
from resume_dl.indexes.substitutes import SubstituteIndex, SubstituteIndexes
from resume_dl.indexes.trust import Standing, authority_of, standing
from resume_dl.indexes.whole import FORMATS, Asked, Wanted, WholeIndexes
from resume_dl.model.artifact import Source
from resume_dl.model.channel import Channel
from resume_dl.model.index_report import Vouched
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Reporter
from resume_dl.settings.channels import expand_channels
from resume_dl.transfer.setup import Setup
from resume_dl.transfer.watched_engine import WatchedEngine


class MirroredIndex(Protocol):
    """One index of a client's cache."""

    @property
    def channel(self) -> str:
        """For people; shows no login."""

    @property
    def filename(self) -> str:
        """The whole file that the client reads."""

    @property
    def subdir(self) -> str:
        """The platform, or noarch."""

    @property
    def base(self) -> RedactedUrl:
        """``<channel>/<subdir>`` as the client asks for it, login included."""

    def take_from_mirrors(self, path: Path) -> None:
        """Put an index of mirrors into the cache, so that the client asks its own server the next time."""


Index = TypeVar("Index", bound=MirroredIndex)


@dataclass(frozen=True, slots=True)
class Missed:
    """An index that the client has to ask for by itself; ``note``: why no mirrors stand in for its server."""

    index: MirroredIndex
    error: Exception
    note: str = ""


@dataclass(frozen=True, slots=True)
class Mirrored:
    """An index of ``channel`` that mirrors gave. ``host``: whose index it stands in for."""

    channel: str
    host: str
    vouched: Vouched
    carried_by: tuple[str, ...]
    contradicted: tuple[str, ...]


class MirroredAhead:
    """What mirrors can give in one command; ``mirrored`` is what they gave.

    ``names``: of the packages that the user asked for, as far as they are known.
    """

    def __init__(
        self,
        engine: WatchedEngine,
        setup: Setup,
        reporter: Reporter,
        *,
        cancelled: Callable[[], bool],
        names: Collection[str] = (),
    ) -> None:
        options, folder = setup.options, setup.paths.cache / "repodata"
        self._setup = setup
        self._places = setup.places
        self._named = setup.index_from
        whole = WholeIndexes(
            engine,
            self._places,
            folder,
            Whispering(reporter),
            offline=False,
            largest=options.max_index_size,
            freshness=Freshness(options.refresh, options.index_max_age),
        )
        self._substitutes = SubstituteIndexes(
            whole, self._standing, setup.table, folder, names=names, cancelled=cancelled
        )
        self.mirrored: list[Mirrored] = []

    def can_replace(self, index: MirroredIndex) -> bool:
        """Whether mirrors may have it in its server's place."""
        wanted = self._wanted(index)
        return wanted is not None and self._substitutes.can_replace(wanted, index.filename)

    def others(self, index: MirroredIndex, filename: str) -> tuple[Source, ...]:
        """Where else a file beside the index may be, for bytes whose digest is known; nowhere for a channel with login.

        Raises ConfigurationError.
        """
        wanted = self._wanted(index)
        if wanted is None:
            return ()
        stand = self._standing(wanted, filename)
        return (*stand.named, *stand.authority, *stand.carriers)

    def take_named(self, indexes: Sequence[Index]) -> list[Index]:
        """Have the mirrors that the user named give what they have; returns the others. Raises Interrupted."""
        if not self._named:
            return [*indexes]
        missed = [Missed(index, ConfigurationError("not asked")) for index in indexes]
        left = [each.index for each in self._take(missed, agreed=False)]
        return [index for index in indexes if index in left]

    def take_instead(self, missed: Sequence[Missed]) -> list[Missed]:
        """Have mirrors stand in for servers that cannot be reached; returns what stays missed. Raises Interrupted."""
        able = [each for each in missed if _is_unreachable(each.error)]
        rest = [each for each in missed if each not in able]
        return rest + self._take(able, agreed=True)

    def _take(self, missed: Sequence[Missed], *, agreed: bool) -> list[Missed]:
        left: list[Missed] = []
        of: dict[str, dict[Wanted, Missed]] = {}
        for each in missed:
            wanted = self._wanted(each.index)
            if wanted is None or wanted in of.get(each.index.filename, ()):
                left.append(each)
            else:
                of.setdefault(each.index.filename, {})[wanted] = each
        for filename, those in of.items():
            try:
                left += self._take_of(filename, those, agreed=agreed)
            except Interrupted:
                raise
            except (ResumeDLError, OSError) as error:  # this machine's
                left += [Missed(each.index, each.error, str(error)) for each in those.values()]
        return left

    def _take_of(self, filename: str, of: dict[Wanted, Missed], *, agreed: bool) -> list[Missed]:
        """Indexes of one file name; mirrors without ``current_repodata.json`` give the whole index in its place."""
        left = dict(of)
        notes: dict[Wanted, str] = {}
        failed: list[Missed] = []

        def give(wanted: Wanted, carried: SubstituteIndex) -> None:
            each = left.pop(wanted)
            try:
                each.index.take_from_mirrors(carried.path)
            except Exception as error:  # noqa: BLE001 - the client's own; each index by itself
                failed.append(Missed(each.index, error))
                return
            names, host = carried.carried_by, each.index.base.host
            self.mirrored.append(Mirrored(wanted[0].name, host, carried.vouched, names, carried.contradicted))

        for forms in dict.fromkeys(((f"{filename}.zst", filename), FORMATS)):
            if agreed:
                self._substitutes.give_origin([*left], forms, give)
                notes |= self._substitutes.give_agreed([*left], forms, give, empty=forms == FORMATS)
            else:
                self._substitutes.give_named([*left], forms, give)
        return [*failed, *(Missed(each.index, each.error, notes.get(wanted, "")) for wanted, each in left.items())]

    def _wanted(self, index: MirroredIndex) -> Wanted | None:
        """The channel and subdir; None for what has one place only: a login's, and what is no channel's address."""
        address = index.base
        try:
            if self._setup.access(RedactedUrl(f"{address.reveal()}/{index.filename}")).private:
                return None
            (channel,) = expand_channels((address.reveal(),), self._setup.conda, self._setup.table)
        except (ConfigurationError, ValueError):
            return None
        return channel, index.subdir

    def _standing(self, wanted: Asked, name: str) -> Standing:
        """As for ``fetch``, without the client's own address, and without mirrors that were named after it."""
        channel, subdir = wanted[:2]
        url = channel.file_url(subdir, name)
        stand = standing(self._places.of(url), authority_of(channel, self._setup.table), url, self._named)
        own = self._own(channel, subdir, name)
        named = tuple(takewhile(lambda source: source.url not in own, stand.named))
        authority = tuple(source for source in stand.authority if source.url not in own)
        return Standing(named, authority, tuple(source for source in stand.carriers if source.url not in own))

    def _own(self, channel: Channel, subdir: str, name: str) -> Iterable[RedactedUrl]:
        url = RedactedUrl(f"{channel.client_base.reveal()}/{subdir}/{name}")
        return {url, self._setup.access(url).url}


class Whispering:
    """A reporter whose messages are ones of ``--verbose``: the client's user is told one line in the end."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.plan = reporter.plan
        self.progress = reporter.progress
        self.event = reporter.event
        self.close = reporter.close

    def message(self, text: str, *, level: str = "info") -> None:
        """The line."""
        del level
        self._reporter.message(text, level="debug")


def _is_unreachable(error: Exception) -> bool:
    """Whether the server gave no index, by its own fault or the network's; not this machine's, nor the user's stop."""
    return isinstance(error, (TransferError, IntegrityError))
