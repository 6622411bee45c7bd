"""Download of whole channel indexes from given sources: resumable, kept, and fetched again only if changed.

Callers decide which sources are trusted (``conda_indexes``, ``trust``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from resume_dl.core.failures import FailureKind
from resume_dl.core.sources import OF_THE_HOST
from resume_dl.engine.job import Job, Outcome
from resume_dl.errors import (
    CaptivePortalError,
    ChannelUnavailableError,
    IntegrityError,
    NoNetworkError,
    ResumeDLError,
)
from resume_dl.indexes.copies import AS_SERVERS_SAY, Freshness, KeptCopies, Note
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.channel import Channel
from resume_dl.model.http import CacheHeaders
from resume_dl.model.units import show_age
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Reporter
from resume_dl.transfer.source_places import Places
from resume_dl.transfer.watched_engine import WatchedEngine
from resume_dl.zstd_frames import is_available

FORMATS = ("repodata.json.zst", "repodata.json")
"""The file names to try, in order; the packed form has an eighth of the size."""

_PAST_CACHES = {"Cache-Control": "no-cache", "Pragma": "no-cache"}
"""Headers that bypass caches (RFC 9111 5.2.1.4, 5.4)."""

_GIVEN_UP = frozenset({"exhausted", "unreachable", "no network"})
"""Reasons of the core (``actions.Fail``)."""

Wanted = tuple[Channel, str]
"""A channel and a subdir."""
Asked = Wanted | tuple[Channel, str, str]
"""The key of a download: an index, or the copy of it at the mirror of this name."""
SourcesOf = Callable[[Asked, str], tuple[Source, ...]]
"""Returns the sources of the file of this name, in order."""


@dataclass(slots=True)
class WholeIndex:
    """The result for one index. Without path and error, every source has answered that it has none."""

    path: Path | None = None
    """The uncompressed copy."""
    error: ResumeDLError | None = None
    """Why it is unavailable, although a source may have it (ChannelUnavailableError, CaptivePortalError)."""
    tried: tuple[str, ...] = ()
    """The URLs that were tried, redacted."""
    carried_by: tuple[str, ...] = ()
    """The mirrors that supplied its bytes, in this run or the one that kept it."""
    answered_by: tuple[str, ...] = ()
    """The hosts that supplied its bytes; another operator's if a mirror redirected."""
    downloaded: int = 0
    """Bytes downloaded in this run."""
    kept: bool = False
    """Whether the kept copy is used: it is unchanged or fresh enough, or the run is offline."""
    silent: bool = False
    """Whether its sources were given up early, without a byte, because others can replace them."""
    asked: bool = True
    """Whether a server was asked for it in this run."""
    age: float | None = None
    """Seconds since its source last confirmed this version; None without a path."""


class WholeIndexes:
    """Fetches indexes and keeps one copy per index and source in ``folder``; ``offline``: only kept copies are used.

    ``clock`` returns seconds since 1970.
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
        freshness: Freshness = AS_SERVERS_SAY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._places = places
        self._copies = KeptCopies(folder, largest=largest)
        self._reporter = reporter
        self._offline = offline
        self._freshness = freshness
        self._clock = clock
        self.downloaded = 0
        """Body bytes of indexes that were downloaded so far, including refused ones."""
        self._refused: dict[Asked, list[str]] = {}
        """The reasons why downloaded indexes were refused, each with its source."""

    def check_folder(self) -> None:
        """Create the folder of the kept copies and check that it is writable. Raises StoreError."""
        self._copies.make_folder()

    def fetch(
        self,
        wanted: Sequence[Asked],
        sources: SourcesOf,
        *,
        past_caches: bool = False,
        replaceable: Container[Asked] = (),
        last_chance: bool = False,
        forms: Sequence[str] = FORMATS,
    ) -> dict[Asked, WholeIndex]:
        """Return the result for each index; the packed form is tried first, if this Python can unpack it.

        A kept copy of any form that is fresh enough is used without a request. ``past_caches``: always ask the servers,
        bypassing caches. ``replaceable``: indexes that other sources can supply if these do not answer soon.
        ``last_chance``: the other sources failed, so these are asked once more with longer time limits. Raises
        Interrupted or StoreError.
        """
        results = {each: WholeIndex() for each in wanted}
        self._refused.clear()
        found = {each: [index_file(each, name, sources(each, name)) for name in forms] for each in wanted}
        for each, indexes in found.items():
            tried = (index.sources for index in indexes if _is_readable(index.filename))
            results[each].tried = tuple(str(source.url) for those in tried for source in those)
            if not past_caches:
                self._use_kept(results[each], indexes)
        self._tell_ages(results)
        missing = [each for each in wanted if results[each].path is None]
        for number, name in enumerate(() if self._offline else forms):
            if not _is_readable(name):
                continue
            now = {each: found[each][number] for each in missing}
            self._get_once(now, results, past_caches=past_caches, replaceable=replaceable, last_chance=last_chance)
            missing = [each for each in missing if results[each].path is None and results[each].error is None]
        for each in missing:
            if each in self._refused:
                results[each].error = self._unusable(each, results[each].tried)
        return results

    def _get_once(
        self,
        indexes: Mapping[Asked, Artifact],
        results: Mapping[Asked, WholeIndex],
        *,
        past_caches: bool,
        replaceable: Container[Asked],
        last_chance: bool,
    ) -> None:
        """As ``_get``, but each URL once: several channels may share a location, as in a bundle."""
        first: dict[str, Asked] = {}
        for each, index in indexes.items():
            first.setdefault(index.key, each)
        distinct = {each: indexes[each] for each in first.values()}
        self._get(distinct, results, past_caches=past_caches, replaceable=replaceable, last_chance=last_chance)
        for each, index in indexes.items():
            came, result = results[first[index.key]], results[each]
            result.path, result.error, result.carried_by = came.path, came.error, came.carried_by
            result.kept, result.age, result.silent = came.kept, came.age, came.silent
            result.answered_by = came.answered_by
            if each not in distinct and first[index.key] in self._refused:
                self._refused[each] = self._refused[first[index.key]]

    def _get(
        self,
        indexes: Mapping[Asked, Artifact],
        results: Mapping[Asked, WholeIndex],
        *,
        past_caches: bool,
        replaceable: Container[Asked],
        last_chance: bool,
    ) -> None:
        """Add downloads and errors to ``results``; leave entries that no source has unchanged."""
        if indexes:
            self._copies.make_folder()
        while indexes:
            notes = {index.key: self._copies.note(index) for index in indexes.values()}
            known = {index.key: self._hosts_before(index) for each, index in indexes.items() if _is_of_one(each)}
            jobs = [
                replace(
                    self._job(index, notes[index.key], past_caches=past_caches),
                    replaceable=each in replaceable,
                    last_chance=last_chance,
                )
                for each, index in indexes.items()
            ]
            outcomes = {outcome.artifact.key: outcome for outcome in self._engine.run(jobs)}
            self.downloaded += sum(outcome.downloaded + outcome.wasted for outcome in outcomes.values())
            again: dict[Asked, Artifact] = {}
            for each, index in indexes.items():
                outcome = outcomes[index.key]
                result, said_before = results[each], results[each].answered_by
                result.downloaded += outcome.downloaded
                hosts = {host for report in outcome.sources for host in report.answered_by}
                hosts |= known.get(index.key, frozenset())
                if _is_of_one(each):
                    goes_on = outcome.error is not None and outcome.reason not in ("unchanged", "lacking")
                    self._copies.note_hosts_of_part(index, hosts if goes_on and not _is_refused(outcome) else ())
                result.answered_by = tuple(sorted(hosts))
                if outcome.reason == "lacking" and (index.sources or not self._places.left_out):
                    result.answered_by = tuple(sorted({*said_before, *hosts}))  # of every form
                    continue
                if _is_refused(outcome):
                    self._refuse(each, index, f"{outcome.error}")
                    with suppress(ResumeDLError, OSError):  # the part file, which cannot be resumed
                        self._copies.parts.remove(index.key)
                    continue
                if outcome.error is not None and outcome.reason != "unchanged":
                    results[each].error = self._unavailable(outcome)
                    results[each].silent = each in replaceable and _was_silent(outcome)
                    continue
                try:
                    note = self._taken(index, outcome, notes[index.key], hosts)
                except IntegrityError as error:
                    served = {report.mirror for report in outcome.sources if report.bytes}
                    others = tuple(source for source in index.sources if source.mirror not in served)
                    origin = " and ".join(sorted(served)) or "an earlier run"
                    self._refuse(each, index, f"{index.title} of {origin}: {error.message}")
                    if others and served:
                        again[each] = replace(index, sources=others)
                    continue
                self._settle(results[each], index, note, kept=outcome.reason == "unchanged")
            indexes = again

    def _hosts_before(self, index: Artifact) -> frozenset[str]:
        """Return the hosts that supplied an earlier run's bytes of an index that counts as its operators' statement.

        If a killed run did not record them, the download starts again, as a redirect would otherwise be forgotten.
        """
        hosts = self._copies.hosts_of_part(index)
        if hosts is None:
            with suppress(ResumeDLError, OSError):
                self._copies.parts.remove(index.key)
        return hosts or frozenset()

    def _taken(self, index: Artifact, outcome: Outcome, note: Note | None, hosts: Iterable[str]) -> Note:
        """Keep a download, or confirm the unchanged copy of ``note``; return the new note.

        ``hosts``: those that supplied or confirmed it. Raises IntegrityError or StoreError.
        """
        now = self._clock()
        if outcome.reason == "unchanged" and note is not None:
            confirmed = note.confirmed(outcome.said, now, hosts)
            self._copies.confirm(index, note, confirmed)
            return confirmed
        served = {report.mirror for report in outcome.sources if report.bytes}
        sources = outcome.artifact.sources
        label = next((str(source.url) for source in sources if len(sources) == 1 or source.mirror in served), "")
        note = Note(label, outcome.said, now, tuple(sorted(hosts)))
        self._copies.keep(index, note)
        return note

    def _use_kept(self, result: WholeIndex, forms: Sequence[Artifact]) -> None:
        """Set ``result`` to the newest kept copy of its sources that may be used without a request."""
        now = self._clock()
        for index in forms:
            note = self._copies.note(index)
            if note is None or source_of(note, index) is None:
                continue
            younger = result.age is None or note.age(now) < result.age
            if younger and (self._offline or self._freshness.allows(note, now)):
                self._settle(result, index, note, kept=True)
                result.asked = False

    def _tell_ages(self, results: Mapping[Asked, WholeIndex]) -> None:
        """Report the age of kept indexes in use, one line per channel with the age of the oldest."""
        ages: dict[str, float] = {}
        for (channel, *_), result in results.items():
            if result.age is not None and result.age >= 1.0:  # else its server has just confirmed it
                ages[channel.name] = max(result.age, ages.get(channel.name, 0.0))
        for name, age in ages.items():
            why = "" if self._offline else "; --refresh asks for a newer one"
            self._reporter.message(f"index of {name}, {show_age(age)} old{why}", level="info")

    def _settle(self, result: WholeIndex, index: Artifact, note: Note, *, kept: bool) -> None:
        """Fill ``result`` with path, age and source of the copy of ``index``."""
        source = source_of(note, index)
        result.path, result.kept, result.age = self._copies.path(index), kept, note.age(self._clock())
        result.carried_by = () if source is None else (source.mirror,)
        result.answered_by = note.answered_by

    def _refuse(self, of: Asked, index: Artifact, why: str) -> None:
        """Record an unusable index as a failure of its source; the next one is tried."""
        self._refused.setdefault(of, []).append(why)
        self._reporter.message(f"{why}; trying another source or form of {index.title}", level="warning")

    def _unusable(self, of: Asked, tried: tuple[str, ...]) -> ChannelUnavailableError:
        channel, subdir = of[:2]
        whys = "; ".join(dict.fromkeys(self._refused[of]))
        return ChannelUnavailableError(
            f"the index of {channel.name}/{subdir} is unavailable: {whys}",
            tried=tried,
            hint="try another mirror with --mirror, or later; if the index is really so large: --max-index-size",
        )

    def _job(self, index: Artifact, note: Note | None, *, past_caches: bool) -> Job:
        source = None if note is None else source_of(note, index)
        known: dict[RedactedUrl, CacheHeaders] = {}
        if note is not None and source is not None and note.said.validator is not None:
            known[source.url] = note.said  # validators of one source do not apply to others: this one is asked first
        headers = _PAST_CACHES if past_caches or self._freshness.refresh else {}
        copies = self._copies
        return Job(index, copies.parts, copies.arriving(index), known=known, headers=headers, largest=copies.largest)

    def _unavailable(self, outcome: Outcome) -> ResumeDLError:
        error = outcome.error
        if error is None or outcome.reason in {"cancelled", "local", "locked"}:
            raise error or AssertionError("an outcome without an error")
        if isinstance(error, CaptivePortalError):
            return error
        kept = self._copies.path(outcome.artifact).is_file()
        hint = "check the network connection and proxy settings, then run it again: downloaded bytes are kept"
        said = f"an index is unavailable: {error.message}"
        if isinstance(error, NoNetworkError):
            said, hint = error.message, error.hint
        if self._places.left_out and not outcome.artifact.sources:
            hint = error.hint
        unavailable = ChannelUnavailableError(
            said,
            tried=tuple(str(source.url) for source in outcome.artifact.sources),
            hint=f"{hint}; or use the kept copy with --offline" if kept else hint,
        )
        unavailable.__cause__ = error
        return unavailable


def index_file(of: Asked, name: str, sources: tuple[Source, ...]) -> Artifact:
    """Return the artifact of the index ``of`` in the form ``name``, with ``sources``."""
    channel, subdir = of[:2]
    # kept under the first source's URL, so that statements of different sources are never mixed up
    url = sources[0].url if sources else channel.file_url(subdir, name)
    return Artifact(kind="index", filename=name, url=url, channel=channel.name, subdir=subdir, sources=sources)


def _is_readable(form: str) -> bool:
    """Whether this Python can unpack the form; resume-dl.pyz has no zstd library before Python 3.14."""
    return not form.endswith(".zst") or is_available()


def source_of(note: Note, index: Artifact) -> Source | None:
    """Return the source of the kept copy, if it is among this index's sources."""
    return next((source for source in index.sources if str(source.url) == note.source), None)


def _was_silent(outcome: Outcome) -> bool:
    """Whether no byte arrived, only because no source answered in time."""
    kinds = {kind for report in outcome.sources for kind in report.failures}
    came = outcome.downloaded + outcome.wasted
    return outcome.reason in _GIVEN_UP and not came and kinds <= {kind.value for kind in OF_THE_HOST}


def _is_of_one(asked: Asked) -> bool:
    """Whether it is one mirror's copy, which counts as its operators' statement."""
    return len(asked) > 2


def _is_refused(outcome: Outcome) -> bool:
    """Whether every source answered, but none with a file that may be an index."""
    kinds = {kind for report in outcome.sources for kind in report.failures}
    answers = {FailureKind.CONTENT.value, FailureKind.LACKS.value}
    return outcome.reason == "exhausted" and FailureKind.CONTENT.value in kinds and kinds <= answers
