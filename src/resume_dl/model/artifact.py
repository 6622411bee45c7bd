"""What is fetched (Artifact) and from where (Source)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from resume_dl.file_names import unsafe_name
from resume_dl.model.digest import Digest
from resume_dl.model.url import RedactedUrl

_PLAIN = re.compile(r"[a-z0-9_]+-(?:[A-Za-z0-9_.+!-]*[A-Za-z0-9_+!-])?")
"""Nearly all archives' names, told in a tenth of the time: a hyphen before any dot makes none of them reserved."""


def safe_filename(name: str) -> str:
    """``name`` itself if it is one plain path component on every platform; raises ValueError otherwise.

    Refuses what a hostile index could use to write elsewhere: separators, ``..``, drive letters, NUL, control
    characters, and names that Windows would trim or redirect (trailing dot or space, ``CON``, ``NUL``, ...).
    """
    if _PLAIN.fullmatch(name) and len(name) <= 255:
        return name
    if unsafe_name(name):
        raise ValueError(f"unsafe file name: {name!r}")
    return name


@dataclass(frozen=True, slots=True)
class Source:
    """One URL of one artifact; ``mirror`` is the mirror's name, or ``upstream``."""

    mirror: str
    url: RedactedUrl
    connections: int | None = None
    """Most connections to this host, where mirrors.toml says so."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """Sent to this source alone, and not where it redirects to: they may hold a login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file to have: what it is, and how it is known to be right.

    ``url`` is the canonical one (the origin's, not a mirror's); ``client_url`` and ``client_channel`` are what the
    user's own conda will ask for (a mirror of its condarc, perhaps): what is written into a package cache must
    carry those. ``size`` in bytes, None where no record gave one. ``record`` is the index's own record, unchanged.
    """

    kind: str
    """``conda``, ``wheel``, ``index`` (repodata and the like) or ``file``."""
    filename: str
    url: RedactedUrl
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None
    name: str = ""
    version: str = ""
    build: str = ""
    subdir: str = ""
    channel: str = ""
    client_url: RedactedUrl | None = None
    client_channel: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    """Where the bytes are, best first; the canonical source last."""

    def __post_init__(self) -> None:
        safe_filename(self.filename)

    @property
    def digest(self) -> Digest | None:
        """The strongest digest known, or None."""
        if self.sha256:
            return Digest("sha256", self.sha256)
        if self.md5:
            return Digest("md5", self.md5)
        return None

    @property
    def title(self) -> str:
        """What people call it: the file's name; for an index, whose all have one name, with its channel and subdir."""
        return (
            f"{self.channel}/{self.subdir}/{self.filename}" if self.channel and self.kind == "index" else self.filename
        )

    @property
    def key(self) -> str:
        """The part file's name: ``<algorithm>-<hex>``, or ``url-<hex>`` where there is no digest (invariant 6)."""
        digest = self.digest
        if digest is not None:
            return str(digest)
        return f"url-{self.url.fingerprint}"
