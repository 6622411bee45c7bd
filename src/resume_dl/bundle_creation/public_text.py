"""Texts as a bundle may show them to anybody: without logins, and without folders of the machine that made it.

Nobody can tell by its name what in a query is a secret, so no query is kept; of fragments a digest is.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from resume_dl.model.channel import without_credentials
from resume_dl.model.url import RedactedUrl, scrub

_FOLDERS = re.compile(
    r"(?<![^\s'\"=(\[@+])(?:file:/*(?:[a-z]:[/\\])?|~?[/\\]|\.{1,2}[/\\]|[a-z]:[/\\])"
    r"(?:[^/\\'\"\n:]*[/\\])*(?=[^/\\\s])",
    re.IGNORECASE,
)
"""Of an address of a file, or of a path, at the beginning of a word: all but its last part."""
_EXTRAS = re.compile(
    r"(?P<place>(?:[a-z][a-z0-9+.-]*:/|file:)[^?#]*)(?:\?(?:(?!::)[^\s#])*)?(?P<fragment>#(?:(?!::)\S)*)?",
    re.IGNORECASE,
)
"""An address with its query and its fragment; ``::`` ends a channel's in a spec."""
_DIGEST = re.compile(r"[#&]((?:md5|sha\d+)=[0-9a-f]+)(?=&|$)", re.IGNORECASE)


def public(text: str) -> str:
    """A spec, a requirement or a channel; of a place on this machine its last part is left."""
    return _FOLDERS.sub("", _EXTRAS.sub(_without_extras, scrub(text)).rstrip("/"))


def public_url(url: RedactedUrl) -> str:
    """An address, empty where only this machine has it."""
    parts = urlsplit(without_credentials(url).reveal())
    return "" if parts.scheme == "file" else urlunsplit(parts._replace(query="", fragment=""))


def _without_extras(found: re.Match[str]) -> str:
    digest = _DIGEST.search(found["fragment"] or "")
    return found["place"] + (f"#{digest[1]}" if digest else "")
