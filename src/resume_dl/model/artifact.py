"""Artifacts (what is fetched) and their sources (from where)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from resume_dl.file_names import unsafe_name
from resume_dl.model.digest import Digest
from resume_dl.model.url import RedactedUrl

_PLAIN = re.compile(r"[a-z0-9_]+-(?:[A-Za-z0-9_.+!-]*[A-Za-z0-9_+!-])?")
"""A fast check that accepts nearly all archive names: with a hyphen before any dot none is reserved."""


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
    """Most connections to this host, if set in mirrors.toml."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """Sent to this source only, never to redirect targets: they may hold a login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file to fetch: what it is, and how it is verified.

    ``url`` is the canonical one (the origin's, not a mirror's); ``client_url`` and ``client_channel`` are what the
    user's own conda requests (perhaps a mirror of its condarc); records in a package cache must have those. ``size`` in
    bytes, None if no record states one. ``record`` is the index's own record, unchanged.
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
    """The sources, best first; the canonical one last."""

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
        """The name to show: the file's; with channel and subdir for indexes, which share a file name."""
        return (
            f"{self.channel}/{self.subdir}/{self.filename}" if self.channel and self.kind == "index" else self.filename
        )

    @property
    def key(self) -> str:
        """The part file's name: ``<algorithm>-<hex>``, or ``url-<hex>`` without a digest (invariant 6)."""
        digest = self.digest
        if digest is not None:
            return str(digest)
        return f"url-{self.url.fingerprint}"
