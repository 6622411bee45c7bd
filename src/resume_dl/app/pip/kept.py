"""The last copy of each index page and METADATA that was read, for who resolves again without a network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from resume_dl.model.channel import without_credentials
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.index_page import JSON_TYPE, ListedFile, PageError, parse_page, render_json
from resume_dl.store.platform import make_folder, write_durably


class KeptPages:
    """Files in ``folder``, under what their addresses come to without logins, which are in no file either.

    A folder that cannot be written costs nothing but the next offline run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep_page(self, url: RedactedUrl, files: Sequence[ListedFile] | None) -> None:
        """The files of a page, or None where its index says that there is none."""
        plain = [replace(file, url=_plain(file.url)) for file in files or ()]
        self.keep(url, json.dumps(None).encode() if files is None else render_json("", plain))

    def page(self, url: RedactedUrl) -> tuple[ListedFile, ...] | None:
        """What ``keep_page`` was given, without logins. Raises KeyError where nothing is kept."""
        data = self.read(url)
        if data == json.dumps(None).encode():
            return None
        try:
            return parse_page(JSON_TYPE, data, str(url)).files
        except PageError as error:
            raise KeyError(str(url)) from error

    def keep(self, url: RedactedUrl, data: bytes) -> None:
        """Any bytes, under an address."""
        place = self._place(url)
        with suppress(OSError):
            make_folder(self._folder)
            write_durably(place, data)

    def read(self, url: RedactedUrl) -> bytes:
        """What ``keep`` was given. Raises KeyError where nothing is kept."""
        try:
            return self._place(url).read_bytes()
        except OSError as error:
            raise KeyError(str(url)) from error

    def _place(self, url: RedactedUrl) -> Path:
        return self._folder / without_credentials(url).fingerprint


def _plain(url: str) -> str:
    """The address without its login and secret query values."""
    return str(without_credentials(RedactedUrl(url)))
