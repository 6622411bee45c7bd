"""Texts that a bundle may publish: without logins, and without folders of the machine that made it.

Any part of a query may be a secret, so queries are removed; of fragments only a digest is kept.
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
"""All but the last part of a file URL or path at the start of a word."""
_EXTRAS = re.compile(
    r"(?P<place>(?:[a-z][a-z0-9+.-]*:/|file:)[^?#]*)(?:\?(?:(?!::)[^\s#])*)?(?P<fragment>#(?:(?!::)\S)*)?",
    re.IGNORECASE,
)
"""A URL with its query and fragment; ``::`` ends a channel URL in a spec."""
_DIGEST = re.compile(r"[#&]((?:md5|sha\d+)=[0-9a-f]+)(?=&|$)", re.IGNORECASE)


def public(text: str) -> str:
    """A spec, a requirement or a channel without secrets; of a local path only the last part."""
    return _FOLDERS.sub("", _EXTRAS.sub(_without_extras, scrub(text)).rstrip("/"))


def public_url(url: RedactedUrl) -> str:
    """A URL without secrets; empty for a local one."""
    parts = urlsplit(without_credentials(url).reveal())
    return "" if parts.scheme == "file" else urlunsplit(parts._replace(query="", fragment=""))


def _without_extras(found: re.Match[str]) -> str:
    digest = _DIGEST.search(found["fragment"] or "")
    return found["place"] + (f"#{digest[1]}" if digest else "")
