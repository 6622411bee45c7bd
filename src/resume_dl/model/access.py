"""How a client asks for one address: what it adds for whoever wants a login."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from resume_dl.model.url import RedactedUrl


@dataclass(frozen=True, slots=True)
class Access:
    """``url`` with the login that the client adds to it; ``headers`` go to that address alone.

    ``private``: its channel has a login of its own, so that nobody else is asked for it, unless the user's own
    mirrors.toml says so. A token that belongs to a whole host makes none of its channels private.
    """

    url: RedactedUrl
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    private: bool = False
