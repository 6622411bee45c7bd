"""Prefetch of the channel indexes that a client is about to request, into the client's own cache."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from resume_dl.errors import Interrupted
from resume_dl.indexes.client_files import Answer, ClientAnswer, ClientFile, fetch_client_files
from resume_dl.indexes.client_mirrors import Mirrored, MirroredAhead, MirroredIndex, Missed
from resume_dl.model.http import CacheHeaders
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Reporter
from resume_dl.transfer.setup import Setup, engine_for
from resume_dl.transfer.watched_engine import WatchedEngine


class ClientIndex(MirroredIndex, Protocol):
    """An index in a client's cache that the client is about to request."""

    def forms(self) -> Sequence[str]:
        """Return the file names below ``base`` in the order in which the client tries them."""

    def validator(self) -> str | None:
        """Return the cached copy's validator, as the client would send it."""

    def is_settled(self) -> bool:
        """Whether another process has refreshed the copy since this object was made."""

    def take(self, form: str, path: Path, said: CacheHeaders, largest: int | None) -> None:
        """Add the file to the cache, as it was served."""

    def keep(self) -> None:
        """Record that the server has confirmed the copy as unchanged."""

    def lacks(self, form: str) -> None:
        """Record that the server refuses this form."""

    def instead(self) -> ClientIndex | None:
        """Return what the client requests if the server refuses every form; None if that is fresh, or nothing."""


Asked = list[tuple[ClientIndex, Sequence[str]]]
"""Index -> the forms in which it may still be requested."""


@dataclass(frozen=True, slots=True)
class Brought:
    """The outcome for indexes that the client's own servers did not supply."""

    missed: list[Missed]
    mirrored: list[Mirrored]


def fetch_indexes_ahead(
    indexes: Sequence[ClientIndex],
    setup: Setup,
    reporter: Reporter,
    *,
    cancelled: Callable[[], bool],
    names: Collection[str] = (),
) -> Brought:
    """Fetch ``indexes`` into the client's cache in parallel; a 404 is not a failure.

    Each comes from the client's own URL, or from mirrors by the rule of docs/indexes.md; ``names`` are those of the
    requested packages. Raises ConfigurationError, NotWritableError or OSError.
    """
    with engine_for(setup, reporter, cancelled) as engine:
        mirrors = MirroredAhead(engine, setup, reporter, names=names, cancelled=cancelled)
        servers = _Servers(engine, setup, cancelled, mirrors)
        with suppress(Interrupted):
            servers.ask(mirrors.take_named(indexes))
            if not cancelled():
                servers.missed = mirrors.take_instead(servers.missed)
    return Brought(servers.missed, mirrors.mirrored)


class _Servers:
    """The client's own servers; ``missed`` has the indexes lost to errors of a server or the network."""

    def __init__(
        self, engine: WatchedEngine, setup: Setup, cancelled: Callable[[], bool], mirrors: MirroredAhead
    ) -> None:
        self._engine = engine
        self._setup = setup
        self._cancelled = cancelled
        self._mirrors = mirrors
        self.missed: list[Missed] = []

    def ask(self, indexes: Sequence[ClientIndex]) -> None:
        """Fetch the indexes, in further forms where the first is refused."""
        asked = [(index, index.forms()) for index in indexes]
        while asked and not self._cancelled():
            asked = self._ask(asked)

    def _ask(self, asked: Asked) -> Asked:
        """Request the first form of each index; return what to request instead of the refused ones."""
        largest = self._setup.options.max_index_size
        files: list[ClientFile] = []
        of: dict[str, tuple[ClientIndex, Sequence[str]]] = {}
        for index, forms in asked:
            file = self._file(index, forms[0]) if forms else None
            if file is not None and file.artifact.key not in of:
                of[file.artifact.key] = (index, forms)
                files.append(file)

        def take(file: ClientFile, answer: ClientAnswer) -> None:
            index = of[file.artifact.key][0]
            if answer.path is None:
                index.keep()
            else:
                index.take(file.filename, answer.path, answer.said, largest)

        folder = self._setup.paths.cache / "repodata"
        answers = fetch_client_files(self._engine, folder, files, take, largest=largest, cancelled=self._cancelled)
        rest: Asked = []
        for (index, forms), answer in zip(of.values(), answers, strict=True):
            if answer.answer is Answer.FAILED and answer.error is not None:
                self.missed.append(Missed(index, answer.error))
            elif answer.answer in {Answer.ABSENT, Answer.REFUSED}:
                index.lacks(forms[0])
                if forms[1:]:
                    rest.append((index, forms[1:]))
                elif (other := index.instead()) is not None:
                    rest.append((other, other.forms()))
                elif answer.answer is Answer.REFUSED and answer.error is not None and self._mirrors.can_replace(index):
                    self.missed.append(Missed(index, answer.error))
        return rest

    def _file(self, index: ClientIndex, form: str) -> ClientFile | None:
        """Return the file to request; None if the user's settings forbid its channel, which the client reports."""
        access = self._setup.access(RedactedUrl(f"{index.base.reveal()}/{form}"))
        if not self._setup.rules.permit_file(access.url):
            return None
        return ClientFile(
            url=access.url,
            filename=form,
            channel=index.channel,
            subdir=index.subdir,
            headers=access.headers,
            validator=index.validator(),
            replaceable=self._mirrors.can_replace(index),
            is_settled=index.is_settled,
        )
