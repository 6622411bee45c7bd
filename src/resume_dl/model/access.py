"""The access to one URL: what a client adds for a login."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from resume_dl.model.url import RedactedUrl

_OF_TRANSFER = frozenset({"accept", "accept-encoding", "connection", "host", "if-range", "range"})


def is_of_login(name: str) -> bool:
    """Whether this header of a client's request is sent with ours, which set those of the transfer themselves."""
    return name.lower() not in _OF_TRANSFER


@dataclass(frozen=True, slots=True)
class Access:
    """``url`` with the login that the client adds to it; ``headers`` go to that address alone.

    ``private``: its channel has its own login, so that mirrors are used only if the user's mirrors.toml says so. A
    token for a whole host makes none of its channels private.
    """

    url: RedactedUrl
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    private: bool = False


@dataclass(frozen=True, slots=True)
class PluginLogin:
    """What a client's plugin sends for one URL; ``process`` numbers the client's processes that were asked."""

    url: RedactedUrl = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    process: int
