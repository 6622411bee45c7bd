"""Index and find-links pages from whoever has them, as files under canonical addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from resume_dl.app.pip.kept import KeptPages
from resume_dl.core.asking import TRIES
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.errors import ChannelUnavailableError
from resume_dl.indexes.small_fetch import Body, Reader, Unanswered
from resume_dl.model.artifact import Source, safe_filename
from resume_dl.model.mirror import UPSTREAM
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import ACCEPT, IndexPage, ListedFile, PageError, parse_page
from resume_dl.transfer.places import Places

_PLAIN = re.compile(r"[A-Za-z0-9_]{5,}[A-Za-z0-9_.+!-]*[A-Za-z0-9]")
"""Names that are safe everywhere for certain: most are, and the thorough look is slow."""

_TRIES_OF_EACH = 2
"""Of a place whose copy is read beside the others': it can be done without."""


class Pages:
    """Reads pages, from any number of threads.

    ``thorough``: every place's copy of a page, for what one that is behind does not list yet. ``kept`` takes what was
    read, and gives it back where we are offline.
    """

    def __init__(
        self,
        reader: Reader,
        places: Places,
        *,
        offline: bool = False,
        thorough: bool = False,
        kept: KeptPages | None = None,
    ) -> None:
        self.reader = reader
        self.table = places.table
        self._places = places
        self._offline = offline
        self._thorough = thorough
        self._kept = kept
        self._folders: dict[str, str] = {}
        """Address of a folder -> its canonical one."""
        self.read = 0
        """How many were read so far; a wheel's metadata counts as one."""
        self.has_more = False
        """Whether a page has other copies, which may list more."""

    def sources(self, url: RedactedUrl) -> tuple[Source, ...]:
        """The places of an address: the mirror that it names first, the origin last; offline only this machine."""
        found = [source for source in self._places.of(url) if not self._offline or source.url.reveal()[:5] == "file:"]
        return tuple(sorted(found, key=lambda source: source.url != url or source.mirror == UPSTREAM))

    def page(self, url: RedactedUrl) -> list[ListedFile] | None:
        """The files of a page; None where a kept one says that its index has none. Raises Unanswered, Interrupted."""
        sources = self.sources(url)
        if self._kept is not None and self._offline and not sources:
            with suppress(KeyError):
                kept = self._kept.page(url)
                return None if kept is None else [replace(f, url=_with_login(f.url, url.reveal())) for f in kept]
        files = self._read_page(sources)
        self.keep(url, files)
        return files

    def keep(self, url: RedactedUrl, files: list[ListedFile] | None) -> None:
        """Keep what a page came to; None: its index says that there is none."""
        if self._kept is not None and not self._offline:
            self._kept.keep_page(url, files)

    def _read_page(self, sources: Sequence[Source]) -> list[ListedFile]:
        if not self._thorough:
            self.has_more |= len(sources) > 1
            return self._copy_of_page(sources)
        found: dict[object, ListedFile] = {}
        failures: list[tuple[Source, Failure]] = []
        answered = False
        for source in sources:
            try:
                files = self._copy_of_page([source], tries=_TRIES_OF_EACH if len(sources) > 1 else TRIES)
            except Unanswered as unanswered:
                failures += unanswered.failures
            else:
                answered = True
                for file in files:  # one file has another address at each mirror of an origin without a base
                    found.setdefault(self.table.origin_of(file.url) or file.url, file)
        if not answered:
            raise Unanswered(failures)
        return list(found.values())

    def _copy_of_page(self, sources: Sequence[Source], *, tries: int = TRIES) -> list[ListedFile]:
        read: dict[int, IndexPage] = {}  # two sources may have given theirs at once

        def check(body: Body) -> Failure | None:
            try:
                page = parse_page(body.content_type, body.data, body.url.reveal())
            except PageError as error:
                return Failure(FailureKind.CONTENT, str(error))
            if not page.files and not page.is_index:
                return Failure(FailureKind.PORTAL, "a web page without packages came (the login page of this network?)")
            read[id(body)] = page
            return None

        body = self.reader.whole(sources, accept=ACCEPT, check=check, tries=tries)
        self.read += 1
        return [
            replace(file, url=self._canonical(file.url, body.url)) for file in read[id(body)].files if _is_safe(file)
        ]

    def _canonical(self, link: str, page: RedactedUrl) -> str:
        """The file's address at its origin; with the page's own login where it lies at the same place."""
        link = _with_login(link, page.reveal())
        folder, _, name = link.rpartition("/")
        if "?" in link:
            return self.table.canonical(link)
        if folder not in self._folders:  # a page of twenty thousand links has a dozen folders
            self._folders[folder] = self.table.canonical(f"{folder}/-").removesuffix("/-")
        return f"{self._folders[folder]}/{name}"

    def kept_metadata(self, beside: RedactedUrl) -> bytes | None:
        """The METADATA at an address (a wheel's with its ending), where we are offline and have it."""
        if self._kept is not None and self._offline and not self.sources(beside):
            with suppress(KeyError):
                return self._kept.read(beside)
        return None

    def keep_metadata(self, beside: RedactedUrl, data: bytes) -> None:
        """Keep it for ``kept_metadata``."""
        self.read += 1
        if self._kept is not None:
            self._kept.keep(beside, data)

    def unavailable(self, what: str, unanswered: Unanswered) -> ChannelUnavailableError:
        """The error for ``what``, which nobody gave."""
        if unanswered.kinds == {FailureKind.PORTAL}:
            return ChannelUnavailableError(
                f"{what} cannot be had: web pages come instead: this looks like the login page of this network "
                "(a captive portal), or is no package index",
                tried=tuple(str(source.url) for source, _ in unanswered.failures),
                hint="open a browser and sign in to the network, or check the index's address",
            )
        if self._offline and not unanswered.failures:
            return ChannelUnavailableError(f"{what} has not been read before", hint="run it once without --offline")
        refused = FailureKind.REFUSED in unanswered.kinds
        return ChannelUnavailableError(
            f"{what} cannot be had: {unanswered}",
            tried=tuple(str(source.url) for source, _ in unanswered.failures),
            hint="check the login for this index, in netrc or in its address"
            if refused
            else "check the line and the proxy settings, then run it again",
        )


def _is_safe(file: ListedFile) -> bool:
    if _PLAIN.fullmatch(file.filename):
        return True
    try:
        return bool(safe_filename(file.filename))
    except ValueError:
        return False


def _with_login(link: str, page: str) -> str:
    """``link``, with the userinfo of ``page`` where it has none of its own and lies at the same place."""
    if "@" not in page:
        return link
    here, there = urlsplit(page), urlsplit(link)
    login, mark, host = here.netloc.rpartition("@")
    if not mark or there.scheme != here.scheme or there.netloc.lower() != host.lower():
        return link
    return urlunsplit((there.scheme, f"{login}@{there.netloc}", there.path, there.query, ""))
