"""URLs that cannot leak a secret by being printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

_TOKEN = re.compile(r"/t/[^/]+(?=/|$)")
_SECRET_QUERY = re.compile(r"(?i)((?:^|&)[^=&]*(?:token|signature|sig|key|password|secret|credential)[^=&]*=)[^&]*")


def redact(url: str) -> str:
    """``url`` without userinfo, ``/t/<token>/`` or secret query values; safe to print, log and store.

    ``/t/<token>/`` is anaconda.org's token path (conda's ``split_anaconda_token``).
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # "http://user:password@[": no part of it can be told from a secret
        return "<unreadable address>"
    netloc = parts.netloc
    if "@" in netloc:
        netloc = "***@" + netloc.rpartition("@")[2]
    path = _TOKEN.sub("/t/***", parts.path)
    query = _SECRET_QUERY.sub(r"\1***", parts.query)
    return urlunsplit((parts.scheme, netloc, path, query, ""))


@dataclass(frozen=True, slots=True)
class RedactedUrl:
    """A URL whose ``str`` and ``repr`` show no secret; ``reveal()`` gives the real one, for the transport alone."""

    _raw: str

    def reveal(self) -> str:
        """The URL as it must be requested."""
        return self._raw

    @property
    def host(self) -> str:
        """``host[:port]`` in lower case, without userinfo: what connections are counted by; empty if there is none."""
        try:
            return urlsplit(self._raw).netloc.rpartition("@")[2].lower()
        except ValueError:
            return ""

    @property
    def has_secret(self) -> bool:
        """Whether printing this URL as it is would show a credential."""
        return redact(self._raw) != self._raw

    def __str__(self) -> str:
        return redact(self._raw)

    def __repr__(self) -> str:
        return f"RedactedUrl({redact(self._raw)!r})"
