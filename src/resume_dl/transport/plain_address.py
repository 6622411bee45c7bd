"""Addresses that are sent as they stand: httpx looks at each of their characters, a dozen times, for every request."""

from __future__ import annotations

import re
from functools import lru_cache

import httpx

_PLAIN = re.compile(r"(https?://[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?)((?:/[A-Za-z0-9_][A-Za-z0-9._~-]*)+)")
"""An origin without a login, and a path that has nothing to be escaped, resolved or left out."""


class _PlainAddress(httpx.URL):
    """An address at an origin that was parsed before."""

    def __init__(self, origin: httpx.URL, path: str) -> None:
        super().__init__(origin)
        self._path = path.encode()

    @property
    def raw_path(self) -> bytes:
        """The path as it is sent."""
        return self._path


def address_of(url: str) -> httpx.URL:
    """``url`` for a request by one of httpx's transports, which asks it for scheme, host, port and ``raw_path``.

    Raises httpx.InvalidURL.
    """
    plain = _PLAIN.fullmatch(url)
    return httpx.URL(url) if plain is None else _PlainAddress(_parsed(plain[1]), plain[2])


@lru_cache(maxsize=64)
def _parsed(origin: str) -> httpx.URL:
    return httpx.URL(origin)
