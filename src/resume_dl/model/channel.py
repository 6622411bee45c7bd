"""A conda channel with its two URLs: the origin's, and the one that the user's own conda requests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from resume_dl.model.url import RedactedUrl

SUBDIR = (
    r"(?:noarch|(?:linux|osx|win|freebsd|emscripten|wasi|zos)-"
    r"(?:32|64|aarch64|arm64|armv6l|armv7l|ppc64|ppc64le|riscv64|s390x|wasm32|z))"
)
"""A platform's folder in a channel, as a case-insensitive regular expression."""
_TOKEN = re.compile(r"/t/[^/]+(?=/|$)")


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel, without its subdir.

    ``canonical_base`` is the publisher's URL: it identifies repodata and artifacts, and ``MirrorTable.sources`` maps it
    to every mirror. ``client_base`` is what the user's conda requests with its condarc: perhaps a mirror, with the
    condarc's credential. Neither ends in a slash.
    """

    name: str
    """A short name without secrets: ``pytorch``, ``pkgs/main``, ``conda-forge/label/x``, or the redacted URL."""
    origin: str | None
    """``conda:<name>``, or None if no mirror carries it (a private or local channel)."""
    canonical_base: RedactedUrl
    client_base: RedactedUrl
    group: str = ""
    """The multichannel that it belongs to (``defaults``), whose members conda ranks equally; else empty."""

    def subdir_url(self, subdir: str) -> RedactedUrl:
        """``<canonical base>/<subdir>``."""
        return _join(self.canonical_base, subdir)

    def file_url(self, subdir: str, filename: str) -> RedactedUrl:
        """``<canonical base>/<subdir>/<filename>``: a package, or ``repodata.json.zst`` and the like."""
        return _join(self.canonical_base, subdir, filename)

    def client_subdir_url(self, subdir: str) -> RedactedUrl:
        """``<client base>/<subdir>`` without credentials: the ``channel`` of a package cache's record."""
        return _join(self.record_base, subdir)

    def client_file_url(self, subdir: str, filename: str) -> RedactedUrl:
        """``<client base>/<subdir>/<filename>`` without credentials: the ``url`` of a package cache's record."""
        return _join(self.record_base, subdir, filename)

    @property
    def record_base(self) -> RedactedUrl:
        """``client_base`` without userinfo and token: safe to write into a package cache (conda's ``base_url``)."""
        return without_credentials(self.client_base)


def without_credentials(url: RedactedUrl) -> RedactedUrl:
    """``url`` without userinfo and without anaconda.org's ``/t/<token>``; the same place without a login."""
    parts = urlsplit(url.reveal())
    return RedactedUrl(
        urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], _TOKEN.sub("", parts.path), parts.query, ""))
    )


def has_credentials(url: RedactedUrl) -> bool:
    """Whether ``url`` holds userinfo or ``/t/<token>``; False for an invalid URL."""
    try:
        parts = urlsplit(url.reveal())
    except ValueError:
        return False
    return "@" in parts.netloc or _TOKEN.search(parts.path) is not None


def _join(base: RedactedUrl, *below: str) -> RedactedUrl:
    return RedactedUrl("/".join((base.reveal(), *below)))
