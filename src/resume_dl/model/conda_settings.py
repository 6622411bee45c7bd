"""The user's conda settings, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from resume_dl.model.mirror import CHANNEL_ALIAS
from resume_dl.model.url import RedactedUrl

UNIX_DEFAULTS = ("https://repo.anaconda.com/pkgs/main", "https://repo.anaconda.com/pkgs/r")
MSYS2 = "https://repo.anaconda.com/pkgs/msys2"
"""The third of conda's own default channels on and for Windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaSettings:
    """The result of condarc files, ``CONDA_*`` and conda's defaults; names and meaning as in ``conda config``.

    Values that may hold a login are RedactedUrls or left out of ``repr``.
    """

    source: str = "defaults"
    """``conda``: a conda has answered; ``files``: condarc files were read; ``defaults``: nothing was found."""
    problem: str = ""
    """Why a conda did not answer, or a file could not be read; one line, for doctor and --verbose."""
    conda_executable: Path | None = None
    conda_command: tuple[str, ...] = ()
    """How to run the conda that answered: ``(conda,)`` or ``(python, -m, conda)``; empty if none did."""
    root_prefix: Path | None = None
    subdir: str = ""
    """conda's platform, ``linux-64``."""
    channels: tuple[str, ...] = field(default=("defaults",), repr=False)
    """Names and URLs in order of priority; empty if a conda of 2025 or later has none set."""
    default_channels: tuple[RedactedUrl, ...] = tuple(RedactedUrl(url) for url in UNIX_DEFAULTS)
    custom_channels: Mapping[str, RedactedUrl] = field(default_factory=dict)
    """Channel name -> its parent URL."""
    custom_multichannels: Mapping[str, tuple[RedactedUrl, ...]] = field(default_factory=dict)
    """Multichannel name -> its members' URLs; ``defaults`` is ``default_channels``."""
    channel_alias: RedactedUrl = field(default_factory=lambda: RedactedUrl(CHANNEL_ALIAS))
    channel_priority: str = "flexible"
    """``strict``, ``flexible`` or ``disabled``."""
    pkgs_dirs: tuple[Path, ...] = ()
    envs_dirs: tuple[Path, ...] = ()
    ssl_verify: bool | str = True
    """False, True, ``truststore``, or a path."""
    client_ssl_cert: str | None = None
    client_ssl_cert_key: str | None = None
    allowlist_channels: tuple[str, ...] = field(default=(), repr=False)
    """Names and URLs of the only permitted channels; empty: all but the denied ones."""
    denylist_channels: tuple[str, ...] = field(default=(), repr=False)
    """Channels that are denied even if allowed (conda 26; 24 has no such setting)."""
    channel_settings: tuple[Mapping[str, str], ...] = field(default=(), repr=False)
    """Settings of channels: ``channel`` (a name, or a URL with ``*``), ``auth`` (a plugin's login)."""
    add_anaconda_token: bool = True
    """Whether anaconda-client's token is sent to its host."""
    proxy_servers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """``scheme`` or ``scheme://host`` -> a proxy's URL; empty for none."""
    pinned_packages: tuple[str, ...] = ()
    create_default_packages: tuple[str, ...] = ()
    aggressive_update_packages: tuple[str, ...] = ("ca-certificates", "certifi", "openssl")
    use_only_tar_bz2: bool = False
    add_pip_as_python_dependency: bool = True
    offline: bool = False
    override_channels_enabled: bool = True
    solver: str = ""
    exclude_newer: str = ""
    """A date or duration (``model.exclude_newer``), from conda 26.9 on; empty: nothing is held back."""
    exclude_newer_package: Mapping[str, str] = field(default_factory=dict)
    """Package name -> its own value; ``false`` for none."""
    remote_connect_timeout_secs: float = 9.15
    remote_read_timeout_secs: float = 60.0
