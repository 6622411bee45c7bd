"""Whole channel indexes of given sources, over our own transport: resumable, kept, asked for again only if changed.

Which sources are believed is decided above (``conda_indexes``, ``trust``).
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from resume_dl.core.failures import FailureKind
from resume_dl.engine.job import Job, Outcome
from resume_dl.errors import (
    CaptivePortalError,
    ChannelUnavailableError,
    IntegrityError,
    NoNetworkError,
    NotWritableError,
    OutOfSpaceError,
    ResumeDLError,
)
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.channel import Channel
from resume_dl.ports import Reporter
from resume_dl.resolve.repodata import LARGEST, unpack_zst
from resume_dl.store.part import PartStore
from resume_dl.store.platform import make_folder, remove_durably, replace_durably, write_durably
from resume_dl.transfer.places import Places
from resume_dl.transfer.watching import WatchedEngine

FORMATS = ("repodata.json.zst", "repodata.json")
"""Asked for in this order; the packed one is an eighth of the other."""

_PAST_CACHES = {"Cache-Control": "no-cache", "Pragma": "no-cache"}
"""Ask the server itself, not a cache on the way (RFC 9111 5.2.1.4, 5.4)."""

Wanted = tuple[Channel, str]
"""A channel and a subdir."""
SourcesOf = Callable[[Wanted, str], tuple[Source, ...]]
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
    downloaded: int = 0
    """Bytes that came in this run."""
    kept: bool = False
    """No body came in this run: it is unchanged, or this is ``offline``."""


class WholeIndexes:
    """Keeps one copy of each index and source in ``folder``; ``offline`` uses what is there and makes no request."""

    def __init__(
        self,
        engine: WatchedEngine,
        places: Places,
        folder: Path,
        reporter: Reporter,
        *,
        offline: bool,
        largest: int | None = None,
    ) -> None:
        self._engine = engine
        self._places = places
        self._folder = folder
        self._reporter = reporter
        self._offline = offline
        self._largest = LARGEST if largest is None else largest
        self._refused: dict[Wanted, list[str]] = {}
        """What was wrong with indexes that came, each with its source."""

    def fetch(
        self, wanted: Sequence[Wanted], sources: SourcesOf, *, past_caches: bool = False
    ) -> dict[Wanted, WholeIndex]:
        """What became of each index; the packed form is asked for first.

        ``past_caches``: the servers themselves are asked, not caches on the way. Raises Interrupted or StoreError.
        """
        results = {each: WholeIndex() for each in wanted}
        missing = list(wanted)
        self._refused.clear()
        for name in FORMATS:
            indexes = {each: self._index(each, name, sources(each, name)) for each in missing}
            for each, index in indexes.items():
                results[each].tried += tuple(str(source.url) for source in index.sources)
            self._get(indexes, results, past_caches=past_caches)
            missing = [each for each in missing if results[each].path is None and results[each].error is None]
        for channel, subdir in missing:
            result = results[channel, subdir]
            if (channel, subdir) in self._refused:
                result.error = self._unusable(channel, subdir, result.tried)
        return results

    def _index(self, of: Wanted, name: str, sources: tuple[Source, ...]) -> Artifact:
        channel, subdir = of
        # kept by the first source's address: what one source says is never taken for what another one says
        url = sources[0].url if sources else channel.file_url(subdir, name)
        return Artifact(kind="index", filename=name, url=url, channel=channel.name, subdir=subdir, sources=sources)

    def _get(
        self, indexes: Mapping[Wanted, Artifact], results: Mapping[Wanted, WholeIndex], *, past_caches: bool
    ) -> None:
        """Put into ``results`` what came, and what cannot be had; what no source has stays as it is."""
        if self._offline:
            for each, index in indexes.items():
                if self._label(index) in {str(source.url) for source in index.sources}:
                    self._settle(results[each], index, kept=True)
            return
        self._make_folder()
        while indexes:
            jobs = {index.key: self._job(index, past_caches=past_caches) for index in indexes.values()}
            outcomes = {outcome.artifact.key: outcome for outcome in self._engine.run(list(jobs.values()))}
            again: dict[Wanted, Artifact] = {}
            for each, index in indexes.items():
                outcome = outcomes[index.key]
                results[each].downloaded += outcome.downloaded
                if outcome.reason == "lacking" and (index.sources or not self._places.left_out):
                    continue
                if _is_refused(outcome):
                    self._refuse(each, index, f"{outcome.error}")
                    with suppress(ResumeDLError, OSError):  # what came of it, which nothing can continue
                        PartStore(self._folder / "parts").remove(index.key)
                    continue
                if outcome.error is not None and outcome.reason != "unchanged":
                    results[each].error = self._unavailable(outcome)
                    continue
                if outcome.error is None:
                    try:
                        self._keep(index, jobs[index.key].destination, outcome, self._path(index))
                    except IntegrityError as error:
                        served = {report.mirror for report in outcome.sources if report.bytes}
                        others = tuple(source for source in index.sources if source.mirror not in served)
                        who = " and ".join(sorted(served)) or "an earlier run"
                        self._refuse(each, index, f"{index.title} of {who}: {error.message}")
                        if others and served:
                            again[each] = replace(index, sources=others)
                        continue
                    except OSError as error:
                        raise self._unwritable(error) from error
                self._settle(results[each], index, kept=outcome.reason == "unchanged")
            indexes = again

    def _settle(self, result: WholeIndex, index: Artifact, *, kept: bool) -> None:
        """Note where the kept copy of ``index`` is and which source gave it."""
        result.path, result.kept, label = self._path(index), kept, self._label(index)
        result.carried_by = tuple(source.mirror for source in index.sources if str(source.url) == label)

    def _refuse(self, of: Wanted, index: Artifact, why: str) -> None:
        """An index came that cannot be used: that is its source's failure, and the next one is asked."""
        self._refused.setdefault(of, []).append(why)
        self._reporter.message(f"{why}; another source or form of {index.title} is tried", level="warning")

    def _unusable(self, channel: Channel, subdir: str, tried: tuple[str, ...]) -> ChannelUnavailableError:
        whys = "; ".join(dict.fromkeys(self._refused[channel, subdir]))
        return ChannelUnavailableError(
            f"the index of {channel.name}/{subdir} cannot be had: {whys}",
            tried=tried,
            hint="try another mirror with --mirror, or later; an index that is really so large: --max-index-size",
        )

    def _make_folder(self) -> None:
        """Make the folder of indexes, and see that it can be written, before anything is asked for."""
        try:
            make_folder(self._folder)
        except OSError as error:
            raise self._unwritable(error) from error
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise self._unwritable(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))

    def _unwritable(self, error: OSError) -> ResumeDLError:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return OutOfSpaceError(
                f"no space left in {self._folder}, where channel indexes are kept",
                needed=0,
                free=0,
                hint="free some space there, or name another folder with the variable RESUME_DL_CACHE_DIR",
            )
        return NotWritableError(
            f"{self._folder}, where channel indexes are kept, cannot be written: {error.strerror or error}",
            hint="name a folder that can be written with the variable RESUME_DL_CACHE_DIR",
        )

    def _path(self, index: Artifact) -> Path:
        return self._folder / f"{index.key}.json"

    def _job(self, index: Artifact, *, past_caches: bool) -> Job:
        store, new = PartStore(self._folder / "parts"), self._folder / f"{index.key}-{index.filename}.new"
        headers = _PAST_CACHES if past_caches else {}
        validator, label = self._note(index)
        if validator is not None:
            # the validator is one source's: that one is asked first, for the others it means nothing
            first = [source for source in index.sources if str(source.url) == label]
            if first:
                rest = [source for source in index.sources if source not in first]
                index = replace(index, sources=(*first, *rest))
            else:
                validator = None
        return Job(index, store, new, known_validator=validator, headers=headers, largest=self._largest)

    def _keep(self, index: Artifact, new: Path, outcome: Outcome, target: Path) -> None:
        if index.filename.endswith(".zst"):
            unpacked = target.with_suffix(f".{secrets.token_hex(4)}")
            try:
                unpack_zst(new, unpacked, largest=self._largest)
            finally:
                new.unlink()
            new = unpacked
        note = target.with_suffix(".note")
        remove_durably(note)  # never a validator beside another copy
        replace_durably(new, target)
        served = {report.mirror for report in outcome.sources if report.bytes}
        label = next((str(source.url) for source in outcome.artifact.sources if source.mirror in served), "")
        said = {"url": str(index.url), "source": label, "validator": outcome.validator}
        # only now: an index that a power cut spoilt would stay for ever, as the server calls it unchanged
        write_durably(note, json.dumps(said).encode())

    def _note(self, index: Artifact) -> tuple[str | None, str]:
        """The validator of the kept copy and the address that gave it; None and empty where there is no copy."""
        target = self._path(index)
        try:
            note = json.loads(target.with_suffix(".note").read_text(encoding="utf-8"))
            if target.is_file():
                return note["validator"] if isinstance(note["validator"], str) else None, str(note["source"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        return None, ""

    def _label(self, index: Artifact) -> str:
        """The address that gave the kept copy."""
        return self._note(index)[1]

    def _unavailable(self, outcome: Outcome) -> ResumeDLError:
        error = outcome.error
        if error is None or outcome.reason in {"cancelled", "local", "locked"}:
            raise error or AssertionError("an outcome without an error")
        if isinstance(error, CaptivePortalError):
            return error
        kept = (self._folder / f"{outcome.artifact.key}.json").is_file()
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


def _is_refused(outcome: Outcome) -> bool:
    """Whether each source answered, and none of them with a file that may be taken for an index."""
    kinds = {kind for report in outcome.sources for kind in report.failures}
    answers = {FailureKind.CONTENT.value, FailureKind.LACKS.value}
    return outcome.reason == "exhausted" and FailureKind.CONTENT.value in kinds and kinds <= answers
