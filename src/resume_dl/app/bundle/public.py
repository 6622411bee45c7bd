"""Texts as a bundle may show them to anybody: without logins, and without folders of the machine that made it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from resume_dl.model.channel import without_credentials
from resume_dl.model.url import RedactedUrl, scrub

_FOLDERS = re.compile(
    r"(?<![^\s'\"=(\[@])(?:file:/*(?:[a-z]:[/\\])?|~?[/\\]|\.{1,2}[/\\]|[a-z]:[/\\])"
    r"(?:[^/\\'\"\n:]*[/\\])*(?=[^/\\\s])",
    re.IGNORECASE,
)
"""Of an address of a file, or of a path, at the beginning of a word: all but its last part."""


def public(text: str) -> str:
    """A spec, a requirement or a channel; of a place on this machine its last part is left."""
    return _FOLDERS.sub("", scrub(text).rstrip("/"))


def public_url(url: RedactedUrl) -> str:
    """An address, empty where only this machine has it; without a query that holds a secret."""
    plain = without_credentials(url)
    parts = urlsplit(plain.reveal())
    if parts.scheme == "file":
        return ""
    return urlunsplit(parts._replace(query="")) if plain.has_secret else plain.reveal()
