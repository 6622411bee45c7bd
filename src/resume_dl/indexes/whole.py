"""Whole channel indexes of given sources, over our own transport: resumable, kept, asked for again only if changed.

Which sources are believed is decided above (``conda_indexes``, ``trust``).
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

FORMATS = ("repodata.json.zst", "repodata.json")
"""Asked for in this order; the packed one is an eighth of the other."""

_PAST_CACHES = {"Cache-Control": "no-cache", "Pragma": "no-cache"}
"""Ask the server itself, not a cache on the way (RFC 9111 5.2.1.4, 5.4)."""

_GIVEN_UP = frozenset({"exhausted", "unreachable", "no network"})
"""Reasons of the core (``actions.Fail``)."""

Wanted = tuple[Channel, str]
"""A channel and a subdir."""
Asked = Wanted | tuple[Channel, str, str]
"""What is fetched at once, each once: an index, or the copy of it that the mirror of this name has."""
SourcesOf = Callable[[Asked, str], tuple[Source, ...]]
"""The sources to ask for the file of this name, in their order."""


@dataclass(slots=True)
class WholeIndex:
    """What became of one index. Without a path and an error: every source answered that it has none."""

    path: Path | None = None
    """The uncompressed copy."""
    error: ResumeDLError | None = None
    """Why it cannot be had, though a source may have it (ChannelUnavailableError, CaptivePortalError)."""
    tried: tuple[str, ...] = ()
    """Addresses, redacted."""
    carried_by: tuple[str, ...] = ()
    """The mirrors whose bytes it is made of, in this run or the one that kept it."""
    answered_by: tuple[str, ...] = ()
    """The hosts that gave these bytes: another operator's where a mirror's server redirects."""
    downloaded: int = 0
    """Bytes that came in this run."""
    kept: bool = False
    """No body came in this run: it is unchanged, young enough, or this is ``offline``."""
    silent: bool = False
    """Its sources were given up before a byte came, because others can answer in their place."""
    asked: bool = True
    """Whether a server was to be asked for it in this run."""
    age: float | None = None
    """Seconds since its source last said that this is its version; None without a path."""


class WholeIndexes:
    """Keeps one copy of each index and source in ``folder``; ``offline`` uses what is there and makes no request.

    ``clock`` gives seconds since 1970.
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
        """Body bytes of indexes that came over the line so far, those of refused ones included."""
        self._refused: dict[Asked, list[str]] = {}
        """What was wrong with indexes that came, each with its source."""

    def check_folder(self) -> None:
        """Make the folder of the kept copies, and see that it can be written. Raises StoreError."""
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
        """What became of each index; the packed form is asked for first.

        A kept copy that is young enough is used without a request, whatever its form. ``past_caches``: servers are
        asked in any case, and not caches on the way. ``replaceable``: those that other sources can give where these do
        not answer soon. ``last_chance``: those others could not, and these are asked once more, with more patience.
        Raises Interrupted or StoreError.
        """
        results = {each: WholeIndex() for each in wanted}
        self._refused.clear()
        found = {each: [index_file(each, name, sources(each, name)) for name in forms] for each in wanted}
        for each, indexes in found.items():
            results[each].tried = tuple(str(source.url) for index in indexes for source in index.sources)
            if not past_caches:
                self._use_kept(results[each], indexes)
        self._tell_ages(results)
        missing = [each for each in wanted if results[each].path is None]
        for number in range(0 if self._offline else len(forms)):
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
        """As ``_get``, each address once: a mirror may serve several channels from one place, as a bundle does."""
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
        """Put into ``results`` what came, and what cannot be had; what no source has stays as it is."""
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
                    with suppress(ResumeDLError, OSError):  # what came of it, which nothing can continue
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
                    who = " and ".join(sorted(served)) or "an earlier run"
                    self._refuse(each, index, f"{index.title} of {who}: {error.message}")
                    if others and served:
                        again[each] = replace(index, sources=others)
                    continue
                self._settle(results[each], index, note, kept=outcome.reason == "unchanged")
            indexes = again

    def _hosts_before(self, index: Artifact) -> frozenset[str]:
        """The hosts that gave what earlier runs have of an index whose word is that of its operators.

        Where a killed run has left this unknown, the index is begun anew: a redirect would be forgotten.
        """
        hosts = self._copies.hosts_of_part(index)
        if hosts is None:
            with suppress(ResumeDLError, OSError):
                self._copies.parts.remove(index.key)
        return hosts or frozenset()

    def _taken(self, index: Artifact, outcome: Outcome, note: Note | None, hosts: Iterable[str]) -> Note:
        """Keep what came, or the copy of ``note`` that its source calls unchanged; what is noted of it from now on.

        ``hosts``: those that gave it, or called it unchanged. Raises IntegrityError or StoreError.
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
        """Settle ``result`` with the youngest kept copy of its sources that may be used without a request."""
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
        """One line a channel whose index is used as it is kept, with the age of its oldest."""
        ages: dict[str, float] = {}
        for (channel, *_), result in results.items():
            if result.age is not None and result.age >= 1.0:  # else its server has confirmed it a moment ago
                ages[channel.name] = max(result.age, ages.get(channel.name, 0.0))
        for name, age in ages.items():
            why = "" if self._offline else "; --refresh asks for a newer one"
            self._reporter.message(f"index of {name}, {show_age(age)} old{why}", level="info")

    def _settle(self, result: WholeIndex, index: Artifact, note: Note, *, kept: bool) -> None:
        """Say where the copy of ``index`` is, how old, and which source gave it."""
        source = source_of(note, index)
        result.path, result.kept, result.age = self._copies.path(index), kept, note.age(self._clock())
        result.carried_by = () if source is None else (source.mirror,)
        result.answered_by = note.answered_by

    def _refuse(self, of: Asked, index: Artifact, why: str) -> None:
        """An index came that cannot be used: that is its source's failure, and the next one is asked."""
        self._refused.setdefault(of, []).append(why)
        self._reporter.message(f"{why}; another source or form of {index.title} is tried", level="warning")

    def _unusable(self, of: Asked, tried: tuple[str, ...]) -> ChannelUnavailableError:
        channel, subdir = of[:2]
        whys = "; ".join(dict.fromkeys(self._refused[of]))
        return ChannelUnavailableError(
            f"the index of {channel.name}/{subdir} cannot be had: {whys}",
            tried=tried,
            hint="try another mirror with --mirror, or later; an index that is really so large: --max-index-size",
        )

    def _job(self, index: Artifact, note: Note | None, *, past_caches: bool) -> Job:
        source = None if note is None else source_of(note, index)
        known: dict[RedactedUrl, CacheHeaders] = {}
        if note is not None and source is not None and note.said.validator is not None:
            known[source.url] = note.said  # for the others it means nothing: this one is asked first
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
        hint = "check the line and the proxy settings, then run it again: what came is kept"
        said = f"an index cannot be had: {error.message}"
        if isinstance(error, NoNetworkError):
            said, hint = error.message, error.hint
        if self._places.left_out and not outcome.artifact.sources:
            hint = error.hint
        unavailable = ChannelUnavailableError(
            said,
            tried=tuple(str(source.url) for source in outcome.artifact.sources),
            hint=f"{hint}; or use the copy that is here with --offline" if kept else hint,
        )
        unavailable.__cause__ = error
        return unavailable


def index_file(of: Asked, name: str, sources: tuple[Source, ...]) -> Artifact:
    """The index ``of`` in the form ``name``, as ``sources`` have it."""
    channel, subdir = of[:2]
    # kept by the first source's address: what one source says is never taken for what another one says
    url = sources[0].url if sources else channel.file_url(subdir, name)
    return Artifact(kind="index", filename=name, url=url, channel=channel.name, subdir=subdir, sources=sources)


def source_of(note: Note, index: Artifact) -> Source | None:
    """The source that the kept copy came from, where it is one of this index's."""
    return next((source for source in index.sources if str(source.url) == note.source), None)


def _was_silent(outcome: Outcome) -> bool:
    """Whether no byte came, for no other reason than that no source answered well in its time."""
    kinds = {kind for report in outcome.sources for kind in report.failures}
    came = outcome.downloaded + outcome.wasted
    return outcome.reason in _GIVEN_UP and not came and kinds <= {kind.value for kind in OF_THE_HOST}


def _is_of_one(asked: Asked) -> bool:
    """Whether it is one mirror's copy, which counts as its operators' word."""
    return len(asked) > 2


def _is_refused(outcome: Outcome) -> bool:
    """Whether each source answered, and none of them with a file that may be taken for an index."""
    kinds = {kind for report in outcome.sources for kind in report.failures}
    answers = {FailureKind.CONTENT.value, FailureKind.LACKS.value}
    return outcome.reason == "exhausted" and FailureKind.CONTENT.value in kinds and kinds <= answers
