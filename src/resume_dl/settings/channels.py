"""Expansion of channel names into URLs as conda does it, and the origin of each URL.

Source: conda's ``models/channel.py`` (24.7 and 26.7 agree). Not supported: ``migrated_channel_aliases`` and
``migrated_custom_channels``; a subdir at the end of a name or URL is dropped, because ``--platform`` sets it.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

from resume_dl.errors import ConfigurationError
from resume_dl.model.channel import SUBDIR, Channel, without_credentials
from resume_dl.model.conda_settings import MSYS2, UNIX_DEFAULTS, CondaSettings
from resume_dl.model.mirror import MirrorTable, is_plain_path
from resume_dl.model.url import RedactedUrl

DEFAULTS = "defaults"
NODEFAULTS = "nodefaults"
"""Entry in a list of channels that leaves out those of the condarc (environment.yml)."""
_UNQUOTED = "!'()*-._/:"
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9]{0,11}://")
_PATH = re.compile(r"\.{1,2}(?:[/\\]|$)|~|/|\\\\|[a-zA-Z]:[/\\]")
_SUBDIR = re.compile(rf"/{SUBDIR}$", re.IGNORECASE)


def requested_channels(named: Sequence[str], conda: CondaSettings, *, override: bool = False) -> tuple[str, ...]:
    """The channel names of a request by priority: those of ``-c``, then condarc's unless ``override``.

    ``defaults`` if none are named or set. (conda 24 appends ``defaults`` to ``-c`` if no condarc sets channels, conda
    26 does not: each reports that in ``channels``, so that the version does not matter here.)
    """
    wanted = tuple(name for name in named if name != NODEFAULTS)
    alone = wanted and (override or NODEFAULTS in named)
    return tuple(dict.fromkeys((*wanted, *(() if alone else conda.channels)))) or (DEFAULTS,)


def expand_channels(
    names: Sequence[str],
    conda: CondaSettings,
    table: MirrorTable,
    *,
    subdirs: Sequence[str] = (),
    folder: Path | None = None,
) -> tuple[Channel, ...]:
    """The channels of these names, URLs or folders, in order, without duplicates.

    A multichannel (``defaults``) becomes its members. Empty ``names`` mean the condarc's channels, else ``defaults``.
    ``subdirs`` are the platforms wanted: conda's own defaults have msys2 as well for Windows. ``folder`` is what
    relative paths start from (default: the current one). Raises ConfigurationError for an empty name, and for a part
    that a server may interpret as another path (``..``, an empty one, a backslash).
    """
    found: dict[str, Channel] = {}
    for name in names or requested_channels((), conda):
        for channel in _expand(name.strip(), conda, table, subdirs, folder):
            found.setdefault(channel.canonical_base.reveal(), channel)
    return tuple(found.values())


def _expand(
    name: str, conda: CondaSettings, table: MirrorTable, subdirs: Sequence[str], folder: Path | None
) -> Iterator[Channel]:
    if not name:
        raise ConfigurationError("a channel name is empty", hint="name a channel, as in -c conda-forge")
    if _SCHEME.match(name):
        base = _without_subdir(name.partition("#")[0])
        yield _channel(_with_login(base, conda), table, conda)
        return
    if _PATH.match(name):
        yield _channel(RedactedUrl(_without_subdir(_file_url(name, folder))), table, conda)
        return
    name = _without_subdir(name.strip("/"))
    members = _members(name, conda, subdirs)
    if members is not None:
        for member in members:
            yield _channel(member, table, conda, group=name)
        return
    yield _channel(_named(name, conda), table, conda, name=name)


def _members(name: str, conda: CondaSettings, subdirs: Sequence[str]) -> tuple[RedactedUrl, ...] | None:
    if name != DEFAULTS:
        return conda.custom_multichannels.get(name)
    members = conda.custom_multichannels.get(DEFAULTS, conda.default_channels)
    windows = any(subdir.startswith("win-") for subdir in subdirs)
    if windows and tuple(url.reveal() for url in members) == UNIX_DEFAULTS:
        return (*members, RedactedUrl(MSYS2))
    return members


def _named(name: str, conda: CondaSettings) -> RedactedUrl:
    """The URL by the longest matching prefix in ``custom_channels``, else by ``channel_alias``."""
    leading = name
    while leading:
        place = conda.custom_channels.get(leading)
        if place is not None:
            return RedactedUrl(f"{place.reveal()}/{name}")
        leading = leading.rpartition("/")[0]
    return RedactedUrl(f"{conda.channel_alias.reveal()}/{name}")


def _with_login(url: str, conda: CondaSettings) -> RedactedUrl:
    """The URL with the condarc's login for it, as conda adds it; an existing login stays."""
    given = RedactedUrl(url)
    if given.has_secret:
        return given
    configured = [
        RedactedUrl(f"{place.reveal()}/{name}")
        for name, place in sorted(conda.custom_channels.items(), key=lambda item: -len(item[0]))
    ]
    for known in (*configured, conda.channel_alias):
        if known.has_secret:
            plain = without_credentials(known).reveal().rstrip("/")
            if url == plain or url.startswith(plain + "/"):
                return RedactedUrl(known.reveal().rstrip("/") + url[len(plain) :])
    return given


def _channel(
    base: RedactedUrl, table: MirrorTable, conda: CondaSettings, *, name: str = "", group: str = ""
) -> Channel:
    _check_path(base)
    match = table.origin_of(base.reveal())
    canonical = base if match is None else RedactedUrl(table.canonical(base.reveal()))
    if match is not None:
        name = "/".join(filter(None, (match[0].removeprefix("conda:"), match[1])))
    elif not name:
        name = _short_name(base, conda)
    return Channel(name, None if match is None else match[0], canonical, base, group)


def _check_path(base: RedactedUrl) -> None:
    """Refuse paths that servers may interpret differently, such as ``a/../b``."""
    try:
        parts = urlsplit(base.reveal())
    except ValueError:
        raise ConfigurationError(f"the channel {base} is not a URL", hint="name it as in -c conda-forge") from None
    if parts.scheme != "file" and not is_plain_path(parts.path):
        raise ConfigurationError(
            f"the channel {base} has a part that is empty, dots only or a backslash",
            hint="name it plainly, as in -c conda-forge; a folder on this machine begins with ./ or /",
        )


def _short_name(base: RedactedUrl, conda: CondaSettings) -> str:
    """The name of a custom channel's URL, else the URL without its login."""
    plain = without_credentials(base).reveal()
    for name, place in conda.custom_channels.items():
        if plain == f"{without_credentials(place).reveal()}/{name}":
            return name
    return str(RedactedUrl(plain))


def _without_subdir(place: str) -> str:
    return _SUBDIR.sub("", place.rstrip("/"))


def _file_url(text: str, folder: Path | None) -> str:
    """A folder's URL as conda writes it: ASCII unchanged (blanks too), anything else percent-encoded."""
    path = Path(text).expanduser()
    place = os.path.normpath(path if path.is_absolute() else (folder or Path.cwd()) / path).replace("\\", "/")
    drive = "/" if place[1:2] == ":" else ""
    return f"file://{drive}{place if place.isascii() else quote(place, safe=_UNQUOTED)}"
