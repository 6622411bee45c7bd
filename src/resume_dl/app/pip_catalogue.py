"""What indexes and find-links pages list: fetched from any mirror, once a run, under canonical addresses.

Several threads ask for the same pages; each is fetched once, whoever comes second waits.
"""

from __future__ import annotations

import functools
import hashlib
import re
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from resume_dl.app.pip_kept import KeptPages
from resume_dl.app.pip_metadata import Metadata, read_metadata
from resume_dl.app.pip_reading import Body, Reader, Refused, Unanswered
from resume_dl.app.places import Places
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.errors import CaptivePortalError, ChannelUnavailableError, PackageNotFoundError, ResumeDLError
from resume_dl.model.artifact import Source, safe_filename
from resume_dl.model.mirror import UPSTREAM, MirrorTable
from resume_dl.model.pip import FindLinks
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import ACCEPT, IndexPage, ListedFile, PageError, parse_page

_T = TypeVar("_T")
_PLAIN = re.compile(r"[A-Za-z0-9_]{5,}[A-Za-z0-9_.+!-]*[A-Za-z0-9]")
"""Names that are safe everywhere for certain: most are, and the thorough look is slow."""
_FORBIDS_WHAT_IT_LACKS = frozenset({"wheels:pytorch"})
"""Origins on an object store that answers 403, not 404, for what is not there."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request says of single projects, by normalized name."""

    direct: Mapping[str, ListedFile]
    """Projects that were asked for by the address of one file: nothing else of that name exists then."""
    hashes: Mapping[str, frozenset[str]]
    """``sha256:<hex>``: any of them is right."""


class Catalogue:
    """Pages of ``indexes`` and ``find_links``, and wheels' metadata. Files have canonical addresses."""

    def __init__(
        self,
        reader: Reader,
        places: Places,
        *,
        indexes: Sequence[RedactedUrl],
        find_links: Sequence[FindLinks] = (),
        wanted: Wanted,
        offline: bool = False,
        thorough: bool = False,
        kept: KeptPages | None = None,
    ) -> None:
        """``thorough``: read every place's copy of a page, for what one that is behind does not list yet.

        ``kept`` takes what was read, and gives it back where we are offline.
        """
        self.indexes = tuple(indexes)
        self.find_links = tuple(find_links)
        self._reader = reader
        self._places = places
        self._wanted = wanted
        self._offline = offline
        self._thorough = thorough
        self._kept = kept
        self._once = _Once()
        self._lock = threading.Lock()
        self._folders: dict[str, str] = {}
        """Address of a folder -> its canonical one."""
        self._listed: dict[str, list[ListedFile]] = {}
        self.pages = 0
        """Read so far; a wheel's metadata counts as one."""
        self.has_more = False
        """Whether a page has other copies, which may list more."""
        self.unreached: dict[str, str] = {}
        """Host -> why: places that were passed over because others answered."""
        self.read_whole: set[str] = set()
        """Names of wheels that had to be read whole for their metadata."""

    def project(self, index: int, name: str) -> tuple[ListedFile, ...] | None:
        """The files of a project (its name normalized) at an index; None where that does not have it.

        Raises ChannelUnavailableError, CaptivePortalError, Interrupted.
        """
        if name in self._wanted.direct:
            return None
        return self._once.get(("project", index, name), lambda: self._project(self.indexes[index], name))

    def links(self, number: int) -> tuple[ListedFile, ...]:
        """The files that a find-links page or folder lists. Raises what ``project`` raises."""
        return self._once.get(("links", number), lambda: self._links(self.find_links[number]))

    def direct(self) -> tuple[ListedFile, ...]:
        """The files that were asked for by address."""
        return tuple(self._wanted.direct.values())

    def metadata(self, file: ListedFile) -> Metadata:
        """A wheel's METADATA. Raises PackageNotFoundError where the wheel is nowhere, else what ``project`` raises."""
        return self._once.get(("metadata", file.url), lambda: self._metadata(file))

    def sources(self, url: RedactedUrl) -> tuple[Source, ...]:
        """The places of an address: the mirror that it names first, the origin last; offline only this machine."""
        found = [source for source in self._places.of(url) if not self._offline or source.url.reveal()[:5] == "file:"]
        return tuple(sorted(found, key=lambda source: source.url != url or source.mirror == UPSTREAM))

    def copy(self, file: ListedFile, target: IO[bytes]) -> None:
        """The file itself into ``target``, for builds. Raises what ``metadata`` raises."""

        def attempt(source: Source) -> bool | Refused[bool]:
            target.seek(0)
            target.truncate()
            failure = self._reader.copy(source, target) or _damage(file, target)
            return True if failure is None else Refused(failure)

        try:
            self._reader.ask(self.sources(RedactedUrl(file.url)), attempt)
        except Unanswered as unanswered:
            raise self._nowhere(file.filename, unanswered) from None

    def listed(self, name: str) -> tuple[ListedFile, ...]:
        """What the pages that were read so far list of a project."""
        with self._lock:
            return tuple(self._listed.get(name, ()))

    def size(self, file: ListedFile) -> int | None:
        """The file's length: the index's word, else what was seen with its metadata, else its server is asked."""
        if file.size is not None:
            return file.size
        if file.is_wheel and (seen := self._once.peek(("metadata", file.url))) is not None and seen.size is not None:
            return int(seen.size)
        try:
            return self._reader.size(self.sources(RedactedUrl(file.url)))
        except Unanswered:
            return None

    # ------------------------------------------------------------------ pages

    def _project(self, index: RedactedUrl, name: str) -> tuple[ListedFile, ...] | None:
        base = index.reveal().rstrip("/")
        url = RedactedUrl(f"{base}/{name}/" + ("index.html" if base.startswith("file:") else ""))
        try:
            files = self._page(url)
        except Unanswered as unanswered:
            if self._says_no(url, unanswered):
                self._note_unreached(unanswered)
                self._keep(url, None)
                return None
            raise self._unavailable(f"the index page of {name}", unanswered) from None
        if files is None:
            return None
        return self._allowed([file for file in files if _project_of(file.filename) == name])

    def _links(self, place: FindLinks) -> tuple[ListedFile, ...]:
        if isinstance(place, Path) and place.is_dir():
            paths = sorted(path for path in place.iterdir() if _project_of(path.name))
            files = [ListedFile(path.name, path.as_uri(), size=path.stat().st_size) for path in paths]
        else:
            url = RedactedUrl(place.as_uri()) if isinstance(place, Path) else place
            try:
                files = self._page(url) or []
            except Unanswered as unanswered:
                raise self._unavailable(f"the find-links page {url}", unanswered) from None
        return self._allowed([file for file in files if _project_of(file.filename) not in self._wanted.direct])

    def _page(self, url: RedactedUrl) -> list[ListedFile] | None:
        """The files of a page; None where a kept one says that its index has none."""
        sources = self.sources(url)
        if self._kept is not None and self._offline and not sources:
            with suppress(KeyError):
                kept = self._kept.page(url)
                return None if kept is None else [replace(f, url=_with_login(f.url, url.reveal())) for f in kept]
        files = self._read_page(sources)
        self._keep(url, files)
        return files

    def _keep(self, url: RedactedUrl, files: list[ListedFile] | None) -> None:
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
                files = self._copy_of_page([source])
            except Unanswered as unanswered:
                failures += unanswered.failures
            else:
                answered = True
                for file in files:  # one file has another address at each mirror of an origin without a base
                    found.setdefault(self._places.table.origin_of(file.url) or file.url, file)
        if not answered:
            raise Unanswered(failures)
        return list(found.values())

    def _copy_of_page(self, sources: Sequence[Source]) -> list[ListedFile]:
        read: dict[str, IndexPage] = {}

        def check(body: Body) -> Failure | None:
            try:
                page = parse_page(body.content_type, body.data, body.url.reveal())
            except PageError as error:
                return Failure(FailureKind.CONTENT, str(error))
            if not page.files and not page.is_index:
                return Failure(FailureKind.PORTAL, "a web page without packages came (the login page of this network?)")
            read["page"] = page
            return None

        body = self._reader.whole(sources, accept=ACCEPT, check=check)
        self.pages += 1
        return [replace(file, url=self._canonical(file.url, body.url)) for file in read["page"].files if _is_safe(file)]

    def _canonical(self, link: str, page: RedactedUrl) -> str:
        """The file's address at its origin; with the page's own login where it lies at the same place."""
        table: MirrorTable = self._places.table
        link = _with_login(link, page.reveal())
        folder, _, name = link.rpartition("/")
        if "?" in link:
            return table.canonical(link)
        if folder not in self._folders:  # a page of twenty thousand links has a dozen folders
            self._folders[folder] = table.canonical(f"{folder}/-").removesuffix("/-")
        return f"{self._folders[folder]}/{name}"

    def _allowed(self, files: Sequence[ListedFile]) -> tuple[ListedFile, ...]:
        """Without the files whose hash is not among those asked for, where others' are (as pip chooses)."""
        kept = []
        with self._lock:
            for file in files:
                self._listed.setdefault(_project_of(file.filename), []).append(file)
        for file in files:
            right = self._wanted.hashes.get(_project_of(file.filename))
            known = {f"{name}:{value}" for name, value in file.hashes.items()}
            if right and known and not known & right and _some_fit(files, right, _project_of(file.filename)):
                continue
            kept.append(file)
        return tuple(kept)

    # ------------------------------------------------------------------ metadata

    def _metadata(self, file: ListedFile) -> Metadata:
        beside = RedactedUrl(f"{file.url}.metadata")
        if self._kept is not None and self._offline and not self.sources(beside):
            with suppress(KeyError):
                return Metadata(self._kept.read(beside))
        try:
            found = read_metadata(file, self.sources, self._reader)
        except Unanswered as unanswered:
            raise self._nowhere(file.filename, unanswered) from None
        self.pages += 1
        if self._kept is not None:
            self._kept.keep(beside, found.data)
        if found.read_whole:
            with self._lock:
                self.read_whole.add(file.filename)
        return found

    # ------------------------------------------------------------------ what failures mean

    def _says_no(self, url: RedactedUrl, unanswered: Unanswered) -> bool:
        """Whether some place of this index knows that it has no such project."""
        if FailureKind.LACKS in unanswered.kinds:
            return True
        found = self._places.table.origin_of(url.reveal())
        return found is not None and found[0] in _FORBIDS_WHAT_IT_LACKS and FailureKind.REFUSED in unanswered.kinds

    def _note_unreached(self, unanswered: Unanswered) -> None:
        with self._lock:
            for source, failure in unanswered.failures:
                if failure.kind is not FailureKind.LACKS:
                    self.unreached[source.url.host] = failure.message

    def _nowhere(self, filename: str, unanswered: Unanswered) -> ResumeDLError:
        if FailureKind.LACKS not in unanswered.kinds:
            return self._unavailable(filename, unanswered)
        return PackageNotFoundError(
            f"{filename} is listed, and nobody has it ({unanswered})",
            hint="the page that lists it may be out of date: ask for another version, or try again later",
        )

    def _unavailable(self, what: str, unanswered: Unanswered) -> ChannelUnavailableError | CaptivePortalError:
        if unanswered.kinds == {FailureKind.PORTAL}:
            return CaptivePortalError(
                f"{what} cannot be had: web pages come instead: this looks like the login page of this network "
                "(a captive portal), or is no package index",
                hint="open a browser and sign in to the network, or check the index's address",
            )
        if self._offline and not unanswered.failures:
            return ChannelUnavailableError(f"{what} has not been read before", hint="run it once without --offline")
        refused = FailureKind.REFUSED in unanswered.kinds
        return ChannelUnavailableError(
            f"{what} cannot be had: {unanswered}",
            tried=tuple(str(source.url) for source, _ in unanswered.failures),
            hint="check the login for this index (netrc, or user:password@ in its address)"
            if refused
            else "check the line and the proxy settings, then run it again",
        )


class _Once:
    """Calls each thing once; the others who want it wait for the result, or get the same error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Hashable, Future[Any]] = {}

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        with self._lock:
            mine = key not in self._found
            future: Future[_T] = self._found.setdefault(key, Future())
        if mine:
            try:
                future.set_result(make())
            except BaseException as error:  # noqa: BLE001 - it is raised below, here and for all who wait
                future.set_exception(error)
        return future.result()

    def peek(self, key: Hashable) -> Any:
        """The result, if it is here and no error; else None."""
        with self._lock:
            future = self._found.get(key)
        return future.result() if future is not None and future.done() and future.exception() is None else None


@functools.lru_cache(maxsize=1 << 16)
def _project_of(filename: str) -> str:
    """The normalized name of the project that a file belongs to; empty for what is neither wheel nor source archive."""
    try:
        if filename.endswith(".whl"):
            return str(parse_wheel_filename(filename)[0])
        return str(parse_sdist_filename(filename)[0])
    except InvalidWheelFilename:
        return ""
    except InvalidSdistFilename:
        # Old archives have names that say less: a project's page lists them all the same.
        return str(canonicalize_name(filename.rpartition("-")[0])) if filename.endswith((".zip", ".tar.bz2")) else ""


def _is_safe(file: ListedFile) -> bool:
    if _PLAIN.fullmatch(file.filename):
        return True
    try:
        return bool(safe_filename(file.filename))
    except ValueError:
        return False


def _some_fit(files: Sequence[ListedFile], right: frozenset[str], project: str) -> bool:
    return any(
        f"{name}:{value}" in right
        for file in files
        if _project_of(file.filename) == project
        for name, value in file.hashes.items()
    )


def _damage(file: ListedFile, copy: IO[bytes]) -> Failure | None:
    """What is wrong with a copy, by the strongest digest that the index gives."""
    known = [name for name in ("sha512", "sha384", "sha256", "md5") if name in file.hashes]
    if not known:
        return None
    copy.seek(0)
    digest = hashlib.new(known[0], usedforsecurity=False)
    while chunk := copy.read(1 << 20):
        digest.update(chunk)
    if digest.hexdigest() == file.hashes[known[0]]:
        return None
    return Failure(FailureKind.LIED, f"its {file.filename} has another digest than the index says")


def _with_login(link: str, page: str) -> str:
    """``link``, with the userinfo of ``page`` where it has none of its own and lies at the same place."""
    if "@" not in page:
        return link
    here, there = urlsplit(page), urlsplit(link)
    login, mark, host = here.netloc.rpartition("@")
    if not mark or there.scheme != here.scheme or there.netloc.lower() != host.lower():
        return link
    return urlunsplit((there.scheme, f"{login}@{there.netloc}", there.path, there.query, ""))
