"""Reports on a run's channel indexes, and messages about their sources during download."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from resume_dl.errors import ResumeDLError
from resume_dl.indexes.agreement import Agreement
from resume_dl.indexes.index_sources import IndexSources
from resume_dl.indexes.shards import FILENAME as SHARD_INDEX
from resume_dl.indexes.whole import Wanted, WholeIndex
from resume_dl.model.channel import Channel
from resume_dl.model.index_report import IndexReport, Vouched
from resume_dl.model.network import is_loopback
from resume_dl.ports import Reporter

if TYPE_CHECKING:  # imports msgspec, which resume-dl.pyz lacks
    from resume_dl.indexes.shards.open_index import OpenIndex


class ChannelNotes:
    """The reports of one command's indexes; each message is shown once."""

    def __init__(self, sources: IndexSources, reporter: Reporter, *, offline: bool) -> None:
        self._sources = sources
        self._reporter = reporter
        self._offline = offline
        self._reports: dict[Wanted, IndexReport] = {}
        self._said: set[str] = set()

    @property
    def reports(self) -> tuple[IndexReport, ...]:
        """The reports so far, one per index."""
        return tuple(self._reports.values())

    def whole(self, wanted: Wanted, result: WholeIndex, vouched: Vouched) -> None:
        """Record a whole index from an authoritative source."""
        form = "kept" if result.kept else "whole"
        channel, subdir = wanted
        host = self._sources.host_of(channel)
        self._add(
            IndexReport(channel.name, subdir, host, form, vouched, result.carried_by, result.downloaded, result.age),
            wanted,
        )

    def sharded(self, used: Mapping[Wanted, OpenIndex]) -> None:
        """Record the shard indexes in use."""
        for wanted, index in used.items():
            stand = self._sources.standing(wanted, SHARD_INDEX)
            vouched = Vouched.NAMED if stand.named else Vouched.AUTHORITY
            carried_by = tuple(sorted(index.carried_by or {index.source.mirror}))
            age = max(0.0, time.time() - index.checked)
            channel, subdir = wanted
            host = self._sources.host_of(channel)
            self._add(
                IndexReport(channel.name, subdir, host, "shards", vouched, carried_by, index.downloaded, age), wanted
            )

    def agreed(self, agreements: Iterable[Agreement]) -> None:
        """Record the indexes that carriers agree on; those without a chosen record are left out."""
        for agreement in agreements:
            known = self._reports.get(agreement.wanted)
            if known is not None and known.vouched is not Vouched.AGREEMENT:
                del self._reports[agreement.wanted]  # it was unreadable and carriers replaced it
                known = None
            if agreement.lead is None or not agreement.is_used:
                continue
            channel, subdir = agreement.wanted
            host = self._sources.host_of(channel)
            came = sum(copy.downloaded for copy in agreement.copies.values())
            form = "whole" if came else "kept"
            of_other_platforms = () if known is None else known.carried_by
            names = tuple(dict.fromkeys((*of_other_platforms, *agreement.agreed)))
            self._reports[agreement.wanted] = IndexReport(
                channel.name, subdir, host, form, Vouched.AGREEMENT, names, came
            )

    def silent(self, channel: Channel, why: ResumeDLError | None) -> None:
        """Report that carriers replace the authority; ``why``: its error, None if it was not asked."""
        host = self._sources.host_of(channel)
        if self._offline:
            return
        what = f"{host} cannot be reached" if why is not None else f"{host} is excluded"
        self._say(f"{what}: of the index of {channel.name} only what two mirrors agree on is used", level="warning")
        if why is not None:
            self._reporter.message(f"{host}: {why.message}", level="debug")

    def once_more(self, channel: Channel, alone: str) -> None:
        """Report that the authority is asked again, because the mirror ``alone`` is not enough."""
        host = self._sources.host_of(channel)
        text = f"{alone} alone is not enough for the index of {channel.name}: asking {host} once more"
        self._say(f"{text} (or name a mirror that you trust: --index-from)", level="warning")

    def _add(self, report: IndexReport, wanted: Wanted) -> None:
        """Add a report, with a message if the source is notable."""
        self._reports[wanted] = report
        channel, host, vouched = wanted[0], report.authority, report.vouched
        names = " and ".join(report.carried_by) or "an earlier run"
        if vouched is Vouched.NAMED:
            self._say(f"index of {channel.name} from {names}, as --index-from says")
            return
        for source in self._sources.authorities(wanted):
            url = source.url.reveal()
            if url[:5].lower() == "http:" and not is_loopback(url) and not self._offline:
                text = f"the index of {channel.name} comes from {host} over plain http, so it can be altered on the way"
                self._say(text, level="warning")

    def _say(self, text: str, *, level: str = "info") -> None:
        """Show a message once per command."""
        if text not in self._said:
            self._said.add(text)
            self._reporter.message(text, level=level)
