"""Index and find-links pages by the rule of docs/indexes.md: from the authority, else by agreement of carriers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.responses import cache_headers
from resume_dl.core.sources import OF_THE_HOST
from resume_dl.errors import ChannelUnavailableError
from resume_dl.indexes.copies import AS_SERVERS_SAY, Freshness
from resume_dl.indexes.pip.carrier_pages import CarrierPages, unvouched
from resume_dl.indexes.pip.index_notes import IndexNotes
from resume_dl.indexes.pip.kept_pages import KeptPage, KeptPages
from resume_dl.indexes.pip.page_agreement import Dispute
from resume_dl.indexes.pip.page_request import PageRequests
from resume_dl.indexes.pip.page_sources import PageSources, PageStanding, WheelSources
from resume_dl.indexes.small_answers import Body, Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.channel import has_credentials
from resume_dl.model.http import CacheHeaders, ResponseHead
from resume_dl.model.index_report import Vouched
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import ListedFile
from resume_dl.transfer.source_places import Places

_NOT_ASKED = "it is excluded by --mirror, --no-upstream or a recent block"


class Pages:
    """Reads pages, from any number of threads.

    ``thorough``: bypass caches, and ask every carrier for a page that carriers vouch for. ``kept`` stores pages and
    supplies them while they are fresh, if they are unchanged, or offline. ``named``: the mirrors of ``--index-from``.
    """

    def __init__(
        self,
        reader: Reader,
        places: Places,
        *,
        offline: bool = False,
        thorough: bool = False,
        kept: KeptPages | None = None,
        named: Sequence[str] = (),
        freshness: Freshness = AS_SERVERS_SAY,
        notes: IndexNotes | None = None,
    ) -> None:
        self.reader = reader
        self.table = places.table
        self.notes = notes or IndexNotes()
        self.sources = PageSources(places, tuple(named), offline, reader.network, reader.policy.authority_give_up)
        self._requests = PageRequests(reader, self.sources, past_caches=thorough or freshness.refresh)
        self._offline = offline
        self._thorough = thorough
        self._kept = kept
        self._freshness = freshness
        self._folders: dict[str, str] = {}
        """URL of a folder -> its canonical URL; a cache."""
        self._lock = threading.Lock()
        self._last_chance = threading.Lock()
        """Held while an authority is asked once more; other pages wait for the result."""
        self._asked_again: set[str] = set()
        """Hosts of authorities that were asked a second time."""
        self._disputes: dict[str, Dispute] = {}
        """URL of a file -> the carriers' dispute about it."""
        self._metadata = 0
        self.has_more = False
        """Whether a ``thorough`` second run may list more files."""

    @property
    def read(self) -> int:
        """The number of pages and metadata files read so far."""
        return self._requests.answered + self._metadata

    def page(self, url: RedactedUrl, *, index: RedactedUrl | None = None) -> list[ListedFile] | None:
        """Return the files of a page of ``index``; None if it has no such page.

        Raises Unanswered, Interrupted, and ChannelUnavailableError if carriers' pages are not enough.
        """
        standing = self.sources.standing(url)
        if self._offline and not any(self.sources.is_asked(source) for source, _ in standing.believed):
            return self._kept_page(url, standing, index or url)
        failures: list[tuple[Source, Failure]] = []
        for source, vouched in standing.believed:
            try:
                return self._stated(source, index or url, vouched, alone=not standing.carriers)
            except Unanswered as unanswered:
                failures += unanswered.failures
        if not standing.carriers:
            raise Unanswered(failures)
        return self._agreed(url, index or url, standing, failures)

    def dispute(self, file: ListedFile) -> Dispute | None:
        """Return the carriers' dispute about a file, or None."""
        return self._disputes.get(file.url)

    def of_wheel(self, file: ListedFile) -> WheelSources:
        """Return the sources of a wheel and its METADATA."""
        return WheelSources(self.sources, file)

    # ------------------------------------------------------------------ one source's page

    def _stated(
        self, source: Source, index: RedactedUrl, vouched: Vouched, *, alone: bool, last_chance: bool = False
    ) -> list[ListedFile] | None:
        """Return the authority's files; None if it has no such page. Raises Unanswered, Interrupted."""
        within = self.reader.policy.unreached_give_up if last_chance else None if alone else self.sources.patience
        kept = self._look(source)
        if kept is not None and not self._thorough and not _is_private(source) and kept.is_fresh(self._freshness):
            self.has_more = True
            self.notes.add(index, source, vouched, age=kept.age)
            return self._taken(kept.files or (), source.url)
        body: Body | None = None
        try:
            body, files = self._requests.ask(source, kept, within=within, last_chance=last_chance)
        except Unanswered as unanswered:
            if not self._requests.says_no(source, unanswered):
                if not alone and unanswered.kinds & OF_THE_HOST:
                    self.sources.give_up([source])
                raise
            files = None
        age = 0.0 if body is not None and body.unchanged else None
        self.notes.add(index, source, vouched, received=body.received if body else 0, age=age)
        if body is not None and body.headers.get("age", "0").strip() not in {"", "0"}:
            self.has_more = True  # the answer came from an intermediate cache
        said = CacheHeaders() if body is None else cache_headers(ResponseHead(200, body.headers))
        if self._kept is not None and kept is not None and body is not None and body.unchanged:
            self._kept.confirm(source.url, kept, said)
        elif self._kept is not None and source.url.reveal()[:5] != "file:":
            self._kept.keep_page(source.url, files, said)
        return None if files is None else self._taken(files, source.url)

    def _look(self, source: Source) -> KeptPage | None:
        if self._kept is None or source.url.reveal()[:5] == "file:":
            return None
        try:
            return self._kept.page(source.url)
        except KeyError:
            return None

    def _taken(self, files: Sequence[ListedFile], page: RedactedUrl) -> list[ListedFile]:
        """Return a page's files with canonical URLs; files without a digest keep the page's URL."""
        taken = []
        for file in files:
            stated = _with_login(file.url, page.reveal())
            url = self._canonical(stated) if file.is_identified else stated
            taken.append(replace(file, url=url, stated=None if url == stated else stated))
        return taken

    def _canonical(self, link: str) -> str:
        folder, _, name = link.rpartition("/")
        if "?" in link:
            return self.table.canonical(link)
        if folder not in self._folders:  # a page of 20,000 links has a dozen folders
            self._folders[folder] = self.table.canonical(f"{folder}/-").removesuffix("/-")
        return f"{self._folders[folder]}/{name}"

    # ------------------------------------------------------------------ carriers' pages

    def _once_more(
        self, standing: PageStanding, index: RedactedUrl, failures: Sequence[tuple[Source, Failure]]
    ) -> list[ListedFile] | None:
        """Ask an authority that has timed out once more per run, with longer time limits; return its files.

        Called if one mirror has answered, which is not enough. Raises Unanswered, Interrupted.
        """
        silent = [source for source, failure in failures if failure.kind in OF_THE_HOST]
        for source, vouched in standing.believed:
            if vouched is not Vouched.AUTHORITY or source not in silent:
                continue
            host = source.url.host
            with self._last_chance:
                if host not in self._asked_again:
                    self._asked_again.add(host)
                    files = self._stated(source, index, vouched, alone=False, last_chance=True)
                    self.sources.network.came(host)
                    return files
            return self._stated(source, index, vouched, alone=False)
        raise Unanswered(())

    def _agreed(
        self,
        url: RedactedUrl,
        index: RedactedUrl,
        standing: PageStanding,
        failures: list[tuple[Source, Failure]],
    ) -> list[ListedFile] | None:
        """Return the files on which two operators agree; None if they agree that there is no such page."""
        carriers = standing.carriers
        why = str(Unanswered(failures)) if failures else _NOT_ASKED
        found = CarrierPages(self._requests, self.notes, every=self._thorough).said(carriers, index, why)
        said = found.agreement
        self.has_more |= found.more
        if said.exists is None:
            if found.statements:
                with suppress(Unanswered):
                    return self._once_more(standing, index, failures)
            raise unvouched(url, why, found, failures)
        self.notes.pass_over(said.alone)
        files = [replace(file, stated="") for file in self._taken(said.files, url)]
        with self._lock:
            for file in files:
                if file.filename in said.disputes:
                    self._disputes[file.url] = said.disputes[file.filename]
        if self._kept is not None:
            undisputed = [file for file in files if file.filename not in said.disputes]
            self._kept.keep_page(_agreed_key(url), undisputed if said.exists else None)
        return files if said.exists else None

    # ------------------------------------------------------------------ kept copies

    def _kept_page(self, url: RedactedUrl, standing: PageStanding, index: RedactedUrl) -> list[ListedFile] | None:
        """Return the page kept by an earlier run: the authority's, else the carriers' agreement. Raises Unanswered."""
        if self._kept is None:
            raise Unanswered(())
        for source, vouched in standing.believed:
            with suppress(KeyError):
                kept = self._kept.page(source.url)
                self.notes.add(index, source, vouched, age=kept.age)
                return None if kept.files is None else self._taken(kept.files, source.url)
        with suppress(KeyError):
            kept = self._kept.page(_agreed_key(url))
            files = None if kept.files is None else self._taken(kept.files, url)
            return None if files is None else [replace(file, stated="") for file in files]
        raise Unanswered(())

    def kept_metadata(self, file: ListedFile) -> bytes | None:
        """Return a wheel's METADATA kept by an earlier run, if the index's digest ties it to this wheel.

        Offline, that of a wheel without a digest is used, too.
        """
        if self._kept is None or (not file.is_identified and not self._offline):
            return None
        with suppress(KeyError):
            return self._kept.read(_metadata_key(file))
        return None

    def keep_metadata(self, file: ListedFile, data: bytes) -> None:
        """Store METADATA for ``kept_metadata``."""
        self._metadata += 1
        if self._kept is not None:
            self._kept.keep(_metadata_key(file), data)

    # ------------------------------------------------------------------ errors

    def unavailable(self, what: str, unanswered: Unanswered) -> ChannelUnavailableError:
        """Return the error for ``what``, which no source supplied."""
        if unanswered.kinds == {FailureKind.PORTAL}:
            return ChannelUnavailableError(
                f"{what} is unavailable: the answers are web pages, which look like the login page of this network "
                "(a captive portal), or the URL is not a package index",
                tried=tuple(str(source.url) for source, _ in unanswered.failures),
                hint="open a browser and sign in to the network, or check the index's URL",
            )
        if self._offline and not unanswered.failures:
            return ChannelUnavailableError(f"there is no kept copy of {what}", hint="run it once without --offline")
        refused = FailureKind.REFUSED in unanswered.kinds
        return ChannelUnavailableError(
            f"{what} is unavailable: {unanswered}",
            tried=tuple(str(source.url) for source, _ in unanswered.failures),
            hint="check the login for this index, in netrc or in its URL, or in a keyring (--keyring-provider)"
            if refused
            else "check the network connection and proxy settings, then run it again",
        )


def _is_private(source: Source) -> bool:
    """Whether its answers may depend on a login."""
    return bool(source.headers) or has_credentials(source.url)


def _agreed_key(url: RedactedUrl) -> RedactedUrl:
    """Return the key under which the carriers' agreement is kept, apart from the authority's page."""
    return RedactedUrl(f"{url.reveal().partition('#')[0]}?carriers-agree")


def _metadata_key(file: ListedFile) -> RedactedUrl:
    """Return the key under which METADATA is kept: by wheel, and by the source on which it relies.

    A mirror that was named in an earlier run may have stated different METADATA for the same wheel.
    """
    stated = file.url if file.stated is None else file.stated or "carriers-agree:" + file.url
    digests = [*sorted(file.hashes.items()), *sorted((file.metadata or {}).items())]
    return RedactedUrl(f"{stated}.metadata?" + "&".join(f"{kind}={value}" for kind, value in digests))


def _with_login(link: str, page: str) -> str:
    """Return ``link`` with the userinfo of ``page`` if it has none and is on the same server."""
    if "@" not in page:
        return link
    here, there = urlsplit(page), urlsplit(link)
    login, mark, host = here.netloc.rpartition("@")
    if not mark or there.scheme != here.scheme or there.netloc.lower() != host.lower():
        return link
    return urlunsplit((there.scheme, f"{login}@{there.netloc}", there.path, there.query, ""))
