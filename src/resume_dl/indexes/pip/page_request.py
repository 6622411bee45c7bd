"""Requests for single pages, and the files that a page lists."""

from __future__ import annotations

import re

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.small_requests import TRIES
from resume_dl.indexes.pip.kept_pages import KeptPage
from resume_dl.indexes.pip.metadata import SILENT
from resume_dl.indexes.pip.page_sources import PageSources
from resume_dl.indexes.small_answers import Body, Refused, Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source, safe_filename
from resume_dl.resolve.index_page import ACCEPT, HTML_TYPE, ListedFile, PageError, parse_page

_PLAIN = re.compile(r"[A-Za-z0-9_]{5,}[A-Za-z0-9_.+!-]*[A-Za-z0-9]")
"""Names that are safe on every system, as most are; the full check is slow."""
_FORBIDS_WHAT_IT_LACKS = frozenset({"wheels:pytorch"})
"""Origins on an object store that answers 403 instead of 404 for missing files."""
_PAST_CACHES = {"Cache-Control": "no-cache", "Pragma": "no-cache"}

_HTML = f"{HTML_TYPE}, application/vnd.pypi.simple.v1+html;q=0.9"
"""The HTML form of a page, requested if its JSON is invalid."""
_Answer = tuple[Body, tuple[ListedFile, ...]]


class PageRequests:
    """Requests pages, from any number of threads; ``past_caches``: bypass caches."""

    def __init__(self, reader: Reader, sources: PageSources, *, past_caches: bool = False) -> None:
        self._reader = reader
        self.sources = sources
        self._past_caches = past_caches
        self.answered = 0
        """The number of pages read so far."""

    def ask(
        self,
        source: Source,
        kept: KeptPage | None = None,
        *,
        within: float | None,
        tries: int = TRIES,
        last_chance: bool = False,
    ) -> _Answer:
        """Return a source's answer and the files that it lists. Raises Unanswered, Interrupted.

        ``within``: time limit in seconds; a host that timed out, for this page or another, is not asked again except
        with ``last_chance``.
        """
        headers = dict(_PAST_CACHES) if self._past_caches else {}
        if kept is not None and kept.files is not None:
            headers |= kept.note.said.conditions()

        def attempt(source: Source) -> _Answer | Refused[_Answer]:
            if within is not None and not last_chance and self.sources.is_silent(source):
                raise Unanswered([(source, SILENT)])
            refused: Failure | None = None
            for accept in (ACCEPT, _HTML):
                body = self._reader.get(source, accept=accept, headers=headers)
                if isinstance(body, Failure):
                    return Refused(refused or body)
                if body.unchanged and kept is not None:
                    return body, kept.files or ()
                files = files_of(body)
                if not isinstance(files, Failure):
                    return body, files
                refused = refused or files
                if "json" not in body.content_type:
                    break
            return Refused(refused or Failure(FailureKind.CONTENT, "sent no page"))

        found = self._reader.ask([source], attempt, tries=tries, within=within)
        self.answered += 1
        return found

    def says_no(self, source: Source, unanswered: Unanswered) -> bool:
        """Whether the source has answered that it has no such page."""
        if FailureKind.LACKS in unanswered.kinds:
            return True
        found = self.sources.table.origin_of(source.url.reveal())
        return found is not None and found[0] in _FORBIDS_WHAT_IT_LACKS and FailureKind.REFUSED in unanswered.kinds


def files_of(body: Body) -> tuple[ListedFile, ...] | Failure:
    """Return the files that a page lists, or why it is unusable."""
    try:
        page = parse_page(body.content_type, body.data, body.url.reveal())
    except PageError as error:
        return Failure(FailureKind.CONTENT, str(error))
    files = tuple(file for file in page.files if _is_safe(file))
    if not page.files and page.refused:
        return Failure(FailureKind.CONTENT, f"every link of its page is refused: {'; '.join(page.refused)}")
    if not page.files and not page.is_index:
        return Failure(FailureKind.PORTAL, "sent a web page without packages (the login page of this network?)")
    if page.files and not files:
        return Failure(FailureKind.CONTENT, "every file on its page has a name that is not safe on all systems")
    return files


def _is_safe(file: ListedFile) -> bool:
    if _PLAIN.fullmatch(file.filename):
        return True
    try:
        return bool(safe_filename(file.filename))
    except ValueError:
        return False
