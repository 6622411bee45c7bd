"""Whole channel indexes over our own transport: resumable, kept, and asked for again only if they have changed."""

from __future__ import annotations

import mmap
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from resume_dl.core.failures import FailureKind
from resume_dl.engine.job import Job, Outcome
from resume_dl.errors import (
    CaptivePortalError,
    ChannelNotFoundError,
    ChannelUnavailableError,
    IntegrityError,
    NoNetworkError,
    ResumeDLError,
)
from resume_dl.indexes.copies import Freshness, KeptCopies, Note
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.channel import Channel
from resume_dl.model.http import CacheHeaders
from resume_dl.model.units import show_age
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Reporter
from resume_dl.resolve.repodata import newest_timestamp
from resume_dl.resolve.request import RepodataFile
from resume_dl.store.platform import remove_durably, replace_durably, write_durably
from resume_dl.transfer.places import Places
from resume_dl.transfer.watching import WatchedEngine

FORMATS = ("repodata.json.zst", "repodata.json")
"""Asked for in this order; the packed one is an eighth of the other."""

PAST_CACHES = {"Cache-Control": "no-cache", "Pragma": "no-cache"}
"""Ask the server itself, not a cache on the way (RFC 9111 5.2.1.4, 5.4)."""

AS_SERVERS_SAY = Freshness()

Wanted = tuple[Channel, str]
"""A channel and a subdir."""


@dataclass(frozen=True, slots=True)
class WholeIndex:
    """One whole index, unpacked, at ``path``; counts in bytes."""

    artifact: Artifact
    """The form that it came in, whose ``url`` is the address that vouches for it."""
    path: Path
    mirror: str
    """The mirror that it came from, now or when it was kept; empty where that is not known."""
    downloaded: int
    """Body bytes that came over the line for it in this run."""
    age: float
    """Seconds since its source last said that this is its version."""
    asked: bool = True
    """Whether any server was asked for it in this run."""


class WholeIndexes:
    """Fetches whole indexes from the sources that each names; ``offline`` uses what is kept and asks no server."""

    def __init__(
        self,
        engine: WatchedEngine,
        places: Places,
        copies: KeptCopies,
        reporter: Reporter,
        *,
        offline: bool,
        freshness: Freshness = AS_SERVERS_SAY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._places = places
        self._copies = copies
        self._reporter = reporter
        self._offline = offline
        self._freshness = freshness
        self._clock = clock
        self.downloaded = 0
        """Body bytes of indexes that came over the line so far, those of refused ones included."""
        self.refused: dict[Wanted, list[str]] = {}
        """What was wrong with indexes that came, each with its source."""

    def fetch(
        self, wanted: Mapping[Wanted, Sequence[Artifact]], *, past_caches: bool = False
    ) -> dict[Wanted, WholeIndex]:
        """The indexes that exist; each of ``wanted`` in the first of its forms that there is.

        A kept copy that is young enough is used without a request, whatever its form; with ``past_caches`` servers are
        asked in any case, and not caches on the way. What was wrong with indexes that came is in ``refused``. Raises
        ChannelUnavailableError, Interrupted or StoreError.
        """
        self.refused.clear()
        found: dict[Wanted, WholeIndex] = {}
        for each, forms in wanted.items():
            kept = None if past_caches else self._kept(forms)
            if kept is not None:
                found[each] = kept
        self._tell_ages(found)
        for number in range(max(map(len, wanted.values()), default=0)):
            rest = {each: forms[number:] for each, forms in wanted.items() if each not in found}
            missing = {each: forms[0] for each, forms in rest.items() if forms}
            if missing and not self._offline:
                found |= self.get(missing, past_caches=past_caches)
        return found

    def _kept(self, forms: Sequence[Artifact]) -> WholeIndex | None:
        """The youngest kept copy that may be used without asking its source."""
        now = self._clock()
        found: list[WholeIndex] = []
        for index in forms:
            note = self._copies.note(index)
            source = None if note is None else _source_of(note, index)
            fresh = note is not None and source is not None and self._freshness.allows(note, now)
            if note is not None and (self._offline or fresh):
                mirror = "" if source is None else source.mirror
                found.append(WholeIndex(index, self._copies.path(index), mirror, 0, note.age(now), asked=False))
        return min(found, key=lambda each: each.age, default=None)

    def _tell_ages(self, found: Mapping[Wanted, WholeIndex]) -> None:
        """One line a channel whose index is used as it is kept, with the age of its oldest."""
        ages: dict[str, float] = {}
        for (channel, _), index in found.items():
            ages[channel.name] = max(index.age, ages.get(channel.name, 0.0))
        for name, age in ages.items():
            why = "" if self._offline else "; --refresh asks for a newer one"
            self._reporter.message(f"index of {name}, {show_age(age)} old{why}", level="info")

    def get(
        self, indexes: Mapping[Wanted, Artifact], *, aside: bool = False, past_caches: bool = False
    ) -> dict[Wanted, WholeIndex]:
        """Ask for each index in this one form; those that exist. ``aside``: put beside what is kept.

        Raises as ``fetch``.
        """
        self._copies.make_folder()
        there: dict[Wanted, WholeIndex] = {}
        while indexes:
            notes = {index.key: None if aside else self._copies.note(index) for index in indexes.values()}
            jobs = [self._job(index, notes[index.key], past_caches=past_caches) for index in indexes.values()]
            outcomes = {outcome.artifact.key: outcome for outcome in self._engine.run(jobs)}
            self.downloaded += sum(outcome.downloaded + outcome.wasted for outcome in outcomes.values())
            again: dict[Wanted, Artifact] = {}
            for each, index in indexes.items():
                outcome = outcomes[index.key]
                if outcome.reason == "lacking" and (index.sources or not self._places.left_out):
                    continue
                if _is_refused(outcome):
                    self._refuse(each, index, f"{outcome.error}")
                    with suppress(ResumeDLError, OSError):  # what came of it, which nothing can continue
                        self._copies.parts.remove(index.key)
                    continue
                if outcome.error is not None and outcome.reason != "unchanged":
                    raise self._unavailable(outcome)
                try:
                    there[each] = self._taken(index, outcome, notes[index.key], aside=aside)
                except IntegrityError as error:
                    served = {report.mirror for report in outcome.sources if report.bytes}
                    others = tuple(source for source in index.sources if source.mirror not in served)
                    who = " and ".join(sorted(served)) or "an earlier run"
                    self._refuse(each, index, f"{index.title} of {who}: {error.message}")
                    if others and served:
                        again[each] = replace(index, sources=others)
            indexes = again
        return there

    def _taken(self, index: Artifact, outcome: Outcome, note: Note | None, *, aside: bool) -> WholeIndex:
        """What came, kept; or the kept copy of ``note``, where its source calls it unchanged.

        Raises IntegrityError or StoreError.
        """
        now = self._clock()
        if outcome.reason == "unchanged" and note is not None:
            source = _source_of(note, index)
            self._copies.confirm(index, note, outcome.said, now)
        else:
            served = {report.mirror for report in outcome.sources if report.bytes}
            source = next((source for source in outcome.artifact.sources if source.mirror in served), None)
            label = "" if source is None else str(source.url)
            self._copies.keep(index, Note(label, outcome.said, now), aside=aside)
        mirror = "" if source is None else source.mirror
        return WholeIndex(index, self._copies.path(index, aside=aside), mirror, outcome.downloaded, 0.0)

    def _refuse(self, of: Wanted, index: Artifact, why: str) -> None:
        """An index came that cannot be used: that is its source's failure, and the next one is asked."""
        self.refused.setdefault(of, []).append(why)
        self._reporter.message(f"{why}; another source or form of {index.title} is tried", level="warning")

    def _job(self, index: Artifact, note: Note | None, *, past_caches: bool) -> Job:
        parts, new, largest = self._copies.parts, self._copies.arriving(index), self._copies.largest
        headers = PAST_CACHES if past_caches or self._freshness.refresh else {}
        source = None if note is None else _source_of(note, index)
        known: dict[RedactedUrl, CacheHeaders] = {}
        if note is not None and source is not None and note.said.validator is not None:
            known[source.url] = note.said  # for the others they mean nothing: this one is asked first
        return Job(index, parts, new, known=known, headers=headers, largest=largest)

    def _unavailable(self, outcome: Outcome) -> Exception:
        error = outcome.error
        if error is None or outcome.reason in {"cancelled", "local", "locked"}:
            return error or AssertionError("an outcome without an error")
        if isinstance(error, CaptivePortalError):
            return error
        kept = self._copies.path(outcome.artifact).is_file()
        hint = "check the line and the proxy settings, then run it again: what came is kept"
        said = f"an index cannot be had: {error.message}"
        if isinstance(error, NoNetworkError):
            said, hint = error.message, error.hint
        if self._places.left_out and not outcome.artifact.sources:
            hint = error.hint
        return ChannelUnavailableError(
            said,
            tried=tuple(str(source.url) for source in outcome.artifact.sources),
            hint=f"{hint}; or use the copy that is here with --offline" if kept else hint,
        )


def _source_of(note: Note, index: Artifact) -> Source | None:
    """The source that the kept copy came from, where it is one of this index's."""
    return next((source for source in index.sources if str(source.url) == note.source), None)


def _is_refused(outcome: Outcome) -> bool:
    """Whether each source answered, and none of them with a file that may be taken for an index."""
    kinds = {kind for report in outcome.sources for kind in report.failures}
    answers = {FailureKind.CONTENT.value, FailureKind.LACKS.value}
    return outcome.reason == "exhausted" and FailureKind.CONTENT.value in kinds and kinds <= answers


class RepodataFetcher:
    """Keeps one copy of each repodata in ``folder``; ``offline`` uses what is there and asks nobody."""

    def __init__(
        self,
        engine: WatchedEngine,
        places: Places,
        folder: Path,
        reporter: Reporter,
        *,
        offline: bool,
        largest: int | None = None,
        freshness: Freshness = AS_SERVERS_SAY,
    ) -> None:
        self._places = places
        self._reporter = reporter
        self._offline = offline
        copies = KeptCopies(folder, largest=largest)
        self._whole = WholeIndexes(engine, places, copies, reporter, offline=offline, freshness=freshness)

    @property
    def downloaded(self) -> int:
        """Body bytes of indexes that came over the line so far."""
        return self._whole.downloaded

    def fetch(self, wanted: Sequence[Wanted]) -> list[RepodataFile]:
        """The repodata of every channel and subdir that exists; a channel may lack some subdirs, but not all.

        Raises ChannelNotFoundError, ChannelUnavailableError, Interrupted or StoreError.
        """
        forms = {each: self.forms(*each) for each in wanted}
        tried = {each: [str(s.url) for index in forms[each] for s in index.sources] for each in wanted}
        answers = self._whole.fetch(forms)
        found = {each: RepodataFile(each[0], each[1], index.path) for each, index in answers.items()}
        missing = [each for each in wanted if each not in answers]
        have = {channel for channel, _ in found}
        for channel, subdir in missing:
            if (channel, subdir) in self._whole.refused:
                raise self._unusable(channel, subdir, tried[channel, subdir])
            if channel not in have:
                places = tuple(place for each, urls in tried.items() if each[0] == channel for place in urls)
                what = "has not been fetched before" if self._offline else "has no repodata anywhere"
                raise ChannelNotFoundError(
                    f"the channel {channel.name} {what} (tried {', '.join(places) or 'no address: no mirror has it'})",
                    tried=places,
                    hint="check its name, or run without --offline" if self._offline else "check the channel's name",
                )
            self._reporter.message(f"{channel.name} has nothing for {subdir}", level="debug")
        return [found[each] for each in wanted if each in found]

    def fresher(self, files: Sequence[RepodataFile], disputes: Mapping[str, str] | None = None) -> list[RepodataFile]:
        """The same files, each the best of all sources' copies; the very same list where none is better.

        A mirror or a cache that is behind serves an old index: asked for when a spec has no candidate, when an archive
        is nowhere, or when sources agree on bytes that the index denies: ``disputes`` are those, the digest in the
        index -> the digest that the bytes have.
        """
        if self._offline:
            return list(files)
        return [self._freshest(file, disputes or {}) for file in files]

    def _freshest(self, file: RepodataFile, disputes: Mapping[str, str]) -> RepodataFile:
        best, rank = file, _rank(file.path, disputes)
        for source in self._places.of(file.channel.file_url(file.subdir, FORMATS[0])):
            copy = self._copy_of(source.mirror, file)
            if copy is None:
                continue
            if (found := _rank(copy.path, disputes)) <= rank:
                _remove(copy.path)
                continue
            if best is not file:
                _remove(best.path)
            best, rank = copy, found
            self._reporter.message(f"{source.mirror} has newer repodata of {file.channel.name}", level="info")
        if best is not file:
            _prefer(best.path, file.path)
        return best

    def _copy_of(self, mirror: str, file: RepodataFile) -> RepodataFile | None:
        """One source's copy, as it is there now and not in a cache on the way; None where it cannot be had."""
        of = (file.channel, file.subdir)
        for name in FORMATS:
            for source in self._places.of(file.channel.file_url(file.subdir, name)):
                if source.mirror == mirror:
                    index = replace(self._index(of, source.url, name), sources=(source,))
                    try:
                        answers = self._whole.get({of: index}, aside=True, past_caches=True)
                    except (ChannelUnavailableError, CaptivePortalError):
                        return None
                    if of in answers:
                        return RepodataFile(*of, answers[of].path)
        return None

    def forms(self, channel: Channel, subdir: str) -> list[Artifact]:
        """An index in each form that it may be asked for, the best first."""
        return [self._index((channel, subdir), channel.file_url(subdir, name), name) for name in FORMATS]

    def _index(self, of: Wanted, url: RedactedUrl, name: str) -> Artifact:
        sources = self._places.of(url)
        return Artifact(kind="index", filename=name, url=url, channel=of[0].name, subdir=of[1], sources=sources)

    def _unusable(self, channel: Channel, subdir: str, tried: Sequence[str]) -> ChannelUnavailableError:
        whys = "; ".join(dict.fromkeys(self._whole.refused[channel, subdir]))
        return ChannelUnavailableError(
            f"the index of {channel.name}/{subdir} cannot be had: {whys}",
            tried=tuple(tried),
            hint="try another mirror with --mirror, or later; an index that is really so large: --max-index-size",
        )


def _rank(path: Path, disputes: Mapping[str, str]) -> tuple[int, float, int]:
    """How good a copy is: it knows the bytes that there are, it is new, it does not insist on those that are not."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            knows = sum(data.find(actual.encode()) >= 0 for actual in disputes.values())
            insists = sum(data.find(denied.encode()) >= 0 for denied in disputes)
    except (OSError, ValueError):
        return 0, 0.0, 0
    return knows, newest_timestamp(path), -insists


def _prefer(best: Path, usual: Path) -> None:
    """Let the next run begin with this copy and its source: else it would be misled in the same way again."""
    with suppress(OSError):
        new = usual.with_suffix(f".{secrets.token_hex(4)}")
        shutil.copyfile(best, new)
        remove_durably(usual.with_suffix(".note"))  # never a validator beside another copy
        replace_durably(new, usual)
        write_durably(usual.with_suffix(".note"), best.with_suffix(".note").read_bytes())


def _remove(copy: Path) -> None:
    with suppress(OSError):
        copy.unlink()
        copy.with_suffix(".note").unlink()
