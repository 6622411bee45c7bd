"""Index and find-links pages, by the rule of docs/indexes.md: from the index's authority, else as carriers agree."""

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

_NOT_ASKED = "it may not be asked: --mirror, --no-upstream or a remembered block leaves it out"


class Pages:
    """Reads pages, from any number of threads.

    ``thorough``: past caches, and every carrier's copy of a page that carriers vouch for. ``kept`` takes what was read,
    and gives it back where it is still fresh, unchanged, or where we are offline. ``named`` are the mirrors of
    ``--index-from``.
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
        """Address of a folder -> its canonical one."""
        self._lock = threading.Lock()
        self._last_chance = threading.Lock()
        """Held while an authority is asked once more: other pages wait for what comes of that."""
        self._asked_again: set[str] = set()
        """Hosts of authorities that were asked once more."""
        self._disputes: dict[str, Dispute] = {}
        """Address of a file -> how carriers contradict each other."""
        self._metadata = 0
        self.has_more = False
        """Whether asking again, thoroughly, might list more."""

    @property
    def read(self) -> int:
        """How many were read so far; a wheel's metadata counts as one."""
        return self._requests.answered + self._metadata

    def page(self, url: RedactedUrl, *, index: RedactedUrl | None = None) -> list[ListedFile] | None:
        """The files of a page of ``index``; None where that has no such page.

        Raises Unanswered, Interrupted, and ChannelUnavailableError where carriers alone are not enough.
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
        """How carriers contradict each other about a file; None where they do not."""
        return self._disputes.get(file.url)

    def of_wheel(self, file: ListedFile) -> WheelSources:
        """Where its METADATA may be asked for."""
        return WheelSources(self.sources, file)

    # ------------------------------------------------------------------ one source's page

    def _stated(
        self, source: Source, index: RedactedUrl, vouched: Vouched, *, alone: bool, last_chance: bool = False
    ) -> list[ListedFile] | None:
        """What an authority states; None for a page that it does not have. Raises Unanswered, Interrupted."""
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
            self.has_more = True  # a cache on the way has given it
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
        """The files of a page at their origins' addresses; without a digest each stays where its page has it."""
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
        if folder not in self._folders:  # a page of twenty thousand links has a dozen folders
            self._folders[folder] = self.table.canonical(f"{folder}/-").removesuffix("/-")
        return f"{self._folders[folder]}/{name}"

    # ------------------------------------------------------------------ carriers' pages

    def _once_more(
        self, standing: PageStanding, index: RedactedUrl, failures: Sequence[tuple[Source, Failure]]
    ) -> list[ListedFile] | None:
        """What an authority states that was only silent; it is asked once more in a run, with more patience.

        For pages for which a mirror has answered and is not enough. Raises Unanswered, Interrupted.
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
        """The files that two carriers of different operators state; None where two say that there is no such page."""
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

    # ------------------------------------------------------------------ what is kept

    def _kept_page(self, url: RedactedUrl, standing: PageStanding, index: RedactedUrl) -> list[ListedFile] | None:
        """The copy of an earlier run: the authority's, else what carriers agreed on. Raises Unanswered."""
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
        """A wheel's METADATA of an earlier run, where the digest that its index gives says that it is this wheel's.

        Offline that of a wheel without a digest, too.
        """
        if self._kept is None or (not file.is_identified and not self._offline):
            return None
        with suppress(KeyError):
            return self._kept.read(_metadata_key(file))
        return None

    def keep_metadata(self, file: ListedFile, data: bytes) -> None:
        """Keep it for ``kept_metadata``."""
        self._metadata += 1
        if self._kept is not None:
            self._kept.keep(_metadata_key(file), data)

    # ------------------------------------------------------------------ errors

    def unavailable(self, what: str, unanswered: Unanswered) -> ChannelUnavailableError:
        """The error for ``what``, which no source gave."""
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


def _is_private(source: Source) -> bool:
    """Whether what it gives may be for one login alone."""
    return bool(source.headers) or has_credentials(source.url)


def _agreed_key(url: RedactedUrl) -> RedactedUrl:
    """Under what carriers' common page is kept, apart from the authority's own."""
    return RedactedUrl(f"{url.reveal().partition('#')[0]}?carriers-agree")


def _metadata_key(file: ListedFile) -> RedactedUrl:
    """Under what METADATA is kept: for this wheel, and for the source whose word it rests on.

    A mirror that was named once may have stated other METADATA for the same bytes.
    """
    stated = file.url if file.stated is None else file.stated or "carriers-agree:" + file.url
    digests = [*sorted(file.hashes.items()), *sorted((file.metadata or {}).items())]
    return RedactedUrl(f"{stated}.metadata?" + "&".join(f"{kind}={value}" for kind, value in digests))


def _with_login(link: str, page: str) -> str:
    """``link``, with the userinfo of ``page`` where it has none of its own and lies at the same place."""
    if "@" not in page:
        return link
    here, there = urlsplit(page), urlsplit(link)
    login, mark, host = here.netloc.rpartition("@")
    if not mark or there.scheme != here.scheme or there.netloc.lower() != host.lower():
        return link
    return urlunsplit((there.scheme, f"{login}@{there.netloc}", there.path, there.query, ""))
