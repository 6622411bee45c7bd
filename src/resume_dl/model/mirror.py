"""Origins, and the mirrors that carry them: which URLs hold the same bytes. Pure.

An *origin* is a symbolic name (``conda:pytorch``, ``wheels:pytorch``, ``pypi:files``) for a place that holds files;
its *canonical base* is the publisher's URL. A mirror carries an origin under its own base; the same path below each
base is the same file. A wrong guess is harmless: identity is the digest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from resume_dl.model.artifact import Source
from resume_dl.model.channel import has_credentials, without_credentials
from resume_dl.model.url import RedactedUrl, redact

UPSTREAM = "upstream"
"""The mirror name of a canonical source."""
GIVEN = "given"
"""The mirror name of a URL given by the user that is neither a known mirror's nor canonical."""
ACTIVE = "active"
RETIRED = "retired"
CHANNEL_ALIAS = "https://conda.anaconda.org"
"""conda's default ``channel_alias``: an unlisted channel is ``conda:<name>``, below this URL."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_PYPI_FILE = re.compile(r"/packages/([0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{60}/[^/]+)\Z")
_PYPI_FILES = "pypi:files"
_CONDA = "conda:"
_DOTS = re.compile(r"(?i)(?:\.|%2e){1,2}")

_Location = tuple[str, tuple[str, ...]]
"""``host[:port]`` and path segments, by which URLs are compared."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """One mirror site; ``carries`` maps an origin's name to the base URL at this mirror (no trailing slash).

    A ``retired`` mirror is recognised in a user's settings for a warning, and never used; ``note`` then
    says what happened. ``connections`` is the most connections to one of its hosts, None for the default.
    """

    name: str
    title: str = ""
    home: str = ""
    connections: int | None = None
    status: str = ACTIVE
    carries: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    operator: str = ""
    """The operator, if set in mirrors.toml: mirrors of one operator count as one witness."""
    sync_status: str = ""
    """The URL of the site's own account of its synchronisation, tunasync's or MirrorZ's JSON; empty if unknown."""

    @property
    def active(self) -> bool:
        """Whether files may be taken from it."""
        return self.status == ACTIVE


class _Match(NamedTuple):
    origin: str
    rest: str
    mirror: Mirror | None
    canonical: bool
    """Whether the URL is the origin's own (or conda's default alias for it)."""


class MirrorTable:
    """Origins and mirrors, in the order in which mirrors are offered. Immutable; equal tables compare equal.

    ``aliases`` (base -> origin) are further URLs of origins, recognised and never requested: if an origin has another
    canonical base (``replaced_bases``), conda's own URL still leads to it. ``own`` are the origins in the user's file
    and not in the shipped one: mirrors may serve these even if a login is needed. ``lone`` are hosts (``host[:port]``)
    without mirrors, even if their URLs look like an origin's.
    """

    __slots__ = ("_bases", "aliases", "lone", "mirrors", "origins", "own")

    def __init__(
        self,
        origins: Mapping[str, str],
        mirrors: tuple[Mirror, ...] = (),
        aliases: Mapping[str, str] | None = None,
        own: Iterable[str] = (),
        lone: Iterable[str] = (),
    ) -> None:
        self.aliases: Mapping[str, str] = dict(aliases or {})
        self.own = frozenset(own)
        self.lone = frozenset(lone)
        self.origins: Mapping[str, str] = {name: base.rstrip("/") for name, base in origins.items()}
        self.mirrors: tuple[Mirror, ...] = tuple(mirrors)
        # Later entries win: an active mirror over a retired one, a canonical URL over both.
        self._bases: dict[_Location, tuple[str, Mirror | None]] = {}
        for mirror in sorted(self.mirrors, key=lambda mirror: mirror.active):
            for origin, base in mirror.carries.items():
                self._enter(base, origin, mirror)
        for origin in (*(origin for mirror in self.mirrors for origin in mirror.carries), *self.origins):
            if origin.startswith(_CONDA):
                self._enter(f"{CHANNEL_ALIAS}/{origin.removeprefix(_CONDA)}", origin)
        for base, origin in self.aliases.items():
            self._enter(base, origin)
        for origin, base in self.origins.items():
            self._enter(base, origin)

    def _enter(self, base: str, origin: str, mirror: Mirror | None = None) -> None:
        if (location := _locate(base)) is not None:
            self._bases[location] = (origin, mirror)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MirrorTable):
            return NotImplemented
        return self.origins == other.origins and self.mirrors == other.mirrors

    def __hash__(self) -> int:
        return hash((tuple(self.origins.items()), tuple(mirror.name for mirror in self.mirrors)))

    def __repr__(self) -> str:
        return f"MirrorTable({len(self.origins)} origins, {[mirror.name for mirror in self.mirrors]})"

    def origin_of(self, url: str) -> tuple[str, str] | None:
        """The origin that ``url`` belongs to and the path below its base (no leading slash), or None.

        The longest known base wins, at a path boundary only; scheme, default port and the host's case do not count.
        A URL with a credential or a query has no origin: its content may be private.
        """
        match = self._find(url)
        return None if match is None else (match.origin, match.rest)

    def _find(self, url: str) -> _Match | None:
        location = _locate(url)
        if location is None:
            return None
        host, segments = location
        # A trailing slash matters to a simple index ("numpy/"), not to a base: it stays with the rest.
        slash = "/" if urlsplit(url).path.endswith("/") else ""

        def below(length: int) -> str:
            rest = "/".join(segments[length:])
            return rest + slash if rest else ""

        for length in range(len(segments), -1, -1):
            known = self._bases.get((host, segments[:length]))
            if known is not None:
                origin, mirror = known
                return _Match(origin, below(length), mirror, mirror is None)
        if (host, ()) == _locate(CHANNEL_ALIAS) and segments:
            return _Match(_CONDA + segments[0], below(1), None, canonical=True)
        file = None if host in self.lone else _PYPI_FILE.search("/" + "/".join(segments))
        return None if file is None else _Match(_PYPI_FILES, file[1], None, canonical=False)

    def base_of(self, origin: str) -> str | None:
        """The canonical base of an origin, or None if the table has none (PyPI's is the tools' own default)."""
        base = self.origins.get(origin)
        if base is None and origin.startswith(_CONDA):
            return f"{CHANNEL_ALIAS}/{origin.removeprefix(_CONDA)}"
        return base

    def canonical(self, url: str) -> str:
        """The canonical URL of ``url``; ``url`` itself without an origin or a known base."""
        match = self._find(url)
        base = None if match is None else self.base_of(match.origin)
        return url if match is None or base is None else join_url(base, match.rest)

    def mirror_at(self, url: str) -> Mirror | None:
        """The mirror of ``url``; None for an origin's own URL and for one without an origin."""
        match = self._find(url)
        return None if match is None else match.mirror

    def retired(self, url: str) -> Mirror | None:
        """The retired mirror of ``url``, for a warning; else None."""
        mirror = self.mirror_at(url)
        return None if mirror is None or mirror.active else mirror

    def sources(
        self, url: RedactedUrl, *, upstream: bool = True, only: frozenset[str] | None = None, private: bool = False
    ) -> tuple[Source, ...]:
        """Every URL of the file at ``url``: mirrors in the table's order, then the given one, then the canonical.

        ``upstream`` False leaves out the canonical URL, and a given one that may be it (a file of PyPI without a known
        base). ``only`` limits the result to these mirror names (``upstream`` and ``given`` are names too), perhaps to
        nothing. A URL without an origin is always returned, as its only source: the user named it. So is one with a
        credential, and a ``private`` one (with a login outside its URL), unless its origin is in the user's ``own``
        file: then mirrors serve it too, and the credential goes to its own host alone. Without ``upstream``, a URL on
        an origin's host that matches no origin because of ``..`` and the like has no source: the server could read it
        as the origin's.
        """
        has_login = has_credentials(url)
        plain = without_credentials(url).reveal() if has_login else url.reveal()
        match = self._find(plain)
        guarded = private or has_login
        if match is not None and guarded and not self._is_own(match, plain):
            match = None
        if match is None:
            return () if not upstream and self._may_climb_upstream(url.reveal()) else (Source(UPSTREAM, url),)
        offers = [
            Source(mirror.name, RedactedUrl(join_url(mirror.carries[match.origin], match.rest)), mirror.connections)
            for mirror in self.mirrors
            if mirror.active and match.origin in mirror.carries
        ]
        base = self.base_of(match.origin)
        if match.mirror is None and not match.canonical and (upstream or base is not None):
            offers.append(Source(GIVEN, RedactedUrl(url.reveal().partition("#")[0])))
        if base is not None and upstream:
            offers.append(Source(UPSTREAM, url if guarded else RedactedUrl(join_url(base, match.rest))))
        distinct: dict[str, Source] = {}
        for offer in offers:
            if only is None or offer.mirror in only:
                distinct.setdefault(offer.url.reveal(), offer)
        return tuple(distinct.values())

    def _is_own(self, match: _Match, plain: str) -> bool:
        """Whether the user's own file names this place for the origin."""
        return match.origin in self.own and _locate(join_url(self.origins[match.origin], match.rest)) == _locate(plain)

    def _may_climb_upstream(self, url: str) -> bool:
        """Whether ``url`` has an ambiguous path, on a host that serves an origin itself."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return False
        bases = (CHANNEL_ALIAS, *self.origins.values(), *self.aliases)
        return not is_plain_path(parts.path) and parts.hostname in {urlsplit(base).hostname for base in bases}

    def merge(self, other: MirrorTable) -> MirrorTable:
        """This table with the user's laid over it: its origins win; a mirror of the same name is extended in place.

        In an extended mirror each origin that ``other`` names is replaced or added, and so are title, home, note,
        connections and status where ``other`` sets them. New mirrors come after the known ones.
        """
        theirs = {mirror.name: mirror for mirror in other.mirrors}
        merged = [_extend(mirror, theirs.pop(mirror.name, None)) for mirror in self.mirrors]
        return MirrorTable(
            {**self.origins, **other.origins},
            (*merged, *theirs.values()),
            self.replaced_bases(other),
            {*self.own, *other.origins},
        )

    def replaced_bases(self, other: MirrorTable) -> dict[str, str]:
        """Base -> origin: this table's canonical URLs of origins for which ``other`` has another base."""
        moved = {base: name for name, base in self.origins.items() if other.origins.get(name, base) != base}
        return {**self.aliases, **moved}

    def names(self) -> Iterable[str]:
        """The mirrors' names, in order."""
        return (mirror.name for mirror in self.mirrors)


def is_plain_path(path: str) -> bool:
    """Whether every server reads this URL path alike: no ``..``, ``%2e``, empty segment or backslash.

    Slashes at the end do not count.
    """
    return "\\" not in path and not any(
        not segment or _DOTS.fullmatch(segment) for segment in path.rstrip("/").split("/")[1:]
    )


def join_url(base: str, rest: str) -> str:
    """``base`` and a path below it, with one slash between."""
    return f"{base}/{rest}" if rest else base


def _extend(known: Mirror, new: Mirror | None) -> Mirror:
    if new is None:
        return known
    return Mirror(
        name=known.name,
        title=new.title or known.title,
        home=new.home or known.home,
        connections=new.connections if new.connections is not None else known.connections,
        status=new.status,
        carries={**known.carries, **new.carries},
        note=new.note or known.note,
        operator=new.operator or known.operator,
        sync_status=new.sync_status or known.sync_status,
    )


def _locate(url: str) -> _Location | None:
    """Host and path segments of a URL, or None if it must not be mapped to another host.

    That is: a scheme other than http or https, a credential, a query, or a segment that could leave a base or that
    servers may read differently (``..``, ``%2e``, an empty one, a backslash). Trailing slashes and the fragment are
    dropped.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    scheme, path = parts.scheme, parts.path
    plain = f"{scheme}://{parts.netloc}{path}"
    if scheme not in _DEFAULT_PORTS or not host or parts.query or not is_plain_path(path) or redact(plain) != plain:
        return None
    segments = tuple(path.rstrip("/").split("/")[1:])
    if ":" in host:
        host = f"[{host}]"
    return host if port is None or port == _DEFAULT_PORTS[scheme] else f"{host}:{port}", segments
