"""The channel indexes that a client is about to ask for, fetched ahead of it into its own cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from resume_dl.app.setup import Setup, engine_for
from resume_dl.indexes.client_files import Answer, ClientAnswer, ClientFile, fetch_client_files
from resume_dl.model.http import CacheHeaders
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Reporter
from resume_dl.transfer.watching import WatchedEngine


class ClientIndex(Protocol):
    """One index of a client's cache that the client is about to ask for."""

    @property
    def channel(self) -> str:
        """For people; shows no login."""

    @property
    def subdir(self) -> str:
        """The platform, or noarch."""

    @property
    def base(self) -> RedactedUrl:
        """``<channel>/<subdir>`` as the client asks for it, login included."""

    def forms(self) -> Sequence[str]:
        """The names of its files below ``base``, in the order in which the client tries them."""

    def validator(self) -> str | None:
        """Of the copy in the cache, as the client would send it."""

    def is_settled(self) -> bool:
        """Whether another process has refreshed the copy since this object was made."""

    def take(self, form: str, path: Path, said: CacheHeaders, largest: int | None) -> None:
        """Put the file, as it was served, into the cache."""

    def keep(self) -> None:
        """Note that the server calls the copy unchanged."""

    def lacks(self, form: str) -> None:
        """Note that the server refuses this form."""

    def instead(self) -> ClientIndex | None:
        """What the client asks for where the server refuses every form; None if that is fresh, or nothing."""


@dataclass(frozen=True, slots=True)
class Missed:
    """An index that the client has to ask for by itself."""

    index: ClientIndex
    error: Exception


def fetch_indexes_ahead(
    indexes: Sequence[ClientIndex], setup: Setup, reporter: Reporter, *, cancelled: Callable[[], bool]
) -> list[Missed]:
    """Bring ``indexes`` into the client's cache, all at once; what failed, except for what the server refused.

    Each index comes from the client's own address alone. Raises ConfigurationError, NotWritableError or OSError.
    """
    missed: list[Missed] = []
    with engine_for(setup, reporter, cancelled) as engine:
        asked = [(index, index.forms()) for index in indexes]
        while asked and not cancelled():
            asked = _ask(engine, asked, setup, missed, cancelled)
    return missed


Asked = list[tuple[ClientIndex, Sequence[str]]]


def _ask(
    engine: WatchedEngine, asked: Asked, setup: Setup, missed: list[Missed], cancelled: Callable[[], bool]
) -> Asked:
    """Ask for the first form of each index; returns what is to be asked for instead of those that were refused."""
    largest = setup.options.max_index_size
    files: list[ClientFile] = []
    of: dict[str, tuple[ClientIndex, Sequence[str]]] = {}
    for index, forms in asked:
        file = _file(index, forms[0], setup) if forms else None
        if file is not None and file.artifact.key not in of:
            of[file.artifact.key] = (index, forms)
            files.append(file)

    def take(file: ClientFile, answer: ClientAnswer) -> None:
        index = of[file.artifact.key][0]
        if answer.path is None:
            index.keep()
        else:
            index.take(file.filename, answer.path, answer.said, largest)

    folder = setup.paths.cache / "repodata"
    answers = fetch_client_files(engine, folder, files, take, largest=largest, cancelled=cancelled)
    rest: Asked = []
    for (index, forms), answer in zip(of.values(), answers, strict=True):
        if answer.answer is Answer.FAILED and answer.error is not None:
            missed.append(Missed(index, answer.error))
        elif answer.answer is Answer.ABSENT:
            index.lacks(forms[0])
            if forms[1:]:
                rest.append((index, forms[1:]))
            elif (other := index.instead()) is not None:
                rest.append((other, other.forms()))
    return rest


def _file(index: ClientIndex, form: str, setup: Setup) -> ClientFile | None:
    """The file to ask for; None where the user's settings forbid its channel: the client says so itself."""
    access = setup.access(RedactedUrl(f"{index.base.reveal()}/{form}"))
    if not setup.rules.permit_file(access.url):
        return None
    return ClientFile(
        url=access.url,
        filename=form,
        channel=index.channel,
        subdir=index.subdir,
        headers=access.headers,
        validator=index.validator(),
        is_settled=index.is_settled,
    )
