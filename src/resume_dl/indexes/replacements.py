"""Replacement of unusable indexes: by a newer copy, bypassing caches, or by that of the next source or form."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from resume_dl.errors import ChannelUnavailableError
from resume_dl.indexes.carrier_indexes import CarrierIndexes
from resume_dl.indexes.channel_notes import ChannelNotes
from resume_dl.indexes.index_sources import IndexSources, of_mirror
from resume_dl.indexes.whole import FORMATS, Asked, Wanted, WholeIndex, WholeIndexes
from resume_dl.model.index_report import Vouched
from resume_dl.ports import Reporter
from resume_dl.resolve.request import RepodataFile


class Replacements:
    """Finds replacements within the rule of trust: only sources that ``fetch`` could have used."""

    def __init__(
        self,
        sources: IndexSources,
        whole: WholeIndexes,
        carriers: CarrierIndexes,
        notes: ChannelNotes,
        reporter: Reporter,
        *,
        offline: bool,
    ) -> None:
        self._sources = sources
        self._whole = whole
        self._carriers = carriers
        self._notes = notes
        self._reporter = reporter
        self._offline = offline
        self._refreshed: set[tuple[Wanted, str]] = set()
        """What was already requested bypassing caches, and from which source."""
        self._forms: dict[Wanted, str] = {}
        """Forms of authorities' indexes that were unreadable."""

    def newer(
        self, files: Sequence[RepodataFile], disputes: Mapping[str, str], *, without: Container[Wanted] = ()
    ) -> tuple[list[RepodataFile], bool]:
        """Fetch the files again from authoritative sources, bypassing caches; return them and whether any has changed.

        ``without``: files to leave unchanged. Raises Interrupted or StoreError.
        """
        if self._offline:
            return list(files), False
        before = {(file.channel, file.subdir): (_rank(file.path, disputes), _digest(file.path)) for file in files}
        newer = {(file.channel, file.subdir): file for file in files}
        changed: set[Wanted] = set()
        while True:
            asked: dict[Asked, Wanted] = {}
            for each in newer:
                if each in without:
                    continue
                stand = self._sources.standing(each)
                deciding = stand.named or (() if each in self._carriers else stand.authority)
                left = [source.mirror for source in deciding if (each, source.mirror) not in self._refreshed]
                if left and each not in changed:
                    self._refreshed.add((each, left[0]))
                    asked[of_mirror(each, left[0])] = each
            if not asked:
                break
            for copy, result in self._whole.fetch(list(asked), self._sources.copy_of, past_caches=True).items():
                each = asked[copy]
                rank, digest = before[each]
                if result.path is None or (result.path == newer[each].path and result.kept):
                    continue
                if _digest(result.path) == digest:
                    continue
                if result.path != newer[each].path:  # from another of several named mirrors
                    if disputes and _rank(result.path, disputes) <= rank:
                        continue
                    self._reporter.message(f"{copy[-1]} has a different index of {each[0].name}", level="info")
                newer[each] = RepodataFile(*each, result.path)
                vouched = Vouched.NAMED if copy[-1] in self._sources.named else Vouched.AUTHORITY
                self._notes.whole(each, result, vouched)
                changed.add(each)
        return list(newer.values()), bool(changed)

    def of_unreadable(self, file: RepodataFile, *, is_sure: bool) -> RepodataFile | None:
        """Return the next source's or form's copy of an unreadable index; ``is_sure``: it is known to be this one.

        None if there is none. Raises Interrupted or StoreError.
        """
        wanted = file.channel, file.subdir
        if wanted in self._carriers:
            return self._carriers.next_lead(wanted)
        if self._offline:
            return None
        for source in self._sources.standing(wanted).named:
            if (wanted, source.mirror) not in self._refreshed:
                self._refreshed.add((wanted, source.mirror))
                copy = of_mirror(wanted, source.mirror)
                result = self._whole.fetch([copy], self._sources.copy_of, replaceable={copy})[copy]
                if result.path is not None and _digest(result.path) != _digest(file.path):
                    self._notes.whole(wanted, result, Vouched.NAMED)
                    return RepodataFile(*wanted, result.path)
        result = WholeIndex(error=ChannelUnavailableError("its index is unreadable"))
        authorities = self._sources.authorities
        if self._forms.get(wanted) is None and authorities(wanted):
            self._forms[wanted] = FORMATS[-1]
            replaceable = {wanted} if self._sources.has_others(wanted, Vouched.AUTHORITY) else ()
            result = self._whole.fetch([wanted], authorities, forms=FORMATS[-1:], replaceable=replaceable)[wanted]
            if result.path is not None:
                self._notes.whole(wanted, result, Vouched.AUTHORITY)
                return RepodataFile(*wanted, result.path)
            result.error = result.error or ChannelUnavailableError("its index is unreadable")
        if not is_sure:
            return None
        self._carriers.begin([wanted], {wanted: result})
        return self._carriers.lead(wanted)


def _digest(path: Path) -> bytes:
    """Return the digest of a whole file; empty if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError:
        return b""
    return digest.digest()


def _rank(path: Path, disputes: Mapping[str, str]) -> tuple[int, int]:
    """Rank a copy by disputed digests: the more of the actual digests and the fewer of the old ones, the better."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            knows = sum(data.find(actual.encode()) >= 0 for actual in disputes.values())
            insists = sum(data.find(denied.encode()) >= 0 for denied in disputes)
    except (OSError, ValueError):
        return 0, 0
    return knows, -insists
