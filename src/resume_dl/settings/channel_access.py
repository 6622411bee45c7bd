"""Channels that may be used, and their logins, by conda's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote_plus, urlsplit

from resume_dl.model.access import Access
from resume_dl.model.channel import has_credentials
from resume_dl.model.channel_rules import ChannelRules, channel_key
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.mirror import MirrorTable
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.channels import expand_channels

_EVERY = ("win-64",)
"""The platform for which ``defaults`` has the most members."""


def channel_rules(conda: CondaSettings, table: MirrorTable) -> ChannelRules:
    """``allowlist_channels`` and ``denylist_channels``, names expanded as conda does. Raises ConfigurationError."""
    allowed, denied = conda.allowlist_channels, conda.denylist_channels
    return ChannelRules(_keys(allowed, conda, table) if allowed else None, _keys(denied, conda, table))


def _keys(names: Sequence[str], conda: CondaSettings, table: MirrorTable) -> frozenset[str]:
    # each name by itself: two addresses of one channel are two places here
    expanded = (channel for name in names for channel in expand_channels([name], conda, table, subdirs=_EVERY))
    return frozenset(channel_key(channel.client_base) for channel in expanded)


@dataclass(frozen=True, slots=True)
class ChannelAccess:
    """Access by logins that conda keeps in files; each request adds those of its plugins (``plugin_logins``)."""

    tokens: Mapping[str, str] = field(repr=False)
    """Address -> the token for all below it (``read_anaconda_tokens``)."""
    bases: frozenset[str]
    """Channels (``channel_key``) whose login a conda plugin provides."""
    patterns: tuple[str, ...]
    """Addresses with ``*``, for the same."""

    def __call__(self, url: RedactedUrl) -> Access:
        """The access to ``url``."""
        if self.wants_plugin(url):
            return Access(url, private=True)  # conda adds no token of its own there
        return Access(with_token(url, self.tokens), private=has_credentials(url))

    @property
    def has_plugins(self) -> bool:
        """Whether condarc names a plugin for any channel."""
        return bool(self.bases or self.patterns)

    def wants_plugin(self, url: RedactedUrl) -> bool:
        """Whether condarc's ``channel_settings`` names a plugin for the login of this channel or file."""
        return self.plugin_channel(url) is not None

    def plugin_channel(self, url: RedactedUrl) -> str | None:
        """The channel in ``channel_settings`` that has this file; empty for one that a pattern names, None for none."""
        key = channel_key(url)
        for base in self.bases:
            if key == base or key.startswith(base + "/"):
                return base
        scheme, _, rest = key.partition("://")
        wanted = (pattern.partition("://") for pattern in self.patterns)
        return "" if any(scheme == kind and fnmatchcase(rest, pattern) for kind, _, pattern in wanted) else None


def channel_access(conda: CondaSettings, table: MirrorTable, env: Mapping[str, str]) -> ChannelAccess:
    """Access as in conda's ``gateways/connection/session.py``. Raises ConfigurationError for a malformed channel."""
    named = [entry.get("channel", "") for entry in conda.channel_settings if entry.get("auth", "").strip()]
    names = [name for name in named if name and "*" not in name]
    return ChannelAccess(
        read_anaconda_tokens(env) if conda.add_anaconda_token else {},
        _keys(names, conda, table),
        tuple(name for name in named if "*" in name),
    )


def read_anaconda_tokens(env: Mapping[str, str]) -> dict[str, str]:
    """Read URL -> token from anaconda-client's files (``anaconda login``); empty if no file exists.

    A token for ``https://api.anaconda.org`` is valid for ``https://conda.anaconda.org`` too.
    """
    folder = _token_folder(env)
    found: dict[str, str] = {}
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".token")
        for file in files:
            address = unquote_plus(file.name.removesuffix(".token"))
            token = file.read_text(encoding="utf-8").strip()
            found |= {address: token, _channels_of(address): token}
    except (OSError, UnicodeDecodeError):
        return found
    return found


def _token_folder(env: Mapping[str, str]) -> Path:
    if env.get("BINSTAR_CONFIG_DIR"):
        return Path(env["BINSTAR_CONFIG_DIR"]) / "data"
    import platformdirs

    return Path(platformdirs.user_config_dir("binstar", "ContinuumIO"))


def _channels_of(address: str) -> str:
    """The channel host of an API host (``api`` -> ``conda``, once)."""
    return re.sub(r"([./])api([./]|$)", r"\1conda\2", address, count=1)


def with_token(url: RedactedUrl, tokens: Mapping[str, str]) -> RedactedUrl:
    """``url`` with its host's token; unchanged if it has a login."""
    if not tokens or has_credentials(url):
        return url
    text = url.reveal()
    for address, token in tokens.items():
        if text.startswith(address.rstrip("/") + "/"):
            place = address.rstrip("/")
            if not urlsplit(place).path and text.startswith(f"{place}/conda/"):
                place += "/conda"  # Anaconda's server for companies
            return RedactedUrl(f"{place}/t/{token}{text[len(place) :]}")
    return url
