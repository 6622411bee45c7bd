"""Kept copies of index pages and METADATA files, with their servers' cache headers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from resume_dl.indexes.copies import Freshness, Note
from resume_dl.model.channel import without_credentials
from resume_dl.model.http import CacheHeaders
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import JSON_TYPE, ListedFile, PageError, parse_page, render_json
from resume_dl.store.platform import make_folder, write_durably

_NOTE = "_kept"
"""Key beside ``api-version``; tools may add keys with a leading underscore (PEP 691)."""

_SAID_NOTHING = CacheHeaders()


@dataclass(frozen=True, slots=True)
class KeptPage:
    """A page as its source served it, without logins; ``files`` is None if it answered that there is no such page."""

    files: tuple[ListedFile, ...] | None
    note: Note
    age: float
    """Seconds since its source served or confirmed it; negative if its date is in the future."""

    def is_fresh(self, freshness: Freshness) -> bool:
        """Whether it may be used without a request."""
        return self.files is not None and freshness.allows(self.note, self.note.checked + self.age)


class KeptPages:
    """Files in ``folder``, named after their URLs without logins; their content has no logins either.

    If the folder cannot be written, only later offline runs are affected.
    """

    def __init__(self, folder: Path, *, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._now = now

    def keep_page(
        self, url: RedactedUrl, files: Sequence[ListedFile] | None, said: CacheHeaders = _SAID_NOTHING
    ) -> None:
        """Keep the files of a page, or None if its source answered that it does not exist.

        A page whose links contain secrets is kept without these and without validators, for offline use only.
        """
        plain = [replace(file, url=_plain(file.url)) for file in files or ()]
        if [file.url for file in plain] != [file.url for file in files or ()]:
            said = _SAID_NOTHING
        note = {"absent": files is None, "dated": True, **asdict(said)}
        self.keep(url, render_json("", plain, meta={_NOTE: note}))

    def page(self, url: RedactedUrl) -> KeptPage:
        """Return the kept page. Raises KeyError if there is none."""
        data = self.read(url)
        try:
            files = parse_page(JSON_TYPE, data, str(url)).files
            checked = self._place(url).stat().st_mtime
            note = json.loads(data)["meta"][_NOTE]  # earlier versions trusted any mirror and wrote no note
            seconds = None if note["max_age"] is None else float(note["max_age"])
            # an earlier version dropped the upload times: such a page is only for offline use
            dated = note.get("dated") is True
            said = CacheHeaders(str(note["etag"]), str(note["last_modified"]), seconds) if dated else _SAID_NOTHING
            found = None if note["absent"] else files
        except (PageError, OSError, ValueError, KeyError, TypeError) as error:
            raise KeyError(str(url)) from error
        return KeptPage(found, Note(str(url), said, checked), self._now() - checked)

    def confirm(self, url: RedactedUrl, page: KeptPage, said: CacheHeaders) -> None:
        """Record that its source has confirmed the kept ``page``; ``said``: that answer's cache headers."""
        confirmed = page.note.said.confirmed(said)
        if confirmed != page.note.said:
            self.keep_page(url, page.files, confirmed)
            return
        now = self._now()
        with suppress(OSError):
            os.utime(self._place(url), (now, now))

    def keep(self, url: RedactedUrl, data: bytes) -> None:
        """Keep bytes under a URL."""
        place = self._place(url)
        with suppress(OSError):
            make_folder(self._folder)
            write_durably(place, data)
            os.utime(place, (self._now(), self._now()))

    def read(self, url: RedactedUrl) -> bytes:
        """Return the kept bytes of a URL. Raises KeyError if the URL has none."""
        try:
            return self._place(url).read_bytes()
        except OSError as error:
            raise KeyError(str(url)) from error

    def _place(self, url: RedactedUrl) -> Path:
        return self._folder / without_credentials(url).fingerprint


def _plain(url: str) -> str:
    """Return the URL without its login and secret query values."""
    return str(without_credentials(RedactedUrl(url)))
