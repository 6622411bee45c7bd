"""Rules for permitted channels: condarc's ``allowlist_channels`` and ``denylist_channels``. Pure.

conda (``validate_channels`` in 26, ``check_allowlist`` in 24) compares whole URLs: a channel differs from its
labels, and a mirror of an allowed channel is not thereby allowed. So do we.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from resume_dl.model.channel import SUBDIR, has_credentials, without_credentials
from resume_dl.model.url import RedactedUrl

_FILE = re.compile(rf"(?P<base>.+)/{SUBDIR}/[^/]+", re.IGNORECASE)
_OWN_PORTS = {"http": ":80", "https": ":443"}


@dataclass(frozen=True, slots=True)
class ChannelRules:
    """Channel URLs without login and subdir, as from ``channel_key``; ``allowed`` None means all."""

    allowed: frozenset[str] | None = None
    denied: frozenset[str] = frozenset()

    def permit_channel(self, base: RedactedUrl) -> bool:
        """Whether the channel at ``base`` may be used."""
        key = channel_key(base)
        return key not in self.denied and (self.allowed is None or key in self.allowed)

    def permit_file(self, url: RedactedUrl) -> bool:
        """Whether ``url`` may be requested: a file of a permitted channel, or of no channel."""
        if self.allowed is None and not self.denied:
            return True
        found = _FILE.fullmatch(url.reveal().partition("#")[0].partition("?")[0])
        return found is None or self.permit_channel(RedactedUrl(found["base"]))


EVERY_CHANNEL = ChannelRules()
"""The rules without settings."""


def channel_key(base: RedactedUrl) -> str:
    """A channel's URL for comparison: without login, default port and final slash."""
    plain = without_credentials(base) if has_credentials(base) else base
    try:
        parts = urlsplit(plain.reveal())
    except ValueError:
        return plain.reveal()
    host = parts.netloc.lower().removesuffix(_OWN_PORTS.get(parts.scheme, ":"))
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
