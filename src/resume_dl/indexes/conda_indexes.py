"""Channel indexes for a solve: asked of whom the rule of trust says, from wherever they come."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resume_dl.errors import ChannelNotFoundError
from resume_dl.indexes.trust import Standing, Vouched, authority_of, standing
from resume_dl.indexes.whole import FORMATS, Wanted, WholeIndex, WholeIndexes
from resume_dl.model.artifact import Source
from resume_dl.model.channel import Channel
from resume_dl.ports import Reporter
from resume_dl.resolve.request import RepodataFile
from resume_dl.transfer.places import Places
from resume_dl.transfer.watching import WatchedEngine


@dataclass(frozen=True, slots=True)
class IndexReport:
    """One index of a run: what it came to, and why it is believed."""

    channel: str
    subdir: str
    authority: str
    """The host that decides; redacted."""
    form: str
    """``shards``, ``whole`` or ``kept``."""
    vouched: Vouched
    carried_by: tuple[str, ...]
    downloaded: int
    """Bytes that came in this run."""
    age: float | None = None
    """Seconds since the authority last said that it is current; None where that is not known."""

    def as_json(self) -> dict[str, Any]:
        """The object in ``indexes``."""
        return {
            "channel": self.channel,
            "subdir": self.subdir,
            "authority": self.authority,
            "form": self.form,
            "vouched": self.vouched.value,
            "carried_by": list(self.carried_by),
            "bytes": self.downloaded,
            "age_seconds": None if self.age is None else round(self.age),
        }


class CondaIndexes:
    """The indexes of one command. ``offline`` uses what is kept and makes no request.

    ``index_from`` are the mirrors that the user named as ones to be believed.
    """

    def __init__(
        self,
        engine: WatchedEngine,
        places: Places,
        folder: Path,
        reporter: Reporter,
        *,
        offline: bool,
        largest: int | None = None,
        index_from: Sequence[str] = (),
    ) -> None:
        self._places = places
        self._reporter = reporter
        self._offline = offline
        self._named = tuple(index_from)
        self._whole = WholeIndexes(engine, places, folder, reporter, offline=offline, largest=largest)
        self._reports: dict[Wanted, IndexReport] = {}

    @property
    def report(self) -> tuple[IndexReport, ...]:
        """What became of each index so far."""
        return tuple(self._reports.values())

    def fetch(self, wanted: Sequence[Wanted], names: Collection[str] | None = None) -> list[RepodataFile]:
        """The index of every channel and subdir that exists; a channel may lack some subdirs, but not all.

        ``names``: of the packages that a solve begins with (specs, installed, pins), where an index need hold no more
        than these and what they depend on; None for all. Raises ChannelNotFoundError, ChannelUnavailableError,
        CaptivePortalError, Interrupted or StoreError.
        """
        found = self._from_shards(wanted, names)
        missing = [each for each in wanted if each not in found]
        results = self._whole.fetch(missing, self._authorities)
        silent = [each for each in missing if self._is_silent(each, results[each])]
        results |= self._whole.fetch(silent, self._carriers)
        return [*found.values(), *self._present(results)]

    def fresher(self, files: Sequence[RepodataFile], disputes: Mapping[str, str] | None = None) -> list[RepodataFile]:
        """The same files, as the authority has them now and not in a cache on the way; the same list if unchanged.

        A mirror or a cache that is behind serves an old index: asked for when a spec has no candidate, when an archive
        is missing everywhere, or when sources agree on bytes that the index denies (``disputes``: the digest in the
        index -> the digest that the bytes have).
        """
        del disputes
        if self._offline:
            return list(files)
        results = self._whole.fetch(
            [(each.channel, each.subdir) for each in files], self._authorities, past_caches=True
        )
        changed = any(not result.kept for result in results.values())
        return self._present(results) if changed else list(files)

    def _from_shards(self, wanted: Sequence[Wanted], names: Collection[str] | None) -> dict[Wanted, RepodataFile]:
        """SHARDS PLUG IN HERE: the subsets of those whose authority has shards, each with an entry in ``_reports``."""
        del wanted, names
        return {}

    def _present(self, results: Mapping[Wanted, WholeIndex]) -> list[RepodataFile]:
        """The files that there are. Raises for what cannot be had, and for a channel that is nowhere."""
        for result in results.values():
            if result.error is not None:
                raise result.error
        have = {each[0] for each, result in results.items() if result.path is not None}
        files = []
        for (channel, subdir), result in results.items():
            if result.path is not None:
                files.append(RepodataFile(channel, subdir, result.path))
                self._note(channel, subdir, result)
                continue
            if channel not in have:
                tried = tuple(url for each, other in results.items() if each[0] == channel for url in other.tried)
                what = "has not been fetched before" if self._offline else "has no repodata anywhere"
                raise ChannelNotFoundError(
                    f"the channel {channel.name} {what} (tried {', '.join(tried) or 'no address: no mirror has it'})",
                    tried=tried,
                    hint="check its name, or run without --offline" if self._offline else "check the channel's name",
                )
            self._reporter.message(f"{channel.name} has nothing for {subdir}", level="debug")
        return files

    def _note(self, channel: Channel, subdir: str, result: WholeIndex) -> None:
        stand = self.standing((channel, subdir), FORMATS[-1])
        authority = stand.authority[0].url.host if stand.authority else channel.client_base.host
        form = "kept" if result.kept else "whole"
        self._reports[channel, subdir] = IndexReport(
            channel.name, subdir, authority, form, stand.vouched, result.carried_by, result.downloaded
        )

    def standing(self, wanted: Wanted, name: str) -> Standing:
        """The sources of the file ``name`` beside an index, by what they count for."""
        channel, subdir = wanted
        url = channel.file_url(subdir, name)
        return standing(self._places.of(url), authority_of(channel, self._places.table), url, self._named)

    def _is_silent(self, wanted: Wanted, result: WholeIndex) -> bool:
        """Whether the authority cannot be asked, or has not answered, and there are others."""
        stand = self.standing(wanted, FORMATS[-1])
        return bool(stand.carriers) and (result.error is not None or not stand.authority)

    def _authorities(self, wanted: Wanted, name: str) -> tuple[Source, ...]:
        return self.standing(wanted, name).authority

    def _carriers(self, wanted: Wanted, name: str) -> tuple[Source, ...]:
        return self.standing(wanted, name).carriers
