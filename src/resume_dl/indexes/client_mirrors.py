"""A client's channel indexes from mirrors, if the client's own URL is unavailable (docs/indexes.md)."""

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
    """An index in a client's cache."""

    @property
    def channel(self) -> str:
        """The channel's name for messages, without a login."""

    @property
    def filename(self) -> str:
        """The name of the whole file that the client reads."""

    @property
    def subdir(self) -> str:
        """The platform or ``noarch``."""

    @property
    def base(self) -> RedactedUrl:
        """The URL ``<channel>/<subdir>`` as the client requests it, login included."""

    def take_from_mirrors(self, path: Path) -> None:
        """Add an index of mirrors to the cache, in such a way that the client asks its own server next time."""


Index = TypeVar("Index", bound=MirroredIndex)


@dataclass(frozen=True, slots=True)
class Missed:
    """An index that the client has to request itself; ``note``: why mirrors do not replace its server."""

    index: MirroredIndex
    error: Exception
    note: str = ""


@dataclass(frozen=True, slots=True)
class Mirrored:
    """An index of ``channel`` that mirrors supplied. ``host``: the server that it replaces."""

    channel: str
    host: str
    vouched: Vouched
    carried_by: tuple[str, ...]
    contradicted: tuple[str, ...]


class MirroredAhead:
    """Supplies indexes of mirrors for one command; ``mirrored`` lists them.

    ``names``: the requested packages, as far as they are known.
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
        """Whether mirrors may supply it instead of its server."""
        wanted = self._wanted(index)
        return wanted is not None and self._substitutes.can_replace(wanted, index.filename)

    def others(self, index: MirroredIndex, filename: str) -> tuple[Source, ...]:
        """Return further sources of a file beside the index, for bytes of known digest; none for a channel with login.

        Raises ConfigurationError.
        """
        wanted = self._wanted(index)
        if wanted is None:
            return ()
        stand = self._standing(wanted, filename)
        return (*stand.named, *stand.authority, *stand.carriers)

    def take_named(self, indexes: Sequence[Index]) -> list[Index]:
        """Take indexes from the mirrors of ``--index-from``; return those that they lack. Raises Interrupted."""
        if not self._named:
            return [*indexes]
        missed = [Missed(index, ConfigurationError("not asked")) for index in indexes]
        left = [each.index for each in self._take(missed, agreed=False)]
        return [index for index in indexes if index in left]

    def take_instead(self, missed: Sequence[Missed]) -> list[Missed]:
        """Take indexes of unreachable servers from mirrors; return those that are still missing. Raises Interrupted."""
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
            except (ResumeDLError, OSError) as error:  # a local failure
                left += [Missed(each.index, each.error, str(error)) for each in those.values()]
        return left

    def _take_of(self, filename: str, of: dict[Wanted, Missed], *, agreed: bool) -> list[Missed]:
        """Take indexes of one file name; ``current_repodata.json`` may be replaced by a mirror's whole index."""
        left = dict(of)
        notes: dict[Wanted, str] = {}
        failed: list[Missed] = []

        def give(wanted: Wanted, carried: SubstituteIndex) -> None:
            each = left.pop(wanted)
            try:
                each.index.take_from_mirrors(carried.path)
            except Exception as error:  # noqa: BLE001 - raised by the client's code; the other indexes go on
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
        """Return the channel and subdir; None for a channel with login, or a URL that is not a channel's."""
        address = index.base
        try:
            if self._setup.access(RedactedUrl(f"{address.reveal()}/{index.filename}")).private:
                return None
            (channel,) = expand_channels((address.reveal(),), self._setup.conda, self._setup.table)
        except (ConfigurationError, ValueError):
            return None
        return channel, index.subdir

    def _standing(self, wanted: Asked, name: str) -> Standing:
        """Return the sources as for ``fetch``, without the client's own URL and without mirrors named after it."""
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
    """A reporter that lowers messages to ``--verbose``; the client's user gets one summary line at the end."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.plan = reporter.plan
        self.progress = reporter.progress
        self.event = reporter.event
        self.close = reporter.close

    def message(self, text: str, *, level: str = "info") -> None:
        """Report ``text`` at the lowered level."""
        del level
        self._reporter.message(text, level="debug")


def _is_unreachable(error: Exception) -> bool:
    """Whether the server or the network failed, rather than this machine or an interruption by the user."""
    return isinstance(error, (TransferError, IntegrityError))
