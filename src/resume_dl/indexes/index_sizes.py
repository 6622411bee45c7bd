"""Sizes of channel indexes, found by requesting one byte of each before anything is fetched."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass

from resume_dl.core.failures import FailureKind
from resume_dl.engine.clock import AwakeClock
from resume_dl.errors import Interrupted, ResumeDLError
from resume_dl.indexes.copies import Freshness, KeptCopies, Note
from resume_dl.indexes.small_answers import Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.indexes.trust import authority_of, standing
from resume_dl.indexes.whole import FORMATS, Wanted, index_file, source_of
from resume_dl.model.artifact import Artifact
from resume_dl.model.http import CacheHeaders
from resume_dl.ports import Reporter
from resume_dl.transfer.setup import Setup


def index_sizes(
    wanted: Sequence[Wanted],
    setup: Setup,
    reporter: Reporter,
    copies: KeptCopies,
    freshness: Freshness,
    *,
    within: float,
    cancelled: Callable[[], bool],
) -> dict[Wanted, int]:
    """Return the transfer size in bytes of each new index (packed, if the channel has that form).

    Left out are those whose server does not answer ``within`` seconds, and those whose kept copy will be used: fresh
    enough, or unchanged, which is recorded. All authorities are asked in parallel, once each; other sources are not, as
    only the authority may supply the index. Raises Interrupted.
    """
    from resume_dl.transport.client import HttpTransport

    asked = {each: _to_ask(each, setup, copies, freshness) for each in wanted}
    # the engine's own transport shows the warnings
    transport = HttpTransport(setup.load_network(), warn=lambda _: None, logins=setup.logins)
    reader = Reader(transport, setup.options.policy(), setup.network)
    try:
        with ThreadPoolExecutor(max(1, len(wanted))) as pool:
            coming = {each: pool.submit(_size, reader, copies, formats) for each, formats in asked.items()}
            clock = AwakeClock()
            running, deadline = set(coming.values()), clock.now() + within
            while running and clock.now() < deadline and not cancelled():
                running = wait(running, timeout=0.1, return_when=FIRST_COMPLETED).not_done
            reader.stop()
            answers = {each: future.result() for each, future in coming.items()}
    finally:
        reader.stop()
        transport.close()
    if cancelled():
        raise Interrupted("stopped")
    for (channel, subdir), answer in answers.items():
        if isinstance(answer, str):
            reporter.message(f"no size of the index of {channel.name}/{subdir}: {answer}", level="debug")
    return {each: answer for each, answer in answers.items() if isinstance(answer, int)}


@dataclass(frozen=True, slots=True)
class _Asked:
    """An index in one form, and the authority's note on the kept copy."""

    index: Artifact
    note: Note | None


def _to_ask(wanted: Wanted, setup: Setup, copies: KeptCopies, freshness: Freshness) -> list[_Asked]:
    """Return the forms of an index, the kept one first; empty if a kept copy may be used without a request."""
    forms = []
    for name in FORMATS:
        url = wanted[0].file_url(wanted[1], name)
        stand = standing(setup.places.of(url), authority_of(wanted[0], setup.places.table), url)
        index = index_file(wanted, name, stand.authority)
        note = copies.note(index)
        known = note if note is not None and source_of(note, index) is not None else None
        if known is not None and freshness.allows(known, time.time()):
            return []
        forms.append(_Asked(index, known))
    return sorted(forms, key=lambda each: each.note is None)  # if the kept form is unchanged, no other is needed


def _size(reader: Reader, copies: KeptCopies, formats: Sequence[_Asked]) -> int | str:
    """Return the size of the first available format, else why it is not needed or not known."""
    for each in formats:
        try:
            return reader.size(each.index.sources, {} if each.note is None else each.note.said.conditions())
        except Unanswered as unanswered:
            if unanswered.kinds == {FailureKind.UNCHANGED} and each.note is not None:
                said = unanswered.failures[0][1].said or CacheHeaders()
                try:
                    copies.confirm(each.index, each.note, each.note.confirmed(said, time.time()))
                except ResumeDLError as error:
                    return error.message
                return "the kept copy is unchanged"
            if unanswered.kinds - {FailureKind.LACKS}:
                return str(unanswered)
        except ResumeDLError as error:  # cancelled, or unusable settings
            return error.message
    return "it does not exist" if formats else "the kept copy is fresh enough"
