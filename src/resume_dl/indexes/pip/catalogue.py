"""The files that indexes and find-links pages list, under canonical URLs; each page is read once per run.

If several threads request a page, one fetches it and the others wait for the result.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import IO, Any, TypeVar

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from resume_dl.core.failures import FailureKind
from resume_dl.errors import ChannelUnavailableError, PackageNotFoundError, ResumeDLError
from resume_dl.indexes.pip.metadata import Metadata, damage, read_metadata
from resume_dl.indexes.pip.pages import Pages
from resume_dl.indexes.small_answers import Refused, Unanswered
from resume_dl.model.artifact import Source
from resume_dl.model.pip import FindLinks
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import ListedFile

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The restrictions of a request on single projects, by normalized name."""

    direct: Mapping[str, ListedFile]
    """Projects requested by the URL of a file, which is then the only file of that project."""
    hashes: Mapping[str, frozenset[str]]
    """``sha256:<hex>``; any of them is accepted."""


class Catalogue:
    """Pages of ``indexes`` and ``find_links``, and wheels' metadata. Files have canonical URLs."""

    def __init__(
        self,
        pages: Pages,
        *,
        indexes: Sequence[RedactedUrl] = (),
        find_links: Sequence[FindLinks] = (),
        wanted: Wanted,
    ) -> None:
        self.indexes = tuple(indexes)
        self.find_links = tuple(find_links)
        self._pages = pages
        self._wanted = wanted
        self._once = _Once()
        self._lock = threading.Lock()
        self._listed: dict[str, list[ListedFile]] = {}
        self.read_whole: set[str] = set()
        """Names of wheels that had to be downloaded whole for their metadata."""

    def project(self, index: int, name: str) -> tuple[ListedFile, ...] | None:
        """Return the files of a project (its name normalized) at an index; None if the index lacks the project.

        Raises ChannelUnavailableError, Interrupted.
        """
        if name in self._wanted.direct:
            return None
        return self._once.get(("project", index, name), lambda: self._project(self.indexes[index], name))

    def links(self, number: int) -> tuple[ListedFile, ...]:
        """Return the files of a find-links page or folder. Raises what ``project`` raises."""
        return self._once.get(("links", number), lambda: self._links(self.find_links[number]))

    def direct(self) -> tuple[ListedFile, ...]:
        """Return the files that were requested by URL."""
        return tuple(self._wanted.direct.values())

    def metadata(self, file: ListedFile) -> Metadata:
        """Return a wheel's METADATA.

        Raises PackageNotFoundError if no source has the wheel, IntegrityError if carriers contradict each other about
        it, else what ``project`` raises.
        """
        return self._once.get(("metadata", file.url), lambda: self._metadata(file))

    def requires_python(self, file: ListedFile) -> str:
        """Return a file's Requires-Python, from its page or else its METADATA. Raises what ``metadata`` raises."""
        if file.requires_python or not file.is_wheel:
            return file.requires_python
        return str(BytesHeaderParser().parsebytes(self.metadata(file).data).get("Requires-Python", ""))

    def check(self, file: ListedFile) -> None:
        """Raise IntegrityError for a file for which carriers state different digests."""
        dispute = self._pages.dispute(file)
        if dispute is not None:
            raise dispute.error()

    def copy(self, file: ListedFile, target: IO[bytes]) -> None:
        """Download the file into ``target``, for builds. Raises what ``metadata`` raises."""
        self.check(file)

        def attempt(source: Source) -> bool | Refused[bool]:
            target.seek(0)
            target.truncate()
            failure = self._pages.reader.copy(source, target) or damage(file, target)
            return True if failure is None else Refused(failure)

        try:
            # not hedged: two sources would both write to the target
            self._pages.reader.ask(self._pages.sources.of_file(file), attempt, hedged=False)
        except Unanswered as unanswered:
            raise self._nowhere(file.filename, unanswered) from None

    def listed(self, name: str) -> tuple[ListedFile, ...]:
        """Return the files of a project on the pages read so far, or the file of its URL."""
        if name in self._wanted.direct:
            return (self._wanted.direct[name],)
        with self._lock:
            return tuple(self._listed.get(name, ()))

    def size(self, file: ListedFile) -> int | None:
        """Return the file's size, from the index, else from reading its metadata, else from its server."""
        if file.size is not None:
            return file.size
        if file.is_wheel and (seen := self._once.peek(("metadata", file.url))) is not None and seen.size is not None:
            return int(seen.size)
        try:
            return self._pages.reader.size(self._pages.sources.own(file))
        except Unanswered:
            return None

    # ------------------------------------------------------------------ pages

    def _project(self, index: RedactedUrl, name: str) -> tuple[ListedFile, ...] | None:
        base = index.reveal().rstrip("/")
        url = RedactedUrl(f"{base}/{name}/" + ("index.html" if base.startswith("file:") else ""))
        try:
            files = self._pages.page(url, index=index)
        except Unanswered as unanswered:
            raise self._pages.unavailable(f"the index page of {name}", unanswered) from None
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
                found = self._pages.page(url)
            except Unanswered as unanswered:
                raise self._pages.unavailable(f"the find-links page {url}", unanswered) from None
            if found is None:
                raise ChannelUnavailableError(
                    f"the find-links page {url} does not exist", tried=(str(url),), hint="check its URL"
                )
            files = found
        return self._allowed([file for file in files if _project_of(file.filename) not in self._wanted.direct])

    def _allowed(self, files: Sequence[ListedFile]) -> tuple[ListedFile, ...]:
        """Leave out files whose hash is not among the requested ones, if any file's hash is (as pip does)."""
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
        self.check(file)
        kept = self._pages.kept_metadata(file)
        if kept is not None:
            return Metadata(kept)
        try:
            found = read_metadata(file, self._pages.of_wheel(file), self._pages.reader)
        except Unanswered as unanswered:
            raise self._nowhere(file.filename, unanswered) from None
        self._pages.keep_metadata(file, found.data)
        if found.read_whole:
            with self._lock:
                self.read_whole.add(file.filename)
        return found

    # ------------------------------------------------------------------ errors

    def _nowhere(self, filename: str, unanswered: Unanswered) -> ResumeDLError:
        if FailureKind.LACKS not in unanswered.kinds:
            return self._pages.unavailable(filename, unanswered)
        return PackageNotFoundError(
            f"{filename} is listed, but no source has it ({unanswered})",
            hint="the page that lists it may be out of date: request another version, or try again later",
        )


class _Once:
    """Cache of calls: the first caller makes the call, the others wait and get the same result or error."""

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
            except BaseException as error:  # noqa: BLE001 - raised below, in this thread and all waiting ones
                future.set_exception(error)
        return future.result()

    def peek(self, key: Hashable) -> Any:
        """Return the result if it is available and not an error, else None."""
        with self._lock:
            future = self._found.get(key)
        return future.result() if future is not None and future.done() and future.exception() is None else None


@functools.lru_cache(maxsize=1 << 16)
def _project_of(filename: str) -> str:
    """Return the normalized name of a file's project; empty if it is neither a wheel nor a source archive."""
    try:
        if filename.endswith(".whl"):
            return str(parse_wheel_filename(filename)[0])
        return str(parse_sdist_filename(filename)[0])
    except InvalidWheelFilename:
        return ""
    except InvalidSdistFilename:
        # The names of old archives may be ambiguous, although a project's page lists them.
        return str(canonicalize_name(filename.rpartition("-")[0])) if filename.endswith((".zip", ".tar.bz2")) else ""


def _some_fit(files: Sequence[ListedFile], right: frozenset[str], project: str) -> bool:
    return any(
        f"{name}:{value}" in right
        for file in files
        if _project_of(file.filename) == project
        for name, value in file.hashes.items()
    )
