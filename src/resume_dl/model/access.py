"""The access to one URL: what a client adds for a login."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from resume_dl.model.url import RedactedUrl


@dataclass(frozen=True, slots=True)
class Access:
    """``url`` with the login that the client adds to it; ``headers`` go to that address alone.

    ``private``: its channel has its own login, so that mirrors are used only if the user's mirrors.toml says so. A
    token for a whole host makes none of its channels private.
    """

    url: RedactedUrl
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    private: bool = False
